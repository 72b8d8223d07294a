"""Checkpoints: which are kept, that they are whole, and what of damaged ones."""

import json
import os
import re
import shutil
import time
import types

import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpointer


class _Part(tf.Module):
    def __init__(self, value=0.0):
        super().__init__()
        self.value = tf.Variable(tf.fill([300], value))


def _checkpointer(folder, part, keep=2, is_chief=True):
    return checkpointer.Checkpointer(str(folder), keep, {"part": part}, is_chief)


def _save(folder, steps, bests=(), keep=2, wait=False):
    """Saves at each step, the value of the part being the step."""
    folder.mkdir(exist_ok=True)
    part = _Part()
    saver = _checkpointer(folder, part, keep)
    for step in steps:
        part.value.assign(tf.fill([300], float(step)))
        saver.save(step, float(step) if step in bests else None, wait)
    # The next step, which an asynchronous save must not see.
    part.value.assign(tf.fill([300], -1.0))
    saver.wait()
    return saver


def _kept(folder):
    return sorted(int(p.stem.split("-")[1]) for p in folder.glob("*.index"))


@pytest.mark.parametrize("wait", [False, True])
def test_a_checkpoint_holds_what_was_there_when_it_was_saved(tmp_path, wait):
    _save(tmp_path, [3, 5], wait=wait)
    part = _Part()
    assert _checkpointer(tmp_path, part).restore() == (5, [])
    assert (part.value.numpy() == 5.0).all()


def test_without_a_checkpoint_nothing_is_restored(tmp_path):
    part = _Part(7.0)
    assert _checkpointer(tmp_path, part).restore() == (None, [])
    assert (part.value.numpy() == 7.0).all()


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    _save(tmp_path, [0, 10, 20, 30, 40], bests=[0, 10])
    assert _kept(tmp_path) == [10, 30, 40]
    names = {
        path.name.split(".data")[0].split(".index")[0] for path in tmp_path.iterdir()
    }
    assert names == {
        "checkpoint",
        "best_checkpoint.json",
        "model.ckpt-10",
        "model.ckpt-30",
        "model.ckpt-40",
    }
    best = json.loads((tmp_path / "best_checkpoint.json").read_text())
    assert best == {"step": 10, "metric": 10.0}
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / "model.ckpt-40")
    assert len(state.all_model_checkpoint_paths) == 3
    # A run that goes on knows them, and lets go of the old best for a new one.
    part = _Part()
    saver = _checkpointer(tmp_path, part)
    assert saver.restore() == (40, []) and saver.best == best
    saver.save(50, 50.0)
    saver.save(60)
    saver.wait()
    assert _kept(tmp_path) == [50, 60]


def test_the_folder_may_be_moved(tmp_path):
    _save(tmp_path / "a", [5])
    (tmp_path / "a").rename(tmp_path / "b c")
    part = _Part()
    saver = _checkpointer(tmp_path / "b c", part, keep=1)
    assert saver.restore() == (5, [])
    saver.save(6, wait=True)
    assert _kept(tmp_path / "b c") == [6]


def _cut(path):
    path.write_bytes(path.read_bytes()[:100])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("harm", [_cut, _flip, lambda path: path.unlink()])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_offered(
    tmp_path, suffix, harm
):
    _save(tmp_path, [3, 5])
    harm(tmp_path / f"model.ckpt-5.{suffix}")
    with pytest.raises(ValueError, match="model.ckpt-5 cannot be restored") as error:
        _checkpointer(tmp_path, _Part()).restore()
    said = str(error.value)
    assert f"The one before it is {tmp_path}/model.ckpt-3: --use_previous_" in said
    part = _Part()
    step, passed_over = _checkpointer(tmp_path, part).restore(use_previous=True)
    assert step == 3 and (part.value.numpy() == 3.0).all()
    assert len(passed_over) == 1 and "model.ckpt-5 cannot be" in passed_over[0]


