"""Models that answer, and were never trained."""

import contextlib
import functools
from collections.abc import Iterator

import pytest
import tensorflow as tf

from albert_tf.model import pretraining_model
from albert_tf.serving import load, signature
from albert_tf.serving import pretrained as pretrained_lib
from albert_tf.tokenization import tokenizer
from tests.support import fine_tuned, small_run


@functools.cache
def _tokenizer() -> tokenizer.Tokenizer:
    return tokenizer.Tokenizer.from_file(str(small_run.VOCAB), lower_case=True)


@functools.cache
def pretrained() -> pretrained_lib.PretrainedServing:
    """One that has the signatures of a pre-trained model."""
    # So that probabilities differ.
    settings = small_run.small_config("model.initializer_range=0.5")
    model = pretraining_model.build_pretraining_model(settings.model, 7)
    return pretrained_lib.PretrainedServing(model, _tokenizer(), 24)


@functools.cache
def of_kind(kind: str) -> signature.TaskServing:
    """One that has the signature of a fine-tuned model; a key of fine_tuned.KINDS."""
    name, labels, _, own = fine_tuned.KINDS[kind]
    settings = small_run.small_config(*fine_tuned.SETTINGS, *own, f"task.name={name}")
    trained = signature.ServableTask(
        fine_tuned.model(kind, 7, settings),
        _tokenizer(),
        settings.task,
        tuple(labels),
        null_odds_threshold=100.0,
    )
    return load.SERVINGS[kind](trained)


@contextlib.contextmanager
def loaded_once() -> Iterator[None]:
    """Within it, TensorFlow loads each SavedModel at its first use alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.saved_model, "load", functools.cache(tf.saved_model.load))
        yield


def save(module: tf.Module, path: str) -> None:
    """Writes its SavedModel, as albert_tf.export does."""
    tf.saved_model.save(module, path, signatures=module.signatures)
