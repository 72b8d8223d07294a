"""The folder of a run that is not finished: what is done, and what to go on from.

A run writes here, on a local disk, until all is whole. Every file appears under its
name only when it is complete, so a run that is killed at any moment goes on from the
files that are there. Per block: its records in parts, each sorted by key (`.records`),
then its documents and what was counted (`.documents`), which says that the block is
done. Per group of input files: how many blocks it has. Per shard: the shard, then what
was counted in it (`.counts`), which says that the shard is done.
"""

import collections
import dataclasses
import fcntl
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files, schema
from data_prep import blocks, readers, record_maker, shards

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
class Plan:
    """What decides the outcome of a run, as JSON can hold it.

    Attributes:
      settings: by name.
      groups: for each group of input files, [path, size, time of change] of each file.
    """

    settings: Mapping[str, Any]
    groups: Sequence[Sequence[Sequence[Any]]]

    def __post_init__(self):
        # JSON has lists only, and a plan must equal what is read back of it.
        for field in dataclasses.fields(self):
            value = json.loads(json.dumps(getattr(self, field.name)))
            object.__setattr__(self, field.name, value)

    def difference(self, other: "Plan") -> str:
        """Says in words what makes another plan's blocks useless; empty if nothing."""
        if self.settings != other.settings:
            return _first_difference(self.settings, other.settings)
        paths = [[[file[0] for file in g] for g in p.groups] for p in (self, other)]
        return "" if paths[0] == paths[1] else "it has other input files"

    def changed_groups(self, other: "Plan") -> set[int]:
        """The groups whose files have changed."""
        pairs = enumerate(zip(self.groups, other.groups, strict=True))
        return {number for number, (old, new) in pairs if old != new}


class ShardCounts(NamedTuple):
    """A shard, and its tokens and masked tokens by id; int64 [V]."""

    shard: schema.Shard
    tokens: np.ndarray
    masked: np.ndarray


