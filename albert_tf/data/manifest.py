"""The manifest of a directory of records: reading, and checks against configuration.

Free of TensorFlow, so that data_prep reads manifests with it too.
"""

import os
from collections.abc import Mapping

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, console, files, strict_json
from albert_tf.data import schema

# What the readers of records look up; other settings are of how they were made.
_NEEDED_DATA = (
    "compression",
    "lower_case",
    "masked_lm_rate",
    "masking",
    "pair_loss",
    "seed",
)

# Names in a directory without a manifest, of which some may be directories of records.
_MOST_LOOKED_AT = 100


def read_manifest(data_dir: str, setting: str = "--data_dir") -> schema.Manifest:
    """Reads the manifest of a directory of records.

    Args:
      data_dir: the directory.
      setting: what names it, for the error.

    Raises:
      ValueError: there is none, or it is damaged; names the file.
    """
    path = os.path.join(data_dir, schema.MANIFEST_FILE)
    if not files.exists(path):
        raise ValueError(
            f"{setting} must hold records and their {schema.MANIFEST_FILE}; "
            f"{path} does not exist. {_advice(data_dir)}"
        )
    values = strict_json.load(path)
    try:
        manifest = schema.Manifest.from_values(values)
        _check_settings(manifest)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return manifest


def _advice(data_dir: str) -> str:
    """Returns what to do about a directory without a manifest."""
    for name in files.names(data_dir)[:_MOST_LOOKED_AT]:
        path = os.path.join(data_dir, name)
        if files.exists(os.path.join(path, schema.MANIFEST_FILE)):
            return f"Give the directory of some records, such as {path}"
    command = console.command_line("data_prep.create_pretraining_data")
    return f"Make them with `{command}`"


def _check_settings(manifest: schema.Manifest) -> None:
    config_io.check_types("text", manifest.text)
    config_io.check_types("data", manifest.data)
    if lacking := [name for name in _NEEDED_DATA if name not in manifest.data]:
        raise ValueError(f"data must have {lacking[0]}, a setting of the records")


def check_manifest(
    data_dir: str,
    manifest: schema.Manifest,
    config: config_lib.Config,
    keys: Mapping[str, str] | None = None,
) -> None:
    """Compares the manifest with the configuration, and with the sizes of the shards.

    Args:
      data_dir: the directory of the records.
      manifest: theirs.
      config: the recipe, or that of a stage.
      keys: settings that are named in place of others, by these: those of a stage.

    Raises:
      ValueError: names what differs, both values, and the fix.
    """
    model, data, of_records = config.model, config.data, manifest.data
    rows = [
        ("vocabulary size", "model.vocab_size", model.vocab_size, manifest.vocab_size),
        (
            "sequence length",
            "data.max_seq_length",
            data.max_seq_length,
            manifest.seq_length,
        ),
        (
            "number of full sequences that fit into a row",
            "data.pack_sequences",
            data.pack_sequences,
            of_records.get("pack_sequences", 0),  # older ones have no such setting
        ),
        ("pair loss", "data.pair_loss", data.pair_loss, of_records["pair_loss"]),
        ("masking", "data.masking", data.masking, of_records["masking"]),
        ("lower-casing", "data.lower_case", data.lower_case, of_records["lower_case"]),
    ]
    if data.masking == "static":  # otherwise the trainer draws the masks
        rate = of_records["masked_lm_rate"]
        same_number = data.num_predictions == manifest.num_predictions
        if same_number or data.masked_lm_rate == rate:
            rows.append(
                (
                    "number of predictions",
                    "data.max_predictions_per_seq",
                    data.num_predictions,
                    manifest.num_predictions,
                )
            )
        # The number follows from the rate; and the shape of a packed row does.
        if data.pack_sequences or not same_number:
            rows.append(
                ("masking rate", "data.masked_lm_rate", data.masked_lm_rate, rate)
            )
    differences: list[str] = []
    fixes: list[str] = []
    for what, key, configured, recorded in rows:
        key = (keys or {}).get(key, key)
        if configured != recorded:
            of_these = "" if differences else f" of the records in {data_dir}"
            differences.append(
                f"the {what}{of_these} is {recorded}, but {key} makes it {configured}"
            )
            fixes.append(f"--set {key}={recorded}")
    if differences:
        raise ValueError(
            f"{'; '.join(differences)}; make the records again or pass "
            f"{' and '.join(fixes)}"
        )
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    paths = [os.path.join(data_dir, shard.name) for shard in shards]
    sizes = files.of_each(_size_if_there, paths)
    for shard, path, found in zip(shards, paths, sizes, strict=True):
        if found != shard.num_bytes:
            size = "is missing" if found is None else f"has {found} bytes"
            raise ValueError(
                f"{path} {size}, but the manifest says {shard.num_bytes} bytes; "
                "copy or make the records again"
            )


def _size_if_there(path: str) -> int | None:
    return files.size(path) if files.exists(path) else None


def mask_notes(
    data_dir: str, manifest: schema.Manifest, config: config_lib.Config
) -> list[str]:
    """Returns a line about settings of masks that are not those of static records.

    Such records are masked already, and what the configuration says has no effect.

    Args:
      data_dir: the directory of the records.
      manifest: theirs.
      config: the recipe, or that of a stage.
    """
    of_records = manifest.data
    if of_records["masking"] == "dynamic":
        return []
    differences = [
        f"data.{name}={of_records[name]} and not {value}"
        for name in schema.MASK_SETTINGS
        if (value := getattr(config.data, name)) != of_records.get(name, value)
    ]
    if not differences:
        return []
    return [
        f"the records{f' in {data_dir}' if data_dir else ''} were masked with "
        f"{', '.join(differences)}; their masks are used as they are"
    ]


def damaged_shards(data_dir: str, manifest: schema.Manifest) -> list[str]:
    """Returns the paths of the shards whose SHA-256 is not that of the manifest."""
    damaged = []
    for split in manifest.splits.values():
        for shard in split.shards:
            path = os.path.join(data_dir, shard.name)
            if files.sha256(path) != shard.sha256:
                damaged.append(path)
    return damaged
