"""Times the stages of data preparation in one process."""

import collections
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from albert_tf.core import config
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.fast_tokenizer import encoder
from data_prep.pipeline import block_processor, duplicates, work_dir, worker
from data_prep.reading import blocks as blocks_lib
from data_prep.records import (
    chunks,
    example_builder,
    example_proto,
    segment_pairs,
    shards,
)
from data_prep.text import cleaning, deduplication, sentences

_ALTERNATIVES_BYTES = 1_000_000  # text that the alternatives are timed on
_LINES_PER_PARAGRAPH = 5  # lines that sentencex splits again

# Timed functions: where they are called, and the name of the row. The time of a row
# excludes that of the others.
_STAGES = (
    (blocks_lib, "parse_block", "parse"),
    (cleaning.Cleaner, "clean", "clean"),
    (deduplication, "exact_fingerprint", "fingerprint"),
    (deduplication.Signatures, "of", "near-duplicate signature"),
    (sentences, "split_sentences", "split sentences"),
    (encoder.FastEncoder, "encode", "tokenize"),
    (segment_pairs, "cut_spans", "cut spans"),
    (block_processor.BlockProcessor, "process", "rest of the block"),
    (example_builder, "make_records", "make records"),
    (example_builder, "sort_records", "sort"),
    (chunks, "buffers", "checksums of chunks"),
    (work_dir.WorkDir, "write_block", "write files"),
    (chunks, "unpack", "check chunks"),
    (shards, "select", "select"),
    (example_proto, "count_tokens", "count tokens"),
    (shards, "_checksums", "checksums"),
    (shards, "_frame", "frame"),
    (shards, "assemble", "rest of assembling"),
    (shards, "write_shard", "write, SHA-256"),
)


class Clock:
    """Seconds of stages that may be nested, each without those inside it.

    `phase` is the prefix of a stage's name in the name of its row.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.phase = ""
        self._now, self._last = now, 0.0
        self._running: list[str] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the context to a row, and pauses the outer stage."""
        self._charge()
        self._running.append(f"{self.phase}{name}")
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        now = self._now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._last
        self._last = now

    @contextlib.contextmanager
    def on_stages(self) -> Iterator[None]:
        """Times the functions of `_STAGES` within the context."""
        with contextlib.ExitStack() as stack:
            for owner, function, name in _STAGES:
                original = getattr(owner, function)
                stack.callback(setattr, owner, function, original)
                setattr(owner, function, self._timed(original, name))
            yield

    def _timed(self, function: Callable, name: str) -> Callable:
        def timed(*arguments):
            with self.stage(name):
                return function(*arguments)

        return timed


def time_stages(
    path: str, settings: block_processor.PipelineSettings, directory: str
) -> tuple[dict[str, float], int]:
    """Runs the tasks of data preparation on a text in this process.

    Args:
      path: the text.
      settings: settings of the records.
      directory: directory of the output, which is created.

    Returns:
      Seconds by row, and the number of records.
    """
    os.makedirs(directory)
    clock = Clock()
    # A new worker, whose table of words is as empty as in a new process.
    work = worker.Worker(settings, directory, num_groups=1)
    tallies: collections.Counter[str] = collections.Counter()
    (group,) = blocks_lib.plan_groups([path])
    found = blocks_lib.iter_blocks(
        group, settings.text, block_processor.block_bytes(settings.data)
    )
    num_blocks = 0
    with clock.on_stages():
        clock.phase = "block: "
        while True:
            with clock.stage("read and cut"):
                block = next(found, None)
            if block is None:
                break
            tallies.update(work.make_block(block))
            num_blocks = block.number + 1
    _end_blocks(work_dir.WorkDir(directory, 1), num_blocks, settings.text)
    with clock.on_stages():
        clock.phase = "shard: "
        for split in schema.SPLITS:
            num_bytes = tallies[f"bytes/{split}"]
            count = shards.num_shards(settings.data, split, num_bytes)
            for number in range(count if num_bytes else 0):
                work.make_shard(split, number, count)
    names = ["read and cut", *(name for _, _, name in _STAGES)]
    rows = [phase + name for phase in ("block: ", "shard: ") for name in names]
    seconds = {row: clock.seconds[row] for row in rows if row in clock.seconds}
    return seconds, sum(tallies[f"records/{split}"] for split in schema.SPLITS)


def _end_blocks(
    work: work_dir.WorkDir, num_blocks: int, text: config.TextConfig
) -> None:
    """Writes what a run writes between its blocks and its shards; drops nothing."""
    work.write_group(0, num_blocks)
    for name in work.block_names() if duplicates.is_wanted(text) else ():
        num_documents = len(work.read_documents(name).is_heldout)
        work.write_dropped(name, np.zeros(num_documents, np.uint8))


def time_alternatives(
    path: str, settings: block_processor.PipelineSettings
) -> dict[str, float]:
    """Times slower alternatives to stages, on a megabyte, scaled to the whole text."""
    with open(path, "rb") as file:
        data = file.read(_ALTERNATIVES_BYTES)
    lines = [line for line in data.decode(errors="ignore").split("\n") if line]
    starts = range(0, len(lines), _LINES_PER_PARAGRAPH)
    paragraphs = [" ".join(lines[i : i + _LINES_PER_PARAGRAPH]) for i in starts]
    text = dataclasses.replace(settings.text, sentence_splitter="sentencex")
    tokenizer = tokenizer_lib.Tokenizer(settings.vocab_model, settings.data.lower_case)
    clock = Clock()
    with clock.stage("(split with sentencex)"):
        sentences.split_sentences(paragraphs, text)
    with clock.stage("(tokenize with encode_batch)"):
        tokenizer.encode_batch(lines)
    scale = os.path.getsize(path) / len(data)
    return {row: seconds * scale for row, seconds in clock.seconds.items()}
