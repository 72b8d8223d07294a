"""Batches of pre-training as NumPy files, for implementations without TensorFlow.

A directory holds one file NAME.npy for each feature of `schema.model_features`, of
shape [N, B, ...] for N batches. The values are small integers; masks have one byte.
"""

import os

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import row_shapes
from albert_tf.data import input_pipeline, schema
from albert_tf.devices import strategies

# Ids and positions need two bytes, unless the vocabulary is larger.
_DTYPES = {
    "input_mask": "uint8",
    "segment_ids": "uint8",
    "masked_lm_positions": "uint16",
    "masked_lm_weights": "uint8",
    "next_sentence_labels": "int8",
}


def write_training(
    data_dir: str,
    manifest: schema.Manifest,
    config: config_lib.Config,
    num_batches: int,
    output_dir: str,
) -> None:
    """Writes the batches of the first steps of a run on one device.

    Args:
      data_dir: records.
      manifest: theirs.
      config: the recipe.
      num_batches: N.
      output_dir: is created.
    """
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config)
    _write(input_fn, num_batches, manifest, output_dir)


def write_heldout(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config, output_dir: str
) -> None:
    """Writes the held-out batches that a run evaluates.

    Takes what `write_training` does. Examples that only fill up the last batch have no
    masked tokens of weight 1.
    """
    input_fn, num_batches = input_pipeline.eval_input_fn(data_dir, manifest, config)
    _write(input_fn, num_batches, manifest, output_dir)


def _write(
    input_fn: input_pipeline.InputFn,
    num_batches: int,
    manifest: schema.Manifest,
    output_dir: str,
) -> None:
    os.makedirs(output_dir, exist_ok=True)
    one_device = strategies.create_strategy()
    batches = strategies.distribute_dataset(one_device, input_fn)
    row = row_shapes.RowShape(manifest.seq_length, manifest.num_predictions)
    features = schema.model_features(row)
    arrays: dict[str, np.memmap] = {}
    for number, batch in zip(range(num_batches), batches, strict=False):
        for name in features:
            values = batch[name].numpy()
            if number == 0:
                dtype = _DTYPES.get(name, schema.id_dtype(manifest.vocab_size))
                arrays[name] = np.lib.format.open_memmap(
                    os.path.join(output_dir, f"{name}.npy"),
                    mode="w+",
                    dtype=dtype,
                    shape=(num_batches, *values.shape),
                )
            arrays[name][number] = values
    for array in arrays.values():
        array.flush()