class WorkFolder:
    """See the module. All paths in it are local."""

    def __init__(self, path: str):
        self.path = path
        self._lock: io.IOBase | None = None

    # ---- The run ----

    def open(self, plan: Plan, overwrite: bool) -> None:
        """Makes the folder, or takes it over from a run with the same plan.

        Where input files have changed, what came of their groups is removed.

        Args:
          plan: what decides the outcome.
          overwrite: whether what another plan left gives way.

        Raises:
          ValueError: another run is at work on it, or left it with another plan.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = open(self._join(_LOCK_FILE), "wb")
        except OSError as error:
            raise ValueError(
                f"{self.path} must be a folder that can be written ({error.strerror}); "
                "choose another --work_dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise ValueError(
                f"another run is at work in {self.path}; wait for it, or choose "
                "another --output_dir"
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
                "begin anew"
            )
        if before is None or difference:
            self._remove(lambda _: True)
        else:
            changed = before.changed_groups(plan)
            self._remove(lambda name: _group_of(name) in {*changed, None})
        # Last: until then what is left belongs to the plan that was there.
        text = json.dumps(dataclasses.asdict(plan), indent=1)
        files.write_bytes(self._join(_PLAN_FILE), text.encode())

    def is_published(self, plan: Plan) -> bool:
        """Whether a run with this plan was stopped while its files moved away."""
        return os.path.exists(self._join(_PUBLISHED_FILE)) and self._read_plan() == plan

    def note_published(self) -> None:
        """Notes that all files are whole and begin to move away."""
        files.write_bytes(self._join(_PUBLISHED_FILE), b"")

    def _read_plan(self) -> Plan | None:
        """The plan that lies here, or None if there is none that can be read."""
        path = self._join(_PLAN_FILE)
        if not os.path.exists(path):
            return None
        try:
            return Plan(**json.loads(files.read_bytes(path)))
        except (ValueError, TypeError):
            return None

    def _remove(self, is_stale: Callable[[str], bool]) -> None:
        """Removes files by their names, the plan and the lock excepted.

        What says that something is done goes before what it says that of, so that what
        is left by a kill is never taken for whole.
        """
        names = [n for n in os.listdir(self.path) if n not in (_PLAN_FILE, _LOCK_FILE)]
        for name in sorted(filter(is_stale, names), key=_order_to_remove):
            os.remove(self._join(name))

    def clear(self) -> None:
        """Removes the folder and all that is in it, if it is there."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Lets another run have the folder."""
        if self._lock is not None:
            self._lock.close()

    # ---- Groups and blocks ----

    def write_group(self, group: int, num_blocks: int) -> None:
        """Notes that all blocks of a group are done."""
        data = json.dumps({"num_blocks": num_blocks}).encode()
        files.write_bytes(self._join(f"{group:06d}.group"), data)

    def has_group(self, group: int) -> bool:
        """Whether all blocks of a group are done."""
        path = self._join(f"{group:06d}.group")
        if not os.path.exists(path):
            return False
        num_blocks = json.loads(files.read_bytes(path))["num_blocks"]
        return all(self._has(BlockName(group, n)) for n in range(num_blocks))

    def has_block(self, block: readers.Block) -> bool:
        """Whether a block is done."""
        return self._has(BlockName(block.group, block.number))

    def _has(self, name: BlockName) -> bool:
        return os.path.exists(self._join(f"{name}.documents"))

    def write_block(
        self, block: readers.Block, processor: blocks.BlockProcessor
    ) -> collections.Counter:
        """Processes a block and writes its outcome.

        Returns:
          The tallies of the block.
        """
        name = BlockName(block.group, block.number)
        documents, parts = processor.process(block)
        for number, part in enumerate(parts):
            _write_arrays(self._join(f"{name}-{number:02d}.records"), part._asdict())
            shards.count_part(part, documents.tallies)
        if documents.signatures.size:
            # Columns first: what looks for duplicates reads some at a time.
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
        """Whether any block is done."""
        return os.path.isdir(self.path) and bool(self.block_names())

    def block_names(self) -> list[BlockName]:
        """The blocks that are done, in the order of the input."""
        stems = [n.split(".")[0] for n in self._names(".documents")]
        return [BlockName(*map(int, stem.split("-"))) for stem in stems]

    def read_documents(self, name: BlockName) -> blocks.BlockDocuments:
        """The documents of a block; their signatures are left on disk."""
        arrays = _read_arrays(self._join(f"{name}.documents"))
        tallies = collections.Counter(json.loads(arrays.pop("tallies").tobytes()))
        signatures = np.empty((len(arrays["fingerprints"]), 0), np.uint32)
        return blocks.BlockDocuments(signatures=signatures, tallies=tallies, **arrays)

    def read_fingerprints(self, name: BlockName) -> np.ndarray:
        """The fingerprints of a block's documents, mapped into memory."""
        path = self._join(f"{name}.documents")
        return _read_arrays(path, mapped=True)["fingerprints"]

    def read_signatures(self, name: BlockName) -> np.ndarray:
        """The signatures of a block, mapped into memory."""
        path = self._join(f"{name}.signatures")
        return _read_arrays(path, mapped=True)["columns"].T

    # ---- Duplicates ----

    def write_dropped(self, name: BlockName, dropped: np.ndarray) -> None:
        """Notes which documents of a block are duplicates; uint8 [D], 0 stays."""
        _write_arrays(self._join(f"{name}.dropped"), {"dropped": dropped})

    def read_dropped(self, name: BlockName) -> np.ndarray | None:
        """What `write_dropped` noted, or None."""
        path = self._join(f"{name}.dropped")
        return _read_arrays(path)["dropped"] if os.path.exists(path) else None

    # ---- Records and shards ----

    def iter_parts(self) -> Iterator[tuple[record_maker.Made, np.ndarray | None]]:
        """The records of all blocks in the order of the input, mapped into memory.

        Yields:
          A part, and what `read_dropped` gives of its block.
        """
        for file_name in self._names(".records"):
            group, number, _ = map(int, file_name.split(".")[0].split("-"))
            arrays = _read_arrays(self._join(file_name), mapped=True)
            dropped = self.read_dropped(BlockName(group, number))
            yield record_maker.Made(**arrays), dropped

    def shard_path(self, name: str) -> str:
        """Where a shard lies until it is published."""
        return self._join(name)

    def write_shard_counts(
        self, shard: schema.Shard, tokens: np.ndarray, masked: np.ndarray
    ) -> None:
        """Notes that a shard is done, and what was counted in it."""
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
        """What `write_shard_counts` noted of a shard, or None."""
        path = self._join(f"{name}.counts")
        if not os.path.exists(path):
            return None
        arrays = _read_arrays(path)
        shard = schema.Shard(**json.loads(arrays["shard"].tobytes()))
        return ShardCounts(shard, arrays["tokens"], arrays["masked"])

    def _names(self, suffix: str) -> list[str]:
        return sorted(n for n in os.listdir(self.path) if n.endswith(suffix))

    def _join(self, name: str) -> str:
        return os.path.join(self.path, name)


def _first_difference(before: Mapping, after: Mapping, prefix: str = "") -> str:
    """Says in words where two settings differ first."""
    for key, old in before.items():
        new = after.get(key)
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                return _first_difference(old, new, f"{prefix}{key}.")
            return f"{prefix}{key} was {old!r} and is {new!r}"
    return "it has other settings"


def _group_of(name: str) -> int | None:
    """The group whose blocks a file is of, or None if it came after the blocks."""
    stem = name.split(".")[0].split("-")[0]
    return int(stem) if stem.isdigit() and not name.endswith(".dropped") else None


def _order_to_remove(name: str) -> int:
    first = (_PUBLISHED_FILE, ".counts", ".dropped", ".group", ".documents")
    ranks = [rank for rank, end in enumerate(first) if name.endswith(end)]
    return ranks[0] if ranks else len(first)


def _write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays behind a line of JSON that says what they are."""
    header = {name: [a.dtype.str, a.shape] for name, a in arrays.items()}
    line = json.dumps(header).encode()
    temporary = f"{path}.tmp{os.getpid()}"
    with open(temporary, "wb") as file:
        # Padded, so that every array is aligned in memory when it is mapped.
        file.write(line + b" " * (-(len(line) + 1) % 8) + b"\n")
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
            file.write(b"\0" * (-array.nbytes % 8))
    os.replace(temporary, path)


def _read_arrays(path: str, mapped: bool = False) -> dict[str, np.ndarray]:
    """Reads what `_write_arrays` wrote, or maps it into memory."""
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
