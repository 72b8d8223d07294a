"""Costs of a recipe in parameters, matrix products and memory, by arithmetic alone.

Nothing is built: the numbers follow from the configuration. Letters: B batch, S
sequence, P predictions, T = B * S tokens, E embedding, H hidden, N heads, F
feed-forward size, V vocabulary. A block application is one pass of the hidden states
through a block; there are `num_layers * num_inner_groups` of them, with any sharing.
In training the last of them is at 1 + P positions of a sequence only, those that the
heads read; R = B * (1 + P).
"""

import dataclasses
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.model import sharing

BYTES_OF_DTYPE = {"float32": 4, "bfloat16": 2, "float16": 2}
# Weights, gradients, optimizer slots and logits are float32, whatever the activations.
_MASTER_BYTES = BYTES_OF_DTYPE["float32"]
# LAMB and AdamW both keep two moments of each gradient.
_NUM_SLOTS = 2
# Each product's backward pass has two of its size: for its input and for its weight.
_BACKWARD_PER_FORWARD = 2


@dataclasses.dataclass(frozen=True)
class Parts:
    """Base of integers by part: each part is a field."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(dataclasses.astuple(self))


@dataclasses.dataclass(frozen=True)
class Parameters(Parts):
    """Number of parameters of each part of the pre-training model.

    The word embeddings are counted once, although the masked LM head uses them too.
    `attention` and `feed_forward` are the sums over all their sets.
    """

    word_embeddings: int
    position_embeddings: int
    segment_embeddings: int
    embedding_layer_norm: int
    embedding_projection: int
    attention: int
    feed_forward: int
    pooler: int
    masked_lm: int
    sentence_pair: int

    @property
    def encoder(self) -> int:
        """All parts except the heads."""
        return self.total - self.masked_lm - self.sentence_pair

    @property
    def encoder_without_pooler(self) -> int:
        """Embeddings, their projection and the blocks."""
        return self.encoder - self.pooler


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """B rows of S tokens, with P predictions and `num_sequences` sequences each."""

    batch_size: int
    length: int
    num_predictions: int
    num_sequences: int = 1

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.batch_size * self.length

    @property
    def num_read(self) -> int:
        """R: the masked tokens, and the first of each sequence."""
        return self.batch_size * self.num_queries(last=True)

    def num_queries(self, last: bool) -> int:
        """Returns the positions of a row at which a block's result is needed."""
        return self.num_sequences + self.num_predictions if last else self.length


@dataclasses.dataclass(frozen=True)
class Flops(Parts):
    """Floating-point operations of the forward pass's matrix products, by part.

    A multiply-add counts as two. Elementwise operations (softmax, layer norm,
    activation, dropout, losses) are not counted.
    """

    embedding_projection: int
    query_key_value: int
    scores_and_context: int
    attention_output: int
    feed_forward: int
    pooler: int
    masked_lm: int
    sentence_pair: int


@dataclasses.dataclass(frozen=True)
class StepFlops(Parts):
    """Floating-point operations of one training step, without the optimizer's."""

    forward: int
    backward: int
    recomputed: int


@dataclasses.dataclass(frozen=True)
class BlockActivations(Parts):
    """Bytes that the backward pass of one block application reads.

    The block's output is not among them: it is the next one's input. `read_input` is a
    copy of the input at the positions where the result is needed, if not everywhere.
    """

    block_input: int
    read_input: int
    query_key_value: int
    attention_probabilities: int
    context: int
    attention_output: int
    attention_layer_norm: int
    intermediate: int
    activated_intermediate: int
    feed_forward_output: int

    @property
    def within_attention(self) -> int:
        """Bytes that the attention part can recompute from the block's input."""
        return (
            self.read_input
            + self.query_key_value
            + self.attention_probabilities
            + self.context
            + self.attention_output
        )


@dataclasses.dataclass(frozen=True)
class ActivationMemory(Parts):
    """Bytes held for the backward pass at the moment when they are most.

    That is when it begins with the last block, or, if much is recomputed, at the one
    before it.

    `kept` is over all block applications; `recomputed` is recomputed for one of them at
    a time; `logits` is for those of the masked LM head and their gradient.
    """

    kept: int
    recomputed: int
    logits: int


@dataclasses.dataclass(frozen=True)
class Costs:
    """All costs of a recipe.

    Activations are those of one replica and one accumulation step; memory and gradients
    are per replica; FLOPs and tokens are totals over replicas.
    """

    parameters: Parameters
    forward_flops: Flops
    step_flops: StepFlops
    training_flops: int
    tokens_per_step: int
    activation_bytes: ActivationMemory
    activation_bytes_per_row: int
    reduced_gradient_bytes: int
    weight_and_slot_bytes: int


def num_block_applications(model: config_lib.ModelConfig) -> int:
    """Returns how often a block is applied between embeddings and last output."""
    return model.num_layers * model.num_inner_groups


