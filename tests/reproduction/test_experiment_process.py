"""The process of an experiment: which cores it has, and what it writes."""

import os
import signal

import pytest

from albert_tf.core import files, locks, strict_json
from albert_tf.reproduction import experiment_process, measuring


@pytest.mark.parametrize("cores", [[], [1, 3]])
def test_it_has_the_cores_of_the_request_before_it_measures(
    cores, tmp_path, monkeypatch
):
    seen = []
    # It would end this process too.
    monkeypatch.setattr(experiment_process, "_end_with", lambda _: None)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda *of: seen.append(of), raising=False
    )

    def measure(request):
        seen.append(request["run_dir"])
        return {"mlm_loss": 1.5}

    monkeypatch.setattr(measuring, "measure", measure)
    run_dir = str(tmp_path / "run")
    path = str(tmp_path / "request.json")
    files.write_json(path, {"run_dir": run_dir, "cores": cores})
    experiment_process.main(["experiment_process", path, str(os.getppid())])
    assert seen == [*([(0, cores)] if cores else []), run_dir]
    assert strict_json.load_object(f"{run_dir}.json") == {"mlm_loss": 1.5}


def _request(folder):
    path = str(folder / "request.json")
    files.write_json(path, {"run_dir": str(folder / "run"), "cores": []})
    return path


def test_it_waits_for_the_process_of_an_interrupted_command(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(experiment_process, "_end_with", lambda _: None)
    monkeypatch.setattr(measuring, "measure", lambda _: {"mlm_loss": 2.5})
    # That one saves, while this one waits.
    earlier, seconds = locks.FileLock(str(tmp_path / "run.lock")), []
    earlier.acquire()

    def sleep(duration):
        assert not (tmp_path / "run.json").exists()
        seconds.append(duration)
        if len(seconds) == 3:
            earlier.release()

    monkeypatch.setattr(experiment_process.time, "sleep", sleep)
    experiment_process.main(["experiment_process", _request(tmp_path), "1"])
    assert seconds == [1.0] * 3
    said = f"waiting for process {os.getpid()} on "
    assert capsys.readouterr().err.count(said) == 1
    assert strict_json.load_object(str(tmp_path / "run.json")) == {"mlm_loss": 2.5}
    assert not (tmp_path / "run.lock").exists()


def test_a_process_that_does_not_end_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiment_process, "_end_with", lambda _: None)
    monkeypatch.setattr(experiment_process, "_PATIENCE_SECONDS", -1.0)
    earlier = locks.FileLock(str(tmp_path / "run.lock"))
    earlier.acquire()
    with pytest.raises(SystemExit) as stopped:
        experiment_process.main(["experiment_process", _request(tmp_path), "1"])
    assert stopped.value.code == 1
    assert f"run (process {os.getpid()} on " in capsys.readouterr().err
    earlier.release()


def test_it_ends_at_once_if_its_parent_was_killed_before_it_looked(monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda *of: killed.append(of))
    # That one is the parent of none: the id of this process.
    experiment_process._end_with(os.getpid())
    assert killed == [(os.getpid(), signal.SIGTERM)]


def test_the_parent_is_that_of_the_command(tmp_path, monkeypatch):
    watched = []
    monkeypatch.setattr(experiment_process, "_end_with", watched.append)
    monkeypatch.setattr(measuring, "measure", lambda _: {})
    experiment_process.main(["experiment_process", _request(tmp_path), "4321"])
    assert watched == [4321]
