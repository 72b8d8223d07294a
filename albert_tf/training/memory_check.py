"""Refuses a step that a machine without accelerators has no memory for."""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.core import plurals
from albert_tf.core import stages as stages_lib
from albert_tf.devices import strategies
from albert_tf.diagnostics import memory
from albert_tf.model import costs

_GIB = 1 << 30


def check(
    stages: Sequence[stages_lib.Stage],
    strategy: tf.distribute.Strategy,
    step: int = 0,
    observed: memory.Observed | None = None,
) -> None:
    """Compares what steps need at least with the memory of this machine.

    Without this a batch for a pod, on a laptop, ends with a process that the system
    kills, and perhaps others with it.

    Args:
      stages: of the run; each has a batch of its own.
      strategy: its devices. Accelerators have memory of their own, and are not checked.
      step: that the run has reached; stages that end there are not checked.
      observed: the memory; None for this machine's.

    Raises:
      ValueError: what `albert_tf.describe` counts is more than there is.
    """
    if not strategies.is_on_cpu(strategy):
        return
    try:
        observed = observed or memory.observe()
    except OSError:
        return  # a system without /proc
    usable = min(observed.total, observed.limit or observed.total)
    num_replicas = strategy.num_replicas_in_sync
    for stage in stages:
        run = stage.config.train
        if stage.last_step <= step or run.batch_size % (
            num_replicas * run.accumulation_steps
        ):
            continue  # the input pipeline refuses a batch that cannot be divided
        counted = costs.recipe_costs(stage.config, num_replicas)
        # Each replica has weights and slots of its own.
        needed = (num_replicas // strategies.num_hosts(strategy)) * (
            counted.weight_and_slot_bytes
            + counted.reduced_gradient_bytes
            + counted.activation_bytes.total
        )
        if needed > usable:
            prefix = stage.prefix
            parts = plurals.count(run.accumulation_steps, "part")
            raise ValueError(
                f"a step with {prefix}.batch_size {run.batch_size:,} in {parts} needs "
                f"{needed / _GIB:,.1f} GiB and more, and this machine has "
                f"{usable / _GIB:,.1f} GiB. Set a smaller {prefix}.batch_size, more "
                f"{prefix}.accumulation_steps, or train.remat=block"
            )
