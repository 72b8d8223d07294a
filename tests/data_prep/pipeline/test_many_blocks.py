"""Corpora of many blocks: the open files, and what each task has to read."""

import subprocess
import sys

import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from data_prep.pipeline import block_processor, local_run, work_dir, work_file
from data_prep.reading import blocks as blocks_lib
from tests.repository import project_files
from tests.support import small_run

SETTINGS = (
    "model.vocab_size=4000",
    "data.max_seq_length=32",
    "data.dupe_factor=1",
    "data.heldout_rate=0.2",
    "data.min_shards=3",
    "text.drop_exact_duplicates=true",
)
NUM_BLOCKS = 330


@pytest.fixture
def corpus(tmp_path):
    """Two files, and each document of them is a block."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    small_run.write_corpus(folder / "0.txt", NUM_BLOCKS - 30, seed=0)
    small_run.write_corpus(folder / "1.txt", 30, seed=1)
    return folder


def run(corpus, output):
    local_run.create_pretraining_data(
        f"{corpus}/*.txt",
        str(small_run.VOCAB),
        str(output),
        config_io.override(config_lib.Config(), list(SETTINGS)),
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Prints the number of runs that were merged.
_DRIVER = """
import pathlib, resource, sys
from data_prep.pipeline import block_processor, work_dir
from data_prep.reading import blocks
from tests.data_prep.pipeline import test_many_blocks
corpus, output, per_run, num_files = sys.argv[1:]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(num_files), hard))
blocks.GROUP_BYTES = block_processor.MAX_BLOCK_BYTES = 1
work_dir.BLOCKS_PER_RUN, work_dir.PIECE_BYTES = int(per_run), 1 << 12
merge_run, merged = work_dir.WorkDir.merge_run, []
def note(self, number, has_dropped):
    merge_run(self, number, has_dropped)
    merged.append(number)
work_dir.WorkDir.merge_run = note
test_many_blocks.run(pathlib.Path(corpus), pathlib.Path(output))
print(len(merged))
"""


def _num_runs(*arguments: object) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, *map(str, arguments)],
        cwd=project_files.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.slow
def test_runs_of_more_blocks_than_files_may_be_open_give_the_same_bytes(
    corpus, tmp_path
):
    assert _num_runs(corpus, tmp_path / "blocks", NUM_BLOCKS, 48) == 0
    assert _num_runs(corpus, tmp_path / "runs", 70, 48) == 5
    assert contents(tmp_path / "runs") == contents(tmp_path / "blocks")


def test_runs_are_longer_if_there_would_be_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(work_dir, "MAX_RUNS", 4)
    folder = work_dir.WorkDir(str(tmp_path), 2, blocks_per_run=5)
    for num_blocks, num_runs in ((10, 0), (11, 3), (20, 4), (21, 4), (1001, 4)):
        folder.write_group(0, num_blocks - 3)
        folder.write_group(1, 3)
        folder.discard(())
        assert len(folder.block_names()) == num_blocks
        assert folder.num_runs() == num_runs


def test_each_group_is_read_once_until_work_is_discarded(tmp_path, monkeypatch):
    folder = work_dir.WorkDir(str(tmp_path), 3, blocks_per_run=1)
    for group in range(3):
        folder.write_group(group, group + 1)
    enter, read = work_file.Content.__init__, []

    def note(self, path, file):
        read.append(path)
        enter(self, path, file)

    monkeypatch.setattr(work_file.Content, "__init__", note)
    for _ in range(4):
        assert folder.num_runs() == 6
    assert len(read) == 3
    folder.discard([f"{tmp_path}/000001.group"])
    with pytest.raises(work_file.DamagedError, match=r"000001.group cannot be read"):
        folder.num_runs()
    folder.write_group(1, 7)
    assert [str(name) for name in folder.block_names()[:3]] == [
        *("000000-000000", "000001-000000", "000001-000001")
    ]
    assert folder.num_runs() == 1 + 7 + 3


def test_a_few_long_runs_give_the_same_bytes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_lib, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(block_processor, "MAX_BLOCK_BYTES", 2_000)
    run(corpus, tmp_path / "blocks")
    monkeypatch.setattr(work_dir, "BLOCKS_PER_RUN", 1)
    monkeypatch.setattr(work_dir, "PIECE_BYTES", 1 << 13)
    monkeypatch.setattr(work_dir, "MAX_RUNS", 3)
    merge_run, merged = work_dir.WorkDir.merge_run, []

    def note(self, number, has_dropped):
        merge_run(self, number, has_dropped)
        merged.append(number)

    monkeypatch.setattr(work_dir.WorkDir, "merge_run", note)
    run(corpus, tmp_path / "runs")
    assert merged == [0, 1, 2]
    assert contents(tmp_path / "runs") == contents(tmp_path / "blocks")
