"""Mistakes in the flags of `python -m albert_tf.plan`."""

import importlib.util
import json

import pytest

from albert_tf import plan
from albert_tf.core import binaries as binaries_lib
from albert_tf.planning import step_export
from tests.support import binaries


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give one of --accelerator, --export_step, --run_exported, --fill_table"),
        (("--accelerator=v9-8",), "--accelerator must be one of v2, v3,"),
        (
            ("--accelerator=v3-8", "--global_batch=12", "--tools=absent"),
            "must be a multiple of the 8 replicas of v3-8",
        ),
        (
            ("--accelerator=v3-8", "--tools=absent"),
            "absent/venv is not there; give the same command with --install",
        ),
        (
            ("--fill_table=x.json", "--tools=absent"),
            "with --install_tools, which makes",
        ),
        (
            ("--accelerator=a100-8", "--largest_batches"),
            "--largest_batches needs a compiler",
        ),
        (
            ("--accelerator=v3-8", "--packings=two"),
            "--packings must be whole numbers separated by commas; received 'two'",
        ),
        (("--export_step=a", "--run_exported=b"), "give one of"),
        (
            ("--export_step=a", "--config=configs/finetune_rte.py"),
            "task.name must be empty in a recipe for pre-training",
        ),
        (("--run_exported=absent",), "--run_exported: there is no directory absent"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert message in binaries.error_of(capsys, plan, *arguments)


def test_all_settings_of_the_longest_stage_are_exported(monkeypatch):
    exported = []
    monkeypatch.setattr(step_export, "export_step", lambda *it: exported.append(it))
    stages = (
        '[{"num_steps": 8, "max_seq_length": 8}, {"num_steps": 4, "batch_size": 16, '
        '"accumulation_steps": 4, "masked_lm_rate": 0.3}]'
    )
    binaries.run(
        plan,
        "--export_step=step",
        "--config=configs/small_ablations.py",
        *(f"--set={one}" for one in (f"train.stages={stages}", "train.num_steps=12")),
        "--set=optimizer.warmup_steps=2",
        "--set=optimizer.decay_steps=4",
    )
    ((config, global_batch, folder),) = exported
    assert (global_batch, folder) == (16, "step")
    assert config.train.accumulation_steps == 4
    assert (config.data.max_seq_length, config.data.masked_lm_rate) == (32, 0.3)


def test_without_a_network_the_reason_is_one_line(tmp_path, monkeypatch, capsys):
    script = tmp_path / ".ci" / "make_venv"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\necho 'ERROR: Could not find libtpu==0.0.51' >&2\n"
        "echo 'The installation failed.' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    (tmp_path / "requirements-plan.txt").write_text("libtpu==0.0.51\n")
    monkeypatch.setattr(binaries_lib, "ROOT", tmp_path)
    arguments = ("--accelerator=v3-8", f"--tools={tmp_path}/tools", "--install_tools")
    assert binaries.error_of(capsys, plan, *arguments) == (
        "requirements-plan.txt could not be installed: "
        "ERROR: Could not find libtpu==0.0.51"
    )


def test_a_plan_is_printed_and_written(tmp_path, capsys):
    path = tmp_path / "plan.json"
    arguments = ("--accelerator=h100-8", "--config=configs/albert_base.py")
    overrides = ("--set=train.compute_dtype=bfloat16", "--set=train.remat=block")
    rest = ("--price_per_hour=2", "--utilization=0.4", f"--json={path}")
    binaries.run(plan, *arguments, *overrides, *rest)
    text = capsys.readouterr().out
    found = json.loads(path.read_text())
    assert found["rows_of_replica"] == 512
    assert found["run"]["price"] == pytest.approx(2 * found["run"]["chip_hours"])
    assert "8 chips, 8 replicas" in text
    assert f"{found['run']['hours']:,.2f} hours" in text


@pytest.mark.skipif(
    importlib.util.find_spec("jax") is not None, reason="JAX is installed here"
)
def test_a_missing_jax_is_named_with_its_remedy(tmp_path, capsys):
    error = binaries.error_of(capsys, plan, f"--run_exported={tmp_path}")
    assert "pip install -r requirements-jax.txt" in error
