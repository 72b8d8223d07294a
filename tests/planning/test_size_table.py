"""The table of docs/planning.md is that of its JSON, and filling it can be resumed."""

import dataclasses
import pathlib
import re

import pytest

from albert_tf.model import costs
from albert_tf.planning import size_table
from tests.planning import fakes

ROOT = pathlib.Path(__file__).parent.parent.parent
SIZES = ROOT / "docs" / "planning" / "sizes.json"


class _Interrupted(Exception):
    """Of a compiler that is stopped after some calls."""


class _Limited(fakes.LinearCompiler):
    def compile(self, *arguments):
        if len(self.calls) == 3:
            raise _Interrupted
        return super().compile(*arguments)


def test_the_table_in_the_docs_is_that_of_the_file():
    text = (ROOT / "docs" / "planning.md").read_text()
    (table,) = re.findall(
        r"<!-- begin of the table -->\n\n(.*?)\n\n<!-- end", text, re.S
    )
    assert table == size_table.show(size_table.read(str(SIZES)))


def test_compiled_operations_are_those_that_describe_counts():
    """Within 2%: the compiler counts elementwise operations too."""
    ratios = {}
    for line in size_table.read(str(SIZES)):
        for rows, step in line.by_rows.items():
            if step.fits:
                config = dataclasses.replace(
                    line.config,
                    train=dataclasses.replace(line.config.train, batch_size=rows),
                )
                counted = costs.recipe_costs(config).step_flops.total
                ratios[*line.key, rows] = step.flops / counted
    assert len(ratios) >= 4
    assert {key: one for key, one in ratios.items() if not 1.0 <= one <= 1.02} == {}


def test_filling_is_resumed_where_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(size_table, "RECIPES", ("albert_base", "bert_xlarge"))
    monkeypatch.setattr(size_table, "LENGTHS", (128,))
    path, said = str(tmp_path / "sizes.json"), []
    with pytest.raises(_Interrupted):
        size_table.fill(path, _Limited(each=0.1), said.append)
    assert len(said) == 3
    # In bfloat16 0.05 GiB a row: 14.48 GiB for 289 rows, and 14.75 GiB for 295.
    compiler = fakes.LinearCompiler(each=0.1)
    size_table.fill(path, compiler, said.append)
    lines = size_table.read(path)
    found = {
        (line.recipe, line.accelerator): max(
            (point.num_rows for point in line.points if point.step.fits), default=0
        )
        for line in lines
        if line.remat == "none"
    }
    assert found == {
        ("albert_base", "v3-512"): 288,
        ("albert_base", "v5e-256"): 288,
        ("bert_xlarge", "v3-512"): 0,
        ("bert_xlarge", "v5e-256"): 0,
    }
    assert not any(line.points for line in lines if line.recipe == "bert_xlarge")
    assert len(compiler.calls) + 3 == sum(len(line.points) for line in lines)
    again = fakes.LinearCompiler()
    size_table.fill(path, again, said.append)
    assert again.calls == []
    rows = size_table.show(lines).splitlines()
    assert "none: 19.1 GiB without activations" in rows[3]
    assert "| 288 | 15.40 GiB | 147,456 |" in rows[2]


def test_what_is_missing_is_said(tmp_path):
    rows = size_table.show(size_table.read(str(tmp_path / "absent.json"))).splitlines()
    assert len([row for row in rows if "not compiled yet" in row]) == 24
