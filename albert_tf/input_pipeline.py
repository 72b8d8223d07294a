"""From record shards to batches: checks the manifest, then tf.data."""

import functools
import hashlib
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import masking, schema

# Shards read at a time; more would only help where one file is slower than a host.
_INTERLEAVE = 8

InputFn = Callable[[tf.distribute.InputContext], tf.data.Dataset]


def read_manifest(data_dir: str) -> schema.Manifest:
    """The manifest of a folder of records.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    path = os.path.join(data_dir, schema.MANIFEST_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"--data_dir must hold records and their {schema.MANIFEST_FILE}; "
            f"{path} is not there. Make them with data_prep.create_pretraining_data"
        )
    with tf.io.gfile.GFile(path) as file:
        try:
            return schema.Manifest.from_json(file.read())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def check_manifest(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config
) -> None:
    """Compares records and configuration, and looks whether every shard is whole.

    Raises:
      ValueError: names what differs, both values, and the remedy.
    """
    differences = [
        (
            "vocabulary size",
            config.model.vocab_size,
            manifest.vocab_size,
            "model.vocab_size",
        ),
        (
            "sequence length",
            config.data.max_seq_length,
            manifest.seq_length,
            "data.max_seq_length",
        ),
        (
            "pair loss",
            config.data.pair_loss,
            manifest.data["pair_loss"],
            "data.pair_loss",
        ),
        ("masking", config.data.masking, manifest.data["masking"], "data.masking"),
    ]
    if config.data.masking == "static":
        # Records without masks leave it to the trainer.
        differences.append(
            (
                "number of predictions",
                config.data.num_predictions,
                manifest.num_predictions,
                "data.max_predictions_per_seq",
            )
        )
    for what, ours, theirs, key in differences:
        if ours != theirs:
            raise ValueError(
                f"the {what} of the records in {data_dir} is {theirs}, but {key} makes "
                f"it {ours}; make the records anew or pass --set {key}={theirs}"
            )
    lower_case = manifest.data["lower_case"]
    if lower_case != config.data.lower_case:
        raise ValueError(
            f"data.lower_case was {lower_case} for the records in {data_dir} and is "
            f"{config.data.lower_case}; make the records anew or pass --set "
            f"data.lower_case={lower_case}"
        )
    for split in manifest.splits.values():
        for shard in split.shards:
            path = os.path.join(data_dir, shard.name)
            found = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None
            if found != shard.num_bytes:
                size = "is missing" if found is None else f"has {found} bytes"
                raise ValueError(
                    f"{path} {size}, but the manifest says {shard.num_bytes} bytes; "
                    "copy or make the records anew"
                )


def damaged_shards(data_dir: str, manifest: schema.Manifest) -> list[str]:
    """Paths of the shards whose bytes are not those of the manifest."""
    damaged = []
    for split in manifest.splits.values():
        for shard in split.shards:
            path = os.path.join(data_dir, shard.name)
            with tf.io.gfile.GFile(path, "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != shard.sha256:
                    damaged.append(path)
    return damaged


class Parser:
    """Records to what the model is fed, for one folder of records.

    Where the records are without masks, these are drawn here, by the same compiled
    loop that data_prep uses, from a stream keyed by what `parse` is told.
    """

    def __init__(self, manifest: schema.Manifest, data: config_lib.DataConfig):
        """Takes S and the form of records from the manifest, the masking from `data`.

        Args:
          manifest: of the records.
          data: says how to mask, if masking is dynamic.
        """
        self._manifest = manifest
        self._is_dynamic = manifest.data["masking"] == "dynamic"
        self._num_predictions = manifest.num_predictions
        self._whole_words = data.whole_words
        if self._is_dynamic:
            self._num_predictions = data.num_predictions
            ids = np.arange(manifest.vocab_size)
            self._law = masking.make_law(
                data.max_ngram,
                data.ngram_law,
                data.masked_lm_rate,
                data.num_predictions,
                manifest.seq_length,
                manifest.mask_id,
                np.setdiff1d(ids, manifest.reserved_ids),
            )

    def parse(self, serialized, keys) -> dict[str, tf.Tensor]:
        """What the model is fed, from a batch of records.

        Args:
          serialized: string [B], records as `schema.record_features` describes them.
          keys: int64 [B, K], what the masks of each follow from, if they are drawn.

        Returns:
          The tensors of `schema.model_features(S, P)`, with a leading axis B.
        """
        manifest = self._manifest
        features = schema.record_features(manifest.data["masking"])
        parsed = tf.io.parse_example(
            serialized,
            {
                name: tf.io.FixedLenFeature(
                    [], tf.int64 if kind == "int64" else tf.string
                )
                for name, kind in features.items()
            },
        )
        id_dtype, seq_length = schema.id_dtype(manifest.vocab_size), manifest.seq_length
        num_tokens = _num_items(parsed["input_ids"], id_dtype)  # [B, 1]
        segment_a = tf.cast(parsed["segment_a_length"], tf.int32)[:, None]  # [B, 1]
        place = tf.range(seq_length)[None]  # [1, S]
        common = {
            "input_ids": _decode(parsed["input_ids"], id_dtype, seq_length),
            "input_mask": tf.cast(place < num_tokens, tf.int32),
            "segment_ids": tf.cast(
                (place >= segment_a) & (place < num_tokens), tf.int32
            ),
            "next_sentence_labels": tf.cast(parsed["next_sentence_labels"], tf.int32),
        }
        if self._is_dynamic:
            masked = self._mask(
                common["input_ids"], num_tokens, segment_a, parsed, keys
            )
            return common | masked
        return common | self._masked(parsed, id_dtype)

    def _masked(self, parsed, id_dtype: str) -> dict[str, tf.Tensor]:
        """The masks that the records hold."""
        num_predictions = self._num_predictions
        num_masked = _num_items(parsed["masked_lm_ids"], id_dtype)  # [B, 1]
        return {
            "masked_lm_positions": _decode(
                parsed["masked_lm_positions"], schema.POSITION_DTYPE, num_predictions
            ),
            "masked_lm_ids": _decode(
                parsed["masked_lm_ids"], id_dtype, num_predictions
            ),
            "masked_lm_weights": tf.cast(
                tf.range(num_predictions)[None] < num_masked, tf.float32
            ),
        }

    def _mask(self, input_ids, num_tokens, segment_a, parsed, keys):
        """Masks drawn anew; `input_ids` with them."""
        num_bytes = -(-self._manifest.seq_length // 8)
        bits = tf.io.decode_raw(
            parsed["is_word_start"], tf.uint8, fixed_length=num_bytes
        )  # [B, num_bytes]
        shape = [None, self._num_predictions]
        masked_ids, positions, labels, weights = tf.numpy_function(
            self._mask_arrays,
            [input_ids, num_tokens, segment_a, bits, keys],
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        return {
            "input_ids": tf.ensure_shape(masked_ids, input_ids.shape),
            "masked_lm_positions": tf.ensure_shape(positions, shape),
            "masked_lm_ids": tf.ensure_shape(labels, shape),
            "masked_lm_weights": tf.ensure_shape(weights, shape),
        }

    def _mask_arrays(self, input_ids, num_tokens, segment_a, bits, keys):
        return masking.mask_batch(
            input_ids,
            num_tokens[:, 0],
            segment_a[:, 0],
            bits,
            self._whole_words,
            self._law,
            keys.astype(np.uint64),
            self._num_predictions,
        )


def _num_items(data, dtype: str):
    return (tf.strings.length(data) // np.dtype(dtype).itemsize)[:, None]


def _decode(data, dtype: str, length: int):
    num_bytes = length * np.dtype(dtype).itemsize
    # Bytes that are not there read as 0, which is the padding id.
    values = tf.io.decode_raw(data, tf.as_dtype(dtype), fixed_length=num_bytes)
    return tf.cast(tf.ensure_shape(values, [None, length]), tf.int32)


def train_input_fn(
    data_dir: str,
    manifest: schema.Manifest,
    config: config_lib.Config,
    first_step: int = 0,
) -> InputFn:
    """An input function of endless training batches from step `first_step` on.

    The order of an epoch depends on (seed, epoch) alone, so a run that starts again
    at a step reads what it would have read, and only skips within one epoch.
    """
    shards = manifest.splits[schema.TRAIN].shards
    run, parser = config.train, Parser(manifest, config.data)

    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        own = shards[context.input_pipeline_id :: context.num_input_pipelines]
        if not own:
            raise ValueError(
                f"there must be at least one shard a host; {len(shards)} shards are "
                f"too few for {context.num_input_pipelines} hosts. Make the records "
                "anew with a larger data.min_shards"
            )
        batch_size = context.get_per_replica_batch_size(run.batch_size)
        batch_size *= context.num_replicas_in_sync // context.num_input_pipelines
        records_read = first_step * batch_size
        records_per_epoch = sum(shard.num_records for shard in own)
        paths, compression = _paths(data_dir, own), _compression(manifest)
        seed, pipeline = run.seed, context.input_pipeline_id

        def epoch_records(epoch):
            key = tf.stack([tf.constant(seed, tf.int64), epoch])
            order = tf.random.experimental.stateless_shuffle(paths, key)
            records = tf.data.Dataset.from_tensor_slices(order).interleave(
                functools.partial(
                    tf.data.TFRecordDataset, compression_type=compression
                ),
                cycle_length=min(_INTERLEAVE, len(own)),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )
            shuffle_seed = tf.random.stateless_uniform([], key, 1, 2**31, tf.int64)
            return records.shuffle(
                run.shuffle_buffer, shuffle_seed, reshuffle_each_iteration=False
            )

        epochs = tf.data.Dataset.range(records_read // records_per_epoch, 2**62)
        records = epochs.flat_map(epoch_records).skip(records_read % records_per_epoch)
        # Batched before it is parsed: one call of parse_example for the batch.
        batches = records.batch(batch_size, drop_remainder=True)
        batches = batches.enumerate(first_step).map(
            lambda step, batch: parser.parse(
                batch, _keys([seed, pipeline, step], batch)
            ),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return batches.prefetch(tf.data.AUTOTUNE)

    return input_fn


def eval_dataset(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config
) -> tf.data.Dataset:
    """The held-out records once, in order, up to `train.eval_batches` batches.

    Where masks are drawn here, they are the same every time.

    Each batch has a feature more, `example_weights` float32 [B]: 0 at examples which
    only fill up the last batch, whose masked tokens weigh 0 too.
    """
    batch_size, parser = config.train.eval_batch_size, Parser(manifest, config.data)
    paths = _paths(data_dir, manifest.splits[schema.HELDOUT].shards)
    batches = tf.data.TFRecordDataset(paths, _compression(manifest)).batch(batch_size)
    if config.train.eval_batches:
        batches = batches.take(config.train.eval_batches)

    def parse_and_fill(number, serialized):
        keys = _keys([manifest.data["seed"], number], serialized)
        features = parser.parse(serialized, keys)
        features["example_weights"] = tf.ones_like(serialized, tf.float32)
        missing = batch_size - tf.shape(serialized)[0]
        filled = {}
        for name, values in features.items():
            padding = [[0, missing]] + [[0, 0]] * (values.shape.rank - 1)
            filled[name] = tf.ensure_shape(
                tf.pad(values, padding), [batch_size, *values.shape[1:]]
            )
        return filled

    return batches.enumerate().map(parse_and_fill).prefetch(tf.data.AUTOTUNE)


def _paths(data_dir: str, shards: Sequence[schema.Shard]) -> list[str]:
    return [os.path.join(data_dir, shard.name) for shard in shards]


def _keys(parts: Sequence, serialized) -> tf.Tensor:
    """The keys of a batch's records, int64 [B, K + 1]: K numbers, and the place."""
    place = tf.range(tf.size(serialized, tf.int64))  # [B]
    parts = [tf.broadcast_to(tf.cast(p, tf.int64), tf.shape(place)) for p in parts]
    return tf.stack([*parts, place], axis=1)


def _compression(manifest: schema.Manifest) -> str:
    return "GZIP" if manifest.data["compression"] == "gzip" else ""
