"""The benchmark of the model: what it counts and compares, not its times."""

import ast
import collections
import dataclasses
import json
import math
import pathlib
import re
import sys

import pytest

from albert_tf import bench_model
from albert_tf.benchmarks import (
    matmul_probe,
    model_cases,
    results,
    rounds,
    runner,
    step_server,
)
from albert_tf.core import binaries as binaries_lib
from tests.repository import project_files
from tests.support import binaries

# Of the product that the probe times: its own size has a test.
_SMALL_PROBE = {"_ROWS": 8, "_INNER": 8, "_COLUMNS": 8}

_BENCHMARKS = project_files.ROOT / "albert_tf" / "benchmarks"
_ENVIRONMENTS = ("torch", "keras")


@pytest.fixture
def small_probe(monkeypatch):
    for name, size in _SMALL_PROBE.items():
        monkeypatch.setattr(matmul_probe, name, size)


def _case(name: str) -> model_cases.Case:
    (found,) = [case for case in model_cases.CASES if case.name == name]
    return found


def _implementation(name: str) -> model_cases.Implementation:
    (found,) = [one for one in model_cases.IMPLEMENTATIONS if one.name == name]
    return found


# What is counted.


def test_a_training_step_counts_three_times_the_products_of_the_forward_pass():
    # B 3, S 16, P 4, E 6, H 8, L 2, F 20, V 50, so 48 tokens, 12 predictions, and 15
    # positions that the heads read.
    layer = 4 * (2 * 48 * 8 * 8) + 2 * (2 * 48 * 16 * 8) + 2 * (2 * 48 * 8 * 20)
    last = (
        2 * (2 * 48 * 8 * 8)
        + 2 * (2 * 15 * 8 * 8)
        + 2 * (2 * 15 * 16 * 8)
        + 2 * (2 * 15 * 8 * 20)
    )
    heads = 2 * 12 * 8 * 6 + 2 * 12 * 6 * 50 + 2 * 3 * 8 * 2
    assert (layer, last, heads) == (79_872, 33_408, 8_448)
    pooler, projection = 384, 4_608
    forward = projection + layer + last + pooler + heads
    assert model_cases.TINY.flops == 3 * forward == 380_160
    inference = dataclasses.replace(model_cases.TINY, task=model_cases.INFERENCE)
    assert inference.flops == projection + 2 * layer + pooler == 164_736


def test_the_cases_cost_what_was_counted_by_hand():
    # At base size a token costs each layer 8 H H + 4 H F + 4 S H.
    per_token = 12 * (8 * 768 * 768 + 4 * 768 * 3072 + 4 * 128 * 768) + 2 * 128 * 768
    assert per_token == 174_784_512
    encoder = 2048 * per_token + 2 * 16 * 768 * 768
    heads = 2 * 320 * (768 * 128 + 128 * 30000) + 2 * 16 * 768 * 2
    assert encoder == 357_977_554_944
    # The last layer is at 21 of 128 positions; its keys and values are at all.
    unread = 16 * 107 * (4 * 768 * 768 + 4 * 768 * 3072 + 4 * 128 * 768)
    assert _case("training-base-16x128").flops == 3 * (encoder - unread + heads)
    assert _case("inference-base-32x128").flops == 2 * encoder
    assert _case("inference-base-1x128").flops == encoder // 16
    sizes = {case.name: (case.batch_size, case.length) for case in model_cases.CASES}
    assert sizes["training-base-4x512"] == (4, 512)
    small = _case("training-small-32x128")
    assert (small.model.hidden_size, small.model.num_layers) == (256, 6)
    assert (small.model.num_heads, small.model.intermediate_size) == (4, 1024)
    assert (small.batch_size, small.length, small.num_predictions) == (32, 128, 20)


