"""The plan of a run: everything that decides its outcome."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """Everything that decides the outcome of a run, as JSON values.

    Attributes:
      settings: by name.
      groups: for each group of input files, [path, size, modification time] of each
        file.
    """

    settings: Mapping[str, Any]
    groups: Sequence[Sequence[Sequence[Any]]]

    def __post_init__(self):
        # JSON has no tuples, and a plan must equal itself after writing and reading.
        for field in dataclasses.fields(self):
            value = json.loads(json.dumps(getattr(self, field.name)))
            object.__setattr__(self, field.name, value)

    @property
    def digest(self) -> str:
        """The SHA-256 of all values."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def difference(self, other: "RunPlan") -> str:
        """Describes what makes another plan's blocks useless; empty if nothing does."""
        if self.settings != other.settings:
            return _first_difference(self.settings, other.settings)
        paths = [[file[0] for g in plan.groups for file in g] for plan in (self, other)]
        return "" if paths[0] == paths[1] else "it has other input files"

    def changed_groups(self, other: "RunPlan") -> set[int]:
        """The groups whose files have changed.

        Those of other sizes may be grouped in another way, in groups of other numbers.
        """
        pairs = enumerate(itertools.zip_longest(self.groups, other.groups))
        return {number for number, (old, new) in pairs if old != new}


def _first_difference(before: Mapping, after: Mapping, prefix: str = "") -> str:
    """Describes the first difference between two settings."""
    for key, old in before.items():
        new = after.get(key)
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                return _first_difference(old, new, f"{prefix}{key}.")
            return f"{prefix}{key} was {old!r} and is {new!r}"
    return "it has other settings"
