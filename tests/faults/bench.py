"""The folder of the fault suite: small inputs, made once, and processes to disturb."""

import dataclasses
import functools
import json
import pathlib
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.support import small_run, small_task
from tests.support import training_processes as processes

NUM_FILES = 6


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that writes to one folder.

    Attributes:
      name: for folders and messages.
      words: the module and its flags, for an output folder.
      result: what must be the same at the end, by name, from the output folder.
      is_whole_at_once: whether the output folder appears complete or not at all.
    """

    name: str
    words: Callable[[pathlib.Path], Sequence[str]]
    result: Callable[[pathlib.Path], dict[str, Any]]
    is_whole_at_once: bool = False


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended: exit code, and what it said on its error stream."""

    code: int
    errors: str

    @property
    def is_refusal(self) -> bool:
        """Whether it ended as cli.user_errors ends it, without a traceback."""
        lines = self.errors.rstrip().splitlines()
        has_line = bool(lines) and lines[-1].startswith("error: ")
        return self.code in (1, 75) and has_line and "Traceback" not in self.errors

    def __str__(self):
        return f"exit code {self.code}: {self.errors[-600:]}"


class Bench:
    """Inputs and undisturbed results, kept in a folder for all experiments."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self._wholes: dict[str, tuple[dict[str, Any], float]] = {}
        self._latest: dict[str, pathlib.Path] = {}
        self._num_folders = 0

    def new_path(self, name: str) -> pathlib.Path:
        """A path of its own, with nothing there."""
        self._num_folders += 1
        path = self.folder / f"{name}-{self._num_folders}"
        shutil.rmtree(path, ignore_errors=True)
        self._latest[name] = path
        return path

    def latest(self, name: str) -> pathlib.Path:
        """The last path of that name."""
        return self._latest[name]

    # ---- Inputs ----

    @functools.cached_property
    def corpus(self) -> pathlib.Path:
        """A folder of text files, two of them with the same documents."""
        folder = self.folder / "corpus"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(NUM_FILES):
            path = folder / f"{number}.txt"
            small_run.write_corpus(path, 20, seed=min(number, NUM_FILES - 2))
        return folder

    @functools.cached_property
    def records(self) -> pathlib.Path:
        """Records to train on."""
        folder = self.folder / "small"
        if not (folder / "records" / "manifest.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            small_run.write_records(
                folder, "data.masking=dynamic", "data.dupe_factor=1"
            )
        return folder / "records"

    @functools.cached_property
    def pretrained(self) -> pathlib.Path:
        """The directory of a pre-trained run."""
        folder = self.folder / "pretrained"
        if not folder.exists():
            making = self.folder / "pretrained.making"
            shutil.rmtree(making, ignore_errors=True)
            small_task.write_pretrained(making, "model.num_layers=1").rename(folder)
        return folder

    @functools.cached_property
    def table(self) -> pathlib.Path:
        """A folder with train.tsv, dev.tsv and test.tsv."""
        return small_task.write_table(self.folder / "table")

    @functools.cached_property
    def pairs(self) -> pathlib.Path:
        """A file of minimal pairs."""
        rng, path = random.Random(3), self.folder / "pairs.jsonl"
        lines = []
        for _ in range(30):
            words = ["The", "river", "runs", "near", "a", "lake", str(rng.random())]
            good = " ".join(words)
            rng.shuffle(words)
            pair = {"sentence_good": good, "sentence_bad": " ".join(words)}
            lines.append(json.dumps(pair) + "\n")
        path.write_text("".join(lines))
        return path

    # ---- Processes ----

    def run(self, words: Sequence[str]) -> Ended:
        """Runs `python -m WORDS` to its end."""
        log = self.new_path("log")
        with processes.running([command_line(words)], log) as (process,):
            process.join(timeout=processes.TIMEOUT)
            code = process.exitcode
        errors = (log / "0.err").read_text(errors="replace")
        if code is None:
            return Ended(-1, f"{errors}\nno end within {processes.TIMEOUT} s")
        return Ended(code, errors)

    @functools.cache  # noqa: B019  (one bench lives as long as its process)
    def _warm_up(self) -> None:
        """Starts the server of processes, so that no time contains its imports."""
        self.run(["this"])

    def whole(self, command: Command) -> tuple[dict[str, Any], float]:
        """The result of a command that nobody disturbs, and its seconds."""
        if command.name not in self._wholes:
            self._warm_up()
            output = self.new_path(f"whole-{command.name}")
            started = time.monotonic()
            ended = self.run(command.words(output))
            seconds = time.monotonic() - started
            if ended.code:
                raise RuntimeError(f"{command.name} without a fault: {ended}")
            self._wholes[command.name] = command.result(output), seconds
        return self._wholes[command.name]


def command_line(words: Sequence[str]) -> list[str]:
    """The command of a module and its flags."""
    return [sys.executable, "-m", *map(str, words)]


def differing(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The names whose values differ, or that only one has."""
    return sorted(
        name
        for name in expected.keys() | found.keys()
        if name not in expected or name not in found or expected[name] != found[name]
    )
