"""A step that the machine has no memory for is refused before anything is built."""

import pytest

from albert_tf.core import config_io, stages
from albert_tf.devices import strategies
from albert_tf.diagnostics import memory
from albert_tf.model import costs
from albert_tf.training import memory_check, pretraining
from tests.support import fake_tpu, small_run

GIB = 1 << 30


def _check(total: float, *settings: str, limit: float | None = None) -> None:
    config = config_io.load("configs/albert_base.py", settings)
    observed = memory.Observed(
        round(total * GIB), 0, None if limit is None else round(limit * GIB)
    )
    memory_check.check(
        stages.split(config), strategies.create_strategy("one_device"), observed
    )


def test_the_batch_of_a_pod_is_refused_on_a_laptop():
    with pytest.raises(ValueError, match=r"batch_size 4,096 in 1 parts needs [\d,]+"):
        _check(24)


def test_what_fits_is_accepted_and_a_limit_counts():
    settings = ["train.batch_size=8", "data.max_seq_length=128"]
    config = config_io.load("configs/albert_base.py", settings)
    counted = costs.recipe_costs(config)
    needed = (
        counted.weight_and_slot_bytes
        + counted.reduced_gradient_bytes
        + counted.activation_bytes.total
    ) / GIB
    _check(needed + 0.01, *settings)
    with pytest.raises(ValueError, match="train.batch_size 8 in 1 parts"):
        _check(needed - 0.01, *settings)
    with pytest.raises(ValueError, match=f"has {needed - 0.01:.1f} GiB"):
        _check(24, *settings, limit=needed - 0.01)
    # Half of the activations at a time.
    _check(needed - 0.2, *settings, "train.accumulation_steps=2")


def test_each_stage_is_checked():
    long = "{'num_steps': 5, 'max_seq_length': 512, 'batch_size': 512}"
    short = "{'num_steps': 5, 'max_seq_length': 32}"
    settings = ["train.batch_size=8", "train.num_steps=10", "optimizer.warmup_steps=1"]
    with pytest.raises(ValueError, match="train.batch_size 512"):
        _check(24, *settings, f"train.stages=[{short}, {long}]")


def test_accelerators_have_memory_of_their_own():
    config = config_io.load("configs/albert_base.py", [])
    tpu, observed = fake_tpu.create_strategy(), memory.Observed(GIB, GIB, None)
    memory_check.check(stages.split(config), tpu, observed)


def test_training_is_refused_before_records_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "observe", lambda: memory.Observed(1, 1, None))
    config = small_run.small_config()
    with pytest.raises(ValueError, match="and this machine has 0.0 GiB"):
        pretraining.train(config, str(tmp_path / "absent"), str(tmp_path / "run"))
