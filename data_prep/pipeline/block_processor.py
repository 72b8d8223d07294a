"""Blocks of text to records: parse, clean, split, tokenize, make records.

The outcome of a block depends on the block, the configuration, the vocabulary and the
evaluation set alone: it is the same on every worker and at any time.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.core import config, prng
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.fast_tokenizer import encoder
from data_prep.reading import blocks
from data_prep.records import example_builder, segment_pairs
from data_prep.text import cleaning, contamination, deduplication, sentences

# A block gives about this many bytes of records, whatever the number of copies, ...
_RECORD_BYTES_PER_BLOCK = 96 << 20
# ... at this many bytes of records per byte of text and copy.
_RECORD_BYTES_PER_TEXT_BYTE = 0.75
MAX_BLOCK_BYTES = 8 << 20
# Records of huge documents are made a few copies at a time, to fit in memory.
_TOKENS_AT_A_TIME = 48 << 20
_TEXTS_AT_A_TIME = 1 << 14


def block_bytes(data: config.DataConfig) -> int:
    """Returns the size of a block of text, which depends on the number of copies."""
    size = _RECORD_BYTES_PER_BLOCK / (_RECORD_BYTES_PER_TEXT_BYTE * data.dupe_factor)
    return min(MAX_BLOCK_BYTES, int(size))


@dataclasses.dataclass(frozen=True)
class PipelineSettings:
    """Everything that decides the outcome of a block; sent to worker processes."""

    text: config.TextConfig
    data: config.DataConfig
    vocab_model: bytes
    vocab_size: int
    evaluation: contamination.Index | None = None


@dataclasses.dataclass(frozen=True)
class BlockDocuments:
    """The documents of a block that cleaning kept, in order.

    Attributes:
      fingerprints: uint64 [D, 2], see `deduplication.exact_fingerprint`.
      signatures: [D, num_perm], see `deduplication.Signatures`; [D, 0] without a
        near-duplicate search.
      is_heldout: bool [D].
      num_characters: int64 [D], after cleaning.
      num_tokens: int64 [D], of one copy.
      counts: int64 [D, `example_builder.num_counts`].
      tallies: other counts of the block, by name.
    """

    fingerprints: np.ndarray
    signatures: np.ndarray
    is_heldout: np.ndarray
    num_characters: np.ndarray
    num_tokens: np.ndarray
    counts: np.ndarray
    tallies: collections.Counter


class BlockProcessor:
    """Blocks to records; has no state that a block changes."""

    def __init__(self, settings: PipelineSettings):
        text, data = settings.text, settings.data
        tokenizer = tokenizer_lib.Tokenizer(settings.vocab_model, data.lower_case)
        self._text, self._data = text, data
        self._encoder = encoder.FastEncoder(tokenizer)
        self._is_word_start = tokenizer.is_word_start
        self._cleaner = cleaning.Cleaner(text, settings.evaluation)
        self._signer = (
            deduplication.Signatures() if text.near_duplicate_threshold else None
        )
        self._settings = example_builder.make_settings(data, tokenizer)

    def process(
        self, block: blocks.Block
    ) -> tuple[BlockDocuments, Iterator[example_builder.RecordBatch]]:
        """Processes a block.

        Returns:
          The documents, whose `counts` are complete when the iterator is exhausted, and
          the records in parts, each sorted by key.
        """
        parsed, tallies = blocks.parse_block(block, self._text)
        kept, tallies = self._clean(parsed, collections.Counter(tallies))
        fingerprints = np.array(
            [deduplication.exact_fingerprint(lines) for lines in kept], np.uint64
        ).reshape(-1, 2)
        is_heldout = _is_heldout(fingerprints, self._data)
        spans, num_tokens = self._tokenize(kept)
        documents = BlockDocuments(
            fingerprints=fingerprints,
            signatures=self._signatures(kept),
            is_heldout=is_heldout,
            num_characters=np.array([sum(map(len, d)) for d in kept], np.int64),
            num_tokens=num_tokens,
            counts=np.zeros(
                (len(kept), example_builder.num_counts(self._data.max_ngram)), np.int64
            ),
            tallies=tallies,
        )
        return documents, self._make(block, spans, documents)

    def _clean(
        self, parsed: Sequence[blocks.Document], tallies: collections.Counter
    ) -> tuple[list[tuple[str, ...]], collections.Counter]:
        """Returns the lines of the documents that are kept, and the tallies."""
        kept = []
        for document in parsed:
            cleaned = self._cleaner.clean(document.lines)
            tallies["documents_read"] += 1
            tallies["characters_read"] += sum(map(len, document.lines))
            for reason, count in cleaned.removed.items():
                tallies[f"characters_removed/{reason}"] += count
            if cleaned.dropped is None:
                kept.append(cleaned.lines)
            else:
                tallies[f"documents_dropped/{cleaned.dropped}"] += 1
                num_characters = sum(map(len, cleaned.lines))
                tallies[f"characters_dropped/{cleaned.dropped}"] += num_characters
        return kept, tallies

    def _signatures(self, kept: Sequence[tuple[str, ...]]) -> np.ndarray:
        if self._signer is None:
            return np.empty((len(kept), 0), np.uint32)
        rows = np.empty((len(kept), deduplication.NUM_PERM), np.uint32)
        for row, lines in zip(rows, kept, strict=True):
            row[:] = self._signer.of(lines)
        return rows

    def _tokenize(
        self, kept: Sequence[tuple[str, ...]]
    ) -> tuple[segment_pairs.Spans, np.ndarray]:
        """Returns the tokens of all documents, and int64 [D], the tokens of each."""
        texts: list[str] = []
        num_sentences = np.empty(len(kept), np.int64)
        ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for number, lines in enumerate(kept):
            split = sentences.split_sentences(lines, self._text)
            num_sentences[number] = len(split)
            texts += split
            if len(texts) >= _TEXTS_AT_A_TIME or number == len(kept) - 1:
                more_ids, more_lengths = self._encoder.encode(texts)
                ids.append(more_ids)
                lengths.append(more_lengths)
                texts = []
        spans = segment_pairs.cut_spans(
            np.concatenate(ids),
            np.concatenate(lengths),
            num_sentences,
            self._is_word_start,
            self._settings.max_tokens,
        )
        first_tokens = spans.span_starts[spans.document_spans]
        return spans, np.diff(first_tokens)

    def _make(
        self,
        block: blocks.Block,
        spans: segment_pairs.Spans,
        documents: BlockDocuments,
    ) -> Iterator[example_builder.RecordBatch]:
        num_copies = max(1, _TOKENS_AT_A_TIME // max(1, len(spans.ids)))
        for first in range(0, self._data.dupe_factor, num_copies):
            batch = example_builder.make_records(
                spans,
                documents.is_heldout,
                block.group,
                block.number,
                first,
                min(first + num_copies, self._data.dupe_factor),
                self._settings,
                documents.counts,
            )
            yield example_builder.sort_records(batch)


def _is_heldout(fingerprints: np.ndarray, data: config.DataConfig) -> np.ndarray:
    """Returns whether documents are held out, which the seed and their text decide.

    Equal documents are in the same split wherever they occur.

    Args:
      fingerprints: uint64 [D, 2].
      data: its seed and `heldout_rate`.

    Returns:
      bool [D].
    """
    uniform = [
        prng.uniform(prng.seed_state(np.array([data.seed, *row], np.uint64)))
        for row in fingerprints
    ]
    return np.array(uniform, np.float64) < data.heldout_rate


def num_copies(is_heldout: np.ndarray, data: config.DataConfig) -> np.ndarray:
    """The number of copies of each document; int64 [D]."""
    return np.where(is_heldout, 1, data.dupe_factor)


def split_name(is_heldout: bool) -> str:
    """The name of a split."""
    return schema.HELDOUT if is_heldout else schema.TRAIN
