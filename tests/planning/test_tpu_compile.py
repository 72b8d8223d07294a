"""The compiler itself, where its environment is installed."""

import os
import pathlib

import pytest

from albert_tf.core import config_io
from albert_tf.devices import chip_table
from albert_tf.model import costs
from albert_tf.planning import compiled_step
from tests.support import small_run

# `python -m albert_tf.plan --accelerator=v3-8 --install_tools` makes it.
TOOLS = pathlib.Path(os.environ.get("ALBERT_TF_PLAN_TOOLS", "build/plan"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (TOOLS / "venv" / "bin" / "python").exists(),
        reason=f"the TPU compiler is not installed in {TOOLS}",
    ),
]

CONFIG = small_run.small_config("model.num_layers=1", "train.compute_dtype=bfloat16")


def _compile(
    tmp_path, num_rows: int, accelerator: str, num_replicas: int = 1, config=CONFIG
):
    if not (tmp_path / "venv").exists():
        (tmp_path / "venv").symlink_to((TOOLS / "venv").absolute())
    compiler = compiled_step.StepCompiler(str(tmp_path))
    chip = chip_table.find(accelerator).chip
    return compiler.compile(config, num_rows, chip, num_replicas), chip


@pytest.mark.parametrize("accelerator", ["v3-8", "v4-8"])
def test_a_step_with_its_sum_is_compiled(tmp_path, accelerator):
    replicas = chip_table.find(accelerator).num_replicas
    step, chip = _compile(tmp_path, 3, accelerator, replicas)
    assert step.fits and step.num_replicas == chip.compiled_replicas == replicas
    # Weights and two slots of 58,000 parameters, padded, and the batch.
    assert 3 * 4 * 50_000 < step.memory.arguments < 20 * 1e6
    counted = costs.recipe_costs(config_io.override(CONFIG, ["train.batch_size=3"]))
    # With elementwise operations, which are not much fewer at this size.
    assert 1 < step.flops / counted.step_flops.total < 4
    assert step.hbm_bytes > 1e6


@pytest.mark.parametrize("accelerator", ["v3-8", "v4-8", "v5e-4"])
def test_the_memory_of_a_replica_is_that_of_the_table(tmp_path, accelerator):
    step, chip = _compile(tmp_path, 1 << 20, accelerator)
    assert not step.fits
    assert step.available_bytes == pytest.approx(chip.hbm_bytes, rel=1e-3)
    assert step.needed_bytes > chip.hbm_bytes


def test_what_is_recomputed_is_not_kept(tmp_path):
    recipe = config_io.override(CONFIG, ["model.num_layers=6", "model.hidden_size=128"])
    kept, attention, block = (
        _compile(
            tmp_path,
            512,
            "v5e-4",
            config=config_io.override(recipe, [f"train.remat={remat}"]),
        )[0]
        for remat in ("none", "attention", "block")
    )
    assert block.flops > 1.2 * kept.flops
    assert kept.flops < attention.flops < block.flops
    assert block.memory.temporaries < 0.7 * kept.memory.temporaries
    assert attention.memory.temporaries < kept.memory.temporaries
