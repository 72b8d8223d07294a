"""Which checkpoints are whole, by the names of their files."""

from albert_tf.checkpoints import checkpoint_files

_NAMES = (
    # step 3 is whole, step 20 in two parts too
    *("model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"),
    *("model.ckpt-20.index", "model.ckpt-20.data-00000-of-00002"),
    "model.ckpt-20.data-00001-of-00002",
    # one part of two, no index, no data
    *("model.ckpt-30.index", "model.ckpt-30.data-00001-of-00002"),
    "model.ckpt-40.data-00000-of-00001",
    "model.ckpt-50.index",
    # other files
    *("model.ckpt-60.index.tmp", "model.ckpt-best.index", "checkpoint", "x.index"),
)


def test_a_checkpoint_is_whole_if_index_and_all_parts_are_there(tmp_path):
    for name in _NAMES:
        (tmp_path / name).touch()
    (tmp_path / "model.ckpt-70_temp").mkdir()
    assert checkpoint_files.whole_steps(str(tmp_path)) == [3, 20]
    assert checkpoint_files.begun_steps(str(tmp_path)) == [3, 20, 30, 40, 50]


def test_a_directory_that_is_not_there_has_none(tmp_path):
    assert checkpoint_files.whole_steps(str(tmp_path / "absent")) == []
    assert checkpoint_files.begun_steps("ram://absent") == []
