"""Times of a step by the rates of an accelerator, and of a run by those of its steps.

A roofline: the step takes at least as long as its operations at the peak of the matrix
units, and as its traffic at the rate of the memory. The sum over replicas follows.
"""

import dataclasses

from albert_tf.devices import chip_table

_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class StepTime:
    """Seconds of a step, at the least.

    compute: the operations at peak; 0 if the peak is unknown.
    memory: the traffic at the memory's rate; 0 if that is unknown.
    reduction: the bytes that chips send to one another.
    """

    compute: float
    memory: float
    reduction: float

    @property
    def total(self) -> float:
        """The roofline and then the reduction, which nothing hides."""
        return max(self.compute, self.memory) + self.reduction

    @property
    def limit(self) -> str:
        """The side that takes longest."""
        values = dataclasses.asdict(self)
        return max(values, key=lambda name: values[name])


def step_time(
    accelerator: chip_table.Accelerator,
    flops: float,
    memory_bytes: float,
    reduced_bytes: int,
) -> StepTime:
    """Returns the least time of a step.

    Args:
      accelerator: the chips.
      flops: of one replica.
      memory_bytes: that one replica moves to and from its memory.
      reduced_bytes: of gradients, which are summed over all replicas.
    """
    chip = accelerator.chip
    return StepTime(
        compute=flops / chip.peak_flops if chip.peak_flops else 0.0,
        memory=memory_bytes / chip.hbm_rate if chip.hbm_rate else 0.0,
        reduction=_reduction_seconds(chip, accelerator.num_chips, reduced_bytes),
    )


def _reduction_seconds(chip: chip_table.Chip, count: int, num_bytes: int) -> float:
    """Returns the least time in which chips sum so many bytes of each."""

    def sent(of: float, among: int) -> float:
        # Sums of parts, then their exchange: each sends (n - 1) / n of all twice.
        return 2 * of * (among - 1) / among

    if count == 1:
        return 0.0
    if not chip.per_machine or count <= chip.per_machine:
        return sent(num_bytes, count) / chip.link_rate
    # Within each machine, and meanwhile each chip its part of the sums to its
    # counterparts in the other machines.
    within = sent(num_bytes, chip.per_machine) / chip.link_rate
    part, num_machines = num_bytes / chip.per_machine, -(-count // chip.per_machine)
    return max(within, sent(part, num_machines) / chip.network_rate)


@dataclasses.dataclass(frozen=True)
class RunTime:
    """What a run takes.

    step_seconds: of one step, at the utilization.
    hours: of the run.
    chip_hours: hours times chips.
    price: chip-hours times their price; None if that is not known.
    share_of_peak: FLOP/s of the model's products by the peak of all replicas.
    """

    step_seconds: float
    hours: float
    chip_hours: float
    price: float | None
    share_of_peak: float


def run_time(
    accelerator: chip_table.Accelerator,
    step: StepTime,
    num_steps: int,
    utilization: float,
    model_flops: float,
    price_per_hour: float = 0.0,
) -> RunTime:
    """Returns what a run of equal steps takes.

    Args:
      accelerator: the chips.
      step: the least time of one step.
      num_steps: how many.
      utilization: the least time by that of a real step, above 0 and at most 1.
      model_flops: of the matrix products of a step over all replicas.
      price_per_hour: of one chip.
    """
    seconds = step.total / utilization
    hours = num_steps * seconds / _HOUR
    chip_hours = hours * accelerator.num_chips
    peak = accelerator.chip.peak_flops * accelerator.num_replicas
    return RunTime(
        step_seconds=seconds,
        hours=hours,
        chip_hours=chip_hours,
        price=chip_hours * price_per_hour if price_per_hour else None,
        share_of_peak=model_flops / seconds / peak,
    )
