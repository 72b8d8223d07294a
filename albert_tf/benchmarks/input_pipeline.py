"""The input pipeline alone: its rate, the original's, and the time to seek a step."""

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from albert_tf.benchmarks import figures, rounds
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, row_shapes
from albert_tf.data import input_pipeline, schema, shard_order
from albert_tf.data import manifest as manifest_lib

MIN_RATE = 80_000.0  # examples a second: one host of a TPU v3-8
_NUM_DEVICES = 8  # of a TPU v3-8
_BATCH_SIZE = 4096  # the paper's
_WARMUP_BATCHES = 16  # of 512; they fill the shuffle buffer
_POSITION_STEPS = (10**3, 10**6, 10**9)
_MAX_POSITION_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Host:
    """The attributes of tf.distribute.InputContext that input functions read."""

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = _NUM_DEVICES


@dataclasses.dataclass(frozen=True)
class Rate:
    """Examples per second of wall time, and per second of all cores together."""

    per_second: float
    per_core_second: float


def albert_tf_input(data_dir: str, config: config_lib.Config) -> Callable[[], Iterator]:
    """Returns a function that starts to read as a host of eight devices does."""
    config = config_io.override(config, [f"train.batch_size={_BATCH_SIZE}"])
    manifest = manifest_lib.read_manifest(data_dir)
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config)
    return lambda: iter(input_fn(Host()))


def write_original_records(data_dir: str, config: config_lib.Config, path: str) -> None:
    """Writes one batch in the original's format: lists of padded int64.

    Args:
      data_dir: this project's records.
      config: their recipe.
      path: the file to write.
    """
    batches = albert_tf_input(data_dir, config)()
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(_NUM_DEVICES):
            arrays = {name: value.numpy() for name, value in next(batches).items()}
            for row in range(len(arrays["input_ids"])):
                example = tf.train.Example()
                for name, values in arrays.items():
                    feature, numbers = example.features.feature[name], values[row]
                    if values.dtype == "float32":
                        feature.float_list.value.extend(numbers)
                    else:
                        feature.int64_list.value.extend(numbers.reshape(-1))
                writer.write(example.SerializeToString())


def original_input(
    path: str, seq_length: int, num_predictions: int
) -> Callable[[], Iterator]:
    """Returns a function that starts to read as the original does, example by example.

    Args:
      path: a file of `write_original_records`.
      seq_length: S.
      num_predictions: P.
    """
    dtypes = {"int32": tf.int64, "float32": tf.float32}
    features = {
        name: tf.io.FixedLenFeature(shape or (1,), dtypes[dtype])
        for name, (dtype, shape) in schema.model_features(
            row_shapes.RowShape(seq_length, num_predictions)
        ).items()
    }

    def parse(record):
        example = tf.io.parse_single_example(record, features)
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in example.items()
        }

    def start():
        records = tf.data.TFRecordDataset(path).repeat().shuffle(100)
        batch_size = _BATCH_SIZE // _NUM_DEVICES
        parsed = records.map(parse, num_parallel_calls=4)
        return iter(parsed.batch(batch_size, drop_remainder=True).prefetch(2))

    return start


def measure_rate(start: Callable[[], Iterator], seconds: float) -> Rate:
    """The rate of a new iterator, after a warm-up."""
    batches = start()
    for _ in range(_WARMUP_BATCHES):
        next(batches)
    count, processor, started = 0, time.process_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        count += int(next(batches)["input_ids"].shape[0])
    processor = time.process_time() - processor
    return Rate(count / elapsed, count / processor)


def rate_figures(
    inputs: Mapping[str, Callable[[], Iterator]], num_rounds: int, seconds: float
) -> list[figures.Figure]:
    """Rates of several inputs, measured in rounds.

    Args:
      inputs: by name; the names of the original's contain "original".
      num_rounds: how often each is measured.
      seconds: duration of one measurement.
    """
    measurements = {
        name: functools.partial(measure_rate, start, seconds)
        for name, start in inputs.items()
    }
    rates, _ = rounds.run_rounds(measurements, num_rounds)
    found = []
    for name, its_rates in rates.items():
        target = {} if "original" in name else {"at_least": MIN_RATE}
        per_second = [rate.per_second for rate in its_rates]
        per_core_second = [rate.per_core_second for rate in its_rates]
        group, unit = "input alone", "examples/s"
        found += [
            figures.median_figure(group, name, per_second, unit, **target),
            figures.median_figure(
                group, f"{name}, per core second", per_core_second, unit
            ),
        ]
    return found


def seconds_of_step(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config, seconds: float
) -> float:
    """Seconds that the input pipeline alone takes for a batch, on one device."""
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config)
    host = Host(num_replicas_in_sync=1)
    rate = measure_rate(lambda: iter(input_fn(host)), seconds)
    return config.train.batch_size / rate.per_second


def seconds_to_first_batch(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config, step: int
) -> float:
    """Seconds until the batch of a step is available."""
    started = time.perf_counter()
    input_fn = input_pipeline.train_input_fn(data_dir, manifest, config, step)
    next(iter(input_fn(Host(num_replicas_in_sync=1))))
    return time.perf_counter() - started


def position_figures(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config, repeats: int
) -> list[figures.Figure]:
    """Time to seek a step, near or far.

    The last figure is the time to skip a whole group of shards of full size, at the
    rate at which records were skipped here.
    """
    group = "first batch of a resumed run"
    found = []
    shards = manifest.splits[schema.TRAIN].shards
    order = shard_order.ShardOrder([s.num_records for s in shards], config.train.seed)
    batch_size = config.train.batch_size

    def add(name: str, step: int) -> float:
        skipped = order.locate(step * batch_size)[1]
        samples = [
            seconds_to_first_batch(data_dir, manifest, config, step)
            for _ in range(repeats)
        ]
        name = f"{name}, {skipped:,} records to skip"
        figure = figures.median_figure(
            group, name, samples, "s", at_most=_MAX_POSITION_SECONDS
        )
        found.append(figure)
        return figure.value

    seconds_at_start = add("step 0", 0)
    for step in _POSITION_STEPS:
        add(f"step {step:,}", step)
    last = last_step_of_group(order, batch_size)
    seconds_at_end = add(f"step {last:,}, where a group ends", last)
    num_skipped = max(1, order.locate(last * batch_size)[1])
    rate = num_skipped / max(seconds_at_end - seconds_at_start, 1e-3)
    size = sum(s.num_bytes for s in shards) / sum(s.num_records for s in shards)
    full = shard_order.GROUP_SIZE * config.data.shard_megabytes * 1e6 / size
    name = f"(full shards: {full:,.0f} records to skip, at this rate)"
    limit = _MAX_POSITION_SECONDS
    found.append(figures.Figure(group, name, full / rate, "s", at_most=limit))
    return found


def last_step_of_group(order: shard_order.ShardOrder, batch_size: int) -> int:
    """The last step that starts within the first group: most records are skipped."""
    step = 0
    while order.locate((step + 1) * batch_size)[0] == 0:
        step += 1
    return step


def record_settings(seq_length: int, masking: str, compression: str) -> list[str]:
    """The settings of a set of records, as `--set` takes them."""
    return [
        f"data.max_seq_length={seq_length}",
        f"model.max_positions={max(seq_length, 128)}",
        f"data.masking={masking}",
        f"data.compression={compression}",
        # The original's records hold one sequence.
        "data.pack_sequences=0",
    ]


def original_path(work_dir: str, seq_length: int) -> str:
    """Path of the records in the original's format."""
    return os.path.join(work_dir, f"original-{seq_length}.tfrecord")
