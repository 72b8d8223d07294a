"""Stages of the demonstration: binaries that run one after another, and resume."""

import dataclasses
import hashlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import binaries, files, strict_json
from albert_tf.core import config as config_lib

RECORDS, RUN, ANSWERS = "records", "run", "answers.jsonl"
SAVED_MODEL = "saved_model"
MASKED_TEXTS = (
    "The default value is [MASK].",
    "Returns a [MASK] with the same type as the input.",
    "A Python [MASK] that contains the names.",
)
_STAGES_FILE = "stages.json"


@dataclasses.dataclass(frozen=True)
class _State:
    """An entry of stages.json: what the stage depends on, and how far it is."""

    key: str
    seconds: float
    done: bool


@dataclasses.dataclass(frozen=True)
class Stage:
    """One binary to run; `output` exists when it is done."""

    name: str
    output: str
    command: tuple[str, ...]
    resumes: bool = False


def make_stages(
    output_dir: str, config_path: str, config: config_lib.Config
) -> list[Stage]:
    """All stages, in order."""

    def path(name):
        return os.path.join(output_dir, name)

    corpus, vocab, records = path("corpus.txt"), path("vocab.model"), path(RECORDS)
    run, saved_model, answers = path(RUN), path(SAVED_MODEL), path(ANSWERS)
    recipe = f"--config={config_path}"
    return [
        Stage("corpus", corpus, ("data_prep.demo_corpus", f"--output={corpus}")),
        Stage(
            "vocabulary",
            vocab,
            (
                "data_prep.train_vocab",
                f"--input={corpus}",
                f"--output={vocab}",
                f"--vocab_size={config.model.vocab_size}",
                "--num_workers=1",
            ),
        ),
        Stage(
            "records",
            records,
            (
                "data_prep.create_pretraining_data",
                recipe,
                f"--input={corpus}",
                f"--vocab_model={vocab}",
                f"--output_dir={records}",
                "--num_workers=1",
            ),
        ),
        Stage(
            "pretraining",
            run,
            (
                "albert_tf.pretrain",
                recipe,
                f"--data_dir={records}",
                f"--model_dir={run}",
            ),
            resumes=True,
        ),
        Stage(
            "export",
            saved_model,
            ("albert_tf.export", f"--model_dir={run}", f"--output_dir={saved_model}"),
        ),
        Stage(
            "answers",
            answers,
            (
                "albert_tf.predict",
                f"--saved_model={saved_model}",
                "--json",
                *MASKED_TEXTS,
            ),
        ),
    ]


def run_stages(output_dir: str, to_do: Sequence[Stage], recipe: str) -> dict[str, Any]:
    """Runs the stages that are not done.

    Args:
      output_dir: `stages.json` there records the stages that are done.
      to_do: the stages, in order.
      recipe: text of the resolved configuration; with another one all stages run again.

    Returns:
      Seconds of each stage by name, including interrupted attempts.

    Raises:
      ValueError: a stage failed; it has printed the reason.
    """
    path = os.path.join(output_dir, _STAGES_FILE)
    done = _read_states(path) if os.path.exists(path) else {}
    key = recipe
    for number, stage in enumerate(to_do, 1):
        key = hashlib.sha256("\n".join((key, *stage.command)).encode()).hexdigest()
        state = done.get(stage.name, {})
        if state.get("key") != key:
            _remove(stage.output)
            state = {"key": key, "seconds": 0.0, "done": False}
        title = f"[{number}/{len(to_do)}] {stage.name}"
        if state["done"] and os.path.exists(stage.output):
            print(f"{title}: done before, {state['seconds']:.0f} s", flush=True)
        else:
            if not stage.resumes:
                _remove(stage.output)
            done[stage.name] = state
            # So that a stage that is killed does not look outdated.
            files.write_json(path, done)
            started = time.monotonic()
            try:
                run_stage(stage, title)
                state["done"] = True
            finally:
                state["seconds"] += time.monotonic() - started
                files.write_json(path, done)
        done[stage.name] = state
    return {stage.name: round(done[stage.name]["seconds"], 1) for stage in to_do}


def _read_states(path: str) -> dict[str, Any]:
    states = strict_json.as_type(strict_json.load(path), path, Mapping[str, _State])
    return {name: dataclasses.asdict(state) for name, state in states.items()}


def run_stage(stage: Stage, title: str) -> None:
    """Prints the title and the command of one stage, and runs it.

    Raises:
      ValueError: it failed.
      SystemExit: it was asked to end, with its exit code.
    """
    command = shlex.join(stage.command)
    print(f"{title}: python -m {command}", file=sys.stderr, flush=True)
    if stage.name != "answers":
        _check(stage, binaries.run_attached(*stage.command))
        return
    with files.open_complete(stage.output) as file:
        _check(stage, binaries.run_attached(*stage.command, stdout=file))


def _check(stage: Stage, code: int) -> None:
    if code in binaries.RESUMABLE:
        raise SystemExit(max(code, os.EX_TEMPFAIL))
    if code:
        raise ValueError(
            f"the stage {stage.name} ended with code {code}; its output is above. The "
            "same command resumes here"
        )


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
