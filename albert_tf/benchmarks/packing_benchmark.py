"""Tokens a second with and without packed rows.

For each length a batch has as many positions with packed rows as without. All steps are
those of the train loop with its input pipeline, timed in rounds in one process.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from albert_tf.benchmarks import records, rounds, setup, train_steps
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import input_pipeline, schema
from albert_tf.data import manifest as manifest_lib


class Speed(NamedTuple):
    """The speed with one shape of rows.

    Attributes:
      max_seq_length: most tokens of a sequence.
      pack_sequences: as in `config.DataConfig`.
      batch_size: rows of a batch.
      row_length: tokens of a row, padding included.
      padding_rate: share of padding in the training records.
      step_seconds: the median.
      tokens_per_second: the median, without padding.
      ratio: of the tokens a second to those without packing, round by round; the
        median.
    """

    max_seq_length: int
    pack_sequences: int
    batch_size: int
    row_length: int
    padding_rate: float
    step_seconds: float
    tokens_per_second: float
    ratio: float


def measure(
    configs: Sequence[config_lib.Config],
    work_dir: str,
    corpus: str,
    vocab: str,
    num_rounds: int,
    seconds: float,
) -> Iterator[Speed]:
    """Measures the speeds of recipes beside that of the first, which does not pack.

    Args:
      configs: the recipes.
      work_dir: keeps records.
      corpus: as `records.make_records` takes it.
      vocab: likewise.
      num_rounds: how often each is timed.
      seconds: approximate duration of one measurement of the fastest.

    Raises:
      ValueError: the records cannot be made.
    """
    steps, splits = {}, {}
    for config in configs:
        folder = records.make_records(work_dir, config, corpus, vocab)
        manifest = manifest_lib.read_manifest(folder)
        input_fn = input_pipeline.train_input_fn(folder, manifest, config)
        name = str(config.data.pack_sequences)
        steps[name] = train_steps.LoopSteps(setup.build(config), input_fn)
        splits[name] = manifest.splits[schema.TRAIN]
    times = rounds.time_steps(steps, num_rounds, seconds)
    first: list[float] = []
    for config, (name, of_rounds) in zip(configs, times.items(), strict=True):
        split, size = splits[name], config.train.batch_size
        num_tokens = split.statistics["num_tokens"] / split.num_records * size
        found = [num_tokens / one.seconds for one in of_rounds]
        first = first or found
        yield Speed(
            config.data.max_seq_length,
            config.data.pack_sequences,
            size,
            config.data.row.length,
            split.statistics["padding_rate"],
            statistics.median(one.seconds for one in of_rounds),
            statistics.median(found),
            statistics.median(a / b for a, b in zip(found, first, strict=True)),
        )


def recipes(
    config: config_lib.Config, length: int, packings: Sequence[int], positions: int
) -> list[config_lib.Config]:
    """Returns a recipe without packing, and one for each of `packings`.

    Args:
      config: what they follow.
      length: most tokens of a sequence.
      packings: of `data.pack_sequences`.
      positions: of a batch, padding included.
    """
    return [
        config_io.override(
            config,
            [
                f"data.max_seq_length={length}",
                f"model.max_positions={max(length, config.model.max_positions)}",
                f"data.pack_sequences={packing}",
                f"train.batch_size={positions // (length * max(1, packing))}",
            ],
        )
        for packing in (0, *packings)
    ]


HEADER = ["length", "packed", "rows", "padding", "ms a step", "tokens/s", "x unpacked"]


def to_row(speed: Speed) -> list[str]:
    """Returns the cells of a speed, below those of `HEADER`."""
    packed = f"{speed.pack_sequences} to a row" if speed.pack_sequences else "no"
    return [
        str(speed.max_seq_length),
        packed,
        f"{speed.batch_size} x {speed.row_length}",
        f"{speed.padding_rate:.1%}",
        f"{speed.step_seconds * 1e3:.0f}",
        f"{speed.tokens_per_second:,.0f}",
        f"{speed.ratio:.2f}",
    ]
