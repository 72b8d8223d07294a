"""Runs that are interrupted, killed or disturbed resume, and end in the same bytes."""

import errno
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import schema
from data_prep.pipeline import (
    block_processor,
    duplicates,
    local_run,
    run_plan,
    work_dir,
    work_file,
)
from data_prep.reading import blocks as blocks_lib
from data_prep.reading import input_files
from tests.support import small_run

SETTINGS = (
    "model.vocab_size=4000",
    "data.max_seq_length=32",
    "data.dupe_factor=2",
    "data.heldout_rate=0.2",
    "data.min_shards=3",
    "text.drop_exact_duplicates=true",
)


class Crash(BaseException):
    """Ends a run at any place: nothing in it catches this."""


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Five files in groups of about two, each of some blocks."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(5):
        path = folder / f"{number}.txt"
        small_run.write_corpus(path, num_documents=20, seed=number)
    small_run.write_corpus(folder / "5.txt", num_documents=20, seed=1)  # duplicates
    size = (folder / "0.txt").stat().st_size
    monkeypatch.setattr(blocks_lib, "GROUP_BYTES", 2 * size)
    monkeypatch.setattr(block_processor, "MAX_BLOCK_BYTES", size // 3)
    return folder


def run(corpus, output, *overrides, num_workers=1, **arguments):
    return local_run.create_pretraining_data(
        f"{corpus}/*.txt",
        str(small_run.VOCAB),
        str(output),
        config_io.override(config_lib.Config(), [*SETTINGS, *overrides]),
        num_workers,
        **arguments,
    )


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@pytest.fixture(params=["blocks", "runs"])
def merging(request, monkeypatch):
    """Whether the records of blocks are merged into runs, of several pieces each."""
    if request.param == "runs":
        monkeypatch.setattr(work_dir, "BLOCKS_PER_RUN", 4)
        monkeypatch.setattr(work_dir, "PIECE_BYTES", 1 << 13)
    return request.param


@pytest.mark.slow
def test_merged_runs_give_the_same_bytes(corpus, tmp_path, monkeypatch):
    run(corpus, tmp_path / "blocks")
    expected = contents(tmp_path / "blocks")
    merge_run, merged = work_dir.WorkDir.merge_run, []

    def note(self, number, has_dropped):
        merge_run(self, number, has_dropped)
        merged.append(sorted(os.listdir(self.path)))

    monkeypatch.setattr(work_dir.WorkDir, "merge_run", note)
    monkeypatch.setattr(work_dir, "PIECE_BYTES", 1 << 13)
    for blocks_per_run in (1, 4, 7):
        monkeypatch.setattr(work_dir, "BLOCKS_PER_RUN", blocks_per_run)
        output = tmp_path / str(blocks_per_run)
        run(corpus, output)
        assert contents(output) == expected
        names = merged[-1]
        num_blocks = sum(name.endswith(".documents") for name in names)
        num_runs = sum(name.endswith(".merged") for name in names)
        assert num_runs == -(-num_blocks // blocks_per_run) > 2
        # Each run has pieces, and the records of its blocks are gone.
        records = [name for name in names if name.endswith(".records")]
        assert all(name.startswith("run-") for name in records)
        assert len(records) > num_runs


def test_a_few_blocks_are_not_merged(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(work_dir.WorkDir, "merge_run", None)
    monkeypatch.setattr(work_dir, "BLOCKS_PER_RUN", 100)
    run(corpus, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [(), ("data.pack_sequences=2",)])
def test_bytes_are_the_same_for_1_2_and_7_workers(corpus, tmp_path, merging, settings):
    manifest = run(corpus, tmp_path / "one", *settings)
    assert manifest.documents["dropped"] == {"exact_duplicate": 20}
    one = contents(tmp_path / "one")
    assert len(one) == 3 + 1 + 2
    for num_workers in (2, 7):
        output = tmp_path / str(num_workers)
        run(corpus, output, *settings, num_workers=num_workers)
        assert contents(output) == one


def test_a_run_that_crashes_anywhere_resumes_and_ends_in_the_same_bytes(
    corpus, tmp_path, merging, monkeypatch
):
    """It crashes before each renaming in turn: of blocks, shards and final files."""
    run(corpus, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    output = tmp_path / "out"
    replace, calls, budget = os.replace, 0, 0

    def replace_or_crash(source, target):
        nonlocal calls
        calls += 1
        if calls > budget:
            raise Crash
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_or_crash)
    num_crashes = 0
    while True:
        calls, budget = 0, num_crashes  # each run does one more step
        try:
            run(corpus, output)
            break
        except Crash:
            num_crashes += 1
        found = contents(output)
        assert all(whole[name] == data for name, data in found.items())
        if schema.MANIFEST_FILE in found:
            assert found == whole
    assert 15 < num_crashes
    assert contents(output) == whole
    assert not (output / ".unfinished").exists()


def test_what_is_done_is_on_disk_before_the_next_file_has_its_name(
    corpus, tmp_path, monkeypatch
):
    """Each file is synced, renamed, and its directory synced before the next one."""
    work = tmp_path / "out" / ".unfinished"
    fsync, replace, events = os.fsync, os.replace, []

    def note_fsync(descriptor):
        status = os.fstat(descriptor)
        events.append(("sync", status.st_ino))
        fsync(descriptor)

    def note_replace(source, target):
        # The vocabulary and the manifest are published, and mark nothing as done.
        published = (schema.VOCAB_FILE, schema.MANIFEST_FILE)
        name = os.path.basename(target)
        if str(target).startswith(f"{work}/") and name not in published:
            events.append(("rename", os.stat(source).st_ino))
            names.append(name)
            directory.add(os.stat(work).st_ino)
        replace(source, target)

    names, directory = [], set()
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    run(corpus, tmp_path / "out")
    suffixes = {name.rpartition(".")[2] for name in names}
    assert suffixes >= {
        "records",
        "documents",
        "dropped",
        "group",
        "tfrecord",
        "counts",
    }
    (of_directory,) = directory
    for number, (event, file) in enumerate(events):
        if event == "rename":
            assert ("sync", file) in events[:number]
            assert events[number + 1] == ("sync", of_directory)


def test_blocks_that_are_done_are_not_done_again(corpus, tmp_path, monkeypatch):
    write_block, written = work_dir.WorkDir.write_block, []

    def write_or_crash(self, block, processor):
        if len(written) == 7:
            raise Crash
        written.append((block.group, block.number))
        return write_block(self, block, processor)

    monkeypatch.setattr(work_dir.WorkDir, "write_block", write_or_crash)
    with pytest.raises(Crash):
        run(corpus, tmp_path / "out")
    first, written[:] = list(written), []
    monkeypatch.setattr(
        work_dir.WorkDir,
        "write_block",
        lambda self, block, processor: (
            written.append((block.group, block.number))
            or write_block(self, block, processor)
        ),
    )
    run(corpus, tmp_path / "out")
    assert len(first) == 7 and not set(first) & set(written)


def test_only_the_groups_of_changed_files_are_done_again(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(local_run, "_make_shards", _crash)
    with pytest.raises(Crash):
        run(corpus, tmp_path / "out")
    monkeypatch.undo()
    size = (corpus / "0.txt").stat().st_size
    monkeypatch.setattr(blocks_lib, "GROUP_BYTES", 2 * size)
    monkeypatch.setattr(block_processor, "MAX_BLOCK_BYTES", size // 3)
    groups = blocks_lib.plan_groups(input_files.expand(f"{corpus}/*.txt"))
    changed = next(g.number for g in groups if str(corpus / "3.txt") in g.paths)
    small_run.write_corpus(corpus / "3.txt", num_documents=20, seed=77)

    write_block, written = work_dir.WorkDir.write_block, set()

    def note(self, block, processor):
        written.add(block.group)
        return write_block(self, block, processor)

    monkeypatch.setattr(work_dir.WorkDir, "write_block", note)
    run(corpus, tmp_path / "out")
    assert written == {changed}
    run(corpus, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("sizes", [{"3": 60}, {"0": 1, "1": 1}])
def test_files_that_are_grouped_in_another_way_are_done_again(
    corpus, tmp_path, monkeypatch, sizes
):
    def numbers():
        groups = blocks_lib.plan_groups(input_files.expand(f"{corpus}/*.txt"))
        return [[pathlib.Path(path).stem for path in group.paths] for group in groups]

    make_shards = local_run._make_shards
    monkeypatch.setattr(local_run, "_make_shards", _crash)
    with pytest.raises(Crash):
        run(corpus, tmp_path / "out")
    before = numbers()
    for name, num_documents in sizes.items():
        small_run.write_corpus(corpus / f"{name}.txt", num_documents, seed=77)
    assert numbers() != before
    monkeypatch.setattr(local_run, "_make_shards", make_shards)
    run(corpus, tmp_path / "out")
    run(corpus, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_groups_that_are_more_or_fewer_have_changed():
    few, many = (
        run_plan.RunPlan({}, [[[name, 1, 2]] for name in names])
        for names in ("ab", "acd")
    )
    assert few.difference(many) == "it has other input files"
    assert few.changed_groups(many) == many.changed_groups(few) == {1, 2}


def test_a_name_that_is_not_utf8_is_resumed_from(corpus, tmp_path, monkeypatch, capsys):
    os.rename(corpus / "0.txt", os.fsencode(corpus) + b"/0\xff.txt")
    make_shards = local_run._make_shards
    monkeypatch.setattr(local_run, "_make_shards", _crash)
    with pytest.raises(Crash):
        run(corpus, tmp_path / "out")
    monkeypatch.setattr(local_run, "_make_shards", make_shards)
    monkeypatch.setattr(work_dir.WorkDir, "write_block", None)
    run(corpus, tmp_path / "out")
    said = capsys.readouterr().err
    assert "resuming: " in said and "damaged" not in said


def test_records_that_another_run_published_meanwhile_stay(
    corpus, tmp_path, monkeypatch
):
    output = tmp_path / "out"

    def make_meanwhile(*arguments):
        monkeypatch.setattr(local_run, "_make_shards", make_shards)
        run(corpus, output, "data.seed=3", work_dir=str(tmp_path / "other"))
        return make_shards(*arguments)

    make_shards = local_run._make_shards
    monkeypatch.setattr(local_run, "_make_shards", make_meanwhile)
    with pytest.raises(ValueError, match="must not hold records yet"):
        run(corpus, output, work_dir=str(tmp_path / "first"))
    run(corpus, tmp_path / "third", "data.seed=3")
    assert contents(output) == contents(tmp_path / "third")
    run(corpus, output, work_dir=str(tmp_path / "first"), overwrite=True)
    run(corpus, tmp_path / "whole")
    assert contents(output) == contents(tmp_path / "whole")


def test_duplicates_are_searched_once(corpus, tmp_path, monkeypatch):
    make_shards = local_run._make_shards
    monkeypatch.setattr(local_run, "_make_shards", _crash)
    find, found = duplicates.find, []
    monkeypatch.setattr(
        duplicates, "find", lambda *given: found.append(1) or find(*given)
    )
    for _ in range(2):
        with pytest.raises(Crash):
            run(corpus, tmp_path / "out")
    assert len(found) == 1
    small_run.write_corpus(corpus / "2.txt", num_documents=20, seed=4)  # a copy
    monkeypatch.setattr(local_run, "_make_shards", make_shards)
    manifest = run(corpus, tmp_path / "out")
    assert len(found) == 2
    assert manifest.documents["dropped"] == {"exact_duplicate": 40}


def test_unfinished_work_with_other_settings_is_kept_unless_told(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(local_run, "_make_shards", _crash)
    with pytest.raises(Crash):
        run(corpus, tmp_path / "out")
    with pytest.raises(ValueError, match="data.seed was 12345 and is 3. Repeat that"):
        run(corpus, tmp_path / "out", "data.seed=3")
    (corpus / "9.txt").write_text("One more.\nDocument.\n")
    with pytest.raises(ValueError, match="it has other input files"):
        run(corpus, tmp_path / "out")
    monkeypatch.undo()
    manifest = run(corpus, tmp_path / "out", "data.seed=3", overwrite=True)
    assert manifest.data["seed"] == 3


def test_two_runs_at_once_do_not_mix(corpus, tmp_path):
    folder = work_dir.WorkDir(str(tmp_path / "out" / ".unfinished"), num_groups=0)
    folder.open(run_plan.RunPlan({}, []), overwrite=False)
    with pytest.raises(ValueError, match="another run is at work"):
        run(corpus, tmp_path / "out")
    folder.close()
    run(corpus, tmp_path / "out")


def test_a_full_disk_is_reported_and_finished_work_stays(corpus, tmp_path, monkeypatch):
    run(corpus, tmp_path / "whole")
    write, written = work_file.write, []

    def write_until_full(path, *content):
        if len(written) == 9:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        written.append(path)
        write(path, *content)

    monkeypatch.setattr(work_file, "write", write_until_full)
    with pytest.raises(OSError, match="no space is left .* same command again"):
        run(corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == {}
    monkeypatch.setattr(work_file, "write", write)
    run(corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_run_that_crashes_while_it_removes_old_work_mixes_nothing(
    merging, corpus, tmp_path, monkeypatch
):
    run(corpus, tmp_path / "whole", "data.seed=2")
    whole = contents(tmp_path / "whole")
    remove, budget = os.remove, 0

    def remove_or_crash(path):
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise Crash
        remove(path)

    for num_removed in (0, 1, 3, 9, 20):
        output = tmp_path / f"out{num_removed}"
        with monkeypatch.context() as patch:
            patch.setattr(local_run, "_make_shards", _crash)
            with pytest.raises(Crash):
                run(corpus, output, "data.seed=1")
        with monkeypatch.context() as patch:
            patch.setattr(os, "remove", remove_or_crash)
            budget = num_removed
            with pytest.raises(Crash):
                run(corpus, output, "data.seed=2", overwrite=True)
        run(corpus, output, "data.seed=2", overwrite=True)
        assert contents(output) == whole, num_removed


def test_a_crash_while_changed_groups_are_removed_mixes_nothing(
    merging, corpus, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(local_run, "_make_shards", _crash)
        with pytest.raises(Crash):
            run(corpus, tmp_path / "out")
    before = (corpus / "3.txt").read_bytes()
    stamp = os.stat(corpus / "3.txt")
    small_run.write_corpus(corpus / "3.txt", num_documents=20, seed=77)
    with monkeypatch.context() as patch:
        calls = []
        remove = os.remove

        def remove_or_crash(path):
            calls.append(path)
            if len(calls) > 2:
                raise Crash
            remove(path)

        patch.setattr(os, "remove", remove_or_crash)
        with pytest.raises(Crash):
            run(corpus, tmp_path / "out")
    # The old file is back: the rest of its blocks must not count as complete.
    (corpus / "3.txt").write_bytes(before)
    os.utime(corpus / "3.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    run(corpus, tmp_path / "out")
    run(corpus, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def _crash(*_):
    raise Crash


def test_the_work_directory_of_the_user_is_unchanged(corpus, tmp_path):
    work, output = tmp_path / "work", tmp_path / "out"
    (work / "sub").mkdir(parents=True)
    (work / "precious.txt").write_text("mine")
    run(corpus, output, work_dir=str(work))
    assert sorted(p.name for p in work.iterdir()) == ["precious.txt", "sub"]
    again = tmp_path / "again"
    run(corpus, again, work_dir=str(again))
    assert contents(again) == contents(output)
    with pytest.raises(ValueError, match="--work_dir must name a local directory"):
        run(corpus, tmp_path / "x", work_dir="gs://bucket/work")
    with pytest.raises(ValueError, match="choose another --work_dir"):
        run(corpus, tmp_path / "x", work_dir=str(work / "precious.txt"))


def test_a_directory_with_glob_characters_is_only_itself(corpus, tmp_path):
    run(corpus, tmp_path / "o1")
    before = contents(tmp_path / "o1")
    run(corpus, tmp_path / "o[1]", overwrite=True)
    assert contents(tmp_path / "o1") == before == contents(tmp_path / "o[1]")
    with pytest.raises(ValueError, match="has manifest.json"):
        run(corpus, tmp_path / "o[1]")


def test_a_publication_resumes_into_its_own_directory_only(
    corpus, tmp_path, monkeypatch
):
    work = str(tmp_path / "work")
    moves, move = [], files.move

    def move_or_crash(source, target):
        moves.append(target)
        if len(moves) == 3:
            raise Crash
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "move", move_or_crash)
        with pytest.raises(Crash):
            run(corpus, tmp_path / "a", work_dir=work)
    with pytest.raises(ValueError, match="output directory was .*a' and is .*b'"):
        run(corpus, tmp_path / "b", work_dir=work)
    run(corpus, tmp_path / "a", work_dir=work)
    run(corpus, tmp_path / "whole")
    assert contents(tmp_path / "a") == contents(tmp_path / "whole")


_DRIVER = """
import sys
from data_prep.pipeline import block_processor
from data_prep.reading import blocks
from tests.data_prep.pipeline import test_resume
blocks.GROUP_BYTES = block_processor.MAX_BLOCK_BYTES = int(sys.argv[3])
test_resume.run(sys.argv[1], sys.argv[2], num_workers=2)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bytes(corpus, tmp_path):
    size = (corpus / "0.txt").stat().st_size // 4
    command = [sys.executable, "-c", _DRIVER, str(corpus)]
    subprocess.run([*command, str(tmp_path / "whole"), str(size)], check=True)
    whole, output = contents(tmp_path / "whole"), tmp_path / "out"
    for attempt in itertools.count():
        process = subprocess.Popen([*command, str(output), str(size)])
        try:
            # A busy machine does little in a second: later attempts have no limit.
            process.wait(timeout=1.0 + 0.1 * attempt if attempt < 25 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.returncode in (0, -signal.SIGKILL)
        found = contents(output) if output.exists() else {}
        assert all(whole[name] == data for name, data in found.items())
        if schema.MANIFEST_FILE in found:
            break
        time.sleep(0.2)  # its workers end when they notice
    assert attempt > 2
    assert contents(output) == whole


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_ctrl_c_ends_a_run_quickly_and_the_next_resumes(corpus, tmp_path, num_workers):
    """Pressed twice in a row, as users do."""
    corpus_file = tmp_path / "large.txt"
    corpus_file.write_text((corpus / "0.txt").read_text() * 2000)
    command = [
        sys.executable,
        "-m",
        "data_prep.create_pretraining_data",
        f"--input={corpus_file}",
        f"--vocab_model={small_run.VOCAB}",
        f"--output_dir={tmp_path / 'out'}",
        "--set=model.vocab_size=4000",
        f"--num_workers={num_workers}",
    ]
    codes = []
    for delay in (1.0, 1.6, 2.2, 2.8):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        _, errors = process.communicate(timeout=30)
        codes.append(process.returncode)
        assert codes[-1] in (0, 1, 130, -signal.SIGINT), errors
        if codes[-1] == 0:
            break
    assert codes[0] != 0
    if codes[-1] != 0:
        subprocess.run(command, check=True, capture_output=True)
    command[5] = f"--output_dir={tmp_path / 'whole'}"
    subprocess.run(command, check=True, capture_output=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
