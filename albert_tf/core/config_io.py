"""Recipes, saved configurations and overrides: reads and writes `config.Config`.

A recipe is a Python file (`configs/NAME.py`). A run writes its resolved configuration
as `config.json`, which is accepted wherever a recipe is.
"""

import contextlib
import dataclasses
import difflib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import (
    files,
    other_formats,
    recipes,
    setting_types,
    short_repr,
    strict_json,
)

# Settings of before that have another name now: old key -> new key, and the new words
# for values that changed too. Files with the old names are still read.
_RENAMED: dict[str, tuple[str, dict[str, str]]] = {
    "text.invalid_utf8": ("text.invalid_utf8", {"refuse": "error"}),
    "data.ngram_law": ("data.ngram_distribution", {}),
    "task.selection_rate": ("task.selection_fraction", {}),
    "task.bad_examples": ("task.on_bad_example", {"refuse": "error"}),
}
# The start of keys such as train.stages.2.batch_size.
_STAGES = "train.stages."


def load(path: str, overrides: Iterable[str] = ()) -> config_lib.Config:
    """Loads a recipe or a saved JSON file, and applies overrides.

    Args:
      path: a recipe, by its path (`configs/NAME.py`) or, if it is one of this
        project's, by its name; or a `config.json` that a run wrote, which may be
        remote. Empty means the defaults.
      overrides: `key.sub=value` strings; later ones win. `train.stages.2.batch_size`
        is a setting of the second stage; `train.stages` are all of them, as a Python
        list of dictionaries.

    Raises:
      ValueError: the file is missing or not a recipe, or an override names an unknown
        key or has a value of the wrong type or outside its range.
    """
    path = recipes.find(path)
    if not path:
        base = config_lib.Config()
    elif not os.path.isfile(path) and not (
        files.is_remote(path) and path.endswith(".json") and files.exists(path)
    ):
        raise ValueError(
            f"--config must name a recipe or a config.json; received {path!r}, which "
            f"is not a file. {_recipes_beside(path)}"
        )
    elif path.endswith(".json"):
        base = read(path)
    else:
        base = _load_recipe(path)
    return override(base, overrides)


def require_choice(path: str, overrides: Iterable[str]) -> None:
    """Checks that a recipe or a batch size was given, before `load` takes defaults.

    Raises:
      ValueError: neither was given, so that the defaults would be trained, which are
        for a TPU slice.
    """
    if path or any(one.startswith("train.batch_size=") for one in overrides):
        return
    raise ValueError(
        "--config must name a recipe, such as configs/small.py for one machine; "
        "without it the recipe would be ALBERT base with batches of 4,096 sequences, "
        "which is for a TPU slice. Or set train.batch_size"
    )


def read(path: str) -> config_lib.Config:
    """Reads a `config.json` that a run wrote.

    Args:
      path: local or remote.

    Raises:
      ValueError: it is damaged, holds an unknown key or a wrong value, or is of a
        model of another library; names the path.
      OSError: a local file cannot be read.
      tf.errors.OpError: a remote file cannot be read.
    """
    values = strict_json.load(path)
    try:
        return from_dict(values)
    except ValueError as error:
        other_formats.refuse(os.path.dirname(path) or ".")
        raise ValueError(f"{path}: {error}") from error


def override(config: config_lib.Config, overrides: Iterable[str]) -> config_lib.Config:
    """Applies `key.sub=value` strings to a configuration.

    All are applied before the result is validated, so that values which are only valid
    together can be given in any order. Where `task.hyperparameters` is "auto" their
    names are added to `task.given_settings`.

    Raises:
      ValueError: as for `load`.
    """
    values, given = to_dict(config), []
    if config.warmup_follows_steps:
        del values["optimizer"]["warmup_steps"]
    for text in overrides:
        key, separator, value = text.partition("=")
        if not separator:
            shown = short_repr.shown(text)
            raise ValueError(f"--set must read key.sub=value; received {shown}")
        target, name, type_ = _find_target(values, key)
        target[name] = _parse(key, value, type_)
        given.append(key)
    if values["task"]["hyperparameters"] == "auto":
        values["task"]["given_settings"] += given
    return from_dict(values)


def _parse(key: str, text: str, type_: Any) -> Any:
    """Takes JSON too, as config.json has it: with null, true and false."""
    try:
        return setting_types.parse(key, text, type_)
    except ValueError:
        if not text.startswith(("[", "{")):
            raise
        with contextlib.suppress(ValueError):
            return strict_json.loads(text, key, max_bytes=setting_types.MAX_CHARACTERS)
        raise


def check_data_settings(overrides: Iterable[str]) -> None:
    """Checks --set of a binary that reads a task's files for a model which is trained.

    Args:
      overrides: as for `override`.

    Raises:
      ValueError: one is of a setting that is the run's, or has a value that it cannot
        have.
    """
    for text in overrides:
        if text.partition("=")[0] != "task.on_bad_example":
            raise ValueError(
                "--set takes task.on_bad_example alone, because all other settings are "
                f"those of the run; received {short_repr.shown(text)}"
            )
    override(config_lib.Config(), overrides)


def keep_warmup(config: config_lib.Config, recorded_path: str) -> config_lib.Config:
    """Returns a recipe with the warmup of the run that it resumes.

    For a recipe that gives none: so a run resumes that was begun with another number of
    steps, or by a version with another default.

    Args:
      config: the recipe.
      recorded_path: the config.json of the run, if there is one.

    Raises:
      ValueError: as for `read`.
    """
    if not files.exists(recorded_path):
        return config
    warmup_steps = read(recorded_path).optimizer.warmup_steps
    return override(config, [f"optimizer.warmup_steps={warmup_steps}"])


