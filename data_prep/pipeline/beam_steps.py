"""Steps of the Beam pipeline of `beam_run`.

Blocks of text, chunks of their records of a few megabytes, and counts pass between the
steps. A worker holds one block and its records, or one piece of a run of blocks, or one
shard.
"""

import dataclasses
import functools
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from albert_tf.core import config, files, numba_cache
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.pipeline import (
    block_processor,
    common,
    duplicates,
    manifest_builder,
)
from data_prep.pipeline import output_dir as output_dir_lib
from data_prep.reading import blocks
from data_prep.records import chunks, shards, shuffle

_DOCUMENTS, _FINGERPRINTS = "documents", "fingerprints"
_PIECES = "pieces"

# A block, and the fingerprints and signatures of its documents.
_Fingerprints = tuple[shuffle.Place, np.ndarray, np.ndarray]


class _Written(NamedTuple):
    """Shards of each split, and their tokens and masked tokens by id; int64 [V]."""

    shards: dict[str, list[schema.Shard]]
    tokens: dict[str, np.ndarray]
    masked: dict[str, np.ndarray]


def build(
    pipeline: beam.Pipeline,
    groups: Iterable[blocks.Group],
    settings: block_processor.PipelineSettings,
    output_dir: str,
) -> None:
    """Adds the steps from files to records to a pipeline.

    Args:
      pipeline: the pipeline.
      groups: the files to read, wherever a worker runs.
      settings: everything that decides the outcome.
      output_dir: the directory to write, which exists and holds no manifest.
    """
    groups = list(groups)
    # The vocabulary and the evaluation set are large: only where they are used.
    light = dataclasses.replace(settings, vocab_model=b"", evaluation=None)
    # ---- Blocks ----
    outcome = (
        pipeline
        | "groups" >> beam.Create(groups)
        | "spread groups" >> beam.Reshuffle()
        | "read" >> beam.ParDo(_Read(light))
        | "spread blocks" >> beam.Reshuffle()
        | "make records"
        >> beam.ParDo(_MakeBlock(settings)).with_outputs(
            _DOCUMENTS, _FINGERPRINTS, main="chunks"
        )
    )
    # Without it, a runner may make the records again for each use of them.
    record_chunks = outcome.chunks | "keep chunks" >> beam.Reshuffle()

    # ---- Duplicates ----
    text = settings.text
    marks = None
    if duplicates.is_wanted(text):
        marks = beam.pvalue.AsMultiMap(
            outcome[_FINGERPRINTS]
            | "gather fingerprints" >> beam.GroupByKey()
            | "find duplicates" >> beam.ParDo(_FindDuplicates(light))
        )

    # ---- Totals ----
    totals = beam.pvalue.AsSingleton(
        outcome[_DOCUMENTS]
        | "count" >> beam.ParDo(_Count(light), marks)
        | "add counts" >> beam.CombineGlobally(_AddTotals())
    )
    paths = [path for group in groups for path in group.paths]
    sizes = outcome[_DOCUMENTS] | "sizes" >> beam.ParDo(_SizeBlock())
    plan = (
        pipeline
        | "once" >> beam.Create([None])
        | "plan shards"
        >> beam.ParDo(_PlanShards(light, paths[:4]), totals, beam.pvalue.AsList(sizes))
    )

    # ---- Shards ----
    empty = plan | "every shard" >> beam.ParDo(_EveryShard())
    chosen = record_chunks | "choose" >> beam.ParDo(
        _Choose(), beam.pvalue.AsSingleton(plan), marks
    ).with_outputs(_PIECES, main="records")
    merged = (
        chosen[_PIECES]
        | "gather pieces" >> beam.GroupByKey()
        | "merge pieces" >> beam.ParDo(_MergePiece())
    )
    written = (
        (chosen.records, merged, empty)
        | "records and shards" >> beam.Flatten()
        | "gather shards" >> beam.GroupByKey()
        | "write shards" >> beam.ParDo(_WriteShard(light, output_dir))
        | "add shards" >> beam.CombineGlobally(_AddShards(settings.vocab_size))
    )
    written | "publish" >> beam.ParDo(_Publish(settings, output_dir), totals)


class _Step(beam.DoFn):
    """A step that has the settings."""

    def __init__(self, settings: block_processor.PipelineSettings):
        super().__init__()
        self._settings = settings


class _Read(_Step):
    """Files to blocks."""

    def process(self, group: blocks.Group) -> Iterator[blocks.Block]:
        size = block_processor.block_bytes(self._settings.data)
        yield from blocks.iter_blocks(group, self._settings.text, size)


