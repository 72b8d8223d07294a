"""Held-out loss over wall time: this project beside transformers on PyTorch.

Both train a model of the same sizes on the same batches, in turns on one machine:

1. PyTorch's step is timed with and without torch.compile, in both precisions; the
   fastest form is taken.
2. PyTorch trains with several learning rates for some minutes each; the best is taken.
3. Both train for the last of the minutes to report, in turns, and save regularly. At
   each of the minutes the newest saved model counts. The results are written after each
   turn, so that those of a comparison that was ended are kept. While there is a file
   `hold` beside the results, no turn begins.
4. Grammar is probed with the models of these minutes, if a suite is given: the same
   pairs, in float32.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from albert_tf.benchmarks import learning_runs, turns
from albert_tf.core import binaries, files, strict_json
from albert_tf.core import config as config_lib
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from albert_tf.diagnostics import cpu

OURS, THEIRS = "albert_tf", "transformers"
_HOLD_POLL_SECONDS = 0.5


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


def measure(
    config: config_lib.Config, options: learning_runs.Options
) -> dict[str, Any]:
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
    theirs = learning_runs.Transformers(config, manifest, options)
    theirs.choose_form()
    theirs.choose_rate()
    seconds = options.minutes[-1] * 60
    processes, looks, curves = {}, {}, {}
    ours = learning_runs.OurRun(config, options)
    for name, run in ((OURS, ours), (THEIRS, theirs)):
        curves[name] = _Curve(run.find_saved)
        processes[name] = run.start(seconds)
        looks[name] = _look(curves[name], processes[name])

    def results() -> dict[str, Any]:
        return {
            "command": list(sys.argv),
            "cpu": cpu.judge(cpu.observe())[0].values,
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
        _probe(found, config, options)
    files.write_json(options.results_path, found)
    return found


def _probe(
    results: dict[str, Any], config: config_lib.Config, options: learning_runs.Options
) -> None:
    """Adds the accuracies on BLiMP to the results, and writes them after each."""
    accuracies: dict[str, list[dict[str, Any] | None]] = {}
    results["blimp"] = accuracies
    for name, models in results["at_minutes"].items():
        accuracies[name] = []
        by_step: dict[int, dict[str, Any]] = {}
        for model in models:
            if model and model["step"] not in by_step:
                by_step[model["step"]] = _accuracy(name, model, config, options)
            accuracies[name].append(by_step[model["step"]] if model else None)
            files.write_json(options.results_path, results)


def _accuracy(
    name: str,
    model: dict[str, Any],
    config: config_lib.Config,
    options: learning_runs.Options,
) -> dict[str, Any]:
    """Returns the accuracy of a saved model on BLiMP, with its interval."""
    path = model["path"]
    folder = os.path.join(options.output_dir, f"{name}-{model['step']}")
    if name == THEIRS:
        vocab = os.path.join(options.data_dir, schema.VOCAB_FILE)
        binaries.run_module(
            "albert_tf.convert",
            *(f"--from=hf:{path}", f"--to=run:{folder}-run"),
            f"--vocab_model={vocab}",
            # Longer pairs are left out, as with this project's run.
            f"--set=data.max_seq_length={config.data.max_seq_length}",
        )
        path = f"{folder}-run"
    binaries.run_module(
        "albert_tf.probe",
        *(f"--model={path}", "--suite=blimp"),
        *(f"--data_dir={options.blimp_dir}", f"--output_dir={folder}-blimp"),
        f"--pairs_per_paradigm={options.probe_pairs}",
        "--compute_dtype=float32",
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
