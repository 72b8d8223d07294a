"""Checkpoints of TensorFlow 1, and the original's names of variables.

Source of the names: golden/full_albert_variables.json, and the figures of the heads,
both produced by the authors' TensorFlow 1 code.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import warm_start
from albert_tf.core import checkpoint_prefix, files
from albert_tf.core import config as config_lib
from albert_tf.interchange import (
    io,
    layer_groups,
    portable,
    weight_files,
    weight_map,
    weight_names,
)

OUTPUT = ("output_weights", "output_bias")
SPAN_OUTPUT = ("cls/squad/output_weights", "cls/squad/output_bias")
_ANSWERABLE = {
    "head/start_output": "start_logits/dense",
    "head/end_transform": "end_logits/dense_0",
    "head/end_layer_norm": "end_logits/LayerNorm",
    "head/end_output": "end_logits/dense_1",
    "head/answer_transform": "answer_class/dense_0",
    "head/answer_output": "answer_class/dense_1",
}


# Where names of variables of other models start; what they are, and the remedy.
_OTHERS = {
    "bert/encoder/layer_shared/": (
        "brightmart's albert_zh. Pass --from=albert_zh:{path}"
    ),
    "bert/encoder/layer_0/": (
        "BERT, which is not converted. Give a checkpoint of ALBERT"
    ),
    "model/encoder/embeddings/": "a run of this project. Pass --from=run:{path}",
}


# ---- Files ----


def locate(path: str) -> tuple[str, str]:
    """The prefix of a TF1 checkpoint, and its folder.

    Raises:
      ValueError: there is none, or the file that names it is damaged.
    """
    if files.is_folder(path):
        try:
            prefix = tf.train.latest_checkpoint(path)
        except ValueError as error:
            raise ValueError(
                f"{os.path.join(path, 'checkpoint')}, which names the newest "
                "checkpoint, cannot be read. Copy it again, or remove it"
            ) from error
        if prefix:
            return prefix, path
        index = io.find(
            path, "*.index", otherwise=f", or pass its prefix, such as {path}/NAME"
        )
        if index is None:
            data = io.find_any(path, "*.data-*-of-*")
            found = f", though it holds {data}: copy both" if data else ""
            raise ValueError(
                f"{path} must hold a TensorFlow checkpoint, files of one prefix; it "
                f"holds no .index file{found}"
            )
        return index.removesuffix(".index"), path
    if not checkpoint_prefix.exists(path):
        raise ValueError(
            "a TensorFlow checkpoint is given by its directory, or by its prefix such "
            "as DIRECTORY/model.ckpt-best; "
            f"{checkpoint_prefix.say_missing(path)}"
        )
    return path, os.path.dirname(path) or "."


def require_original(prefix: str, path: str) -> None:
    """Checks that a checkpoint has the original's names of variables.

    Args:
      prefix: of the checkpoint.
      path: what the user gave for it.

    Raises:
      ValueError: it has those of another model; says which. Or it is damaged.
    """
    with warm_start.naming_damage(prefix):
        names = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    for start, other in _OTHERS.items():
        if any(name.startswith(start) for name in names):
            raise ValueError(
                f"{prefix} must hold variables with the names of ALBERT's authors; it "
                f"holds {start}..., as does {other.format(path=path)}"
            )


def read_variables(prefix: str) -> dict[str, np.ndarray]:
    """All variables of a checkpoint by name.

    Raises:
      ValueError: it is damaged.
    """
    with warm_start.naming_damage(prefix):
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
        size = weight_files.total_size(weight_files.of_checkpoint(prefix))
        stored = ((shapes[name], dtypes[name].size) for name in shapes)
        weight_files.require_stored(stored, f"the checkpoint {prefix}", size)
        return {name: np.asarray(reader.get_tensor(name)) for name in sorted(shapes)}


def save_variables(prefix: str, values: Mapping[str, np.ndarray]) -> None:
    """Writes variables by name, as tf.train.Saver of TensorFlow 1 does."""
    ordered = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=ordered,
        shape_and_slices=[""] * len(ordered),
        tensors=[tf.constant(values[name]) for name in ordered],
    )


# ---- Names ----


def pretrained_parts(external: Mapping[str, Any]) -> tuple[str, ...]:
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
            if any(name.startswith(prefix) for name in external)
        ),
    )


def entries_of(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHeadConfig | None,
) -> list[weight_map.Entry]:
    """The native and external names of all weights."""
    layout = layer_groups.of_config(config, layer_groups.by_scaling, "the original")
    entries = _encoder_entries(config, layout)
    entries += pretraining_entries(parts)
    if portable.HEAD in parts and head is not None:
        match head.kind:
            case "span":
                entries += _output("head", *SPAN_OUTPUT)
            case "answerable_span":
                for name in weight_names.shapes_of(config, (portable.HEAD,), head):
                    owner, _, last = name.rpartition("/")
                    entries += same(owner, _ANSWERABLE[owner], last)
            case _:
                entries += _output("head", *OUTPUT)
    return entries


def pretraining_entries(parts: tuple[str, ...]) -> list[weight_map.Entry]:
    """Pooler and the heads of pre-training, as far as they are among `parts`."""
    entries: list[weight_map.Entry] = []
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
    config: config_lib.ModelConfig, layout: layer_groups.Groups
) -> list[weight_map.Entry]:
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
        for native, external in (
            ("attention/query", "attention_1/self/query"),
            ("attention/key", "attention_1/self/key"),
            ("attention/value", "attention_1/self/value"),
            ("attention/output_projection", "attention_1/output/dense"),
            ("feed_forward/intermediate", "ffn_1/intermediate/dense"),
            ("feed_forward/output_projection", "ffn_1/intermediate/output/dense"),
        ):
            entries += same(f"{here}/{native}", f"{there}/{external}", "kernel", "bias")
        for native, external in (
            ("attention/layer_norm", "LayerNorm"),
            ("feed_forward/layer_norm", "LayerNorm_1"),
        ):
            entries += same(f"{here}/{native}", f"{there}/{external}", "gamma", "beta")
    return entries


def same(native: str, external: str, *lasts: str) -> list[weight_map.Entry]:
    """Entries of weights that the original keeps unchanged, below two names."""
    return [
        weight_map.Entry(f"{native}/{last}", f"{external}/{last}") for last in lasts
    ]


def _output(native: str, weights: str, bias: str) -> list[weight_map.Entry]:
    """Entries of an output layer, whose kernel the original keeps as [units, H]."""
    native = f"{native}/output_projection"
    return [
        weight_map.Entry(f"{native}/kernel", weights, weight_map.Transform.TRANSPOSED),
        weight_map.Entry(f"{native}/bias", bias),
    ]
