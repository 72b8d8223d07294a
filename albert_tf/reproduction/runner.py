"""Trains and measures the experiments of some tables; what was measured stays.

Directories of --output_dir: vocab.model, records/NAME, runs/seed-N/NAME, runs/timing,
and measures.json with all that was measured.
"""

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf.core import binaries, config_io, files, short_repr, strict_json
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.reproduction import budgets, experiments, results
from albert_tf.reproduction import schedule as schedule_lib
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
      num_parallel: trainings at the same time, each on its share of the cores.
    """

    output_dir: str
    measures_path: str
    inputs: tuple[str, ...] = ()
    other_inputs: tuple[str, ...] = ()
    blimp_dir: str = ""
    glue_dir: str = ""
    num_parallel: int = 1

    def patterns(self, text: str) -> tuple[str, ...]:
        """Returns the patterns of one of the texts."""
        return self.inputs if text == experiments.MAIN else self.other_inputs


@dataclasses.dataclass(frozen=True)
class _Process:
    """A training that runs.

    Attributes:
      training: what it trains.
      share: the number of its share of the cores.
      process: its process.
      log_path: file of its output; empty: the output of this process.
    """

    training: schedule_lib.Training
    share: int
    process: subprocess.Popen[bytes]
    log_path: str = ""


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
        found = []
        for table in self._tables:
            names = {row.experiment.name for row in table.rows}
            num_missing = self._num_missing(names)
            found.append(results.collect(table, measured, num_missing))
        return found

    def num_pending(self) -> int:
        """Returns how many trainings that a table reads were not measured yet."""
        return self._num_missing(self._rows)

    def _num_missing(self, names: Iterable[str]) -> int:
        """Returns how many trainings of some experiments were not measured yet."""
        seeds = range(1, 1 + self._budget.num_seeds)
        pending = [one.name for seed in seeds for one in self._pending(seed)]
        return sum(map(pending.count, names))

    def check_shown(self) -> None:
        """Checks that what was measured belongs to the tables, by the numbers of steps.

        Raises:
          ValueError: the file does not exist, or has no figures of these tables, or
            figures after another number of steps.
        """
        path, is_any = self._options.measures_path, False
        if not os.path.exists(path):
            raise ValueError(
                f"{path} must be a file of what was measured; it does not exist"
            )
        for one in self._experiments:
            seeds = self._measures.get(one.name, {}).get("seeds", {})
            is_any = is_any or bool(seeds)
            wanted = one.config.train.num_steps
            for values in seeds.values():
                found = values.get("num_steps", wanted)
                if found != wanted and not one.seconds:
                    raise ValueError(
                        f"{path} has figures of {one.name} after {found:,} steps; the "
                        f"settings have {wanted:,}. Give the --budget and --set with "
                        "which it was measured"
                    )
        if not is_any:
            raise ValueError(f"{path} must have figures of the tables; it has none")

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
        # All tables have one seed before any has two.
        schedule = schedule_lib.Schedule(
            schedule_lib.Training(experiment, seed)
            for seed in range(1, 1 + self._budget.num_seeds)
            for experiment in self._to_train(seed)
        )
        self._run_all(schedule)
        failed = [(one.seed, one.experiment.name) for one in schedule.failed]
        return [f"{name} (seed {seed})" for seed, name in sorted(failed)]

    def _run_all(self, schedule: schedule_lib.Schedule) -> None:
        """Trains and measures all of a schedule, some at the same time."""
        free = list(range(self._options.num_parallel))
        running: list[_Process] = []
        total = schedule.num_waiting()
        while True:
            while free and (training := schedule.take()):
                number = total - schedule.num_waiting()
                running.append(self._start(training, free.pop(0), f"{number}/{total}"))
            if not running:
                return
            index = binaries.wait_for_any([one.process for one in running])
            ended = running.pop(index)
            free.append(ended.share)
            if ended.process.returncode in binaries.RESUMABLE:
                _end_all(one.process for one in running)
            training = ended.training
            for lost in schedule.end(training, self._end(ended)):
                name = training.experiment.name
                print(f"{lost.label}: left out, {name} failed", file=sys.stderr)
            if not schedule.has_seed(training.seed):
                self._remove_checkpoints(training.seed)

    def _start(
        self, training: schedule_lib.Training, share: int, number: str
    ) -> "_Process":
        """Starts the process that trains and measures one."""
        request = self._request(training)
        request["cores"] = _cores(share, self._options.num_parallel)
        path = _write_request(request)
        print(f"[{number}] {training.label}", flush=True)
        if self._options.num_parallel == 1:
            process = binaries.start(_PROCESS, path, str(os.getpid()))
            return _Process(training, share, process)
        log_path = f"{request['run_dir']}.log"
        with open(log_path, "ab") as log:
            process = binaries.start(
                _PROCESS, path, str(os.getpid()), stdout=log, stderr=log
            )
        return _Process(training, share, process, log_path)

    def _end(self, ended: "_Process") -> bool:
        """Records what a process measured; returns whether it succeeded."""
        training = ended.training
        try:
            _check(_PROCESS, ended.process.returncode, ended.log_path)
            values = _read_answer(self._run_dir(training))
        except ValueError as error:
            print(f"error: {training.label}: {error}", file=sys.stderr)
            return False
        if training.experiment.name in self._rows:
            self._record(training.experiment, training.seed, values)
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
        run_dir = self._path("runs", "timing")
        request = {
            "configs": {one.name: config_io.to_dict(one.config) for one in timed},
            "records_dir": self._path("records"),
            "run_dir": run_dir,
            # As many as each training has.
            "cores": _cores(0, self._options.num_parallel),
        }
        _run(_PROCESS, _write_request(request), str(os.getpid()))
        step_seconds = _read_answer(run_dir)
        for one in timed:
            num_steps = max(1, round(one.seconds / step_seconds[one.name]))
            self._entry(one)["num_steps"] = num_steps
        files.write_json(self._options.measures_path, self._measures)

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

    def _run_dir(self, training: schedule_lib.Training) -> str:
        name = training.experiment.name
        return self._path("runs", f"seed-{training.seed}", name)

    def _request(self, training: schedule_lib.Training) -> dict[str, Any]:
        """Returns what the process of a training is asked for."""
        experiment, run_dir = training.experiment, self._run_dir(training)
        if _lost_its_checkpoints(run_dir) or not os.path.exists(run_dir):
            # Whichever is left by a kill, the next call comes here again.
            for folder in reversed(_with_task(run_dir)):
                if os.path.exists(folder):
                    shutil.rmtree(folder)
        config = experiment.with_seed(training.seed)
        if experiment.seconds:
            num_steps = self._entry(experiment)["num_steps"]
            config = experiments.with_num_steps(config, num_steps)
        keys = self._rows.get(experiment.name, set())
        start = experiment.start
        return {
            "config": config_io.to_dict(config),
            "records_dir": self._path("records"),
            "run_dir": run_dir,
            "start": start and os.path.join(os.path.dirname(run_dir), start.name),
            "evaluated_on": {
                prefix: [*experiments.records_of((one,)), "train.eval_batches=0"]
                for prefix, one in experiment.evaluated_on
            },
            "blimp_dir": self._options.blimp_dir if "blimp" in keys else "",
            "blimp_pairs": self._budget.blimp_pairs,
            "tasks": self._tasks() if _TASK in keys else {},
            "cache_dir": self._path("features"),
        }

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
                _check_records(folder, config_io.override(base, dataset.settings))
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
        if all(one.text == experiments.MAIN for one in self._datasets()):
            del found[experiments.OTHER]
        before = strict_json.load_object(path) if os.path.exists(path) else {}
        made = files.names(self._path("records"))
        if not any(name.startswith(f"{experiments.OTHER}-") for name in made):
            before.pop(experiments.OTHER, None)
        if any(before.get(name, one) != one for name, one in found.items()):
            raise ValueError(
                f"--output_dir {self._options.output_dir} has records of other "
                "texts or of another vocabulary; give a new one"
            )
        files.write_json(path, before | found)

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
        """Removes the checkpoints of a seed's runs that nothing needs any more."""
        needed = {one.name for one in self._to_train(seed)}
        for experiment in self._experiments:
            run_dir = self._path("runs", f"seed-{seed}", experiment.name)
            if experiment.name not in needed and os.path.exists(f"{run_dir}.json"):
                for folder in _with_task(run_dir):
                    _remove_checkpoint_files(folder)

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
    """Returns names and sizes of the files of some patterns.

    Raises:
      ValueError: a pattern has no file.
    """
    paths = []
    for pattern in patterns:
        found = files.glob(pattern)
        if not found:
            raise ValueError(f"no file matches {pattern}, of --input or --other_input")
        paths += found
    return [[os.path.basename(path), files.size(path)] for path in sorted(paths)]


