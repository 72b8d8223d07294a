"""The parts of training around the model: input, loop, checkpoints, startup."""

import os
from collections.abc import Callable, Iterator, Sequence

from albert_tf.benchmarks import (
    checkpointing,
    figures,
    records,
    setup,
    startup,
    train_steps,
    weight_average,
)
from albert_tf.benchmarks import input_pipeline as input_pipeline_benchmark
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import manifest as manifest_lib

# Enough shards for three groups, so that a resumed run seeks among them.
_MIN_SHARDS = 24
# Sequence length, masking, compression.
_INPUTS = (
    (128, "static", "none"),
    (128, "dynamic", "none"),
    (128, "static", "gzip"),
    (512, "static", "none"),
    (512, "dynamic", "none"),
    (512, "static", "gzip"),
)


def collect_inputs(
    config: config_lib.Config, data_dir: str, work_dir: str
) -> dict[str, Callable[[], Iterator]]:
    """The inputs to time, by name: of one folder of records, or of all kinds.

    Args:
      config: the recipe.
      data_dir: records; empty means to make some of each kind.
      work_dir: keeps these.
    """
    if data_dir:
        start = input_pipeline_benchmark.albert_tf_input(data_dir, config)
        return {"records of --data_dir": start}
    found: dict[str, Callable[[], Iterator]] = {}
    for seq_length, masking, compression in _INPUTS:
        settings = input_pipeline_benchmark.record_settings(
            seq_length, masking, compression
        )
        changed = config_io.override(config, settings)
        folder = records.make_records(work_dir, changed)
        name = f"{masking} masks, length {seq_length}"
        name += ", gzip" if compression == "gzip" else ""
        found[name] = input_pipeline_benchmark.albert_tf_input(folder, changed)
        if (masking, compression) == ("static", "none"):
            path = input_pipeline_benchmark.original_path(work_dir, seq_length)
            input_pipeline_benchmark.write_original_records(folder, changed, path)
            num_predictions = changed.data.num_predictions
            found[f"as the original, length {seq_length}"] = (
                input_pipeline_benchmark.original_input(
                    path, seq_length, num_predictions
                )
            )
    return found


def measure(
    config: config_lib.Config,
    data_dir: str,
    work_dir: str,
    parts: Sequence[str],
    num_rounds: int,
    seconds: float,
    num_repeats: int,
) -> list[figures.Figure]:
    """Measures parts of training.

    Args:
      config: the recipe.
      data_dir: records that fit it; empty means to make some.
      work_dir: keeps the records that are made; an absolute path.
      parts: some of "steps", "average", "checkpoint", "start", "position" and "input".
      num_rounds: how often each step function is timed.
      seconds: approximate duration of one measurement.
      num_repeats: how often everything else is measured.

    Raises:
      ValueError: the records do not fit the recipe, or a process failed.
    """
    if not data_dir:
        config = config_io.override(config, [f"data.min_shards={_MIN_SHARDS}"])
    folder = data_dir or records.make_records(work_dir, config)
    manifest = manifest_lib.read_manifest(folder)
    manifest_lib.check_manifest(folder, manifest, config)
    found: list[figures.Figure] = []
    files.make_folder(work_dir)
    if "steps" in parts:
        found += train_steps.measure(config, folder, manifest, num_rounds, seconds)
    if "average" in parts:
        found += weight_average.measure(config, num_rounds, seconds)
    if "checkpoint" in parts:
        path = os.path.join(work_dir, "checkpoints")
        found += checkpointing.measure(setup.build(config), path, num_repeats)
    if "start" in parts:
        path = os.path.join(work_dir, "starts")
        found += startup.measure(config, folder, manifest, path, num_repeats)
    if "position" in parts:
        found += input_pipeline_benchmark.position_figures(
            folder, manifest, config, num_repeats
        )
    if "input" in parts:
        inputs = collect_inputs(config, data_dir, work_dir)
        found += input_pipeline_benchmark.rate_figures(inputs, num_repeats, seconds)
    return found
