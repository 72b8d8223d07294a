"""The work directory of an unfinished run, from which the run can resume.

A run writes here, on a local disk, until all is complete. Every file appears under its
name only when it is complete and on disk, so a run that is killed at any moment, or
ended by a power loss, resumes from the files that exist. Per block: its records in
parts, each sorted by key (`.records`), then its documents and counts (`.documents`),
which mark the block as done. Per group of input files: the number of its blocks. Per
shard: the shard, then its counts (`.counts`), which mark the shard as done.
"""

import collections
import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from albert_tf.core import files, locks
from albert_tf.data import schema
from data_prep.pipeline import block_processor
from data_prep.reading import blocks
from data_prep.records import example_builder, shards

_PLAN_FILE = "plan.json"
_LOCK_FILE = "lock"
_PUBLISHED_FILE = "published"


@dataclasses.dataclass(frozen=True)
class BlockName:
    """The identity of a block, in the order of the input."""

    group: int
    number: int

    def __str__(self) -> str:
        return f"{self.group:06d}-{self.number:06d}"


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """Everything that decides the outcome of a run, as JSON values.

    Attributes:
      settings: by name.
      groups: for each group of input files, [path, size, modification time] of each
        file.
    """

    settings: Mapping[str, Any]
    groups: Sequence[Sequence[Sequence[Any]]]

    def __post_init__(self):
        # JSON has no tuples, and a plan must equal itself after writing and reading.
        for field in dataclasses.fields(self):
            value = json.loads(json.dumps(getattr(self, field.name)))
            object.__setattr__(self, field.name, value)

    def difference(self, other: "RunPlan") -> str:
        """Describes what makes another plan's blocks useless; empty if nothing does."""
        if self.settings != other.settings:
            return _first_difference(self.settings, other.settings)
        paths = [[[file[0] for file in g] for g in p.groups] for p in (self, other)]
        return "" if paths[0] == paths[1] else "it has other input files"

    def changed_groups(self, other: "RunPlan") -> set[int]:
        """The groups whose files have changed."""
        pairs = enumerate(zip(self.groups, other.groups, strict=True))
        return {number for number, (old, new) in pairs if old != new}


class ShardCounts(NamedTuple):
    """A shard, and its tokens and masked tokens by id; int64 [V]."""

    shard: schema.Shard
    tokens: np.ndarray
    masked: np.ndarray


