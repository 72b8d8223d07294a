"""Damaged or missing files of unfinished work are noticed, and made again."""

import functools
import hashlib
import os
import shutil

import numpy as np
import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import manifest as manifest_lib
from data_prep.pipeline import block_processor, local_run, record_file, work_dir
from data_prep.reading import blocks as blocks_lib
from data_prep.text import deduplication
from tests.support import small_run

SETTINGS = (
    "model.vocab_size=4000",
    "data.max_seq_length=32",
    "data.dupe_factor=2",
    "data.heldout_rate=0.2",
    "data.min_shards=2",
    "text.drop_exact_duplicates=true",
    "text.near_duplicate_threshold=0.8",
)


# Of some hundreds of damages to each interrupted run, a test makes one in this many.
_EVERY = 11


class Crash(BaseException):
    """Ends a run at any place: nothing in it catches this."""


def crash(*_):
    raise Crash


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two groups of one file, each of two blocks, whose records are several chunks."""
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        for seed in (1, 2):
            small_run.write_corpus(folder / f"{seed}.txt", 12, seed)
        size = (folder / "1.txt").stat().st_size
        patch.setattr(blocks_lib, "GROUP_BYTES", size // 2)
        patch.setattr(block_processor, "MAX_BLOCK_BYTES", size // 2)
        patch.setattr(record_file, "CHUNK_BYTES", 2000)
        yield folder


def run(corpus, output, *overrides, num_workers=1, overwrite=False):
    return local_run.create_pretraining_data(
        f"{corpus}/*.txt",
        str(small_run.VOCAB),
        str(output),
        config_io.override(config_lib.Config(), [*SETTINGS, *overrides]),
        num_workers,
        overwrite,
    )


def digests(folder):
    """The SHA-256 of each file of a directory, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The digests of the files of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    run(corpus, folder)
    return digests(folder)


@pytest.fixture(scope="module", params=["shards", "publishing", "runs"])
def interrupted(request, corpus, tmp_path_factory):
    """The output directory of a run that crashed at its second shard; a copy of it."""
    folder = tmp_path_factory.mktemp(request.param)
    owner, name = {
        "shards": (work_dir.WorkDir, "add_shard"),
        "publishing": (files, "move"),
        "runs": (work_dir.WorkDir, "add_shard"),
    }[request.param]
    original, calls = getattr(owner, name), []

    def do_once(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise Crash
        return original(*arguments)

    with pytest.MonkeyPatch.context() as lasting:
        if request.param == "runs":
            lasting.setattr(work_dir, "BLOCKS_PER_RUN", 1)
            lasting.setattr(work_dir, "PIECE_BYTES", 1 << 13)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, do_once)
            with pytest.raises(Crash):
                run(corpus, folder / "out")
        yield folder / "out", shutil.copytree(folder / "out", folder / "copy")


