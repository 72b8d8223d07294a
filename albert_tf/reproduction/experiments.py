"""Experiments: trainings that the tables read, each by one or several of them."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io

# Texts: what --input and --other_input name.
MAIN, OTHER = "main", "other"


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Records of one text, in one form.

    Attributes:
      text: MAIN or OTHER.
      pair_loss: as `data.pair_loss`.
      max_seq_length: as `data.max_seq_length`.
      pack_sequences: as `data.pack_sequences`.
    """

    text: str
    pair_loss: str
    max_seq_length: int
    pack_sequences: int

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"{self.text}-{self.pair_loss}-{self.max_seq_length}"

    @property
    def settings(self) -> list[str]:
        """What it changes in a recipe."""
        names = ("pair_loss", "max_seq_length", "pack_sequences")
        return [f"data.{name}={getattr(self, name)}" for name in names]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A training, and what is measured after it.

    Attributes:
      name: of its directory, unique in a budget.
      config: the recipe, with the records that it reads as `train.records`.
      datasets: those of the records.
      evaluated_on: more held-out records to evaluate on, by the prefix of the metrics.
      start: the experiment that it continues as a branch, if any.
      seconds: if above 0, it is trained for as many steps as fit into this time on
        this machine, and `config` has the shares of warmup and decay.
    """

    name: str
    config: config_lib.Config
    datasets: tuple[Dataset, ...]
    evaluated_on: tuple[tuple[str, Dataset], ...] = ()
    start: "Experiment | None" = None
    seconds: float = 0.0

    def with_seed(self, seed: int) -> config_lib.Config:
        """Returns the recipe with a seed for weights, masks and order."""
        return config_io.override(self.config, [f"train.seed={seed}"])

    def identity(self) -> dict[str, Any]:
        """Returns all that its figures follow from, but texts and seed.

        Settings that have their default are left out, so that a new setting does not
        make another experiment of this one.
        """
        return {
            "config": _without_defaults(
                config_io.to_dict(self.config), config_io.to_dict(config_lib.Config())
            ),
            "evaluated_on": [[name, one.name] for name, one in self.evaluated_on],
            "start": self.start and self.start.identity(),
            "seconds": self.seconds,
        }

    def all_datasets(self) -> list[Dataset]:
        """Returns those that it learns from and those that it is evaluated on."""
        return [*self.datasets, *(one for _, one in self.evaluated_on)]


def _without_defaults(
    values: dict[str, Any], defaults: dict[str, Any]
) -> dict[str, Any]:
    """Returns the settings of each section that do not have their default."""
    return {
        section: {
            name: value
            for name, value in of.items()
            if value != defaults[section][name]
        }
        for section, of in values.items()
    }


def digest(experiment: Experiment, measured: Any) -> str:
    """Returns a digest of all that an experiment's figures follow from.

    Args:
      experiment: the experiment.
      measured: texts, probes and tasks: values that JSON can hold.
    """
    text = json.dumps([experiment.identity(), measured], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def in_order(wanted: Iterable[Experiment]) -> list[Experiment]:
    """Returns each experiment once, those that others start from first.

    Raises:
      ValueError: two different ones have the same name.
    """
    found: dict[str, Experiment] = {}

    def add(experiment: Experiment) -> None:
        if experiment.start is not None:
            add(experiment.start)
        known = found.setdefault(experiment.name, experiment)
        if known != experiment:
            raise ValueError(f"two experiments have the name {experiment.name}")

    for experiment in wanted:
        add(experiment)
    return list(found.values())


def with_num_steps(config: config_lib.Config, num_steps: int) -> config_lib.Config:
    """Returns a recipe of another length, with the same shares of warmup and decay."""
    share = num_steps / config.train.num_steps
    optimizer = config.optimizer
    decay_steps = int(optimizer.decay_steps * share)
    if optimizer.decay_steps:
        decay_steps = max(1, decay_steps)
    warmup_steps = min(int(optimizer.warmup_steps * share), num_steps - decay_steps)
    return config_io.override(
        config,
        [
            f"train.num_steps={num_steps}",
            f"train.eval_every_steps={num_steps}",
            f"optimizer.warmup_steps={warmup_steps}",
            f"optimizer.decay_steps={decay_steps}",
        ],
    )


def records_of(datasets: Sequence[Dataset]) -> list[str]:
    """Returns what a recipe changes to learn from several datasets in equal shares."""
    weights = ", ".join(f"{one.name!r}: 1.0" for one in datasets)
    return [*datasets[0].settings, f"train.records={{{weights}}}"]
