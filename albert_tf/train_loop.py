"""The train step, the loop on the device, and evaluation.

One step function serves every strategy. Only forward and backward pass may be
compiled by XLA; the sum over replicas and the optimizer stay outside, which is the
form that runs on one device, several, and several hosts.
"""

from collections.abc import Callable, Iterable

import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import distribution, layers, losses, models, optimizer

Features = dict[str, tf.Tensor]
Scalars = dict[str, tf.Tensor]

# Sums over a batch; `metrics` turns them into what people read.
SUMS = (
    "mlm_loss",
    "mlm_correct",
    "mlm_weight",
    "pair_loss",
    "pair_correct",
    "pair_weight",
    "num_tokens",
)


# What the metrics of the pair are called, by `data.pair_loss`.
PAIR_METRICS = {"sop": "sentence_order", "nsp": "next_sentence"}


def batch_sums(
    outputs: models.PretrainingOutputs,
    features: Features,
    example_weights,
    compiled: bool = False,
) -> Scalars:
    """The `SUMS` of a batch, float32 scalars, losses in nats.

    Args:
      outputs: what the model made of `features`.
      features: the batch.
      example_weights: float32 [B], 0 at examples that only fill up the batch.
      compiled: whether the loss of the masked tokens is an island.
    """
    mlm = losses.masked_lm(
        *outputs.mlm,
        features["masked_lm_ids"],
        features["masked_lm_weights"],
        compiled,
    )
    pair = losses.sentence_pair(
        outputs.pair_logits, features["next_sentence_labels"], example_weights
    )
    num_tokens = tf.cast(tf.reduce_sum(features["input_mask"]), tf.float32)
    return dict(zip(SUMS, (*mlm, *pair, num_tokens), strict=True))


def metrics(sums: dict[str, float], pair_loss: str) -> dict[str, float]:
    """Mean losses (nats a masked token, nats a pair) and accuracies.

    Args:
      sums: `SUMS`.
      pair_loss: one of `config.PAIR_LOSSES`; with "none" nothing is said of the pair.
    """
    mlm_weight = max(sums["mlm_weight"], 1.0)
    values = {
        "mlm_loss": sums["mlm_loss"] / mlm_weight,
        "mlm_accuracy": sums["mlm_correct"] / mlm_weight,
    }
    if pair_loss != "none":
        name, pair_weight = PAIR_METRICS[pair_loss], max(sums["pair_weight"], 1.0)
        values[f"{name}_loss"] = sums["pair_loss"] / pair_weight
        values[f"{name}_accuracy"] = sums["pair_correct"] / pair_weight
    return values


def compute_gradients(
    model: models.PretrainingModel,
    features: Features,
    dropout_seed,
    mlm_weight,
    pair_weight,
) -> tuple[list[tf.Tensor], Scalars]:
    """Gradients of the mean loss over the global batch, and this batch's sums.

    Args:
      model: the model.
      features: a batch, or a part of one, as `schema.model_features` describes it.
      dropout_seed: int32 [2] or None.
      mlm_weight: float32 scalar, masked tokens in the global batch.
      pair_weight: float32 scalar, sequences in the global batch, or 0 without a pair
        loss.
    """
    with tf.GradientTape() as tape:
        outputs = model(features, dropout_seed=dropout_seed)
        example_weights = tf.ones_like(features["next_sentence_labels"], tf.float32)
        sums = batch_sums(outputs, features, example_weights, model.compute.islands)
        loss = sums["mlm_loss"] / (
            mlm_weight + losses.WEIGHT_EPSILON
        ) + tf.math.divide_no_nan(sums["pair_loss"], pair_weight)
    gradients = tape.gradient(loss, model.trainable_variables)
    # The embeddings' gradients come as slices, which XLA and LAMB's norms must not see.
    return [tf.convert_to_tensor(gradient) for gradient in gradients], sums


