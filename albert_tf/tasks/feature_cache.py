"""Encodes examples on all cores, and caches the features on disk."""

import concurrent.futures.process
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.core import files, progress_bar, side_by_side
from albert_tf.tasks import base
from albert_tf.tasks import features as features_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

# Incremented whenever the same examples give other features.
_VERSION = 1
_CHUNK_CHARACTERS = 1_000_000
# With fewer characters another process costs more than it saves.
_SERIAL_CHARACTERS = 20_000_000

# Each process also imports TensorFlow, some 350 MB.
_MAX_WORKERS = 16
# The settings that the features depend on.
_FEATURE_SETTINGS = (
    "name",
    "kind",
    "max_seq_length",
    "doc_stride",
    "max_query_length",
    "max_option_length",
)

_Chunk = tuple[base.Task, tokenizer_lib.Tokenizer, Sequence[Any], bool]


def load_or_encode(
    task: base.Task,
    tokenizer: tokenizer_lib.Tokenizer,
    examples: Sequence[Any],
    is_training: bool,
    cache_dir: str,
    num_workers: int = 0,
) -> features_lib.Features:
    """Returns the features of examples, from the cache if they are there.

    The name of a cached file is a digest of everything that the features depend on: the
    examples, the settings of the task, the vocabulary, and the version of this code.

    Args:
      task: encodes the examples.
      tokenizer: of the model.
      examples: at least one.
      is_training: whether to include the labels.
      cache_dir: local or gs://, created if necessary; empty disables the cache.
      num_workers: processes; 0 means one per core if there are enough examples.

    Raises:
      OSError: a worker process was killed.
    """
    path = ""
    if cache_dir:
        digest = _digest(task, tokenizer, examples, is_training)
        path = os.path.join(cache_dir, f"{digest}.npz")
        if files.exists(path):
            # A damaged file is written again.
            with contextlib.suppress(ValueError):
                return features_lib.from_bytes(files.read_bytes(path))
    chunks = [
        (task, tokenizer, chunk, is_training)
        for chunk in _split(examples, _CHUNK_CHARACTERS)
    ]
    encoded = list(
        progress_bar.make(
            _encode_all(chunks, num_workers or _num_workers(examples)),
            desc="features",
            total=len(chunks),
            unit="chunk",
            leave=False,
            disable=len(chunks) < 5,
        )
    )
    features = features_lib.concatenate(encoded, [len(chunk[2]) for chunk in chunks])
    if path:
        files.make_folder(cache_dir)
        files.write_bytes(path, features_lib.to_bytes(features))
    return features


def _digest(
    task: base.Task,
    tokenizer: tokenizer_lib.Tokenizer,
    examples: Sequence[Any],
    is_training: bool,
) -> str:
    digest = hashlib.sha256()
    settings = [
        _VERSION,
        {name: getattr(task.settings, name) for name in _FEATURE_SETTINGS},
        task.labels,
        tokenizer.sha256,
        tokenizer.lower_case,
        is_training,
    ]
    digest.update(json.dumps(settings).encode())
    for example in examples:
        # The origin does not change the features.
        values = {**dataclasses.asdict(example), "origin": ""}
        digest.update(json.dumps(values, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()[:32]


def _num_characters(example: Any) -> int:
    """The approximate amount of text to tokenize."""
    return len(repr(example))


def _num_workers(examples: Sequence[Any]) -> int:
    is_long = sum(map(_num_characters, examples)) > _SERIAL_CHARACTERS
    return min(len(os.sched_getaffinity(0)), _MAX_WORKERS) if is_long else 1


def _split(examples: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Splits examples into chunks of about `size` characters, in order."""
    begin, total = 0, 0
    for end, example in enumerate(examples, 1):
        total += _num_characters(example)
        if total >= size or end == len(examples):
            yield examples[begin:end]
            begin, total = end, 0


def _encode(chunk: _Chunk) -> features_lib.Features:
    task, tokenizer, examples, is_training = chunk
    return task.encode(examples, tokenizer, is_training)


def _encode_all(
    chunks: Sequence[_Chunk], num_workers: int
) -> Iterator[features_lib.Features]:
    """Yields the features of each chunk, in order."""
    if num_workers == 1:
        yield from map(_encode, chunks)
        return
    # "spawn", because forking a process with threads may deadlock.
    with concurrent.futures.ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn")
    ) as pool:
        try:
            yield from side_by_side.map_in_order(pool, _encode, chunks, 2 * num_workers)
        except concurrent.futures.process.BrokenProcessPool as error:
            raise OSError(
                "a process that encodes examples was killed, perhaps for lack of "
                "memory; run the same command again"
            ) from error