def test_a_batch_is_the_same_in_every_process_and_fits_the_case():
    request = model_cases.make_request(
        model_cases.TINY, _implementation("albert_tf-float32")
    )
    batch = step_server.make_batch(json.loads(json.dumps(request)))
    assert batch == step_server.make_batch(request)
    for name, length in {
        "input_ids": 16,
        "input_mask": 16,
        "segment_ids": 16,
        "masked_lm_positions": 4,
        "masked_lm_ids": 4,
    }.items():
        assert [len(row) for row in batch[name]] == [length] * 3, name
    assert len(batch["pair_labels"]) == 3
    words = {word for name in ("input_ids", "masked_lm_ids") for word in batch[name][0]}
    assert words <= set(range(5, 50))
    assert batch["segment_ids"][0] == [0] * 8 + [1] * 8
    for positions in batch["masked_lm_positions"]:
        assert sorted(set(positions)) == positions
        assert set(positions) <= set(range(16))


def test_the_probe_counts_the_operations_of_its_product(monkeypatch):
    times = iter(range(1000))
    monkeypatch.setattr(matmul_probe.time, "perf_counter", lambda: next(times) * 0.5)
    monkeypatch.setattr(matmul_probe, "_NUM_REPEATS", 1)
    assert matmul_probe.MatrixProbe().rate("bfloat16") == 2 * 9_663_676_416


# What is compared.


def _outcome(name: str, seconds, rates, peak_bytes: int = 0) -> runner.Outcome:
    times = [
        runner.CallTimes(tuple(calls), tuple(around))
        for calls, around in zip(seconds, rates, strict=True)
    ]
    return runner.Outcome(_implementation(name), tuple(times), peak_bytes, 11.0, 60.0)


# Each round is slower than the one before, as under other load. A FLOP a second
# of the product is chosen such that a step of 1 s is at 80% of it.
_CASE = _case("inference-base-1x128")
_RATE = _CASE.flops / 0.8
_OUTCOMES = [
    _outcome(
        "albert_tf-float32",
        [(1.0, 1.2, 9.0), (2.0, 2.0, 2.0), (4.0, 4.0, 4.0)],
        [(_RATE, _RATE / 2), (_RATE / 2, _RATE / 2), (_RATE / 4, _RATE / 8)],
        2_500_000_000,
    ),
    _outcome(
        "transformers-eager-float32",
        [(1.8,), (5.0,), (7.0,)],
        [(_RATE, _RATE)] * 3,
        3_400_000_000,
    ),
    _outcome("keras_hub-jit-float32", [(1.5,), (2.4,), (8.0,)], [(_RATE, _RATE)] * 3),
]


def test_the_ratio_is_the_median_of_the_rounds_ratios_to_the_fastest_baseline():
    own, eager, keras = _OUTCOMES
    assert results.fastest_baseline(_OUTCOMES) is keras  # by medians: 2.4 and 5.0 s
    assert results.fastest_baseline([own]) is None
    assert results.median_seconds(own) == 2.0
    # 1.5 / 1.2, 2.4 / 2, 8 / 4.
    assert results.speed_ratio(own, keras) == pytest.approx(1.25)
    # 1.5 / 1.8, 2.4 / 5, 8 / 7.
    assert results.speed_ratio(eager, keras) == pytest.approx(1.5 / 1.8)
    # 0.8 / 1.2 of 0.75, 0.4 of 0.5, 0.2 of 0.1875: 0.889, 0.8, 1.067.
    assert results.matmul_share(_CASE, own) == pytest.approx(0.8 / 0.9)


def test_the_table_shows_times_rates_ratios_and_memory():
    lines = results.speed_table(_CASE, _OUTCOMES, {}).splitlines()
    assert lines[0] == (
        "inference-base-1x128, float32: 22.4 GFLOP; matrix product 28 GFLOP/s"
    )
    assert re.split(r"  +", lines[1].strip()) == [
        "ms",
        "best ms",
        "tokens/s",
        "of matmul",
        "x fastest baseline",
        "peak GB",
    ]
    assert [line.split() for line in lines[2:]] == [
        "albert_tf-float32 2,000.0 1,200.0 64 88.9% 1.25 2.50".split(),
        "transformers-eager-float32 5,000.0 1,800.0 26 16.0% 0.83 3.40".split(),
        "keras_hub-jit-float32 2,400.0 1,500.0 53 33.3% 1.00 ?".split(),
    ]


