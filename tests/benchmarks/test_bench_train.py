"""The benchmark of training: what it counts and compares, not its times."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import bench_train
from albert_tf.benchmarks import (
    checkpointing,
    figures,
    rounds,
    setup,
    startup,
    startup_trace,
    train_steps,
    training_benchmark,
    weight_average,
)
from albert_tf.benchmarks import input_pipeline as input_pipeline_benchmark
from albert_tf.benchmarks import records as records_lib
from albert_tf.core import binaries as binaries_lib
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema, shard_order
from albert_tf.training import loops
from tests.support import binaries, small_run


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("bench_train"))


def _times(*pairs):
    return [rounds.StepTimes(*pair) for pair in pairs]


# Rounds and figures.


def test_all_take_the_same_number_of_steps_in_rounds_that_start_with_another_one():
    now, calls = [0.0], []

    def function(name, seconds):
        def take_steps(num_steps):
            calls.append((name, num_steps))
            now[0] += num_steps * seconds

        return take_steps

    times = rounds.time_steps(
        {"slow": function("slow", 4.0), "fast": function("fast", 0.5)},
        num_rounds=2,
        seconds=2.6,
        clocks=lambda: (now[0], 2 * now[0]),
    )
    # Of 0.5 s each, 5 steps come nearest to 2.6 s.
    assert calls == [
        *[("slow", 2)] * 2,
        *[("fast", 2)] * 2,
        *[("slow", 2), ("slow", 5), ("fast", 2), ("fast", 5)],
        *[("fast", 2), ("fast", 5), ("slow", 2), ("slow", 5)],
    ]
    assert times == {
        "slow": _times((4.0, 8.0), (4.0, 8.0)),
        "fast": _times((0.5, 1.0), (0.5, 1.0)),
    }


def test_a_target_is_met_below_its_most_or_from_its_least_on():
    def is_met(value, **targets):
        return figures.median_figure("", "", [value], "s", **targets).is_met

    assert is_met(1.9, at_most=2.0)
    assert is_met(2.0, at_most=2.0) is False
    assert is_met(2.0, at_least=2.0)
    assert is_met(1.9, at_least=2.0) is False
    assert is_met(1.9) is None


def test_the_table_shows_medians_quartiles_and_targets():
    found = [
        figures.median_figure("input", "share", [0.05, 0.01, 0.02], "%", at_most=0.03),
        figures.median_figure("input", "rate", [70000.0], "examples/s", at_least=8e4),
        figures.median_figure("save", "still", [0.125, 0.375], "s"),
    ]
    assert [line.split() for line in figures.table(found).splitlines()] == [
        "measured quartiles target".split(),
        ["input"],
        "share 2.00 % 1.50 to 3.50 under 3.00 % met".split(),
        "rate 70,000 examples/s at least 80,000 examples/s MISSED".split(),
        ["save"],
        "still 0.25 s".split(),
    ]


def test_shares_compare_round_by_round_and_the_tiny_model_counts_in_milliseconds():
    full = {
        train_steps.PIPED: _times((2.2, 4.4), (4.4, 4.4), (2.0, 4.4)),
        train_steps.REPEATED: _times((2.0, 4.0), (4.0, 4.0), (2.0, 4.0)),
        train_steps.STEP: _times((1.6, 4.0), (4.0, 4.0), (2.0, 5.0)),
        train_steps.BARE: _times((1.0, 2.0), (2.0, 2.0), (1.0, 2.0)),
    }
    small = {
        train_steps.PIPED: _times((0.018, 1.0)),
        train_steps.REPEATED: _times((0.014, 1.0)),
        train_steps.STEP: _times((0.012, 1.0)),
        train_steps.BARE: _times((0.003, 1.0)),
    }
    found = train_steps.to_figures(full, [0.022, 0.0, 0.1], small, input_alone=0.044)
    rates = {f.name: f.value for f in found if f.group == "steps"}
    assert rates == {
        train_steps.PIPED: pytest.approx(1 / 2.2),
        train_steps.REPEATED: 0.5,
        train_steps.STEP: 0.5,
        train_steps.BARE: 1.0,
    }
    rows = [(f.group, f.value, f.unit, f.at_most) for f in found[4:]]
    expected = [
        ("input", 0.01, "%", 0.03),  # waited 1%, 0%, 5%
        ("input", 0.02, "%", 0.03),  # 0.044 of 2.2 s
        ("input", 0.1, "%", 0.03),  # 10%, 10%, 0%
        ("input", 0.1, "%", 0.03),
        ("input", 4.0, "ms", None),
        ("input", 0.004 / 2.2, "%", 0.03),
        ("loop", 0.0, "%", 0.02),  # 25%, 0%, 0%
        ("loop", 0.0, "%", 0.02),
        ("loop", 2.0, "ms", None),
        ("loop", 0.002 / 2.2, "%", 0.02),
        ("loop", 1.0, "%", 0.02),
        ("loop", 1.0, "%", 0.02),
        ("loop", 11.0, "ms", None),
        ("loop", 0.011 / 2.2, "%", 0.02),
        ("both", 1.2, "%", 0.05),  # 120%, 120%, 100%
        ("both", 1.2, "%", 0.05),
        ("both", 15.0, "ms", None),
        ("both", 0.015 / 2.2, "%", 0.05),
    ]
    assert [row[0] for row in rows] == [row[0] for row in expected]
    assert [row[2:] for row in rows] == [row[2:] for row in expected]
    np.testing.assert_allclose([r[1] for r in rows], [r[1] for r in expected])


# The step functions.


@pytest.mark.slow
def test_the_bare_step_learns_as_the_train_step_does():
    config = small_run.small_config("optimizer.warmup_steps=0", "model.num_layers=1")
    features = {
        name: tf.ones([8, *shape], dtype)
        for name, (dtype, shape) in schema.model_features(config.data.row).items()
    }
    learnt = []
    for make in (lambda built: built.make_train_step(), train_steps._bare_step):
        built = setup.build(config)
        before = [variable.numpy() for variable in built.model.trainable_variables]
        train_steps._caller(built, features, make(built))(2)
        learnt.append([v.numpy() for v in built.model.trainable_variables])
        assert int(built.optimizer.iterations) == 2
    moved = [np.abs(a - b).max() for a, b in zip(before, learnt[0], strict=True)]
    assert max(moved) > 0.01
    for one, other in zip(*learnt, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_loop_that_ends_early_is_an_error():
    outcome = {"input_seconds": tf.constant(0.5), "num_steps": tf.constant(3)}
    steps = object.__new__(train_steps.LoopSteps)
    steps.__dict__ |= {
        "_loop": lambda batches, num_steps: outcome,
        "_batches": None,
        "input_seconds": [],
    }
    steps(3)
    assert steps.input_seconds == [pytest.approx(0.5 / 3)]
    with pytest.raises(ValueError, match="all 4 steps .* ran 3"):
        steps(4)


def test_the_files_of_one_checkpoint_are_counted(tmp_path):
    for name, size in (
        ("model.ckpt-4.index", 3),
        ("model.ckpt-4.data-00000-of-00001", 40),
        ("model.ckpt-44.index", 500),
        ("checkpoint", 6000),
    ):
        (tmp_path / name).write_bytes(bytes(size))
    assert checkpointing.checkpoint_bytes(str(tmp_path), 4) == 43


# The start.


def test_the_parts_of_a_start_add_up_to_the_time_to_the_first_step():
    start = startup_trace.Start(started=100.0)
    start.parts |= {"Python": 1.0, "imports": 4.0, "tracing": 8.0}
    first = {"began": 120.0, "ended": 130.0, "input_seconds": 1.5, "core_seconds": 9.0}
    start.finish(first, {"began": 131.0, "ended": 133.5, "input_seconds": 0.5})
    parts = {name: value for name, value in start.result["parts"].items() if value}
    assert list(start.result["parts"]) == list(startup_trace.NAMES)
    assert parts == {
        "Python": 1.0,
        "imports": 4.0,
        "tracing": 8.0,
        "compiling": 10.0 - 1.5 - 2.0,
        "first batch": 1.5,
        "the step": 2.0,
        "rest": 30.0 - 1.0 - 4.0 - 8.0 - 10.0,
    }
    assert (start.result["seconds"], start.result["core_seconds"]) == (30.0, 9.0)


def test_what_a_run_calls_is_timed_and_afterwards_as_it_was(monkeypatch):
    times = iter([10.0, 17.0])
    start = startup_trace.Start(0.0, lambda: next(times))
    monkeypatch.setattr(manifest_lib, "read_manifest", lambda path: f"of {path}")
    original = manifest_lib.read_manifest
    make_train_loop = loops.make_train_loop
    with start.on_parts():
        assert manifest_lib.read_manifest("records") == "of records"
        assert loops.make_train_loop is not make_train_loop
    assert dict(start.parts) == {"data": 7.0}
    assert manifest_lib.read_manifest is original
    assert loops.make_train_loop is make_train_loop


def test_of_several_starts_the_parts_of_the_middle_one_are_shown():
    def one(seconds, host_seconds):
        parts = dict.fromkeys(startup_trace.NAMES, 0.0) | {"tracing": seconds / 2}
        parts["the step"] = 0.5
        times = {"seconds": seconds, "core_seconds": 1.0, "host_seconds": host_seconds}
        return {"parts": parts, **times}

    starts = [one(70.0, 0.3), one(20.0, 0.1), one(30.0, 0.2)]
    found = {f.name: f for f in startup.to_figures("new", starts, steps_per_loop=4)}
    assert found["first step done after"].value == 30.0
    assert found["first step done after"].is_met
    assert found["of it tracing"].value == 15.0
    assert found["a row of metrics"].value == 0.2
    assert found["a row of metrics, of a loop of 4 steps"].value == 0.1


@pytest.mark.slow
def test_a_start_that_fails_says_why(records, tmp_path):
    config = small_run.small_config("model.vocab_size=4001")
    with pytest.raises(ValueError, match="startup_trace failed: error: .* is 4000,"):
        result = str(tmp_path / "result.json")
        startup.start(config, str(records), str(tmp_path / "run"), result)


# The average of the weights.


def test_what_an_average_adds_is_compared_round_by_round():
    without = _times((0.25, 0.5), (0.5, 1.0), (0.75, 1.5))
    with_average = _times((0.375, 0.75), (0.625, 1.5), (0.75, 1.75))
    found = weight_average.to_figures(without, with_average)
    assert {figure.name: figure.value for figure in found} == {
        "without an average": 500.0,
        "an average adds": 125.0,
        "without an average, core time": 1000.0,
        "an average adds, core time": 250.0,
    }


def test_weights_are_updated_with_an_average_and_without():
    found = weight_average.measure(small_run.small_config(), 1, 0.0)
    assert [figure.unit for figure in found] == ["ms"] * 4
    assert found[0].value > 0.0


# The input.


def test_the_original_s_records_hold_what_ours_do(records, tmp_path):
    config = small_run.small_config()
    path = str(tmp_path / "original.tfrecord")
    input_pipeline_benchmark.write_original_records(str(records), config, path)
    batch = next(
        input_pipeline_benchmark.original_input(path, 24, config.data.num_predictions)()
    )
    ours = next(input_pipeline_benchmark.albert_tf_input(str(records), config)())
    assert set(batch) == set(ours)
    for name, value in ours.items():
        assert batch[name].dtype == value.dtype, name
        assert batch[name].shape[0] == value.shape[0] == 4096 // 8, name
    # Another order of the same records.
    rows = {tuple(row) for row in ours["input_ids"].numpy().tolist()}
    for row in batch["input_ids"].numpy().tolist()[:5]:
        assert tuple(row) in rows


def test_most_records_are_skipped_where_a_group_ends():
    # One group of 12 + 11 records, in batches of 4: that of step 5 begins after 20.
    order = shard_order.ShardOrder([12, 11], seed=1)
    assert input_pipeline_benchmark.last_step_of_group(order, 4) == 5
    assert order.locate(5 * 4) == (0, 20)


# Making records.


def test_records_are_made_once_for_each_recipe(tmp_path, monkeypatch):
    calls = []

    def run_module(module, *arguments):
        values = dict(argument.split("=", 1) for argument in arguments)
        output = values.get("--output")
        calls.append(module.removeprefix("data_prep."))
        if output:
            open(output, "w").close()
        else:
            made = tmp_path / values["--output_dir"]
            made.mkdir()
            (made / "manifest.json").touch()

    monkeypatch.setattr(binaries_lib, "run_module", run_module)
    config = small_run.small_config()
    first = records_lib.make_records(str(tmp_path), config)
    assert calls == ["demo_corpus", "train_vocab", "create_pretraining_data"]
    assert records_lib.make_records(str(tmp_path), config) == first
    other = config_io.override(config, ["train.num_steps=99"])
    assert records_lib.make_records(str(tmp_path), other) == first
    assert len(calls) == 3
    other = config_io.override(config, ["data.masking=dynamic"])
    assert records_lib.make_records(str(tmp_path), other) != first
    assert calls[3:] == ["create_pretraining_data"]
    recipe = f"{first}.json"
    assert config_io.load(recipe) == config


def test_a_binary_that_fails_says_why(tmp_path):
    with pytest.raises(ValueError, match="demo_corpus failed: .*nowhere"):
        output = f"--output={tmp_path}/nowhere/corpus.txt"
        binaries_lib.run_module("data_prep.demo_corpus", output)


def test_without_records_each_kind_is_an_input_and_the_original_stands_beside(
    monkeypatch,
):
    made = []

    def make_records(work_dir, config):
        data = config.data
        made.append((data.max_seq_length, data.masking, data.compression))
        return "records"

    fake = types.SimpleNamespace(
        **{
            name: getattr(input_pipeline_benchmark, name)
            for name in ("record_settings", "original_path")
        },
        albert_tf_input=lambda *_: "own",
        original_input=lambda *_: "original",
        write_original_records=lambda *_: None,
    )
    monkeypatch.setattr(training_benchmark, "input_pipeline_benchmark", fake)
    monkeypatch.setattr(records_lib, "make_records", make_records)
    found = training_benchmark.collect_inputs(config_lib.Config(), "", "work")
    kinds = (("static", "none"), ("dynamic", "none"), ("static", "gzip"))
    assert made == [(length, *kind) for length in (128, 512) for kind in kinds]
    assert [name for name, kind in found.items() if kind == "original"] == [
        "as the original, length 128",
        "as the original, length 512",
    ]
    assert len(found) == 8


# The binary.


def test_a_part_must_be_one(capsys):
    error = binaries.error_of(capsys, bench_train, "--parts=steps,speed")
    assert error == (
        "--parts must be some of steps, average, checkpoint, start, position, input; "
        "received 'steps,speed'"
    )


def _run(records, work_dir, capsys, *arguments):
    path = work_dir / "figures.json"
    binaries.run(
        bench_train,
        "--config=",
        *(f"--set={override}" for override in small_run.OVERRIDES),
        "--set=model.num_layers=1",  # to trace two takes longer
        f"--data_dir={records}",
        f"--work_dir={work_dir}",
        "--rounds=2",
        "--repeats=1",
        "--turn_seconds=0.01",
        f"--json={path}",
        *arguments,
    )
    output = capsys.readouterr().out
    found = json.loads(path.read_text())
    assert len(output.splitlines()) == len(found) + len({f["group"] for f in found}) + 3
    assert all(np.isfinite(f["value"]) for f in found)
    assert not list(work_dir.glob("*/"))
    return found


@pytest.mark.slow
def test_steps_checkpoints_positions_and_input_are_measured(records, tmp_path, capsys):
    parts = "--parts=steps,checkpoint,position,input"
    found = _run(records, tmp_path, capsys, parts)
    counts: dict[str, int] = {}
    for figure in found:
        counts[figure["group"]] = counts.get(figure["group"], 0) + 1
    assert counts == {
        "steps": 4,
        "input": 6,
        "loop": 8,
        "both": 4,
        "checkpoint": 5,
        "first batch of a resumed run": 6,
        "input alone": 2,
    }
    shares = [f for f in found if f["unit"] == "%"]
    assert {f["at_most"] for f in shares if f["group"] == "input"} == {0.03}
    assert {f["at_most"] for f in shares if f["group"] == "loop"} == {0.02}
    assert [len(f["samples"]) for f in found if f["group"] == "steps"] == [2] * 4
    (rate,) = [f for f in found if f["at_least"]]
    assert rate["at_least"] == 80000.0


@pytest.mark.slow
def test_a_new_run_and_a_far_one_are_started_and_their_parts_add_up(
    records, tmp_path, capsys
):
    # A far run would have a row of metrics for each loop.
    rows = "--set=train.steps_per_loop=50000"
    found = _run(records, tmp_path, capsys, "--parts=start", rows)
    assert {f["group"] for f in found} == {
        "start of a new run",
        "start at step 1,000,003",
    }
    for group in ("start of a new run", "start at step 1,000,003"):
        values = {f["name"]: f["value"] for f in found if f["group"] == group}
        parts = {name: values[f"of it {name}"] for name in startup_trace.NAMES}
        total = values["first step done after"]
        assert sum(parts.values()) == pytest.approx(total)
        for name in ("imports", "model and optimizer", "tracing", "the step"):
            assert parts[name] > 0
        # Only a new run evaluates and saves before its first step.
        before = parts["evaluation before it"], parts["checkpoint before it"]
        assert all(before) if "new" in group else not any(before)
        # All that is timed lies within another: little is left.
        assert 0 <= parts["rest"] < 0.3 * total
