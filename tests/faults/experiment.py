"""An experiment: what is disturbed, by which fault, how often, and what followed."""

import collections
import dataclasses
import random
from collections.abc import Callable
from typing import Any

# How a fault ended. All but `FAILED` keep the system's word.
SAME = "same result"  # in the end all is as without the fault
REFUSED = "refused"  # one clear line, and nothing lost
NAMED = "named"  # one clear line that names the damaged file
UNHARMED = "unharmed"  # the damage changed nothing that is read
UNSEEN = "unseen"  # read as something else: a limit, which the table says
FAILED = "failed"
OUTCOMES = (SAME, REFUSED, NAMED, UNHARMED, UNSEEN, FAILED)


@dataclasses.dataclass
class Tally:
    """What was counted.

    Attributes:
      num_runs: processes that were started, or files that were read.
      num_faults: faults that were injected.
      outcomes: how often each of `OUTCOMES` occurred.
      failures: a line about each of `FAILED`.
      notes: a line about each that is worth to be known.
    """

    num_runs: int = 0
    num_faults: int = 0
    outcomes: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    failures: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def add(self, outcome: str, count: int = 1) -> None:
        """Counts an outcome."""
        self.outcomes[outcome] += count

    def fail(self, line: str) -> None:
        """Counts a failure, and keeps what is to be said about it."""
        self.add(FAILED)
        self.failures.append(line[:1000])

    def values(self) -> dict[str, Any]:
        """What is written about it."""
        values = dataclasses.asdict(self)
        outcomes = {name: self.outcomes[name] for name in OUTCOMES}
        return values | {"outcomes": {k: n for k, n in outcomes.items() if n}}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One line of the table.

    Attributes:
      name: unique, for the command line and the file of results.
      subject: what is disturbed.
      fault: what is done to it.
      expected: what has to follow.
      num_faults: how many faults the long form injects.
      num_short: how many the short form does; 0 if it leaves this out.
      run: injects a number of faults, drawn by the generator, and counts.
    """

    name: str
    subject: str
    fault: str
    expected: str
    num_faults: int
    num_short: int
    run: Callable[[Any, int, random.Random], Tally]