class _MakeBlock(_Step):
    """Blocks to chunks of records, counts of documents, and fingerprints."""

    _processor: block_processor.BlockProcessor

    def setup(self) -> None:
        self._processor = block_processor.BlockProcessor(self._settings)

    def process(self, block: blocks.Block) -> Iterator[Any]:
        place = (block.group, block.number)
        with numba_cache.first_use("beam_steps.make_block"):
            documents, parts = self._processor.process(block)
            for number, part in enumerate(parts):
                shards.count_part(part, documents.tallies)
                for chunk, records in enumerate(chunks.cut(part, chunks.CHUNK_BYTES)):
                    yield (*place, number, chunk), chunks.pack(records)
        fingerprints = (place, documents.fingerprints, documents.signatures)
        yield beam.pvalue.TaggedOutput(_FINGERPRINTS, (0, fingerprints))
        light = dataclasses.replace(
            documents,
            fingerprints=documents.fingerprints[:0],
            signatures=documents.signatures[:0],
        )
        yield beam.pvalue.TaggedOutput(_DOCUMENTS, (place, light))


class _FindDuplicates(_Step):
    """The fingerprints of all blocks to the marks of each, on one worker."""

    def process(
        self, element: tuple[int, Iterable[_Fingerprints]]
    ) -> Iterator[tuple[shuffle.Place, bytes]]:
        yield from _find_duplicates(element[1], self._settings.text)


class _Count(_Step):
    """The documents of a block to totals."""

    def process(
        self,
        element: tuple[shuffle.Place, block_processor.BlockDocuments],
        marks: Mapping[shuffle.Place, Iterable[bytes]] | None,
    ) -> Iterator[manifest_builder.Totals]:
        place, documents = element
        totals = manifest_builder.Totals.empty()
        totals.add(documents, _marks_of(place, marks), self._settings.data)
        yield totals


class _AddTotals(beam.CombineFn):
    """The sum of totals."""

    def create_accumulator(self) -> manifest_builder.Totals:
        return manifest_builder.Totals.empty()

    def add_input(
        self, total: manifest_builder.Totals, more: manifest_builder.Totals
    ) -> manifest_builder.Totals:
        total.tallies.update(more.tallies)
        for split, counter in more.splits.items():
            total.splits[split].update(counter)
        return total

    def merge_accumulators(
        self, totals: Iterable[manifest_builder.Totals]
    ) -> manifest_builder.Totals:
        merged = self.create_accumulator()
        for total in totals:
            merged = self.add_input(merged, total)
        return merged

    def extract_output(self, total: manifest_builder.Totals) -> manifest_builder.Totals:
        return total


class _SizeBlock(beam.DoFn):
    """The documents of a block to the bytes of its records by split."""

    def process(
        self, element: tuple[shuffle.Place, block_processor.BlockDocuments]
    ) -> Iterator[tuple[shuffle.Place, dict[str, int]]]:
        place, documents = element
        yield place, shuffle.bytes_of(documents.tallies)


class _PlanShards(_Step):
    """Totals and sizes of blocks to the number of shards, and how records get there."""

    def __init__(
        self, settings: block_processor.PipelineSettings, paths: Sequence[str]
    ):
        super().__init__(settings)
        self._paths = paths

    def process(
        self,
        _: None,
        totals: manifest_builder.Totals,
        sizes: Iterable[tuple[shuffle.Place, dict[str, int]]],
    ) -> Iterator[Any]:
        data = self._settings.data
        if reason := common.reason_to_refuse(self._paths, totals, data):
            raise ValueError(reason)
        yield shuffle.make_plan(common.count_shards(totals, data), sizes)


# What goes to the shards has one declared type, from whichever step it comes: some
# runners cannot flatten collections of several.
class _EveryShard(beam.DoFn):
    """Names each shard once, so that empty shards are written, too."""

    def process(self, plan: shuffle.Plan) -> Iterator[Any]:
        yield from shuffle.every_shard(plan)


class _Choose(beam.DoFn):
    """Chunks to the records that each shard, or each piece, takes of them."""

    def process(
        self,
        element: tuple[tuple[int, ...], chunks.Packed],
        plan: shuffle.Plan,
        marks: Mapping[shuffle.Place, Iterable[bytes]] | None,
    ) -> Iterator[Any]:
        order, packed = element
        chunk = chunks.unpack(packed)
        dropped = _marks_of(order[:2], marks)
        yield from shuffle.to_shards(plan, order, chunk, dropped)
        for selected in shuffle.to_pieces(plan, order, chunk, dropped):
            yield beam.pvalue.TaggedOutput(_PIECES, selected)


class _MergePiece(beam.DoFn):
    """A piece of a run of blocks to the records that each shard takes of it."""

    def process(
        self, element: tuple[shuffle.PieceKey, Iterable[shuffle.Ordered]]
    ) -> Iterator[Any]:
        yield from shuffle.from_piece(*element)


