"""Checkpoints of the original: albert_config.json, model.ckpt, and a vocabulary.

Source of the names: golden/full_albert_variables.json, and the figures of the heads,
both produced by the authors' TensorFlow 1 code.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import files, warm_start
from albert_tf.interchange import folders, groups, names, portable, tables

CONFIG_FILE = "albert_config.json"
_NAME = "model.ckpt"
_VOCAB_FILE = "spiece.model"
_STEP = "global_step"
_FIRST, _SECOND = "/adam_m", "/adam_v"  # LAMB's and AdamW's slots alike
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}
_OUTPUT = ("output_weights", "output_bias")
_SPAN_OUTPUT = ("cls/squad/output_weights", "cls/squad/output_bias")
_ANSWERABLE = {
    "head/start_output": "start_logits/dense",
    "head/end_transform": "end_logits/dense_0",
    "head/end_layer_norm": "end_logits/LayerNorm",
    "head/end_output": "end_logits/dense_1",
    "head/answer_transform": "answer_class/dense_0",
    "head/answer_output": "answer_class/dense_1",
}


def read(
    path: str, options: portable.ReadOptions, report: tables.Report
) -> portable.Portable:
    """Reads a checkpoint.

    Args:
      path: its folder, or its prefix such as FOLDER/model.ckpt-best.
      options: what the format does not say: vocabulary, head, labels.
      report: is told what was found.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    prefix, folder = locate(path)
    theirs = read_variables(prefix)
    config = read_config(os.path.join(folder, CONFIG_FILE))
    head = _find_head(theirs, options)
    parts = pretrained_parts(theirs) + ((portable.HEAD,) if head else ())
    shapes = names.shapes_of(config, parts, head)
    entries = _entries(config, parts, head)
    slots = [entry.theirs + suffix for entry in entries for suffix in (_FIRST, _SECOND)]
    has_slots = any(name in theirs for name in slots)
    ignored = [tables.Ignored((_STEP,), "kept as the step")]
    if has_slots:
        ignored.append(
            tables.Ignored(tuple(slots), "kept as the slots of the optimizer")
        )
    weights = tables.to_ours(entries, theirs, shapes, prefix, ignored, report)
    moments = None
    if has_slots:
        moments = portable.Moments(
            *(
                _read_slots(entries, theirs, shapes, suffix, prefix)
                for suffix in (_FIRST, _SECOND)
            )
        )
    beside = folders.find(folder, "*.model")
    vocab = folders.choose_vocab(options.vocab_path, beside, config.vocab_size)
    return portable.Portable(
        config=config,
        weights=weights,
        vocab=vocab,
        head=head,
        moments=moments,
        step=int(theirs[_STEP]) if _STEP in theirs else 0,
    )


def write(model: portable.Portable, folder: str, report: tables.Report) -> None:
    """Writes a checkpoint, its configuration and its vocabulary.

    Args:
      model: what to write.
      folder: an empty one.
      report: is told what went where.

    Raises:
      ValueError: the original has no such model.
    """
    config = model.config
    activations = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    if config.activation not in activations:
        raise ValueError(
            "the original knows the activations gelu_tanh and relu only; received "
            f"model.activation {config.activation!r}, so that nothing can be written"
        )
    if config.layer_norm_epsilon != 1e-12:
        raise ValueError(
            "the original's layer norm adds 1e-12; received model.layer_norm_epsilon "
            f"{config.layer_norm_epsilon}, so that nothing can be written"
        )
    if model.head is not None and model.head.kind == "token_classification":
        raise ValueError(
            "the original has no head for tokens, so that nothing can be written"
        )
    entries = _entries(config, model.parts, model.head)
    layout = groups.of_config(config, groups.by_scaling, "the original")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    theirs = tables.to_theirs(entries, model.weights, report)
    if model.moments is not None:
        for entry in entries:
            for suffix, slots in (
                (_FIRST, model.moments.first),
                (_SECOND, model.moments.second),
            ):
                if entry.ours in slots:
                    theirs[entry.theirs + suffix] = entry.to_theirs(slots[entry.ours])
        report.say(f"  and the optimizer's slots, {_FIRST[1:]} and {_SECOND[1:]}")
    theirs[_STEP] = np.array(model.step, np.int64)
    save_variables(os.path.join(folder, _NAME), theirs)
    state = f'model_checkpoint_path: "{_NAME}"\nall_model_checkpoint_paths: "{_NAME}"\n'
    files.write_bytes(os.path.join(folder, "checkpoint"), state.encode())
    folders.write_json(
        os.path.join(folder, CONFIG_FILE),
        {
            "vocab_size": config.vocab_size,
            "embedding_size": config.embedding_size,
            "hidden_size": config.hidden_size,
            "num_hidden_layers": config.num_layers,
            "num_hidden_groups": layout.num_groups,
            "num_attention_heads": config.num_heads,
            "intermediate_size": config.intermediate_size,
            "inner_group_num": config.num_inner_groups,
            "hidden_act": activations[config.activation],
            "hidden_dropout_prob": config.hidden_dropout_rate,
            "attention_probs_dropout_prob": config.attention_dropout_rate,
            "max_position_embeddings": config.max_positions,
            "type_vocab_size": config.type_vocab_size,
            "initializer_range": config.initializer_range,
        },
    )
    if model.vocab is not None:
        files.write_bytes(os.path.join(folder, _VOCAB_FILE), model.vocab)


