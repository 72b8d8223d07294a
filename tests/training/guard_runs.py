"""Runs of the demonstration, some broken on purpose, and the guard's verdict on each.

Call as `python -m tests.training.guard_runs --data_dir=RECORDS --output_dir=DIR
--json=docs/training/guard.json`; RECORDS are those of `make demo`. A run whose figures
the file has is not repeated, so the same command resumes. It prints the table that
docs/training.md has.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.core import provenance, strict_json
from albert_tf.data import schema
from albert_tf.training import guard, metrics_log

# LAMB with the demonstration's settings before Muon, by which the guard's bounds were
# set.
LAMB = (
    "optimizer.name=lamb",
    "optimizer.learning_rate=0.01",
    "model.initializer_range=0.01",
    "optimizer.weight_decay_rate=0.01",
    "optimizer.beta_1=0.9",
    "optimizer.beta_2=0.999",
)
FEW = 4000  # records; the demonstration has 275,572
SHORT = ("train.num_steps=1400", "train.eval_every_steps=200", "train.eval_batches=10")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of `configs/demo.py`.

    Attributes:
      title: in the table.
      settings: of `--set`.
      records: a name of `BROKEN_RECORDS`, or empty for those of the demonstration.
    """

    title: str
    settings: tuple[str, ...]
    records: str = ""


RUNS: Mapping[str, Run] = {
    "muon": Run("the recipe, 2,800 steps", ()),
    "lamb": Run("LAMB", (*LAMB, *SHORT)),
    "lamb-no-warmup": Run(
        "LAMB, no warmup", (*LAMB, *SHORT, "optimizer.warmup_steps=0")
    ),
    "lamb-high": Run(
        "LAMB, rate 0.1, ten times the usual one",
        (*LAMB, *SHORT, "optimizer.learning_rate=0.1"),
    ),
    "lamb-high-all-steps": Run(
        "the same with `train.max_loss_rise=1000`",
        (*LAMB, *SHORT, "optimizer.learning_rate=0.1", "train.max_loss_rise=1000"),
    ),
    "adamw-high": Run(
        "AdamW, rate 0.006, ten times the usual one, no warmup",
        (
            *LAMB,
            *SHORT,
            "optimizer.name=adamw",
            "optimizer.learning_rate=0.006",
            "optimizer.warmup_steps=0",
        ),
    ),
    "lamb-shuffled": Run("LAMB, labels shuffled", (*LAMB, *SHORT), "shuffled"),
    "muon-high": Run(
        "Muon, rate 0.04, ten times the recipe's",
        (*SHORT, "optimizer.learning_rate=0.04"),
    ),
    "muon-high-no-warmup": Run(
        "the same without warmup",
        (*SHORT, "optimizer.learning_rate=0.04", "optimizer.warmup_steps=0"),
    ),
    "muon-shuffled": Run("Muon, labels shuffled", SHORT, "shuffled"),
    "muon-few": Run(
        f"Muon, {FEW:,} of the records", ("train.eval_every_steps=200",), "few"
    ),
}


def shuffle_labels(records: pathlib.Path, shuffled: pathlib.Path) -> None:
    """Copies records; the labels of masked tokens change places within each shard.

    Args:
      records: with static masks and no compression.
      shuffled: the directory of the copy; the manifest's digests are unchanged.
    """
    shutil.copytree(records, shuffled)
    rng = np.random.default_rng(1)
    for path in sorted(shuffled.glob("*.tfrecord")):
        examples = [tf.train.Example.FromString(record) for record in _read(path)]
        labels = [
            np.frombuffer(_labels_of(example)[0], np.uint16) for example in examples
        ]
        places = np.cumsum([len(one) for one in labels])[:-1]
        found = np.split(rng.permutation(np.concatenate(labels)), places)
        for example, new in zip(examples, found, strict=True):
            _labels_of(example)[0] = new.tobytes()
        _write(path, (example.SerializeToString() for example in examples))


def keep_few(records: pathlib.Path, few: pathlib.Path) -> None:
    """Copies the first `FEW` records of the first shard, and all held-out ones."""
    shutil.copytree(records, few)
    manifest = _manifest(records)
    train = manifest.splits[schema.TRAIN]
    for shard in train.shards[1:]:
        (few / shard.name).unlink()
    first = train.shards[0]
    path = few / first.name
    kept = list(itertools.islice(_read(path), FEW))
    _write(path, kept)
    shard = dataclasses.replace(
        first, num_records=len(kept), num_bytes=path.stat().st_size
    )
    split = dataclasses.replace(train, num_records=len(kept), shards=(shard,))
    manifest = dataclasses.replace(
        manifest, splits={**manifest.splits, schema.TRAIN: split}
    )
    (few / "manifest.json").write_text(manifest.to_json())


