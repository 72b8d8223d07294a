"""A plan says what the compiler says, and which settings make a step fit."""

import pytest

from albert_tf.core import config_io
from albert_tf.devices import chip_table
from albert_tf.model import costs
from albert_tf.planning import plan_text, run_plan
from tests.planning import fakes
from tests.support import small_run

CONFIG = small_run.small_config("train.num_steps=3600")


def _request(
    accelerator: str, global_batch: int, *overrides: str, **values: float
) -> run_plan.Request:
    config = config_io.override(CONFIG, overrides)
    place = chip_table.find(accelerator)
    return run_plan.Request(config, place, global_batch, **values)


def _plan(request, compiler=None):
    return run_plan.make_plan(request, compiler, lambda line: None)


def test_the_plan_of_a_step_that_fits():
    request = _request("v3-16", 160, utilization=0.25, price_per_hour=2.0)
    compiler = fakes.LinearCompiler()
    plan = _plan(request, compiler)
    # 10 rows for each of 16 cores; 8 of them share the compiled program.
    assert compiler.calls == [(10, "float32", "none", 1, 8)]
    assert plan["memory"] == {
        **{"source": "libtpu", "fits": True, "needed_bytes": int(3.5 * fakes.GIB)},
        "available_bytes": int(15.48 * fakes.GIB),
        **{"arguments": fakes.GIB, "outputs": fakes.GIB, "aliased": fakes.GIB},
        **{"temporaries": int(2.5 * fakes.GIB), "code": 0},
    }
    roof = plan["roofline_seconds"]
    assert roof["compute"] == pytest.approx(10 / 61.5)
    assert roof["memory"] == pytest.approx(20 / 450)
    assert roof["limit"] == "compute"
    reduced = 4 * costs.count_parameters(CONFIG.model).total
    assert plan["step"]["reduced_bytes"] == reduced
    assert roof["reduction"] == pytest.approx(2 * 7 / 8 * reduced / 328e9)
    hours = roof["total"] / 0.25
    assert plan["run"]["hours"] == pytest.approx(hours)
    assert plan["run"]["price"] == pytest.approx(hours * 8 * 2.0)
    assert plan["sum_within_program"] is True
    assert "remedies" not in plan
    text = plan_text.show(plan)
    assert "fits: 3.50 GiB of 15.48 GiB, by libtpu" in text
    assert "within the compiled program" in text


def test_one_replica_has_no_sum():
    compiler = fakes.LinearCompiler()
    plan = _plan(_request("v5e-1", 8), compiler)
    assert compiler.calls == [(8, "float32", "none", 1, 1)]
    assert plan["roofline_seconds"]["reduction"] == 0.0
    assert plan["sum_within_program"] is False


def test_what_does_not_fit_says_by_how_much_and_what_would():
    compiler = fakes.LinearCompiler()
    plan = _plan(_request("v3-2", 128), compiler)
    assert plan["memory"]["fits"] is False
    tried = {
        " ".join(remedy["settings"]): (
            remedy["memory"]["needed_bytes"] / fakes.GIB,
            remedy["memory"]["fits"],
        )
        for remedy in plan["remedies"]
    }
    assert tried == {
        "train.compute_dtype=bfloat16": (9.0, True),
        "train.remat=attention": (9.0, True),
        "train.remat=block": (5.0, True),
        "train.compute_dtype=bfloat16 train.remat=block": (3.0, True),
        # Half of the rows at a time.
        "train.accumulation_steps=2": (9.0, True),
    }
    text = plan_text.show(plan)
    assert "does not fit by 1.52 GiB: 17.00 GiB, and there are 15.48 GiB" in text
    assert "train.remat=block: fits with 5.00 GiB" in text


def test_parts_are_halved_until_they_fit():
    request = _request("v3-2", 256, "train.remat=block")
    plan = _plan(request, fakes.LinearCompiler(each=2.0))
    parts = {
        remedy["settings"][-1]: remedy["memory"]["fits"] for remedy in plan["remedies"]
    }
    assert parts == {
        "train.compute_dtype=bfloat16": False,
        "train.accumulation_steps=2": False,
        "train.accumulation_steps=4": False,
        "train.accumulation_steps=8": True,
    }
    assert "still " in plan_text.show(plan)


