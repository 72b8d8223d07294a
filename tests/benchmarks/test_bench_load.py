"""A load of texts of mixed lengths, with both ways of batching, and its figures."""

import json
import random
import time

from albert_tf import bench_load
from albert_tf.benchmarks import serving_load
from albert_tf.web import model, sizes
from albert_tf.web import settings as settings_lib
from tests.support import binaries


def padded(items):
    """Takes as long as the batch has tokens with padding."""
    longest = max(len(text) for (text,) in items)
    time.sleep(2e-6 * longest * len(items))
    return [len(text) for (text,) in items]


def test_like_lengths_pay_off_where_padding_costs():
    load = serving_load.Load(16, {10: 0.9, 400: 0.1}, 0.5, 2)
    size_of = sizes.size_of("encode", sizes.Lengths())
    settings = settings_lib.ServerSettings()
    in_order, alike = serving_load.measure(padded, size_of, load, settings)
    assert (in_order.name, alike.name) == ("order of arrival", "like lengths")
    assert alike.texts_per_second > in_order.texts_per_second
    for outcome in (in_order, alike):
        count = sum(map(len, outcome.latencies.values()))
        assert outcome.texts_per_second == count / 1.0
        assert set(outcome.latencies) == {10, 400}
        assert all(0 < one < 0.5 for one in outcome.latencies[10])


def test_texts_have_about_as_many_tokens_as_asked_for():
    text = serving_load.make_text(50, random.Random(1))
    size = sizes.size_of("encode", sizes.Lengths())((text,))
    assert 50 <= size.length <= 55


def test_figures_are_printed_and_written(monkeypatch, tmp_path, capsys):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    monkeypatch.setattr(model, "load", lambda path: {"tag": padded})
    binaries.run(
        bench_load,
        *(f"--saved_model={tmp_path}", "--seconds=0.2", "--rounds=1", "--clients=2"),
        *("--lengths=8:1,16:1", f"--json={tmp_path}/figures.json"),
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-2:]] == [
        "order of arrival",
        "like lengths",
    ]
    figures = json.loads((tmp_path / "figures.json").read_text())
    for one in figures:
        assert set(one["latencies"]) == {"8", "16"}
        total = sum(of["count"] for of in one["latencies"].values())
        assert one["texts_per_second"] == total / 0.2
        assert all(0 < of["p50"] <= of["p99"] for of in one["latencies"].values())


def test_a_model_without_texts_is_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    monkeypatch.setattr(model, "load", lambda path: {"choose": padded})
    error = binaries.error_of(capsys, bench_load, f"--saved_model={tmp_path}")
    assert error.endswith("one of the signatures encode, classify, tag; it has choose")
