"""The moving average of the weights: its recursion, and the steps that it counts."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.devices import strategies
from tests.support import linear_run
from tests.support import training_processes as processes

_NUM_STEPS = 10
_BAD = [0, 3, 4]
_DECAY = 0.4  # reached at the sixth step that is taken: 6 / 15
_SETTINGS = config.OptimizerConfig(
    name="lamb",
    learning_rate=0.1,
    warmup_steps=0,
    decay="constant",
    bias_correction=True,
    # As the first device has it: the second one calls it bias/replica_1:0.
    exclude_patterns=("bias:0$",),
)
_RNG = np.random.default_rng(8)
_FEATURES = {
    "x": _RNG.normal(size=(_NUM_STEPS, 8, 3)),
    "y": _RNG.normal(size=(_NUM_STEPS, 8)),
}


def _run(**options):
    options = {"ema_decay": _DECAY, "max_skipped": len(_BAD), **options}
    return linear_run.Run(_SETTINGS, _NUM_STEPS, **options)


def _one_by_one(run, bad=()):
    """The weights before the first and after each step."""
    weights = [run.weights()]
    for step in range(_NUM_STEPS):
        features = {name: values[step : step + 1] for name, values in _FEATURES.items()}
        if step in bad:
            features = {**features, "y": features["y"] * np.nan}
        weights.append(run.train(features))
    return weights


def _recursion(weights, bad=()):
    """The averages in float64."""
    averages = {name: value.astype(np.float64) for name, value in weights[0].items()}
    num_taken = 0
    for step, after in enumerate(weights[1:]):
        if step in bad:
            continue
        decay = min(_DECAY, (1 + num_taken) / (10 + num_taken))
        num_taken += 1
        for name, value in after.items():
            averages[name] = decay * averages[name] + (1 - decay) * value
    return averages


def _assert_near(found, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, err_msg=name)


def test_after_the_first_step_a_tenth_of_the_initial_weights_is_left():
    run = _run()
    first = {name: values[:1] for name, values in _FEATURES.items()}
    found = run.train(first)["kernel"]
    assert np.abs(found - linear_run.KERNEL).min() > 1e-3
    expected = 0.1 * linear_run.KERNEL + 0.9 * found
    np.testing.assert_allclose(run.averages()["kernel"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "options"),
    [((), {}), (_BAD, {}), ((), {"accumulation_steps": 2}), ((), {"compiled": True})],
)
def test_ten_steps_equal_the_recursion_in_numpy(bad, options):
    run = _run(**options)
    weights = _one_by_one(run, bad)
    averages = run.averages()
    _assert_near(averages, _recursion(weights, bad))
    # No loss reaches it.
    np.testing.assert_array_equal(averages["spare"], linear_run.SPARE)
    assert np.abs(averages["kernel"] - weights[-1]["kernel"]).max() > 1e-3


def test_weights_are_trained_as_without_an_average():
    with_average, without = _run(), _run(ema_decay=0.0)
    expected = without.train(_FEATURES)
    for name, value in with_average.train(_FEATURES).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_a_skipped_step_leaves_the_average_bitwise():
    run = _run()
    first = {name: values[:2] for name, values in _FEATURES.items()}
    run.train(first)
    before = run.averages()
    run.train({**first, "y": first["y"] * np.nan})
    for name, value in run.averages().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_run_that_resumes_has_the_average_of_one_not_interrupted(tmp_path):
    whole, first, resumed = _run(), _run(), _run()
    whole.train(_FEATURES)
    first.train({name: values[:6] for name, values in _FEATURES.items()})
    path = first.checkpoint.write(str(tmp_path / "checkpoint"))
    resumed.checkpoint.read(path).assert_consumed()
    resumed.train({name: values[6:] for name, values in _FEATURES.items()})
    found = resumed.averages()
    for name, value in whole.averages().items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_model_has_the_average_for_a_while_even_if_an_error_ends_it():
    run = _run()
    weights = run.train(_FEATURES)
    averages = run.averages()
    with pytest.raises(RuntimeError), run.average.in_model():
        _assert_near(run.weights(), averages)
        raise RuntimeError
    for name, value in run.weights().items():
        np.testing.assert_array_equal(value, weights[name], err_msg=name)


def test_the_tree_has_the_names_of_the_model(tmp_path):
    run = _run()
    run.train(_FEATURES)
    averages = run.averages()
    path = run.checkpoint.write(str(tmp_path / "checkpoint"))
    other = linear_run.Linear()
    status = tf.train.Checkpoint(average=other).read(path)
    status.assert_existing_objects_matched().expect_partial()
    for variable in other.trainable_variables:
        name = variable.name.removesuffix(":0")
        np.testing.assert_array_equal(variable, averages[name], err_msg=name)


def _train_on_two_devices(path):
    strategies.split_cpu(2)
    run = _run(strategy=strategies.create_strategy("mirrored"))
    weights = _one_by_one(run, _BAD)
    assert run.strategy.num_replicas_in_sync == 2
    replicas = [
        [value.numpy() for value in run.strategy.experimental_local_results(average)]
        for average in run.average._averages
    ]
    assert all(np.array_equal(one, two) for one, two in replicas)
    np.savez(
        path,
        **{f"averages/{name}": value for name, value in run.averages().items()},
        **{f"{n}/{name}": v for n, w in enumerate(weights) for name, v in w.items()},
    )


@pytest.mark.slow
def test_two_devices_keep_the_same_average(tmp_path):
    path = tmp_path / "variables.npz"
    process = processes.forkserver().Process(target=_train_on_two_devices, args=(path,))
    process.start()
    assert processes.exit_codes([process]) == [0]
    found = dict(np.load(path))
    names = ("kernel", "spare", "bias")
    weights = [
        {name: found[f"{number}/{name}"] for name in names}
        for number in range(_NUM_STEPS + 1)
    ]
    averages = {name: found[f"averages/{name}"] for name in names}
    _assert_near(averages, _recursion(weights, _BAD))