def test_without_a_baseline_the_table_shows_no_ratio():
    (row,) = results.speed_table(_CASE, _OUTCOMES[:1], {}).splitlines()[2:]
    assert row.split() == "albert_tf-float32 2,000.0 1,200.0 64 88.9% 2.50".split()


def test_the_memory_table_has_a_row_a_case_and_columns_by_remat():
    first, *_, last = model_cases.MEMORY_CASES
    rows = {first: {"none": _OUTCOMES[0], "block": _OUTCOMES[1]}, last: {}}
    table = results.memory_table(rows, ("none", "attention", "block"))
    names = "none GB  attention GB  block GB  none ms  attention ms  block ms"
    header, *body = table.splitlines()
    assert re.split(r"  +", header) == ["L", "B", "S", *re.split(r"  +", names)]
    assert [line.split() for line in body] == [
        "6 16 128 2.50 - 3.40 2,000.0 - 5,000.0".split(),
        "24 1 2048 - - - - - -".split(),
    ]


# The rounds, and what is missing.


class _FakeProcess:
    """Logs its rounds; after as many as `lasts` it fails."""

    ready = {"first_value": 4.5, "first_seconds": 2.0}

    def __init__(self, implementation, log, lasts):
        self.implementation, self.log, self.lasts = implementation, log, lasts

    def time_calls(self):
        if not self.lasts:
            raise rounds.Failure("it ended with code -9: it printed nothing")
        self.lasts -= 1
        self.log.append(self.implementation.family)
        return [0.25]

    def peak_bytes(self):
        return 7

    def close(self):
        self.log.append(f"close {self.implementation.family}")


def _measure(lasts: dict[str, int], num_rounds: int):
    """Implementations without a number of rounds cannot start."""
    log: list[str] = []
    rates = collections.Counter()

    def start(implementation, case):
        if implementation.name not in lasts:
            raise rounds.Failure("no wheel for torch==2.13.0")
        assert case is model_cases.TINY
        return _FakeProcess(implementation, log, lasts[implementation.name])

    def rate(dtype):
        rates[dtype] += 1
        log.append("probe")
        return 100.0 + sum(rates.values())

    names = ("albert_tf", "transformers-compiled", "keras_hub-jit")
    chosen = [_implementation(f"{name}-float32") for name in names]
    found = runner.measure(model_cases.TINY, chosen, num_rounds, rate, start)
    assert set(rates) <= {"float32"}
    return *found, log


def test_every_round_starts_with_another_implementation_and_probes_around_each():
    everyone = ("albert_tf", "transformers-compiled", "keras_hub-jit")
    outcomes, missing, log = _measure({f"{name}-float32": 9 for name in everyone}, 4)
    assert not missing
    order = " ".join(entry for entry in log if " " not in entry)
    assert order == " ".join(
        f"probe {family} probe"
        for family in (
            "albert_tf transformers keras_hub "
            "transformers keras_hub albert_tf "
            "keras_hub albert_tf transformers "
            "albert_tf transformers keras_hub"
        ).split()
    )
    own = outcomes[0]
    assert own.implementation.name == "albert_tf-float32"
    assert own.rounds[:2] == (
        runner.CallTimes((0.25,), (101.0, 102.0)),
        runner.CallTimes((0.25,), (111.0, 112.0)),
    )
    assert (own.peak_bytes, own.first_value, own.first_seconds) == (7, 4.5, 2.0)
    assert log[-3:] == [
        f"close {one}" for one in ("keras_hub", "transformers", "albert_tf")
    ]


