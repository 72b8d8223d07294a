"""Runs of an exported train step by JAX: time, memory and utilization.

It needs JAX, NumPy and absl, and no TensorFlow.
"""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.export
import jax.interpreters.mlir as jax_mlir
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir.dialects import stablehlo

from albert_tf.devices import peak_table
from albert_tf.planning import exported_step

# The first step may still allocate.
_NUM_WARM_UPS = 2
# Lower ids are special tokens in the vocabularies of ALBERT.
_FIRST_WORD_ID = 5


def run(
    folder: str,
    num_steps: int,
    platform: str = "",
    peak_teraflops: float = 0.0,
    seed: int = 0,
) -> dict[str, Any]:
    """Compiles an exported step, and takes steps with one batch.

    The weights are drawn as `exported_step.Argument` says, the batch as `draw_batch`.

    Args:
      folder: what `step_export.export_step` wrote.
      num_steps: how many are timed, first each by itself, then in a queue.
      platform: "cpu", or empty for an accelerator.
      peak_teraflops: peak of the device in bfloat16; 0: that of the known device.
      seed: of weights and batch.

    Returns:
      Values that JSON can hold: `device`, `jax`, the step's shape and settings; seconds
      to compile; `step_ms` (median, min, max of steps that are waited for each) and
      `queued_step_ms` (the mean of steps that follow each other without waiting);
      `tokens_per_second` and `model_flops_per_second` of the latter, and its
      `share_of_peak` (None if the peak is unknown); bytes by the compiler's plan, and
      `peak_bytes` in use by the device's allocator (None on a CPU); `first_loss` and
      `last_loss` in nats, and `num_skipped` steps.

    Raises:
      ValueError: there is no exported step, no accelerator, or too little memory.
    """
    step, program = exported_step.read(folder)
    # Before JAX looks for devices; the optimizer's step number is an int64.
    jax.config.update("jax_enable_x64", True)
    if platform:
        jax.config.update("jax_platforms", platform)
    device = jax.devices()[0]
    if device.platform == "cpu" and platform != "cpu":
        raise ValueError(
            "JAX finds no accelerator, only a CPU; install JAX for this machine's "
            "accelerator, or pass --platform=cpu"
        )
    with _naming_full_memory():
        arrays = draw_arguments(step, seed)
        compiled, compile_seconds = _compile(step, program, arrays)
        timings = _time_steps(step, compiled, arrays, num_steps)
    seconds = timings["queued_step_ms"] / 1e3
    peak = 1e12 * (peak_teraflops or peak_table.of_gpu(device.device_kind))
    memory = device.memory_stats() or {}
    return {
        "device": device.device_kind,
        "jax": jax.__version__,
        **_settings(step),
        "compile_seconds": compile_seconds,
        **timings,
        "tokens_per_second": step.num_tokens / seconds,
        "model_flops": step.model_flops,
        "model_flops_per_second": step.model_flops / seconds,
        "share_of_peak": step.model_flops / seconds / peak if peak else None,
        "planned_bytes": _planned_bytes(compiled),
        "peak_bytes": memory.get("peak_bytes_in_use"),
    }


def _settings(step: exported_step.ExportedStep) -> dict[str, Any]:
    model, train = step.config["model"], step.config["train"]
    return {
        **{name: model[name] for name in ("hidden_size", "num_layers", "sharing")},
        "batch_size": train["batch_size"],
        **{
            name: step.config["data"][name]
            for name in ("max_seq_length", "pack_sequences")
        },
        **{
            name: train[name]
            for name in ("compute_dtype", "remat", "accumulation_steps")
        },
    }