def test_where_all_are_damaged_nothing_starts_again(tmp_path):
    _save(tmp_path, [3, 5])
    for step in (3, 5):
        _cut(tmp_path / f"model.ckpt-{step}.index")
    with pytest.raises(ValueError, match="all checkpoints are damaged: .*ckpt-3"):
        _checkpointer(tmp_path, _Part()).restore(use_previous=True)


def test_a_best_one_beyond_the_restored_one_is_forgotten(tmp_path):
    _save(tmp_path, [3, 5], bests=[5])
    _cut(tmp_path / "model.ckpt-5.index")
    saver = _checkpointer(tmp_path, _Part())
    saver.restore(use_previous=True)
    assert saver.best is None


def test_a_checkpoint_of_another_shape_or_part_is_refused(tmp_path):
    _save(tmp_path, [3])

    class Larger(_Part):
        def __init__(self):
            super().__init__()
            self.more = tf.Variable(0.0)

    with pytest.raises(ValueError, match="model.ckpt-3 cannot be restored"):
        _checkpointer(tmp_path, Larger()).restore()
    saver = checkpointer.Checkpointer(
        str(tmp_path), 2, {"other": _Part()}, is_chief=True
    )
    with pytest.raises(ValueError, match="model.ckpt-3 cannot be restored"):
        saver.restore()


# ---- The file that names the newest checkpoint is lost ----


def _restored(folder):
    """The step that is restored, the value and the lines."""
    part = _Part()
    step, lines = _checkpointer(folder, part).restore()
    return step, float(part.value[0]), lines


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


