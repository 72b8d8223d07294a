"""Models whose files are damaged: runs, and the formats of others."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from albert_tf.core import config
from albert_tf.interchange import conversion, portable, weight_map
from tests.faults import damage, experiment
from tests.support import portable_models, small_run

_NO_CHECKSUM = "the format has no checksum"
_PLAIN_TEXT = "a digit of a file that people edit may be another setting"
_WEIGHTS = {
    "run": ("*.index", "*.data-*"),
    "tf1": ("*.index", "*.data-*"),
    "hf": ("*.safetensors",),
    "keras": ("*.h5",),
}
_CONFIGS = {
    "run": ("config.json",),
    "tf1": ("albert_config.json",),
    "hf": ("config.json",),
    "keras": ("config.json",),
}
_VOCABS = {
    "run": ("vocab.model",),
    "tf1": ("spiece.model",),
    "hf": ("spiece.model",),
    "keras": ("vocabulary.spm",),
}


def _make(name: str, folder: pathlib.Path, seed: int) -> None:
    vocab = small_run.VOCAB.read_bytes()
    model = portable_models.draw(vocab_size=4000, num_layers=1)
    scaled = {key: value * seed for key, value in model.weights.items()}
    model = dataclasses.replace(model, vocab=vocab, weights=scaled)
    report = weight_map.ConversionReport()
    conversion.write(name, model, str(folder), config.Config(), report)


def _read(name: str, folder: pathlib.Path) -> dict[str, Any]:
    options, report = portable.ReadOptions(), weight_map.ConversionReport()
    model = conversion.READERS[name](str(folder), options, report)
    return {
        "config": model.config,
        "vocab": model.vocab,
        "lower_case": model.lower_case,
        **model.weights,
    }


def _formats(names: tuple[str, ...]) -> Iterator[damage.Format]:
    for name in names:
        make, read = functools.partial(_make, name), functools.partial(_read, name)
        has_checksums = name in ("run", "tf1")
        reason = "" if has_checksums else _NO_CHECKSUM
        # Of two whole checkpoints each is a model, if both files are swapped.
        yield damage.Format(f"{name}: weights", make, read, _WEIGHTS[name], reason)
        yield damage.Format(
            f"{name}: vocabulary",
            make,
            read,
            _VOCABS[name],
            "" if name == "run" else "the SentencePiece file has no checksum",
            damage.KINDS[:3],
        )
        yield damage.Format(
            f"{name}: configuration", make, read, _CONFIGS[name], _PLAIN_TEXT
        )
    if "run" in names:
        for name in names:
            make, read = functools.partial(_make, name), functools.partial(_read, name)
            yield damage.Format(
                f"{name}: list of checkpoints", make, read, ("checkpoint",)
            )


EXPERIMENTS = (
    experiment.Experiment(
        "run-damaged",
        "checkpoint, vocabulary and configuration of a run; those of ALBERT's authors",
        "a bit flipped, a file cut off, a page of zeros, the file of another model",
        "named, or read as before",
        700,
        14,
        damage.harm(lambda: _formats(("run", "tf1"))),
    ),
    experiment.Experiment(
        "others-damaged",
        "models of Hugging Face and KerasHub",
        "a bit flipped, a file cut off, a page of zeros, the file of another model",
        "named, or read as before; flipped bits of weights may be unseen",
        400,
        0,
        damage.harm(lambda: _formats(("hf", "keras"))),
    ),
)
