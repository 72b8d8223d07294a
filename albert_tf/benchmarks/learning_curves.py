"""Held-out loss over wall time: this project beside transformers on PyTorch.

Both train a model of the same sizes on the same batches, in turns on one machine:

1. PyTorch's step is timed with and without torch.compile, in both precisions; the
   fastest form is taken.
2. PyTorch trains with several learning rates for some minutes each; the best is taken.
3. Both train for the last of the minutes to report, in turns, and save regularly. At
   each of the minutes the newest saved model counts. The results are written after each
   turn, so that those of a comparison that was ended are kept. While there is a file
   `hold` beside the results, no turn begins.
4. Grammar is probed with the models of these minutes, if a suite is given.
"""

import dataclasses
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from albert_tf.benchmarks import batch_files, runner, turns
from albert_tf.checkpoints import checkpoint_files
from albert_tf.core import binaries, config_io, files, strict_json
from albert_tf.core import config as config_lib
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from albert_tf.training import metrics_log

OURS, THEIRS = "albert_tf", "transformers"
_NUM_CALIBRATION_STEPS = 60
# Of a run's time; the rest is a reserve, since the speed varies.
_PLANNED_SHARE = 0.95
_WARMUP_SHARE = 0.05
_NUM_SAVES = 60
_HOLD_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Options:
    """What is compared.

    Attributes:
      data_dir: records.
      output_dir: gets runs, logs and results.
      minutes: when to report, ascending; the last is the length of the runs.
      rates: learning rates of PyTorch's AdamW.
      rate_minutes: of the run with each rate.
      turn_seconds: of one turn.
      blimp_dir: BLiMP as published; empty means not to probe grammar.
      probe_pairs: pairs of each of its paradigms.
    """

    data_dir: str
    output_dir: str
    minutes: tuple[float, ...]
    rates: tuple[float, ...]
    rate_minutes: float
    turn_seconds: float
    blimp_dir: str = ""
    probe_pairs: int = 100

    @property
    def results_path(self) -> str:
        """The file of the results."""
        return os.path.join(self.output_dir, "results.json")

    @property
    def hold_path(self) -> str:
        """While this file exists, no turn begins."""
        return os.path.join(self.output_dir, "hold")


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A model that a run saved.

    Attributes:
      seconds: of the run's own wall time, start included, when it was complete.
      step: steps so far.
      path: a checkpoint's prefix, or a directory of transformers.
      mlm_loss: nats per held-out masked token.
    """

    seconds: float
    step: int
    path: str
    mlm_loss: float


Plan = dict[str, Any]


def measure(config: config_lib.Config, options: Options) -> dict[str, Any]:
    """Trains both, writes all figures, and returns them as plain values.

    Args:
      config: the recipe of this project; `train.num_steps` follows from the minutes.
      options: what is compared.

    Raises:
      ValueError: records and recipe do not fit together.
      rounds.Failure: one of them failed.
    """
    manifest = manifest_lib.read_manifest(options.data_dir)
    manifest_lib.check_manifest(options.data_dir, manifest, config)
    os.makedirs(options.output_dir, exist_ok=True)
    theirs = _Transformers(config, manifest, options)
    theirs.choose_form()
    theirs.choose_rate()
    seconds = options.minutes[-1] * 60
    processes, looks, curves = {}, {}, {}
    ours = _OurRun(config, options)
    for name, run in ((OURS, ours), (THEIRS, theirs)):
        curves[name] = _Curve(run.find_saved)
        processes[name] = run.start(seconds)
        looks[name] = _look(curves[name], processes[name])

    def results() -> dict[str, Any]:
        return {
            "minutes": list(options.minutes),
            "token_frequencies": manifest.heldout_unigram_entropy,
            "plan": {OURS: ours.plan, THEIRS: theirs.plan},
            "rates": theirs.rate_losses,
            "forms": theirs.form_seconds,
            "curves": {
                name: [dataclasses.asdict(saved) for saved in curve.saved]
                for name, curve in curves.items()
            },
            "at_minutes": {
                name: [_as_dict(curve.newest_at(60 * m)) for m in options.minutes]
                for name, curve in curves.items()
            },
        }

    def after_turn() -> None:
        files.write_json(options.results_path, results())
        while os.path.exists(options.hold_path):
            time.sleep(_HOLD_POLL_SECONDS)

    try:
        turns.run_in_turns(processes, options.turn_seconds, looks, seconds, after_turn)
    finally:
        for process in processes.values():
            process.close()
    found = results()
    if options.blimp_dir:
        _probe(found, options)
    files.write_json(options.results_path, found)
    return found


def _probe(results: dict[str, Any], options: Options) -> None:
    """Adds the accuracies on BLiMP to the results, and writes them after each."""
    accuracies: dict[str, list[dict[str, Any] | None]] = {}
    results["blimp"] = accuracies
    for name, models in results["at_minutes"].items():
        accuracies[name] = []
        by_step: dict[int, dict[str, Any]] = {}
        for model in models:
            if model and model["step"] not in by_step:
                by_step[model["step"]] = _accuracy(name, model, options)
            accuracies[name].append(by_step[model["step"]] if model else None)
            files.write_json(options.results_path, results)


def _accuracy(name: str, model: dict[str, Any], options: Options) -> dict[str, Any]:
    """Returns the accuracy of a saved model on BLiMP, with its interval."""
    path = model["path"]
    folder = os.path.join(options.output_dir, f"{name}-{model['step']}")
    if name == THEIRS:
        vocab = os.path.join(options.data_dir, schema.VOCAB_FILE)
        binaries.run_module(
            "albert_tf.convert",
            *(f"--from=hf:{path}", f"--to=run:{folder}-run"),
            f"--vocab_model={vocab}",
        )
        path = f"{folder}-run"
    binaries.run_module(
        "albert_tf.probe",
        *(f"--model={path}", "--suite=blimp"),
        *(f"--data_dir={options.blimp_dir}", f"--output_dir={folder}-blimp"),
        f"--pairs_per_paradigm={options.probe_pairs}",
    )
    results_path = os.path.join(f"{folder}-blimp", "results.json")
    return strict_json.load(results_path)["overall"]


def _as_dict(saved: SavedModel | None) -> dict[str, Any] | None:
    return None if saved is None else dataclasses.asdict(saved)


class _Curve:
    """The models that a run has saved so far."""

    def __init__(self, find_saved: Callable[[], dict[int, tuple[str, float]]]):
        self._find_saved = find_saved
        self.saved: list[SavedModel] = []

    def look(self, seconds: float) -> None:
        """Notes what was saved since the last look, at `seconds`."""
        known = {one.step for one in self.saved}
        for step, (path, loss) in sorted(self._find_saved().items()):
            if step not in known:
                self.saved.append(SavedModel(seconds, step, path, loss))

    def newest_at(self, seconds: float) -> SavedModel | None:
        """The newest model saved by then."""
        return max(
            (one for one in self.saved if one.seconds <= seconds),
            key=lambda one: one.step,
            default=None,
        )


def _look(curve: _Curve, process: turns.PausableProcess) -> Callable[[], None]:
    return lambda: curve.look(process.seconds)


class _OurRun:
    """A run of albert_tf.pretrain."""

    def __init__(self, config: config_lib.Config, options: Options):
        """Measures the seconds of a step in a short run."""
        self._config, self._options = config, options
        model_dir = os.path.join(options.output_dir, "ours-calibration")
        count = 4 * config.train.steps_per_loop
        process = self._start(model_dir, count, count)
        _run_alone(process)
        self._step_seconds = metrics_log.step_seconds(model_dir)
        self._start_seconds = process.seconds - count * self._step_seconds
        self.plan: Plan = {"step_seconds": self._step_seconds}

    def start(self, seconds: float) -> turns.PausableProcess:
        """Starts a run that takes about `seconds`."""
        usable = seconds * _PLANNED_SHARE - self._start_seconds
        num_steps = max(_NUM_SAVES, int(usable / self._step_seconds))
        every = max(1, num_steps // _NUM_SAVES)
        self._model_dir = os.path.join(self._options.output_dir, "ours")
        self.plan |= {"num_steps": num_steps}
        return self._start(self._model_dir, num_steps, every)

    def find_saved(self) -> dict[int, tuple[str, float]]:
        """Returns path and held-out loss of each checkpoint, by step."""
        if not os.path.isdir(self._model_dir):
            return {}
        losses = {
            row["step"]: row["mlm_loss"]
            for row in metrics_log.read_metrics(self._model_dir)
            if row["split"] == schema.HELDOUT
        }
        return {
            step: (os.path.join(self._model_dir, f"model.ckpt-{step}"), losses[step])
            for step in checkpoint_files.whole_steps(self._model_dir)
            if step in losses
        }

    def _start(
        self, model_dir: str, num_steps: int, every: int
    ) -> turns.PausableProcess:
        # The recipe's schedule, with the same shares of its steps.
        share = num_steps / self._config.train.num_steps
        adam = self._config.optimizer
        config = config_io.override(
            self._config,
            [
                f"train.num_steps={num_steps}",
                f"optimizer.decay_steps={math.ceil(share * adam.decay_steps)}",
                f"optimizer.warmup_steps={int(share * adam.warmup_steps)}",
                f"train.save_every_steps={every}",
                f"train.eval_every_steps={every}",
                f"train.keep_checkpoints={num_steps}",
            ],
        )
        os.makedirs(self._options.output_dir, exist_ok=True)
        path = f"{model_dir}.json"
        files.write_bytes(path, config_io.to_json(config).encode())
        command = [
            *(sys.executable, "-m", "albert_tf.pretrain", f"--config={path}"),
            f"--data_dir={self._options.data_dir}",
            f"--model_dir={model_dir}",
        ]
        return turns.PausableProcess(command, f"{model_dir}.log")


class _Transformers:
    """Runs of transformers_pretraining.

    Attributes:
      plan: of the long run.
      form_seconds: of a step, by form.
      rate_losses: nats, by learning rate.
    """

    def __init__(
        self, config: config_lib.Config, manifest: schema.Manifest, options: Options
    ):
        """Installs PyTorch if needed, and writes the held-out batches."""
        self._config, self._manifest, self._options = config, manifest, options
        self._python = runner.find_python("torch")
        self._heldout_dir = self._path("heldout")
        batch_files.write_heldout(options.data_dir, manifest, config, self._heldout_dir)
        self.plan: Plan = {}
        self.form_seconds: dict[str, float] = {}
        self.rate_losses: dict[str, float] = {}

    def choose_form(self) -> None:
        """Times the forms of a step, and takes the one with most steps."""
        train_dir = self._path("train-calibration")
        count = _NUM_CALIBRATION_STEPS
        self._write_batches(train_dir, count)
        overall = self._options.minutes[-1] * 60
        found = {}
        for dtype in ("float32", "bfloat16"):
            for compiled in (False, True):
                name = f"{dtype}{', compiled' if compiled else ''}"
                form = {"dtype": dtype, "compiled": compiled}
                plan = self._plan(form, self._options.rates[0], count, 0, train_dir)
                folder = self._path(
                    f"form-{dtype}-{'compiled' if compiled else 'eager'}"
                )
                process = self._start(folder, plan)
                _run_alone(process)
                path = os.path.join(folder, "times.json")
                times = strict_json.load(path)["seconds"]
                step_seconds = statistics.median(times)
                start_seconds = process.seconds - sum(times)
                self.form_seconds[name] = step_seconds
                found[(overall - start_seconds) / step_seconds] = form, step_seconds
                print(f"transformers, {name}: {step_seconds * 1e3:.0f} ms a step")
        self._form, self._step_seconds = found[max(found)]

    def choose_rate(self) -> None:
        """Trains a short run with each rate, and takes the best."""
        seconds = self._options.minutes[-1] * 60
        num_steps = int(seconds * _PLANNED_SHARE / self._step_seconds)
        self._train_dir = self._path("train")
        self._write_batches(self._train_dir, num_steps)
        num_steps = max(1, int(self._options.rate_minutes * 60 / self._step_seconds))
        losses = {}
        for rate in self._options.rates:
            plan = self._plan(self._form, rate, num_steps, num_steps, self._train_dir)
            folder = self._path(f"rate-{rate:g}")
            _run_alone(self._start(folder, plan))
            losses[rate] = _read_loss(os.path.join(folder, f"step-{num_steps}"))
            print(f"transformers, rate {rate:g}: held-out MLM loss {losses[rate]:.3f}")
        self._rate = min(losses, key=lambda rate: losses[rate])
        self.rate_losses = {f"{rate:g}": loss for rate, loss in losses.items()}

    def start(self, seconds: float) -> turns.PausableProcess:
        """Starts a run that takes about `seconds`."""
        num_steps = int(seconds * _PLANNED_SHARE / self._step_seconds)
        num_steps = max(_NUM_SAVES, num_steps)
        every = num_steps // _NUM_SAVES
        self.plan = self._plan(
            self._form, self._rate, num_steps, every, self._train_dir
        )
        self._folder = self._path("theirs")
        return self._start(self._folder, self.plan)

    def find_saved(self) -> dict[int, tuple[str, float]]:
        """Returns path and held-out loss of each saved model, by step."""
        return {
            int(path.name.removeprefix("step-")): (str(path), _read_loss(str(path)))
            for path in pathlib.Path(self._folder).glob("step-*")
            if path.suffix != ".unfinished"
        }

    def _plan(
        self, form: Plan, rate: float, num_steps: int, every: int, train_dir: str
    ) -> Plan:
        return {
            **form,
            "model": dataclasses.asdict(self._config.model),
            "train_dir": train_dir,
            "heldout_dir": self._heldout_dir,
            "learning_rate": rate,
            "warmup_steps": _warmup_steps(num_steps),
            "num_steps": num_steps,
            "save_every_steps": every,
            "seed": self._config.train.seed,
        }

    def _start(self, folder: str, plan: Plan) -> turns.PausableProcess:
        files.write_json(f"{folder}.json", {**plan, "output_dir": folder})
        module = "albert_tf.benchmarks.transformers_pretraining"
        command = [self._python, "-m", module, f"{folder}.json"]
        return turns.PausableProcess(command, f"{folder}.log")

    def _write_batches(self, folder: str, count: int) -> None:
        batch_files.write_training(
            self._options.data_dir, self._manifest, self._config, count, folder
        )

    def _path(self, name: str) -> str:
        return os.path.join(self._options.output_dir, name)


def _warmup_steps(num_steps: int) -> int:
    return max(1, int(num_steps * _WARMUP_SHARE))


def _run_alone(process: turns.PausableProcess) -> None:
    try:
        process.run(float("inf"))
    finally:
        process.close()


def _read_loss(folder: str) -> float:
    path = os.path.join(folder, "heldout.json")
    return strict_json.load(path, lenient=True)["mlm_loss"]


def table(results: dict[str, Any]) -> list[list[str]]:
    """Rows of the held-out loss at each of the minutes."""
    rows = [["minutes", *(f"{minutes:g}" for minutes in results["minutes"])]]
    for name, at_minutes in results["at_minutes"].items():
        cells = [f"{one['mlm_loss']:.3f}" if one else "" for one in at_minutes]
        rows.append([f"{name}, MLM loss", *cells])
        cells = [f"{one['step']:,}" if one else "" for one in at_minutes]
        rows.append([f"{name}, steps", *cells])
    for name, accuracies in results.get("blimp", {}).items():
        cells = [f"{one['accuracy']:.1%}" if one else "" for one in accuracies]
        rows.append([f"{name}, BLiMP", *cells])
    return rows
