"""Presets of KerasHub, formerly keras-nlp.

They are of AlbertBackbone, AlbertMaskedLM or AlbertTextClassifier. The library itself
reads and writes them, on Keras 3, next to Keras 2 in one process; it is imported only
where it is needed, since that takes seconds. Weights are named by their `path` in
Keras, as of 0.32.0.
"""

import os
from collections.abc import Sequence

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import short_repr
from albert_tf.interchange import (
    io,
    keras_hub_names,
    layer_groups,
    portable,
    weight_files,
    weight_map,
    weight_names,
)
from albert_tf.interchange import keras_hub_files as preset

CONFIG_FILE = "config.json"
_VOCAB_FILE = os.path.join("assets", "tokenizer", "vocabulary.spm")
_CLASS = "AlbertBackbone"
_PROJECTION = ("embedding_projection/kernel", "embedding_projection/bias")
_KINDS = ("classification", "regression")
# What config.json calls settings, where the names differ.
_KEYS = {
    "vocab_size": "vocabulary_size",
    "embedding_size": "embedding_dim",
    "hidden_size": "hidden_dim",
    "num_inner_groups": "num_inner_repetitions",
    "intermediate_size": "intermediate_dim",
    "max_positions": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_rate": "dropout",
    "attention_dropout_rate": "dropout",
}


