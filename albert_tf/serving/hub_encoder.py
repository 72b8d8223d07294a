"""The encoder as a trainable SavedModel, which maps ids to all layers.

It has the common interface of TensorFlow Hub's text encoders, so that `hub.KerasLayer`
or a custom Keras layer can use it.
"""

import tensorflow as tf

from albert_tf.model import encoder as encoder_lib

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def make(encoder: encoder_lib.Encoder) -> tf.train.Checkpoint:
    """Returns the object for `tf.saved_model.save`.

    The result is called with a dict of int32 [B, S], which are `input_word_ids`,
    `input_mask` (1 at tokens, 0 at padding) and `input_type_ids` (the segments), and
    with `training`: whether to apply dropout, at the rates of the run, with new masks
    at each call. It returns a dict: `default` and `pooled_output` float32
    [B, H], `sequence_output` float32 [B, S, H], and `encoder_outputs`, a list of
    [B, S, H], one per layer. `variables` and `trainable_variables` are its weights.

    Args:
      encoder: with its weights.
    """

    @tf.function(autograph=False)
    def encode(inputs, training=False):
        seed = None
        if training:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        found = encoder(*(inputs[name] for name in INPUTS), dropout_seed=seed)
        return {
            "default": found.pooled_output,
            "pooled_output": found.pooled_output,
            "sequence_output": found.sequence_output,
            "encoder_outputs": list(found.all_layers),
        }

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in INPUTS}
    for training in (False, True):
        encode.get_concrete_function(specs, training=training)
    saved = tf.train.Checkpoint()
    saved.__call__ = encode
    saved.variables = list(encoder.variables)
    saved.trainable_variables = list(encoder.variables)
    saved.regularization_losses = []  # required by the interface
    return saved
