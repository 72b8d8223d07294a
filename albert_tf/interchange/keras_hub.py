"""Presets of KerasHub, which keras-nlp is another name of.

They are of AlbertBackbone, AlbertMaskedLM or AlbertTextClassifier. The library itself
reads and writes them, on Keras 3, which lives beside our Keras 2 in one process; it is
imported only where it is needed, since that takes seconds. Weights are known by the
`path` that Keras gives them, as of 0.32.0.
"""

import os
from typing import Any

import numpy as np

from albert_tf import config as config_lib
from albert_tf import files
from albert_tf.interchange import folders, groups, names, portable, tables

CONFIG_FILE = "config.json"
_TASK_FILE = "task.json"
_VOCAB_FILE = os.path.join("assets", "tokenizer", "vocabulary.spm")
_CLASS = "AlbertBackbone"
_TASKS = ("AlbertMaskedLM", "AlbertTextClassifier")
_PROJECTION = ("embedding_projection/kernel", "embedding_projection/bias")
_KINDS = ("classification", "regression")


def read(
    path: str, options: portable.ReadOptions, report: tables.Report
) -> portable.Portable:
    """Reads a preset.

    Args:
      path: the folder, local.
      options: what it may leave open.
      report: is told what was found.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    config = _read_config(os.path.join(path, CONFIG_FILE))
    network, head = _load(path, options)
    theirs = {weight.path: np.asarray(weight) for weight in network.weights}
    parts = _parts_of(theirs, head)
    shapes = names.shapes_of(config, parts, head)
    if config.embedding_size == config.hidden_size:
        theirs = tables.without_identity(theirs, _PROJECTION, path, report)
    weights = tables.to_ours(
        _entries(config, parts, head), theirs, shapes, path, [], report
    )
    vocab = folders.choose_vocab(
        options.vocab_path, os.path.join(path, _VOCAB_FILE), config.vocab_size
    )
    return portable.Portable(config=config, weights=weights, vocab=vocab, head=head)


def write(model: portable.Portable, folder: str, report: tables.Report) -> None:
    """Writes a preset that `from_preset` takes.

    Args:
      model: what to write; of heads but those of texts only the encoder has a
        counterpart, and sentence order has none.
      folder: an empty one, local.
      report: is told what went where, and what did not.

    Raises:
      ValueError: the library has no such model.
    """
    config, head = model.config, model.head
    if config.activation != "gelu_tanh" or config.layer_norm_epsilon != 1e-12:
        raise ValueError(
            "KerasHub's AlbertBackbone knows model.activation gelu_tanh and "
            "model.layer_norm_epsilon 1e-12 only; received "
            f"{config.activation} and {config.layer_norm_epsilon}, so that nothing can "
            "be written"
        )
    if head is not None and head.kind not in _KINDS:
        lost = names.shapes_of(config, (portable.HEAD,), head)
        report.say(
            f"  no counterpart, left out: the head {head.kind} with "
            f"{tables.listed(list(lost))}"
        )
        head = None
    kept = [portable.ENCODER, portable.POOLER]
    if portable.MASKED_LM in model.parts and model.head is None:
        kept.append(portable.MASKED_LM)
    parts = (*kept, portable.HEAD) if head else tuple(kept)
    left_out = [part for part in model.parts if part not in parts]
    if portable.SENTENCE_ORDER in left_out:
        report.say("  no counterpart, left out: sentence_order")
    if model.moments is not None:
        report.say("  no counterpart, left out: the optimizer's slots, and the step")
    if portable.POOLER not in model.parts:
        raise ValueError(
            "KerasHub's AlbertBackbone has a pooler, and this model has none, so that "
            "nothing can be written"
        )
    layout = groups.of_config(config, groups.by_equal_parts, "KerasHub")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    if config.attention_dropout_rate != config.hidden_dropout_rate:
        report.say(
            "  no counterpart, left out: model.attention_dropout_rate; its dropout is "
            "that of the hidden states everywhere"
        )
    if model.vocab is None:
        raise ValueError(
            "a preset needs a vocabulary, and none was found beside the model: pass "
            "--vocab_model=FILE, the SentencePiece model that belongs to it"
        )
    network = _build(config, layout.num_groups, parts, head, model.vocab)
    entries = _entries(config, parts, head)
    theirs = tables.to_theirs(entries, model.weights, report)
    if config.embedding_size == config.hidden_size:
        kernel, bias = _PROJECTION
        theirs[kernel] = np.eye(config.hidden_size, dtype=np.float32)
        theirs[bias] = np.zeros([config.hidden_size], np.float32)
        report.say("  embedding_projection: the identity, for E = H")
    for weight in network.weights:
        weight.assign(theirs.pop(weight.path))
    if theirs:
        raise ValueError(f"KerasHub has no place for {tables.listed(list(theirs))}")
    if portable.MASKED_LM in parts:
        report.say(
            "  mlm_head adds 1e-5 in its layer norm where ALBERT adds 1e-12: its "
            "logits differ a little"
        )
    report.say(
        "  AlbertTokenizer neither strips accents nor lower-cases: "
        "albert_tf.tokenization.normalize the texts before it"
    )
    network.save_to_preset(folder)


# ---- Their networks ----


def _load(path: str, options: portable.ReadOptions):
    """The network of a preset, and our head."""
    import keras_hub

    task_path = os.path.join(path, _TASK_FILE)
    try:
        if not files.exists(task_path):
            return keras_hub.models.AlbertBackbone.from_preset(path), None
        class_name = folders.read_json(task_path).get("class_name")
        if class_name not in _TASKS:
            raise ValueError(
                f"{task_path} must be of {' or '.join(_TASKS)}; received {class_name!r}"
            )
        network = getattr(keras_hub.models, class_name).from_preset(
            path, preprocessor=None
        )
    except (OSError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or cut off: {error}") from error
    if class_name == "AlbertMaskedLM":
        return network, None
    num_classes = network.num_classes
    if num_classes == 1:
        return network, portable.TaskHead("regression", dropout_rate=network.dropout)
    labels = options.class_labels(num_classes)
    return network, portable.TaskHead("classification", labels, network.dropout)


def _build(
    config: config_lib.ModelConfig,
    num_groups: int,
    parts: tuple[str, ...],
    head: portable.TaskHead | None,
    vocab: bytes,
):
    import keras_hub

    backbone = keras_hub.models.AlbertBackbone(
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
    """A backbone and its tokenizer, which are saved one after the other."""

    def __init__(self, backbone, tokenizer):
        self._backbone = backbone
        self._tokenizer = tokenizer
        self.weights = backbone.weights

    def save_to_preset(self, folder: str) -> None:
        self._backbone.save_to_preset(folder)
        self._tokenizer.save_to_preset(folder)


def _read_config(path: str) -> config_lib.ModelConfig:
    values = folders.read_json(path)
    if values.get("class_name") != _CLASS or not isinstance(values.get("config"), dict):
        raise ValueError(
            f"{path} must be of KerasHub's {_CLASS}; received "
            f"{values.get('class_name')!r}"
        )
    inner: dict[str, Any] = values["config"]
    settings = folders.Settings(inner, path)
    num_layers = settings.integer("num_layers")
    num_groups = settings.integer("num_groups", 1)
    rate = settings.number("dropout", 0.0)
    return config_lib.ModelConfig(
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
        **groups.sharing_settings(num_layers, num_groups, groups.by_equal_parts, path),
    )


# ---- Names ----


def _parts_of(theirs, head: portable.TaskHead | None) -> tuple[str, ...]:
    parts = [portable.ENCODER, portable.POOLER]
    if any(name.startswith("mlm_head/") for name in theirs):
        parts.append(portable.MASKED_LM)
    return (*parts, portable.HEAD) if head else tuple(parts)


def _entries(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHead | None,
) -> list[tables.Entry]:
    """What is what."""
    entries = _encoder_entries(config)
    entries += _same("encoder/pooler", "pooled_dense", "kernel", "bias")
    if portable.MASKED_LM in parts:
        entries += _same(
            "masked_lm/transform", "mlm_head/intermediate_dense", "kernel", "bias"
        )
        entries += _same(
            "masked_lm/layer_norm", "mlm_head/intermediate_layer_norm", "gamma", "beta"
        )
        entries += _same("masked_lm", "mlm_head", "output_bias")
    if head is not None:
        entries += _same("head/output_projection", "logits", "kernel", "bias")
    return entries


def _encoder_entries(config: config_lib.ModelConfig) -> list[tables.Entry]:
    hidden, num_heads = config.hidden_size, config.num_heads
    head_size = hidden // num_heads
    entries = [
        tables.Entry(f"encoder/embeddings/{ours}", theirs)
        for ours, theirs in (
            ("word_embeddings", "token_embedding/embeddings"),
            ("position_embeddings", "position_embedding/embeddings"),
            ("token_type_embeddings", "segment_embedding/embeddings"),
        )
    ]
    entries += _same(
        "encoder/embeddings/layer_norm", "embeddings_layer_norm", "gamma", "beta"
    )
    if config.embedding_size != hidden:
        entries += _same(
            "encoder/embedding_projection", "embedding_projection", "kernel", "bias"
        )
    layout = groups.of_config(config, groups.by_equal_parts, "KerasHub")
    for (group, inner), block in sorted(layout.block_of.items()):
        here = f"encoder/blocks/{block}"
        there = f"group_{group}_inner_layer_{inner}"
        for name in ("query", "key", "value"):
            ours, theirs = (
                f"{here}/attention/{name}",
                f"{there}/self_attention_layer/{name}",
            )
            # [H, H] there is [H, N, D]: a head's columns lie side by side.
            entries += [
                _reshaped(
                    f"{ours}/kernel", f"{theirs}/kernel", hidden, num_heads, head_size
                ),
                _reshaped(f"{ours}/bias", f"{theirs}/bias", num_heads, head_size),
            ]
        ours = f"{here}/attention/output_projection"
        theirs = f"{there}/self_attention_layer/attention_output"
        entries += [
            _reshaped(
                f"{ours}/kernel", f"{theirs}/kernel", num_heads, head_size, hidden
            ),
            *_same(ours, theirs, "bias"),
            *_same(
                f"{here}/attention/layer_norm",
                f"{there}/self_attention_layer_norm",
                "gamma",
                "beta",
            ),
        ]
        here = f"{here}/feed_forward"
        for ours, theirs, lasts in (
            ("intermediate", "feedforward_intermediate_dense", ("kernel", "bias")),
            ("output_projection", "feedforward_output_dense", ("kernel", "bias")),
            ("layer_norm", "feedforward_layer_norm", ("gamma", "beta")),
        ):
            entries += _same(f"{here}/{ours}", f"{there}/{theirs}", *lasts)
    return entries


def _same(ours: str, theirs: str, *lasts: str) -> list[tables.Entry]:
    return [tables.Entry(f"{ours}/{last}", f"{theirs}/{last}") for last in lasts]


def _reshaped(ours: str, theirs: str, *shape: int) -> tables.Entry:
    return tables.Entry(ours, theirs, tables.How.RESHAPED, shape)