def damages(data, rng):
    """Damaged versions of a file's bytes: cut off, with more, or with a flipped bit."""
    yield b""
    yield data[: len(data) // 2]
    yield data[:-1]
    yield data + data[-8:]
    places = [0, 20, len(data) // 2, *rng.integers(0, len(data) + 1, 2)]
    for place in places:
        place = min(int(place), len(data) - 1)
        flipped = data[place : place + 1].translate(
            bytes(byte ^ (1 << int(rng.integers(0, 8))) for byte in range(256))
        )
        yield data[:place] + flipped + data[place + 1 :]


def changes(paths, rng):
    """Functions that damage, remove or replace one of the files."""
    for number, path in enumerate(paths):
        for damaged in damages(path.read_bytes(), rng):
            yield path, functools.partial(path.write_bytes, damaged)
        yield path, path.unlink
        other = paths[(number + 1) % len(paths)]
        yield path, functools.partial(shutil.copy, other, path)
        unexpected = path.with_name(f"000009-{path.name}")
        yield path, functools.partial(shutil.copy, path, unexpected)


def test_whatever_is_damaged_the_bytes_are_the_same_or_it_is_refused(
    corpus, whole, interrupted, monkeypatch
):
    output, copy = interrupted
    # Hundreds of runs: without the waits for the disk, and what is always the same.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(deduplication, "bands", functools.cache(deduplication.bands))
    restore(output, copy)
    paths = sorted((output / ".unfinished").iterdir())
    paths += sorted(output.glob("*.tfrecord"))
    all_changes = list(changes(paths, np.random.default_rng(0)))
    for path, change in all_changes[::_EVERY]:
        restore(output, copy)
        change()
        try:
            run(corpus, output)
        except ValueError as error:
            # The moved shards may then be of another run.
            assert path.name.startswith("published") and not path.exists()
            assert "or pass --overwrite" in str(error)
            continue
        assert digests(output) == whole, path
        assert [p.name for p in output.iterdir() if p.is_dir()] == []


def restore(output, copy):
    shutil.rmtree(output)
    shutil.copytree(copy, output)


def test_what_is_damaged_is_said_in_a_line_and_only_its_block_is_made_again(
    corpus, whole, interrupted, monkeypatch, capsys
):
    output, copy = interrupted
    restore(output, copy)
    records = output / ".unfinished" / "000001-000000-00.records"
    if not records.exists():  # the third block is a run by itself
        records = output / ".unfinished" / "run-000002-000000.records"
    data = bytearray(records.read_bytes())
    data[-9] ^= 1
    records.write_bytes(data)
    # All shards are made again, too, so that one reads these records.
    for path in (output / ".unfinished").glob("*.tfrecord*"):
        path.unlink()
    for path in output.glob("*.tfrecord"):
        path.unlink()
    write_block, made = work_dir.WorkDir.write_block, []

    def note(self, block, processor):
        made.append((block.group, block.number))
        return write_block(self, block, processor)

    monkeypatch.setattr(work_dir.WorkDir, "write_block", note)
    run(corpus, output)
    assert made == [(1, 0)]
    assert digests(output) == whole
    said = [line for line in capsys.readouterr().err.split("\n") if "damaged" in line]
    assert said == [
        f"{records} is damaged: the checksum of a chunk of records is wrong; it is "
        "made again"
    ]


def test_a_disk_that_damages_a_file_again_and_again_ends_the_run(
    corpus, tmp_path, monkeypatch
):
    write = record_file.write

    def write_damaged(path, batch):
        write(path, batch)
        with open(path, "r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"\xff")

    monkeypatch.setattr(record_file, "write", write_damaged)
    with pytest.raises(ValueError, match=r"records is damaged: .*check the disk"):
        run(corpus, tmp_path / "out")


@pytest.mark.slow
def test_workers_name_the_damaged_file(corpus, whole, interrupted):
    output, copy = interrupted
    restore(output, copy)
    for path in (output / ".unfinished").glob("*.records"):
        path.write_bytes(path.read_bytes()[:-9] + bytes(9))
    run(corpus, output, num_workers=2)
    assert digests(output) == whole


class Removals:
    """Lets a number of files and directories be removed, and then crashes."""

    def __init__(self, monkeypatch):
        self.budget = 0
        for name in ("unlink", "rmdir"):
            monkeypatch.setattr(
                os, name, functools.partial(self._count, getattr(os, name))
            )

    def _count(self, function, *arguments, **options):
        if not self.budget:
            raise Crash
        self.budget -= 1
        return function(*arguments, **options)


def test_a_run_that_is_killed_while_it_removes_its_work_is_seen_as_done(
    corpus, whole, tmp_path, monkeypatch, capsys
):
    """Each run removes one more file and crashes, until one finds all removed."""
    output, num_crashes = tmp_path / "out", 0
    with monkeypatch.context() as patch:
        removals = Removals(patch)
        with pytest.raises(Crash):
            run(corpus, output)
        patch.setattr(local_run, "_make", crash)  # nothing is made any more
        while True:
            removals.budget = 1
            assert digests(output) == whole
            try:
                manifest = run(corpus, output)
                break
            except Crash:
                num_crashes += 1
    assert num_crashes > 20
    assert manifest == manifest_lib.read_manifest(str(output))
    assert [path for path in output.iterdir() if path.is_dir()] == []
    assert "is complete: removing" in capsys.readouterr().err
    with pytest.raises(ValueError, match="has manifest.json"):
        run(corpus, output)


def test_what_another_run_did_not_remove_says_nothing_about_this_one(
    corpus, whole, tmp_path, monkeypatch
):
    output = tmp_path / "out"
    with monkeypatch.context() as patch:
        Removals(patch)
        with pytest.raises(Crash):
            run(corpus, output)
    run(corpus, output, "data.seed=3", overwrite=True)
    assert digests(output) != whole
    with pytest.raises(ValueError, match="has manifest.json"):
        run(corpus, output)
    assert [path for path in output.iterdir() if path.is_dir()] == []
