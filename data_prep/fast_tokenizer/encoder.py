"""Encodes text to the ids of `tokenizer.Tokenizer.encode_batch`, but faster.

Most words of a corpus have occurred before. `viterbi` caches the ids of words in a
table and segments new words; this module ensures that the ids are the tokenizer's:

* `slow_reason` tells which models do not segment each word by itself. These models, and
  every text for which the result of `viterbi` is not certain, use the tokenizer.
* ASCII words are lower-cased in compiled code. All others ("special" words) are
  normalized by the tokenizer and by SentencePiece, one word at a time: both treat words
  independently. SentencePiece's rules tell whether it changes ASCII.
"""

import functools
import itertools
import struct
from collections.abc import Sequence

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.fast_tokenizer import double_array_trie, viterbi

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_LIVE_TYPES = (_PIECE.NORMAL, _PIECE.USER_DEFINED)  # those that occur in text
_WHITESPACE = "".join(chr(c) for c in range(128) if chr(c).isspace())
_UNKNOWN_PENALTY = 10.0  # SentencePiece's
_MAX_SCORE = 1e30  # so that no sum in float32 is infinite
_CHUNK_SIZE = 1 << 19  # characters of text encoded at once
_MAX_TEXT_SIZE = 1 << 20  # characters; longer texts use the tokenizer
_NUM_ENTRIES = 1 << 18  # words in the table, 64 bytes each