def count_parameters(model: config_lib.ModelConfig) -> Parameters:
    """Counts the pre-training model's parameters (ALBERT paper, section 3.1)."""
    embedding, hidden = model.embedding_size, model.hidden_size
    vocab, inner = model.vocab_size, model.intermediate_size
    attentions, feed_forwards = map(
        set, zip(*sharing.parts_at_depth(model), strict=True)
    )
    attention = 4 * _dense(hidden, hidden) + _layer_norm(hidden)
    feed_forward = _dense(hidden, inner) + _dense(inner, hidden) + _layer_norm(hidden)
    return Parameters(
        word_embeddings=vocab * embedding,
        position_embeddings=model.max_positions * embedding,
        segment_embeddings=model.type_vocab_size * embedding,
        embedding_layer_norm=_layer_norm(embedding),
        embedding_projection=_dense(embedding, hidden) if _has_projection(model) else 0,
        attention=len(attentions) * attention,
        feed_forward=len(feed_forwards) * feed_forward,
        pooler=_dense(hidden, hidden),
        masked_lm=_dense(hidden, embedding) + _layer_norm(embedding) + vocab,
        sentence_pair=_dense(hidden, 2),
    )


def forward_flops(
    model: config_lib.ModelConfig, shape: BatchShape, everywhere: bool = False
) -> Flops:
    """Counts the forward pass of the pre-training model; sharing changes nothing.

    Args:
      model: the model.
      shape: the batch.
      everywhere: whether the result of the last block is needed at all positions, as in
        inference, and not only where the heads read it.
    """
    embedding, hidden = model.embedding_size, model.hidden_size
    tokens, depth = shape.num_tokens, num_block_applications(model)
    predictions = shape.batch_size * shape.num_predictions
    pairs = shape.batch_size * shape.num_sequences
    projection = _product(tokens, embedding, hidden) if _has_projection(model) else 0
    # Positions at which a block's result is needed, over all block applications.
    rows = (depth - 1) * tokens + (tokens if everywhere else shape.num_read)
    return Flops(
        embedding_projection=projection,
        query_key_value=_product(rows + 2 * depth * tokens, hidden, hidden),
        # Of each of the N heads scores are [D] x [D, S] and contexts [S] x [S, D].
        scores_and_context=2 * _product(rows, hidden, shape.length),
        attention_output=_product(rows, hidden, hidden),
        feed_forward=2 * _product(rows, hidden, model.intermediate_size),
        pooler=_product(pairs, hidden, hidden),
        masked_lm=_product(predictions, hidden, embedding)
        + _product(predictions, embedding, model.vocab_size),
        sentence_pair=_product(pairs, hidden, 2),
    )


def step_flops(
    model: config_lib.ModelConfig,
    shape: BatchShape,
    remat: str,
    queries_at_once: int = 0,
) -> StepFlops:
    """Counts a training step: forward, backward, and what is recomputed.

    Args:
      model: the model.
      shape: the batch.
      remat: as in `config.TrainConfig`.
      queries_at_once: as there; the scores of attention in parts are recomputed.
    """
    forward = forward_flops(model, shape)
    attention = (
        forward.query_key_value + forward.scores_and_context + forward.attention_output
    )
    recomputed = {
        "none": 0,
        "attention": attention,
        "block": attention + forward.feed_forward,
    }
    in_parts = [
        (num_block_applications(model) - 1)
        * shape.num_tokens
        * _has_parts(shape.length, queries_at_once),
        shape.num_read * _has_parts(shape.num_queries(last=True), queries_at_once),
    ]
    scores = _product(sum(in_parts), model.hidden_size, shape.length)
    return StepFlops(
        forward=forward.total,
        backward=_BACKWARD_PER_FORWARD * forward.total,
        recomputed=recomputed[remat] + scores,
    )


def block_activations(
    model: config_lib.ModelConfig,
    shape: BatchShape,
    compute_dtype: str,
    last: bool = False,
    queries_at_once: int = 0,
) -> BlockActivations:
    """Returns the bytes that one block application keeps without `train.remat`.

    Dropout masks and the float32 copies within softmax and layer norm are not counted.

    Args:
      model: the model.
      shape: the batch.
      compute_dtype: of the activations, one of `BYTES_OF_DTYPE`.
      last: whether it is the last one, whose result only the heads read.
      queries_at_once: as in `config.TrainConfig`: attention in parts keeps no
        probabilities.
    """
    size = BYTES_OF_DTYPE[compute_dtype]
    rows = shape.num_read if last else shape.num_tokens
    # [B, N, S or R / B, S]
    probabilities = model.num_heads * shape.length * rows * size
    if _has_parts(shape.num_queries(last), queries_at_once):
        probabilities = 0
    everywhere = shape.num_tokens * model.hidden_size * size  # [T, H]
    hidden = rows * model.hidden_size * size  # [T or R, H]
    intermediate = rows * model.intermediate_size * size  # [T or R, F]
    return BlockActivations(
        block_input=everywhere,
        read_input=hidden if last else 0,
        query_key_value=hidden + 2 * everywhere,
        attention_probabilities=probabilities,
        context=hidden,
        attention_output=hidden,
        attention_layer_norm=hidden,
        intermediate=intermediate,
        activated_intermediate=intermediate,
        feed_forward_output=hidden,
    )


