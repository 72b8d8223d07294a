"""The commands that the suite disturbs, with small inputs."""

import hashlib
import json
import pathlib
import re
from typing import Any

from albert_tf.checkpoints import checkpointer
from albert_tf.core import checksums
from albert_tf.inference import saved_model_dir
from albert_tf.serving import model_card
from tests.faults import bench as bench_lib
from tests.support import small_run, small_task
from tests.support import training_processes as processes

# Everything that is random is on; rows, evaluations and checkpoints do not coincide.
TRAINING = (
    "data.masking=dynamic",
    "data.dupe_factor=1",
    "model.hidden_dropout_rate=0.1",
    "model.attention_dropout_rate=0.1",
    "model.num_layers=1",
    "train.num_steps=600",
    "train.steps_per_loop=20",
    "train.save_every_steps=14",
    "train.eval_every_steps=200",
    "train.keep_checkpoints=2",
)
# What tells the time, or how a run was interrupted.
_OF_TIME = ("seconds", "begun_at")
_DATED = (model_card.FILE, saved_model_dir.DESCRIPTION_FILE)
_DATE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
# And the sums of these.
_DRAWN_BY_TENSORFLOW = ("fingerprint.pb", "saved_model.pb", checksums.FILE)
_CHANGING_FILES = ("metrics.jsonl", "run.lock", "provenance.json")


def prepare(bench: bench_lib.Bench, num_workers: int = 2) -> bench_lib.Command:
    """Data preparation."""

    def words(output: pathlib.Path) -> list[str]:
        settings = (
            "model.vocab_size=4000",
            "data.max_seq_length=32",
            "data.dupe_factor=2",
            "data.heldout_rate=0.2",
            "data.min_shards=3",
            "text.drop_exact_duplicates=true",
        )
        return [
            "tests.faults.small_blocks",
            f"--input={bench.corpus}/*.txt",
            f"--vocab_model={small_run.VOCAB}",
            f"--output_dir={output}",
            f"--num_workers={num_workers}",
            *(f"--set={setting}" for setting in settings),
        ]

    return bench_lib.Command(f"prepare-{num_workers}", words, of_files)


def pretrain(bench: bench_lib.Bench, *settings: str) -> bench_lib.Command:
    """Pre-training."""

    def words(output: pathlib.Path) -> list[str]:
        return processes.command(bench.records, output, (*TRAINING, *settings))[2:]

    return bench_lib.Command("-".join(["pretrain", *settings]), words, of_training)


def finetune(bench: bench_lib.Bench, *settings: str) -> bench_lib.Command:
    """Fine-tuning."""

    def words(output: pathlib.Path) -> list[str]:
        flags = small_task.arguments(
            *(bench.pretrained, bench.table, output, "train.num_steps=60"), *settings
        )
        return ["albert_tf.finetune", *flags]

    return bench_lib.Command("-".join(["finetune", *settings]), words, of_fine_tuning)


def convert(bench: bench_lib.Bench, target: str) -> bench_lib.Command:
    """Conversion of a run to another format."""

    def words(output: pathlib.Path) -> list[str]:
        source = f"--from=run:{bench.pretrained}"
        return ["albert_tf.convert", source, f"--to={target}:{output}"]

    return bench_lib.Command(f"convert-{target}", words, of_files, True)


def export(bench: bench_lib.Bench, form: str) -> bench_lib.Command:
    """Export of a run."""

    def words(output: pathlib.Path) -> list[str]:
        return [
            "albert_tf.export",
            f"--model_dir={bench.pretrained}",
            f"--output_dir={output}",
            f"--form={form}",
        ]

    return bench_lib.Command(f"export-{form}", words, of_export, True)


def probe(bench: bench_lib.Bench) -> bench_lib.Command:
    """Probing of a run."""

    def words(output: pathlib.Path) -> list[str]:
        return [
            "albert_tf.probe",
            f"--model={bench.pretrained}",
            f"--suite={bench.pairs}",
            f"--output_dir={output}",
        ]

    return bench_lib.Command("probe", words, of_probing)


# ---- Results ----


def of_files(folder: pathlib.Path) -> dict[str, Any]:
    """The SHA-256 of each file by its path; of what has a date without it."""
    found = {}
    for path in sorted(filter(pathlib.Path.is_file, folder.rglob("*"))):
        content = path.read_bytes()
        if path.name in _DATED:
            content = _DATE.sub(b"", content)
        name = path.relative_to(folder).as_posix()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def of_training(folder: pathlib.Path) -> dict[str, Any]:
    """All variables of the newest checkpoint, the rows, and which one is the best."""
    variables = {
        name: hashlib.sha256(value.tobytes()).hexdigest()
        for name, value in processes.variables(folder).items()
        # How often it was saved; and which step was evaluated before that, whose row is
        # the same if a process was ended between the two.
        if not name.startswith(("save_counter/", "loop/evaluated_step/"))
    }
    best = (folder / checkpointer.BEST_FILE).read_text()
    return {"rows": processes.computed_rows(folder), "best": best, **variables}


def of_fine_tuning(folder: pathlib.Path) -> dict[str, Any]:
    """Predictions and answers by bytes; results without the seconds; rows."""
    found = {
        name: value
        for name, value in of_files(folder).items()
        if not name.startswith(("model.ckpt", "checkpoint", "summaries/"))
        # A killed process may leave the file that it was writing, which nothing reads.
        and ".tmp-" not in name
        and name not in (*_CHANGING_FILES, "results.json")
    }
    results = json.loads((folder / "results.json").read_text())
    rows = processes.computed_rows(folder)
    return {**found, "results.json": _timeless(results), "rows": rows}


def of_probing(folder: pathlib.Path) -> dict[str, Any]:
    """Scores of the pairs by bytes, and the results without the seconds."""
    results = json.loads((folder / "results.json").read_text())
    scores = (folder / "pairs.tsv").read_bytes()
    page = (folder / "index.html").exists()
    return {"results.json": _timeless(results), "pairs.tsv": scores, "page": page}


def of_export(folder: pathlib.Path) -> dict[str, Any]:
    """The files by bytes, except for what TensorFlow draws or counts."""
    return {
        name: None if name.endswith(_DRAWN_BY_TENSORFLOW) else value
        for name, value in of_files(folder).items()
    }


def _timeless(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if not k.endswith(_OF_TIME)}