def slow_reason(
    model: sentencepiece_model_pb2.ModelProto, tokenizer: tokenizer_lib.Tokenizer
) -> str | None:
    """Returns why the words of a model cannot be encoded one by one.

    Args:
      model: the parsed model.
      tokenizer: the tokenizer of this model.

    Returns:
      The reason, or None if they can.
    """
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    meta_symbol = tokenizer_lib.META_SYMBOL
    live = [piece for piece in model.pieces if piece.type in _LIVE_TYPES]
    _, outputs, has_space = _rules(normalizer.precompiled_charsmap)
    reasons = {
        "not a unigram model": trainer.model_type != trainer.UNIGRAM,
        "unknown characters become bytes": trainer.byte_fallback,
        "spaces end words": trainer.treat_whitespace_as_suffix,
        "no space before the first word": not normalizer.add_dummy_prefix,
        "spaces are kept": not normalizer.remove_extra_whitespaces,
        "spaces are not escaped": not normalizer.escape_whitespaces,
        "no piece for a lone space": all(p.piece != meta_symbol for p in live),
        "a piece reaches over a space": any(
            meta_symbol in p.piece[1:] or not set("\0 ").isdisjoint(p.piece)
            for p in live
        ),
        "scores are too large": not all(abs(p.score) < _MAX_SCORE for p in live),
        "normalization replaces spaces": has_space,
        "normalization makes spaces in a row": (
            b"  " in outputs or meta_symbol.encode() in outputs
        ),
        "a digit-comma piece becomes longer": any(
            len(row) > len(piece.piece)
            for piece, row in zip(model.pieces, tokenizer.replacement_rows, strict=True)
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@functools.lru_cache(1)
def _rules(charsmap: bytes) -> tuple[np.ndarray, bytes, bool]:
    """Reads the rules of SentencePiece's normalizer.

    Args:
      charsmap: the size of a double array of the strings to replace; the array; and the
        replacements, each terminated by a zero byte. Empty: no rules.

    Returns:
      (first_bytes, outputs, has_space): bool [256], the first bytes of rules that
      replace ASCII characters only; the replacements; and whether a rule replaces a
      string that contains a space.
    """
    if not charsmap:
        return np.zeros(256, bool), b"", False
    (size,) = struct.unpack_from("<I", charsmap)
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    first_bytes, has_space = double_array_trie.scan(units)
    return first_bytes, charsmap[4 + size :], bool(has_space)


def _byte_tables(charsmap: bytes, lower_case: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns `byte_kinds` and `lowered` of `viterbi.UnigramModel`."""
    lowered = np.arange(256, dtype=np.uint8)
    if lower_case:
        lowered[ord("A") : ord("Z") + 1] += ord("a") - ord("A")
    is_special = _rules(charsmap)[0][lowered]
    is_special[128:] = True
    byte_kinds = np.where(is_special, viterbi.SPECIAL, viterbi.PLAIN).astype(np.uint8)
    byte_kinds[[ord(c) for c in _WHITESPACE]] = viterbi.SPACE
    byte_kinds[viterbi.SEPARATOR] = viterbi.END
    return byte_kinds, lowered


def _compile_model(
    model: sentencepiece_model_pb2.ModelProto, tokenizer: tokenizer_lib.Tokenizer
) -> viterbi.UnigramModel:
    """Converts a model without a `slow_reason` to arrays."""
    pieces = sorted(
        (piece.piece.encode(), i)
        for i, piece in enumerate(model.pieces)
        if piece.type in _LIVE_TYPES
    )
    encoded, ids = [list(column) for column in zip(*pieces, strict=True)]
    units = double_array_trie.build(
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([0, *map(len, encoded)]),
        np.array(ids),
    )

    # In float32 or float64, as SentencePiece computes.
    scores = np.array([piece.score for piece in model.pieces], np.float32)
    normal = scores[[i for i in ids if model.pieces[i].type == _PIECE.NORMAL]]
    # SentencePiece's maximum starts at the least positive float32, not at the lowest.
    max_score = max([np.finfo(np.float32).tiny, *normal])
    min_score = min([np.finfo(np.float32).max, *normal])
    weights = scores.astype(np.float64)
    for i, piece in zip(ids, encoded, strict=True):
        if model.pieces[i].type == _PIECE.USER_DEFINED:
            weights[i] = np.float64(np.float32(len(piece)) * max_score) - 0.1
    unk_score = float(np.float32(min_score - np.float32(_UNKNOWN_PENALTY)))
    byte_kinds, lowered = _byte_tables(
        model.normalizer_spec.precompiled_charsmap, tokenizer.lower_case
    )
    rows = tokenizer.replacement_rows
    return viterbi.UnigramModel(
        byte_kinds=byte_kinds,
        lowered=lowered,
        units=units,
        scores=weights,
        unk_id=tokenizer.unk_id,
        unk_score=unk_score,
        largest_score=float(max(abs(weights[ids]).max(), abs(unk_score))),
        row_starts=np.cumsum([0, *map(len, rows)]),
        row_ids=np.array(list(itertools.chain.from_iterable(rows)), np.int32),
    )


def _flatten(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Concatenates rows to int32 [num_tokens]."""
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32)


class FastEncoder:
    """Encodes batches of texts to the ids of the tokenizer.

    Made for sentences and paragraphs: the tokenizer has to encode 2 of 1,000 sentences
    of Wikipedia, 2 of 100 paragraphs, but nearly all whole articles, since a single
    word whose result depends on rounding is enough.

    Not thread-safe: all calls share one table of words.

    Attributes:
      slow_reason: why the tokenizer encodes all texts; None if it does not.
    """

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer):
        """Compiles the tokenizer's model.

        Args:
          tokenizer: any tokenizer.
        """
        self._tokenizer = tokenizer
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=tokenizer.model_proto
        )
        model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_proto)
        self.slow_reason = slow_reason(model, tokenizer)
        if self.slow_reason is None:
            self._model = _compile_model(model, tokenizer)
            self._table = viterbi.empty_table(_NUM_ENTRIES)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encodes texts, without [CLS] and [SEP].

        Args:
          texts: B strings.

        Returns:
          (ids, lengths): int32 [num_tokens], the concatenated ids of all texts; int64
          [B], the number of ids of each text.
        """
        if self.slow_reason is not None:
            rows = self._tokenizer.encode_batch(texts)
            return _flatten(rows), np.array([len(row) for row in rows], np.int64)
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        # Texts of about _CHUNK_SIZE characters at once; the last one may exceed that.
        chunk_numbers = (np.cumsum(sizes) - sizes) // _CHUNK_SIZE
        starts = np.flatnonzero(np.diff(chunk_numbers, prepend=-1)).tolist()
        results = [
            self._encode_chunk(texts[start:end], sizes[start:end] > _MAX_TEXT_SIZE)
            for start, end in itertools.pairwise([*starts, len(texts)])
        ]
        if not results:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        ids, lengths = zip(*results, strict=True)
        return np.concatenate(ids), np.concatenate(lengths)

    def _encode_chunk(
        self, texts: Sequence[str], is_too_long: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `encode`; is_too_long: bool [B], texts for the tokenizer."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        for i in np.flatnonzero(is_too_long):
            encoded[i] = b""
        separator = bytes([viterbi.SEPARATOR])
        data = separator.join([*encoded, b""])
        array = np.frombuffer(data, np.uint8)
        num_special, starts, ends = viterbi.find_special_words(
            array, self._model, self._table
        )
        normalized = self._normalize_words(data, starts, ends)
        max_ids = array.size + num_special * viterbi.MAX_CACHED_IDS
        ids = np.empty(max_ids + normalized.data.size, np.int32)
        lengths = np.empty(len(texts), np.int64)
        num_ids = viterbi.encode(
            array, self._model, self._table, normalized, ids, lengths
        )
        lengths[is_too_long] = -1
        return self._encode_rest(texts, ids[:num_ids], lengths)

    def _normalize_words(
        self, data: bytes, starts: np.ndarray, ends: np.ndarray
    ) -> viterbi.NormalizedWords:
        """Normalizes the words of the data between `starts` and `ends`."""
        words = [
            self._tokenizer.normalize(data[start:end].decode("utf-8", "surrogatepass"))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        encoded = [word.encode() for word in self._processor.normalize(words)]
        sizes = np.array([len(word) for word in encoded], np.int64)
        word_starts = np.cumsum(sizes) - sizes
        # SentencePiece drops a literal meta symbol only at the end of a text.
        sizes[[tokenizer_lib.META_SYMBOL in word for word in words]] = -1
        data_array = np.frombuffer(b"".join(encoded), np.uint8)
        return viterbi.NormalizedWords(starts, word_starts, sizes, data_array)

    def _encode_rest(
        self, texts: Sequence[str], ids: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encodes the texts of length -1 with the tokenizer, and inserts their ids."""
        is_rest = lengths == -1
        rest = [texts[int(i)] for i in np.flatnonzero(is_rest)]
        if not rest:
            return ids.copy(), lengths  # a copy, which frees the buffer
        lengths[is_rest] = 0
        positions = (np.cumsum(lengths) - lengths)[is_rest].tolist()
        rows = self._tokenizer.encode_batch(rest)
        lengths[is_rest] = [len(row) for row in rows]
        parts, start = [], 0
        for position, row in zip(positions, rows, strict=True):
            parts += [ids[start:position], np.array(row, np.int32)]
            start = position
        return np.concatenate([*parts, ids[start:]]), lengths