def read(
    path: str, options: portable.ReadOptions, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Reads a preset.

    Args:
      path: the folder, local.
      options: what the user specifies.
      report: gets the number of weights, and what is ignored.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    config_path = os.path.join(path, CONFIG_FILE)
    config = _read_config(config_path)
    task = preset.read_task(path)
    if task is not None and preset.is_untrained(path, task):
        report.say(f"  {task.class_name} has no weights of its own: the backbone alone")
        task = None
    stored = preset.find_weights(path, task)
    weight_files.require_size(config, config_path, stored.files)
    head = _read_head(config, task, stored, options)
    parts = _parts_of(task, head)
    shapes = weight_names.shapes_of(config, parts, head)
    entries = keras_hub_names.entries_of(config, parts, head)
    _require_arrays(entries, shapes, stored)
    network = _load(config, task, stored)
    external = {weight.path: np.asarray(weight) for weight in network.weights}
    if config.embedding_size == config.hidden_size:
        external = weight_map.without_identity(external, _PROJECTION, path, report)
    weights = weight_map.to_native(entries, external, shapes, path, [], report)
    vocab = io.choose_vocab(
        options.vocab_path, os.path.join(path, _VOCAB_FILE), config.vocab_size
    )
    return portable.PortableModel(
        config=config, weights=weights, vocab=vocab, head=head
    )


def write(
    model: portable.PortableModel, folder: str, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Writes a preset that `from_preset` takes.

    Args:
      model: what to write; of heads other than those of texts only the encoder has a
        counterpart, and sentence order has none.
      folder: an empty one, local.
      report: gets the number of weights, and what has no counterpart.

    Returns:
      What was written of the model.

    Raises:
      ValueError: the library has no such model.
    """
    config = model.config
    parts, head = _supported(model, report)
    layout = layer_groups.of_config(config, layer_groups.by_equal_parts, "KerasHub")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    if config.attention_dropout_rate != config.hidden_dropout_rate:
        report.say(
            "  no counterpart, omitted: model.attention_dropout_rate; its dropout is "
            "that of the hidden states everywhere"
        )
    vocab = model.vocab_for("a preset")
    network = _build(config, layout.num_groups, parts, head, vocab)
    entries = keras_hub_names.entries_of(config, parts, head)
    external = weight_map.to_external(entries, model.weights, report)
    if config.embedding_size == config.hidden_size:
        kernel, bias = _PROJECTION
        external[kernel] = np.eye(config.hidden_size, dtype=np.float32)
        external[bias] = np.zeros([config.hidden_size], np.float32)
        report.say("  embedding_projection: the identity, for E = H")
    for weight in network.weights:
        weight.assign(external.pop(weight.path))
    if external:
        names = weight_map.listed(list(external))
        raise ValueError(f"KerasHub has no weights for {names}")
    if portable.MASKED_LM in parts:
        report.say(
            "  mlm_head adds 1e-5 in its layer norm where ALBERT adds 1e-12: its "
            "logits differ a little"
        )
    report.say(
        "  AlbertTokenizer neither strips accents nor lower-cases: "
        "albert_tf.tokenization.tokenizer.normalize the texts before it"
    )
    network.save_to_preset(folder)
    return model.keeping(parts, head)


def _supported(
    model: portable.PortableModel, report: weight_map.ConversionReport
) -> tuple[tuple[str, ...], portable.TaskHeadConfig | None]:
    """The parts and the head that the library has; reports the others.

    Raises:
      ValueError: it has no such encoder.
    """
    config, head = model.config, model.head
    if config.activation != "gelu_tanh" or config.layer_norm_epsilon != 1e-12:
        raise ValueError(
            "KerasHub's AlbertBackbone has model.activation gelu_tanh and "
            "model.layer_norm_epsilon 1e-12 only; received "
            f"{config.activation} and {config.layer_norm_epsilon}, so that nothing can "
            "be written"
        )
    if head is not None and head.kind not in _KINDS:
        lost = weight_names.shapes_of(config, (portable.HEAD,), head)
        report.say(
            f"  no counterpart, omitted: the head {head.kind} with "
            f"{weight_map.listed(list(lost))}"
        )
        head = None
    parts: tuple[str, ...] = (portable.ENCODER, portable.POOLER)
    if portable.MASKED_LM in model.parts and model.head is None:
        parts += (portable.MASKED_LM,)
    if head:
        parts += (portable.HEAD,)
    if portable.SENTENCE_ORDER in model.parts:
        report.say("  no counterpart, omitted: sentence_order")
    if model.moments is not None:
        report.say("  no counterpart, omitted: the optimizer's slots, and the step")
    if portable.POOLER not in model.parts:
        raise ValueError(
            "KerasHub's AlbertBackbone has a pooler, and this model has none, so that "
            "nothing can be written"
        )
    return parts, head


# ---- Networks of KerasHub ----


def _read_head(
    config: config_lib.ModelConfig,
    task: preset.Task | None,
    stored: preset.Weights,
    options: portable.ReadOptions,
) -> portable.TaskHeadConfig | None:
    """The head of a classifier; None without one."""
    if task is None or task.class_name != preset.CLASSIFIER:
        return None
    # Before each class gets a name: there may be as many as an integer can count.
    preset.require_arrays([stored.head], [(config.hidden_size, task.num_classes)])
    rate = task.dropout_rate
    if task.num_classes == 1:
        return portable.TaskHeadConfig("regression", dropout_rate=rate)
    labels = options.class_labels(task.num_classes, stored.head)
    return portable.TaskHeadConfig("classification", labels, rate)


def _require_arrays(
    entries: Sequence[weight_map.Entry],
    shapes: weight_names.Shapes,
    stored: preset.Weights,
) -> None:
    """Checks that the files hold all weights, before a network is built for them."""
    of_backbone: list[tuple[int, ...]] = []
    of_head: list[tuple[int, ...]] = []
    for entry in entries:
        is_encoder = entry.native.startswith(f"{portable.ENCODER}/")
        expected = of_backbone if is_encoder else of_head
        expected.append(entry.external_shape(shapes[entry.native]))
    preset.require_arrays(stored.files, of_backbone)
    if of_head:
        preset.require_arrays([stored.head], of_head)


def _load(
    config: config_lib.ModelConfig, task: preset.Task | None, stored: preset.Weights
):
    """The network of a preset with its weights.

    It is built here and not by `from_preset`, which makes whatever the files name.
    """
    import keras_hub

    layout = layer_groups.of_config(config, layer_groups.by_equal_parts, "KerasHub")
    backbone = _backbone(config, layout.num_groups)
    network = backbone
    if task is not None and task.class_name == preset.MASKED_LM:
        network = keras_hub.models.AlbertMaskedLM(backbone)
    elif task is not None:
        network = keras_hub.models.AlbertTextClassifier(
            backbone, task.num_classes, dropout=task.dropout_rate
        )
    with preset.naming_damage(stored.backbone):
        backbone.load_weights(stored.backbone)
    if task is not None:
        with preset.naming_damage(stored.head):
            network.load_task_weights(stored.head)
    return network


def _backbone(config: config_lib.ModelConfig, num_groups: int):
    import keras_hub

    return keras_hub.models.AlbertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        embedding_dim=config.embedding_size,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        num_groups=num_groups,
        num_inner_repetitions=config.num_inner_groups,
        dropout=config.hidden_dropout_rate,
        max_sequence_length=config.max_positions,
        num_segments=config.type_vocab_size,
    )


def _build(
    config: config_lib.ModelConfig,
    num_groups: int,
    parts: tuple[str, ...],
    head: portable.TaskHeadConfig | None,
    vocab: bytes,
):
    """A network with a tokenizer, to be saved as a preset."""
    import keras_hub

    backbone = _backbone(config, num_groups)
    tokenizer = keras_hub.models.AlbertTokenizer(proto=vocab)
    if head is not None:
        preprocessor = keras_hub.models.AlbertTextClassifierPreprocessor(
            tokenizer, sequence_length=config.max_positions
        )
        return keras_hub.models.AlbertTextClassifier(
            backbone,
            max(len(head.labels), 1),
            preprocessor,
            dropout=head.dropout_rate,
        )
    preprocessor = keras_hub.models.AlbertMaskedLMPreprocessor(
        tokenizer, sequence_length=config.max_positions
    )
    network = keras_hub.models.AlbertMaskedLM(backbone, preprocessor)
    return network if portable.MASKED_LM in parts else _Bare(backbone, tokenizer)


class _Bare:
    """A backbone and its tokenizer, saved one after the other."""

    def __init__(self, backbone, tokenizer):
        self._backbone = backbone
        self._tokenizer = tokenizer
        self.weights = backbone.weights

    def save_to_preset(self, folder: str) -> None:
        self._backbone.save_to_preset(folder)
        self._tokenizer.save_to_preset(folder)


def _read_config(path: str) -> config_lib.ModelConfig:
    values = io.read_json(path)
    if values.get("class_name") != _CLASS:
        raise ValueError(
            f"{path} must be of KerasHub's {_CLASS}; received "
            f"{short_repr.shown(values.get('class_name'))}"
        )
    settings = io.JsonFields(preset.inner_config(values, path), path)
    num_layers = settings.integer("num_layers")
    num_groups = settings.integer("num_groups", 1)
    rate = settings.number("dropout", 0.0)
    return settings.model_config(
        _KEYS,
        vocab_size=settings.integer("vocabulary_size"),
        embedding_size=settings.integer("embedding_dim"),
        hidden_size=settings.integer("hidden_dim"),
        num_layers=num_layers,
        num_inner_groups=settings.integer("num_inner_repetitions", 1),
        num_heads=settings.integer("num_heads"),
        intermediate_size=settings.integer("intermediate_dim"),
        max_positions=settings.integer("max_sequence_length", 512),
        type_vocab_size=settings.integer("num_segments", 2),
        hidden_dropout_rate=rate,
        attention_dropout_rate=rate,
        **layer_groups.sharing_settings(
            num_layers, num_groups, layer_groups.by_equal_parts, path, _KEYS
        ),
    )


def _parts_of(
    task: preset.Task | None, head: portable.TaskHeadConfig | None
) -> tuple[str, ...]:
    parts = [portable.ENCODER, portable.POOLER]
    if task is not None and task.class_name == preset.MASKED_LM:
        parts.append(portable.MASKED_LM)
    return (*parts, portable.HEAD) if head else tuple(parts)
