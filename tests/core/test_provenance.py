"""The record of dates and versions of a run."""

import datetime
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.core import provenance


def test_starts_are_recorded_in_their_order(tmp_path):
    folder = str(tmp_path / "run")
    assert provenance.read_starts(folder) == ()
    before = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    for step in (0, 35):
        provenance.record_start(folder, step)
    starts = provenance.read_starts(folder)
    assert [start.step for start in starts] == [0, 35]
    assert starts[1].versions["albert_tf"] == albert_tf.__version__
    assert starts[1].versions["NumPy"] == np.__version__
    assert starts[1].versions_line.startswith(f"albert_tf {albert_tf.__version__}, Py")
    date = datetime.datetime.strptime(starts[0].date, "%Y-%m-%d %H:%M UTC")
    assert before <= date.replace(tzinfo=datetime.UTC)


def test_a_damaged_record_is_named(tmp_path):
    path = tmp_path / provenance.FILE
    path.write_text(json.dumps([{"date": 5, "versions": {}}]))
    with pytest.raises(ValueError, match=str(path)):
        provenance.read_starts(str(tmp_path))


def test_a_name_is_the_last_part_of_a_path(tmp_path, monkeypatch):
    assert provenance.name_of("runs/mrpc/") == "mrpc"
    assert provenance.name_of("gs://bucket/runs/mrpc/") == "mrpc"
    monkeypatch.chdir(tmp_path)
    assert provenance.name_of(".") == tmp_path.name