def test_a_batch_that_cannot_be_divided_is_refused():
    with pytest.raises(ValueError, match="multiple of the 16 replicas of v3-16"):
        _plan(_request("v3-16", 100), fakes.LinearCompiler())
    request = _request("v3-2", 6, "train.batch_size=8", "train.accumulation_steps=2")
    with pytest.raises(ValueError, match=r"train.accumulation_steps \(2\)"):
        _plan(request, fakes.LinearCompiler())


def test_the_largest_batch_of_each_remat_and_precision():
    compiler = fakes.LinearCompiler()
    found = run_plan.largest_batches(
        _request("v3-8", 8), compiler, (0, 2), lambda line: None
    )
    # 14.48 GiB for rows of 0.25 GiB, of half and a quarter of them, and so on.
    most = {"none": 57.92, "attention": 115.84, "block": 231.68}
    assert len(found) == 12
    for one in found:
        limit = most[one["remat"]] * (2 if one["compute_dtype"] == "bfloat16" else 1)
        assert 0.88 * limit < one["rows"] <= limit
        assert len(one["compiled_rows"]) <= 6
    assert {one["pack_sequences"] for one in found} == {0, 2}
    plan = _plan(_request("v3-8", 8), compiler) | {"largest_batches": found}
    assert "Largest batch of a replica:" in plan_text.show(plan)


def test_a_gpu_is_counted_and_says_so():
    plan = _plan(_request("a100-8", 16))
    counted = costs.recipe_costs(config_io.override(CONFIG, ["train.batch_size=2"]))
    state, gradients = counted.weight_and_slot_bytes, counted.reduced_gradient_bytes
    activations = counted.activation_bytes.total
    kept = int(2.25 * activations)
    assert plan["memory"]["needed_bytes"] == state + gradients + kept
    assert plan["memory"]["temporaries"] == gradients + kept
    assert plan["memory"]["fits"] is True
    assert plan["step"]["memory_bytes_of_replica"] == (
        4 * activations + 2 * (state + gradients)
    )
    assert plan["roofline_seconds"]["compute"] == pytest.approx(
        counted.step_flops.total / 312e12
    )
    assert "counted, not compiled" in plan_text.show(plan)


def test_a_gpu_has_remedies_too():
    plan = _plan(_request("a100", 1 << 20))
    assert plan["memory"]["fits"] is False
    assert {"train.compute_dtype=bfloat16"} in [
        {*remedy["settings"]} for remedy in plan["remedies"]
    ]


def test_a_cpu_has_no_roofline():
    plan = _plan(_request("cpu", 8))
    counted = costs.recipe_costs(config_io.override(CONFIG, ["train.batch_size=8"]))
    kept = counted.reduced_gradient_bytes + counted.activation_bytes.total
    assert plan["memory"]["temporaries"] == kept
    assert plan["memory"]["fits"] is None
    assert "run" not in plan
    assert "has no stated peak" in plan_text.show(plan)


def test_of_stages_the_longest_rows_are_planned():
    config = small_run.small_config(
        'train.stages=[{"num_steps": 8, "max_seq_length": 8, "batch_size": 32}, '
        '{"num_steps": 4, "batch_size": 16}]'
    )
    longest = run_plan.longest_stage(config)
    assert (longest.data.max_seq_length, longest.train.batch_size) == (24, 16)
    assert longest.train.stages == ()
    # Where packed rows have one length, attention has most to do in longer sequences.
    stages = (
        '{"num_steps": 8, "max_seq_length": 12, "pack_sequences": 2}',
        '{"num_steps": 2, "pack_sequences": 1, "batch_size": 16}',
        '{"num_steps": 2, "max_seq_length": 8, "pack_sequences": 3}',
    )
    config = config_io.override(config, [f"train.stages=[{', '.join(stages)}]"])
    longest = run_plan.longest_stage(config)
    assert (longest.data.row.length, longest.data.max_seq_length) == (24, 24)
    assert longest.train.batch_size == 16
