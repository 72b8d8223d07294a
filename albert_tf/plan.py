"""Exports the train step of a recipe, and runs it without TensorFlow.

python -m albert_tf.plan --export_step=FOLDER --config=configs/albert_base.py \
    --global_batch=64 [--set train.compute_dtype=bfloat16 ...]
python -m albert_tf.plan --run_exported=FOLDER [--platform=cpu] [--json=FILE]

The first needs this project's environment, but no accelerator: it writes the whole
step, from forward pass to optimizer, as one StableHLO program. The second needs JAX,
NumPy and absl only (requirements-jax.txt): it compiles the program, repeats it with one
batch, and prints time, memory and utilization.
"""

import importlib.util
import json
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files


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
    flags.DEFINE_string("json", "", "File for the figures of a run.", flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Exports or runs, as the flags say."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        if bool(flag_values.export_step) == bool(flag_values.run_exported):
            raise ValueError("give one of --export_step and --run_exported")
        if flag_values.export_step:
            _export(flag_values)
        else:
            _run(flag_values)


def _export(flag_values: flags.FlagValues) -> None:
    config = config_io.load(flag_values.config, flag_values.set)
    config.check_pretraining()
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