def _check_records(folder: str, config: config_lib.Config) -> None:
    """Compares records that were made before with the recipe.

    Raises:
      ValueError: they were made with other settings.
    """
    manifest = strict_json.load_object(os.path.join(folder, schema.MANIFEST_FILE))
    wanted = config_io.to_dict(config)
    ignored = schema.MASK_SETTINGS if config.data.masking == "dynamic" else ()
    for section in ("text", "data"):
        for name, value in manifest.get(section, {}).items():
            if name not in ignored and wanted[section].get(name, value) != value:
                needed = short_repr.shown(wanted[section][name])
                raise ValueError(
                    f"{folder} has records that were made with {section}.{name}="
                    f"{short_repr.shown(value)}, and {needed} is needed; give a new "
                    "--output_dir"
                )


def _run(module: str, *arguments: str) -> None:
    _check(module, binaries.run_attached(module, *arguments))


def _check(module: str, code: int, log_path: str = "") -> None:
    """Ends this process if a code says that another was asked to end.

    Raises:
      ValueError: it failed.
      SystemExit: it can be resumed.
    """
    if code in binaries.RESUMABLE:
        print("interrupted; the same command resumes", file=sys.stderr)
        raise SystemExit(max(code, os.EX_TEMPFAIL))
    if code:
        place = f"in {log_path}" if log_path else "above"
        raise ValueError(
            f"{module} ended with code {code}; its output is {place}. The same command "
            "resumes here"
        )