def accumulate_gradients(
    gradients_fn, features: Features, num_parts: int, dropout_seed
) -> tuple[list[tf.Tensor], Scalars]:
    """Gradients and sums of a batch that goes through in `num_parts` equal parts.

    Args:
      gradients_fn: maps (features, dropout_seed) to gradients and sums.
      features: tensors with a leading axis of a multiple of `num_parts`.
      num_parts: how many; one part is alive at a time.
      dropout_seed: int32 [2]; each part draws its own masks.
    """
    if num_parts == 1:
        return gradients_fn(features, dropout_seed)
    parts = {
        name: tf.reshape(value, [num_parts, -1, *value.shape[1:]])
        for name, value in features.items()
    }

    def part_gradients(index):
        part = {name: value[index] for name, value in parts.items()}
        return gradients_fn(part, layers.fold_in(dropout_seed, index))

    def add_part(index, total):
        return index + 1, tf.nest.map_structure(tf.add, total, part_gradients(index))

    _, total = tf.while_loop(
        lambda index, total: index < num_parts,
        add_part,
        (tf.constant(1), part_gradients(0)),
        parallel_iterations=1,
    )
    return total


def make_train_step(
    model: models.PretrainingModel,
    adam: optimizer.AdamW,
    config: config_lib.Config,
) -> Callable[[Features], Scalars]:
    """The step that a replica takes on its part of the global batch.

    Returns:
      A function that takes features, changes the variables, and returns the `SUMS` of
      this replica's part.
    """
    compiled = tf.function(
        compute_gradients,
        jit_compile=distribution.compiles_with_xla(config.train.jit_compile),
    )
    has_pair_loss = config.data.pair_loss != "none"

    def train_step(features: Features) -> Scalars:
        weights = distribution.sum_over_replicas(
            [
                tf.reduce_sum(features["masked_lm_weights"]),
                tf.cast(tf.shape(features["input_ids"])[0], tf.float32)
                * float(has_pair_loss),
            ]
        )
        key = tf.stack([config.train.seed, tf.cast(adam.iterations, tf.int32)])
        key = layers.fold_in(key, distribution.replica_id())
        gradients, sums = accumulate_gradients(
            lambda part, seed: compiled(model, part, seed, *weights),
            features,
            config.train.accumulation_steps,
            key,
        )
        gradients = distribution.sum_over_replicas(gradients)
        # Differs from the original: it takes the norm of the embedding gradient's
        # slices, in which a token that occurs twice counts as two.
        norm = tf.linalg.global_norm(gradients)
        gradients, _ = tf.clip_by_global_norm(
            gradients, config.optimizer.clip_norm, use_norm=norm
        )
        adam.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True),
            skip_gradients_aggregation=True,
        )
        return {**sums, "gradient_norm": norm}

    return train_step


def make_train_loop(strategy, train_step) -> Callable[..., Scalars]:
    """A function (iterator, num_steps) that takes steps without leaving the device.

    It returns the `SUMS` over these steps and all replicas, and `gradient_norm`, the
    global norm before clipping, of the last one.
    """

    @tf.function
    def train_loop(iterator, num_steps):
        def step(_, totals):
            per_replica = strategy.run(train_step, (next(iterator),))
            norm = strategy.reduce("MEAN", per_replica.pop("gradient_norm"), axis=None)
            sums = {
                name: strategy.reduce("SUM", value, axis=None)
                for name, value in per_replica.items()
            }
            totals = {name: totals[name] + sums[name] for name in SUMS}
            return {**totals, "gradient_norm": norm}

        totals = {name: tf.constant(0.0) for name in (*SUMS, "gradient_norm")}
        index = tf.constant(0)
        return tf.while_loop(
            lambda index, totals: index < num_steps,
            lambda index, totals: (index + 1, step(index, totals)),
            (index, totals),
            parallel_iterations=1,
        )[1]

    return train_loop


def make_evaluation(
    model: models.PretrainingModel, config: config_lib.Config
) -> Callable[[Iterable[Features]], dict[str, float]]:
    """A function that gives the `metrics` of the model on batches of features."""

    @tf.function(jit_compile=distribution.compiles_with_xla(config.train.jit_compile))
    def eval_step(features):
        return batch_sums(
            model(features),
            features,
            features["example_weights"],
            model.compute.islands,
        )

    def evaluate(batches: Iterable[Features]) -> dict[str, float]:
        totals = dict.fromkeys(SUMS, 0.0)
        for features in batches:
            for name, value in eval_step(features).items():
                totals[name] += float(value)
        return metrics(totals, config.data.pair_loss)

    return evaluate
