r"""Checks a folder of records against its manifest, and names all that is wrong.

  python -m data_prep.verify DIR [--deep]

Exit code 0 and one line if all is as the manifest says; else 1, and a line for each
thing that is wrong. DIR is local or gs://.
"""

import concurrent.futures
import functools
import glob
import os
import threading
from collections.abc import Callable, Sequence

import numpy as np
import tqdm
from absl import flags

from albert_tf import binary, files, schema, tokenization
from data_prep import manifest_check, record_rules, shard_check

_MAKE_ANEW = "make the records anew"
_EDITED = f"the manifest was edited: take the one that was written, or {_MAKE_ANEW}"

# What a deep look adds up over the records of a split, as `shard_check.Found` has it.
_TOTALS = ("labels.1", "num_tokens", "num_masked")


def verify(data_dir: str, deep: bool = False) -> list[str]:
    """Checks a folder of records against its manifest.

    Args:
      data_dir: the folder, local or gs://.
      deep: whether to look into every record, too: its checksum, ids, lengths,
        positions and label.

    Returns:
      A line for all that is wrong, with what mends it. None if nothing is.
    """
    path = os.path.join(data_dir, schema.MANIFEST_FILE)
    try:
        manifest = manifest_check.read_manifest(data_dir)
    except ValueError as error:
        return [str(error)]
    problems = [
        f"{path}: {problem}; {_EDITED}"
        for problem in manifest_check.inconsistencies(manifest)
    ]
    is_usable = not problems
    vocabulary_problems, rules = _check_vocabulary(data_dir, manifest)
    problems += vocabulary_problems
    if not (deep and is_usable):
        rules = None
    problems += _check_shards(data_dir, manifest, rules, deep)
    return problems + _check_strangers(data_dir, manifest)


# ---- The files ----


def _check_vocabulary(
    data_dir: str, manifest: schema.Manifest
) -> tuple[list[str], record_rules.Rules | None]:
    """What is wrong with the vocabulary; the rules for records if nothing is."""
    path = os.path.join(data_dir, schema.VOCAB_FILE)
    if not files.exists(path):
        return [f"{path}: missing; {manifest_check.COPY_AGAIN}"], None
    try:
        tokenizer = tokenization.Tokenizer.from_file(path)
    except ValueError as error:
        return [f"{error}; {manifest_check.COPY_AGAIN}"], None
    if tokenizer.sha256 != manifest.vocab_sha256:
        return [
            f"{path}: not the vocabulary that the records were made with (SHA-256 "
            f"{tokenizer.sha256[:12]}…, in the manifest "
            f"{str(manifest.vocab_sha256)[:12]}…); {manifest_check.COPY_AGAIN}"
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
    return problems, None if problems else record_rules.make_rules(manifest, tokenizer)


def _check_strangers(data_dir: str, manifest: schema.Manifest) -> list[str]:
    """The shards in the folder that the manifest does not name."""
    known = {s.name for split in manifest.splits.values() for s in split.shards}
    found = files.glob(os.path.join(glob.escape(data_dir), "*.tfrecord*"))
    return [
        f"{path}: a shard that the manifest does not name; remove it, or give it back "
        "its name if it was renamed"
        for path in found
        if os.path.basename(path) not in known
    ]


def _check_shards(
    data_dir: str,
    manifest: schema.Manifest,
    rules: record_rules.Rules | None,
    deep: bool,
) -> list[str]:
    named = [
        (name, shard)
        for name, split in manifest.splits.items()
        for shard in split.shards
    ]
    paths = [os.path.join(data_dir, shard.name) for _, shard in named]
    with (
        concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        tqdm.tqdm(desc="verify", unit="B", unit_scale=True, mininterval=1.0) as bar,
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
            expected = manifest_check.number_of(split.statistics, total)
            if expected != number:
                problems.append(
                    f"{os.path.join(data_dir, schema.MANIFEST_FILE)}: {name}: {total} "
                    f"is {expected:,}, but {number:,} in the records; {_EDITED}"
                )
    return problems


def _size(path: str) -> int | None:
    """The bytes of a file, or None if there is none."""
    return files.size(path) if files.exists(path) else None


def _check_shard(
    path: str,
    shard: schema.Shard,
    size: int | None,
    rules: record_rules.Rules | None,
    deep: bool,
    advance: Callable[[int], None],
) -> tuple[list[str], np.ndarray]:
    """What is wrong with a shard, and the totals of its records."""
    nothing = np.zeros(len(_TOTALS), np.int64)
    if size is None:
        return [f"{path}: missing; {manifest_check.COPY_AGAIN}"], nothing
    try:
        found = shard_check.read_shard(path, rules, deep, advance)
        is_same = found.sha256 == shard.sha256
        if not is_same and not deep:
            # Only now is it worth the time to look where.
            found = shard_check.read_shard(path, None, True, lambda _: None)
    except OSError as error:
        return [
            f"{path}: cannot be read ({error.strerror}); {manifest_check.COPY_AGAIN}"
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
        return [f"{path}: {where}; {_MAKE_ANEW}"], nothing
    elif found.num_records != shard.num_records:
        return [
            f"{path}: it holds {found.num_records:,} records, {shard.num_records:,} in "
            f"the manifest; {_EDITED}"
        ], nothing
    else:
        return [], found.totals
    place = f"; {where}" if found.fault else "; each record in it is whole"
    return [f"{path}: {problem}{place}; {manifest_check.COPY_AGAIN}"], nothing


# ---- Command ----


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_bool(
        "deep",
        False,
        "Look into every record, too: checksum, ids, lengths, positions and label.",
        flag_values,
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Checks a folder and says what is wrong, or that nothing is."""
    with binary.user_errors():
        if len(argv) != 2:
            raise ValueError(
                "one argument is needed, the folder of the records; received "
                f"{len(argv) - 1}"
            )
        data_dir = argv[1]
        problems = verify(data_dir, flag_values.deep)
        print(*problems, sep="\n", end="\n" if problems else "")
        if problems:
            raise ValueError(
                f"{data_dir} is not as its manifest says; problems, named above: "
                f"{len(problems)}"
            )
        splits = manifest_check.read_manifest(data_dir).splits.values()
        print(
            f"{data_dir}: {sum(len(split.shards) for split in splits):,} shards, "
            f"{sum(split.num_records for split in splits):,} records, all as the "
            "manifest says"
        )


if __name__ == "__main__":
    binary.run(main, define_flags)
