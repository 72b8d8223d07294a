"""The plan's order of steps is compared with that of measured steps."""

import dataclasses
import json
import pathlib
import re

import pytest

from albert_tf import bench_plan
from albert_tf.benchmarks import matmul_probe, model_cases, plan_order, rounds, runner
from tests.support import binaries

_ROOT = pathlib.Path(__file__).parent.parent.parent
_RATES = {"float32": 1e9, "bfloat16": 4e9}


class _FakeProcess:
    def __init__(self, implementation, case, seconds):
        self.implementation, self._seconds = implementation, seconds

    def time_calls(self):
        return [self._seconds, self._seconds]

    def close(self):
        self._seconds = None


def _need(name, dtype, flops, memory_bytes):
    case = dataclasses.replace(model_cases.TINY, name=name)
    implementation = model_cases.albert_tf(dtype)
    return plan_order.Need(case, implementation, flops, memory_bytes)


def _measure(needs, seconds):
    def start(implementation, case):
        return _FakeProcess(implementation, case, seconds[case.name])

    return plan_order.measure(needs, 2, 2, _RATES.__getitem__, 1e8, start)


def test_the_longer_side_is_the_plans_time_and_places_are_compared():
    needs = [
        _need("a", "float32", 2e9, 1e8),
        _need("b", "bfloat16", 4e9, 3e8),
        _need("c", "float32", 4e9, 1e8),
    ]
    found = _measure(needs, {"a": 4.0, "b": 3.0, "c": 5.0})
    assert found.matmul_rates == _RATES
    planned = [(one.name, one.planned_seconds, one.limit) for one in found.steps]
    assert planned == [
        ("b", 3.0, "memory"),
        ("a", 2.0, "compute"),
        ("c", 4.0, "compute"),
    ]
    lines = plan_order.show(found).splitlines()
    assert lines[2:5] == [
        "| 1 | 2 | b | bfloat16 | 3,000 ms | 3,000 ms | 100% | memory |",
        "| 2 | 1 | a | float32 | 4,000 ms | 2,000 ms | 50% | compute |",
        "| 3 | 3 | c | float32 | 5,000 ms | 4,000 ms | 80% | compute |",
    ]
    assert lines[6:] == [
        "2 of 3 pairs are in the plan's order.",
        # Without an empty line a site would show the list as a part of the sentence.
        "",
        "- not b (bfloat16) and a (float32): measured 1.33 to 1, planned 0.67 to 1",
    ]


def test_a_step_that_fails_is_named():
    class Ended(_FakeProcess):
        def time_calls(self):
            raise rounds.Failure("it ended with code -9")

    def start(implementation, case):
        return Ended(implementation, case, 1.0)

    need = _need("a", "float32", 1.0, 1.0)
    with pytest.raises(rounds.Failure, match="a, float32 is not measured: it ended"):
        plan_order.measure([need], 1, 2, _RATES.__getitem__, 1e8, start)


def test_what_the_plan_says_of_a_step_is_asked_for(monkeypatch, tmp_path, capsys):
    needed = {}

    def start(implementation, case):
        needed[case.name] = case
        return _FakeProcess(implementation, case, case.flops / 1e9)

    class Probe:
        def rate(self, dtype):
            return _RATES[dtype]

    monkeypatch.setattr(runner, "start_process", start)
    monkeypatch.setattr(matmul_probe, "MatrixProbe", Probe)
    monkeypatch.setattr(plan_order, "memory_rate", lambda: 1e12)
    path = tmp_path / "order.json"
    binaries.run(
        bench_plan, "--rounds=1", "--steps=albert_*,bert_base 2 *", f"--json={path}"
    )
    assert len(needed) == 5  # one of them in two precisions
    assert needed["albert_base 1 x 512"].length == 512
    found = plan_order.read(str(path))
    for step in found.steps:
        # All operations of a step are those of its matrix products.
        products = needed[step.name].flops / _RATES[step.dtype]
        assert step.planned_seconds == pytest.approx(products, rel=0.01)
    assert plan_order.show(found) in capsys.readouterr().out


def test_the_docs_have_the_table_of_the_file():
    path = _ROOT / "docs" / "planning" / "cpu_order.json"
    text = (_ROOT / "docs" / "planning.md").read_text()
    (table,) = re.findall(
        r"<!-- begin of the order -->\n\n(.*?)\n\n<!-- end", text, re.S
    )
    measured = plan_order.read(str(path))
    assert table == plan_order.show(measured)
    planned = {
        (f"{rows} x {length}", recipe) for recipe, length, rows, _ in bench_plan.STEPS
    }
    assert len(measured.steps) == len(bench_plan.STEPS)
    for step in measured.steps:
        recipe, _, shape = step.name.partition(" ")
        assert (shape, recipe) in planned
    assert json.loads(path.read_text())["num_cores"] > 0
