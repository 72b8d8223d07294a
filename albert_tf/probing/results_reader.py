"""Reads the results of grammar probes."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.core import files, strict_json, validation
from albert_tf.probing import probe, settings

# Directories of probes in that of a run.
_OF_RUN = "probe-*"
_COUNTS = ("num_pairs", "num_too_long", "num_rows", "seconds", "mean_over_phenomena")
_TEXTS = ("suite", "model", "checkpoint", "compute_dtype")


def find(model_dir: str) -> list[str]:
    """Returns the directories RUN/probe-* that hold results, by name.

    Args:
      model_dir: the directory of a run.
    """
    if set(model_dir) & set("*?["):  # would be a pattern
        return []
    paths = files.glob(os.path.join(model_dir, _OF_RUN, probe.RESULTS_FILE))
    return sorted(map(os.path.dirname, paths))


def read(folder: str) -> dict[str, Any]:
    """Reads what `albert_tf.probe` wrote: the values of `probe.to_dict`.

    Args:
      folder: its output directory.

    Raises:
      ValueError: there are no results, or they have another form; names the file.
    """
    path = os.path.join(folder, probe.RESULTS_FILE)
    if not files.exists(path):
        raise ValueError(
            "a probe must be a directory that albert_tf.probe wrote; there is no "
            f"{path}"
        )
    values = strict_json.load_object(path)
    _require_accuracies(path, values)
    _require(path, values, _COUNTS, _is_number, "numbers")
    _require(path, values, _TEXTS, lambda value: isinstance(value, str), "texts")
    validation.require(
        values.get("metric") in settings.METRICS,
        f"{path}: metric must be one of {', '.join(settings.METRICS)}",
        values.get("metric"),
    )
    published = values.get("published")
    validation.require(
        isinstance(published, dict), f"{path}: published must be an object", published
    )
    for name, other in values["published"].items():
        place = f"{path}: {name}"
        _require(place, other, ("overall",), _is_number, "numbers")
        for part in ("phenomena", "paradigms"):
            names = values[part]
            _require(f"{place}: {part}", other.get(part), names, _is_number, "numbers")
    return values


def _require_accuracies(path: str, values: Mapping[str, Any]) -> None:
    numbers = ("accuracy", "low", "high", "num_pairs")
    overall = values.get("overall")
    _require(f"{path}: overall", overall, (*numbers, "num_ties"), _is_number, "numbers")
    for part in ("phenomena", "paradigms"):
        found = values.get(part)
        validation.require(
            isinstance(found, dict), f"{path}: {part} must be an object", found
        )
        for name, one in values[part].items():
            _require(f"{path}: {name}", one, numbers, _is_number, "numbers")


def _require(place: str, values: Any, names: Iterable[str], holds, form: str) -> None:
    is_object = isinstance(values, Mapping)
    for name in names:
        validation.require(
            is_object and name in values and holds(values[name]),
            f"{place} must hold {form} by the name {name}",
            values,
        )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
