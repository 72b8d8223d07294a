"""Directories of a run that answer, refuse or hang."""

import json

import pytest

from albert_tf.diagnostics import child, findings, storage

OK, WARNING, FAILED = findings.Status
LIMIT = 60.0


def _model_dir(path) -> tuple[findings.Finding, child.Outcome]:
    outcome = storage.observe_model_dir(str(path), LIMIT)
    return storage.judge("--model_dir", str(path), outcome), outcome


def _data_dir(path) -> findings.Finding:
    outcome = storage.observe_data_dir(str(path), LIMIT)
    return storage.judge("--data_dir", str(path), outcome)


def test_local_model_dir_is_written_and_left_as_it_was(tmp_path):
    found, outcome = _model_dir(tmp_path)
    assert found.status is OK
    assert "written, read and removed" in found.found
    assert storage.seconds_ahead(outcome) == pytest.approx(0.0, abs=1.0)
    found, _ = _model_dir(tmp_path / "new" / "run")
    assert found.status is OK
    assert list(tmp_path.iterdir()) == []


def test_model_dir_that_cannot_be_written_fails_and_says_where():
    found, outcome = _model_dir("/proc/sys")
    assert found.status is FAILED
    assert found.found.startswith("--model_dir=/proc/sys, at the step: write: ")
    assert found.remedy
    assert not found.is_outage
    assert storage.seconds_ahead(outcome) is None


def test_data_dir_is_read_and_not_written(tmp_path):
    inner = tmp_path / "32"
    inner.mkdir()
    (inner / "train-0.tfrecord").write_bytes(b"123")
    (inner / "manifest.json").write_bytes(b"{}")
    found = _data_dir(tmp_path)
    assert found.status is OK
    assert (found.values["read"], found.values["size"]) == (
        str(inner / "manifest.json"),
        2,
    )
    assert sorted(path.name for path in inner.iterdir()) == [
        "manifest.json",
        "train-0.tfrecord",
    ]


def test_data_dir_that_is_absent_or_empty_fails(tmp_path):
    found = _data_dir(tmp_path)
    assert (found.status, found.found) == (
        FAILED,
        f"--data_dir={tmp_path}, at the step: list: {tmp_path} has no files",
    )
    found = _data_dir(tmp_path / "absent")
    assert f"there is no directory {tmp_path / 'absent'}" in found.found
    assert found.remedy == "Check the name"


_STEP = json.dumps({"step": "write", "path": "gs://b/run/doctor-h-1"}) + "\n"


@pytest.mark.parametrize(
    ("code", "error", "remedy", "is_outage"),
    [
        (None, "", "reach storage.googleapis.com", True),
        (75, "error: all 3 retry attempts failed", "storage.googleapis.com", True),
        (75, "error: HTTP response code 401 x", "a service account", True),
        (1, "error: HTTP response code 403 x", "objectAdmin", False),
        (1, "error: HTTP response code 404 x", "Check the name", False),
        (1, "ModuleNotFoundError: No module named 'tensorflow'", "`imports`", False),
        (1, "error: something else", "docs/gcs.md", False),
    ],
)
def test_cloud_storage_that_fails(code, error, remedy, is_outage):
    outcome = child.Outcome(code, _STEP, f"a line\n{error}\n", 60.0)
    found = storage.judge("--model_dir", "gs://b/run", outcome)
    said = error.removeprefix("error: ") or "no end within 60 s"
    assert (found.status, found.found) == (
        FAILED,
        f"--model_dir=gs://b/run, at the step: write: {said}",
    )
    assert remedy in found.remedy
    assert found.is_outage is is_outage


def test_what_is_added_for_an_outage_is_left_out():
    error = "error: HTTP 503. The storage cannot be reached; give the same command"
    found = storage.judge("--data_dir", "gs://b", child.Outcome(75, "", error))
    assert found.found == "--data_dir=gs://b: HTTP 503"


@pytest.mark.parametrize(
    ("code", "error", "remedy"),
    [
        (1, "[Errno 13] Permission denied: '/run/x'", "permission"),
        (1, "[Errno 30] Read-only file system: '/run/x'", "another directory"),
        (1, "[Errno 28] No space left on device", "free space"),
        (None, "", "file server"),
    ],
)
def test_local_directory_that_fails(code, error, remedy):
    outcome = child.Outcome(code, _STEP, f"error: {error}\n", 9.0)
    found = storage.judge("--model_dir", "/run", outcome)
    assert found.status is FAILED
    assert remedy in found.remedy


def test_file_that_may_be_left_is_named():
    step = json.dumps({"step": "remove", "path": "/run/doctor-h-1"}) + "\n"
    found = storage.judge("--model_dir", "/run", child.Outcome(None, step))
    assert found.remedy.endswith("Remove /run/doctor-h-1, if it is there")


@pytest.mark.parametrize(
    ("written", "ahead"), [(95.0, -5.0), (100.5, 0.0), (101.0, 0.0), (401.0, 300.0)]
)
def test_clock_of_the_storage(written, ahead):
    last = {"before": 100.0, "after": 101.0, "written": written, "seconds": 1.0}
    assert storage.seconds_ahead(child.Outcome(0, json.dumps(last))) == ahead


def test_retries_that_the_user_has_set_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(storage, "_MODEL_DIR", "import os; print(dict(os.environ)) #")
    name = "GCS_RETRY_CONFIG_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    assert f"'{name}': '3'" in storage.observe_model_dir("x", LIMIT).output
    monkeypatch.setenv(name, "8")
    assert f"'{name}': '8'" in storage.observe_model_dir("x", LIMIT).output
