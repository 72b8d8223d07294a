"""The speed of an exported model, compared with other libraries'."""

import dataclasses
import importlib.util
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.benchmarks import matmul_probe, model_cases, results, runner
from albert_tf.core import binaries, config_io
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.interchange import native, portable, weight_map, weight_names

_LENGTH = 128
_PARTS = (
    portable.ENCODER,
    portable.POOLER,
    portable.MASKED_LM,
    portable.SENTENCE_ORDER,
)
_VOCAB_SIZE = 2000
# Of the sum of two hidden values, which are of the order of 1.
_MAX_DIFFERENCE = 1e-3
_MAX_DIFFERENCE_ROUNDED = 0.5
# So that a round at batch 1 does not find cold caches only.
_CALLS_AT_BATCH_1 = 10
# Its weight matrices have eight bits, everything else is float32.
_LITE = "lite"
_OPENVINO = "openvino"
# Products of eight bits, everything else is float32.
_INT8 = "openvino-int8"
_ONNX_INT8 = "onnxruntime-int8"
# Forms that round, and may differ by more.
_ROUNDED = (_LITE, _INT8, _ONNX_INT8)


def write_random_run(folder: str, model: config_lib.ModelConfig) -> str:
    """Writes a run directory with randomly initialized weights; returns its path.

    All weights are random, biases too: zeros would be removed from a graph. The
    vocabulary is trained on this project's documentation.

    Raises:
      ValueError: that failed.
    """
    vocab = os.path.join(folder, "vocab.model")
    binaries.run_module(
        "data_prep.train_vocab",
        f"--input={binaries.ROOT / 'docs' / '*.md'}",
        f"--output={vocab}",
        f"--vocab_size={model.vocab_size}",
    )
    random_model = portable.PortableModel(
        model, _random_weights(model), vocab=pathlib.Path(vocab).read_bytes()
    )
    run = os.path.join(folder, "run")
    os.mkdir(run)
    recipe = config_lib.Config(
        data=config_lib.DataConfig(max_seq_length=min(_LENGTH, model.max_positions))
    )
    native.write(random_model, run, recipe, weight_map.ConversionReport())
    return run


def _random_weights(model: config_lib.ModelConfig) -> dict[str, np.ndarray]:
    """The weights of encoder and heads, by name."""
    rng = np.random.default_rng(1)
    weights = {}
    for name, shape in weight_names.shapes_of(model, _PARTS).items():
        weight = rng.normal(0.0, model.initializer_range, shape)
        weights[name] = (weight + name.endswith("/gamma")).astype(np.float32)
    return weights


def make_implementations(
    run: str, folder: str, length: int, with_baselines: bool
) -> list[model_cases.Implementation]:
    """Exports and converts a run; returns the implementations of it.

    Args:
      run: its directory.
      folder: where the exported models are written.
      length: of its sequences, in tokens.
      with_baselines: whether to include those of other libraries.

    Raises:
      ValueError: the run cannot be exported or converted.
    """
    text = os.path.join(folder, "text")
    pathlib.Path(text).write_text(_long_text(length))
    converted = {}
    for form in ("hf", "keras") if with_baselines else ():
        converted[form] = os.path.join(folder, form)
        binaries.run_module(
            "albert_tf.convert", f"--from=run:{run}", f"--to={form}:{converted[form]}"
        )
    implementations = []
    for dtype in model_cases.DTYPES:
        precision = f"--compute_dtype={dtype}"
        forms = [("", "albert_tf_serving", _export(run, folder, dtype, precision))]
        if importlib.util.find_spec(_OPENVINO):
            flags = f"--form={_OPENVINO}", precision
            path = _export(run, folder, f"{_OPENVINO}-{dtype}", *flags)
            forms.append((_OPENVINO, "albert_tf_serving", path))
        if dtype == model_cases.FLOAT32:
            path = _export(run, folder, _LITE, f"--form={_LITE}")
            forms.append((_LITE, "albert_tf_tflite", path))
        elif importlib.util.find_spec("nncf"):
            # Shown beside bfloat16, which it is an alternative to.
            calibration = os.path.join(folder, "examples")
            pathlib.Path(calibration).write_text("\n".join(_short_texts()))
            path = _export(
                run,
                folder,
                _INT8,
                f"--form={_OPENVINO}",
                "--compute_dtype=int8",
                f"--calibration_input={calibration}",
            )
            forms.append((_INT8, "albert_tf_serving", path))
        implementations += [
            _implementation(
                model_cases.ALBERT_TF, form, dtype, module, folder=path, text=text
            )
            for form, module, path in forms
        ]
        if with_baselines:
            implementations += _baselines(dtype, converted, text)
    return implementations


def _short_texts() -> list[str]:
    """Lines of the documentation with some words, to calibrate eight bits with."""
    lines = (binaries.ROOT / "docs" / "training.md").read_text().splitlines()
    return [line.replace("\t", " ") for line in lines if len(line.split()) > 8][:200]


