"""README's commands run as written, on a small corpus; its pages and paths exist."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.support import small_run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# What makes the commands fit a corpus of a few hundred sentences and a test's patience.
SHRINK = {
    "data_prep.train_vocab": ["--vocab_size=150"],
    "data_prep.create_pretraining_data": [
        "--set=model.vocab_size=150",
        "--set=data.heldout_rate=0.2",
    ],
    "albert_tf.pretrain": [
        "--set=model.vocab_size=150",
        "--set=data.heldout_rate=0.2",
        "--set=model.num_layers=1",
        "--set=optimizer.warmup_steps=1",
        "--set=train.num_steps=4",
    ],
}


def _shell_blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def _own_text_commands() -> list[list[str]]:
    (block,) = (block for block in _shell_blocks() if "data_prep.train_vocab" in block)
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("python -m ")]


@pytest.mark.slow
def test_five_commands_lead_from_own_text_to_answers(tmp_path):
    commands = _own_text_commands()
    assert len(commands) == 5
    (tmp_path / "corpus").mkdir()
    small_run.write_corpus(tmp_path / "corpus" / "part.txt")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in commands:
        assert command[:2] == ["python", "-m"]
        command = [sys.executable, *command[1:], *SHRINK.get(command[2], [])]
        result = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr[-2000:]
    assert "->" in result.stdout


def test_make_targets_and_files_that_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make ([a-z-]+)", "\n".join(_shell_blocks()), re.MULTILINE)
    assert {"demo", "test", "check", "help"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / path).exists(), path


def test_the_architecture_page_names_every_room_and_no_file_that_is_not_there():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for package in ("albert_tf", "data_prep"):
        rooms = [path.parent.name for path in (ROOT / package).glob("*/__init__.py")]
        assert len(rooms) > 5
        for room in rooms:
            assert f"| `{room}` |" in page, f"docs/architecture.md: no room {room}"
    for path in re.findall(r"`((?:albert_tf|data_prep)/[\w/.]+)`", page):
        assert (ROOT / path).exists(), path