BROKEN_RECORDS: Mapping[str, Callable[[pathlib.Path, pathlib.Path], None]] = {
    "shuffled": shuffle_labels,
    "few": keep_few,
}


def _read(path: pathlib.Path) -> Iterator[bytes]:
    return tf.data.TFRecordDataset(str(path)).as_numpy_iterator()


def _write(path: pathlib.Path, records: Iterable[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def _labels_of(example: tf.train.Example):
    return example.features.feature["masked_lm_ids"].bytes_list.value


def _manifest(records: pathlib.Path) -> schema.Manifest:
    return schema.Manifest.from_json((records / "manifest.json").read_text())


def measure(run: Run, records: pathlib.Path, model_dir: pathlib.Path) -> dict[str, Any]:
    """Trains a run to its end, by the command, and returns its figures.

    Raises:
      RuntimeError: the command neither trained to its last step nor was ended by the
        guard or by a failed step.
    """
    shutil.rmtree(model_dir, ignore_errors=True)
    command = [sys.executable, "-m", "albert_tf.pretrain", "--config=configs/demo.py"]
    command += [f"--data_dir={records}", f"--model_dir={model_dir}"]
    for setting in (*run.settings, "train.on_no_progress=end"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    output = done.stdout + done.stderr
    lines = re.split(r"[\r\n]+", output)
    lines = [one for one in lines if "no progress" in one or " failed: " in one]
    if (done.returncode, len(lines)) not in ((0, 0), (1, 1), (guard.EXIT_CODE, 1)):
        raise RuntimeError(f"exit code {done.returncode}, {lines}:\n{output[-2000:]}")
    heldout = {
        row["step"]: round(row["mlm_loss"], 6)
        for row in metrics_log.read_metrics(str(model_dir))
        if row["split"] == schema.HELDOUT
    }
    return {
        "settings": run.settings,
        "records": run.records,
        "exit_code": done.returncode,
        "heldout_mlm_loss": heldout,
        "line": "".join(lines).replace(f"{model_dir.parent}/", ""),
    }


class Verdict(NamedTuple):
    """The last two cells of a row of the table."""

    verdict: str
    named: str


def verdict(figures: Mapping[str, Any]) -> Verdict:
    """Returns what a run was found to be."""
    line = figures["line"]
    if not line:
        return Verdict("none", "")
    what, _, named = line.partition("Likely causes: ")
    if figures["exit_code"] == guard.EXIT_CODE:
        what = "the loss climbs" if "climbs" in what else "no progress"
    what = what.partition(". ")[0].removeprefix("error: ")
    return Verdict(f"{what}; exit code {figures['exit_code']}", named)


def rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of the table, for the figures of all runs."""
    yield "| run | held-out MLM loss, nats | at step | verdict | likely causes named |"
    yield "|---|---|---|---|---|"
    for name, run in RUNS.items():
        losses = list(found[name]["heldout_mlm_loss"].items())
        shown = ", ".join(f"{loss:.3f}" for _, loss in losses[1:])
        cells = [run.title, shown, f"{int(losses[-1][0]):,}", *verdict(found[name])]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Trains what is missing in the file and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--data_dir", "--output_dir", "--json"):
        parser.add_argument(flag, type=pathlib.Path, required=True)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.json.exists():
        found = strict_json.loads(options.json.read_text(), str(options.json))
    found.setdefault("versions", provenance.now().versions)
    found["heldout_unigram_entropy"] = _manifest(
        options.data_dir
    ).heldout_unigram_entropy
    measured = found.setdefault("runs", {})
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, run in RUNS.items():
        if name in measured:
            continue
        records = options.data_dir
        if run.records:
            records = options.output_dir / f"records-{run.records}"
            if not (records / "done").exists():
                shutil.rmtree(records, ignore_errors=True)
                BROKEN_RECORDS[run.records](options.data_dir, records)
                (records / "done").touch()
        measured[name] = measure(run, records, options.output_dir / name)
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(*rows(measured), sep="\n")


if __name__ == "__main__":
    main()
