"""Rules for the settings of a configuration, each written where its default is.

    @dataclasses.dataclass(frozen=True)
    class TrainConfig(validation.Section, name="train"):
        batch_size: int = validation.at_least(1, default=4096)

`TrainConfig(batch_size=0)` then raises "train.batch_size must be at least 1; received
0".
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from albert_tf.core import short_repr

# Keys of the metadata of a setting's field: its rule, and what its default follows.
_RULE = "rule"
DEFAULT_RULE = "default rule"


@dataclasses.dataclass(frozen=True)
class Section:
    """Base of the dataclasses of a configuration, which checks their values.

    Rules about several settings go into a `__post_init__` of the dataclass, after
    `super().__post_init__()`.
    """

    _section: ClassVar[str]

    def __init_subclass__(cls, name: str):
        cls._section = name

    def __post_init__(self):
        """Checks each setting by its rule.

        Raises:
          ValueError: one does not hold; names the setting, the rule and the value.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            is_unset = value is None and field.default is None
            if _RULE in field.metadata and not is_unset:
                holds, rule = field.metadata[_RULE]
                name = f"{self._section}.{field.name}"
                try:
                    is_held = holds(value)
                except TypeError:  # a recipe may give a value of any type
                    is_held = False
                require(is_held, f"{name} {rule}", value)


def one_of(choices: tuple[str, ...], *, default: str) -> Any:
    """A setting that is one of `choices`; also empty if that is the default."""
    rule = f"must be one of {', '.join(choices)}{'' if default else ', or empty'}"
    return _setting(lambda value: value in (*choices, default), rule, default)


def at_least(
    least: float, *, default: Any = dataclasses.MISSING, default_rule: str = ""
) -> Any:
    """A number that is not smaller than `least`; required if there is no default.

    Args:
      least: the bound.
      default: the value of the setting where none is given.
      default_rule: what it then follows from, if the default is None.
    """
    rule = f"must be at least {least}"
    return _setting(lambda value: value >= least, rule, default, default_rule)


def above(bound: float, *, default: Any) -> Any:
    """A number that is larger than `bound`."""
    return _setting(lambda value: value > bound, f"must be above {bound}", default)


def in_range(low: Any, high: Any, bounds: str, *, default: Any) -> Any:
    """A number between `low` and `high`.

    Args:
      low: the lower bound.
      high: the upper bound.
      bounds: "[]", "[)", "(]" or "()", as intervals are written: a bracket if the
        bound itself is allowed.
      default: the value of the setting where none is given.
    """

    def holds(value: Any) -> bool:
        return (low <= value if bounds[0] == "[" else low < value) and (
            value <= high if bounds[1] == "]" else value < high
        )

    rule = f"must lie in {bounds[0]}{low}, {high}{bounds[1]}"
    return _setting(holds, rule, default)


def zero_or_in_range(low: float, high: float, *, default: float) -> Any:
    """A number between `low` and `high`, both allowed, or 0, which means off."""
    return _setting(
        lambda value: value == 0 or low <= value <= high,
        f"must be 0 (off) or lie in [{low}, {high}]",
        default,
    )


def require(condition: bool, rule: str, received: Any) -> None:
    """Raises a ValueError with the rule and the value unless `condition` is true."""
    if not condition:
        raise ValueError(f"{rule}; received {short_repr.shown(received)}")


def require_together(condition: bool, rule: str, received: Mapping[str, Any]) -> None:
    """Raises a ValueError as `require` does, with several values by name."""
    if not condition:
        values = (f"{name}={value!r}" for name, value in received.items())
        raise ValueError(f"{rule}; received {', '.join(values)}")


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a ValueError unless `value` is one of the choices."""
    require(value in choices, f"{name} must be one of {', '.join(choices)}", value)


def _setting(
    holds: Callable[[Any], bool], rule: str, default: Any, default_rule: str = ""
) -> Any:
    """A dataclass field with a rule: a function of the value, and its description."""
    metadata: dict[str, Any] = {_RULE: (holds, rule)}
    if default_rule:
        metadata[DEFAULT_RULE] = default_rule
    return dataclasses.field(default=default, metadata=metadata)


def weights_by_name() -> Any:
    """Names with their weights, numbers above 0; none by default."""

    def holds(value: Mapping[str, float]) -> bool:
        return all(map(str.strip, value)) and all(
            0 < weight < math.inf for weight in value.values()
        )

    rule = "must be names, each with a weight above 0"
    # Not hashed, because a dictionary cannot be; equal sections are equal all the same.
    return dataclasses.field(
        default_factory=dict, hash=False, metadata={_RULE: (holds, rule)}
    )
