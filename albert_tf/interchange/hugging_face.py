"""Folders of Hugging Face transformers: config.json, model.safetensors, spiece.model.

The classes are AlbertForPreTraining, AlbertForMaskedLM, AlbertModel, and those of
tasks. Their parameters' names are those of transformers 5.23.0.
"""

import os
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from albert_tf import config as config_lib
from albert_tf import files
from albert_tf.interchange import (
    folders,
    groups,
    names,
    portable,
    tables,
    tokenizer_json,
)

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
VOCAB_FILE = "spiece.model"
_TOKENIZER_FILE = "tokenizer_config.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# "gelu" is the exact one there, and the tanh form in the original.
_ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_exact",
    "relu": "relu",
}
_THEIR_ACTIVATIONS = {
    "gelu_tanh": "gelu_new",
    "gelu_exact": "gelu",
    "relu": "relu",
}
CLASSES = {
    "classification": "AlbertForSequenceClassification",
    "regression": "AlbertForSequenceClassification",
    "token_classification": "AlbertForTokenClassification",
    "span": "AlbertForQuestionAnswering",
    "multiple_choice": "AlbertForMultipleChoice",
}
_MASKED_LM, _PRETRAINING = "AlbertForMaskedLM", "AlbertForPreTraining"
_BARE = "AlbertModel"
_KNOWN = (_PRETRAINING, _MASKED_LM, _BARE, *dict.fromkeys(CLASSES.values()))
_MAPPING_IN = "encoder.embedding_hidden_mapping_in"
_TIED_TABLE = "predictions.decoder.weight"
_TIED_BIAS = "predictions.decoder.bias"
_BIAS = "predictions.bias"
_DTYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
}
# Counted by position, and made anew there.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def read(
    path: str, options: portable.ReadOptions, report: tables.Report
) -> portable.Portable:
    """Reads a folder.

    Args:
      path: the folder.
      options: what it may leave open.
      report: is told what was found.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    config_path = os.path.join(path, CONFIG_FILE)
    values = folders.read_json(config_path)
    config = _read_config(values, config_path)
    theirs = read_weights(path)
    weights_path = os.path.join(path, WEIGHTS_FILE)
    prefix = "albert." if any(name.startswith("albert.") for name in theirs) else ""
    theirs = _untied(theirs, prefix, weights_path, report)
    head = _find_head(values, theirs, options, config_path)
    parts = _parts_of(theirs, prefix, head)
    if config.embedding_size == config.hidden_size:
        name = prefix + _MAPPING_IN
        projection = (f"{name}.weight", f"{name}.bias")
        theirs = tables.without_identity(theirs, projection, weights_path, report)
    weights = tables.to_ours(
        _entries(config, parts, head, prefix),
        theirs,
        names.shapes_of(config, parts, head),
        weights_path,
        [
            tables.Ignored(
                tuple(prefix + name for name in _BUFFERS),
                "left out, counted and not learnt",
            )
        ],
        report,
    )
    vocab = folders.choose_vocab(
        options.vocab_path, os.path.join(path, VOCAB_FILE), config.vocab_size
    )
    return portable.Portable(
        config=config,
        weights=weights,
        lower_case=_read_lower_case(os.path.join(path, _TOKENIZER_FILE)),
        vocab=vocab,
        head=head,
    )


def write(model: portable.Portable, folder: str, report: tables.Report) -> None:
    """Writes a folder that `from_pretrained` takes.

    Args:
      model: what to write; of "answerable_span" only the encoder has a counterpart.
      folder: an empty one.
      report: is told what went where, and what did not.

    Raises:
      ValueError: the library has no such model.
    """
    config, head, parts = model.config, model.head, model.parts
    if head is not None and head.kind not in CLASSES:
        lost = names.shapes_of(config, (portable.HEAD,), head)
        report.say(
            f"  no counterpart, left out: the head {head.kind} with "
            f"{tables.listed(list(lost))}"
        )
        head, parts = None, (portable.ENCODER, portable.POOLER)
    if head is not None and not _is_pooled(head):
        parts = tuple(part for part in parts if part != portable.POOLER)
        report.say(f"  no counterpart in {CLASSES[head.kind]}, left out: the pooler")
    if model.moments is not None:
        report.say("  no counterpart, left out: the optimizer's slots, and the step")
    class_name = _class_of(parts, head)
    prefix = "" if class_name == _BARE else "albert."
    layout = groups.of_config(config, groups.by_division, "transformers")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    entries = _entries(config, parts, head, prefix)
    theirs = tables.to_theirs(entries, model.weights, report)
    if config.embedding_size == config.hidden_size:
        name = prefix + _MAPPING_IN
        theirs[f"{name}.weight"] = np.eye(config.hidden_size, dtype=np.float32)
        theirs[f"{name}.bias"] = np.zeros([config.hidden_size], np.float32)
        report.say(f"  {name} has no counterpart here: the identity, for E = H")
    files.write_bytes(
        os.path.join(folder, WEIGHTS_FILE),
        safetensors.numpy.save(theirs, metadata={"format": "pt"}),
    )
    folders.write_json(
        os.path.join(folder, CONFIG_FILE),
        {
            "architectures": [class_name],
            "model_type": "albert",
            **_their_config(config, layout.num_groups),
            **_head_config(head),
        },
    )
    if model.vocab is None:
        return
    files.write_bytes(os.path.join(folder, VOCAB_FILE), model.vocab)
    files.write_bytes(
        os.path.join(folder, tokenizer_json.FILE),
        tokenizer_json.build(model.vocab, model.lower_case),
    )
    folders.write_json(
        os.path.join(folder, _TOKENIZER_FILE),
        {
            "tokenizer_class": "AlbertTokenizer",
            "do_lower_case": model.lower_case,
            "keep_accents": False,
            "remove_space": True,
            "model_max_length": config.max_positions,
        },
    )


# ---- Files ----


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """All arrays of model.safetensors, or of the parts it is divided into.

    Raises:
      ValueError: there is none, or it is damaged.
    """
    index_path = os.path.join(folder, INDEX_FILE)
    file_names = [WEIGHTS_FILE]
    if files.exists(index_path):
        parts = folders.read_json(index_path).get("weight_map")
        if not isinstance(parts, dict) or not parts:
            raise ValueError(
                f"{index_path} must hold weight_map, which names the parts"
            )
        file_names = sorted({os.path.basename(str(name)) for name in parts.values()})
    arrays: dict[str, np.ndarray] = {}
    for file_name in file_names:
        path = os.path.join(folder, file_name)
        if not files.exists(path):
            pickled = folders.find_any(folder, *_PICKLES)
            hint = (
                f" It holds {pickled}, a pickle, which can run any program and is "
                "never opened here: save it anew in transformers, whose "
                "save_pretrained writes safetensors."
                if pickled
                else ""
            )
            raise ValueError(f"there is no {path}.{hint}")
        try:
            stored = safetensors.deserialize(files.read_bytes(path))
        except safetensors.SafetensorError as error:
            raise ValueError(
                f"{path} is damaged or cut off: {error}; copy it anew"
            ) from error
        for name, value in stored:
            dtype = _DTYPES.get(value["dtype"])
            if dtype is None:
                raise ValueError(
                    f"{path}: {name} must hold numbers of {', '.join(_DTYPES)}; "
                    f"received {value['dtype']}"
                )
            array = np.frombuffer(value["data"], dtype)
            arrays[name] = array.reshape(value["shape"])
    return arrays


def _read_config(values: Mapping[str, Any], path: str) -> config_lib.ModelConfig:
    settings = folders.Settings(values, path)
    settings.choice("model_type", {"albert": "albert"}, None)
    settings.choice("position_embedding_type", {"absolute": "absolute"}, "absolute")
    num_layers = settings.integer("num_hidden_layers", 12)
    num_groups = settings.integer("num_hidden_groups", 1)
    # What is left away has these values there.
    return config_lib.ModelConfig(
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
        **groups.sharing_settings(num_layers, num_groups, groups.by_division, path),
    )


def _their_config(config: config_lib.ModelConfig, num_groups: int) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "embedding_size": config.embedding_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_hidden_groups": num_groups,
        "inner_group_num": config.num_inner_groups,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": _THEIR_ACTIVATIONS[config.activation],
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


def _head_config(head: portable.TaskHead | None) -> dict[str, Any]:
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


def _read_lower_case(path: str) -> bool:
    if not files.exists(path):
        return True
    settings = folders.Settings(folders.read_json(path), path)
    # Our tokenizer drops accents always, as the original does.
    settings.choice("keep_accents", {False: False}, False)
    return settings.choice("do_lower_case", {True: True, False: False}, True)


# ---- Names ----


def _class_of(parts: tuple[str, ...], head: portable.TaskHead | None) -> str:
    if head is not None:
        return CLASSES[head.kind]
    if portable.MASKED_LM in parts:
        return _PRETRAINING if portable.SENTENCE_ORDER in parts else _MASKED_LM
    return _BARE


def _is_pooled(head: portable.TaskHead) -> bool:
    return head.kind in ("classification", "regression", "multiple_choice")


def _parts_of(
    theirs: Mapping[str, Any], prefix: str, head: portable.TaskHead | None
) -> tuple[str, ...]:
    parts = [portable.ENCODER]
    for part, start in (
        (portable.POOLER, f"{prefix}pooler."),
        (portable.MASKED_LM, "predictions."),
        (portable.SENTENCE_ORDER, "sop_classifier."),
    ):
        if any(name.startswith(start) for name in theirs):
            parts.append(part)
    return (*parts, portable.HEAD) if head else tuple(parts)


def _find_head(
    values: Mapping[str, Any],
    theirs: Mapping[str, np.ndarray],
    options: portable.ReadOptions,
    path: str,
) -> portable.TaskHead | None:
    """The head of a fine-tuned model, by the class that the configuration names."""
    listed = values.get("architectures") or []
    class_name = listed[0] if isinstance(listed, list) and listed else ""
    if class_name and class_name not in _KNOWN:
        raise ValueError(
            f"{path}: architectures must be one of {', '.join(_KNOWN)}; received "
            f"{class_name!r}"
        )
    settings = folders.Settings(values, path)
    dropout_rate = settings.number("classifier_dropout_prob", 0.1)
    if "qa_outputs.weight" in theirs:
        return portable.TaskHead("span")
    if "classifier.weight" not in theirs:
        return None
    num_classes = theirs["classifier.weight"].shape[0]
    if class_name == CLASSES["multiple_choice"]:
        return portable.TaskHead("multiple_choice", dropout_rate=dropout_rate)
    if class_name == CLASSES["token_classification"]:
        kind = "token_classification"
    elif class_name != CLASSES["classification"]:
        raise ValueError(
            f"{path} must name the class of a model with a classifier in "
            f"architectures; received {class_name!r}"
        )
    elif num_classes == 1:
        return portable.TaskHead("regression", dropout_rate=dropout_rate)
    else:
        kind = "classification"
    labels = options.class_labels(num_classes, _labels(values, num_classes))
    return portable.TaskHead(kind, labels, dropout_rate)


def _labels(values: Mapping[str, Any], num_classes: int) -> tuple[str, ...]:
    """The names that config.json gives the classes; empty where it names none."""
    id2label = values.get("id2label")
    if not isinstance(id2label, dict):
        return ()
    found = tuple(str(id2label.get(str(i), "")) for i in range(num_classes))
    return found if all(found) and len(set(found)) == num_classes else ()


def _untied(
    theirs: dict[str, np.ndarray], prefix: str, path: str, report: tables.Report
) -> dict[str, np.ndarray]:
    """Without what only repeats another array.

    Raises:
      ValueError: it does not repeat it: the model's embeddings are not tied.
    """
    theirs = dict(theirs)
    if _BIAS not in theirs and _TIED_BIAS in theirs:
        theirs[_BIAS] = theirs.pop(_TIED_BIAS)
    for name, original in (
        (_TIED_TABLE, f"{prefix}embeddings.word_embeddings.weight"),
        (_TIED_BIAS, _BIAS),
    ):
        if name not in theirs or original not in theirs:
            continue
        if not np.array_equal(theirs.pop(name), theirs[original]):
            raise ValueError(
                f"{path}: {name} must equal {original}, since here both are one "
                "variable; in this model they are two"
            )
        report.say(f"  left out, a copy of {original}: {name}")
    return theirs


def _entries(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHead | None,
    prefix: str,
) -> list[tables.Entry]:
    """What is what."""
    entries = _encoder_entries(config, prefix)
    if portable.POOLER in parts:
        entries += _dense("encoder/pooler", f"{prefix}pooler")
    if portable.MASKED_LM in parts:
        entries += _dense("masked_lm/transform", "predictions.dense")
        entries += _layer_norm("masked_lm/layer_norm", "predictions.LayerNorm")
        entries.append(tables.Entry("masked_lm/output_bias", _BIAS))
    if portable.SENTENCE_ORDER in parts:
        entries += _dense(
            "sentence_order/output_projection", "sop_classifier.classifier"
        )
    if head is not None:
        there = "qa_outputs" if head.kind == "span" else "classifier"
        entries += _dense("head/output_projection", there)
    return entries


def _encoder_entries(config: config_lib.ModelConfig, prefix: str) -> list[tables.Entry]:
    here, there = "encoder/embeddings", f"{prefix}embeddings"
    entries = [
        tables.Entry(f"{here}/{name}", f"{there}.{name}.weight")
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
    ]
    entries += _layer_norm(f"{here}/layer_norm", f"{there}.LayerNorm")
    if config.embedding_size != config.hidden_size:
        entries += _dense("encoder/embedding_projection", prefix + _MAPPING_IN)
    layout = groups.of_config(config, groups.by_division, "transformers")
    for (group, inner), block in sorted(layout.block_of.items()):
        here = f"encoder/blocks/{block}"
        there = f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        for ours, theirs in (
            ("attention/query", "attention.query"),
            ("attention/key", "attention.key"),
            ("attention/value", "attention.value"),
            ("attention/output_projection", "attention.dense"),
            ("feed_forward/intermediate", "ffn"),
            ("feed_forward/output_projection", "ffn_output"),
        ):
            entries += _dense(f"{here}/{ours}", f"{there}.{theirs}")
        for ours, theirs in (
            ("attention/layer_norm", "attention.LayerNorm"),
            ("feed_forward/layer_norm", "full_layer_layer_norm"),
        ):
            entries += _layer_norm(f"{here}/{ours}", f"{there}.{theirs}")
    return entries


def _dense(ours: str, theirs: str) -> list[tables.Entry]:
    """PyTorch keeps a kernel as [units, inputs]."""
    return [
        tables.Entry(f"{ours}/kernel", f"{theirs}.weight", tables.How.TRANSPOSED),
        tables.Entry(f"{ours}/bias", f"{theirs}.bias"),
    ]


def _layer_norm(ours: str, theirs: str) -> list[tables.Entry]:
    return [
        tables.Entry(f"{ours}/gamma", f"{theirs}.weight"),
        tables.Entry(f"{ours}/beta", f"{theirs}.bias"),
    ]
