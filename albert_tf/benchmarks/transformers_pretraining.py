"""Pre-trains AlbertForPreTraining of Hugging Face transformers, for bench_learning.

    python -m albert_tf.benchmarks.transformers_pretraining REQUEST.json

It runs in a separate environment and imports nothing of this project. REQUEST.json has:
`model`, the sizes; `train_dir` and `heldout_dir`, batches as `batch_files` writes them;
`output_dir`; `dtype`, "float32" or "bfloat16" (by torch.autocast); `compiled`, whether
through torch.compile; `learning_rate`, `warmup_steps`, `num_steps`; `save_every_steps`;
and `seed`. Every `save_every_steps` steps the held-out batches are evaluated and the
model is saved in output_dir/step-N, with the loss in heldout.json. `seconds` in
times.json are those of each step after the first, which compiles.

The optimizer is torch.optim.AdamW with weight decay of 0.01 for matrices; the rate
rises linearly, then falls linearly to 0. Masked positions are gathered before they are
scored, which is faster than the library's own loss over all positions.
"""

import contextlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

_IGNORED = -100  # the label that PyTorch's cross-entropy ignores
_WEIGHT_DECAY = 0.01
_CLIP_NORM = 1.0


class Batches:
    """Batches of a directory, by number."""

    def __init__(self, folder: str):
        """Opens the files of `folder`; nothing is read yet."""
        self._arrays = {
            path.stem: np.load(path, mmap_mode="r")
            for path in pathlib.Path(folder).glob("*.npy")
        }

    def __len__(self) -> int:
        return len(self._arrays["input_ids"])

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        """Returns int64 tensors [B, ...] of batch `number`."""
        return {
            name: torch.from_numpy(array[number].astype(np.int64))
            for name, array in self._arrays.items()
        }


def build_model(sizes: dict[str, Any]) -> transformers.AlbertForPreTraining:
    """Returns a new model.

    Args:
      sizes: fields of `config.ModelConfig`.
    """
    config = transformers.AlbertConfig(
        vocab_size=sizes["vocab_size"],
        embedding_size=sizes["embedding_size"],
        hidden_size=sizes["hidden_size"],
        num_hidden_layers=sizes["num_layers"],
        num_attention_heads=sizes["num_heads"],
        intermediate_size=sizes["intermediate_size"],
        max_position_embeddings=sizes["max_positions"],
        initializer_range=sizes["initializer_range"],
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
    )
    return transformers.AlbertForPreTraining(config)


def losses(model, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the mean losses of masked tokens and of pairs, in nats.

    The second is 0 if no pair of the batch has a label.
    """
    outputs = model.albert(
        batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
    )
    hidden = outputs.last_hidden_state  # [B, S, H]
    positions = batch["masked_lm_positions"][:, :, None]  # [B, P, 1]
    index = positions.expand(-1, -1, hidden.shape[-1])  # [B, P, H]
    logits = model.predictions(hidden.gather(1, index))  # [B, P, V]
    cross_entropy = torch.nn.functional.cross_entropy
    ids = batch["masked_lm_ids"].masked_fill(batch["masked_lm_weights"] == 0, _IGNORED)
    mlm = cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
    labels = batch["next_sentence_labels"]
    labels = labels.masked_fill(labels < 0, _IGNORED)
    pair = cross_entropy(
        model.sop_classifier(outputs.pooler_output).float(), labels, reduction="sum"
    )
    return mlm, pair / (labels >= 0).sum().clamp(min=1)


class Trainer:
    """One run of a request."""

    def __init__(self, request: dict[str, Any]):
        """Builds model and optimizer."""
        self._request = request
        torch.manual_seed(request["seed"])
        self._model = build_model(request["model"]).train()
        matrices = [p for p in self._model.parameters() if p.ndim > 1]
        vectors = [p for p in self._model.parameters() if p.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": _WEIGHT_DECAY},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._optimizer = torch.optim.AdamW(
            groups, lr=request["learning_rate"], fused=True
        )
        self._losses = losses
        if request["compiled"]:
            self._losses = torch.compile(losses, dynamic=False)

    def train(self) -> list[float]:
        """Trains and saves; returns the seconds of each step after the first."""
        batches = Batches(self._request["train_dir"])
        times = []
        for step in range(self._request["num_steps"]):
            began = time.perf_counter()
            self._take_step(step, batches[step % len(batches)])
            times.append(time.perf_counter() - began)
            every = self._request["save_every_steps"]
            if every and (step + 1) % every == 0:
                self._save(step + 1)
        return times[1:]

    def _take_step(self, step: int, batch: dict[str, torch.Tensor]) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(step)
        with self._autocast():
            mlm, pair = self._losses(self._model, batch)
        (mlm + pair).backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), _CLIP_NORM)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _rate(self, step: int) -> float:
        request = self._request
        warmup, last = request["warmup_steps"], request["num_steps"]
        rise = (step + 1) / max(warmup, 1)
        fall = (last - step) / max(last - warmup, 1)
        return request["learning_rate"] * min(rise, fall, 1.0)

    def _autocast(self) -> contextlib.AbstractContextManager:
        if self._request["dtype"] == "bfloat16":
            return torch.autocast("cpu", torch.bfloat16)
        return contextlib.nullcontext()

    @torch.no_grad()
    def _heldout_loss(self) -> float:
        """Returns nats per held-out masked token."""
        batches = Batches(self._request["heldout_dir"])
        total = weight = 0.0
        self._model.eval()
        for number in range(len(batches)):
            batch = batches[number]
            count = int(batch["masked_lm_weights"].sum())
            with self._autocast():
                mlm, _ = losses(self._model, batch)
            total += float(mlm) * count
            weight += count
        self._model.train()
        return total / weight

    def _save(self, step: int) -> None:
        """Saves the model; the directory appears whole."""
        folder = os.path.join(self._request["output_dir"], f"step-{step}")
        self._model.save_pretrained(f"{folder}.unfinished")
        path = os.path.join(f"{folder}.unfinished", "heldout.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"mlm_loss": self._heldout_loss()}, file)
        os.rename(f"{folder}.unfinished", folder)


def main(arguments: Sequence[str]) -> None:
    """Runs the request that the first argument names."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    os.makedirs(request["output_dir"], exist_ok=True)
    seconds = Trainer(request).train()
    path = os.path.join(request["output_dir"], "times.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds}, file)


if __name__ == "__main__":
    main(sys.argv[1:])