class WorkDir:
    """The directory of unfinished work; its path is local."""

    def __init__(self, path: str):
        self.path = path
        self._lock = locks.FileLock(self._join(_LOCK_FILE))

    # ---- The run ----

    def open(self, plan: RunPlan, overwrite: bool) -> None:
        """Creates the directory, or takes it over from a run with the same plan.

        If input files have changed, the results of their groups are removed.

        Args:
          plan: everything that decides the outcome.
          overwrite: whether to remove the work of another plan.

        Raises:
          ValueError: another run uses the directory, or left it with another plan.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock.acquire()
        except locks.HeldError as error:
            raise ValueError(
                f"another run is at work in {self.path} ({error}); wait until it ends, "
                "or choose another --output_dir"
            ) from error
        except OSError as error:
            raise ValueError(
                f"{self.path} must be a writable directory ({error.strerror}); choose "
                "another --work_dir"
            ) from error
        before = self._read_plan()
        if before == plan:
            self._remove(lambda name: ".tmp" in name)
            return
        difference = "its plan cannot be read" if before is None else ""
        if before is not None:
            difference = before.difference(plan)
        if difference and self.has_blocks() and not overwrite:
            self.close()
            raise ValueError(
                f"{self.path} holds an unfinished run that differs: {difference}. "
                "Repeat that run's command to finish it, or pass --overwrite to "
                "start again"
            )
        if before is None or difference:
            self._remove(lambda _: True)
        else:
            changed = before.changed_groups(plan)
            self._remove(lambda name: _group_of(name) in {*changed, None})
        # Last: until then the remaining files belong to the previous plan.
        text = json.dumps(dataclasses.asdict(plan), indent=1)
        self._write(_PLAN_FILE, text.encode())

    def is_published(self, plan: RunPlan) -> bool:
        """Returns whether a run with this plan was killed while publishing."""
        return os.path.exists(self._join(_PUBLISHED_FILE)) and self._read_plan() == plan

    def note_published(self) -> None:
        """Marks all files as complete, before the first of them is moved."""
        self._write(_PUBLISHED_FILE, b"")

    def _read_plan(self) -> RunPlan | None:
        """Returns the plan of the directory; None if there is none or it is damaged."""
        path = self._join(_PLAN_FILE)
        if not os.path.exists(path):
            return None
        try:
            return RunPlan(**json.loads(files.read_bytes(path)))
        except (ValueError, TypeError):
            return None

    def _remove(self, is_stale: Callable[[str], bool]) -> None:
        """Removes files by name, except the plan and the lock.

        A file that marks something as done is removed before what it marks, so that
        nothing incomplete is marked as done after a kill.
        """
        names = [n for n in os.listdir(self.path) if n not in (_PLAN_FILE, _LOCK_FILE)]
        for name in sorted(filter(is_stale, names), key=_order_to_remove):
            os.remove(self._join(name))

    def clear(self) -> None:
        """Removes the directory with its content, if it exists."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Releases the lock of the directory."""
        self._lock.release()

    # ---- Groups and blocks ----

    def write_group(self, group: int, num_blocks: int) -> None:
        """Marks all blocks of a group as done."""
        data = json.dumps({"num_blocks": num_blocks}).encode()
        self._write(f"{group:06d}.group", data)

    def has_group(self, group: int) -> bool:
        """Returns whether all blocks of a group are done."""
        path = self._join(f"{group:06d}.group")
        if not os.path.exists(path):
            return False
        num_blocks = json.loads(files.read_bytes(path))["num_blocks"]
        return all(self._has(BlockName(group, n)) for n in range(num_blocks))

    def has_block(self, block: blocks.Block) -> bool:
        """Returns whether a block is done."""
        return self._has(BlockName(block.group, block.number))

    def _has(self, name: BlockName) -> bool:
        return os.path.exists(self._join(f"{name}.documents"))

    def write_block(
        self, block: blocks.Block, processor: block_processor.BlockProcessor
    ) -> collections.Counter:
        """Processes a block, writes its outcome and returns its tallies."""
        name = BlockName(block.group, block.number)
        documents, parts = processor.process(block)
        for number, part in enumerate(parts):
            _write_arrays(self._join(f"{name}-{number:02d}.records"), part._asdict())
            shards.count_part(part, documents.tallies)
        if documents.signatures.size:
            # By column: the search for duplicates reads a few at a time.
            columns = {"columns": documents.signatures.T}
            _write_arrays(self._join(f"{name}.signatures"), columns)
        tallies = json.dumps(documents.tallies, sort_keys=True).encode()
        arrays = {
            field: getattr(documents, field)
            for field in ("fingerprints", "is_heldout", "num_characters")
            + ("num_tokens", "counts")
        }
        arrays["tallies"] = np.frombuffer(tallies, np.uint8)
        _write_arrays(self._join(f"{name}.documents"), arrays)
        return documents.tallies

    def has_blocks(self) -> bool:
        """Returns whether any block is done."""
        return os.path.isdir(self.path) and bool(self.block_names())

    def block_names(self) -> list[BlockName]:
        """The blocks that are done, in the order of the input."""
        stems = [n.split(".")[0] for n in self._names(".documents")]
        return [BlockName(*map(int, stem.split("-"))) for stem in stems]

    def read_documents(self, name: BlockName) -> block_processor.BlockDocuments:
        """Returns the documents of a block, without their signatures."""
        arrays = _read_arrays(self._join(f"{name}.documents"))
        tallies = collections.Counter(json.loads(arrays.pop("tallies").tobytes()))
        signatures = np.empty((len(arrays["fingerprints"]), 0), np.uint32)
        return block_processor.BlockDocuments(
            signatures=signatures, tallies=tallies, **arrays
        )

    def read_fingerprints(self, name: BlockName) -> np.ndarray:
        """Returns the fingerprints of a block's documents, memory-mapped."""
        path = self._join(f"{name}.documents")
        return _read_arrays(path, mapped=True)["fingerprints"]

    def read_signatures(self, name: BlockName) -> np.ndarray:
        """Returns the signatures of a block, memory-mapped."""
        path = self._join(f"{name}.signatures")
        return _read_arrays(path, mapped=True)["columns"].T

    # ---- Duplicates ----

    def write_dropped(self, name: BlockName, dropped: np.ndarray) -> None:
        """Records which documents of a block are duplicates; uint8 [D], 0 if not."""
        _write_arrays(self._join(f"{name}.dropped"), {"dropped": dropped})

    def read_dropped(self, name: BlockName) -> np.ndarray | None:
        """Returns the array of `write_dropped`, or None."""
        path = self._join(f"{name}.dropped")
        return _read_arrays(path)["dropped"] if os.path.exists(path) else None

    # ---- Records and shards ----

    def iter_parts(
        self,
    ) -> Iterator[tuple[example_builder.RecordBatch, np.ndarray | None]]:
        """The records of all blocks in the order of the input, memory-mapped.

        Yields:
          A part, and the result of `read_dropped` for its block.
        """
        for file_name in self._names(".records"):
            group, number, _ = map(int, file_name.split(".")[0].split("-"))
            arrays = _read_arrays(self._join(file_name), mapped=True)
            dropped = self.read_dropped(BlockName(group, number))
            yield example_builder.RecordBatch(**arrays), dropped

    def shard_path(self, name: str) -> str:
        """The path of a shard until it is published."""
        return self._join(name)

    def add_shard(
        self,
        temporary: str,
        shard: schema.Shard,
        tokens: np.ndarray,
        masked: np.ndarray,
    ) -> None:
        """Renames a shard, and marks it as done.

        Args:
          temporary: the path of the shard, a file of this directory that is on disk.
          shard: its description.
          tokens: int64 [V], its tokens by id.
          masked: int64 [V], its masked tokens by id.
        """
        _rename(temporary, self._join(shard.name))
        description = json.dumps(dataclasses.asdict(shard)).encode()
        _write_arrays(
            self._join(f"{shard.name}.counts"),
            {
                "shard": np.frombuffer(description, np.uint8),
                "tokens": tokens,
                "masked": masked,
            },
        )

    def read_shard_counts(self, name: str) -> ShardCounts | None:
        """Returns the counts of a shard that is done, or None."""
        path = self._join(f"{name}.counts")
        if not os.path.exists(path):
            return None
        arrays = _read_arrays(path)
        shard = schema.Shard(**json.loads(arrays["shard"].tobytes()))
        return ShardCounts(shard, arrays["tokens"], arrays["masked"])

    def _write(self, name: str, data: bytes) -> None:
        with _create(self._join(name)) as file:
            file.write(data)

    def _names(self, suffix: str) -> list[str]:
        return sorted(n for n in os.listdir(self.path) if n.endswith(suffix))

    def _join(self, name: str) -> str:
        return os.path.join(self.path, name)


