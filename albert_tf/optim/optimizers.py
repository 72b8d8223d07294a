"""LAMB and AdamW as ALBERT uses them, and Muon."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from albert_tf.core import config as config_lib
from albert_tf.core import stages as stages_lib
from albert_tf.optim import averaging, orthogonal, schedule

# The root mean square of a matrix's step, for a learning rate of 1. Liu et al. (2025,
# section 2.2) take it from AdamW's, which is usually 0.2 to 0.4.
_MATRIX_STEP = 0.2


class Slots(NamedTuple):
    """The optimizer's variables for a variable, of its shape.

    m: the running mean of its gradients.
    v: the running mean of their squares.
    """

    m: tf.Variable
    v: tf.Variable


class UpdateRule(NamedTuple):
    """How a variable is updated.

    is_excluded: whether it gets neither weight decay nor trust ratio.
    is_orthogonal: whether it is a matrix whose step is orthogonalized.
    """

    is_excluded: bool
    is_orthogonal: bool = False


class AdamW(tf_keras.optimizers.Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    As in the original, without bias correction by default. Variables whose name matches
    one of `exclude_patterns` (regular expressions) are not decayed. With `compiled` XLA
    compiles the update of each variable, which takes fewer temporary copies on a CPU.
    `rate_scales` maps names of variables to factors of their learning rate. If a
    gradient is not finite, its variable and slots keep their values; the step counts.
    `matrix_dtype` is that of the products with which `Muon` orthogonalizes.
    """

    def __init__(
        self,
        learning_rate,
        weight_decay_rate: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        bias_correction: bool,
        exclude_patterns: Sequence[str],
        compiled: bool = False,
        rate_scales: Mapping[str, float] | None = None,
        matrix_dtype: str = "float32",
    ):
        super().__init__(name=type(self).__name__.lower(), jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.exclude_patterns = tuple(exclude_patterns)
        self.compiled = compiled
        self.matrix_dtype = matrix_dtype
        self._num_skipped, self._is_skipped = 0, False
        self._average: averaging.MovingAverage | None = None
        # Within functions, as a checkpoint would track a dictionary.
        self._named_rate_scales = lambda: rate_scales or {}
        self._compiled_update = tf.function(
            self._update, jit_compile=True, autograph=False
        )

    def build(self, var_list):
        """Makes the two slots of each variable.

        Raises:
          ValueError: a pattern matches no variable.
        """
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._first_moments = [
            self.add_variable_from_reference(variable, "m") for variable in var_list
        ]
        self._second_moments = [
            self.add_variable_from_reference(variable, "v") for variable in var_list
        ]
        self._check_patterns(var_list)
        named = dict(self._named_rate_scales())
        scales = [named.pop(variable.name, 1.0) for variable in var_list]
        if named:
            raise ValueError(
                f"each of rate_scales must name a variable; received {sorted(named)}, "
                f"which name none of {len(var_list)}"
            )
        self._rate_scale_at = lambda index: scales[index]
        rules = [self.update_rule(variable) for variable in var_list]
        self._rule_at = lambda index: rules[index]
        self._built = True

    def slots_of(self, variable) -> Slots:
        """Returns the slots of a variable that `build` received."""
        index = self._index_dict[self._var_key(variable)]
        return Slots(self._first_moments[index], self._second_moments[index])

    def keep_average(self, average: averaging.MovingAverage) -> None:
        """Updates `average`, of the variables that `build` received, in each step."""
        self._average = average

    def apply_gradients(
        self, grads_and_vars, num_skipped=0, is_skipped=False, **options
    ):
        """Updates variables.

        Args:
          grads_and_vars: pairs of a dense gradient and its variable.
          num_skipped: int32 scalar, the number of earlier steps that were skipped. Bias
            correction does not count them; the learning rate does.
          is_skipped: bool scalar, whether this step is skipped, whose gradients are
            then not finite. The average of the weights does not change in it.
          **options: those of Keras.
        """
        # For update_step in the same trace: Keras passes it no other arguments.
        self._num_skipped, self._is_skipped = num_skipped, is_skipped
        return super().apply_gradients(grads_and_vars, **options)

    def is_reached(self, variable) -> tf.Tensor:
        """Returns whether a gradient of `variable` was not zero so far; bool scalar."""
        return tf.reduce_max(self.slots_of(variable).v) > 0.0

    def update_step(self, gradient, variable):
        """Updates `variable` by `gradient`, a dense tensor of the same shape."""
        index = self._index_dict[self._var_key(variable)]
        m, v = self.slots_of(variable)
        # By index: on a second device the variable has another name.
        rule = self._rule_at(index)
        # XLA multiplies matrices on a CPU more slowly than TensorFlow does.
        is_compiled = self.compiled and not rule.is_orthogonal
        update = self._compiled_update if is_compiled else self._update
        new_m, new_v, change = update(
            gradient,
            tf.convert_to_tensor(variable),
            tf.convert_to_tensor(m),
            tf.convert_to_tensor(v),
            self._num_taken(self._num_skipped),
            rule,
        )
        m.assign(new_m)
        v.assign(new_v)
        rate = self.learning_rate * self._rate_scale_at(index)
        variable.assign_sub(rate * change)
        if self._average is not None:
            num_taken = self._num_taken(self._num_skipped)
            self._average.update(index, variable, num_taken, self._is_skipped)

    def _num_taken(self, num_skipped) -> tf.Tensor:
        """Returns how many steps changed the slots; float32 scalar."""
        return tf.cast(self.iterations - tf.cast(num_skipped, tf.int64), tf.float32)

    def _update(self, gradient, weights, m, v, num_taken, rule: UpdateRule):
        """Returns the new moments, and the direction of the step."""
        is_finite = tf.reduce_all(tf.math.is_finite(gradient))
        new_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        new_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
        m = tf.where(is_finite, new_m, m)
        v = tf.where(is_finite, new_v, v)
        update = self._direction(weights, m, v, num_taken, rule)
        if not rule.is_excluded:
            update *= self._trust_ratio(weights, update)
        return m, v, tf.where(is_finite, update, 0.0)

    def _direction(self, weights, m, v, num_taken, rule: UpdateRule):
        """Returns the unscaled step, after `num_taken` steps."""
        if rule.is_orthogonal:
            update = orthogonal.orthogonalize(m, self.matrix_dtype)
            # The root mean square of its elements is then about _MATRIX_STEP.
            update *= _MATRIX_STEP * max(m.shape) ** 0.5
        else:
            m_hat, v_hat = self._unbiased(m, v, num_taken)
            update = m_hat / (tf.sqrt(v_hat) + self.epsilon)
        return update if rule.is_excluded else update + self.weight_decay_rate * weights

    def update_rule(self, variable) -> UpdateRule:
        """Returns how `variable` is updated."""
        return UpdateRule(self.is_excluded(variable))

    def is_excluded(self, variable) -> bool:
        """Returns whether `variable` gets neither weight decay nor trust ratio."""
        return any(
            re.search(pattern, variable.name) for pattern in self.exclude_patterns
        )

    def trust_ratios(self, var_list, num_skipped=0) -> dict[str, tf.Tensor]:
        """Returns the trust ratio of each variable's last step, by name.

        float32 scalars, computed from the slots and the present weights, which differ
        from the weights that the update used by that one step; 0 if no loss has
        reached the variable. Empty but under LAMB.

        Args:
          var_list: variables that `build` received.
          num_skipped: int32 scalar, the number of steps that were skipped so far.
        """
        num_taken = self._num_taken(num_skipped) - 1.0
        ratios = {}
        for variable in var_list:
            slots = self.slots_of(variable)
            weights, m, v = map(tf.convert_to_tensor, (variable, *slots))
            if self.uses_trust_ratio(variable):
                rule = self.update_rule(variable)
                update = self._direction(weights, m, v, num_taken, rule)
                ratio = self._trust_ratio(weights, update)
                name = variable.name.removesuffix(":0")
                ratios[name] = tf.where(self.is_reached(variable), ratio, 0.0)
        return ratios

    def uses_trust_ratio(self, variable) -> bool:
        """Returns whether the step of `variable` is scaled by a trust ratio."""
        del variable
        return False

    def _trust_ratio(self, weights, update):
        del weights, update
        return 1.0

    def _unbiased(self, m, v, num_taken):
        if not self.bias_correction:
            return m, v
        num_taken += 1.0
        return m / (1.0 - self.beta_1**num_taken), v / (1.0 - self.beta_2**num_taken)

    def _check_patterns(self, var_list):
        for pattern in self.exclude_patterns:
            if not any(re.search(pattern, variable.name) for variable in var_list):
                raise ValueError(
                    "each of optimizer.exclude_patterns must match a variable; "
                    f"{pattern!r} matches none of {len(var_list)}"
                )

    def describe(self, var_list) -> str:
        """Returns a line: how many parameters get weight decay, and trust ratios."""
        total = sum(variable.shape.num_elements() for variable in var_list)
        excluded = sum(
            variable.shape.num_elements()
            for variable in var_list
            if self.is_excluded(variable)
        )
        unadapted = sum(
            variable.shape.num_elements()
            for variable in var_list
            if not self.uses_trust_ratio(variable)
        )
        line = (
            f"{self.name}: weight decay for {total - excluded:,} of {total:,} "
            f"parameters, not for {excluded:,}"
        )
        if unadapted == total:  # only LAMB has trust ratios
            return line
        return f"{line}; no trust ratio for {unadapted:,}"

    def describe_unreached(self, var_list) -> str:
        """Returns a line about the variables that no loss has reached; "" if none.

        Also "" if all of `var_list` are such variables, as before the first step.
        """
        unreached = [v for v in var_list if not self.is_reached(v)]
        if not unreached or len(unreached) == len(var_list):
            return ""
        count, total = (
            sum(variable.shape.num_elements() for variable in variables)
            for variables in (unreached, var_list)
        )
        names = ", ".join(variable.name.removesuffix(":0") for variable in unreached)
        return (
            f"{self.name}: of {total:,} parameters {count:,} are reached by no loss "
            f"and stay as they are: {names}"
        )


class Lamb(AdamW):
    """AdamW whose step is scaled to each variable's norm (You et al., 2019)."""

    def uses_trust_ratio(self, variable) -> bool:
        """Returns whether the step of `variable` is scaled by a trust ratio."""
        return not self.is_excluded(variable)

    def _trust_ratio(self, weights, update):
        weight_norm = tf.norm(weights)
        update_norm = tf.norm(update)
        ratio = tf.math.divide_no_nan(weight_norm, update_norm)
        return tf.where((weight_norm > 0) & (update_norm > 0), ratio, 1.0)


class Muon(AdamW):
    """AdamW whose steps of dense layers are orthogonalized (Jordan et al., 2024).

    The step of each dense layer's matrix ("kernel") is the running mean of its
    gradients, orthogonalized, with a root mean square of about 0.2, as AdamW's steps
    often have, so that one learning rate and one weight decay serve all variables (Liu
    et al., 2025, "Muon is scalable for LLM training", arXiv 2502.16982). Embeddings,
    biases and layer norms are updated as by AdamW. Unlike Jordan's it has the mean of
    Adam instead of Nesterov's momentum.
    """

    def update_rule(self, variable) -> UpdateRule:
        """Returns how `variable` is updated."""
        is_matrix = len(variable.shape) == 2 and "kernel" in variable.name
        is_excluded = self.is_excluded(variable)
        return UpdateRule(is_excluded, is_orthogonal=is_matrix and not is_excluded)


_CLASSES = {"lamb": Lamb, "adamw": AdamW, "muon": Muon}


def create(
    config: config_lib.OptimizerConfig,
    num_steps: int,
    compiled: bool = False,
    rate_scales: Mapping[str, float] | None = None,
    stages: Sequence[stages_lib.Stage] = (),
    compute_dtype: str = "float32",
) -> AdamW:
    """Returns the optimizer of a run of `num_steps` steps, with its schedule.

    Args:
      config: the settings.
      num_steps: of the run.
      compiled: whether XLA compiles the updates.
      rate_scales: factors of learning rates, by names of variables.
      stages: of the run, if it has some.
      compute_dtype: of the model's matrix products. Muon's own have it too, unless it
        is float16, whose range is too small for them.
    """
    optimizer_class = _CLASSES[config.name]
    return optimizer_class(
        learning_rate=schedule.create(config, num_steps, stages),
        weight_decay_rate=config.weight_decay_rate,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        bias_correction=config.bias_correction,
        exclude_patterns=config.exclude_patterns,
        compiled=compiled,
        rate_scales=rate_scales,
        matrix_dtype="bfloat16" if compute_dtype == "bfloat16" else "float32",
    )