@contextlib.contextmanager
def _naming_full_memory() -> Iterator[None]:
    """Raises a ValueError with the remedy if the device's memory is full."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        first_line = str(error).partition("\n")[0]
        if "RESOURCE_EXHAUSTED" not in first_line:
            raise
        raise ValueError(
            f"the step does not fit into the device's memory: {first_line}. Export it "
            "with a smaller --global_batch, --set train.remat=block, or more "
            "train.accumulation_steps"
        ) from error


# ---- Arguments ----


def draw_arguments(step: exported_step.ExportedStep, seed: int) -> list[jax.Array]:
    """Returns the arguments of the first step, on the device."""
    batch = draw_batch(step, seed)
    key = jax.random.key(seed)
    arrays = []
    for index, argument in enumerate(step.arguments):
        if argument.is_feature:
            array = jnp.asarray(batch[argument.name], argument.dtype)
        elif argument.fill is not None:
            array = jnp.full(argument.shape, argument.fill, argument.dtype)
        else:
            part = jax.random.fold_in(key, index)
            drawn = jax.random.truncated_normal(
                part, -2.0, 2.0, argument.shape, argument.dtype
            )
            array = drawn * jnp.asarray(argument.stddev, argument.dtype)
        arrays.append(array)
    return arrays


def draw_batch(step: exported_step.ExportedStep, seed: int) -> dict[str, np.ndarray]:
    """Returns random words without padding, in two segments of half the length.

    The features of `albert_tf.data.schema.model_features`, with a batch axis.
    """
    generator = np.random.default_rng(seed)
    shapes = {one.name: one.shape for one in step.arguments if one.is_feature}
    vocab_size = step.config["model"]["vocab_size"]
    batch_size, length = shapes["input_ids"]
    _, num_predictions = shapes["masked_lm_ids"]

    def words(name: str) -> np.ndarray:
        return generator.integers(_FIRST_WORD_ID, vocab_size, shapes[name])

    order = generator.permuted(np.tile(np.arange(length), (batch_size, 1)), axis=1)
    # A packed row has several full sequences; otherwise a row is one.
    sequence, place = np.divmod(
        np.arange(length), step.config["data"]["max_seq_length"]
    )
    second = place >= (place.max() + 1) // 2
    of_rows = {
        "input_mask": np.ones(length),
        "sequence_numbers": 1 + sequence,
        "position_ids": place,
    }
    if "first_positions" in shapes:
        first = np.zeros(shapes["first_positions"][1:])
        starts = np.flatnonzero(place == 0)
        first[: len(starts)] = starts
        of_rows["first_positions"] = first
    return {
        "input_ids": words("input_ids"),
        **{
            name: np.broadcast_to(values, shapes[name])
            for name, values in of_rows.items()
            if name in shapes
        },
        "segment_ids": np.broadcast_to(second, shapes["segment_ids"]),
        "masked_lm_positions": np.sort(order[:, :num_predictions], axis=1),
        "masked_lm_ids": words("masked_lm_ids"),
        "masked_lm_weights": np.ones(shapes["masked_lm_weights"]),
        "next_sentence_labels": generator.integers(
            0, 2, shapes["next_sentence_labels"]
        ),
    }


# ---- The program ----


def _compile(step: exported_step.ExportedStep, program: str, arrays):
    """Returns the compiled step, and the seconds that compiling took.

    It takes the arguments, of which it overwrites the variables, and returns a list of
    the outputs.
    """
    donated = tuple(o.argument for o in step.outputs if o.argument is not None)
    started = time.perf_counter()
    lowered = jax.jit(as_function(step, program), donate_argnums=donated).lower(*arrays)
    return lowered.compile(), time.perf_counter() - started


def as_function(step: exported_step.ExportedStep, program: str):
    """Returns the program as a function that JAX can compile for the default device."""

    # A function of the same signature, whose program is then replaced.
    def same_signature(*_):
        return [jnp.zeros(one.shape, one.dtype) for one in step.outputs]

    arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in step.arguments]
    exported = jax.export.export(jax.jit(same_signature))(*arguments)
    exported = dataclasses.replace(
        exported,
        mlir_module_serialized=_portable_artifact(program),
        module_kept_var_idx=tuple(range(len(arguments))),
    )
    return exported.call


def _portable_artifact(program: str) -> bytes:
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context:
        module = jax_mlir.ir.Module.parse(program)
        version = stablehlo.get_current_version()
        return stablehlo.serialize_portable_artifact(module, version)


def _planned_bytes(compiled) -> dict[str, int]:
    """Returns the compiler's memory: outputs that overwrite arguments count once."""
    plan = compiled.memory_analysis()
    parts = {
        "arguments": plan.argument_size_in_bytes,
        "outputs": plan.output_size_in_bytes - plan.alias_size_in_bytes,
        "temporaries": plan.temp_size_in_bytes,
        "code": plan.generated_code_size_in_bytes,
    }
    return {**parts, "total": sum(parts.values())}


# ---- Steps ----


def _time_steps(
    step: exported_step.ExportedStep, compiled, arrays: list[jax.Array], num_steps: int
) -> dict[str, Any]:
    """Takes steps with the same batch, each with the variables of the one before."""
    loss_at = step.output_index(exported_step.LOSS)
    bad_at = step.output_index(exported_step.IS_BAD)
    losses, bad = [], []

    def take_step() -> None:
        outputs = compiled(*arrays)
        for output, value in zip(step.outputs, outputs, strict=True):
            if output.argument is not None:
                arrays[output.argument] = value
        losses.append(outputs[loss_at])
        bad.append(outputs[bad_at])

    def seconds_of(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            take_step()
        jax.block_until_ready(arrays)
        return time.perf_counter() - started

    seconds_of(_NUM_WARM_UPS)
    each = [1e3 * seconds_of(1) for _ in range(num_steps)]
    queued = 1e3 * seconds_of(num_steps) / num_steps
    return {
        "num_steps": num_steps,
        "step_ms": {
            "median": statistics.median(each),
            "min": min(each),
            "max": max(each),
        },
        "queued_step_ms": queued,
        "first_loss": float(losses[0]),
        "last_loss": float(losses[-1]),
        "num_skipped": int(sum(map(float, bad))),
    }