def _end_all(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Asks processes to save and end, and waits until they have."""
    left = list(processes)
    for process in left:
        process.terminate()
    while left:
        del left[binaries.wait_for_any(left)]


def _write_request(request: dict[str, Any]) -> str:
    """Returns the path of a file with a request."""
    run_dir = request["run_dir"]
    os.makedirs(os.path.dirname(run_dir), exist_ok=True)
    path = f"{run_dir}-request.json"
    files.write_json(path, request)
    return path


def _read_answer(run_dir: str) -> dict[str, Any]:
    return strict_json.load_object(f"{run_dir}.json", lenient=True)


def _cores(share: int, num_shares: int) -> list[int]:
    """Returns the cores of a share; none if it has all."""
    if num_shares == 1:
        return []
    return sorted(os.sched_getaffinity(0))[share::num_shares]


def _with_task(run_dir: str) -> tuple[str, str]:
    """Returns the directories of a run and of its fine-tuning."""
    return run_dir, f"{run_dir}-{_TASK}"


def _remove_checkpoint_files(run_dir: str) -> None:
    # First what names the others: see `_lost_its_checkpoints`.
    for path in glob.glob(f"{glob.escape(run_dir)}/{schema.CHECKPOINT_FILE}"):
        os.remove(path)
    for path in glob.glob(f"{glob.escape(run_dir)}/model.ckpt-*"):
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _lost_its_checkpoints(run_dir: str) -> bool:
    """Returns whether a run was measured, and the removal of its checkpoints began."""
    is_measured = os.path.isdir(run_dir) and os.path.exists(f"{run_dir}.json")
    return is_measured and not os.path.exists(
        os.path.join(run_dir, schema.CHECKPOINT_FILE)
    )
