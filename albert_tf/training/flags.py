"""Flags of the binaries that train; no TensorFlow before it is needed."""

import contextlib
import os
import sys
from collections.abc import Iterator

from absl import flags

from albert_tf.checkpoints import run_lock
from albert_tf.devices import kinds


def define(flag_values: flags.FlagValues) -> None:
    """Defines the recipe, the run directory and the devices."""
    flags.DEFINE_string(
        "config", "", "Recipe (configs/NAME.py) or a config.json.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )
    flags.DEFINE_string(
        "model_dir",
        None,
        "Directory of checkpoints, metrics and summaries.",
        flag_values,
    )
    define_devices(flag_values)
    flags.DEFINE_bool(
        "use_previous_checkpoint",
        False,
        "Resumes from an older checkpoint if the newest is damaged.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "profile_steps",
        "",
        "FIRST:LAST, the steps to profile for TensorBoard.",
        flag_values,
    )
    flags.mark_flags_as_required(["model_dir"], flag_values)


def define_devices(flag_values: flags.FlagValues) -> None:
    """Defines the devices."""
    flags.DEFINE_enum(
        "strategy",
        "auto",
        kinds.STRATEGIES,
        "Devices. auto: the TPU of --tpu, else the workers of TF_CONFIG, "
        "else all GPUs, else the CPU.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "tpu",
        "",
        "local (on a TPU VM), pod (on each host of a slice), or grpc://ADDRESS.",
        flag_values,
    )
    flags.DEFINE_integer(
        "num_cpu_devices",
        1,
        "Splits the CPU, to try --strategy=mirrored without GPUs.",
        lower_bound=1,
        flag_values=flag_values,
    )


def refuse_second_run(flag_values: flags.FlagValues) -> None:
    """Raises ValueError if another process of this machine trains in --model_dir.

    The other workers of its own run may be such processes, and are not checked.
    """
    if not os.environ.get("TF_CONFIG") and flag_values.tpu != "pod":
        run_lock.refuse_second(flag_values.model_dir)


def split_cpu(flag_values: flags.FlagValues) -> None:
    """Splits the CPU as the flag says; call it before anything is computed."""
    if flag_values.num_cpu_devices > 1:
        from albert_tf.devices import strategies

        strategies.split_cpu(flag_values.num_cpu_devices)


def profile_steps(flag_values: flags.FlagValues) -> tuple[int, int] | None:
    """Returns the first and the last step to profile, if any.

    Raises:
      ValueError: the flag has the wrong form.
    """
    text = flag_values.profile_steps
    if not text:
        return None
    first, _, last = text.partition(":")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)):
        raise ValueError(
            "--profile_steps must be FIRST:LAST, such as 100:110, counted from 1 "
            f"and FIRST not after LAST; received {text!r}"
        )
    return int(first), int(last)


@contextlib.contextmanager
def exiting_early() -> Iterator[None]:
    """Exits with a code of its own if training was asked to end.

    75 if the same command resumes the run, 130 after Ctrl-C, 78 if it did not learn.
    """
    from albert_tf.devices import strategies
    from albert_tf.training import guard, preemption

    try:
        yield
    except preemption.Stopped as stopped:
        print(stopped, file=sys.stderr)
        preemption.exit_now(stopped.exit_code)
    except guard.NoProgressError as ended:
        print(ended, file=sys.stderr)
        preemption.exit_now(guard.EXIT_CODE)
    except strategies.WorkerLostError as lost:
        print(lost, file=sys.stderr)
        preemption.exit_now(preemption.PREEMPTED)
