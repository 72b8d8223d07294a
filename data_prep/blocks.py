"""What a worker does with a block: parse, clean, split, tokenize, make records.

A block's outcome depends on nothing but the block, the configuration, the vocabulary
and the evaluation set, so that it is the same whoever works on it, and when.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import config, random_stream, schema, tokenization
from data_prep import (
    cleaning,
    contamination,
    duplicates,
    fast_encoder,
    readers,
    record_maker,
    sentence_order,
    sentences,
)

# A block gives about this many bytes of records, whatever the number of copies, ...
_RECORD_BYTES_PER_BLOCK = 96 << 20
# ... at so many bytes of records a byte of text and copy.
_RECORD_BYTES_PER_TEXT_BYTE = 0.75
MAX_BLOCK_BYTES = 8 << 20
# Records of huge documents are made some copies at a time, so that they fit in memory.
_TOKENS_AT_A_TIME = 48 << 20
_TEXTS_AT_A_TIME = 1 << 14


def block_bytes(data: config.DataConfig) -> int:
    """The size of a block of text, which follows from the number of copies."""
    size = _RECORD_BYTES_PER_BLOCK / (_RECORD_BYTES_PER_TEXT_BYTE * data.dupe_factor)
    return min(MAX_BLOCK_BYTES, int(size))


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that decides what becomes of a block; it goes to worker processes."""

    text: config.TextConfig
    data: config.DataConfig
    vocab_model: bytes
    vocab_size: int
    evaluation: contamination.Index | None = None


@dataclasses.dataclass(frozen=True)
class BlockDocuments:
    """The documents of a block that cleaning kept, in their order.

    Attributes:
      fingerprints: uint64 [D, 2], see `duplicates.exact_fingerprint`.
      signatures: [D, num_perm], see `duplicates.Signatures`; [D, 0] if not asked for.
      is_heldout: bool [D].
      num_characters: int64 [D], after cleaning.
      num_tokens: int64 [D], of one copy.
      counts: int64 [D, `record_maker.num_counts`].
      tallies: what else was counted in the block, by name.
    """

    fingerprints: np.ndarray
    signatures: np.ndarray
    is_heldout: np.ndarray
    num_characters: np.ndarray
    num_tokens: np.ndarray
    counts: np.ndarray
    tallies: collections.Counter


class BlockProcessor:
    """Blocks to records; holds no state that a block could change."""

    def __init__(self, settings: Settings):
        text, data = settings.text, settings.data
        tokenizer = tokenization.Tokenizer(settings.vocab_model, data.lower_case)
        self._text, self._data = text, data
        self._encoder = fast_encoder.FastEncoder(tokenizer)
        self._cleaner = cleaning.Cleaner(text, settings.evaluation)
        self._signer = (
            duplicates.Signatures() if text.near_duplicate_threshold else None
        )
        self._settings = record_maker.make_settings(data, tokenizer)

    def process(
        self, block: readers.Block
    ) -> tuple[BlockDocuments, Iterator[record_maker.Made]]:
        """The outcome of a block.

        Returns:
          The documents, whose `counts` are complete when the iterator is through; and
          the records in parts, each sorted by key.
        """
        parsed, tallies = readers.parse_block(block, self._text)
        kept, tallies = self._clean(parsed, collections.Counter(tallies))
        fingerprints = np.array(
            [duplicates.exact_fingerprint(lines) for lines in kept], np.uint64
        ).reshape(-1, 2)
        is_heldout = _is_heldout(fingerprints, self._data)
        pieces, num_tokens = self._tokenize(kept)
        documents = BlockDocuments(
            fingerprints=fingerprints,
            signatures=self._signatures(kept),
            is_heldout=is_heldout,
            num_characters=np.array([sum(map(len, d)) for d in kept], np.int64),
            num_tokens=num_tokens,
            counts=np.zeros(
                (len(kept), record_maker.num_counts(self._data.max_ngram)), np.int64
            ),
            tallies=tallies,
        )
        return documents, self._make(block, pieces, documents)

    def _clean(
        self, parsed: Sequence[readers.Document], tallies: collections.Counter
    ) -> tuple[list[tuple[str, ...]], collections.Counter]:
        """The lines of the documents that stay, and what was counted."""
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
        rows = np.empty((len(kept), duplicates.NUM_PERM), np.uint32)
        for row, lines in zip(rows, kept, strict=True):
            row[:] = self._signer.of(lines)
        return rows

    def _tokenize(
        self, kept: Sequence[tuple[str, ...]]
    ) -> tuple[sentence_order.Pieces, np.ndarray]:
        """The tokens of all documents, and int64 [D], how many each has."""
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
        pieces = sentence_order.cut_pieces(
            np.concatenate(ids),
            np.concatenate(lengths),
            num_sentences,
            self._settings.cuts_at,
            self._settings.max_tokens,
        )
        first_tokens = pieces.piece_starts[pieces.document_pieces]
        return pieces, np.diff(first_tokens)

    def _make(
        self,
        block: readers.Block,
        pieces: sentence_order.Pieces,
        documents: BlockDocuments,
    ) -> Iterator[record_maker.Made]:
        num_copies = max(1, _TOKENS_AT_A_TIME // max(1, len(pieces.ids)))
        for first in range(0, self._data.dupe_factor, num_copies):
            made = record_maker.make_records(
                pieces,
                documents.is_heldout,
                block.group,
                block.number,
                first,
                min(first + num_copies, self._data.dupe_factor),
                self._settings,
                documents.counts,
            )
            yield record_maker.sort_records(made)


def _is_heldout(fingerprints: np.ndarray, data: config.DataConfig) -> np.ndarray:
    """Whether documents are held out, which follows from the seed and their text.

    Equal documents are on one side wherever they stand.

    Args:
      fingerprints: uint64 [D, 2].
      data: its seed and `heldout_rate`.

    Returns:
      bool [D].
    """
    uniform = [
        random_stream.uniform(
            random_stream.open_stream(np.array([data.seed, *row], np.uint64))
        )
        for row in fingerprints
    ]
    return np.array(uniform, np.float64) < data.heldout_rate


def num_copies(is_heldout: np.ndarray, data: config.DataConfig) -> np.ndarray:
    """How many copies are made of documents; int64 [D]."""
    return np.where(is_heldout, 1, data.dupe_factor)


def split_name(is_heldout: bool) -> str:
    """The name of a split."""
    return schema.HELDOUT if is_heldout else schema.TRAIN