def activation_memory(
    model: config_lib.ModelConfig,
    shape: BatchShape,
    remat: str,
    compute_dtype: str,
    queries_at_once: int = 0,
) -> ActivationMemory:
    """Returns the bytes of activations that the backward pass needs, by `remat`.

    With "attention" the inside of attention, with "block" all except the block's input
    is recomputed, for one block application at a time; and with `queries_at_once` the
    probabilities of that many queries. Of embeddings and heads only the logits are
    counted; the rest is small compared to the blocks.
    """
    block, last = (
        block_activations(model, shape, compute_dtype, last, queries_at_once)
        for last in (False, True)
    )
    again, last_again = _recomputed(block, remat), _recomputed(last, remat)
    others = num_block_applications(model) - 1
    kept = others * (block.total - again)
    part = 0
    if others and _has_parts(shape.length, queries_at_once):
        # Within a block before the last one, whose queries are mostly few.
        pairs = model.num_heads * shape.batch_size * queries_at_once * shape.length
        part = pairs * BYTES_OF_DTYPE[compute_dtype]
    if others and again + part > last.total:
        # More than when the backward pass begins, with the small last one.
        last_again = again + part
    else:
        kept += last.total - last_again
    predictions = shape.batch_size * shape.num_predictions
    return ActivationMemory(
        kept=kept,
        recomputed=last_again,
        logits=2 * predictions * model.vocab_size * _MASTER_BYTES,
    )


def recipe_costs(config: config_lib.Config, num_replicas: int = 1) -> Costs:
    """Counts what a recipe costs.

    Args:
      config: the recipe; `train` gives the batch, `data` its length and predictions.
      num_replicas: devices that share a batch.

    Raises:
      ValueError: the batch cannot be divided equally.
    """
    run = config.train
    whole = _batch_shape(config, run.batch_size)
    num_parts = num_replicas * run.accumulation_steps
    if num_replicas < 1 or run.batch_size % num_parts:
        raise ValueError(
            "train.batch_size must be a multiple of replicas times "
            f"train.accumulation_steps; received {run.batch_size}, {num_replicas} and "
            f"{run.accumulation_steps}. Change one of them"
        )
    part = _batch_shape(config, run.batch_size // num_parts)
    parameters = count_parameters(config.model)
    num_copies = 1 + _NUM_SLOTS + (1 if run.ema_decay else 0)
    step = step_flops(config.model, whole, run.remat, run.queries_at_once)
    activations = activation_memory(
        config.model, part, run.remat, run.compute_dtype, run.queries_at_once
    )
    return Costs(
        parameters=parameters,
        forward_flops=forward_flops(config.model, whole),
        step_flops=step,
        training_flops=run.num_steps * step.total,
        tokens_per_step=whole.num_tokens,
        activation_bytes=activations,
        activation_bytes_per_row=activations.total // part.batch_size,
        reduced_gradient_bytes=parameters.total * _MASTER_BYTES,
        weight_and_slot_bytes=parameters.total * _MASTER_BYTES * num_copies,
    )


def to_dict(costs: Costs) -> dict[str, Any]:
    """Returns nested values that JSON can hold, each part with its totals."""
    values = dataclasses.asdict(costs)
    values["parameters"] |= {
        "encoder_without_pooler": costs.parameters.encoder_without_pooler,
        "encoder": costs.parameters.encoder,
    }
    for name in ("parameters", "forward_flops", "step_flops", "activation_bytes"):
        values[name]["total"] = getattr(costs, name).total
    return values


def _recomputed(block: BlockActivations, remat: str) -> int:
    """Bytes of a block application that are computed again in the backward pass."""
    return {
        "none": 0,
        "attention": block.within_attention,
        "block": block.total - block.block_input,
    }[remat]


def _has_parts(num_queries: int, queries_at_once: int) -> bool:
    """Returns whether attention is computed in parts, as `query_parts` decides."""
    return 0 < queries_at_once < num_queries


def _batch_shape(config: config_lib.Config, batch_size: int) -> BatchShape:
    row = config.data.row
    return BatchShape(
        batch_size, row.length, row.num_predictions, max(1, row.num_sequences)
    )


def _has_projection(model: config_lib.ModelConfig) -> bool:
    return model.embedding_size != model.hidden_size


def _dense(inputs: int, outputs: int) -> int:
    """Parameters of a kernel and its bias."""
    return inputs * outputs + outputs


def _layer_norm(size: int) -> int:
    """Parameters of gamma and beta."""
    return 2 * size


def _product(rows: int, inner: int, columns: int) -> int:
    """Operations of [rows, inner] x [inner, columns]."""
    return 2 * rows * inner * columns
