"""Models whose files are damaged: runs, and the formats of others."""

import dataclasses
import functools
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.core import checksums, config
from albert_tf.inference import saved_model
from albert_tf.interchange import conversion, portable, weight_map
from albert_tf.serving import export, tflite
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


def _vocab(seed: int) -> bytes:
    """A vocabulary, or with another seed one that has two of its pieces exchanged."""
    content = small_run.VOCAB.read_bytes()
    if seed == 1:
        return content
    proto = sentencepiece_model_pb2.ModelProto.FromString(content)
    one, other = proto.pieces[1000], proto.pieces[1001]
    one.piece, other.piece = other.piece, one.piece
    return proto.SerializeToString()


def _make(name: str, folder: pathlib.Path, seed: int) -> None:
    vocab = _vocab(seed)
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


# ---- Models that have SHA256SUMS ----

# All but the model card, which is there to be edited.
_CHECKED = ("[!R]*",)


def _write_converted(name: str, folder: pathlib.Path, seed: int) -> None:
    _make(name, folder, seed)
    checksums.write(str(folder))


def _read_converted(name: str, folder: pathlib.Path) -> dict[str, Any]:
    run = folder.with_name("converted")
    shutil.rmtree(run, ignore_errors=True)
    options = portable.ReadOptions()
    conversion.convert(f"{name}:{folder}", f"run:{run}", options)
    return _read("run", run)


def _export(
    write: Callable[[str, str], object], folder: pathlib.Path, seed: int
) -> None:
    run = folder.with_name(f"{folder.name}-run")
    run.mkdir()
    _make("run", run, seed)
    write(str(run), str(folder))
    shutil.rmtree(run)


def _answer(folder: pathlib.Path) -> dict[str, Any]:
    encode = saved_model.load(str(folder)).signatures["encode"]
    found = encode(text=tf.constant(["The river runs near a lake."]))
    return {name: value.numpy() for name, value in found.items()}


def _answer_lite(folder: pathlib.Path) -> dict[str, Any]:
    # As albert_tf.evaluate does, which needs a task.
    checksums.check(str(folder))
    model = tflite.LiteModel(str(folder))
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    ones = np.ones([1, model.length], np.int32)
    return model({name: ones for name in names})


def _of_this_project() -> Iterator[damage.Format]:
    writers = {
        "SavedModel": export.export_text,
        "OpenVINO": export.export_openvino,
    }
    for name, write in writers.items():
        make = functools.partial(_export, write)
        yield damage.Format(f"exported: {name}", make, _answer, _CHECKED)
    make = functools.partial(_export, export.export_tflite)
    yield damage.Format("exported: TensorFlow Lite", make, _answer_lite, _CHECKED)
    for name in ("hf", "keras", "tf1"):
        make = functools.partial(_write_converted, name)
        read = functools.partial(_read_converted, name)
        yield damage.Format(f"converted: {name}", make, read, _CHECKED)


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
    experiment.Experiment(
        "written-damaged",
        "models that this project exported (SavedModel, OpenVINO, TensorFlow Lite) or "
        "converted, with their SHA256SUMS",
        "a bit flipped, a file cut off, a page of zeros, the file of another model",
        "named, or read as before",
        500,
        10,
        damage.harm(_of_this_project),
    ),
)
