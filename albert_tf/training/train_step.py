"""The train step: one function for every strategy.

XLA may compile forward and backward pass only; all-reduce and optimizer stay outside,
the form that runs on one device, on several, and on several hosts.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.model import stateless_random
from albert_tf.optim import optimizers
from albert_tf.training import loss_scale, objectives, row_lengths

Features = objectives.Features
Scalars = objectives.Scalars


def compute_gradients(
    objective: objectives.Objective,
    model: tf_keras.Model,
    features: Features,
    dropout_seed,
    *weights,
    scale=None,
) -> tuple[list[tf.Tensor], Scalars]:
    """Returns gradients of the mean loss over the global batch, and this batch's sums.

    Args:
      objective: the loss.
      model: the model.
      features: a batch, or a microbatch.
      dropout_seed: int32 [2] or None.
      *weights: those of the objective over the global batch, float32 scalars.
      scale: float32 scalar, a factor of the gradients; None is 1.
    """
    with tf.GradientTape() as tape:
        sums = objective.batch_sums(model, features, dropout_seed)
        loss = objective.mean(sums, weights)
    gradients = tape.gradient(
        loss,
        model.trainable_variables,
        output_gradients=scale,
        # Zeros for variables that no loss reaches: see `_keep_unreached`.
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    # Gradients of embeddings are slices, which XLA and LAMB's norms must not see.
    return [tf.convert_to_tensor(gradient) for gradient in gradients], sums


def accumulate_gradients(
    gradients_fn, features: Features, num_microbatches: int, dropout_seed
) -> tuple[list[tf.Tensor], Scalars]:
    """Returns gradients and sums of a batch that is split into equal microbatches.

    Args:
      gradients_fn: maps (features, dropout_seed) to gradients and sums.
      features: tensors whose leading axis is a multiple of `num_microbatches`.
      num_microbatches: how many; one is in memory at a time.
      dropout_seed: int32 [2]; each microbatch draws its own masks.
    """
    if num_microbatches == 1:
        return gradients_fn(features, dropout_seed)
    microbatches = {
        name: tf.reshape(value, [num_microbatches, -1, *value.shape[1:]])
        for name, value in features.items()
    }

    def microbatch_gradients(index):
        microbatch = {name: value[index] for name, value in microbatches.items()}
        return gradients_fn(microbatch, stateless_random.fold_in(dropout_seed, index))

    def add_microbatch(index, total):
        return index + 1, tf.nest.map_structure(
            tf.add, total, microbatch_gradients(index)
        )

    _, total = tf.while_loop(
        lambda index, total: index < num_microbatches,
        add_microbatch,
        (tf.constant(1), microbatch_gradients(0)),
        parallel_iterations=1,
    )
    return total


def _keep_unreached(
    optimizer: optimizers.AdamW, gradients: Sequence[tf.Tensor], variables
) -> list[tf.Tensor]:
    """Replaces the gradients of variables that no loss has reached so far by NaN.

    The optimizer does not change a variable whose gradient is not finite.

    Args:
      optimizer: built for the variables.
      gradients: of the global batch.
      variables: theirs.
    """
    # Differs from the original: if a gradient is zero, weight decay alone moves the
    # variable, and LAMB's trust ratio makes that a factor of 1 - rate a step.
    kept = []
    for gradient, variable in zip(gradients, variables, strict=True):
        is_reached = tf.reduce_any(gradient != 0.0) | optimizer.is_reached(variable)
        kept.append(tf.where(is_reached, gradient, float("nan")))
    return kept


def make_train_step(
    model: tf_keras.Model,
    optimizer: optimizers.AdamW,
    config: config_lib.Config,
    objective: objectives.Objective,
) -> Callable[..., Scalars]:
    """Returns the step that a replica takes on its part of the global batch.

    Returns:
      A function that takes the features of this replica, `stop` (float32 scalar, above
      0 if this host was asked to end), `mean_loss` (float32 scalar, the mean loss of
      previous steps; infinite before the first, and -inf for a step not to be taken),
      `num_skipped` (int32 scalar, the number of previous steps that were skipped) and
      `scale` (float32 scalar, the loss scale of float16, or None), and updates the
      variables. It returns float32 scalars, the same on every replica: the sums of the
      global batch by name; its `loss` and `gradient_norm` before clipping; `is_bad`, 1
      if the step was skipped because these are not finite or the loss rose too far; and
      `stop` summed over the hosts. With `scale` also `is_overflow`, 1 if the step was
      skipped because a smaller scale may be enough; it is then not bad.
    """
    compiled = tf.function(
        compute_gradients,
        jit_compile=strategies.compiles_with_xla(config.train.jit_compile),
        # There is nothing to rewrite, and AutoGraph takes half of the tracing time.
        autograph=False,
    )
    names = objective.sum_names

    def part_gradients(part: Features, seed, weights, scale):
        def compute(cut: Features):
            return compiled(objective, model, cut, seed, *weights, scale=scale)

        return row_lengths.at_own_length(compute, part, objective.lengths)

    def train_step(
        features: Features, stop, mean_loss, num_skipped=0, scale=None
    ) -> Scalars:
        weights = tf.unstack(
            strategies.sum_over_replicas(tf.stack(objective.weights(features)))
        )
        key = tf.stack([config.train.seed, tf.cast(optimizer.iterations, tf.int32)])
        key = stateless_random.fold_in(key, strategies.replica_id())
        gradients, sums = accumulate_gradients(
            lambda part, seed: part_gradients(part, seed, weights, scale),
            features,
            config.train.accumulation_steps,
            key,
        )
        *gradients, numbers = strategies.sum_over_replicas(
            [*gradients, tf.stack([*(sums[name] for name in names), stop])]
        )
        values = dict(zip((*names, "stop"), tf.unstack(numbers), strict=True))
        values["loss"] = objective.mean(values, weights)
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        # Differs from the original: it takes the norm of the slices of the embedding
        # gradient, in which a token that occurs twice counts as two.
        values["gradient_norm"] = tf.linalg.global_norm(gradients)
        is_good_loss = tf.math.is_finite(values["loss"]) & (
            values["loss"] <= mean_loss + config.train.max_loss_rise
        )
        is_good = is_good_loss & tf.math.is_finite(values["gradient_norm"])
        is_bad = ~is_good
        if scale is not None:
            is_overflow = loss_scale.is_overflow(
                scale, is_good_loss, values["gradient_norm"]
            )
            is_bad &= ~is_overflow
            values["is_overflow"] = tf.cast(is_overflow, tf.float32)
        # An infinite norm makes every gradient NaN, and such a step is skipped.
        norm = tf.where(is_good, values["gradient_norm"], float("inf"))
        gradients, _ = tf.clip_by_global_norm(
            gradients, config.optimizer.clip_norm, use_norm=norm
        )
        variables = model.trainable_variables
        gradients = _keep_unreached(optimizer, gradients, variables)
        optimizer.apply_gradients(
            zip(gradients, variables, strict=True),
            num_skipped,
            ~is_good,
            skip_gradients_aggregation=True,
        )
        return {**values, "is_bad": tf.cast(is_bad, tf.float32)}

    return train_step