# ---- Files ----


def locate(path: str) -> tuple[str, str]:
    """The prefix of a TF1 checkpoint, and its folder.

    Raises:
      ValueError: there is none.
    """
    if files.is_folder(path):
        prefix = tf.train.latest_checkpoint(path)
        index = None if prefix else folders.find(path, "*.index")
        prefix = prefix or (index and index.removesuffix(".index"))
        if not prefix:
            raise ValueError(
                f"{path} must hold a TensorFlow checkpoint, three files with one "
                "prefix; it holds no .index file"
            )
        return prefix, path
    if not files.exists(f"{path}.index"):
        raise ValueError(
            "a TensorFlow checkpoint is given by its folder, or by its prefix such as "
            f"FOLDER/model.ckpt-best; there is no {path}.index"
        )
    return path, os.path.dirname(path) or "."


def read_variables(prefix: str) -> dict[str, np.ndarray]:
    """All variables of a checkpoint by name.

    Raises:
      ValueError: it is damaged.
    """
    with warm_start.naming_damage(prefix):
        reader = tf.train.load_checkpoint(prefix)
        found = sorted(reader.get_variable_to_shape_map())
        return {name: np.asarray(reader.get_tensor(name)) for name in found}


def save_variables(prefix: str, values: Mapping[str, np.ndarray]) -> None:
    """Writes variables by name, as tf.train.Saver of TensorFlow 1 does."""
    ordered = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=ordered,
        shape_and_slices=[""] * len(ordered),
        tensors=[tf.constant(values[name]) for name in ordered],
    )


def read_config(path: str) -> config_lib.ModelConfig:
    """The sizes that an albert_config.json tells.

    Raises:
      ValueError: it is missing, damaged, or of another architecture.
    """
    values = folders.read_json(path)
    for name in ("embedding_size", "num_hidden_groups", "inner_group_num"):
        if name not in values:
            raise ValueError(
                f"{path} must hold {name}, as every configuration of ALBERT does; "
                "without it, it is of another architecture, such as BERT"
            )
    settings = folders.Settings(values, path)
    # What the original's code could once do besides, and no released model does.
    for name, only in (
        ("down_scale_factor", 1),
        ("net_structure_type", 0),
        ("gap_size", 0),
        ("num_memory_blocks", 0),
    ):
        settings.choice(name, {only: only}, only)
    num_layers = settings.integer("num_hidden_layers")
    num_groups = settings.integer("num_hidden_groups")
    sharing = groups.sharing_settings(num_layers, num_groups, groups.by_scaling, path)
    return config_lib.ModelConfig(
        vocab_size=settings.integer("vocab_size"),
        embedding_size=settings.integer("embedding_size"),
        hidden_size=settings.integer("hidden_size"),
        num_layers=num_layers,
        num_inner_groups=settings.integer("inner_group_num"),
        num_heads=settings.integer("num_attention_heads"),
        intermediate_size=settings.integer("intermediate_size"),
        activation=settings.choice("hidden_act", _ACTIVATIONS, "gelu"),
        max_positions=settings.integer("max_position_embeddings"),
        type_vocab_size=settings.integer("type_vocab_size"),
        hidden_dropout_rate=settings.number("hidden_dropout_prob", 0.0),
        attention_dropout_rate=settings.number("attention_probs_dropout_prob", 0.0),
        initializer_range=settings.number("initializer_range", 0.02),
        **sharing,
    )


# ---- Names ----


