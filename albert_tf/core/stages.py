"""Stages of a run: which steps belong to each, and its settings.

    for stage in stages.split(config):
        ...  # stage.config has the batches, lengths and records of this stage

A recipe without `train.stages` is one stage.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from albert_tf.core import config as config_lib

# Settings of a stage that replace those of a section; None keeps them.
OF_TRAIN = ("batch_size", "accumulation_steps")
OF_DATA = (
    "max_seq_length",
    "pack_sequences",
    "masked_lm_rate",
    "mask_token_rate",
    "random_token_rate",
    "max_predictions_per_seq",
)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a run.

    Attributes:
      number: counted from 1.
      first_step: steps of the run before it.
      last_step: steps of the run at its end.
      config: the recipe without `train.stages`, and with the stage's batches, lengths,
        masks and records. Its schedule and `train.num_steps` are those of the run.
      learning_rate_factor: of the schedule's learning rate.
      prefix: of the keys of its settings, such as "train.stages.2".
    """

    number: int
    first_step: int
    last_step: int
    config: config_lib.Config
    learning_rate_factor: float = 1.0
    prefix: str = "train"

    @property
    def num_steps(self) -> int:
        """The steps of the stage."""
        return self.last_step - self.first_step

    def key(self, setting: str) -> str:
        """Returns the key of a setting such as "data.masked_lm_rate" in the stage."""
        name = setting.partition(".")[2]
        is_own = self.prefix != "train" and name in (*OF_TRAIN, *OF_DATA)
        return f"{self.prefix}.{name}" if is_own else setting

    def describe(self) -> str:
        """Returns its steps and the shape of its batches, as part of a line."""
        run, data = self.config.train, self.config.data
        rows = "packed rows" if data.pack_sequences else "sequences"
        parts = [
            f"{self.num_steps:,} steps of {run.batch_size:,} {rows}",
            f"of {data.row.length:,} tokens",
        ]
        if run.records:
            parts.append(f"from {' and '.join(sorted(run.records))}")
        line = " ".join(parts)
        if self.learning_rate_factor != 1.0:
            line += f", learning rate times {self.learning_rate_factor:g}"
        return line


def split(config: config_lib.Config) -> tuple[Stage, ...]:
    """Returns the stages of a recipe: one if it names none."""
    settings = config.train.stages
    if not settings:
        return (Stage(1, 0, config.train.num_steps, config),)
    stages: list[Stage] = []
    for number, stage in enumerate(settings, 1):
        first_step = stages[-1].last_step if stages else 0
        stages.append(
            Stage(
                number,
                first_step,
                first_step + stage.num_steps,
                _config_of(stage, config),
                stage.learning_rate_factor,
                f"train.stages.{number}",
            )
        )
    return tuple(stages)


def check_given(config: config_lib.Config, keys: Iterable[str]) -> None:
    """Checks that settings of a run are not replaced by those of its stages.

    Args:
      config: the recipe with the settings.
      keys: of the settings that were given, such as "train.batch_size".

    Raises:
      ValueError: every stage has its own value of one.
    """
    for key in keys:
        section, _, name = key.partition(".")
        is_of_stages = section == "train" and name in (*OF_TRAIN, "records")
        if is_of_stages and config.train.stages:
            if all(getattr(stage, name) for stage in config.train.stages):
                raise ValueError(
                    f"{key} has no effect, because each stage has its own. Set "
                    f"train.stages.N.{name} for stage N, or train.stages=[] for none"
                )


def leading_to(stages: Sequence[Stage], step: int) -> Stage:
    """Returns the stage of the step that was the last one; the first at step 0."""
    return next((s for s in stages if step <= s.last_step), stages[-1])


def after(stages: Sequence[Stage], step: int) -> Stage:
    """Returns the stage of the step after `step` steps; the last at the end."""
    return next((s for s in stages if step < s.last_step), stages[-1])


def _config_of(
    stage: config_lib.StageConfig, config: config_lib.Config
) -> config_lib.Config:
    run = dataclasses.replace(
        config.train,
        stages=(),
        records=stage.records or config.train.records,
        **_set(stage, OF_TRAIN),
    )
    data = dataclasses.replace(config.data, **_set(stage, OF_DATA))
    return dataclasses.replace(config, train=run, data=data)


def _set(stage: config_lib.StageConfig, names: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(stage, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
