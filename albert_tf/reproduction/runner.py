"""Trains and measures the experiments of some tables; what was measured stays.

Directories of --output_dir: vocab.model, records/NAME, runs/seed-N/NAME, runs/timing,
and measures.json with all that was measured.
"""

import dataclasses
import glob
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf.core import binaries, config_io, files, strict_json
from albert_tf.data import schema
from albert_tf.reproduction import budgets, experiments, results
from albert_tf.reproduction import tables as tables_lib

MEASURES_FILE = "measures.json"
_TEXTS_FILE = "texts.json"
_PROCESS = "albert_tf.reproduction.experiment_process"
# The task of the tables, its recipe and its directory in GLUE.
_TASK, _RECIPE, _TASK_DIR = "sst2", "finetune_sst2", "SST-2"


@dataclasses.dataclass(frozen=True)
class _Measured:
    """An entry of measures.json: values by seed, and what they depend on.

    `num_steps` are those that fit into the time of an experiment that has one. All its
    seeds have the same, on other machines too.
    """

    digest: str
    seeds: Mapping[str, Mapping[str, Any]]
    num_steps: int = 0


@dataclasses.dataclass(frozen=True)
class Options:
    """What is measured, on which texts, and where it goes.

    Attributes:
      output_dir: of everything that is made.
      measures_path: file of what was measured.
      inputs: patterns of files of text; empty for the demonstration's text.
      other_inputs: of the other text; empty for the demonstration's text.
      blimp_dir: BLiMP as published; empty: no probes.
      glue_dir: GLUE's directory with SST-2; empty: no fine-tuning.
    """

    output_dir: str
    measures_path: str
    inputs: tuple[str, ...] = ()
    other_inputs: tuple[str, ...] = ()
    blimp_dir: str = ""
    glue_dir: str = ""

    def patterns(self, text: str) -> tuple[str, ...]:
        """Returns the patterns of one of the texts."""
        return self.inputs if text == experiments.MAIN else self.other_inputs