class _WriteShard(_Step):
    """The records of a shard to its file and its counts."""

    def __init__(self, settings: block_processor.PipelineSettings, output_dir: str):
        super().__init__(settings)
        self._output_dir = output_dir

    def process(
        self,
        element: tuple[shuffle.ShardKey, Iterable[shuffle.Ordered]],
    ) -> Iterator[tuple[str, schema.Shard, np.ndarray, np.ndarray]]:
        (split, number, count), chosen = element
        data = self._settings.data
        content, num_records, tokens, masked = shards.assemble(
            chunks.in_order(dict(chosen)),
            data,
            self._settings.vocab_size,
        )
        name = shards.shard_name(data, split, number, count)
        path = os.path.join(self._output_dir, name)
        # A runner may make a shard twice, even at the same time; a remote object
        # appears when its upload ends.
        is_remote = files.is_remote(path)
        temporary = path if is_remote else f"{path}.{uuid.uuid4().hex}"
        shard = shards.write_shard(
            temporary, name, content, num_records, data.compression
        )
        if not is_remote:
            os.replace(temporary, path)
        yield split, shard, tokens, masked


class _AddShards(beam.CombineFn):
    """All shards, and the sums of their counts."""

    def __init__(self, vocab_size: int):
        super().__init__()
        self._vocab_size = vocab_size

    def create_accumulator(self) -> _Written:
        tokens, masked = (
            {split: np.zeros(self._vocab_size, np.int64) for split in schema.SPLITS}
            for _ in range(2)
        )
        return _Written({split: [] for split in schema.SPLITS}, tokens, masked)

    def add_input(
        self,
        written: _Written,
        element: tuple[str, schema.Shard, np.ndarray, np.ndarray],
    ) -> _Written:
        split, shard, tokens, masked = element
        written.shards[split].append(shard)
        written.tokens[split] += tokens
        written.masked[split] += masked
        return written

    def merge_accumulators(self, several: Iterable[_Written]) -> _Written:
        merged = self.create_accumulator()
        for written in several:
            for split in schema.SPLITS:
                merged.shards[split].extend(written.shards[split])
                merged.tokens[split] += written.tokens[split]
                merged.masked[split] += written.masked[split]
        return merged

    def extract_output(self, written: _Written) -> _Written:
        for of_split in written.shards.values():
            of_split.sort(key=lambda shard: shard.name)
        return written


class _Publish(_Step):
    """Writes the vocabulary and the manifest, after all shards.

    A step of the pipeline and not of the process that started it, which may have ended
    by then.
    """

    def __init__(self, settings: block_processor.PipelineSettings, output_dir: str):
        super().__init__(settings)
        self._output_dir = output_dir

    def process(self, written: _Written, totals: manifest_builder.Totals) -> None:
        settings = self._settings
        tokenizer = tokenizer_lib.Tokenizer(
            settings.vocab_model, settings.data.lower_case
        )
        manifest = manifest_builder.make_manifest(totals, *written, settings, tokenizer)
        output = output_dir_lib.OutputDir(
            self._output_dir, settings.vocab_model, overwrite=True
        )
        # The shards are in their place. Other files, such as those of a worker that was
        # killed, are removed.
        with tempfile.TemporaryDirectory() as empty:
            output.publish(empty, manifest)


def _find_duplicates(
    fingerprints: Iterable[_Fingerprints], text: config.TextConfig
) -> list[tuple[shuffle.Place, bytes]]:
    """Marks the documents of each block that repeat an earlier one.

    The fingerprints are kept on a local disk, so that memory does not grow with the
    corpus.

    Args:
      fingerprints: of all blocks, in any order.
      text: defines which kinds of duplicates to look for.

    Returns:
      For each block, uint8 [D], see `manifest_builder.Totals.add`.
    """
    sizes: dict[shuffle.Place, int] = {}
    with tempfile.TemporaryDirectory() as directory:

        def path(kind: str, place: shuffle.Place) -> str:
            return os.path.join(directory, f"{kind}-{place[0]}-{place[1]}.npy")

        def load(kind: str, number: int) -> np.ndarray:
            return np.load(path(kind, places[number]), mmap_mode="r")

        for place, exact, near in fingerprints:
            sizes[place] = len(exact)
            np.save(path("exact", place), exact, allow_pickle=False)
            np.save(path("near", place), near, allow_pickle=False)
        places = sorted(sizes)
        marks = duplicates.find(
            text,
            [sizes[place] for place in places],
            functools.partial(load, "exact"),
            functools.partial(load, "near"),
        )
    return [(p, mark.tobytes()) for p, mark in zip(places, marks, strict=True)]


def _marks_of(
    place: tuple[int, ...], marks: Mapping[shuffle.Place, Iterable[bytes]] | None
) -> np.ndarray | None:
    """The result of `_FindDuplicates` for a block, uint8 [D]; None without marks."""
    if marks is None:
        return None
    (mark,) = marks[place]  # type: ignore[index]
    return np.frombuffer(mark, np.uint8)
