"""Checks of the features that a model is called with."""

from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.core import short_repr

# What packed rows have, and rows of one sequence each do not.
OF_PACKED = ("sequence_numbers", "position_ids", "first_positions")


def is_packed(features: Any) -> bool:
    """Returns whether features are those of packed rows."""
    return isinstance(features, Mapping) and OF_PACKED[0] in features


def require_length(features: Mapping[str, Any], most: int) -> None:
    """Raises ValueError if rows of one sequence are longer than a model's positions.

    Args:
      features: with `input_ids` [..., S].
      most: the number of positions.
    """
    length = features["input_ids"].shape[-1]
    if not is_packed(features) and length is not None and length > most:
        raise ValueError(
            f"rows must have at most {most} tokens, the positions of the model; "
            f"received {length}. Truncate them"
        )


def require(features: Any, names: Iterable[str]) -> None:
    """Raises ValueError if a model is not called with a dict of all features it needs.

    Args:
      features: what it is called with.
      names: of what it needs.
    """
    is_dict = isinstance(features, Mapping)
    if is_dict and all(name in features for name in names):
        return
    rule = f"the model must be called with a dict of {', '.join(names)}"
    if is_packed(features):
        raise ValueError(
            f"{rule}; received packed rows, which hold several sequences each. Call "
            "scores(features) of the model of albert_tf.build_model, which takes both, "
            "or make the records with data.pack_sequences=0"
        )
    given = ", ".join(map(str, features)) if is_dict else short_repr.shown(features)
    raise ValueError(f"{rule}; received {given or 'an empty one'}")