def pretrained_parts(theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """The encoder, and the parts that a file holds a variable of."""
    return (
        portable.ENCODER,
        *(
            part
            for part, prefix in (
                (portable.POOLER, "bert/pooler/"),
                (portable.MASKED_LM, "cls/predictions/"),
                (portable.SENTENCE_ORDER, "cls/seq_relationship/"),
            )
            if any(name.startswith(prefix) for name in theirs)
        ),
    )


def _find_head(
    theirs: Mapping[str, np.ndarray], options: portable.ReadOptions
) -> portable.TaskHead | None:
    """The head of a fine-tuned model, or None.

    Raises:
      ValueError: it may be one of two and the user does not say which.
    """
    if _SPAN_OUTPUT[0] in theirs:
        return portable.TaskHead("span")
    if any(name.startswith("start_logits/") for name in theirs):
        search = {"num_starts": 5, "num_ends": 5}
        return portable.TaskHead("answerable_span", settings=search)
    if _OUTPUT[0] not in theirs:
        return None
    num_classes = theirs[_OUTPUT[0]].shape[0]
    if num_classes > 1:
        labels = options.class_labels(num_classes)
        return portable.TaskHead("classification", labels)
    if options.kind not in ("regression", "multiple_choice"):
        raise ValueError(
            f"{_OUTPUT[0]} gives one number, which is a grade or the score of a "
            "choice: pass --head=regression or --head=multiple_choice; received "
            f"--head={options.kind!r}"
        )
    return portable.TaskHead(options.kind)


def _entries(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHead | None,
) -> list[tables.Entry]:
    """What is what."""
    layout = groups.of_config(config, groups.by_scaling, "the original")
    entries = _encoder_entries(config, layout)
    entries += pretraining_entries(parts)
    if portable.HEAD in parts and head is not None:
        match head.kind:
            case "span":
                entries += _output("head", *_SPAN_OUTPUT)
            case "answerable_span":
                for name in names.shapes_of(config, (portable.HEAD,), head):
                    owner, _, last = name.rpartition("/")
                    entries += same(owner, _ANSWERABLE[owner], last)
            case _:
                entries += _output("head", *_OUTPUT)
    return entries


def pretraining_entries(parts: tuple[str, ...]) -> list[tables.Entry]:
    """Pooler and the heads of pre-training, as far as they are among `parts`."""
    entries: list[tables.Entry] = []
    if portable.POOLER in parts:
        entries += same("encoder/pooler", "bert/pooler/dense", "kernel", "bias")
    if portable.MASKED_LM in parts:
        there = "cls/predictions"
        entries += same(
            "masked_lm/transform", f"{there}/transform/dense", "kernel", "bias"
        )
        entries += same(
            "masked_lm/layer_norm", f"{there}/transform/LayerNorm", "gamma", "beta"
        )
        entries += same("masked_lm", there, "output_bias")
    if portable.SENTENCE_ORDER in parts:
        there = "cls/seq_relationship"
        entries += _output(
            "sentence_order", f"{there}/output_weights", f"{there}/output_bias"
        )
    return entries


def _encoder_entries(
    config: config_lib.ModelConfig, layout: groups.Groups
) -> list[tables.Entry]:
    here, there = "encoder/embeddings", "bert/embeddings"
    entries = [
        *same(
            here,
            there,
            "word_embeddings",
            "position_embeddings",
            "token_type_embeddings",
        ),
        *same(f"{here}/layer_norm", f"{there}/LayerNorm", "gamma", "beta"),
    ]
    if config.embedding_size != config.hidden_size:
        entries += same(
            "encoder/embedding_projection",
            "bert/encoder/embedding_hidden_mapping_in",
            "kernel",
            "bias",
        )
    for (group, inner), block in sorted(layout.block_of.items()):
        here = f"encoder/blocks/{block}"
        there = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        for ours, theirs in (
            ("attention/query", "attention_1/self/query"),
            ("attention/key", "attention_1/self/key"),
            ("attention/value", "attention_1/self/value"),
            ("attention/output_projection", "attention_1/output/dense"),
            ("feed_forward/intermediate", "ffn_1/intermediate/dense"),
            ("feed_forward/output_projection", "ffn_1/intermediate/output/dense"),
        ):
            entries += same(f"{here}/{ours}", f"{there}/{theirs}", "kernel", "bias")
        for ours, theirs in (
            ("attention/layer_norm", "LayerNorm"),
            ("feed_forward/layer_norm", "LayerNorm_1"),
        ):
            entries += same(f"{here}/{ours}", f"{there}/{theirs}", "gamma", "beta")
    return entries


def same(ours: str, theirs: str, *lasts: str) -> list[tables.Entry]:
    """Entries of what the original keeps as we do, below two names."""
    return [tables.Entry(f"{ours}/{last}", f"{theirs}/{last}") for last in lasts]


def _output(ours: str, weights: str, bias: str) -> list[tables.Entry]:
    """An output layer, whose weights the original keeps as [units, H]."""
    ours = f"{ours}/output_projection"
    return [
        tables.Entry(f"{ours}/kernel", weights, tables.How.TRANSPOSED),
        tables.Entry(f"{ours}/bias", bias),
    ]


def _read_slots(
    entries: list[tables.Entry],
    theirs: Mapping[str, np.ndarray],
    shapes: names.Shapes,
    suffix: str,
    prefix: str,
) -> dict[str, np.ndarray]:
    """One slot of each weight that has it; a pooler that is not trained has none."""
    slots = {}
    for entry in entries:
        name = entry.theirs + suffix
        if name in theirs:
            value = tables.as_float32(theirs[name], name, prefix)
            slots[entry.ours] = entry.to_ours(value, shapes[entry.ours])
    return slots
