"""The process of an experiment: which cores it has, and what it writes."""

import os

import pytest

from albert_tf.core import files, strict_json
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
    experiment_process.main(["experiment_process", path])
    assert seen == [*([(0, cores)] if cores else []), run_dir]
    assert strict_json.load_object(f"{run_dir}.json") == {"mlm_loss": 1.5}
