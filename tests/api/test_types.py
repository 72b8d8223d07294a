"""Type checkers know what the Python API takes and returns."""

import pathlib

import pytest
from mypy import api

from tests.repository import project_files

SNIPPET = """
import pathlib
from typing import Any, assert_type
import albert_tf

One = dict[str, Any]
Many = list[One]
model = albert_tf.load(pathlib.Path("run"), checkpoint=pathlib.Path("run/model.ckpt-5"))
assert_type(model, albert_tf.Model)
assert_type(model.fill_mask("A"), One)
assert_type(model.fill_mask(["A"], top_k=3), Many)
assert_type(model.tag("A"), One)
assert_type(model.tag(("A", "B")), Many)
assert_type(model.classify("A"), One)
assert_type(model.classify(("A", "B")), One)
assert_type(model.classify(["A", ("A", "B")]), Many)
assert_type(model.sentence_order(("A", "B")), One)
assert_type(model.sentence_order([("A", "B")]), Many)
assert_type(model.answer(("A?", "B")), One)
assert_type(model.answer([["A?", "B"]]), Many)
assert_type(model.choose(("A", "B?", "c", "d")), One)
assert_type(model.choose([("A", "B?", "c", "d")]), Many)
model.probe(pathlib.Path("blimp")).good_scores.shape
"""
WRONG = """
import albert_tf
albert_tf.load(5)
albert_tf.lod("run")
albert_tf.load("run").fill_mask(5)
"""


def _check(code: str, tmp_path: pathlib.Path) -> list[str]:
    path = tmp_path / "snippet.py"
    path.write_text(code)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    found, error, _ = api.run(["--no-error-summary", cache, str(path)])
    assert not error
    return found.splitlines()


@pytest.mark.slow
def test_answers_have_the_types_that_their_examples_imply(tmp_path, monkeypatch):
    monkeypatch.chdir(project_files.ROOT)
    assert _check(SNIPPET, tmp_path) == []
    found = [line for line in _check(WRONG, tmp_path) if "error" in line]
    assert len(found) == 3
    for line, name in zip(found, ("load", "lod", "fill_mask"), strict=True):
        assert f'"{name}"' in line
