"""The runs whose learning curves are compared: of this project, and of transformers."""

import dataclasses
import math
import os
import pathlib
import statistics
import sys
from typing import Any

from albert_tf.benchmarks import batch_files, runner, turns
from albert_tf.checkpoints import checkpoint_files
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files, strict_json
from albert_tf.data import schema
from albert_tf.training import metrics_log

_NUM_CALIBRATION_STEPS = 60
# Of a run's time; the rest is a reserve, since the speed varies.
_PLANNED_SHARE = 0.95
_WARMUP_SHARE = 0.05
_NUM_SAVES = 60

Plan = dict[str, Any]


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


class OurRun:
    """A run of albert_tf.pretrain."""

    def __init__(self, config: config_lib.Config, options: Options):
        """Measures the seconds of a step in a short run."""
        self._config, self._options = config, options
        self.plan: Plan = {}
        model_dir = os.path.join(options.output_dir, "ours-calibration")
        count = 4 * config.train.steps_per_loop
        process = self._start(model_dir, count, count)
        _run_alone(process)
        self._step_seconds = metrics_log.step_seconds(model_dir)
        self._start_seconds = process.seconds - count * self._step_seconds
        self.plan["step_seconds"] = self._step_seconds

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
        # The recipe's schedule, with the same share of its steps; no longer a warm-up
        # than the recipe's.
        share = num_steps / self._config.train.num_steps
        adam = self._config.optimizer
        warmup = math.ceil(min(1.0, share) * adam.warmup_steps)
        config = config_io.override(
            self._config,
            [
                f"train.num_steps={num_steps}",
                f"optimizer.decay_steps={math.ceil(share * adam.decay_steps)}",
                f"optimizer.warmup_steps={warmup}",
                f"train.save_every_steps={every}",
                f"train.eval_every_steps={every}",
                f"train.keep_checkpoints={num_steps}",
            ],
        )
        self.plan["optimizer"] = dataclasses.asdict(config.optimizer)
        os.makedirs(self._options.output_dir, exist_ok=True)
        path = f"{model_dir}.json"
        files.write_bytes(path, config_io.to_json(config).encode())
        command = [
            *(sys.executable, "-m", "albert_tf.pretrain", f"--config={path}"),
            f"--data_dir={self._options.data_dir}",
            f"--model_dir={model_dir}",
        ]
        return turns.PausableProcess(command, f"{model_dir}.log")


class Transformers:
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
