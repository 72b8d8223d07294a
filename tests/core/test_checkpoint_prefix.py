"""Which checkpoints there are instead of one that a user named."""

import pytest

from albert_tf.core import checkpoint_prefix

# The step decides the order, and a name without one is the first.
_NAMES = ["model.ckpt-best", *(f"model.ckpt-{step}" for step in range(50, 1250, 100))]


def _write(folder, names):
    for name in names:
        for suffix in ("index", "data-00000-of-00001"):
            (folder / f"{name}.{suffix}").touch()


@pytest.mark.parametrize(
    ("num_checkpoints", "listed"),
    [
        (1, "model.ckpt-best"),
        (4, "model.ckpt-best, model.ckpt-50, model.ckpt-150, model.ckpt-250"),
        (13, f"..., {', '.join(_NAMES[-10:])}"),
    ],
)
def test_the_last_checkpoints_of_the_directory_are_listed(
    tmp_path, num_checkpoints, listed
):
    _write(tmp_path, _NAMES[:num_checkpoints])
    prefix = f"{tmp_path}/model.ckpt-7"
    assert checkpoint_prefix.say_missing(prefix) == (
        f"there is no {prefix}.index. {tmp_path} holds {listed}"
    )


def test_without_any_the_missing_file_alone_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for prefix in ("model.ckpt-7", f"{tmp_path}/absent/model.ckpt-7"):
        found = checkpoint_prefix.say_missing(prefix)
        assert found == f"there is no {prefix}.index"


def test_a_prefix_without_a_directory_is_of_the_present_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, ["model.ckpt-40"])
    assert checkpoint_prefix.exists("model.ckpt-40")
    assert not checkpoint_prefix.exists("model.ckpt-4")
    assert checkpoint_prefix.say_missing("model.ckpt-4").endswith(
        ". The current directory holds model.ckpt-40"
    )
