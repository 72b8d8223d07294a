"""The weights of Hugging Face transformers: safetensors files and names of parameters.

The names are those of transformers 5.23.0.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.core import config as config_lib
from albert_tf.core import files, short_repr
from albert_tf.interchange import (
    hugging_face_files,
    io,
    layer_groups,
    portable,
    weight_map,
)

_SUFFIX = ".safetensors"
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
# Computed from positions there, and not learned.
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def paths_in(folder: str) -> list[str]:
    """The path of model.safetensors, or those of the files that it is divided into.

    Raises:
      ValueError: a file is missing.
    """
    index_path = os.path.join(folder, hugging_face_files.INDEX)
    file_names = [hugging_face_files.WEIGHTS]
    # transformers, too, takes the single file before an index.
    is_single = files.exists(os.path.join(folder, hugging_face_files.WEIGHTS))
    if not is_single and files.exists(index_path):
        names = io.read_json(index_path).get("weight_map")
        found = list(names.values()) if isinstance(names, dict) else []
        if not found or not all(io.is_file_name(name, _SUFFIX) for name in found):
            raise ValueError(
                f"{index_path} must hold weight_map, which names files *{_SUFFIX} "
                f"beside it; received {short_repr.shown(names)}"
            )
        file_names = sorted(set(found))
    paths = [os.path.join(folder, file_name) for file_name in file_names]
    for path in paths:
        if not files.exists(path):
            remedy = hugging_face_files.remedy(files.names(folder))
            raise ValueError(f"there is no {path}. {remedy}")
    return paths


def read(paths: Sequence[str]) -> dict[str, np.ndarray]:
    """All arrays of files.

    Raises:
      ValueError: a file is damaged.
    """
    arrays: dict[str, np.ndarray] = {}
    for path in paths:
        try:
            stored = safetensors.deserialize(files.read_bytes(path))
        except safetensors.SafetensorError as error:
            reason = str(error)[:200]
            raise ValueError(
                f"{path} is damaged or cut off: {reason}; copy it again"
            ) from error
        for name, value in stored:
            dtype = _DTYPES.get(value["dtype"])
            if dtype is None:
                raise ValueError(
                    f"{path}: {short_repr.cut(name)} must hold numbers of "
                    f"{', '.join(_DTYPES)}; received {value['dtype']}"
                )
            array = np.frombuffer(value["data"], dtype)
            arrays[name] = array.reshape(value["shape"])
    return arrays


def write(folder: str, external: Mapping[str, np.ndarray]) -> None:
    """Writes model.safetensors."""
    files.write_bytes(
        os.path.join(folder, hugging_face_files.WEIGHTS),
        safetensors.numpy.save(dict(external), metadata={"format": "pt"}),
    )


def identity_projection(prefix: str, hidden_size: int) -> dict[str, np.ndarray]:
    """The projection of embeddings to H that transformers has where E = H too."""
    name = prefix + _MAPPING_IN
    return {
        f"{name}.weight": np.eye(hidden_size, dtype=np.float32),
        f"{name}.bias": np.zeros([hidden_size], np.float32),
    }


def untied(
    external: dict[str, np.ndarray],
    prefix: str,
    path: str,
    report: weight_map.ConversionReport,
) -> dict[str, np.ndarray]:
    """The weights without those that are tied to others, and so equal to them.

    Raises:
      ValueError: they are not equal.
    """
    external = dict(external)
    if _BIAS not in external and _TIED_BIAS in external:
        external[_BIAS] = external.pop(_TIED_BIAS)
    for name, original in (
        (_TIED_TABLE, f"{prefix}embeddings.word_embeddings.weight"),
        (_TIED_BIAS, _BIAS),
    ):
        if name not in external or original not in external:
            continue
        if not np.array_equal(external.pop(name), external[original]):
            raise ValueError(
                f"{path}: {name} must equal {original}, since here both are one "
                "variable; in this model they are two"
            )
        report.say(f"  omitted, a copy of {original}: {name}")
    return external


def parts_of(
    external: Mapping[str, Any], prefix: str, head: portable.TaskHeadConfig | None
) -> tuple[str, ...]:
    """The parts that there are weights of."""
    parts = [portable.ENCODER]
    for part, start in (
        (portable.POOLER, f"{prefix}pooler."),
        (portable.MASKED_LM, "predictions."),
        (portable.SENTENCE_ORDER, "sop_classifier."),
    ):
        if any(name.startswith(start) for name in external):
            parts.append(part)
    return (*parts, portable.HEAD) if head else tuple(parts)


def entries_of(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHeadConfig | None,
    prefix: str,
) -> list[weight_map.Entry]:
    """The native and external names of all weights.

    Args:
      config: of the model.
      parts: of `portable`.
      head: of a fine-tuned model.
      prefix: of the encoder's external names, "albert." or empty.
    """
    entries = _encoder_entries(config, prefix)
    if portable.POOLER in parts:
        entries += _dense("encoder/pooler", f"{prefix}pooler")
    if portable.MASKED_LM in parts:
        entries += _dense("masked_lm/transform", "predictions.dense")
        entries += _layer_norm("masked_lm/layer_norm", "predictions.LayerNorm")
        entries.append(weight_map.Entry("masked_lm/output_bias", _BIAS))
    if portable.SENTENCE_ORDER in parts:
        entries += _dense(
            "sentence_order/output_projection", "sop_classifier.classifier"
        )
    if head is not None:
        there = "qa_outputs" if head.kind == "span" else "classifier"
        entries += _dense("head/output_projection", there)
    return entries


def _encoder_entries(
    config: config_lib.ModelConfig, prefix: str
) -> list[weight_map.Entry]:
    here, there = "encoder/embeddings", f"{prefix}embeddings"
    entries = [
        weight_map.Entry(f"{here}/{name}", f"{there}.{name}.weight")
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
    ]
    entries += _layer_norm(f"{here}/layer_norm", f"{there}.LayerNorm")
    if config.embedding_size != config.hidden_size:
        entries += _dense("encoder/embedding_projection", prefix + _MAPPING_IN)
    layout = layer_groups.of_config(config, layer_groups.by_division, "transformers")
    for (group, inner), block in sorted(layout.block_of.items()):
        here = f"encoder/blocks/{block}"
        there = f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        for native, external in (
            ("attention/query", "attention.query"),
            ("attention/key", "attention.key"),
            ("attention/value", "attention.value"),
            ("attention/output_projection", "attention.dense"),
            ("feed_forward/intermediate", "ffn"),
            ("feed_forward/output_projection", "ffn_output"),
        ):
            entries += _dense(f"{here}/{native}", f"{there}.{external}")
        for native, external in (
            ("attention/layer_norm", "attention.LayerNorm"),
            ("feed_forward/layer_norm", "full_layer_layer_norm"),
        ):
            entries += _layer_norm(f"{here}/{native}", f"{there}.{external}")
    return entries


def _dense(native: str, external: str) -> list[weight_map.Entry]:
    """Entries of a dense layer, whose kernel PyTorch keeps as [units, inputs]."""
    return [
        weight_map.Entry(
            f"{native}/kernel", f"{external}.weight", weight_map.Transform.TRANSPOSED
        ),
        weight_map.Entry(f"{native}/bias", f"{external}.bias"),
    ]


def _layer_norm(native: str, external: str) -> list[weight_map.Entry]:
    return [
        weight_map.Entry(f"{native}/gamma", f"{external}.weight"),
        weight_map.Entry(f"{native}/beta", f"{external}.bias"),
    ]
