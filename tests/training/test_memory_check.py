"""A step that the machine has no memory for is refused before anything is built."""

import types

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
        stages.split(config), strategies.create_strategy("one_device"), 0, observed
    )


def test_the_batch_of_a_pod_is_refused_on_a_laptop():
    with pytest.raises(ValueError, match=r"batch_size 4,096 in 1 part needs [\d,]+"):
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
    with pytest.raises(ValueError, match="train.batch_size 8 in 1 part needs"):
        _check(needed - 0.01, *settings)
    with pytest.raises(ValueError, match=f"has {needed - 0.01:.1f} GiB"):
        _check(24, *settings, limit=needed - 0.01)
    # Half of the activations at a time.
    _check(needed - 0.2, *settings, "train.accumulation_steps=2")


def test_each_stage_is_checked():
    long = "{'num_steps': 5, 'max_seq_length': 512, 'batch_size': 512}"
    short = "{'num_steps': 5, 'max_seq_length': 32}"
    settings = ["train.batch_size=8", "train.num_steps=10", "optimizer.warmup_steps=1"]
    with pytest.raises(ValueError) as refused:
        _check(24, *settings, f"train.stages=[{short}, {long}]")
    said = str(refused.value)
    assert said.startswith("a step with train.stages.2.batch_size 512 in 1 part")
    assert "Set a smaller train.stages.2.batch_size, more train.stages.2.acc" in said


def test_what_is_trained_already_is_not_checked():
    config = config_io.load("configs/albert_base.py", ["train.num_steps=2000"])
    observed = memory.Observed(GIB, GIB, None)
    device = strategies.create_strategy("one_device")
    whole = stages.split(config)
    memory_check.check(whole, device, 2000, observed)
    with pytest.raises(ValueError, match="needs"):
        memory_check.check(whole, device, 1999, observed)


def test_each_replica_of_this_machine_counts():
    settings = ["train.batch_size=32", "data.max_seq_length=128"]
    config = config_io.load("configs/albert_base.py", settings)
    counted = [costs.recipe_costs(config, number) for number in (1, 2)]
    assert counted[0].activation_bytes.total > 1.9 * counted[1].activation_bytes.total
    needed = 2 * (
        counted[1].weight_and_slot_bytes
        + counted[1].reduced_gradient_bytes
        + counted[1].activation_bytes.total
    )

    class TwoReplicas:
        """Two logical CPU devices; a process cannot split its CPU late."""

        num_replicas_in_sync = 2
        cluster_resolver = None
        extended = types.SimpleNamespace(worker_devices=["/device:CPU:0"] * 2)

    def check(total):
        observed = memory.Observed(total, total, None)
        memory_check.check(stages.split(config), TwoReplicas(), 0, observed)

    check(needed)
    with pytest.raises(ValueError, match="batch_size 32"):
        check(needed - 1)


def test_a_batch_that_cannot_be_divided_is_left_to_the_input():
    settings = ["train.batch_size=4095"]
    config = config_io.load("configs/albert_base.py", settings)

    class TwoReplicas:
        num_replicas_in_sync = 2
        extended = types.SimpleNamespace(worker_devices=["/device:CPU:0"] * 2)

    observed = memory.Observed(GIB, GIB, None)
    memory_check.check(stages.split(config), TwoReplicas(), 0, observed)


def test_accelerators_have_memory_of_their_own():
    config = config_io.load("configs/albert_base.py", [])
    tpu, observed = fake_tpu.create_strategy(), memory.Observed(GIB, GIB, None)
    memory_check.check(stages.split(config), tpu, 0, observed)


def test_a_system_that_does_not_tell_its_memory_is_not_checked(monkeypatch):
    def observe():
        raise FileNotFoundError("/proc/meminfo")

    monkeypatch.setattr(memory, "observe", observe)
    config = config_io.load("configs/albert_base.py", [])
    device = strategies.create_strategy("one_device")
    memory_check.check(stages.split(config), device)


def test_training_is_refused_before_records_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "observe", lambda: memory.Observed(1, 1, None))
    config = small_run.small_config()
    with pytest.raises(ValueError, match="and this machine has 0.0 GiB"):
        pretraining.train(config, str(tmp_path / "absent"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