def to_dict(config: config_lib.Config) -> dict[str, dict[str, Any]]:
    """Converts a configuration to nested values that JSON can hold."""
    return {
        section: {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in fields.items()
        }
        for section, fields in dataclasses.asdict(config).items()
    }


def to_json(config: config_lib.Config) -> str:
    """Converts a configuration to JSON text, which `from_json` reads."""
    return json.dumps(to_dict(config), indent=2) + "\n"


def from_json(text: str) -> config_lib.Config:
    """Reads the configuration that `to_json` wrote.

    Raises:
      ValueError: the text is not JSON, or holds an unknown key or a wrong value.
    """
    return from_dict(strict_json.loads(text, "the configuration"))


def from_dict(values: Mapping[str, Mapping[str, Any]]) -> config_lib.Config:
    """Makes a validated configuration of nested values; absent keys keep defaults.

    Raises:
      ValueError: as for `from_json`.
    """
    if not isinstance(values, Mapping):
        shown = short_repr.shown(values)
        raise ValueError(f"a configuration must be an object; received {shown}")
    sections: dict[str, Any] = {}
    for section, fields in values.items():
        if section not in _SECTIONS:
            raise ValueError(_unknown_key(section))
        if not isinstance(fields, Mapping):
            shown = short_repr.shown(fields)
            raise ValueError(f"{section} must be an object; received {shown}")
        checked = {
            name: _check(f"{section}.{name}", value)
            for name, value in with_new_names(section, fields).items()
        }
        sections[section] = _SECTIONS[section](**checked)
    return config_lib.Config(**sections)


def check_types(section: str, values: Mapping[str, Any]) -> None:
    """Checks settings of another version, which may have more of them, or fewer.

    Args:
      section: of the configuration, such as "data".
      values: of its settings, by name.

    Raises:
      ValueError: one that this version knows has another type.
    """
    for field in dataclasses.fields(_SECTIONS[section]):
        if field.name in values:
            _check(f"{section}.{field.name}", values[field.name])


def with_new_names(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces names and values of settings that an earlier version wrote.

    Args:
      section: of the configuration, such as "data".
      values: of its settings, by name; unknown names stay.

    Raises:
      ValueError: a setting has its old and its new name.
    """
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{section}.{name}"
        new_key, new_values = _RENAMED.get(key, (key, {}))
        if isinstance(value, str):
            value = new_values.get(value, value)
        new_name = new_key.partition(".")[2]
        if new_name in renamed or (new_name != name and new_name in values):
            raise ValueError(
                f"{section}.{new_name} is set twice, also by an earlier name; omit one"
            )
        renamed[new_name] = value
    return renamed


_SECTIONS: dict[str, Any] = {
    field.name: field.type for field in dataclasses.fields(config_lib.Config)
}


def _find_field(key: str) -> tuple[str, dataclasses.Field]:
    section, _, name = key.partition(".")
    for field in dataclasses.fields(_SECTIONS.get(section, config_lib.Config)):
        if section in _SECTIONS and field.name == name:
            return section, field
    raise ValueError(_unknown_key(key))


def _find_target(
    values: Mapping[str, Any], key: str
) -> tuple[dict[str, Any], str, Any]:
    """Returns the dictionary that holds a setting, its name there, and its type."""
    if not key.startswith(_STAGES):
        section, field = _find_field(key)
        return values[section], field.name, field.type
    number, _, name = key.removeprefix(_STAGES).partition(".")
    stages = values["train"]["stages"]
    count = len(stages) if isinstance(stages, list | tuple) else 0
    types = {f.name: f.type for f in dataclasses.fields(config_lib.StageConfig)}
    if name not in types:
        known = [f"{_STAGES}{number[:9]}.{known}" for known in types]
        raise ValueError(setting_types.unknown(key, known))
    by_number = {str(index + 1): stages[index] for index in range(count)}
    if not isinstance(by_number.get(number), dict):
        raise ValueError(
            f"{_STAGES}N.{name} must have the number of a stage, of which there are "
            f"{count}; received {short_repr.shown(number)}. The setting train.stages "
            "holds all of them"
        )
    return by_number[number], name, types[name]


def _unknown_key(key: str) -> str:
    if key in _RENAMED:
        return f"unknown setting {key!r}; its name is now {_RENAMED[key][0]!r}"
    known = [
        f"{section}.{field.name}"
        for section, cls in _SECTIONS.items()
        for field in dataclasses.fields(cls)
    ]
    return setting_types.unknown(key, known)


def _check(key: str, value: Any) -> Any:
    return setting_types.check(key, value, _find_field(key)[1].type)


def _load_recipe(path: str) -> config_lib.Config:
    spec = importlib.util.spec_from_file_location("recipe", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"--config must name a .py recipe or a .json; received {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise ValueError(f"a recipe must define get_config(); {path} does not")
    config = module.get_config()
    if not isinstance(config, config_lib.Config):
        raise ValueError(
            f"get_config() of a recipe must return a config.Config; that of {path} "
            f"returns {short_repr.shown(config)}"
        )
    return config


def _recipes_beside(path: str) -> str:
    """Returns sentences with the recipe that is nearest to a path, and all others."""
    folder, name = os.path.split(path)
    place, names = "of this project", recipes.names()
    if os.path.isdir(folder):
        place, names = "there", [f"{one}.py" for one in recipes.names(folder)]
    close = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.5)
    nearest = f"The nearest is {close[0]!r}. " if close else ""
    return f"{nearest}Recipes {place}: {', '.join(names)}"