def _baselines(
    dtype: str, converted: Mapping[str, str], text: str
) -> Iterator[model_cases.Implementation]:
    onnx = "onnxruntime" if dtype == model_cases.FLOAT32 else _ONNX_INT8
    for form, variables in (
        ("eager", {}),
        ("tuned", model_cases.TUNED_MALLOC),
        ("compiled", model_cases.TUNED_MALLOC),
        (onnx, {}),
    ):
        baseline = _implementation(
            "transformers",
            form,
            dtype,
            "transformers_serving",
            folder=converted["hf"],
            text=text,
            engine=form,
        )
        yield dataclasses.replace(baseline, environment="torch", variables=variables)
    baseline = _implementation(
        "keras_hub",
        "jit",
        dtype,
        "keras_hub_serving",
        folder=converted["keras"],
        text=text,
    )
    yield dataclasses.replace(baseline, environment="keras")


def _export(run: str, folder: str, name: str, *flags: str) -> str:
    """The directory below `folder` that a run was exported to."""
    path = os.path.join(folder, name)
    directories = f"--model_dir={run}", f"--output_dir={path}"
    binaries.run_module("albert_tf.export", *directories, *flags)
    return path


def _implementation(
    family: str, form: str, dtype: str, module: str, **options
) -> model_cases.Implementation:
    module = f"albert_tf.benchmarks.{module}"
    tasks = (model_cases.SERVING,)
    return model_cases.Implementation(family, form, dtype, module, "", options, tasks)


def _long_text(length: int) -> str:
    """Words of the documentation that give at least `length` tokens."""
    words = (binaries.ROOT / "README.md").read_text().split()
    # Code is omitted: transformers normalizes some of its characters to quotes.
    # KerasHub's tokenizer leaves it to its callers to lower-case.
    plain = [word.lower() for word in words if word.isalpha()]
    return " ".join((plain * (1 + length // len(plain)))[:length])


def check_same_outputs(outcomes: Sequence[runner.Outcome]) -> None:
    """Raises ValueError where implementations of one precision computed other numbers.

    Where weights are rounded, to bfloat16 or to eight bits, the numbers may differ by
    more.
    """
    values = [one.first_value for one in outcomes]
    for one in outcomes:
        is_float32 = one.implementation.dtype == model_cases.FLOAT32
        is_exact = is_float32 and one.implementation.form not in _ROUNDED
        limit = _MAX_DIFFERENCE if is_exact else _MAX_DIFFERENCE_ROUNDED
        if abs(one.first_value - values[0]) > limit:
            raise ValueError(
                "all implementations must compute the same; the sums of their first "
                f"outputs are {', '.join(map(str, values))}"
            )


def ratios(outcomes: Sequence[runner.Outcome]) -> list[str]:
    """The speed of this project's model relative to each baseline, in a line each."""
    own = [one for one in outcomes if not one.implementation.is_baseline]
    baselines = [one for one in outcomes if one.implementation.is_baseline]
    return [
        f"{one.implementation.name}: {results.speed_ratio(one, baseline):.2f} times "
        f"the speed of {baseline.implementation.name}"
        for one in own
        for baseline in baselines
    ]


def measure(
    run: str, batch_sizes: Sequence[int], num_rounds: int, with_baselines: bool
) -> list[dict[str, Any]]:
    """Exports a model, times it, and prints a table for each batch size and precision.

    Args:
      run: directory of a pre-training; empty means a model of base size with random
        weights.
      batch_sizes: texts of a call.
      num_rounds: how often each implementation is timed.
      with_baselines: whether to time other libraries too.

    Returns:
      For each batch size and precision, `results.to_dict` of its outcomes.

    Raises:
      ValueError: the run cannot be exported, this project's model could not be
        measured, or implementations disagree.
    """
    measured = []
    probe = matmul_probe.MatrixProbe()
    with tempfile.TemporaryDirectory(prefix="bench_serve") as folder:
        base = config_lib.ModelConfig(vocab_size=_VOCAB_SIZE)
        run = run or write_random_run(folder, base)
        config = config_io.read(os.path.join(run, schema.CONFIG_FILE))
        length = config.data.max_seq_length
        implementations = make_implementations(run, folder, length, with_baselines)
        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        for batch_size in batch_sizes:
            case = _case(config, batch_size)
            for dtype in model_cases.DTYPES:
                group = [one for one in implementations if one.dtype == dtype]
                outcomes, missing = runner.measure(
                    case, group, num_rounds, probe.rate, runner.start_process
                )
                print(f"\n{results.speed_table(case, outcomes, missing)}")
                print("\n".join(ratios(outcomes)), flush=True)
                check_same_outputs(outcomes)
                for one in group:
                    if one.name in missing and not one.is_baseline:
                        raise ValueError(f"{one.name} could not be measured")
                named = [_without_folder(outcome) for outcome in outcomes]
                measured.append(results.to_dict(case, named, missing))
    return measured


def _without_folder(outcome: runner.Outcome) -> runner.Outcome:
    """An outcome whose options are names, since the temporary folder is removed."""
    implementation = outcome.implementation
    options = {
        name: os.path.basename(value) for name, value in implementation.options.items()
    }
    return dataclasses.replace(
        outcome, implementation=dataclasses.replace(implementation, options=options)
    )


def _case(config: config_lib.Config, batch_size: int) -> model_cases.Case:
    length = config.data.max_seq_length
    return model_cases.Case(
        f"serving-{batch_size}x{length}",
        model_cases.SERVING,
        config.model,
        batch_size,
        length,
        num_predictions=1,  # of the batch of ids, which serving does not use
        num_calls=_CALLS_AT_BATCH_1 if batch_size == 1 else 1,
    )
