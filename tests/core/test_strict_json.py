"""JSON from outside: what is read, and which limits hold."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from albert_tf.core import config, config_io, setting_types, short_repr, strict_json
from tests.support import hostile_json


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: Mapping[str, Part]
    rate: float | None
    more: Any = None


VALID = {"parts": {"a": {"name": "b", "sizes": [3, 4]}}, "rate": 1, "more": [{}]}


def test_values_become_a_dataclass(tmp_path):
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(VALID))
    found = strict_json.load_as(str(path), Whole)
    assert found == Whole({"a": Part("b", (3, 4))}, 1.0, [{}])
    assert isinstance(found.rate, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "FILE must be JSON; it is damaged (Expecting value: line 1 column 1"),
        ('{"a": 1, "a": 2}', "an object has the name 'a' twice"),
        ("[NaN]", "numbers must be finite: NaN"),
        ("[-Infinity]", "numbers must be finite: -Infinity"),
        ("[1e999]", "numbers must be finite: 1e999"),
        ("[9223372036854775808]", "integers must have 64 bits: 9223372036854775808..."),
        ("1" * 5000, "integers must have 64 bits: 11111111111111111111..."),
        ("[" * 65 + "]" * 65, "it is nested more than 64 deep"),
        ("[" * 5000, "maximum recursion depth exceeded"),
        (r'"\ud800"', "surrogates not allowed"),
        (r'{"\uDfff": 1}', "surrogates not allowed"),
    ],
)
def test_what_exceeds_a_limit_is_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        strict_json.loads(text, "FILE")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\ufeff[1]".encode(), [1]),
        ("[9223372036854775807, -9223372036854775808]", [2**63 - 1, -(2**63)]),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ('"' + "[" * 1000 + '"', "[" * 1000),
        ("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64)),
        ("[[]" + ",[]" * 999 + "]", [[]] * 1000),
        ("1.5e3", 1500.0),
    ],
)
def test_what_keeps_the_limits_is_read(text, value):
    assert strict_json.loads(text, "FILE") == value


def test_figures_and_corpora_are_read_leniently():
    text = '{"a": 1, "a": Infinity, "b": 1' + "0" * 90 + "}"
    assert strict_json.loads(text, "FILE", lenient=True) == {
        "a": float("inf"),
        "b": 10**90,
    }
    with pytest.raises(ValueError, match="surrogates not allowed"):
        strict_json.loads(r'"\ud800"', "FILE", lenient=True)
    found = strict_json.loads(r'"\ud800"', "FILE", takes_surrogates=True)
    assert found == "\ud800"


def test_no_more_than_the_limit_is_read(tmp_path):
    path = tmp_path / "large.json"
    path.write_text('"' + "x" * 98 + '"')
    assert strict_json.load(str(path), max_bytes=100) == "x" * 98
    with pytest.raises(ValueError, match=f"{path} .* more than 99 bytes"):
        strict_json.load(str(path), max_bytes=99)
    with pytest.raises(ValueError, match="/dev/zero .* more than 99 bytes"):
        strict_json.load("/dev/zero", max_bytes=99)


def test_lines_are_named_by_number(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n[2]\n{\n')
    found = strict_json.lines(str(path))
    assert next(found) == (f"{path}:1", {"a": 1})
    assert next(found) == (f"{path}:3", [2])
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}:4 must be JSON"):
        next(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": []}, "FILE: parts must be an object; received []"),
        ({"parts": {"a": 3}}, "FILE: parts.a must be an object; received 3"),
        ({"parts": {"a": {"name": "b"}}}, "FILE: parts.a must have sizes; received"),
        (
            {"parts": {"a": {"name": "b", "sizes": [3, True]}}},
            "FILE: parts.a.sizes.2 must be an integer; received True",
        ),
        (
            {"parts": {"a": {"name": "b", "sizes": "34"}}},
            "FILE: parts.a.sizes must be a list; received '34'",
        ),
        ({"rate": "1"}, "FILE: rate must be a number; received '1'"),
        ({"rate": float("nan")}, "FILE: rate must be a finite number; received nan"),
        (
            {"rate": 10**400},
            "rate must be a number of 64 bits; received an integer of some 400",
        ),
        ({"mode": 1}, "unknown setting 'mode'; the nearest valid one is 'more'"),
    ],
)
def test_the_first_value_of_another_type_is_named(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        strict_json.as_type(VALID | change, "FILE", Whole)


def test_what_is_shown_of_a_value_is_short():
    shown = [short_repr.shown(value) for value in hostile_json.VALUES]
    assert max(map(len, shown)) <= 200
    assert shown[:5] == ["None", "True", "-1", "0.5", "2147483648"]
    assert short_repr.shown({"b": (1,), "a": [2, "c"]}) == "{'b': (1,), 'a': [2, 'c']}"
    assert short_repr.shown(1 << 100_000) == "an integer of some 30,103 digits"
    assert short_repr.cut("a" * 61) == "a" * 57 + "..."


# ---- Settings ----


@pytest.mark.parametrize(
    "value",
    [
        "[" * 50_000,
        "(" * 300 + ")" * 300,
        "-" * 50_000 + "1",
        "1" + "+1" * 20_000,
        "9" * 5000,
        "0x" + "f" * 50_000,
        "9**9**9**9",
        "{" + "1:{" * 90,
        "x" * 300_000,
        "'\ud800'",
        "1e999",
        "1" + "0" * 400,
        "[1]",
        "None",
        "\0",
    ],
)
@pytest.mark.parametrize(
    "key", ["train.batch_size", "optimizer.learning_rate", "train.stages"]
)
def test_a_hostile_override_is_one_short_line(key, value):
    hostile_json.assert_refused(lambda: config_io.load("", [f"{key}={value}"]), key)


@pytest.mark.parametrize(
    "override",
    [
        "x" * 300_000,
        f"{'x' * 300_000}=1",
        f"model.{'x' * 300_000}=1",
        f"train.stages.{'9' * 300_000}.batch_size=1",
        "train.stages.\u00b2.batch_size=1",
        f"train.stages.1.{'x' * 300_000}=1",
        f"text.language={'x' * 300_000}",
    ],
)
def test_a_hostile_name_of_a_setting_is_one_short_line(override):
    hostile_json.assert_refused(lambda: config_io.load("", [override]), "")


def test_a_recipe_with_values_of_other_types_is_one_short_line(tmp_path):
    for number, text in enumerate(
        (
            "config.Config(config.ModelConfig(num_layers='12'))",
            "config.Config(config.ModelConfig(hidden_size=[]))",
            "'x' * 300_000",
            "None",
        )
    ):
        path = tmp_path / f"recipe_{number}.py"
        path.write_text(
            f"from albert_tf.core import config\ndef get_config():\n    return {text}\n"
        )
        hostile_json.assert_refused(lambda path=path: config_io.load(str(path)), "")


def test_models_of_senseless_depth_are_refused():
    message = r"must be at most 1,024; received \(2147483648, 1\)"
    with pytest.raises(ValueError, match=message):
        config.ModelConfig(num_layers=2**31)
    with pytest.raises(ValueError, match="at most 1,024"):
        config.ModelConfig(num_inner_groups=2**31)
    assert config.ModelConfig(num_layers=1024).num_layers == 1024


# ---- Anything ----

JSON_VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=8),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(["model", "train", "stages", "num_layers", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
BRIEFLY = hypothesis.settings(max_examples=150, deadline=None, database=None)


@BRIEFLY
@hypothesis.given(strategies.binary(max_size=60) | JSON_VALUES)
def test_any_configuration_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    is_text = isinstance(content, bytes)
    path.write_bytes(content if is_text else json.dumps(content).encode())
    hostile_json.assert_read_or_refused(lambda: config_io.read(str(path)), str(path))


@BRIEFLY
@hypothesis.given(
    strategies.sampled_from([f.name for f in dataclasses.fields(config.TrainConfig)]),
    strategies.text("[](){}'\"0123456789.,:+-*e_xNoneTrue\\ ", max_size=40),
)
def test_any_override_is_taken_or_refused(name, value):
    override = f"train.{name}={value}"
    hostile_json.assert_read_or_refused(lambda: config_io.load("", [override]), "")


@BRIEFLY
@hypothesis.given(JSON_VALUES)
def test_any_value_is_of_a_type_or_not(value):
    for type_ in (Whole, tuple[Part, ...], dict[str, float], int, float | None):
        hostile_json.assert_read_or_refused(
            lambda type_=type_: setting_types.check("key", value, type_), "key"
        )
