"""What a skipped step leaves as it was, and how the steps after it count."""

import numpy as np
import pytest

from albert_tf.core import config
from albert_tf.devices import strategies
from tests.support import linear_run
from tests.support import training_processes as processes

_NUM_STEPS = 9
_BAD = [1, 4, 5]  # one before the third taken step, two later
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


def _run(**options):
    return linear_run.Run(_SETTINGS, _NUM_STEPS, max_skipped=len(_BAD), **options)


def _train(run, first, end):
    x = _X.copy()
    x[_BAD] = np.nan
    return run.train({"x": x[first:end], "y": _Y[first:end]})


def _reference():
    """The weights after all steps in float64; skipped ones do not count as taken."""
    weights = {"kernel": linear_run.KERNEL, "bias": linear_run.BIAS}
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
    np.testing.assert_array_equal(found["spare"], linear_run.SPARE)


@pytest.fixture(scope="module")
def whole():
    """A run that was not interrupted, and its variables."""
    run = _run()
    return run, _train(run, 0, _NUM_STEPS)


def test_bias_correction_counts_the_steps_that_were_taken(whole):
    run, found = whole
    assert int(run.state.num_skipped) == 3 and int(run.adam.iterations) == _NUM_STEPS
    _assert_equal_the_reference(found)


def test_bias_correction_counts_the_steps_that_were_taken_in_parts():
    _assert_equal_the_reference(_train(_run(accumulation_steps=2), 0, _NUM_STEPS))


def test_a_run_that_resumes_after_skipped_steps_equals_one_not_interrupted(
    whole, tmp_path
):
    first, resumed = _run(), _run()
    _train(first, 0, 5)  # of which two were skipped; so is the next
    path = first.checkpoint.write(str(tmp_path / "checkpoint"))
    resumed.checkpoint.read(path).assert_consumed()
    found = _train(resumed, 5, _NUM_STEPS)
    for name, value in whole[1].items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_run_that_has_failed_changes_nothing_more():
    """The loop takes all of its steps: the host learns of the third at the end."""
    x = _X.copy()
    x[2] = np.nan
    run = linear_run.Run(_SETTINGS, _NUM_STEPS)
    outcome = run.run_loop({"x": x, "y": _Y})
    assert bool(outcome["failed"]) and int(outcome["num_steps"]) == 3
    assert int(run.state.num_skipped) == 1
    good = linear_run.Run(_SETTINGS, _NUM_STEPS)
    good.train({"x": x[:2], "y": _Y[:2]})
    assert float(run.state.mean_loss) == float(good.state.mean_loss)
    np.testing.assert_array_equal(run.state.sums, good.state.sums)
    expected = [*good.model.variables, *good.adam.variables]
    found = [*run.model.variables, *run.adam.variables]
    for one, other in zip(found, expected, strict=True):
        if "iteration" not in one.name:
            np.testing.assert_array_equal(one, other, err_msg=one.name)


def test_trust_ratios_do_not_change_while_steps_are_skipped():
    run = _run()
    variables = run.model.trainable_variables

    def ratios():
        found = run.adam.trust_ratios(variables, run.state.num_skipped)
        return {name: float(value) for name, value in found.items()}

    _train(run, 4, 6)  # both are skipped, before any is taken
    assert ratios() == {"kernel": 0.0, "spare": 0.0}
    _train(run, 2, 4)
    before = ratios()
    assert before["kernel"] > 0.0
    _train(run, 4, 5)
    assert ratios() == before


def _train_on_two_devices(path):
    strategies.split_cpu(2)
    strategy = strategies.create_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    found = {}
    for parts in (1, 2):
        run = _run(strategy=strategy, accumulation_steps=parts)
        for name, value in _train(run, 0, _NUM_STEPS).items():
            found[f"{parts}/{name}"] = value
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
