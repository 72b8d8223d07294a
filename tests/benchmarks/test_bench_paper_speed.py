"""Steps are timed beside BERT large's, and gradients summed over a slow link."""

import json
import statistics

import pytest

from albert_tf import bench_paper_speed
from albert_tf.benchmarks import limited_link, paper_speed, rounds
from albert_tf.core import config, text_table
from albert_tf.model import costs
from tests.support import binaries


class FakeProcess:
    """Takes as long as it is told, and knows which are open."""

    opened: list["FakeProcess"] = []
    most_open = 0

    def __init__(self, seconds):
        self._seconds = iter(seconds)
        FakeProcess.opened.append(self)
        FakeProcess.most_open = max(FakeProcess.most_open, len(FakeProcess.opened))

    def time_calls(self):
        return [next(self._seconds)]

    def close(self):
        FakeProcess.opened.remove(self)


TIMES = {
    # Two rounds beside each of the others.
    "bert_large": [8.0, 12.0, 10.0, 10.0],
    "albert_base": [2.0, 2.0],
    "albert_large": [5.0, 4.0],
}


def start(implementation, case):
    assert implementation.name == "albert_tf-float32"
    assert (case.batch_size, case.length, case.num_predictions) == (1, 512, 76)
    return FakeProcess(TIMES[case.name.split("-")[1]])


def test_ratios_are_of_the_same_rounds_and_two_models_are_in_memory():
    cases = {name: paper_speed.case(name, config.Config()) for name in TIMES}
    found = paper_speed.measure_steps(cases, "float32", 2, start)
    # 8 / 2 and 12 / 2; 10 / 5 and 10 / 4.
    assert found["albert_base"] == (2.0, 5.0)
    assert found["albert_large"] == (4.5, 2.25)
    assert found["bert_large"] == (10.0, 1.0)
    assert FakeProcess.most_open == 2 and not FakeProcess.opened


def test_the_sum_of_the_gradients_counts_beside_the_step():
    configs = {
        name: config.Config(model=config.ModelConfig(num_layers=layers))
        for name, layers in (("bert_large", 24), ("albert_large", 3))
    }
    steps = {"bert_large": (10.0, 1.0), "albert_large": (4.0, 2.5)}
    sums = {1000: {"bert_large": 10.0, "albert_large": 0.5}}
    bert, albert = paper_speed.combine(configs, steps, sums)
    assert bert.speed_with_sum == {1000: 1.0}
    assert albert.speed_with_sum[1000] == pytest.approx(20.0 / 4.5)
    total = costs.count_parameters(configs["albert_large"].model).total
    assert albert.gradient_bytes == 4 * albert.num_parameters == 4 * total
    lines = text_table.align(paper_speed.table([bert, albert]))
    assert lines[2].split()[-4:] == ["2.50", "0.50", "4.44", "1.7"]


def test_figures_are_printed_and_written(monkeypatch, tmp_path, capsys):
    asked = []

    def measure(num_values, megabits):
        asked.append((num_values, megabits))
        return [[2.0, 1.0] for _ in num_values]

    monkeypatch.setattr(limited_link, "measure", measure)
    steps = {"bert_large": (10.0, 1.0), "albert_large": (4.0, 2.5)}

    def measure_steps(cases, dtype, num_rounds):
        assert (dtype, num_rounds) == ("bfloat16", 2)
        sizes = {(one.batch_size, one.length) for one in cases.values()}
        assert sizes == {(3, 512)}
        return steps

    monkeypatch.setattr(paper_speed, "measure_steps", measure_steps)
    path = tmp_path / "figures.json"
    flags = ("--models=albert_large", "--megabits=100", f"--json={path}")
    flags += ("--batch_size=3", "--dtype=bfloat16", "--rounds=2")
    binaries.run(bench_paper_speed, *flags)
    bert, albert = json.loads(path.read_text())
    assert asked == [([bert["num_parameters"], albert["num_parameters"]], 100)]
    # The paper's 334M and 18M are encoders; this is with the heads.
    assert bert["num_parameters"] == 335_691_058
    assert albert["speed_with_sum"] == {"100": 11.5 / 5.5}
    assert "albert_large" in capsys.readouterr().out


@pytest.mark.slow
def test_a_link_that_is_ten_times_slower_takes_longer():
    num_values = [1000, 2_000_000]
    try:
        fast, slow = (limited_link.measure(num_values, rate, 2) for rate in (500, 50))
    except rounds.Failure as failure:
        pytest.skip(f"no network namespace: {failure}")
    # 8 MB at 50 Mbit/s are 1.28 s.
    assert statistics.mean(slow[1]) > 1.2 > 3 * statistics.mean(fast[1])
    assert min(slow[0]) < 0.3
