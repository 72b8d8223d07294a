"""Configuration of Hugging Face transformers, of models and tokenizers.

The settings are those of transformers 5.23.0.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import files, short_repr
from albert_tf.interchange import (
    hugging_face_files,
    io,
    layer_groups,
    portable,
    weight_map,
)

# "gelu" is the exact form there, and the tanh form in the original.
_ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_exact",
    "relu": "relu",
}
_EXTERNAL_ACTIVATIONS = {
    "gelu_tanh": "gelu_new",
    "gelu_exact": "gelu",
    "relu": "relu",
}
# The class of a fine-tuned model, by kind of head.
CLASSES = {
    "classification": "AlbertForSequenceClassification",
    "regression": "AlbertForSequenceClassification",
    "token_classification": "AlbertForTokenClassification",
    "span": "AlbertForQuestionAnswering",
    "multiple_choice": "AlbertForMultipleChoice",
}
# Those whose head reads the pooled output.
POOLED_KINDS = ("classification", "regression", "multiple_choice")
_MASKED_LM, _PRETRAINING = "AlbertForMaskedLM", "AlbertForPreTraining"
BARE = "AlbertModel"
_KNOWN = (_PRETRAINING, _MASKED_LM, BARE, *dict.fromkeys(CLASSES.values()))


def read_model(values: Mapping[str, Any], path: str) -> config_lib.ModelConfig:
    """The sizes in config.json.

    Args:
      values: the object in the file.
      path: of the file, for errors.

    Raises:
      ValueError: it is of another architecture.
    """
    settings = io.JsonFields(values, path)
    settings.choice("model_type", {"albert": "albert"}, None)
    settings.choice("position_embedding_type", {"absolute": "absolute"}, "absolute")
    num_layers = settings.integer("num_hidden_layers", 12)
    num_groups = settings.integer("num_hidden_groups", 1)
    # The defaults are those of transformers.
    return settings.model_config(
        io.KEYS,
        vocab_size=settings.integer("vocab_size", 30000),
        embedding_size=settings.integer("embedding_size", 128),
        hidden_size=settings.integer("hidden_size", 4096),
        num_layers=num_layers,
        num_inner_groups=settings.integer("inner_group_num", 1),
        num_heads=settings.integer("num_attention_heads", 64),
        intermediate_size=settings.integer("intermediate_size", 16384),
        activation=settings.choice("hidden_act", _ACTIVATIONS, "gelu_new"),
        max_positions=settings.integer("max_position_embeddings", 512),
        type_vocab_size=settings.integer("type_vocab_size", 2),
        hidden_dropout_rate=settings.number("hidden_dropout_prob", 0.0),
        attention_dropout_rate=settings.number("attention_probs_dropout_prob", 0.0),
        initializer_range=settings.number("initializer_range", 0.02),
        layer_norm_epsilon=settings.number("layer_norm_eps", 1e-12),
        **layer_groups.sharing_settings(
            num_layers, num_groups, layer_groups.by_division, path, io.KEYS
        ),
    )


def read_head(
    values: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    options: portable.ReadOptions,
    path: str,
) -> portable.TaskHeadConfig | None:
    """The head of a fine-tuned model, by the class in config.json; None without one.

    Args:
      values: the object in the file.
      weights: external weights by name.
      options: the user's labels.
      path: of the file, for errors.

    Raises:
      ValueError: the class is unknown, or does not fit the weights.
    """
    listed = values.get("architectures") or []
    class_name = listed[0] if isinstance(listed, list) and listed else ""
    if class_name and class_name not in _KNOWN:
        raise ValueError(
            f"{path}: architectures must be one of {', '.join(_KNOWN)}; received "
            f"{short_repr.shown(class_name)}"
        )
    settings = io.JsonFields(values, path)
    dropout_rate = settings.number("classifier_dropout_prob", 0.1)
    if "qa_outputs.weight" in weights:
        return portable.TaskHeadConfig("span")
    if "classifier.weight" not in weights:
        return None
    num_classes = weight_map.num_rows(weights, "classifier.weight", path)
    _check_problem(values, class_name, num_classes, path)
    if class_name == CLASSES["multiple_choice"]:
        return portable.TaskHeadConfig("multiple_choice", dropout_rate=dropout_rate)
    if class_name == CLASSES["token_classification"]:
        kind = "token_classification"
    elif class_name != CLASSES["classification"]:
        raise ValueError(
            f"{path} must name the class of a model with a classifier in "
            f"architectures; received {class_name!r}"
        )
    elif num_classes == 1:
        return portable.TaskHeadConfig("regression", dropout_rate=dropout_rate)
    else:
        kind = "classification"
    labels = options.class_labels(num_classes, path, _labels(values, num_classes))
    return portable.TaskHeadConfig(kind, labels, dropout_rate)


def _check_problem(
    values: Mapping[str, Any], class_name: str, num_classes: int, path: str
) -> None:
    """Raises a ValueError for a classifier of texts that is none of one class each."""
    problem = values.get("problem_type")
    known = [None, "single_label_classification" if num_classes > 1 else "regression"]
    if class_name == CLASSES["classification"] and problem not in known:
        raise ValueError(
            f"{path}: problem_type must be {known[1]} for {num_classes} outputs; "
            f"received {short_repr.shown(problem)}, for which there is no head here"
        )


def _labels(values: Mapping[str, Any], num_classes: int) -> tuple[str, ...]:
    """The names of the classes in config.json; empty if there are none."""
    id2label = values.get("id2label")
    if not isinstance(id2label, dict):
        return ()
    found = tuple(str(id2label.get(str(i), "")) for i in range(num_classes))
    return found if all(found) and len(set(found)) == num_classes else ()


def read_lower_case(folder: str) -> bool:
    """Returns whether the tokenizer of a folder lower-cases.

    Raises:
      ValueError: it does not strip accents.
    """
    path = os.path.join(folder, hugging_face_files.TOKENIZER)
    if not files.exists(path):
        return True
    # Leniently: model_max_length may be 10 to the power of 30.
    settings = io.JsonFields(io.read_json(path, lenient=True), path)
    # The native tokenizer always strips accents, as the original does.
    settings.choice("keep_accents", {False: False}, False)
    return settings.choice("do_lower_case", {True: True, False: False}, True)


def write(
    folder: str,
    class_name: str,
    config: config_lib.ModelConfig,
    num_groups: int,
    head: portable.TaskHeadConfig | None,
) -> None:
    """Writes config.json.

    Args:
      folder: where to.
      class_name: of the model, as `class_of` gives it.
      config: its sizes.
      num_groups: number of groups of layers.
      head: of a fine-tuned model.
    """
    files.write_json(
        os.path.join(folder, hugging_face_files.CONFIG),
        {
            "architectures": [class_name],
            "model_type": "albert",
            **_external_config(config, num_groups),
            **_head_config(head),
        },
    )


def _external_config(config: config_lib.ModelConfig, num_groups: int) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "embedding_size": config.embedding_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_hidden_groups": num_groups,
        "inner_group_num": config.num_inner_groups,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": _EXTERNAL_ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.hidden_dropout_rate,
        "attention_probs_dropout_prob": config.attention_dropout_rate,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.type_vocab_size,
        "initializer_range": config.initializer_range,
        "layer_norm_eps": config.layer_norm_epsilon,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "tie_word_embeddings": True,
    }


def _head_config(head: portable.TaskHeadConfig | None) -> dict[str, Any]:
    if head is None:
        return {}
    settings: dict[str, Any] = {"classifier_dropout_prob": head.dropout_rate}
    labels = head.labels or (("LABEL_0",) if head.kind == "regression" else ())
    if labels:
        settings["id2label"] = {str(i): label for i, label in enumerate(labels)}
        settings["label2id"] = {label: i for i, label in enumerate(labels)}
    if head.kind == "regression":
        settings["problem_type"] = "regression"
    return settings


def write_tokenizer(folder: str, lower_case: bool, max_length: int) -> None:
    """Writes tokenizer_config.json."""
    files.write_json(
        os.path.join(folder, hugging_face_files.TOKENIZER),
        {
            "tokenizer_class": "AlbertTokenizer",
            "do_lower_case": lower_case,
            "keep_accents": False,
            "remove_space": True,
            "model_max_length": max_length,
        },
    )


def class_of(parts: tuple[str, ...], head: portable.TaskHeadConfig | None) -> str:
    """The class of a model with these parts."""
    if head is not None:
        return CLASSES[head.kind]
    if portable.MASKED_LM in parts:
        return _PRETRAINING if portable.SENTENCE_ORDER in parts else _MASKED_LM
    return BARE
