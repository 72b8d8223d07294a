"""The table of docs/planning.md is that of its JSON, and filling it can be resumed."""

import pathlib
import re

import pytest

from albert_tf.planning import compiled_step, published_runs, size_table
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


@pytest.mark.parametrize(
    ("name", "show"), [("table", size_table.show), ("runs", published_runs.show)]
)
def test_the_tables_in_the_docs_are_those_of_the_file(name, show):
    text = (ROOT / "docs" / "planning.md").read_text()
    (table,) = re.findall(
        rf"<!-- begin of the {name} -->\n\n(.*?)\n\n<!-- end", text, re.S
    )
    assert table == show(size_table.read(str(SIZES)))


def test_a_published_run_is_beside_the_roofline_of_its_slice():
    memory = compiled_step.Memory(1, 1, 1, 1, 0)
    # 16 rows; 123 TFLOP a core take 2 s, and half of the cores half of the rows.
    step = compiled_step.CompiledStep("", 8, 1.0, memory, 1, 0, 123e12, 45 * 10**9)
    point = size_table.Point(16, step)
    line = size_table.Line("albert_xxlarge", 512, "v3-512", "block", (point,))
    unknown = size_table.Line("bert_large", 512, "v3-512", "none")
    rows = published_runs.show([line, unknown]).splitlines()
    # 8 rows of 512 cores take 1 s, 4 rows of 1,024 cores half of it. Of 893 MB the sum
    # takes twice 255/256 or 511/512 over links of 328 GB/s: 5 ms.
    assert rows[2].endswith("| v3-1024 | 922 ms | 505 ms | 55% | compute |")
    assert rows[5].endswith("| v3-512 | 1913 ms | 1005 ms | 53% | compute |")
    # 3.99 PFLOP by 63 PFLOP/s, and twice 1.34 GB over the links.
    assert rows[3].endswith("| at least 72 ms | at least 23% | compute |")


def test_compiled_operations_are_those_that_describe_counts():
    """Within 2%, unless memory is short and the compiler recomputes what it dropped."""
    found = {
        (*line.key, rows): (size_table.operations(line, rows), step)
        for line in size_table.read(str(SIZES))
        for rows, step in line.by_rows.items()
        if step.fits
    }
    with_room = {
        key: ratio
        for key, (ratio, step) in found.items()
        if step.needed_bytes < 13 << 30
    }
    assert {key[0] for key in with_room} >= {"albert_base", "bert_base"}
    # BERT has dropout, and random numbers are operations for the compiler.
    most = {"albert": 1.02, "bert": 1.04}
    assert {
        key: one
        for key, one in with_room.items()
        if not 1.0 < one <= most[key[0].partition("_")[0]]
    } == {}
    assert {key for key, (ratio, _) in found.items() if not 1.0 < ratio < 1.34} == set()


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
