"""Checks a directory of records against its manifest."""

import concurrent.futures
import functools
import glob
import os
import threading
from collections.abc import Callable

import numpy as np

from albert_tf.core import files, machine, progress_bar
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.verification import manifest as manifest_lib
from data_prep.verification import records
from data_prep.verification import shards as shards_lib

_MAKE_AGAIN = "make the records again"
_EDITED = f"the manifest was edited: restore the original, or {_MAKE_AGAIN}"

# Sums of a deep check over the records of a split, see `shards_lib.ShardContent`.
_TOTALS = (f"labels.{schema.NO_LABEL}", "labels.1", "num_tokens", "num_masked")


def verify(data_dir: str, deep: bool = False) -> list[str]:
    """Checks a directory of records against its manifest.

    Args:
      data_dir: the directory, local or gs://.
      deep: whether to check every record, too: its checksum, ids, lengths, positions
        and label.

    Returns:
      A line for each problem, with how to fix it; empty if there is none.
    """
    path = os.path.join(data_dir, schema.MANIFEST_FILE)
    try:
        manifest = manifest_lib.read_manifest(data_dir)
    except ValueError as error:
        return [str(error)]
    problems = [
        f"{path}: {problem}; {_EDITED}"
        for problem in manifest_lib.inconsistencies(manifest)
    ]
    is_usable = not problems
    vocabulary_problems, tokenizer = _check_vocabulary(data_dir, manifest)
    problems += vocabulary_problems
    rules = None
    if deep and is_usable and tokenizer:
        rules = records.make_rules(manifest, tokenizer)
    problems += _check_shards(data_dir, manifest, rules, deep)
    return problems + _check_unknown_files(data_dir, manifest)


# ---- The files ----


def _check_vocabulary(
    data_dir: str, manifest: schema.Manifest
) -> tuple[list[str], tokenizer_lib.Tokenizer | None]:
    """Returns the problems of the vocabulary, and its tokenizer if there are none."""
    path = os.path.join(data_dir, schema.VOCAB_FILE)
    if not files.exists(path):
        return [f"{path}: missing; {manifest_lib.COPY_AGAIN}"], None
    try:
        tokenizer = tokenizer_lib.Tokenizer.from_file(path)
    except ValueError as error:
        return [f"{error}; {manifest_lib.COPY_AGAIN}"], None
    if tokenizer.sha256 != manifest.vocab_sha256:
        return [
            f"{path}: not the vocabulary that the records were made with (SHA-256 "
            f"{tokenizer.sha256[:12]}…, in the manifest "
            f"{str(manifest.vocab_sha256)[:12]}…); {manifest_lib.COPY_AGAIN}"
        ], None
    reserved = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.replacement_ids)
    problems = [
        f"{os.path.join(data_dir, schema.MANIFEST_FILE)}: {name} is {received}, but "
        f"{expected} in {schema.VOCAB_FILE}; {_EDITED}"
        for name, received, expected in (
            ("vocab_size", manifest.vocab_size, tokenizer.vocab_size),
            ("mask_id", manifest.mask_id, tokenizer.mask_id),
            ("reserved_ids", manifest.reserved_ids, tuple(reserved.tolist())),
        )
        if received != expected
    ]
    return problems, None if problems else tokenizer


def _check_unknown_files(data_dir: str, manifest: schema.Manifest) -> list[str]:
    """Returns a problem for each shard that the manifest does not name."""
    known = {s.name for split in manifest.splits.values() for s in split.shards}
    found = files.glob(os.path.join(glob.escape(data_dir), "*.tfrecord*"))
    return [
        f"{path}: a shard that the manifest does not name; remove it, or restore its "
        "name if it was renamed"
        for path in found
        if os.path.basename(path) not in known
    ]


def _check_shards(
    data_dir: str,
    manifest: schema.Manifest,
    rules: records.Rules | None,
    deep: bool,
) -> list[str]:
    named = [
        (name, shard)
        for name, split in manifest.splits.items()
        for shard in split.shards
    ]
    paths = [os.path.join(data_dir, shard.name) for _, shard in named]
    with (
        concurrent.futures.ThreadPoolExecutor(machine.num_cores()) as pool,
        progress_bar.make(desc="verify", unit="B", unit_scale=True) as bar,
    ):
        sizes = list(pool.map(_size, paths))
        bar.total = sum(size or 0 for size in sizes)
        lock = threading.Lock()

        def advance(num_bytes: int) -> None:
            with lock:
                bar.update(num_bytes)

        check = functools.partial(_check_shard, rules=rules, deep=deep, advance=advance)
        shards = [shard for _, shard in named]
        results = list(pool.map(check, paths, shards, sizes))

    problems = [problem for found, _ in results for problem in found]
    if rules is None or problems:
        return problems
    for name, split in manifest.splits.items():
        of_split = [
            totals
            for (split_name, _), (_, totals) in zip(named, results, strict=True)
            if split_name == name
        ]
        found = np.sum(of_split, axis=0)
        for total, number in zip(_TOTALS, found.tolist(), strict=True):
            expected = manifest_lib.number_of(split.statistics, total)
            if expected != number:
                problems.append(
                    f"{os.path.join(data_dir, schema.MANIFEST_FILE)}: {name}: {total} "
                    f"is {expected:,}, but {number:,} in the records; {_EDITED}"
                )
    return problems


def _size(path: str) -> int | None:
    """Returns the size of a file in bytes, or None if it does not exist."""
    return files.size(path) if files.exists(path) else None


def _check_shard(
    path: str,
    shard: schema.Shard,
    size: int | None,
    rules: records.Rules | None,
    deep: bool,
    advance: Callable[[int], None],
) -> tuple[list[str], np.ndarray]:
    """Returns the problems of a shard, and the totals of its records."""
    nothing = np.zeros(len(_TOTALS), np.int64)
    if size is None:
        return [f"{path}: missing; {manifest_lib.COPY_AGAIN}"], nothing
    try:
        found = shards_lib.read_shard(path, rules, deep, advance)
        is_same = found.sha256 == shard.sha256
        if not is_same and not deep:
            # Reads again, with checksums, to find the place.
            found = shards_lib.read_shard(path, None, True, lambda _: None)
    except OSError as error:
        return [
            f"{path}: cannot be read ({error.strerror}); {manifest_lib.COPY_AGAIN}"
        ], nothing
    where = f"record {found.num_records} (the first is 0): {found.fault}"
    if found.num_bytes != shard.num_bytes:
        is_short = found.num_bytes < shard.num_bytes
        problem = (
            f"{'cut off' if is_short else 'too long'}: it has {found.num_bytes:,} "
            f"bytes, {shard.num_bytes:,} in the manifest"
        )
    elif not is_same:
        problem = (
            f"its bytes were changed: SHA-256 {found.sha256[:12]}…, in the manifest "
            f"{shard.sha256[:12]}…"
        )
    elif found.fault:
        return [f"{path}: {where}; {_MAKE_AGAIN}"], nothing
    elif found.num_records != shard.num_records:
        return [
            f"{path}: it holds {found.num_records:,} records, {shard.num_records:,} in "
            f"the manifest; {_EDITED}"
        ], nothing
    else:
        return [], found.totals
    place = f"; {where}" if found.fault else "; each record in it is whole"
    return [f"{path}: {problem}{place}; {manifest_lib.COPY_AGAIN}"], nothing
