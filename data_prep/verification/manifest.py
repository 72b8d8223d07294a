"""Reads the manifest of a directory of records, and checks its consistency."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import console, files, short_repr
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema

COPY_AGAIN = "copy it again from where the records were made, or make them again"

# A total, and the parts that must sum to it. A name is a path in the manifest to a
# number, or to an object of numbers, which are added.
_Ledger = tuple[str, tuple[str, ...]]
_LEDGERS: tuple[_Ledger, ...] = (
    ("documents.read", ("documents.kept", "documents.dropped")),
    (
        "characters.read",
        ("characters.kept", "characters.removed", "characters.dropped"),
    ),
)
# The same within a split.
_SPLIT_LEDGERS: tuple[_Ledger, ...] = (
    ("statistics.tokens_in", ("statistics.tokens_used",)),
    (
        "statistics.num_tokens",
        (
            "statistics.tokens_used",
            "statistics.tokens_borrowed",
            "statistics.tokens_special",
        ),
    ),
    ("statistics.num_masked", ("statistics.replacements",)),
)
# And there, unless rows are packed.
_UNPACKED_LEDGER: _Ledger = ("num_records", ("statistics.labels",))

# The keys that statistics by key have.
_STATISTICS_KEYS = {
    "labels": ("0", "1", str(schema.NO_LABEL)),
    "replacements": schema.REPLACEMENTS,
}


def read_manifest(data_dir: str) -> schema.Manifest:
    """Reads the manifest of a directory of records.

    Raises:
      ValueError: there is none, it cannot be read, or the directory is that of a run;
        names the file and the fix.
    """
    command = console.command_line("data_prep.create_pretraining_data")
    path = os.path.join(data_dir, schema.MANIFEST_FILE)
    if not files.is_folder(data_dir):
        raise ValueError(
            f"{data_dir}: no such directory; give the --output_dir of `{command}`"
        )
    # A run keeps a copy of the manifest of its records.
    of_run = (schema.CONFIG_FILE, schema.CHECKPOINT_FILE)
    if all(files.exists(os.path.join(data_dir, name)) for name in of_run):
        raise ValueError(
            f"{data_dir} is the directory of a run, not of records; give the "
            f"--output_dir of `{command}` that it was trained on"
        )
    if not files.exists(path):
        raise ValueError(
            f"{path}: missing; run the same `{command}` again, which finishes the run, "
            "or name the directory that it wrote"
        )
    try:
        return manifest_lib.read_manifest(data_dir)
    except ValueError as error:
        raise ValueError(f"{error}; {COPY_AGAIN}") from error


def inconsistencies(manifest: schema.Manifest) -> list[str]:
    """Returns the contradictions and omissions of a manifest; a phrase for each."""
    values = dataclasses.asdict(manifest)
    problems = _check_settings(manifest)
    for total, parts in _LEDGERS:
        problems += _check_ledger("", values, total, parts)
    unknown = sorted(set(manifest.splits) - set(schema.SPLITS))
    if unknown or schema.TRAIN not in manifest.splits:
        problems.append(
            f"splits must be {schema.TRAIN} and perhaps {schema.HELDOUT}; received "
            f"{short_repr.shown(sorted(manifest.splits))}"
        )
    of_split = list(_SPLIT_LEDGERS)
    if not manifest.is_packed:
        of_split.append(_UNPACKED_LEDGER)
    for name, split in manifest.splits.items():
        in_shards = sum(shard.num_records for shard in split.shards)
        if in_shards != split.num_records:
            problems.append(
                f"{name}: num_records is {split.num_records:,}, but its shards' sum to "
                f"{in_shards:,}"
            )
        problems += _check_statistics(f"{name}: statistics.", split.statistics)
        for total, parts in of_split:
            problems += _check_ledger(f"{name}: ", values["splits"][name], total, parts)
    return problems


def _check_settings(manifest: schema.Manifest) -> list[str]:
    try:
        config_lib.TextConfig(**manifest.text)
        data = config_lib.DataConfig(**manifest.data)
    except (TypeError, ValueError) as error:
        return [f"its settings are not valid in this version: {error}"]
    return [
        f"{name} is {received}, but its settings make it {expected}"
        for name, received, expected in (
            ("seq_length", manifest.seq_length, data.max_seq_length),
            ("num_predictions", manifest.num_predictions, data.num_predictions),
        )
        if received != expected
    ]


def _check_statistics(prefix: str, statistics: Mapping[str, Any]) -> list[str]:
    """Returns problems of the statistics that no ledger has."""
    problems = []
    if type(statistics.get("padding_rate")) not in (int, float):
        problems.append(f"{prefix}padding_rate must be a number")
    for name in ("drawn_ngram_lengths", "placed_ngram_lengths"):
        counts = statistics.get(name)
        is_object = isinstance(counts, Mapping) and all(map(str.isdecimal, counts))
        if not is_object or number_of(statistics, name) is None:
            problems.append(f"{prefix}{name} must be numbers by length")
    for name, keys in _STATISTICS_KEYS.items():
        counts = statistics.get(name)
        if not isinstance(counts, Mapping) or not set(keys) <= set(counts):
            problems.append(f"{prefix}{name} must be numbers by {', '.join(keys)}")
    return problems


def _check_ledger(
    prefix: str, values: Mapping[str, Any], total: str, parts: Sequence[str]
) -> list[str]:
    numbers = []
    for name in (total, *parts):
        number = number_of(values, name)
        if number is None:
            return [f"{prefix}{name} must be a number or an object of numbers"]
        numbers.append(number)
    if numbers[0] == sum(numbers[1:]):
        return []
    sums = " + ".join(
        f"{name} {number:,}" for name, number in zip(parts, numbers[1:], strict=True)
    )
    return [f"{prefix}{total} is {numbers[0]:,}, but {sums} make {sum(numbers[1:]):,}"]


def number_of(values: Any, name: str) -> int | None:
    """The number at a path, or the sum of an object of numbers; None if neither."""
    for key in name.split("."):
        if not isinstance(values, Mapping) or key not in values:
            return None
        values = values[key]
    found = list(values.values()) if isinstance(values, Mapping) else [values]
    return sum(found) if all(type(number) is int for number in found) else None
