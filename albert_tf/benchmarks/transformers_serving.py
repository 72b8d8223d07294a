"""Hugging Face's model on PyTorch and ONNX Runtime, implementations for bench_serve.

It runs in a separate environment and imports nothing of this project.

Options: `folder` of the model and its tokenizer, `text` as in `albert_tf_serving`, and
`engine`, a key of `_ENGINES`.
"""

import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import transformers
from torch._inductor import config as inductor

# Returns sequence output [B, S, H] and pooled output [B, H] of tokens.
_Encode = Callable[[Mapping[str, torch.Tensor]], tuple[np.ndarray, np.ndarray]]


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that encodes the texts once and returns a number of the output.

    Args:
      request: as `step_server` describes it.
      batch: unused.
    """
    del batch
    options = request["options"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(options["folder"])
    texts = [pathlib.Path(options["text"]).read_text()] * request["batch_size"]

    def tokenize() -> Mapping[str, torch.Tensor]:
        return tokenizer(
            texts,
            truncation=True,
            padding=True,
            max_length=request["length"],
            return_tensors="pt",
        )

    encode = _ENGINES[options["engine"]](
        options["folder"], request["dtype"], tokenize()
    )

    def step() -> float:
        sequence_output, pooled_output = encode(tokenize())
        if sequence_output.shape[1] != request["length"]:
            raise ValueError(f"the texts have {sequence_output.shape[1]} tokens")
        return float(sequence_output[0, 0, 0]) + float(pooled_output[0, 0])

    return step


def _load(folder: str, dtype: str) -> torch.nn.Module:
    return transformers.AlbertModel.from_pretrained(
        folder, dtype=getattr(torch, dtype)
    ).eval()


def _torch(
    compiled: bool, folder: str, dtype: str, inputs: Mapping[str, torch.Tensor]
) -> _Encode:
    del inputs
    model = _load(folder, dtype)
    if compiled:
        inductor.freezing = True
        model = torch.compile(model, dynamic=False)

    def encode(inputs: Mapping[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            outputs = model(**inputs)
        return (
            outputs.last_hidden_state.float().numpy(),
            outputs.pooler_output.float().numpy(),
        )

    return encode


def _onnx(
    int8: bool, folder: str, dtype: str, inputs: Mapping[str, torch.Tensor]
) -> _Encode:
    """ONNX Runtime, in float32 or with products of eight bits."""
    del dtype  # its kernels for CPUs compute in no other type
    # Imported here: the other forms need none of it.
    import onnxruntime
    from onnxruntime import quantization

    # The model is in memory once the session is made.
    with tempfile.TemporaryDirectory() as exported:
        path = os.path.join(exported, "model.onnx")
        torch.onnx.export(
            _load(folder, "float32"),
            f=path,
            kwargs=dict(inputs),
            input_names=list(inputs),
            output_names=("sequence_output", "pooled_output"),
            dynamo=True,
        )
        if int8:
            quantized = os.path.join(exported, "int8.onnx")
            quantization.quantize_dynamic(path, quantized)
            path = quantized
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def encode(inputs: Mapping[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
        values = {name: value.numpy() for name, value in inputs.items()}
        sequence_output, pooled_output = session.run(None, values)
        return sequence_output, pooled_output

    return encode


_ENGINES = {
    "eager": functools.partial(_torch, False),
    "tuned": functools.partial(_torch, False),
    "compiled": functools.partial(_torch, True),
    "onnxruntime": functools.partial(_onnx, False),
    "onnxruntime-int8": functools.partial(_onnx, True),
}