class Runner:
    """The experiments of some tables."""

    def __init__(
        self,
        tables: Sequence[tables_lib.Table],
        budget: budgets.Budget,
        options: Options,
    ):
        """Reads what was measured before."""
        self._tables, self._budget, self._options = tables, budget, options
        self._experiments = experiments.in_order(
            row.experiment for table in tables for row in table.rows
        )
        # What the tables read of each experiment: keys of measured values.
        self._rows: dict[str, set[str]] = {}
        for table in tables:
            for row in table.rows:
                keys = self._rows.setdefault(row.experiment.name, set())
                keys.update(measure.key for measure in table.measures)
        self._measures = _read_measures(options.measures_path)

    # ---- Results ----

    def results(self) -> list[dict[str, Any]]:
        """Returns the tables with all that was measured so far."""
        measured = {name: one["seeds"] for name, one in self._measures.items()}
        return [results.collect(table, measured) for table in self._tables]

    def num_pending(self) -> int:
        """Returns how many trainings that a table reads were not measured yet."""
        return sum(
            len(self._pending(seed)) for seed in range(1, 1 + self._budget.num_seeds)
        )

    # ---- Training ----

    def run(self) -> list[str]:
        """Trains and measures all that was not measured yet.

        Returns:
          The names of what failed, with the seeds; it has printed the reasons.

        Raises:
          ValueError: an experiment was measured before with other settings or texts, or
            what all need cannot be made.
          SystemExit: a process was asked to end, with its exit code.
        """
        self._check_measures()
        if not self.num_pending():
            return []
        os.makedirs(self._options.output_dir, exist_ok=True)
        self._make_data()
        self._find_numbers_of_steps()
        seeds = range(1, 1 + self._budget.num_seeds)
        total = sum(len(self._to_train(seed)) for seed in seeds)
        number, failed = 0, []
        # All tables have one seed before any has two.
        for seed in seeds:
            without: set[str] = set()
            for experiment in self._to_train(seed):
                number += 1
                print(f"[{number}/{total}] {experiment.name}, seed {seed}", flush=True)
                if experiment.start and experiment.start.name in without:
                    print(f"left out: {experiment.start.name} failed", file=sys.stderr)
                elif self._train(experiment, seed):
                    continue
                without.add(experiment.name)
            failed += [f"{name} (seed {seed})" for name in sorted(without)]
            self._remove_checkpoints(seed)
        return failed

    def _train(self, experiment: experiments.Experiment, seed: int) -> bool:
        """Trains and measures an experiment; returns whether that succeeded."""
        try:
            values = self._measure(experiment, seed)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return False
        if experiment.name in self._rows:
            self._record(experiment, seed, values)
        return True

    def _find_numbers_of_steps(self) -> None:
        """Times the steps of the experiments that have a time, one after another."""
        timed = [
            one
            for one in self._experiments
            if one.seconds and not self._entry(one)["num_steps"]
        ]
        if not timed:
            return
        request = {
            "configs": {one.name: config_io.to_dict(one.config) for one in timed},
            "records_dir": self._path("records"),
            "run_dir": self._path("runs", "timing"),
        }
        step_seconds = self._ask(request)
        for one in timed:
            num_steps = max(1, round(one.seconds / step_seconds[one.name]))
            self._entry(one)["num_steps"] = num_steps
        files.write_json(self._options.measures_path, self._measures)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns what an experiment's process answers."""
        run_dir = request["run_dir"]
        os.makedirs(os.path.dirname(run_dir), exist_ok=True)
        path = f"{run_dir}-request.json"
        files.write_json(path, request)
        _run(_PROCESS, path)
        return strict_json.load_object(f"{run_dir}.json", lenient=True)

    def _pending(self, seed: int) -> list[experiments.Experiment]:
        return [
            one
            for one in self._experiments
            if one.name in self._rows
            and str(seed) not in self._measures.get(one.name, {}).get("seeds", {})
        ]

    def _to_train(self, seed: int) -> list[experiments.Experiment]:
        """Returns what is to be trained: what is pending, and what it starts from."""
        return experiments.in_order(self._pending(seed))

    def _measure(self, experiment: experiments.Experiment, seed: int) -> dict[str, Any]:
        run_dir = self._path("runs", f"seed-{seed}", experiment.name)
        if _lost_its_checkpoints(run_dir):
            shutil.rmtree(run_dir)
        config = experiment.with_seed(seed)
        if experiment.seconds:
            num_steps = self._entry(experiment)["num_steps"]
            config = experiments.with_num_steps(config, num_steps)
        keys = self._rows.get(experiment.name, set())
        start = experiment.start
        return self._ask(
            {
                "config": config_io.to_dict(config),
                "records_dir": self._path("records"),
                "run_dir": run_dir,
                "start": start and os.path.join(os.path.dirname(run_dir), start.name),
                "start_as": experiment.start_as,
                "evaluated_on": {
                    prefix: [*experiments.records_of((one,)), "train.eval_batches=0"]
                    for prefix, one in experiment.evaluated_on
                },
                "blimp_dir": self._options.blimp_dir if "blimp" in keys else "",
                "blimp_pairs": self._budget.blimp_pairs,
                "tasks": self._tasks() if _TASK in keys else {},
                "cache_dir": self._path("features"),
            }
        )

    def _tasks(self) -> dict[str, Any]:
        if not self._options.glue_dir:
            return {}
        task = {
            "recipe": str(binaries.ROOT / "configs" / f"{_RECIPE}.py"),
            "data_dir": os.path.join(self._options.glue_dir, _TASK_DIR),
            "settings": list(self._budget.task_settings),
        }
        return {_TASK: task}

    # ---- Texts, vocabulary and records ----

    def _make_data(self) -> None:
        self._check_texts()
        base = self._experiments[0].config
        config_path = self._path("recipe.json")
        files.write_bytes(config_path, config_io.to_json(base).encode())
        vocab = self._path("vocab.model")
        if not os.path.exists(vocab):
            _run(
                "data_prep.train_vocab",
                f"--input={self._input(experiments.MAIN)}",
                f"--output={vocab}",
                f"--vocab_size={base.model.vocab_size}",
            )
        for dataset in self._datasets():
            folder = self._path("records", dataset.name)
            if os.path.exists(os.path.join(folder, schema.MANIFEST_FILE)):
                continue
            _run(
                "data_prep.create_pretraining_data",
                f"--config={config_path}",
                f"--input={self._input(dataset.text)}",
                f"--vocab_model={vocab}",
                f"--output_dir={folder}",
                *(f"--set={setting}" for setting in dataset.settings),
            )

    def _datasets(self) -> list[experiments.Dataset]:
        seeds = range(1, 1 + self._budget.num_seeds)
        needed = (
            dataset
            for seed in seeds
            for experiment in self._to_train(seed)
            for dataset in experiment.all_datasets()
        )
        return list(dict.fromkeys(needed))

    def _input(self, text: str) -> str:
        """Returns the patterns of a text; the demonstration's is made if needed."""
        if patterns := self._options.patterns(text):
            return ",".join(patterns)
        path = self._path("demonstration.txt")
        if not os.path.exists(path):
            _run("data_prep.demo_corpus", f"--output={path}")
        return path

    def _check_texts(self) -> None:
        path, found = self._path(_TEXTS_FILE), self._identify_texts()
        if os.path.exists(path):
            if strict_json.load(path) != found:
                raise ValueError(
                    f"--output_dir {self._options.output_dir} has records of other "
                    "texts or of another vocabulary; give a new one"
                )
        else:
            files.write_json(path, found)

    def _identify_texts(self) -> dict[str, Any]:
        size = self._experiments[0].config.model.vocab_size
        return {
            "vocab_size": size,
            experiments.MAIN: _identify(self._options.inputs),
            experiments.OTHER: _identify(self._options.other_inputs),
        }

    # ---- What was measured ----

    def _digest(self, experiment: experiments.Experiment) -> str:
        texts = self._identify_texts()
        if all(one.text == experiments.MAIN for one in experiment.all_datasets()):
            del texts[experiments.OTHER]
        has_tasks = bool(self._options.glue_dir)
        measured = {
            "texts": texts,
            "blimp_pairs": self._budget.blimp_pairs * bool(self._options.blimp_dir),
            "tasks": {_TASK: list(self._budget.task_settings)} if has_tasks else {},
        }
        return experiments.digest(experiment, measured)

    def _check_measures(self) -> None:
        for experiment in self._experiments:
            before = self._measures.get(experiment.name)
            if not before or before["digest"] == self._digest(experiment):
                continue
            if before["seeds"]:
                raise ValueError(
                    f"{self._options.measures_path} has figures of {experiment.name} "
                    "with other settings, texts, probes or tasks; give the same flags "
                    "as then, or another --output_dir and --measures"
                )
            del self._measures[experiment.name]  # nothing but a number of steps

    def _record(
        self, experiment: experiments.Experiment, seed: int, values: dict[str, Any]
    ) -> None:
        self._entry(experiment)["seeds"][str(seed)] = values
        files.write_json(self._options.measures_path, self._measures)

    def _entry(self, experiment: experiments.Experiment) -> dict[str, Any]:
        """Returns the entry of measures.json, which is made if there is none."""
        new = _Measured(self._digest(experiment), {})
        return self._measures.setdefault(experiment.name, dataclasses.asdict(new))

    def _remove_checkpoints(self, seed: int) -> None:
        """Removes the checkpoints of a seed's runs that were measured."""
        for experiment in self._experiments:
            run_dir = self._path("runs", f"seed-{seed}", experiment.name)
            if not os.path.exists(f"{run_dir}.json"):
                continue
            # First what names the others: see `_lost_its_checkpoints`.
            for path in glob.glob(f"{glob.escape(run_dir)}/{schema.CHECKPOINT_FILE}"):
                os.remove(path)
            for path in glob.glob(f"{glob.escape(run_dir)}/model.ckpt-*"):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def _path(self, *names: str) -> str:
        return os.path.join(os.path.abspath(self._options.output_dir), *names)


