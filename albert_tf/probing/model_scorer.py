"""A pre-training model in this process as a function that scores tokens."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.devices import strategies
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder, pretraining_model, token_scores
from albert_tf.probing import scoring, settings

_ROWS, _NUMBERS = (tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None]))


def scoring_form(dtype: str, jit_compile: str) -> compute_lib.Compute:
    """Returns how a model scores tokens fastest.

    In float32, oneDNN fuses as well as XLA. Otherwise XLA is faster; without it, oneDNN
    fuses the activation function with the product before it if both have one dtype.
    With "on" XLA fuses as with "auto": compiling the whole model takes long, and
    sentences have many lengths.

    Args:
      dtype: of the blocks.
      jit_compile: `train.jit_compile` of the model's run.
    """
    may_fuse = jit_compile != "off" and strategies.fuses_elementwise("auto")
    fuses = may_fuse and dtype != "float32"
    elementwise = "float32" if fuses else dtype
    return compute_lib.Compute(dtype, fuses, elementwise_dtype=elementwise)


def make_score_tokens(
    model: pretraining_model.PretrainingModel,
    batch_tokens: int = settings.BATCH_TOKENS,
) -> scoring.ScoreTokens:
    """Returns a function that scores tokens, with the weights that `model` has now.

    The weights of its blocks are cast once. If XLA is to fuse operations of the model,
    the rows of a batch are joined to one of `batch_tokens`: it compiles for each shape,
    and rows have many lengths.

    Args:
      model: a pre-training model.
      batch_tokens: as in `scoring.Scorer`. A batch with more tokens is compiled for
        their number.
    """
    replacements = pretraining_model.cast_blocks(model)
    table = model.encoder.embeddings.word_embeddings

    def encode_at(input_ids, input_mask, segment_ids, positions, packing=None):
        weights = compute_lib.WeightCache(model.compute.dtype, replacements)
        return model.encoder.encode_at(
            input_ids,
            input_mask,
            segment_ids,
            positions,
            weights=weights,
            packing=packing,
        )

    def make_run(encode: Callable) -> Callable:
        @tf.function(input_signature=[_ROWS, _ROWS, *[_NUMBERS] * 3], autograph=False)
        def traced(*inputs):
            return token_scores.log_probabilities(
                encode,
                lambda hidden: model.masked_lm.scores_of(hidden, table).logits,
                *inputs,
            )

        return traced

    if not model.compute.fuse_elementwise:
        return of_arrays(make_run(encode_at))

    @functools.cache
    def run_of_size(num_tokens: int) -> Callable:
        return make_run(functools.partial(_encode_joined, encode_at, num_tokens))

    def run(input_ids, *others):
        return run_of_size(max(batch_tokens, input_ids.shape.num_elements()))(
            input_ids, *others
        )

    return of_arrays(run)


def _encode_joined(
    encode_at: Callable, num_tokens: int, input_ids, input_mask, segment_ids, positions
):
    """Encodes rows of one length as one row of `num_tokens`, a static number.

    Args:
      encode_at: as `encoder.Encoder.encode_at`.
      num_tokens: at least those of the rows.
      input_ids: int32 [R, S].
      input_mask: int32 [R, S], all 1.
      segment_ids: int32 [R, S].
      positions: int32 [R, 1].

    Returns:
      float32 [R, 1, H], as `encode_at` does.
    """
    del input_mask
    num_rows, length = tf.shape(input_ids)[0], tf.shape(input_ids)[1]

    def join(rows):  # [R, S]
        missing = num_tokens - num_rows * length
        joined = tf.pad(tf.reshape(rows, [1, -1]), [[0, 0], [0, missing]])
        return tf.ensure_shape(joined, [1, num_tokens])

    num_sequences = num_tokens // length  # as many as fit
    position_ids = tf.range(num_tokens)[None] % length  # [1, num_tokens]
    positions = tf.pad(positions[:, 0], [[0, num_sequences - num_rows]])
    hidden = encode_at(
        join(input_ids),
        None,
        join(segment_ids),
        (tf.range(num_sequences) * length + positions)[None],
        packing=encoder.Packing(position_ids, sequence_length=length),
    )  # [1, num_sequences, H]
    return hidden[0, :num_rows, None]


def of_arrays(run: Callable) -> scoring.ScoreTokens:
    """Returns a function of arrays for one of tensors.

    Args:
      run: takes `input_ids`, `input_mask`, `positions`, `target_rows` and `target_ids`
        as `token_scores.log_probabilities` does, and returns what it returns.
    """

    def score_tokens(
        input_ids: np.ndarray,
        positions: np.ndarray,
        target_rows: np.ndarray,
        target_ids: np.ndarray,
    ) -> np.ndarray:
        mask = np.ones_like(input_ids)
        inputs = input_ids, mask, positions, target_rows, target_ids
        return run(*map(tf.constant, inputs)).numpy()

    return score_tokens