def _first_difference(before: Mapping, after: Mapping, prefix: str = "") -> str:
    """Describes the first difference between two settings."""
    for key, old in before.items():
        new = after.get(key)
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                return _first_difference(old, new, f"{prefix}{key}.")
            return f"{prefix}{key} was {old!r} and is {new!r}"
    return "it has other settings"


def _group_of(name: str) -> int | None:
    """The group of a block's file; None for files that are made after the blocks."""
    stem = name.split(".")[0].split("-")[0]
    return int(stem) if stem.isdigit() and not name.endswith(".dropped") else None


def _order_to_remove(name: str) -> int:
    first = (_PUBLISHED_FILE, ".counts", ".dropped", ".group", ".documents")
    ranks = [rank for rank, end in enumerate(first) if name.endswith(end)]
    return ranks[0] if ranks else len(first)


def _write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays after a line of JSON that describes them."""
    header = {name: [a.dtype.str, a.shape] for name, a in arrays.items()}
    line = json.dumps(header).encode()
    with _create(path) as file:
        # Padded, so that every array is aligned when memory-mapped.
        file.write(line + b" " * (-(len(line) + 1) % 8) + b"\n")
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
            file.write(b"\0" * (-array.nbytes % 8))


@contextlib.contextmanager
def _create(path: str) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name only when it is complete and on disk."""
    temporary = f"{path}.tmp{os.getpid()}"
    with open(temporary, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    _rename(temporary, path)


def _rename(source: str, target: str) -> None:
    """Renames a file within its directory, and waits until that is on disk."""
    os.replace(source, target)
    directory = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read_arrays(path: str, mapped: bool = False) -> dict[str, np.ndarray]:
    """Reads the arrays of `_write_arrays`, or memory-maps them."""
    with open(path, "rb") as file:
        line = file.readline()
    data: np.ndarray
    if mapped:
        data = np.memmap(path, np.uint8, "r")
    else:
        data = np.fromfile(path, np.uint8)
    arrays = {}
    at = len(line)
    for name, (dtype, shape) in json.loads(line).items():
        num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays[name] = data[at : at + num_bytes].view(dtype).reshape(shape)
        at += num_bytes + -num_bytes % 8
    return arrays