LOSSES = {
    "is missing": lambda path: path.unlink(),
    "cannot be read": lambda path: path.write_bytes(b"\0damaged"),
    "cannot be read (empty)": lambda path: path.write_bytes(b""),
    "cannot be read (huge)": lambda path: os.truncate(path, 1 << 40),
    "cannot be read (another name)": lambda path: path.write_text(
        path.read_text().replace("ckpt-100", "ckptm100")
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_without_the_list_of_checkpoints_the_newest_whole_one_is_restored(
    tmp_path, loss
):
    _save(tmp_path, [3, 20, 100], keep=3)
    LOSSES[loss](tmp_path / "checkpoint")
    (tmp_path / "model.ckpt-200.data-00000-of-00001").write_bytes(b"half of a save")
    (tmp_path / "model.ckpt-300.index").write_bytes(b"a part of a copy")
    line = (
        f"{tmp_path}/checkpoint, which names the newest checkpoint, "
        f"{loss.partition(' (')[0]}: resuming from the newest whole checkpoint"
    )
    assert _restored(tmp_path) == (100, 100.0, [line])
    # The next save writes the list again, with all that are kept.
    saver = _checkpointer(tmp_path, _Part(), keep=3)
    saver.restore()
    saver.save(150, wait=True)
    assert _kept(tmp_path) == [20, 100, 150, 300]
    assert _restored(tmp_path) == (150, 100.0, [])


def test_an_unreadable_list_is_named_and_not_printed(tmp_path, capfd):
    _save(tmp_path, [3, 20], keep=3)
    (tmp_path / "checkpoint").write_bytes(b"x" * 100_000)
    path = checkpointer.newest_path(str(tmp_path))
    assert path == f"{tmp_path}/model.ckpt-20"
    assert capfd.readouterr().err == (
        f"warning: {tmp_path}/checkpoint, which names the newest checkpoint, cannot be "
        f"read; {path} is taken\n"
    )


@pytest.mark.parametrize("harm", [_cut, _flip])
def test_without_the_list_a_damaged_checkpoint_is_skipped_and_named(tmp_path, harm):
    _save(tmp_path, [3, 5])
    (tmp_path / "checkpoint").unlink()
    harm(tmp_path / "model.ckpt-5.data-00000-of-00001")
    step, value, lines = _restored(tmp_path)
    assert (step, value) == (3, 3.0)
    assert len(lines) == 2 and "model.ckpt-5 cannot be restored" in lines[1]
    for part in tmp_path.glob("model.ckpt-3*"):
        _cut(part)
    before = _contents(tmp_path)
    with pytest.raises(ValueError, match="all checkpoints are damaged: .*ckpt-3"):
        _checkpointer(tmp_path, _Part()).restore()
    assert _contents(tmp_path) == before


def test_parts_of_checkpoints_do_not_start_a_run_again(tmp_path):
    _save(tmp_path, [5])
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "model.ckpt-5.index").unlink()
    with pytest.raises(
        ValueError, match=r"model.ckpt-\* are parts of checkpoints, none of which is w"
    ):
        _checkpointer(tmp_path, _Part()).restore()


def test_a_first_save_that_was_interrupted_is_no_run(tmp_path):
    for name in ("model.ckpt-0.data-00000-of-00001", "model.ckpt-notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert _restored(tmp_path) == (None, 0.0, [])


def test_a_damaged_list_without_any_checkpoint_is_refused(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be read, and there is no checkpoint"):
        _checkpointer(tmp_path, _Part()).restore()


def test_a_list_that_names_absent_checkpoints_offers_one_that_is_there(tmp_path):
    _save(tmp_path, [3, 5, 7], keep=3)
    lines = 'model_checkpoint_path: "model.ckpt-9"\n'
    lines += 'all_model_checkpoint_paths: "model.ckpt-8"\n'
    (tmp_path / "checkpoint").write_text(lines)
    (tmp_path / "model.ckpt-7.index").unlink()
    message = f"ckpt-9 cannot be restored .* before it is {tmp_path}/model.ckpt-5: --us"
    with pytest.raises(ValueError, match=message):
        _checkpointer(tmp_path, _Part()).restore()
    part = _Part()
    step, lines = _checkpointer(tmp_path, part).restore(use_previous=True)
    assert (step, float(part.value[0]), len(lines)) == (5, 5.0, 1)


def test_a_list_that_names_an_earlier_checkpoint_decides(tmp_path):
    _save(tmp_path, [3, 5])
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
    assert _restored(tmp_path) == (3, 3.0, [])
    assert checkpointer.newest_path(str(tmp_path)) == f"{tmp_path}/model.ckpt-3"


def test_the_newest_path_needs_no_list(tmp_path):
    _save(tmp_path, [9, 10])
    (tmp_path / "checkpoint").unlink()
    assert checkpointer.newest_path(str(tmp_path)) == f"{tmp_path}/model.ckpt-10"
    with pytest.raises(ValueError, match="must hold a checkpoint; .* has none"):
        checkpointer.newest_path(str(tmp_path / "absent"))


def test_a_best_checkpoint_that_is_lost_is_said(tmp_path):
    _save(tmp_path, [10, 20, 30], bests=[10])
    (tmp_path / "model.ckpt-10.index").unlink()
    saver = _checkpointer(tmp_path, _Part())
    step, lines = saver.restore()
    assert (step, saver.best) == (30, None)
    assert lines == [
        f"{tmp_path}/best_checkpoint.json names step 10, whose checkpoint is lost: the "
        "best one is chosen among those from now on"
    ]


def test_a_damaged_name_of_the_best_checkpoint_is_refused_with_a_remedy(tmp_path):
    _save(tmp_path, [10])
    (tmp_path / "best_checkpoint.json").write_bytes(b"")
    with pytest.raises(ValueError, match=r"is damaged \(.*Copy it again; or remove it"):
        _checkpointer(tmp_path, _Part())


def test_a_save_that_fails_is_said_at_the_next(tmp_path):
    saver = _save(tmp_path / "run", [3])
    (tmp_path / "run").rename(tmp_path / "gone")
    (tmp_path / "run").write_text("no folder")
    saver.save(4)
    with pytest.raises(OSError, match="model.ckpt-4 could not be written"):
        saver.save(5)
    with pytest.raises((OSError, tf.errors.OpError)):
        _checkpointer(tmp_path / "run", _Part()).save(1, wait=True)


def test_a_checkpoint_does_not_count_if_another_run_took_the_directory(tmp_path):
    """Such as while a machine was suspended in the middle of a save."""

    class Ended(BaseException):
        pass

    def lose():
        raise Ended

    saver = _save(tmp_path, [3], bests=[3])
    listed = (tmp_path / "checkpoint").read_bytes()
    best = (tmp_path / checkpointer.BEST_FILE).read_bytes()
    saver.check_held = lose
    with pytest.raises(Ended):
        saver.save(4, 0.9, wait=True)
    assert (tmp_path / "checkpoint").read_bytes() == listed
    assert (tmp_path / checkpointer.BEST_FILE).read_bytes() == best
    assert (tmp_path / "model.ckpt-3.index").exists()


def test_one_process_of_a_run_writes(tmp_path):
    saver = _checkpointer(tmp_path, _Part(), is_chief=False)
    saver.save(3)
    saver.wait()
    assert list(tmp_path.iterdir()) == []


def test_an_outage_is_not_called_damage(tmp_path, monkeypatch):
    _save(tmp_path, [3, 5])
    saver = _checkpointer(tmp_path, _Part())

    def unreachable(path):
        raise tf.errors.UnavailableError(None, None, "no answer")

    monkeypatch.setattr(saver._checkpoint, "read", unreachable)
    with pytest.raises(tf.errors.UnavailableError):
        saver.restore(use_previous=True)


def test_what_a_killed_process_left_is_removed_with_the_next_save(tmp_path):
    _save(tmp_path, [10, 20])
    for name in ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
        (tmp_path / name).write_bytes(b"left")
    (tmp_path / "model.ckpt-7_temp").mkdir()
    (tmp_path / "model.ckpt-7_temp" / "part-00000-of-00001.index").write_bytes(b"left")
    (tmp_path / "model.ckpt-99.index").write_bytes(b"a later one, passed over")
    (tmp_path / "model.ckpt-notes.txt").write_text("the user's")
    saver = _checkpointer(tmp_path, _Part())
    saver.restore()
    saver.save(30, wait=True)
    assert _kept(tmp_path) == [20, 30, 99]
    assert not (tmp_path / "model.ckpt-7_temp").exists()
    assert (tmp_path / "model.ckpt-notes.txt").exists()


def test_the_best_is_one_that_is_there(tmp_path):
    saver = _save(tmp_path, [10])
    saver.mark_best(10, 1.5)
    again = _checkpointer(tmp_path, _Part())
    again.restore()
    assert again.best == {"step": 10, "metric": 1.5}
    (tmp_path / "best_checkpoint.json").write_text('{"step": 7, "metric": 0.5}')
    again = _checkpointer(tmp_path, _Part())
    again.restore()
    assert again.best is None


def test_the_reason_of_a_failed_save_is_said(tmp_path, monkeypatch):
    saver = _save(tmp_path, [10])

    def full(path, data):
        raise OSError("no space is left")

    monkeypatch.setattr(checkpointer.files, "write_bytes", full)
    saver.save(20)
    with pytest.raises(OSError, match="ckpt-20 could not be written: no space is left"):
        saver.wait()


def _wait_until_written(saver):
    deadline = time.monotonic() + 60.0
    while saver.is_writing and time.monotonic() < deadline:
        time.sleep(0.01)


def test_on_a_full_disk_nothing_of_a_checkpoint_is_left(tmp_path, monkeypatch):
    saver = _save(tmp_path, [10])
    before = sorted(path.name for path in tmp_path.iterdir())
    needed = sum(path.stat().st_size for path in tmp_path.glob("model.ckpt-10.*"))

    def fill(path, options):
        folder = tmp_path / "model.ckpt-20_temp"
        folder.mkdir()
        (folder / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"part")
        (tmp_path / "model.ckpt-20.index").write_bytes(b"part")
        raise tf.errors.ResourceExhaustedError(
            None, None, f"{folder}/part; No space left on device"
        )

    with monkeypatch.context() as patch:
        patch.setattr(saver._checkpoint, "write", fill)
        usage = types.SimpleNamespace(free=12_288)
        patch.setattr(checkpointer.shutil, "disk_usage", lambda _: usage)
        message = (
            "model.ckpt-20 could not be written: no space is left on the disk of "
            f"{re.escape(str(tmp_path))}. It has 12,288 bytes free; free some space, "
            f"since a checkpoint takes {needed:,} bytes$"
        )
        with pytest.raises(OSError, match=message):
            saver.save(20, wait=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    saver.save(20, wait=True)
    assert _kept(tmp_path) == [10, 20]


def test_a_failed_save_is_known_before_the_next_which_keeps_the_newer_state(tmp_path):
    """TensorFlow's thread raises the error only at the next save."""
    part = _Part()
    saver = _checkpointer(tmp_path, part)
    saver.save(3, 0.5, wait=True)
    (tmp_path / "model.ckpt-4.index").mkdir()
    saver.save(4, 0.25)
    assert saver.best == {"step": 4, "metric": 0.25}
    _wait_until_written(saver)
    with pytest.raises(OSError, match="model.ckpt-4 could not be written: .*direct"):
        saver.check()
    assert saver.best == {"step": 3, "metric": 0.5}
    assert saver.check() is False  # it was raised
    part.value.assign(tf.fill([300], 5.0))
    saver.save(5)
    assert saver.wait() is True
    again = _Part()
    restored = _checkpointer(tmp_path, again)
    assert restored.restore() == (5, []) and restored.best == saver.best
    assert (again.value.numpy() == 5.0).all()


@pytest.mark.parametrize("wait", [False, True])
def test_a_save_that_fails_at_the_last_file_leaves_the_best_as_it_was(
    tmp_path, monkeypatch, wait
):
    write = checkpointer.files.write_bytes

    def fail(path, data):
        if path.endswith("/checkpoint"):
            raise tf.errors.UnavailableError(None, None, "no answer")
        write(path, data)

    saver = _checkpointer(tmp_path, _Part())
    with monkeypatch.context() as patch:
        patch.setattr(checkpointer.files, "write_bytes", fail)
        with pytest.raises(OSError, match="model.ckpt-3 could not .*: no answer"):
            saver.save(3, 0.5, wait)
            saver.wait()
    assert saver.best is None and (tmp_path / "best_checkpoint.json").exists()
    saver.save(4, wait=wait)
    assert saver.wait() is not wait
    assert not (tmp_path / "best_checkpoint.json").exists()
    assert _kept(tmp_path) == [4]


def test_a_mark_that_cannot_be_written_is_written_with_the_next_save(
    tmp_path, monkeypatch
):
    saver = _save(tmp_path, [10])

    def fail(path, values):
        raise OSError("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr(checkpointer.files, "write_json", fail)
        with pytest.raises(OSError, match="could not be marked: no space is left"):
            saver.mark_best(10, 1.5)
    for step in (20, 30, 40):
        saver.save(step, wait=True)
    assert _kept(tmp_path) == [10, 30, 40]
    again = _checkpointer(tmp_path, _Part())
    again.restore()
    assert again.best == {"step": 10, "metric": 1.5}


def test_a_copy_becomes_the_newest_checkpoint_when_its_files_are_copied(tmp_path):
    part = _Part()
    saver = _checkpointer(tmp_path / "run", part)
    saver.save(10, 1.5, wait=True)
    part.value.assign(tf.fill([300], 20.0))
    (tmp_path / "copy").mkdir()
    saver.save_copy(str(tmp_path / "copy"), 20)
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {
        "best_checkpoint.json",
        "checkpoint",
        "model.ckpt-20.data-00000-of-00001",
        "model.ckpt-20.index",
    }
    shutil.copytree(tmp_path / "copy", tmp_path / "run", dirs_exist_ok=True)
    again = _Part()
    restored = _checkpointer(tmp_path / "run", again)
    assert restored.restore() == (20, [])
    assert (again.value.numpy() == 20.0).all()
    assert restored.best == {"step": 10, "metric": 1.5}
    assert _kept(tmp_path / "run") == [10, 20]


@pytest.mark.parametrize("path", ["run/model.ckptm0", "run/model.ckpt-", "-1x"])
def test_a_prefix_without_a_step_is_named(path):
    assert checkpointer.step_of("run-1/model.ckpt-500") == 500
    with pytest.raises(ValueError, match=f"must end in its step, .* received {path}"):
        checkpointer.step_of(path)
