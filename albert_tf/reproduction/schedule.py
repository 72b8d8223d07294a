"""Which training is next, where several run at the same time."""

import dataclasses
from collections.abc import Iterable, Sequence

from albert_tf.reproduction import experiments


@dataclasses.dataclass(frozen=True)
class Training:
    """An experiment with one seed.

    Attributes:
      experiment: what is trained.
      seed: for weights, masks and order.
    """

    experiment: experiments.Experiment
    seed: int

    def starts_from(self, other: "Training") -> bool:
        """Returns whether it needs the weights of another one."""
        return self.seed == other.seed and self.experiment.start == other.experiment

    @property
    def label(self) -> str:
        """For lines that people read."""
        return f"{self.experiment.name}, seed {self.seed}"


class Schedule:
    """Trainings in their order, each after the one that it starts from.

    Attributes:
      failed: those that failed, and those that start from them.
    """

    def __init__(self, trainings: Iterable[Training]):
        """Takes all trainings; each comes after the one that it starts from."""
        self._waiting = list(trainings)
        self._running: list[Training] = []
        self.failed: list[Training] = []

    def num_waiting(self) -> int:
        """Returns how many have not begun."""
        return len(self._waiting)

    def take(self) -> Training | None:
        """Returns the first that can run now; None if there is none."""
        for training in self._waiting:
            if not any(map(training.starts_from, self._unfinished())):
                self._waiting.remove(training)
                self._running.append(training)
                return training
        return None

    def end(self, training: Training, succeeded: bool) -> list[Training]:
        """Takes note that a training ended.

        Returns:
          Those that will not run, because they start from one that failed.
        """
        self._running.remove(training)
        if succeeded:
            return []
        lost = [training]
        for other in self._waiting:
            if any(map(other.starts_from, lost)):
                lost.append(other)
        self._waiting = [one for one in self._waiting if one not in lost]
        self.failed += lost
        return lost[1:]

    def has_seed(self, seed: int) -> bool:
        """Returns whether a training with this seed has not ended."""
        return any(one.seed == seed for one in self._unfinished())

    def _unfinished(self) -> Sequence[Training]:
        return [*self._waiting, *self._running]
