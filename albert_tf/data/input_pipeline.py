"""tf.data pipelines from record shards to batches, for training and evaluation."""

import collections
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.core import stages as stages_lib
from albert_tf.data import mixture as mixture_lib
from albert_tf.data import record_parser, schema, shard_order
from albert_tf.data import sources as sources_lib

# TensorFlow's own default, which it prints a line about if it is not given.
_READ_BYTES = 256 << 10
_WITHOUT_END = tf.data.INFINITE_CARDINALITY

InputFn = Callable[[tf.distribute.InputContext], tf.data.Dataset]
# No function of a dataset has conditions or loops over tensors, and looking for them
# takes a seventh of the CPU time of a training of a few steps.
_without_autograph = tf.autograph.experimental.do_not_convert


def train_input_fn(
    data_dir: str,
    manifest: schema.Manifest,
    config: config_lib.Config,
    first_step: int = 0,
) -> InputFn:
    """Returns an input function of a run that reads one directory, in one stage.

    It is that of `run_input_fn`.
    """
    run = (sources_lib.of_directory(data_dir, manifest, config),)
    return run_input_fn(run, first_step)


def run_input_fn(
    run: Sequence[sources_lib.StageRecords], first_step: int = 0, begin: int = 0
) -> InputFn:
    """Returns an input function of endless training batches from step `first_step`.

    A global batch is made of equal parts, one from each stream of records. The streams
    divide each epoch evenly: no record is drawn more often than another. The records of
    a stream depend only on the seed, its number and the size of its part, and a host
    reads some of the streams. So a run that resumes at a step reads the same batches;
    and with the same `train.num_streams`, hosts and devices only divide the same
    batches in another way.

    The batches are those of the stage of the step after `first_step`. A stage begins
    with the first epoch of its records, or where the last stage that read them stopped.

    Args:
      run: the stages of the run and their records.
      first_step: steps of the run before the first batch.
      begin: the step at which reading began, from the beginning of all records.

    Returns:
      A function of an input context, whose batches are those of one replica after
      another: the features of `schema.model_features`, with static shapes. It raises a
      ValueError if the batches or shards of any stage cannot be divided.
    """
    stage = stages_lib.after([records.stage for records in run], first_step)
    read = [
        (records, _num_steps(records.stage, stage, first_step, begin))
        for records in run[: stage.number]
    ]
    settings, sources = stage.config.train, read[-1][0].sources
    parser = record_parser.Parser(sources[0].manifest, stage.config.data)
    # Part of the keys of masks, so that no later stage draws those masks again.
    first_key = sum(
        num_steps
        for records, num_steps in read
        if {s.data_dir for s in records.sources} & {s.data_dir for s in sources}
    )

    @_without_autograph
    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_hosts, num_replicas = (
            context.num_input_pipelines,
            context.num_replicas_in_sync,
        )
        for records in run:
            _check_stage(records, num_hosts, num_replicas)
        num_streams = settings.num_streams or num_hosts
        streams_per_host = num_streams // num_hosts
        first_stream = context.input_pipeline_id * streams_per_host
        part_size = settings.batch_size // num_streams
        streams = [
            _stream(read, number, num_streams)
            for number in range(first_stream, first_stream + streams_per_host)
        ]
        parts = [stream.batch(part_size, drop_remainder=True) for stream in streams]
        shape = [num_replicas // num_hosts, settings.batch_size // num_replicas]
        # Rows of the host's records in the global batch: part of the keys of masks.
        rows = first_stream * part_size + np.arange(np.prod(shape)).reshape(shape)

        def divide(step, parts):
            """Splits the host's part of a global batch, one element per replica."""
            records = tf.reshape(tf.concat(parts, 0), shape)
            steps = tf.repeat(step, shape[0])
            return tf.data.Dataset.from_tensor_slices((records, steps, rows))

        def parse(records, step, rows):
            return parser.parse(records, _keys([settings.seed, step], rows))

        batches = tf.data.Dataset.zip(tuple(parts)).enumerate(first_key)
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


def _num_steps(
    earlier: stages_lib.Stage, stage: stages_lib.Stage, step: int, begin: int
) -> int:
    """Returns how many steps of a stage were read before a step of `stage`."""
    end = step if earlier is stage else earlier.last_step
    return max(end - max(earlier.first_step, begin), 0)


def _check_stage(
    records: sources_lib.StageRecords, num_hosts: int, num_replicas: int
) -> None:
    for source in records.sources:
        num_shards = len(source.manifest.splits[schema.TRAIN].shards)
        run, prefix = records.stage.config.train, records.stage.prefix
        check_division(run, num_shards, num_hosts, num_replicas, prefix)


def check_division(
    run: config_lib.TrainConfig,
    num_shards: int,
    num_hosts: int,
    num_replicas: int,
    prefix: str = "train",
) -> None:
    """Checks that batches and shards can be divided among hosts and devices.

    Args:
      run: the settings, or those of a stage.
      num_shards: of a directory of records.
      num_hosts: that read records.
      num_replicas: that share a batch.
      prefix: of the keys of the settings, for errors.

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
            f"devices times {prefix}.accumulation_steps",
            num_replicas * run.accumulation_steps,
        ),
    ):
        if run.batch_size % divisor:
            raise ValueError(
                f"{prefix}.batch_size must be a multiple of the number of {what}; "
                f"received {run.batch_size} and {divisor}"
            )


# Stages with their numbers of steps, up to the one that is read.
_Read = Sequence[tuple[sources_lib.StageRecords, int]]


def _stream(read: _Read, stream: int, num_streams: int) -> tf.data.Dataset:
    """Returns the endless records of a stream of the last stage, string scalars.

    Args:
      read: the stages so far, and how many steps of each were read.
      stream: the number of the stream.
      num_streams: of the run.
    """
    num_read = _num_read(read, stream, num_streams)
    records, steps = read[-1]
    settings = records.stage.config.train
    datasets = []
    for source in records.sources:
        num_records = [
            shard.num_records for shard in source.manifest.splits[schema.TRAIN].shards
        ]
        order = shard_order.ShardOrder(num_records, settings.seed, stream, num_streams)
        datasets.append(
            _source_stream(source, settings, order, num_read[source.data_dir])
        )
    if len(datasets) == 1:
        return datasets[0]
    turns = _mixture(records, stream, num_streams).turns_after(
        steps * (settings.batch_size // num_streams)
    )
    return tf.data.Dataset.choose_from_datasets(
        datasets, tf.data.Dataset.from_tensor_slices(turns).repeat()
    )


def _num_read(read: _Read, stream: int, num_streams: int) -> collections.Counter[str]:
    """Returns how many records a stream has read of each directory."""
    num_read: collections.Counter[str] = collections.Counter()
    for records, num_steps in read:
        part_size = records.stage.config.train.batch_size // num_streams
        drawn = _mixture(records, stream, num_streams).num_drawn(num_steps * part_size)
        for source, count in zip(records.sources, drawn, strict=True):
            num_read[source.data_dir] += count
    return num_read


def _mixture(
    records: sources_lib.StageRecords, stream: int, num_streams: int
) -> mixture_lib.Mixture:
    weights = [source.weight for source in records.sources]
    part_size = records.stage.config.train.batch_size // num_streams
    return mixture_lib.Mixture(weights, stream, part_size)


def _source_stream(
    source: sources_lib.Source,
    run: config_lib.TrainConfig,
    order: shard_order.ShardOrder,
    num_read: int,
) -> tf.data.Dataset:
    """Returns the endless records of a stream of a source after `num_read`."""
    manifest = source.manifest
    paths = tf.constant(_paths(source.data_dir, manifest.splits[schema.TRAIN].shards))

    def piece_records(shard, first, count):
        path = tf.gather(paths, shard)
        records = tf.data.TFRecordDataset(path, _compression(manifest), _READ_BYTES)
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

    @_without_autograph
    def input_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_replicas = context.num_replicas_in_sync
        per_host = num_replicas // context.num_input_pipelines
        num_rounds = -(-num_batches // num_replicas)
        records = tf.data.TFRecordDataset(
            _paths(data_dir, split.shards), _compression(manifest), _READ_BYTES
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
