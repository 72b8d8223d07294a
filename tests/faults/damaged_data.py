"""Data whose files are damaged: records, texts, features, predictions, vocabularies."""

import bz2
import functools
import gzip
import json
import lzma
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import zstandard

from albert_tf.checkpoints import run_dir
from albert_tf.core import config
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema, sources
from albert_tf.tasks import features, predictions
from albert_tf.training import metrics_log
from data_prep.reading import blocks
from data_prep.verification import run as verification
from tests.faults import damage, experiment
from tests.support import small_rows, small_run

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
_FLIPS = ("flip", "cut", "zeros")


# ---- Records ----


def _make_records(folder: pathlib.Path, seed: int) -> None:
    made = small_run.write_records(folder / "made", f"data.seed={seed}")
    for path in made.iterdir():
        path.rename(folder / path.name)
    made.rmdir()
    (folder / "made" / "corpus.txt").unlink()
    (folder / "made").rmdir()


def _verify(folder: pathlib.Path) -> Any:
    problems = verification.verify(str(folder), deep=True)
    if problems:
        raise ValueError(problems[0])
    return manifest_lib.read_manifest(str(folder))


def _read_as_training(folder: pathlib.Path) -> Any:
    """What training reads: the manifest, the vocabulary, and every record."""
    manifest = manifest_lib.read_manifest(str(folder))
    settings = small_run.small_config()
    manifest_lib.check_manifest(str(folder), manifest, settings)
    (stage,) = sources.read(str(folder), settings)
    vocab = run_dir.read_vocab(sources.distinct([stage])[0])
    compression = manifest.data["compression"]
    content = {}
    for split in manifest.splits.values():
        for shard in split.shards:
            records = tf.data.TFRecordDataset(
                str(folder / shard.name),
                "" if compression == "none" else compression.upper(),
            )
            try:
                content[shard.name] = [record.numpy() for record in records]
            except tf.errors.OpError as error:
                # The stream of a run names the shards in its message.
                raise ValueError(f"{folder / shard.name}: {error.message}") from error
    return {"vocab": vocab, "records": content, "settings": manifest.data}


# ---- Texts ----


def _texts(seed: int) -> list[str]:
    return [f"Document {n} of {seed}.\nIt has two lines." for n in range(40)]


def make_texts(suffix: str, folder: pathlib.Path, seed: int) -> None:
    """Writes a file of forty documents, compressed."""
    content = "\n\n".join(_texts(seed)).encode()
    (folder / f"texts.txt{suffix}").write_bytes(COMPRESS[suffix](content))


def documents(path: pathlib.Path) -> Any:
    """All documents of a file, as data preparation reads them."""
    text = config.TextConfig()
    group = blocks.Group(0, (str(path),))
    found = blocks.iter_blocks(group, text, 1 << 20)
    return [blocks.parse_block(block, text) for block in found]


def _read_texts(folder: pathlib.Path) -> Any:
    (path,) = folder.iterdir()
    return documents(path)


# ---- Files of tasks ----


def _make_features(folder: pathlib.Path, seed: int) -> None:
    rows = small_rows.make("classification", 20 + seed)
    (folder / "features.npz").write_bytes(features.to_bytes(rows))


def _read_features(folder: pathlib.Path) -> Any:
    path = folder / "features.npz"
    try:
        found = features.from_bytes(path.read_bytes())
    except ValueError as error:  # which the cache takes as: make them again
        raise ValueError(f"{path}: {error}") from error
    return features.digest(found)


def _make_predictions(folder: pathlib.Path, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(20, 3)).astype(np.float32)
    content = predictions.to_bytes(list("abcdefghijklmnopqrst"), _logits(values))
    (folder / "outputs.npz").write_bytes(content)


def _logits(values: np.ndarray) -> predictions.Logits:
    return predictions.Logits(values)


def _read_predictions(folder: pathlib.Path) -> Any:
    path = folder / "outputs.npz"
    try:
        ids, found = predictions.from_bytes(path.read_bytes())
    except ValueError as error:  # its callers name the file
        raise ValueError(f"{path}: {error}") from error
    return {"ids": ids, "values": found.values}


def _make_metrics(folder: pathlib.Path, seed: int) -> None:
    rows = [{"split": "train", "step": n, "loss": seed / (n + 1)} for n in range(30)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text)


def _read_metrics(folder: pathlib.Path) -> Any:
    return metrics_log.read_metrics(str(folder))


def _records() -> Iterator[damage.Format]:
    yield damage.Format(
        "shards and vocabulary, by verify --deep",
        _make_records,
        _verify,
        ("*.tfrecord*", schema.VOCAB_FILE),
    )
    yield damage.Format(
        "manifest, by verify --deep",
        _make_records,
        _verify,
        (schema.MANIFEST_FILE,),
        "its JSON has no checksum, and records do not show each setting and count",
    )
    yield damage.Format(
        "shards, as training reads them",
        _make_records,
        _read_as_training,
        ("*.tfrecord*", schema.VOCAB_FILE),
        kinds=_FLIPS,
    )


def _files() -> Iterator[damage.Format]:
    for suffix in COMPRESS:
        make = functools.partial(make_texts, suffix)
        yield damage.Format(f"texts{suffix}", make, _read_texts, kinds=_FLIPS)
    yield damage.Format("features", _make_features, _read_features, kinds=_FLIPS)
    yield damage.Format(
        "predictions", _make_predictions, _read_predictions, kinds=_FLIPS
    )
    yield damage.Format(
        "metrics.jsonl",
        _make_metrics,
        _read_metrics,
        may_differ="lines of text without a checksum; its last, cut line is left out",
        kinds=_FLIPS,
    )


_FAULT = "a bit flipped, a file cut off, a page of zeros"
EXPERIMENTS = (
    experiment.Experiment(
        "records-damaged",
        "shards, manifest and vocabulary of records, by verify --deep and by training",
        f"{_FAULT}, the file of other records",
        "named, or read as before",
        600,
        10,
        damage.harm(_records),
    ),
    experiment.Experiment(
        "files-damaged",
        "texts in gz, bz2, xz and zst; caches of features; predictions; metrics",
        _FAULT,
        "named, or read as before; lines of plain text may differ",
        4000,
        70,
        damage.harm(_files),
    ),
)
