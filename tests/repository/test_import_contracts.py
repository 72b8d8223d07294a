"""import-linter holds the contracts of pyproject.toml, and each of them refuses."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from importlinter import cli

from tests.repository import import_rules, project_files

# Imports to be refused: the contract, and the importing and the imported module.
PLANTED = [
    ("albert_tf", "albert_tf.core.prng", "albert_tf.model.layers"),
    ("albert_tf", "albert_tf.web.page", "albert_tf.training.losses"),
    ("albert_tf", "albert_tf.serve", "albert_tf.export"),
    ("data_prep", "data_prep.text.sentences", "data_prep.vocab.report"),
    ("data_prep", "data_prep.verify", "data_prep.demo_corpus"),
    ("packages", "albert_tf.optim.optimizers", "data_prep.records.shards"),
    ("across", "data_prep.reading.blocks", "albert_tf.data.record_parser"),
    ("recipes", "configs.small", "configs.demo"),
    ("tensorflow-free", "albert_tf.data.schema", "tensorflow"),
    ("banned", "albert_tf.web.errors", "pickle"),
    ("pure", "data_prep.text.cleaning", "pathlib"),
]
CIRCLE = [
    ("albert_tf.web.errors", "albert_tf.web.page"),
    ("albert_tf.web.page", "albert_tf.web.errors"),
]


def _lint(root: pathlib.Path) -> tuple[int, str]:
    program = f"from {cli.__name__} import lint_imports_command as c; c()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=root,
        # Wide enough that no line is wrapped.
        env={**os.environ, "COLUMNS": "1000", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_all_contracts_are_kept():
    code, output = _lint(project_files.ROOT)
    assert code == 0, output[output.find("Contracts:") :]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory) -> dict[str, str]:
    """What the linter prints under each contract of a tree with planted imports."""
    root = tmp_path_factory.mktemp("planted")
    for path in [*project_files.python_files(project_files.ROOT), "pyproject.toml"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project_files.ROOT / path, root / path)
    for importer, imported in [*(pair for _, *pair in PLANTED), *CIRCLE]:
        path = root / f"{importer.replace('.', '/')}.py"
        late = f"def planted():\n    import {imported}\n"
        path.write_text(late + path.read_text())
    (root / "albert_tf" / "attic").mkdir()
    (root / "albert_tf" / "attic" / "__init__.py").write_text('"""Attic."""\n')
    code, output = _lint(root)
    assert code == 1, output
    # Each section is a title, a line of dashes, and what is wrong.
    _, *parts = re.split(r"\n(.+)\n-{5,}\n", output)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _title(contract: str) -> str:
    return import_rules.contracts()[contract]["name"]


@pytest.mark.parametrize(("contract", "importer", "imported"), PLANTED)
def test_planted_import_is_refused_with_file_and_line(
    refusals, contract, importer, imported
):
    refused = re.escape(f"{importer} -> {imported}") + r" \(l\.[24]\)"
    assert re.search(refused, refusals[_title(contract)])


def test_circle_within_a_room_is_refused(refusals):
    assert "No cycles are allowed in albert_tf.web." in refusals[_title("acyclic")]


def test_every_contract_was_tried():
    planted = {contract for contract, *_ in PLANTED} | {"acyclic"}
    assert planted == import_rules.contracts().keys()


def test_new_room_must_be_given_a_layer(refusals):
    assert (
        "not listed as layers:\n\n- albert_tf.attic\n" in refusals[_title("albert_tf")]
    )
