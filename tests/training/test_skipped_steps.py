"""What a skipped step leaves as it was, and how the steps after it count."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.core import config
from albert_tf.devices import strategies
from albert_tf.optim import optimizers
from albert_tf.training import loops, train_step
from tests.support import training_processes as processes

_NUM_STEPS = 9
_BAD = (1, 4, 5)  # one before the third taken step, two later
_SETTINGS = config.OptimizerConfig(
    name="lamb",
    learning_rate=0.1,
    warmup_steps=3,
    bias_correction=True,
    exclude_patterns=("bias",),
)
_RNG = np.random.default_rng(5)
_X = _RNG.normal(size=(_NUM_STEPS, 8, 3))
_Y = _RNG.normal(size=(_NUM_STEPS, 8))
_KERNEL = np.array([[0.5], [-1.0], [2.0]])
_SPARE = np.array([[3.0, -4.0]])


class _Squares:
    """Half the mean squared error of a linear model."""

    sum_names = ("squares", "num_tokens")

    def weights(self, features):
        return [tf.cast(tf.size(features["y"]), tf.float32)]

    def batch_sums(self, model, features, dropout_seed, example_weights=None):
        del dropout_seed, example_weights
        errors = tf.linalg.matvec(features["x"], model.kernel[:, 0])
        errors += model.bias - features["y"]
        return {"squares": tf.reduce_sum(errors**2) / 2, "num_tokens": tf.constant(1.0)}

    def mean(self, sums, weights):
        return sums["squares"] / weights[0]


class _Linear(tf_keras.Model):
    """A linear model with a variable that its outputs do not depend on."""

    def __init__(self):
        super().__init__(name="linear")
        self.kernel = tf.Variable(_KERNEL, name="kernel", dtype=tf.float32)
        self.spare = tf.Variable(_SPARE, name="spare", dtype=tf.float32)
        self.bias = tf.Variable([0.25], name="bias")


class _Run:
    """Model, optimizer and loop, on some devices."""

    def __init__(self, strategy=None, accumulation_steps=1):
        self.strategy = strategy or tf.distribute.get_strategy()
        with self.strategy.scope():
            self.model = _Linear()
            self.adam = optimizers.create(_SETTINGS, _NUM_STEPS)
            self.adam.build(self.model.trainable_variables)
        settings = config.Config(
            optimizer=_SETTINGS,
            train=config.TrainConfig(
                batch_size=8, accumulation_steps=accumulation_steps, jit_compile="off"
            ),
        )
        objective = _Squares()
        step = train_step.make_train_step(self.model, self.adam, settings, objective)
        self.state = loops.TrainState(objective)
        self._loop = loops.make_train_loop(
            self.strategy, step, self.state, loops.Signals(), len(_BAD)
        )
        self.checkpoint = tf.train.Checkpoint(
            model=self.model, optimizer=self.adam, loop=self.state
        )

    def train(self, first, end):
        size = 8 // self.strategy.num_replicas_in_sync
        x = _X.copy()
        x[list(_BAD)] = np.nan
        features = {"x": x[first:end], "y": _Y[first:end]}
        features = {
            name: value.astype(np.float32).reshape(-1, *value.shape[2:])
            for name, value in features.items()
        }
        dataset = tf.data.Dataset.from_tensor_slices(features).batch(size, True)
        batches = strategies.distribute_dataset(self.strategy, lambda _: dataset)
        outcome = self._loop(iter(batches), tf.constant(end - first))
        assert int(outcome["num_steps"]) == end - first
        return {
            variable.name.removesuffix(":0"): variable.numpy()
            for variable in self.model.trainable_variables
        }


def _reference():
    """The weights after all steps in float64; skipped ones do not count as taken."""
    weights = {"kernel": _KERNEL.copy(), "bias": np.array([0.25])}
    m, v = ({name: 0.0 * value for name, value in weights.items()} for _ in range(2))
    num_taken = 0
    for step in range(_NUM_STEPS):
        if step in _BAD:
            continue
        num_taken += 1
        error = _X[step] @ weights["kernel"][:, 0] + weights["bias"] - _Y[step]
        gradients = {
            "kernel": (_X[step].T @ error / 8)[:, None],
            "bias": error.mean(keepdims=True),
        }
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        rate = 0.1 * (step / 3 if step < 3 else 1 - step / _NUM_STEPS)
        for name, gradient in gradients.items():
            gradient = gradient / max(norm, 1.0)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            m_hat = m[name] / (1 - 0.9**num_taken)
            v_hat = v[name] / (1 - 0.999**num_taken)
            update = m_hat / (np.sqrt(v_hat) + 1e-6)
            if name == "kernel":
                update += 0.01 * weights[name]
                update *= np.linalg.norm(weights[name]) / np.linalg.norm(update)
            weights[name] = weights[name] - rate * update
    return weights


def _assert_equal_the_reference(found):
    # Rounding of float32 gives 5e-7. If skipped steps counted, the kernel would differ
    # by 1.8e-4.
    for name, value in _reference().items():
        np.testing.assert_allclose(found[name], value, atol=2e-6, err_msg=name)
    np.testing.assert_array_equal(found["spare"], _SPARE)


@pytest.fixture(scope="module")
def whole():
    """A run that was not interrupted, and its variables."""
    run = _Run()
    return run, run.train(0, _NUM_STEPS)


def test_bias_correction_counts_the_steps_that_were_taken(whole):
    run, found = whole
    assert int(run.state.num_skipped) == 3 and int(run.adam.iterations) == _NUM_STEPS
    _assert_equal_the_reference(found)


def test_bias_correction_counts_the_steps_that_were_taken_in_parts():
    _assert_equal_the_reference(_Run(accumulation_steps=2).train(0, _NUM_STEPS))


def test_a_variable_that_the_loss_does_not_depend_on_is_not_trained(whole):
    run, found = whole
    np.testing.assert_array_equal(found["spare"], _SPARE)
    variables = run.model.trainable_variables
    assert run.adam.describe_unreached(variables).endswith("as they are: spare")
    np.testing.assert_array_equal(run.adam.slots_of(run.model.spare).m, [[0.0, 0.0]])


def test_a_run_that_resumes_after_skipped_steps_equals_one_not_interrupted(
    whole, tmp_path
):
    first, resumed = _Run(), _Run()
    first.train(0, 5)  # of which two were skipped; so is the next
    path = first.checkpoint.write(str(tmp_path / "checkpoint"))
    resumed.checkpoint.read(path).assert_consumed()
    found = resumed.train(5, _NUM_STEPS)
    for name, value in whole[1].items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_trust_ratios_do_not_change_while_steps_are_skipped():
    run = _Run()
    variables = run.model.trainable_variables

    def ratios():
        found = run.adam.trust_ratios(variables, run.state.num_skipped)
        return {name: float(value) for name, value in found.items()}

    run.train(4, 6)  # both are skipped, before any is taken
    assert ratios() == {"kernel": 0.0, "spare": 0.0}
    run.train(2, 4)
    before = ratios()
    assert before["kernel"] > 0.0
    run.train(4, 5)
    assert ratios() == before


def _train_on_two_devices(path):
    strategies.split_cpu(2)
    strategy = strategies.create_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    found = {
        f"{parts}/{name}": value
        for parts in (1, 2)
        for name, value in _Run(strategy, parts).train(0, _NUM_STEPS).items()
    }
    np.savez(path, **found)


@pytest.mark.slow
def test_two_devices_count_the_steps_that_were_taken(tmp_path):
    path = tmp_path / "variables.npz"
    process = processes.forkserver().Process(target=_train_on_two_devices, args=(path,))
    process.start()
    assert processes.exit_codes([process]) == [0]
    found = dict(np.load(path))
    for parts in "12":
        _assert_equal_the_reference(
            {name: found[f"{parts}/{name}"] for name in ("kernel", "spare", "bias")}
        )
