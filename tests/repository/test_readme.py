"""The five commands of docs/start.md run as written; what pages name exists."""

import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
START = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
# Pages at the root, whose links mkdocs does not check.
AT_ROOT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# What makes the commands fit a corpus of a few hundred sentences and a test's patience.
SHRINK = {
    "data_prep.train_vocab": ["--vocab_size=130"],
    "data_prep.create_pretraining_data": [
        "--set=model.vocab_size=130",
        "--set=data.heldout_rate=0.2",
    ],
    "albert_tf.pretrain": [
        "--set=model.vocab_size=130",
        "--set=data.heldout_rate=0.2",
        "--set=model.num_layers=1",
        "--set=optimizer.warmup_steps=1",
        "--set=train.num_steps=6",
        *(f"--set=train.stages.{number}.num_steps=2" for number in (1, 2, 3)),
    ],
}


def _shell_blocks(page: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", page, re.DOTALL)


def _write_corpus(path: pathlib.Path) -> None:
    """Writes documents of sentences so short that two of them fit into 32 tokens."""
    rng = random.Random(5)
    syllables = ("ba", "ken", "lo", "mir", "nu", "pas", "rok", "sti", "ton", "vel")
    words = [first + last for first in syllables for last in syllables]
    documents = (
        "\n".join(f"{' '.join(rng.choices(words, k=3))}." for _ in range(12))
        for _ in range(60)
    )
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")


def _write_python(path: pathlib.Path) -> None:
    """Writes a program `python` that adds the flags of `SHRINK`."""
    cases = (
        f'{module}) set -- "$@" {shlex.join(more)} ;;'
        for module, more in SHRINK.items()
    )
    lines = ["#!/bin/sh", 'case "$2" in', *cases, "esac"]
    path.write_text("\n".join([*lines, f'exec {sys.executable} "$@"', ""]))
    path.chmod(0o755)


@pytest.mark.slow
def test_five_commands_lead_from_own_text_to_answers(tmp_path):
    blocks = _shell_blocks(START)
    (block,) = (block for block in blocks if "data_prep.train_vocab" in block)
    activation, *lines = block.splitlines()
    assert activation == ". .venv/bin/activate"
    assert block.count("python -m ") == 5
    (tmp_path / "bin").mkdir()
    _write_python(tmp_path / "bin" / "python")
    (tmp_path / "corpus").mkdir()
    _write_corpus(tmp_path / "corpus" / "part.txt")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "->" in result.stdout


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = [START, *((ROOT / name).read_text(encoding="utf-8") for name in AT_ROOT)]
    shell = "\n".join(block for page in pages for block in _shell_blocks(page))
    targets = re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)
    assert {"demo", "docs", "test", "check", "help", "reference"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("name", AT_ROOT)
def test_files_that_a_page_at_the_root_links_to_exist(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page)
    # The site has the other three as pages of docs/, where such links would be wrong.
    assert bool(links) == (name == "README.md")
    for path in links:
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
