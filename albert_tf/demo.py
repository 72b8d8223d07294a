"""The demonstration: from this machine's own documentation to filled masks.

python -m albert_tf.demo --output_dir=build/demo

Runs the binaries as a user would, one after another, each in a process of its own.
Interrupted, the same command goes on: a stage that is done is not done again, unless
its command, the recipe or a stage before it changed.
"""

import dataclasses
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import flags

from albert_tf import binary, input_pipeline, run_log, schema
from albert_tf import config as config_lib

MASKED_TEXTS = (
    "The default value is [MASK].",
    "Returns a [MASK] with the same type as the input.",
    "A Python [MASK] that contains the names.",
)
_STAGES_FILE = "stages.json"


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "output_dir", "build/demo", "Folder of everything made.", flag_values
    )
    flags.DEFINE_string(
        "config", "configs/demo.py", "The recipe to follow.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )


@dataclasses.dataclass(frozen=True)
class Stage:
    """One binary to run: `output` is there once it is done."""

    name: str
    output: str
    command: tuple[str, ...]
    resumes: bool = False


def stages(output_dir: str, config_path: str, config: config_lib.Config) -> list[Stage]:
    """The way of the data, in order."""

    def path(name):
        return os.path.join(output_dir, name)

    corpus, vocab, records = path("corpus.txt"), path("vocab.model"), path("records")
    run, saved_model, answers = path("run"), path("saved_model"), path("answers.jsonl")
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
    """Runs what is not done yet.

    Args:
      output_dir: where `stages.json` keeps what is done.
      to_do: the stages, in order.
      recipe: text of the resolved configuration; with another one all is made anew.

    Returns:
      Seconds of each stage by name, interrupted attempts counted in.

    Raises:
      ValueError: a stage failed; it has said why.
    """
    path = os.path.join(output_dir, _STAGES_FILE)
    done = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            done = json.load(file)
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
            print(
                f"{title}: python -m {shlex.join(stage.command)}",
                file=sys.stderr,
                flush=True,
            )
            done[stage.name] = state
            _write_json(
                path, done
            )  # a kill must not make a stage look like a stale one
            started = time.monotonic()
            try:
                _run(stage)
                state["done"] = True
            finally:
                state["seconds"] += time.monotonic() - started
                _write_json(path, done)
        done[stage.name] = state
    return {stage.name: round(done[stage.name]["seconds"], 1) for stage in to_do}


def _write_json(path: str, values: dict[str, Any]) -> None:
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".tmp", path)


def _run(stage: Stage) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # What TensorFlow says of missing GPUs would bury the progress.
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    command = [sys.executable, "-m", *stage.command]
    if stage.name != "answers":
        result = subprocess.run(command, env=environment, check=False)
    else:
        result = subprocess.run(
            command, env=environment, check=False, stdout=subprocess.PIPE
        )
        if result.returncode == 0:
            with open(stage.output, "wb") as file:
                file.write(result.stdout)
    if result.returncode:
        raise ValueError(
            f"the stage {stage.name} ended with code {result.returncode}; what it said "
            "stands above. The same command goes on from here"
        )


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def summarize(output_dir: str, seconds: dict[str, float]) -> dict[str, Any]:
    """The figures of a finished demonstration, by name.

    Args:
      output_dir: where the stages wrote.
      seconds: of each stage.
    """
    manifest = input_pipeline.read_manifest(os.path.join(output_dir, "records"))
    run = os.path.join(output_dir, "run")
    held_out = [
        row for row in run_log.read_metrics(run) if row["split"] == schema.HELDOUT
    ]
    shapes = tf.train.list_variables(tf.train.latest_checkpoint(run))
    with open(os.path.join(output_dir, "answers.jsonl"), encoding="utf-8") as file:
        answers = [json.loads(line) for line in file]
    train, held = manifest.splits[schema.TRAIN], manifest.splits[schema.HELDOUT]
    return {
        "documents": train.num_documents,
        "records": train.num_records,
        "heldout_documents": held.num_documents,
        "heldout_records": held.num_records,
        "vocab_size": manifest.vocab_size,
        "parameters": sum(
            tf.TensorShape(shape).num_elements()
            for name, shape in shapes
            if name.startswith("model/")
        ),
        "steps": held_out[-1]["step"],
        "seconds": seconds,
        "total_seconds": round(sum(seconds.values()), 1),
        "heldout_unigram_entropy": manifest.heldout_unigram_entropy,
        "before": _metrics(held_out[0]),
        "after": _metrics(held_out[-1]),
        "filled_masks": [
            {"text": answer["text"], "answers": answer["masks"][0]}
            for answer in answers
        ],
        "data_statistics": dict(train.statistics),
    }


def _metrics(row: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in row.items()
        if name.endswith(("_loss", "_accuracy"))
    }


def _closing_lines(summary: dict[str, Any], report: str) -> str:
    entropy, after = summary["heldout_unigram_entropy"], summary["after"]["mlm_loss"]
    lines = [
        f"{summary['steps']} steps in {summary['seconds']['pretraining']:.0f} s; all "
        f"stages {summary['total_seconds']:.0f} s",
        f"held-out MLM loss before {summary['before']['mlm_loss']:.4f}, after "
        f"{after:.4f} nats",
        f"heldout_unigram_entropy {entropy:.4f} nats: the loss is "
        f"{entropy - after:.4f} below",
    ]
    for filled in summary["filled_masks"]:
        best = filled["answers"][0]["token"].replace("▁", "")
        text = filled["text"].replace("[MASK]", f"[{best}]")
        lines.append(f"{text}  ({filled['answers'][0]['probability']:.2f})")
    lines.append(f"report: {report}")
    return "\n".join(lines)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Runs all stages, then writes summary.json and the report."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        output_dir = flag_values.output_dir
        config = config_lib.load(flag_values.config, flag_values.set)
        os.makedirs(output_dir, exist_ok=True)
        recipe = os.path.join(output_dir, schema.CONFIG_FILE)
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(config_lib.to_json(config))
        to_do = stages(output_dir, recipe, config)
        seconds = run_stages(output_dir, to_do, config_lib.to_json(config))
        summary = summarize(output_dir, seconds)
        for folder in (output_dir, os.path.join(output_dir, "run")):
            _write_json(os.path.join(folder, "summary.json"), summary)
        run, report = (
            os.path.join(output_dir, "run"),
            os.path.join(output_dir, "report"),
        )
        _run(
            Stage("report", report, ("albert_tf.report", run, f"--output_dir={report}"))
        )
        print(_closing_lines(summary, os.path.join(report, "index.html")))


if __name__ == "__main__":
    binary.run(main, define_flags)
