"""Checkpoints of brightmart's albert_zh, whose blocks are named `layer_shared`.

There word embeddings are projected to H before positions and segments are added
(`word_embeddings` [V, E] times `word_embeddings_2` [E, H]), and the masked LM projects
back through the same matrix. The product of the two is a table [V, H]: with it the
model is a native one with E = H and all layers shared, and gives the same outputs.

Source of the names: the repository brightmart/albert_zh, modeling.py and
run_pretraining.py.
"""

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.interchange import (
    io,
    portable,
    tf1_weights,
    weight_files,
    weight_map,
    weight_names,
)

_CONFIGS = ("albert_config*.json", "bert_config*.json", "*config*.json")
_WORDS = "bert/embeddings/word_embeddings"
_PROJECTION = "bert/embeddings/word_embeddings_2"
_LAYER = "bert/encoder/layer_shared"
_BLOCK = "encoder/blocks/0"


def read(
    path: str, options: portable.ReadOptions, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Reads a checkpoint.

    Args:
      path: its folder, or its prefix.
      options: the vocabulary; its own, vocab.txt, is not a SentencePiece model.
      report: gets the number of weights, and what is ignored.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    prefix, folder = tf1_weights.locate(path)
    config_path = io.find(folder, *_CONFIGS)
    if config_path is None:
        raise ValueError(f"{folder} must hold the model's configuration, a .json file")
    config = _read_config(config_path)
    # The table is in the file as two factors, which are smaller.
    num_left_out = config.vocab_size * config.hidden_size
    data_paths = weight_files.of_checkpoint(prefix)
    weight_files.require_size(config, config_path, data_paths, num_left_out)
    external = tf1_weights.read_variables(prefix)
    for name in (_PROJECTION, _WORDS):
        if name not in external:
            raise ValueError(
                f"{prefix} must hold {name}, as albert_zh does; without it, it is of "
                "another architecture. For the original's names pass --from=tf1:FOLDER"
            )
    parts = tf1_weights.pretrained_parts(external)
    table, projection = external[_WORDS], external.pop(_PROJECTION)
    if table.ndim != 2 or projection.shape != (table.shape[1], config.hidden_size):
        raise ValueError(
            f"{prefix}: {_PROJECTION} must have the shape [E, H]; received "
            f"{list(projection.shape)} beside {_WORDS} {list(table.shape)} and H "
            f"{config.hidden_size}"
        )
    product = table.astype(np.float64) @ projection.astype(np.float64)
    external[_WORDS] = product.astype(np.float32)
    report.say(
        f"  {_WORDS} times {_PROJECTION} is one table {list(product.shape)}: E = H here"
    )
    slots = tuple(n for n in external if n.endswith(("/adam_m", "/adam_v", "/lamb_m")))
    ignored = [
        weight_map.Ignored(("global_step",), "kept as the step"),
        weight_map.Ignored(
            slots, "omitted, the slots of the optimizer: a product of tables has none"
        ),
    ]
    shapes = weight_names.shapes_of(config, parts)
    weights = weight_map.to_native(
        _entries(parts), external, shapes, prefix, ignored, report
    )
    report.say(
        "  layer norm is assumed to follow each sub-layer; a checkpoint of the variant "
        "that puts it before (modeling_preln.py) cannot be told apart, and is not "
        "supported"
    )
    vocab = io.choose_vocab(options.vocab_path, None, config.vocab_size)
    return portable.PortableModel(
        config=config,
        weights=weights,
        vocab=vocab,
        step=int(external["global_step"]) if "global_step" in external else 0,
    )


def _read_config(path: str) -> config_lib.ModelConfig:
    settings = io.JsonFields(io.read_json(path), path)
    settings.choice("ln_type", {"postln": "postln"}, "postln")
    hidden_size = settings.integer("hidden_size")
    return settings.model_config(
        io.KEYS,
        vocab_size=settings.integer("vocab_size"),
        embedding_size=hidden_size,
        hidden_size=hidden_size,
        num_layers=settings.integer("num_hidden_layers"),
        num_heads=settings.integer("num_attention_heads"),
        intermediate_size=settings.integer("intermediate_size"),
        activation=settings.choice(
            "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}, "gelu"
        ),
        max_positions=settings.integer("max_position_embeddings", 512),
        type_vocab_size=settings.integer("type_vocab_size", 2),
        hidden_dropout_rate=settings.number("hidden_dropout_prob", 0.0),
        attention_dropout_rate=settings.number("attention_probs_dropout_prob", 0.0),
        initializer_range=settings.number("initializer_range", 0.02),
    )


def _entries(parts: tuple[str, ...]) -> list[weight_map.Entry]:
    here, there = "encoder/embeddings", "bert/embeddings"
    tables_of_rows = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    entries = [
        *tf1_weights.same(here, there, *tables_of_rows),
        *tf1_weights.same(f"{here}/layer_norm", f"{there}/LayerNorm", "gamma", "beta"),
    ]
    for native, external in (
        ("attention/query", "attention/self/query"),
        ("attention/key", "attention/self/key"),
        ("attention/value", "attention/self/value"),
        ("attention/output_projection", "attention/output/dense"),
        ("feed_forward/intermediate", "intermediate/dense"),
        ("feed_forward/output_projection", "output/dense"),
    ):
        entries += tf1_weights.same(
            f"{_BLOCK}/{native}", f"{_LAYER}/{external}", "kernel", "bias"
        )
    for native, external in (
        ("attention/layer_norm", "attention/output/LayerNorm"),
        ("feed_forward/layer_norm", "output/LayerNorm"),
    ):
        entries += tf1_weights.same(
            f"{_BLOCK}/{native}", f"{_LAYER}/{external}", "gamma", "beta"
        )
    return entries + tf1_weights.pretraining_entries(parts)
