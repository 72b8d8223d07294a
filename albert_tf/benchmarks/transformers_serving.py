"""Hugging Face's model on PyTorch as an implementation for bench_serve.

It runs in a separate environment and imports nothing of this project.

Options: `folder` of the model and its tokenizer, `text` as in `albert_tf_serving`, and
`compiled`, whether the model runs through torch.compile with frozen weights.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch._inductor import config as inductor


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that encodes the texts once and returns a number of the output.

    Args:
      request: as `step_server` describes it.
      batch: unused.
    """
    del batch
    options = request["options"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(options["folder"])
    model = transformers.AlbertModel.from_pretrained(
        options["folder"], dtype=getattr(torch, request["dtype"])
    ).eval()
    if options["compiled"]:
        inductor.freezing = True
        model = torch.compile(model, dynamic=False)
    texts = [pathlib.Path(options["text"]).read_text()] * request["batch_size"]

    def step() -> float:
        inputs = tokenizer(
            texts,
            truncation=True,
            padding=True,
            max_length=request["length"],
            return_tensors="pt",
        )
        with torch.no_grad():
            outputs = model(**inputs)
        sequence_output = outputs.last_hidden_state.float().numpy()
        if sequence_output.shape[1] != request["length"]:
            raise ValueError(f"the texts have {sequence_output.shape[1]} tokens")
        return float(sequence_output[0, 0, 0]) + float(outputs.pooler_output[0, 0])

    return step