def test_baselines_that_fail_are_named_in_a_line_each_and_the_others_are_measured():
    lasts = {"albert_tf-float32": 9, "keras_hub-jit-float32": 1}
    outcomes, missing, log = _measure(lasts, 3)
    assert [outcome.implementation.family for outcome in outcomes] == ["albert_tf"]
    assert len(outcomes[0].rounds) == 3
    lines = results.speed_table(model_cases.TINY, outcomes, missing).splitlines()
    assert lines[3:] == [
        "transformers-compiled-float32 is not measured: no wheel for torch==2.13.0",
        "keras_hub-jit-float32 is not measured: it ended with code -9: it printed "
        "nothing",
    ]
    assert results.to_dict(model_cases.TINY, outcomes, missing)["missing"] == missing
    assert {"close albert_tf", "close keras_hub"} <= set(log)


def test_where_all_fail_there_are_their_lines_and_no_table():
    outcomes, missing, _ = _measure({}, 2)
    table = results.speed_table(model_cases.TINY, outcomes, missing)
    assert table.count("is not measured: no wheel") == len(table.splitlines()) == 3


def test_a_process_that_ends_is_a_failure_with_its_last_line():
    broken = dataclasses.replace(
        _implementation("albert_tf-float32"), module="albert_tf.benchmarks.missing"
    )
    with pytest.raises(rounds.Failure) as raised:
        runner.Process(sys.executable, broken, model_cases.TINY)
    assert str(raised.value) == (
        "it ended with code 1: ModuleNotFoundError: No module named "
        "'albert_tf.benchmarks.missing'"
    )


def test_an_environment_that_cannot_be_made_is_a_failure_with_pips_line(
    tmp_path, monkeypatch
):
    script = tmp_path / ".ci" / "make_venv"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n[ ! -s constraints.txt ] || exit 5\n"
        "cat $2 >&2\necho 'ERROR: No matching distribution' >&2\n"
        "echo 'The installation failed.' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    (tmp_path / "requirements-bench-torch.txt").write_text("torch==1\n")
    monkeypatch.setattr(binaries_lib, "ROOT", tmp_path)
    assert runner.find_python("") == sys.executable
    with pytest.raises(rounds.Failure) as raised:
        runner.find_python("torch")
    assert str(raised.value) == (
        "requirements-bench-torch.txt could not be installed: "
        "ERROR: No matching distribution"
    )
    script.write_text("#!/bin/sh\nexit 0\n")
    python = tmp_path / "build" / "bench-torch" / "venv" / "bin" / "python"
    assert runner.find_python("torch") == str(python)


# The binary.


def _run_with(monkeypatch, start, *arguments: object) -> None:
    monkeypatch.setattr(runner, "start_process", start)
    binaries.run(bench_model, "--rounds=1", *arguments)


@pytest.mark.usefixtures("small_probe")
def test_the_binary_says_that_baselines_are_missing(monkeypatch, capsys):
    log: list[str] = []

    def start(implementation, case):
        if implementation.is_baseline:
            raise rounds.Failure("no network")
        return _FakeProcess(implementation, log, 9)

    arguments = ("--cases=*-1x128", "--implementations=albert_tf-*,*-graph-bfloat16")
    _run_with(monkeypatch, start, *arguments)
    lines = capsys.readouterr().out.splitlines()
    absent = [line for line in lines if "keras" in line]
    assert absent == ["keras_hub-graph-bfloat16 is not measured: no network"]
    assert log.count("albert_tf") == 2  # one in each precision
    _run_with(monkeypatch, start, *arguments, "--no_baselines")
    output = capsys.readouterr().out
    assert "The baselines are omitted, as --no_baselines asks." in output
    assert "keras" not in output


@pytest.mark.usefixtures("small_probe")
def test_where_our_own_model_fails_the_binary_fails(monkeypatch, capsys):
    def start(implementation, case):
        raise rounds.Failure("out of memory")

    monkeypatch.setattr(runner, "start_process", start)
    arguments = ("--rounds=1", "--cases=*-1x128", "--no_baselines")
    error = binaries.error_of(capsys, bench_model, *arguments)
    assert error == (
        "albert_tf-bfloat16, albert_tf-float32 could not be measured; see above"
    )


