"""The demonstration, with a model that is too small to learn much."""

import json
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import sys
import time

import pytest

from albert_tf import demo
from albert_tf.core import config_io
from albert_tf.demonstration import stages as stages_lib

ROOT = str(pathlib.Path(__file__).resolve().parent.parent.parent)
SMALL = (
    "model.vocab_size=600",
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "model.num_layers=2",
    "model.num_heads=2",
    "data.dupe_factor=1",
    "optimizer.warmup_steps=5",
    "train.num_steps=60",
    "train.steps_per_loop=5",
    "train.save_every_steps=10",
    "train.eval_every_steps=30",
    "train.eval_batches=2",
)


def _command(output_dir):
    return [
        sys.executable,
        "-m",
        "albert_tf.demo",
        f"--output_dir={output_dir}",
        *(f"--set={setting}" for setting in SMALL),
    ]


def _wait_for(path, process):
    """Waits as long as the process runs; the deadline is for one that hangs."""
    end = time.monotonic() + 1800
    while not path.exists():
        assert process.poll() is None, f"ended with {process.poll()} before {path}"
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


def _cpu_seconds():
    """Of the processes that have ended, whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_interrupted_and_called_again_it_resumes_and_ends_with_report_and_summary(
    tmp_path,
):
    output_dir = tmp_path / "demo"
    first = subprocess.Popen(
        _command(output_dir),
        cwd=ROOT,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(output_dir / "run" / "model.ckpt-10.index", first)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGINT)  # as Ctrl-C does
        first.wait()
    assert first.returncode == 130
    assert not (output_dir / "summary.json").exists()

    second = subprocess.run(
        _command(output_dir),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        # A shell that does not know the environment of this Python.
        env={**os.environ, "PATH": os.defpath},
    )
    for stage in ("corpus", "vocabulary", "records"):
        assert f"{stage}: done before" in second.stdout
    *_, report, activation, following = second.stdout.splitlines()
    assert report.startswith("report: ")
    assert activation.startswith("First, in this shell: . ")
    _, path = shlex.split(activation.partition(": ")[2])
    own = os.path.join(sys.prefix, "bin", "activate")
    assert os.path.samefile(os.path.join(ROOT, path), own)
    command = "Next: python -m albert_tf.predict"
    assert following.startswith(f"{command} --saved_model={output_dir}/saved_model ")
    assert second.stdout.count("Next: ") == 1  # the stages suggest nothing
    assert (output_dir / "report" / "index.html").exists()
    summary = json.loads((output_dir / "summary.json").read_text())
    assert summary["steps"] == 60
    assert set(summary["seconds"]) == {
        "corpus",
        "vocabulary",
        "records",
        "pretraining",
        "export",
        "answers",
    }
    assert summary["documents"] > 1000 and summary["records"] > 1000
    assert 2 < summary["heldout_unigram_entropy"] < 10
    for moment in ("before", "after"):
        assert set(summary[moment]) == {
            "mlm_loss",
            "mlm_accuracy",
            "sentence_order_loss",
            "sentence_order_accuracy",
        }
    assert summary["after"]["mlm_loss"] < summary["before"]["mlm_loss"]
    assert [len(filled["answers"]) for filled in summary["filled_masks"]] == [5] * 3

    before = _cpu_seconds()
    third = subprocess.run(
        _command(output_dir), cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert third.stdout.count("done before") == 6
    assert _cpu_seconds() - before < 60


def _stages(folder, marker):
    output = folder / "output"
    script = f"open({str(output)!r}, 'w').write({marker!r})"
    return [stages_lib.Stage("only", str(output), ("timeit", "-n1", "-r1", script))]


def test_a_stage_runs_again_only_if_command_or_recipe_changed(tmp_path, capsys):
    output = tmp_path / "output"
    stages_lib.run_stages(str(tmp_path), _stages(tmp_path, "one"), "recipe")
    assert output.read_text() == "one"
    output.write_text("kept")
    stages_lib.run_stages(str(tmp_path), _stages(tmp_path, "one"), "recipe")
    assert output.read_text() == "kept"
    stages_lib.run_stages(str(tmp_path), _stages(tmp_path, "one"), "another recipe")
    assert output.read_text() == "one"
    stages_lib.run_stages(str(tmp_path), _stages(tmp_path, "two"), "another recipe")
    assert output.read_text() == "two"


def test_a_stage_that_was_killed_keeps_what_it_made_if_it_can_resume(tmp_path):
    run = tmp_path / "run"
    script = (
        "import os, signal; "
        f"os.makedirs({str(run)!r}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    for number, stage_script in enumerate((script, f"open({str(run / 'x')!r}, 'w')")):
        code = (
            "from albert_tf.demonstration import stages\n"
            f"stages.run_stage = lambda stage, title: exec({stage_script!r})\n"
            f"stage = stages.Stage('train', {str(run)!r}, ('same',), resumes=True)\n"
            f"stages.run_stages({str(tmp_path)!r}, [stage], 'recipe')\n"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
        assert result.returncode == (-signal.SIGKILL, 0)[number]
    assert (run / "x").exists()


def test_a_stage_that_fails_stops_the_demonstration_and_is_named(tmp_path):
    failing = stages_lib.Stage("broken", str(tmp_path / "none"), ("no_such_module",))
    with pytest.raises(ValueError, match="stage broken ended with code 1"):
        stages_lib.run_stages(str(tmp_path), [failing], "recipe")


def test_the_recipe_fits_its_stages():
    recipe = config_io.load("configs/demo.py")
    stages = stages_lib.make_stages("out", "recipe.json", recipe)
    outputs = [stage.output for stage in stages]
    assert len(set(outputs)) == len(stages)
    for number, stage in enumerate(stages):
        for argument in stage.command:
            value = argument.partition("=")[2]
            if value.startswith("out/"):  # made by an earlier stage, or by this one
                assert value in outputs[: number + 1], argument


def test_a_shell_with_the_environment_needs_no_activation(monkeypatch):
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setenv("PATH", os.path.join(sys.prefix, "bin"))
    assert demo._activation() == ""
    monkeypatch.setenv("PATH", os.defpath)
    assert demo._activation().endswith("/bin/activate")
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)  # no environment
    assert demo._activation() == ""
