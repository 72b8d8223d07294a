"""tf.data pipelines from record shards to batches, for training and evaluation."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.data import record_parser, schema, shard_order

_WITHOUT_END = tf.data.INFINITE_CARDINALITY

InputFn = Callable[[tf.distribute.InputContext], tf.data.Dataset]


def train_input_fn(
    data_dir: str,
    manifest: schema.Manifest,
    config: config_lib.Config,
    first_step: int = 0,
) -> InputFn:
    """Returns an input function of endless training batches from step `first_step`.

    A global batch is made of equal parts, one from each stream of records. The streams
    divide each epoch evenly: no record is drawn more often than another. The records of
    a stream depend only on the seed, its number and the size of its part, and a host
    reads some of the streams. So a run that resumes at a step reads the same batches;
    and with the same `train.num_streams`, hosts and devices only divide the same
    batches in another way.

    Returns:
      A function of an input context, whose batches are those of one replica after
      another: the features of `schema.model_features`, with static shapes. It raises a
      ValueError if batches or shards cannot be divided.
    """
    num_records = [s.num_records for s in manifest.splits[schema.TRAIN].shards]
    run, parser = config.train, record_parser.Parser(manifest, config.data)

    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_hosts, num_replicas = (
            context.num_input_pipelines,
            context.num_replicas_in_sync,
        )
        check_division(run, len(num_records), num_hosts, num_replicas)
        num_streams = run.num_streams or num_hosts
        streams_per_host = num_streams // num_hosts
        first_stream = context.input_pipeline_id * streams_per_host
        part_size = run.batch_size // num_streams
        num_read = first_step * part_size
        orders = [
            shard_order.ShardOrder(num_records, run.seed, number, num_streams)
            for number in range(first_stream, first_stream + streams_per_host)
        ]
        streams = [
            _stream(data_dir, manifest, run, order, num_read) for order in orders
        ]
        parts = [stream.batch(part_size, drop_remainder=True) for stream in streams]
        shape = [num_replicas // num_hosts, run.batch_size // num_replicas]
        # Rows of the host's records in the global batch: part of the keys of masks.
        rows = first_stream * part_size + np.arange(np.prod(shape)).reshape(shape)

        def divide(step, parts):
            """Splits the host's part of a global batch, one element per replica."""
            records = tf.reshape(tf.concat(parts, 0), shape)
            steps = tf.repeat(step, shape[0])
            return tf.data.Dataset.from_tensor_slices((records, steps, rows))

        def parse(records, step, rows):
            return parser.parse(records, _keys([run.seed, step], rows))

        batches = tf.data.Dataset.zip(tuple(parts)).enumerate(first_step)
        # Parsed as a batch, with one call of parse_example.
        return (
            batches.flat_map(divide)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            # Otherwise several workers would ask one another before each batch.
            .apply(tf.data.experimental.assert_cardinality(_WITHOUT_END))
            .prefetch(tf.data.AUTOTUNE)
            .with_options(_options())
        )

    return input_fn


def check_division(
    run: config_lib.TrainConfig, num_shards: int, num_hosts: int, num_replicas: int
) -> None:
    """Checks that batches and shards can be divided among hosts and devices.

    Raises:
      ValueError: they cannot.
    """
    num_streams = run.num_streams or num_hosts
    if num_streams % num_hosts:
        raise ValueError(
            "train.num_streams must be 0 or a multiple of the number of hosts; "
            f"received {num_streams} for {num_hosts} hosts"
        )
    if num_shards < num_streams:
        raise ValueError(
            "there must be at least one training shard per stream, and one stream per "
            f"host; {num_shards} shards are too few for {num_streams} streams. Make "
            "the records again with a larger data.min_shards"
        )
    for what, divisor in (
        ("streams", num_streams),
        (
            "devices times train.accumulation_steps",
            num_replicas * run.accumulation_steps,
        ),
    ):
        if run.batch_size % divisor:
            raise ValueError(
                f"train.batch_size must be a multiple of the number of {what}; "
                f"received {run.batch_size} and {divisor}"
            )


def _stream(
    data_dir: str,
    manifest: schema.Manifest,
    run: config_lib.TrainConfig,
    order: shard_order.ShardOrder,
    num_read: int,
) -> tf.data.Dataset:
    """Returns the endless records of a stream after `num_read`, string scalars."""
    paths = tf.constant(_paths(data_dir, manifest.splits[schema.TRAIN].shards))

    def piece_records(shard, first, count):
        path = tf.gather(paths, shard)
        records = tf.data.TFRecordDataset(path, _compression(manifest))
        return records.skip(first).take(count)

    def group_records(group):
        pieces = tf.data.Dataset.from_tensor_slices(tuple(order.pieces(group)))
        records = pieces.interleave(
            piece_records,
            cycle_length=shard_order.GROUP_SIZE,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return records.shuffle(
            run.shuffle_buffer,
            order.shuffle_seed(group),
            reshuffle_each_iteration=False,
        )

    group, num_read = order.locate(num_read)
    return tf.data.Dataset.range(group, 2**62).flat_map(group_records).skip(num_read)


def eval_input_fn(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config
) -> tuple[InputFn, int]:
    """Returns an input function of the held-out records, read once in order.

    There are up to `train.eval_batches` batches. Dynamic masks are the same in each
    evaluation, on any devices.

    Returns:
      A function of an input context, and the number of batches of all replicas
      together. A replica takes every n-th; if their number is not a multiple of n, some
      take a batch of padding at the end. Each batch also has the feature
      `example_weights`, float32 [B]: 0 at examples that only fill up the batch, whose
      masked tokens have weight 0 too.
    """
    run, parser = config.train, record_parser.Parser(manifest, config.data)
    batch_size, split = run.eval_batch_size, manifest.splits[schema.HELDOUT]
    num_batches = -(-split.num_records // batch_size)
    num_batches = min(num_batches, run.eval_batches or num_batches)

    def parse_and_fill(number, serialized):
        keys = _keys([manifest.data["seed"], number], tf.range(tf.size(serialized)))
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

    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_replicas = context.num_replicas_in_sync
        per_host = num_replicas // context.num_input_pipelines
        num_rounds = -(-num_batches // num_replicas)
        records = tf.data.TFRecordDataset(
            _paths(data_dir, split.shards), _compression(manifest)
        )
        batches = records.batch(batch_size).take(num_batches)
        nothing = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
        batches = batches.concatenate(nothing.repeat()).enumerate()
        batches = batches.take(num_rounds * num_replicas).filter(
            lambda number, _: (
                number % num_replicas // per_host == context.input_pipeline_id
            )
        )
        batches = batches.map(parse_and_fill).prefetch(tf.data.AUTOTUNE)
        return batches.with_options(_options())

    return input_fn, num_batches


def _options() -> tf.data.Options:
    """Turns off autotuning, whose thread may take most of a minute to end."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def _paths(data_dir: str, shards: Sequence[schema.Shard]) -> list[str]:
    return [os.path.join(data_dir, shard.name) for shard in shards]


def _keys(parts: Sequence, rows) -> tf.Tensor:
    """Returns keys of records, int64 [B, K + 1]: K numbers, and the row [B]."""
    rows = tf.cast(rows, tf.int64)
    parts = [tf.broadcast_to(tf.cast(p, tf.int64), tf.shape(rows)) for p in parts]
    return tf.stack([*parts, rows], axis=1)


def _compression(manifest: schema.Manifest) -> str:
    return "GZIP" if manifest.data["compression"] == "gzip" else ""