@pytest.mark.usefixtures("small_probe")
def test_memory_is_measured_for_each_depth_and_form_in_a_process_of_its_own(
    monkeypatch, capsys
):
    started = []

    def start(implementation, case):
        started.append((case.name, implementation.options["train"]))
        return _FakeProcess(implementation, [], 1)

    arguments = ("--memory", "--implementations=*-float32", "--cases=memory-*-4x512")
    _run_with(monkeypatch, start, *arguments)
    assert started == [
        (f"memory-{depth}-4x512", train)
        for depth in (6, 12, 24)
        for train in (
            {"remat": "none"},
            {"remat": "attention"},
            {"remat": "block"},
            {"queries_at_once": 128},
            {"remat": "block", "queries_at_once": 128},
        )
    ]
    output = capsys.readouterr().out
    assert "A training step in float32, by train.remat; parts: 128 queries" in output
    assert "bfloat16" not in output


def test_a_name_that_fits_none_is_an_error_that_lists_the_names(capsys):
    error = binaries.error_of(capsys, bench_model, "--cases=huge*")
    assert error.startswith("--cases must match one of training-base-16x128, ")
    assert error.endswith("inference-base-1x128; received 'huge*'")
    error = binaries.error_of(capsys, bench_model, "--implementations=jax")
    assert "albert_tf-float32, transformers-eager-float32" in error


# The baselines.


def _imports(path: pathlib.Path) -> set[str]:
    name = path.relative_to(project_files.ROOT).as_posix()
    found = project_files.imports_of(name, path.read_text())
    return {item.module.split(".")[0] for item in found}


def test_what_runs_in_the_baselines_environments_imports_nothing_of_this_project():
    for name in (
        "transformers_training",
        "transformers_serving",
        "keras_hub_training",
    ):
        assert "albert_tf" not in _imports(_BENCHMARKS / f"{name}.py")
    assert _imports(_BENCHMARKS / "step_server.py") <= sys.stdlib_module_names


def test_every_implementation_names_a_module_with_a_build_step_and_an_environment():
    for implementation in model_cases.IMPLEMENTATIONS:
        path = project_files.ROOT / f"{implementation.module.replace('.', '/')}.py"
        functions = {
            node.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
        assert "build_step" in functions
        assert implementation.environment in (*_ENVIRONMENTS, "")
        assert (implementation.environment == "") == (not implementation.is_baseline)
    names = [implementation.name for implementation in model_cases.IMPLEMENTATIONS]
    assert len(set(names)) == len(names)


def test_the_baselines_packages_are_pinned_exactly():
    for environment in _ENVIRONMENTS:
        path = project_files.ROOT / f"requirements-bench-{environment}.txt"
        lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
        pins = [line for line in lines if line]
        assert len(pins) > 10
        for pin in pins:
            assert re.fullmatch(r"[\w-]+==[\w.]+", pin), pin


# Our own model, really.


@pytest.mark.slow
@pytest.mark.usefixtures("small_probe")
def test_our_own_train_step_is_timed_in_rounds(tmp_path):
    path = tmp_path / "times.json"
    arguments = ("--no_baselines", "--cases=training-tiny-3x16", "--rounds=2")
    binaries.run(bench_model, *arguments, f"--json={path}")
    measured = json.loads(path.read_text())
    outcomes = [outcome for entry in measured for outcome in entry["outcomes"]]
    dtypes = [outcome["contestant"]["dtype"] for outcome in outcomes]
    assert dtypes == ["float32", "bfloat16"]
    for outcome in outcomes:
        assert [len(turn["seconds"]) for turn in outcome["turns"]] == [2, 2]
        assert all(
            second > 0 for turn in outcome["turns"] for second in turn["seconds"]
        )
        # A model that knows nothing: 50 words and two orders, alike.
        assert outcome["first_value"] == pytest.approx(math.log(50 * 2), abs=0.1)
    if sys.platform == "linux":
        assert all(outcome["peak_bytes"] > 100e6 for outcome in outcomes)