def _read_measures(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    # A loss may be NaN, so the values of a seed are checked where they are shown.
    measures = strict_json.load(path, lenient=True)
    found = strict_json.as_type(measures, path, Mapping[str, _Measured])
    return {name: dataclasses.asdict(measured) for name, measured in found.items()}


def _identify(patterns: Iterable[str]) -> list[list[Any]]:
    """Returns names and sizes of the files of some patterns."""
    paths = sorted(path for pattern in patterns for path in glob.glob(pattern))
    return [[os.path.basename(path), os.path.getsize(path)] for path in paths]


def _run(module: str, *arguments: str) -> None:
    code = binaries.run_attached(module, *arguments)
    if code in binaries.RESUMABLE:
        print("interrupted; the same command resumes", file=sys.stderr)
        raise SystemExit(max(code, os.EX_TEMPFAIL))
    if code:
        raise ValueError(
            f"{module} ended with code {code}; its output is above. The same command "
            "resumes here"
        )


def _lost_its_checkpoints(run_dir: str) -> bool:
    """Returns whether a run was measured, and the removal of its checkpoints began."""
    is_measured = os.path.isdir(run_dir) and os.path.exists(f"{run_dir}.json")
    return is_measured and not os.path.exists(
        os.path.join(run_dir, schema.CHECKPOINT_FILE)
    )
