"""Checkpoints of the original: albert_config.json, model.ckpt, and a vocabulary."""

import os
from collections.abc import Mapping

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.interchange import (
    io,
    layer_groups,
    portable,
    tf1_weights,
    weight_files,
    weight_map,
    weight_names,
)

CONFIG_FILE = "albert_config.json"
_NAME = "model.ckpt"
_VOCAB_FILE = "spiece.model"
_STEP = "global_step"
_FIRST, _SECOND = "/adam_m", "/adam_v"  # slots of both LAMB and AdamW
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}


def read(
    path: str, options: portable.ReadOptions, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Reads a checkpoint.

    Args:
      path: its folder, or its prefix such as FOLDER/model.ckpt-best.
      options: vocabulary, head and labels, which the format does not specify.
      report: gets the number of weights, and what is ignored.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    prefix, folder = tf1_weights.locate(path)
    tf1_weights.require_original(prefix, path)
    config_path = os.path.join(folder, CONFIG_FILE)
    config = read_config(config_path)
    paths = weight_files.of_checkpoint(prefix)
    weight_files.require_size(config, config_path, paths)
    external = tf1_weights.read_variables(prefix)
    head = _find_head(external, options, prefix)
    parts = tf1_weights.pretrained_parts(external) + ((portable.HEAD,) if head else ())
    shapes = weight_names.shapes_of(config, parts, head)
    entries = tf1_weights.entries_of(config, parts, head)
    slots = [
        entry.external + suffix for entry in entries for suffix in (_FIRST, _SECOND)
    ]
    has_slots = any(name in external for name in slots)
    ignored = [weight_map.Ignored((_STEP,), "kept as the step")]
    if has_slots:
        ignored.append(
            weight_map.Ignored(tuple(slots), "read as the slots of the optimizer")
        )
    weights = weight_map.to_native(entries, external, shapes, prefix, ignored, report)
    moments = None
    if has_slots:
        moments = portable.Moments(
            *(
                _read_slots(entries, external, shapes, suffix, prefix)
                for suffix in (_FIRST, _SECOND)
            )
        )
    beside = None
    if not options.vocab_path:
        beside = io.find(folder, "*.model", otherwise=", or pass --vocab_model=FILE")
    vocab = io.choose_vocab(options.vocab_path, beside, config.vocab_size)
    return portable.PortableModel(
        config=config,
        weights=weights,
        vocab=vocab,
        head=head,
        moments=moments,
        step=int(external[_STEP]) if _STEP in external else 0,
    )


def write(
    model: portable.PortableModel, folder: str, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Writes a checkpoint, its configuration and its vocabulary.

    Args:
      model: what to write.
      folder: an empty one.
      report: gets the number of weights, and what is ignored.

    Returns:
      The model: all of it is written.

    Raises:
      ValueError: the original has no such model.
    """
    config = model.config
    _check(model)
    entries = tf1_weights.entries_of(config, model.parts, model.head)
    layout = layer_groups.of_config(config, layer_groups.by_scaling, "the original")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    _say_lost(model, report)
    external = weight_map.to_external(entries, model.weights, report)
    if model.moments is not None:
        external |= _external_slots(entries, model.moments)
        report.say(f"  and the optimizer's slots, {_FIRST[1:]} and {_SECOND[1:]}")
    external[_STEP] = np.array(model.step, np.int64)
    tf1_weights.save_variables(os.path.join(folder, _NAME), external)
    state = f'model_checkpoint_path: "{_NAME}"\nall_model_checkpoint_paths: "{_NAME}"\n'
    files.write_bytes(os.path.join(folder, "checkpoint"), state.encode())
    _write_config(config, layout.num_groups, os.path.join(folder, CONFIG_FILE))
    if model.vocab is None:
        report.lacks_vocab(_VOCAB_FILE)
    else:
        files.write_bytes(os.path.join(folder, _VOCAB_FILE), model.vocab)
    return model


def _say_lost(
    model: portable.PortableModel, report: weight_map.ConversionReport
) -> None:
    """Reports what the original keeps in flags and code, not in files."""
    if model.lower_case is False:
        report.say("  no counterpart, omitted: that texts are not lower-cased")
    head = model.head
    if head is None:
        return
    if head.labels:
        report.say(f"  no counterpart, omitted: the labels {', '.join(head.labels)}")
    if head.kind == "answerable_span":
        kept = ", ".join(f"{name}={value}" for name, value in head.settings.items())
        report.say(
            f"  no counterpart, omitted: {kept}, and the threshold of questions "
            "without an answer"
        )


def _check(model: portable.PortableModel) -> None:
    config = model.config
    if config.activation not in _ACTIVATIONS.values():
        raise ValueError(
            "the original has the activations gelu_tanh and relu only; received "
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


# ---- Configuration ----


def read_config(path: str) -> config_lib.ModelConfig:
    """The sizes in an albert_config.json.

    Raises:
      ValueError: it is missing, damaged, or of another architecture.
    """
    values = io.read_json(path)
    for name in ("embedding_size", "num_hidden_groups", "inner_group_num"):
        if name not in values:
            raise ValueError(
                f"{path} must hold {name}, as every configuration of ALBERT does; "
                "without it, it is of another architecture, such as BERT"
            )
    settings = io.JsonFields(values, path)
    # Options of the original's earlier code, which no released model uses.
    for name, only in (
        ("down_scale_factor", 1),
        ("net_structure_type", 0),
        ("gap_size", 0),
        ("num_memory_blocks", 0),
    ):
        settings.choice(name, {only: only}, only)
    num_layers = settings.integer("num_hidden_layers")
    num_groups = settings.integer("num_hidden_groups")
    sharing = layer_groups.sharing_settings(
        num_layers, num_groups, layer_groups.by_scaling, path, io.KEYS
    )
    return settings.model_config(
        io.KEYS,
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


def _write_config(config: config_lib.ModelConfig, num_groups: int, path: str) -> None:
    activations = {native: external for external, native in _ACTIVATIONS.items()}
    files.write_json(
        path,
        {
            "vocab_size": config.vocab_size,
            "embedding_size": config.embedding_size,
            "hidden_size": config.hidden_size,
            "num_hidden_layers": config.num_layers,
            "num_hidden_groups": num_groups,
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


def _find_head(
    external: Mapping[str, np.ndarray], options: portable.ReadOptions, prefix: str
) -> portable.TaskHeadConfig | None:
    """The head of a fine-tuned model, or None.

    Raises:
      ValueError: there are two possible heads, and the user specified neither.
    """
    if tf1_weights.SPAN_OUTPUT[0] in external:
        return portable.TaskHeadConfig("span")
    if any(name.startswith("start_logits/") for name in external):
        search = {"num_starts": 5, "num_ends": 5}
        return portable.TaskHeadConfig("answerable_span", settings=search)
    if tf1_weights.OUTPUT[0] not in external:
        return None
    num_classes = weight_map.num_rows(external, tf1_weights.OUTPUT[0], prefix)
    if num_classes > 1:
        labels = options.class_labels(num_classes, prefix)
        return portable.TaskHeadConfig("classification", labels)
    if options.kind not in ("regression", "multiple_choice"):
        raise ValueError(
            f"{prefix}: {tf1_weights.OUTPUT[0]} has one unit, for a regression or for "
            "multiple choice: pass --head=regression or --head=multiple_choice; "
            f"received --head={options.kind!r}"
        )
    return portable.TaskHeadConfig(options.kind)


# ---- Slots of the optimizer ----


def _read_slots(
    entries: list[weight_map.Entry],
    external: Mapping[str, np.ndarray],
    shapes: weight_names.Shapes,
    suffix: str,
    prefix: str,
) -> dict[str, np.ndarray]:
    """One slot of each weight that has it; a pooler that is not trained has none."""
    slots = {}
    for entry in entries:
        name = entry.external + suffix
        if name in external:
            value = weight_map.as_float32(external[name], name, prefix)
            slots[entry.native] = entry.to_native(value, shapes[entry.native])
    return slots


def _external_slots(
    entries: list[weight_map.Entry], moments: portable.Moments
) -> dict[str, np.ndarray]:
    return {
        entry.external + suffix: entry.to_external(slots[entry.native])
        for suffix, slots in ((_FIRST, moments.first), (_SECOND, moments.second))
        for entry in entries
        if entry.native in slots
    }
