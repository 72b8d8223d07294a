"""Rows of metrics are written whatever becomes of the storage."""

import json
import pathlib
import types

import pytest
import tensorflow as tf

from albert_tf.training import metrics_log, pauses

STEPS = range(2, 14, 2)


def _log(folder: pathlib.Path, **break_at) -> list[dict]:
    """Records a row at each step; calls the functions in `break_at` before them."""
    folder.mkdir()
    with metrics_log.MetricsLog(str(folder), 0, 20) as log:
        for step in STEPS:
            if (change := break_at.get(f"at_{step}")) is not None:
                change()
            log.record("train", step, {"loss": 1.0 / step})
        log.close()
    return [
        {name: row[name] for name in ("split", "step", "begun_at", "loss")}
        for row in metrics_log.read_metrics(str(folder))
    ]


ROWS = [
    {"split": "train", "step": step, "begun_at": 0, "loss": 1.0 / step}
    for step in STEPS
]


def _shown(folder: pathlib.Path) -> set[tuple[int, float]]:
    """Steps and values of the loss in all files of TensorBoard."""
    paths = sorted(str(path) for path in (folder / "summaries/train").glob("events*"))
    found = [
        tf.compat.v1.Event.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(paths)
    ]
    return {
        (event.step, round(float(tf.make_ndarray(value.tensor)), 6))
        for event in found
        for value in event.summary.value
    }


SHOWN = {(step, round(1.0 / step, 6)) for step in STEPS}


@pytest.mark.parametrize("first", [2, 6])
@pytest.mark.parametrize("last", [8, None])
def test_rows_are_the_same_after_a_time_without_the_file(
    tmp_path, monkeypatch, capsys, first, last
):
    monkeypatch.setattr(pauses, "_FIRST_SECONDS", 0.0)
    run, kept = tmp_path / "run", tmp_path / "kept"

    def obstruct():
        if first > 2:
            (run / "metrics.jsonl").rename(kept)
        (run / "metrics.jsonl").mkdir()

    def clear():
        (run / "metrics.jsonl").rmdir()
        if first > 2:
            kept.rename(run / "metrics.jsonl")

    if last is None:
        # The last row is not written either, until the log is closed.
        monkeypatch.setattr(metrics_log.MetricsLog, "close", _clearing(clear))
        clear_at = {}
    else:
        clear_at = {f"at_{last}": clear}
    assert _log(run, **{f"at_{first}": obstruct}, **clear_at) == ROWS
    said = capsys.readouterr().err
    assert said.count("metrics.jsonl cannot be written: ") == 1
    assert said.count("metrics.jsonl: all rows are written again") == 1
    assert _shown(run) == SHOWN


def _clearing(clear):
    """`MetricsLog.close` before which the file can be written again."""
    close = metrics_log.MetricsLog.close

    def clear_and_close(log):
        clear()
        close(log)

    return clear_and_close


def test_summaries_that_could_not_be_written_are_written_later(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(pauses, "_FIRST_SECONDS", 0.0)
    run = tmp_path / "run"
    rows = _log(
        run,
        at_2=lambda: (run / "summaries").write_text("not a directory"),
        at_8=(run / "summaries").unlink,
    )
    assert rows == ROWS and _shown(run) == SHOWN
    assert capsys.readouterr().err.count("TensorBoard cannot be written: ") == 1


def test_a_writer_of_summaries_that_fails_is_replaced_and_loses_nothing(
    tmp_path, monkeypatch
):
    write, calls = tf.summary.scalar, []

    def fail_at_the_third(name, value):
        calls.append(name)
        if len(calls) == 3:
            raise tf.errors.UnavailableError(None, None, "no answer")
        return write(name, value)

    monkeypatch.setattr(tf.summary, "scalar", fail_at_the_third)
    assert _log(tmp_path / "run") == ROWS
    assert _shown(tmp_path / "run") == SHOWN


def test_attempts_are_not_made_again_at_once_while_the_storage_is_away(
    tmp_path, monkeypatch, capsys
):
    attempts = []

    def fail(path, data):
        attempts.append(path)
        raise OSError("no answer")

    monkeypatch.setattr(metrics_log.files, "write_bytes", fail)
    assert _log(tmp_path / "run") == []
    # With the first row, at once again with the second, and at the end.
    assert len(attempts) == 3
    said = capsys.readouterr().err
    assert said.count("metrics.jsonl cannot be written: no answer") == 1
    assert said.count("metrics.jsonl: the last rows are lost") == 1


def test_pauses_double_from_ten_seconds_to_ten_minutes(monkeypatch):
    now = [100.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(pauses, "time", clock)
    found, waits = pauses.Pauses(), []
    assert found.is_due and found.seconds == 0.0
    for _ in range(10):
        found.failed()
        began = now[0]
        while not found.is_due:
            now[0] += 5.0
        waits.append(now[0] - began)
    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert found.seconds == sum(waits) and found.num_failures == 10
    found.succeeded()
    assert found.is_due and (found.seconds, found.num_failures) == (0.0, 0)


def test_the_fastest_steps_are_those_without_compilation_or_interruption(tmp_path):
    # (step, seconds): compiled, fast, interrupted, evaluated, of a shorter loop.
    times = [(50, 20.0), (100, 30.0), (150, 90.0), (200, 102.0), (210, 104.5)]
    rows = [{"split": "train", "step": s, "seconds": t} for s, t in times]
    rows.insert(2, {"split": "heldout", "step": 100, "seconds": 30.1})
    text = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / metrics_log.METRICS_FILE).write_text(text + "\n")
    assert metrics_log.fastest_step_seconds(str(tmp_path)) == pytest.approx(0.2)
