"""ALBERT of Hugging Face transformers on PyTorch, an implementation for bench_model.

It runs in a separate environment and imports nothing of this project.

Options: `compiled` runs the model through torch.compile; `gathered` scores the masked
positions only, where the library's AlbertForPreTraining scores all of them;
`weights` is the dtype that the model's weights are kept in. In bfloat16 with float32
weights, torch.autocast picks the dtype of each operation; with bfloat16 weights all
operations run in bfloat16, and LAMB keeps float32 copies.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch._inductor import config as inductor

_IGNORED = -100  # the label that transformers' losses ignore
_LEARNING_RATE = 1e-5


class TorchLamb:
    """LAMB without bias correction (You et al., 2019), with multi-tensor operations.

    Vectors are neither decayed nor adapted. The global norm is clipped to 1 before.
    """

    def __init__(self, parameters: list[torch.nn.Parameter]):
        self.parameters = parameters
        self.has_copies = any(one.dtype != torch.float32 for one in parameters)
        self.weights = [one.detach().float() for one in parameters]
        self.m = [torch.zeros_like(weight) for weight in self.weights]
        self.v = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def step(self) -> None:
        """Updates the parameters, and clears their gradients."""
        gradients = [parameter.grad.float() for parameter in self.parameters]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, 1.0 / torch.clamp(norm, min=1.0))
        torch._foreach_lerp_(self.m, gradients, 0.1)
        torch._foreach_mul_(self.v, 0.999)
        torch._foreach_addcmul_(self.v, gradients, gradients, 0.001)
        updates = torch._foreach_sqrt(self.v)
        torch._foreach_add_(updates, 1e-6)
        updates = list(torch._foreach_div(self.m, updates))
        matrices = [i for i, weight in enumerate(self.weights) if weight.ndim > 1]
        adapted = [updates[i] for i in matrices]
        weights = [self.weights[i] for i in matrices]
        torch._foreach_add_(adapted, weights, alpha=0.01)
        ratios = torch._foreach_norm(weights)
        torch._foreach_div_(ratios, torch._foreach_norm(adapted))
        torch._foreach_mul_(adapted, ratios)
        torch._foreach_add_(self.weights, updates, alpha=-_LEARNING_RATE)
        if self.has_copies:
            torch._foreach_copy_(self.parameters, self.weights)
        for parameter in self.parameters:
            parameter.grad = None


def build_step(request: dict[str, Any], batch: dict[str, list]) -> Callable[[], float]:
    """A function that takes one step and returns the loss, or a number of the output.

    Args:
      request: as `step_server` describes it.
      batch: nested lists of integers, as `step_server.make_batch` gives them.
    """
    torch.manual_seed(0)
    build = _training_step if request["task"] == "training" else _inference_step
    return build(
        request, {name: torch.tensor(values) for name, values in batch.items()}
    )


def _config(request: dict[str, Any]) -> transformers.AlbertConfig:
    model = request["model"]
    return transformers.AlbertConfig(
        vocab_size=model["vocab_size"],
        embedding_size=model["embedding_size"],
        hidden_size=model["hidden_size"],
        num_hidden_layers=model["num_layers"],
        num_attention_heads=model["num_heads"],
        intermediate_size=model["intermediate_size"],
        max_position_embeddings=model["max_positions"],
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
    )


def _autocast(request: dict[str, Any]) -> contextlib.AbstractContextManager:
    if request["dtype"] == "bfloat16" and request["options"]["weights"] == "float32":
        return torch.autocast("cpu", torch.bfloat16)
    return contextlib.nullcontext()


def _training_step(request, batch) -> Callable[[], float]:
    options = request["options"]
    model = transformers.AlbertForPreTraining(_config(request)).train()
    model = model.to(getattr(torch, options["weights"]))
    lamb = TorchLamb(list(model.parameters()))
    loss_of = _gathered_loss if options["gathered"] else _library_loss
    if options["compiled"]:
        loss_of = torch.compile(loss_of, dynamic=False)

    def step() -> float:
        with _autocast(request):
            loss = loss_of(model, batch)
        loss.backward()
        lamb.step()
        return loss.item()

    return step


def _library_loss(model, batch) -> torch.Tensor:
    labels = torch.full_like(batch["input_ids"], _IGNORED)  # [B, S]
    labels.scatter_(1, batch["masked_lm_positions"], batch["masked_lm_ids"])
    return model(
        batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
        labels=labels,
        sentence_order_label=batch["pair_labels"],
    ).loss


def _gathered_loss(model, batch) -> torch.Tensor:
    outputs = model.albert(
        batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
    )
    hidden = outputs.last_hidden_state  # [B, S, H]
    positions = batch["masked_lm_positions"][:, :, None]
    index = positions.expand(-1, -1, hidden.shape[-1])  # [B, P, H]
    logits = model.predictions(hidden.gather(1, index))  # [B, P, V]
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(
        logits.flatten(0, 1).float(), batch["masked_lm_ids"].flatten()
    ) + cross_entropy(
        model.sop_classifier(outputs.pooler_output).float(), batch["pair_labels"]
    )


def _inference_step(request, batch) -> Callable[[], float]:
    options = request["options"]
    model = transformers.AlbertModel(_config(request)).eval()
    model = model.to(getattr(torch, options["weights"]))
    if options["compiled"]:
        inductor.freezing = True
        model = torch.compile(model, dynamic=False)

    def step() -> float:
        with torch.no_grad(), _autocast(request):
            outputs = model(
                batch["input_ids"],
                attention_mask=batch["input_mask"],
                token_type_ids=batch["segment_ids"],
            )
        return (
            outputs.last_hidden_state[0, 0, 0].item()
            + outputs.pooler_output[0, 0].item()
        )

    return step
