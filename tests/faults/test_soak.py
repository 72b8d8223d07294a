"""What is computed of a process that runs for long, and the load on a server."""

import itertools
import os
import random
import subprocess
import sys
import time

import pytest

from albert_tf.web import protocol
from tests.faults import server_soak, soak, soak_table
from tests.support import web_server

# ---- Samples of a process ----


def test_a_slope_is_that_of_the_line_of_least_squares():
    # Through (0, 1), (1800, 2), (3600, 6): mean 3, sum of products 3600 * 2.5.
    assert soak.slope([0, 1800, 3600], [1, 2, 6]) == pytest.approx(5.0)
    assert soak.slope([10, 20, 30], [7, 7, 7]) == 0


def test_the_start_is_left_out_except_of_the_peak(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "1000 7 9000 30 5 100 1\n"
        "1300 7 4000 20 5 200 2\n"
        "1600 7 4010 20 5 200 2\n"
        "1900 7 4020 20 5 260 2\n"
    )
    found = soak.summary(soak.read(log))
    assert (found["seconds"], found["num_samples"]) == (900, 3)
    assert found["memory_kb"] == {
        "first": 4000,
        "last": 4020,
        "peak": 9000,
        "slope_per_hour": 120.0,
    }
    assert found["num_files"]["slope_per_hour"] == 0
    assert found["disk_kb"]["slope_per_hour"] == 360.0
    later = "2200 7 8000 20 5 260 2\n"
    log.write_text(log.read_text() + later)
    assert soak.summary(soak.read(log), end_seconds=1000) == found
    rows = soak_table.of_process(found)
    assert rows[0].startswith("| 15 minutes | after 300 s |")
    assert "| open files | 20 | 20 | 30 | +0.0 |" in rows
    with pytest.raises(ValueError, match="three samples or more after 901 s; .* 1"):
        soak.summary(soak.read(log), 901)


def test_a_log_of_two_processes_or_of_something_else_is_refused(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 7 9 3 5 1 1\n2 8 9 3 5 1 1\n")
    with pytest.raises(ValueError, match="must be of one process"):
        soak.read(log)
    log.write_text("1 7 9\n")
    with pytest.raises(ValueError, match="line 1: 3 fields"):
        soak.read(log)


def test_a_process_is_sampled_with_its_files_until_it_ends(tmp_path):
    (tmp_path / "model.ckpt-3.index").write_bytes(bytes(8192))
    found = soak.sample(os.getpid(), tmp_path)
    assert found.memory_kb > 10_000 and found.num_threads >= 1
    assert found.disk_kb >= 8 and found.num_checkpoints == 1
    with (tmp_path / "open").open("w"):
        assert soak.sample(os.getpid()).num_files == found.num_files + 1
    ended = subprocess.Popen([sys.executable, "-c", ""])
    time.sleep(0.1)
    ended.wait()
    assert soak.sample(ended.pid) is None


# ---- The load ----


def _lengths(items):
    return [
        {"text": text, "num_tokens": 3, "pooled_output": [1.0]} for (text,) in items
    ]


@pytest.fixture(scope="module")
def server():
    limits = protocol.ConnectionLimits(header_seconds=0.3, body_seconds=0.3)
    with web_server.running(
        lambda: {"encode": _lengths}, requests_per_second=50, connections=limits
    ) as running:
        yield running


# The server counts the requests of an address within a second.
_ADDRESSES = (f"127.0.{2 + n // 250}.{n % 250 + 1}" for n in itertools.count())


def _counts(server, monkeypatch, client, num_kinds: int) -> dict:
    """What a client counts; each call is from another address."""
    monkeypatch.setattr(server_soak.time, "sleep", lambda _: None)
    load, rng = server_soak.Load(server.port, 60), random.Random(1)
    for address in itertools.islice(_ADDRESSES, 150):
        client(load, address, rng)
        found = load.values(1.0)
        assert found["unexpected"] == []
        if len(found["statuses"]) == num_kinds:
            return found
    raise AssertionError(found)


def test_each_mistake_has_the_status_that_is_stated(server, monkeypatch):
    num_kinds = len(server_soak._bad_requests())
    _counts(server, monkeypatch, server_soak._mistaken, num_kinds)


def test_connections_that_stop_have_the_statuses_that_are_stated(server, monkeypatch):
    found = _counts(server, monkeypatch, server_soak._odd_connection, 4)
    assert set(found["statuses"]["no HTTP"]) == {"400"}


def test_bursts_are_refused_and_many_texts_answered(server, monkeypatch):
    found = _counts(server, monkeypatch, server_soak._greedy, 1)
    counts = found["statuses"]["bursts of 80"]
    assert sum(counts.values()) == 80 and counts["200"] >= 50
    found = _counts(server, monkeypatch, server_soak._many_texts, 1)
    assert found["statuses"] == {"32 texts": {"200": 1}}
    latency = found["latency_ms"]["32 texts"]
    assert latency["p50"] == latency["p99"] == latency["max"] > 0


def test_what_is_not_stated_is_kept(server):
    load = server_soak.Load(server.port, 60)
    load.count("a", 200, (200,), b"{}")
    load.count("a", 500, (200,), b'{"error": "a fault"}')
    load.count("b", 400, (400,), b"Invalid HTTP request received.")
    found = load.values(2.0)
    assert found["statuses"] == {"a": {"200": 1, "500": 1}, "b": {"400": 1}}
    assert found["requests_per_second"] == 1.5
    assert found["num_unexpected"] == 2
    assert found["unexpected"][0] == "a: status 500"
    assert "an error of other form" in found["unexpected"][1]
    values = {
        **found,
        "num_tracebacks": 0,
        "latency_ms": {"a": {"p50": 1.0, "p99": 2.4, "max": 1234.0}},
        "process": {"seconds": 60, "settled_seconds": 10},
    }
    rows = soak_table.of_server(values)
    assert "| a | 1 × 200, 1 × 500 | 1 | 2 | 1,234 |" in rows
