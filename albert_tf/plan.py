r"""Plans a run on an accelerator, and exports its train step to run it elsewhere.

python -m albert_tf.plan --config=configs/albert_xxlarge.py --accelerator=v3-512 \
    --global_batch=4096 --set train.compute_dtype=bfloat16 [--largest_batches]
python -m albert_tf.plan --export_step=FOLDER --config=configs/albert_base.py \
    --global_batch=64 [--set train.compute_dtype=bfloat16 ...]
python -m albert_tf.plan --run_exported=FOLDER [--platform=cpu] [--json=FILE]

The first needs no accelerator: for a TPU its compiler says what the step needs, in an
environment that --install_tools makes (requirements-plan.txt); for others memory and
traffic are counted. It prints memory, the least time of a step, hours and price. The
second writes the whole step, from forward pass to optimizer, as one StableHLO program.
The third needs JAX, NumPy and absl only (requirements-jax.txt): it compiles the
program, repeats it with one batch, and prints time, memory and utilization.
"""

import importlib.util
import json
import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files
from albert_tf.devices import chip_table
from albert_tf.planning import (
    compiled_step,
    plan_text,
    published_runs,
    run_plan,
    size_table,
)

_MODES = ("accelerator", "export_step", "run_exported", "fill_table")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "export_step", "", "Directory that the step is written to.", flag_values
    )
    flags.DEFINE_string(
        "config", "", "Recipe (configs/NAME.py) or a config.json.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )
    flags.DEFINE_integer(
        "global_batch",
        None,
        "Sequences of a step on all devices; the default is the recipe's batch size.",
        1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "run_exported", "", "Directory of an exported step, to run it.", flag_values
    )
    flags.DEFINE_enum(
        "platform",
        "",
        ["", "cpu"],
        "Where to run: cpu, or by default an accelerator.",
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "num_steps", 20, "Steps that are timed.", 1, flag_values=flag_values
    )
    flags.DEFINE_float(
        "peak_teraflops",
        0.0,
        "Peak of one device in bfloat16, for the utilization; known for many GPUs.",
        lower_bound=0.0,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "json", "", "File for the figures of a run or a plan.", flag_values
    )
    _define_plan_flags(flag_values)


def _define_plan_flags(flag_values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "accelerator",
        "",
        "Plans a run there: v2-N to v6e-N, a100-N, h100-N, h200-N or cpu. N counts "
        "cores for v2, v3, v4 and v5p, else chips.",
        flag_values,
    )
    flags.DEFINE_float(
        "utilization",
        run_plan.DEFAULT_UTILIZATION,
        "The least time of a step by its real time: what is planned with.",
        1e-6,
        1.0,
        flag_values=flag_values,
    )
    flags.DEFINE_float(
        "price_per_hour", 0.0, "Of one chip.", 0.0, flag_values=flag_values
    )
    flags.DEFINE_bool(
        "largest_batches",
        False,
        "Also search the largest batch for each train.remat and precision: some "
        "twenty compilations of about a minute.",
        flag_values,
    )
    cli.define_list(
        "packings",
        [],
        "Values of data.pack_sequences for --largest_batches; the default is the "
        "recipe's.",
        flag_values,
    )
    flags.DEFINE_string(
        "tools",
        "build/plan",
        "Directory of the TPU compiler's environment and of its results, which are "
        "kept.",
        flag_values,
    )
    flags.DEFINE_bool(
        "install_tools",
        False,
        "Makes that environment if there is none (about 1.2 GB).",
        flag_values,
    )
    flags.DEFINE_string(
        "fill_table",
        "",
        "File of the table in docs/planning.md: compiles what it lacks.",
        flag_values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Plans, exports or runs, as the flags say."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        asked = [mode for mode in _MODES if flag_values[mode].value]
        if len(asked) != 1:
            raise ValueError(
                "give one of "
                f"{', '.join(f'--{mode}' for mode in _MODES)}; received {len(asked)}"
            )
        modes = (_plan, _export, _run, _fill_table)
        dict(zip(_MODES, modes, strict=True))[asked[0]](flag_values)


def _plan(flag_values: flags.FlagValues) -> None:
    accelerator = chip_table.find(flag_values.accelerator)
    config = config_io.load(flag_values.config, flag_values.set)
    config.check_pretraining()
    config = run_plan.longest_stage(config)
    request = run_plan.Request(
        config,
        accelerator,
        flag_values.global_batch or config.train.batch_size,
        flag_values.utilization,
        flag_values.price_per_hour,
    )
    packings = _packings(flag_values.packings) or (config.data.pack_sequences,)
    _ = request.rows  # an error now, and not after an installation
    if not accelerator.chip.topology:
        if flag_values.largest_batches:
            raise ValueError(
                "--largest_batches needs a compiler, which there is for TPUs; received "
                f"--accelerator={accelerator.name}"
            )
        plan = run_plan.make_plan(request, None, _say)
    else:
        compiler = _compiler(flag_values)
        plan = run_plan.make_plan(request, compiler, _say)
        if flag_values.largest_batches:
            plan["largest_batches"] = run_plan.largest_batches(
                request, compiler, packings, _say
            )
    print(plan_text.show(plan))
    if flag_values.json:
        files.write_json(flag_values.json, plan)


def _packings(values: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(map(int, values))
    except ValueError as error:
        raise ValueError(
            "--packings must be whole numbers separated by commas; received "
            f"{','.join(values)!r}"
        ) from error


def _compiler(flag_values: flags.FlagValues) -> compiled_step.StepCompiler:
    return compiled_step.StepCompiler(flag_values.tools, flag_values.install_tools)


def _fill_table(flag_values: flags.FlagValues) -> None:
    path = flag_values.fill_table
    compiler = _compiler(flag_values)
    try:
        size_table.fill(path, compiler, _say)
    finally:
        lines = size_table.read(path)
        print(f"{size_table.show(lines)}\n\n{published_runs.show(lines)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _export(flag_values: flags.FlagValues) -> None:
    config = config_io.load(flag_values.config, flag_values.set)
    config.check_pretraining()
    config = run_plan.longest_stage(config)
    global_batch = flag_values.global_batch or config.train.batch_size
    # Imported here: TensorFlow takes seconds, and flags and files were checked first.
    from albert_tf.planning import step_export

    step_export.export_step(config, global_batch, flag_values.export_step)
    print(f"wrote the step of {global_batch} rows to {flag_values.export_step}")


def _run(flag_values: flags.FlagValues) -> None:
    cli.require_directories(flag_values, "run_exported")
    if importlib.util.find_spec("jax") is None:
        raise ValueError(
            "--run_exported needs JAX, in an environment without TensorFlow: pip "
            "install -r requirements-jax.txt, or for NVIDIA GPUs also jax[cuda12]"
        )
    from albert_tf.planning import run_exported

    figures = run_exported.run(
        flag_values.run_exported,
        flag_values.num_steps,
        flag_values.platform,
        flag_values.peak_teraflops,
    )
    text = json.dumps(figures, indent=1)
    print(text)
    if flag_values.json:
        files.write_bytes(flag_values.json, f"{text}\n".encode())


if __name__ == "__main__":
    cli.run(main, define_flags)
