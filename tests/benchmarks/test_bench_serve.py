"""The benchmark of exported models: what it measures, and what it refuses."""

import contextlib
import importlib.util
import io
import json
import re

import pytest

from albert_tf import bench_serve
from albert_tf.benchmarks import matmul_probe, model_cases, runner, serving_benchmark
from albert_tf.core import binaries as binaries_lib
from albert_tf.core import config, tool_environment
from tests.support import binaries

TINY = config.ModelConfig(
    vocab_size=500,
    embedding_size=6,
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    intermediate_size=16,
    max_positions=16,
)
# Which environments of the baselines there are: PyTorch with ONNX Runtime, and Keras.
IS_MADE = {
    name: tool_environment.is_made(
        binaries_lib.ROOT / "build" / f"bench-{name}", f"requirements-bench-{name}.txt"
    )
    for name in ("torch", "keras")
}
# Those that are quick.
BASELINES = ("onnxruntime", "onnxruntime-int8", "jit")


def outcome(family, seconds, value=1.0, dtype="float32", form=""):
    implementation = model_cases.Implementation(
        family, form, dtype, "", "", {}, (model_cases.SERVING,)
    )
    times = tuple(runner.CallTimes((one,), (1e9,)) for one in seconds)
    return runner.Outcome(implementation, times, 0, value, 1.0)


def run_in_this_process(module: str, *arguments: str) -> None:
    """Does what the binary does, without importing TensorFlow again."""
    binaries.run(importlib.import_module(module), *arguments)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What the benchmark prints of a tiny model, and the values of its JSON."""
    original, out = serving_benchmark._baselines, io.StringIO()
    path = tmp_path_factory.mktemp("figures") / "speed.json"
    flags = ["--batch_sizes=2", "--rounds=1", f"--json={path}"]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        for name in ("_ROWS", "_INNER", "_COLUMNS"):  # of the product that is timed
            patch.setattr(matmul_probe, name, 8)
        patch.setattr(binaries_lib, "run_module", run_in_this_process)
        # Of other libraries only what is quick, and nothing is installed.
        patch.setattr(
            serving_benchmark,
            "_baselines",
            lambda *args: (
                one
                for one in original(*args)
                if one.form in BASELINES and IS_MADE[one.environment]
            ),
        )
        patch.setattr(
            tool_environment,
            "make",
            lambda folder, requirements: str(tool_environment.python_of(folder)),
        )
        run = serving_benchmark.write_random_run(
            str(tmp_path_factory.mktemp("random")), TINY
        )
        flags += [] if any(IS_MADE.values()) else ["--no_baselines"]
        binaries.run(bench_serve, f"--model_dir={run}", *flags)
    return out.getvalue(), json.loads(path.read_text())


@pytest.fixture
def printed(measured):
    """What the benchmark prints."""
    return measured[0]


def assert_has_row(printed: str, name: str, dtype: str) -> None:
    """Asserts that an implementation was timed, in the table of its precision."""
    _, _, table = printed.partition(f"serving-2x16, {dtype}: ")
    table, _, _ = table.partition("\n\n")
    assert re.search(rf"^{name}-{dtype} +[\d.]+ +[\d.]+ +[\d,]+ ", table, re.MULTILINE)


@pytest.mark.slow
def test_a_random_model_is_exported_and_timed_from_strings(printed):
    for dtype in model_cases.DTYPES:
        assert_has_row(printed, "albert_tf", dtype)
    assert_has_row(printed, "albert_tf-lite", "float32")


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="OpenVINO is not installed"
)
def test_openvino_has_a_row_in_each_precision(printed):
    for dtype in model_cases.DTYPES:
        assert_has_row(printed, "albert_tf-openvino", dtype)
    assert_has_row(printed, "albert_tf-openvino-int8", "bfloat16")


@pytest.mark.slow
def test_the_json_has_each_time_and_no_path_of_this_machine(measured):
    _, values = measured
    found = [(group["case"]["name"], len(group["outcomes"])) for group in values]
    assert [name for name, _ in found] == ["serving-2x16"] * 2
    assert all(number >= 1 for _, number in found)
    for outcome in (one for group in values for one in group["outcomes"]):
        assert all(second > 0 for one in outcome["turns"] for second in one["seconds"])
        assert outcome["contestant"]["options"]["text"] == "text"
        assert "/" not in outcome["contestant"]["options"]["folder"]


@pytest.mark.slow
@pytest.mark.skipif(not IS_MADE["keras"], reason="`make bench-serve` makes its Keras")
def test_keras_hub_computes_the_same(printed):
    for dtype in model_cases.DTYPES:
        assert_has_row(printed, "keras_hub-jit", dtype)


@pytest.mark.slow
@pytest.mark.skipif(not IS_MADE["torch"], reason="`make bench-serve` makes its PyTorch")
def test_onnx_runtime_computes_the_same_and_has_its_ratio(printed):
    # The benchmark ends with an error where numbers differ.
    for form, dtype in (("onnxruntime", "float32"), ("onnxruntime-int8", "bfloat16")):
        assert_has_row(printed, f"transformers-{form}", dtype)
        ratio = (
            rf"albert_tf-{dtype}: [\d.]+ times the speed of transformers-{form}-{dtype}"
        )
        assert re.search(rf"^{ratio}$", printed, re.MULTILINE)


def test_each_baseline_has_its_ratio():
    own, other = outcome("albert_tf", [1.0, 2.0]), outcome("other", [3.0, 8.0])
    assert serving_benchmark.ratios([own, other]) == [
        "albert_tf-float32: 3.50 times the speed of other-float32"
    ]
    assert serving_benchmark.ratios([other]) == []


def test_models_that_compute_different_things_are_not_compared():
    own = outcome("albert_tf", [1.0], 0.25)
    serving_benchmark.check_same_outputs([own, outcome("other", [1.0], 0.2501)])
    # Rounded weights may give something else, but not anything.
    for rounded in (
        outcome("other", [1.0], 0.3, "bfloat16"),
        outcome("albert_tf", [1.0], 0.3, form="lite"),
        outcome("other", [1.0], 0.3, form="onnxruntime-int8"),
    ):
        serving_benchmark.check_same_outputs([own, rounded])
    for wrong in (
        outcome("other", [1.0], 0.3),
        outcome("other", [1.0], 0.3, form="onnxruntime"),
        outcome("albert_tf", [1.0], 1.3, form="lite"),
    ):
        with pytest.raises(ValueError, match="must compute the same.*0.25, "):
            serving_benchmark.check_same_outputs([own, wrong])


@pytest.mark.parametrize("size", ["0", "-1", "many"])
def test_sizes_of_batches_are_numbers(capsys, size):
    error = binaries.error_of(capsys, bench_serve, f"--batch_sizes=1,{size}")
    assert f"--batch_sizes must be numbers from 1 on; received '{size}'" in error
