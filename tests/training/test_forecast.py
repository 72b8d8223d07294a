"""How long a run is said to take."""

import types

import pytest

from albert_tf.core import stages
from albert_tf.training import forecast, throughput
from tests.support import small_run


class _Run:
    """A clock, a heartbeat and a log."""

    def __init__(self, monkeypatch):
        self.now, self.lines, self.beat = 0.0, [], -1
        monkeypatch.setattr(forecast.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(forecast, "_INTERVAL", 0.001)
        self.shown, self.steps = [], set()

    def forecast(self, config, flops=(0.0,), peak=0.0):
        log = types.SimpleNamespace(
            say=self.lines.append, show=self._show, show_step=self.steps.add
        )
        heartbeat = types.SimpleNamespace(numpy=lambda: self.beat)
        split = stages.split(config)
        meter = throughput.Meter(flops, peak)
        return split, forecast.Forecast(split, meter, heartbeat, log)

    def _show(self, text):
        self.shown.append(text)

    def advance(self, to, heartbeat):
        """Waits until the watching thread has seen it."""
        self.now, self.beat = to, heartbeat
        for _ in range(2000):
            if self.shown and not self.shown[-1]:
                return
            forecast.threading.Event().wait(0.001)


def test_the_rest_follows_from_the_steps_after_compilation(monkeypatch):
    run = _Run(monkeypatch)
    config = small_run.small_config("train.num_steps=1001")
    (stage,), found = run.forecast(config)
    with found.steps(stage, 0):
        run.advance(40.0, 2)  # the second step begins after 40 s of compilation
        run.now, run.beat = 60.0, 2 * 10 + 1  # 11 steps in all
    assert run.lines[0].startswith("tracing and compiling the train step")
    expected = "compiled in 40 s; 2 s a step: about 33 min, until"
    assert run.lines[1].startswith(expected), run.lines
    assert run.lines[1].endswith("to step 1,001, without evaluations and saves")
    with found.steps(stage, 11):
        pass
    assert len(run.lines) == 2


def test_the_bar_shows_the_steps_before_the_first_row(monkeypatch):
    run = _Run(monkeypatch)
    (stage,), found = run.forecast(small_run.small_config("train.num_steps=100"))
    with found.steps(stage, 40):
        run.advance(1.0, 2)
        run.beat = 2 * 7 + 1  # the eighth step of the loop
        for _ in range(2000):
            if 47 in run.steps:
                break
            forecast.threading.Event().wait(0.001)
    assert run.steps == {41, 47}


def test_a_loop_of_one_step_leaves_it_to_the_next(monkeypatch):
    run = _Run(monkeypatch)
    (stage,), found = run.forecast(small_run.small_config("train.num_steps=100"))
    with found.steps(stage, 0):
        run.now, run.beat = 40.0, 1
    assert len(run.lines) == 1
    with found.steps(stage, 1):
        run.now, run.beat = 42.0, 2 * 3 + 1  # four steps
    assert run.lines[1].startswith("0.5 s a step: less than a minute to step 100")


def test_other_stages_cost_as_their_flops(monkeypatch):
    run = _Run(monkeypatch)
    parts = "[{'num_steps': 10}, {'num_steps': 100, 'batch_size': 24}]"
    config = small_run.small_config("train.num_steps=110", f"train.stages={parts}")
    (stage, _), found = run.forecast(config, flops=(1e9, 3e9), peak=2e9)
    found.say_least(0)
    assert run.lines == [
        "at the peak of the devices, 0.002 TFLOP/s, the run takes at least 3 min"
    ]
    with found.steps(stage, 0):
        run.advance(5.0, 2)
        run.now, run.beat = 7.0, 2 * 2 + 1
    # 7 steps of 1 s and 100 of 3 s.
    assert "1 s a step: about 5 min" in run.lines[-1]


def test_only_the_first_evaluation_is_compiled(monkeypatch):
    run = _Run(monkeypatch)
    _, found = run.forecast(small_run.small_config())
    for _ in range(2):
        with found.evaluation():
            pass
    assert len(run.lines) == 1 and "compiling the evaluation" in run.lines[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (119, "119 s"),
        (150, "2 min"),
        (3 * 3600 + 720, "3 h 12 min"),
        (50 * 3600, "2 d 2 h"),
        (48 * 3600, "2 d"),
    ],
)
def test_durations(seconds, text):
    assert forecast.duration(seconds) == text
