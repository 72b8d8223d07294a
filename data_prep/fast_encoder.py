"""Text to ids as `tokenization.Tokenizer.encode_batch` does it, but faster.

Most words of a corpus occurred before. `unigram` keeps the ids of words in a table and
cuts the others itself; this module sees to it that the ids are those of the tokenizer:

* `slow_reason` says which models do not cut each word by itself. They, and any text of
  which `unigram` cannot be sure, go through the tokenizer.
* ASCII words are lower-cased in compiled code. All others ("special" words) are
  normalized by the tokenizer and by SentencePiece, one word at a time: neither looks
  beyond a space. That SentencePiece leaves ASCII alone is read from its rules.
"""

import functools
import itertools
import struct
from collections.abc import Sequence

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf import tokenization
from data_prep import double_array, unigram

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_LIVE_TYPES = (_PIECE.NORMAL, _PIECE.USER_DEFINED)  # those that cut text
_WHITESPACE = "".join(chr(c) for c in range(128) if chr(c).isspace())
_UNKNOWN_PENALTY = 10.0  # SentencePiece's
_MAX_SCORE = 1e30  # no sum in float32 is infinite
_CHUNK_SIZE = 1 << 19  # characters of text that are encoded at once
_MAX_TEXT_SIZE = 1 << 20  # characters; the tokenizer encodes longer texts
_NUM_ENTRIES = 1 << 18  # words in the table, 64 bytes each


def slow_reason(
    model: sentencepiece_model_pb2.ModelProto, tokenizer: tokenization.Tokenizer
) -> str | None:
    """Why the words of a model cannot be encoded one by one.

    Args:
      model: the parsed model.
      tokenizer: the tokenizer of this model.

    Returns:
      The reason, or None: the words can.
    """
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    meta_symbol = tokenization.META_SYMBOL
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
    """Looks through the rules of SentencePiece's normalizer.

    Args:
      charsmap: the size of a double array, which holds what is replaced; the array; and
        what its values point into, strings that each end with a zero byte. Empty: no
        rules.

    Returns:
      (first_bytes, outputs, has_space): bool [256], the bytes with which rules start
      that replace ASCII characters only; the strings; and whether a rule replaces
      something with a space in it.
    """
    if not charsmap:
        return np.zeros(256, bool), b"", False
    (size,) = struct.unpack_from("<I", charsmap)
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    first_bytes, has_space = double_array.scan(units)
    return first_bytes, charsmap[4 + size :], bool(has_space)


def _byte_tables(charsmap: bytes, lower_case: bool) -> tuple[np.ndarray, np.ndarray]:
    """`byte_kinds` and `lowered` of `unigram.Model`."""
    lowered = np.arange(256, dtype=np.uint8)
    if lower_case:
        lowered[ord("A") : ord("Z") + 1] += ord("a") - ord("A")
    is_special = _rules(charsmap)[0][lowered]
    is_special[128:] = True
    byte_kinds = np.where(is_special, unigram.SPECIAL, unigram.PLAIN).astype(np.uint8)
    byte_kinds[[ord(c) for c in _WHITESPACE]] = unigram.SPACE
    byte_kinds[unigram.SEPARATOR] = unigram.END
    return byte_kinds, lowered


def _compile_model(
    model: sentencepiece_model_pb2.ModelProto, tokenizer: tokenization.Tokenizer
) -> unigram.Model:
    """The arrays of a model for which there is no `slow_reason`."""
    pieces = sorted(
        (piece.piece.encode(), i)
        for i, piece in enumerate(model.pieces)
        if piece.type in _LIVE_TYPES
    )
    encoded, ids = [list(column) for column in zip(*pieces, strict=True)]
    units = double_array.build(
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([0, *map(len, encoded)]),
        np.array(ids),
    )

    # In float32 and in float64 where SentencePiece computes in them.
    scores = np.array([piece.score for piece in model.pieces], np.float32)
    normal = scores[[i for i in ids if model.pieces[i].type == _PIECE.NORMAL]]
    # Not the lowest float32: in SentencePiece the least positive one.
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
    return unigram.Model(
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
    """int32 [num_tokens], the rows one after the other."""
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32)


class FastEncoder:
    """Encodes batches of texts; the ids are those of the tokenizer.

    Made for sentences and paragraphs: the tokenizer encodes 2 of 1,000 sentences of
    Wikipedia, 2 of 100 paragraphs, but nearly all whole articles, since one word that
    rounding may decide is enough.

    Not for several threads at once: all calls share one table of words.

    Attributes:
      slow_reason: why the tokenizer does all the work; None if it does not.
    """

    def __init__(self, tokenizer: tokenization.Tokenizer):
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
            self._table = unigram.empty_table(_NUM_ENTRIES)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of many texts, without [CLS] and [SEP].

        Args:
          texts: B strings.

        Returns:
          (ids, lengths): int32 [num_tokens], the ids of all texts one after the other;
          int64 [B], how many of them are each text's.
        """
        if self.slow_reason is not None:
            rows = self._tokenizer.encode_batch(texts)
            return _flatten(rows), np.array([len(row) for row in rows], np.int64)
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        # Texts of about _CHUNK_SIZE characters at once; a long one may stand for more.
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
        """See `encode`; is_too_long: bool [B], the texts that are not for `unigram`."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        for i in np.flatnonzero(is_too_long):
            encoded[i] = b""
        separator = bytes([unigram.SEPARATOR])
        data = separator.join([*encoded, b""])
        array = np.frombuffer(data, np.uint8)
        num_special, starts, ends = unigram.find_special_words(
            array, self._model, self._table
        )
        normalized = self._normalize_words(data, starts, ends)
        max_ids = array.size + num_special * unigram.MAX_KEPT_IDS
        ids = np.empty(max_ids + normalized.data.size, np.int32)
        lengths = np.empty(len(texts), np.int64)
        num_ids = unigram.encode(
            array, self._model, self._table, normalized, ids, lengths
        )
        lengths[is_too_long] = -1
        return self._encode_rest(texts, ids[:num_ids], lengths)

    def _normalize_words(
        self, data: bytes, starts: np.ndarray, ends: np.ndarray
    ) -> unigram.NormalizedWords:
        """Normalizes the words of the data that start and end there."""
        words = [
            self._tokenizer.normalize(data[start:end].decode("utf-8", "surrogatepass"))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        encoded = [word.encode() for word in self._processor.normalize(words)]
        sizes = np.array([len(word) for word in encoded], np.int64)
        word_starts = np.cumsum(sizes) - sizes
        # SentencePiece drops a literal meta symbol at the end of a text, but not in it.
        sizes[[tokenization.META_SYMBOL in word for word in words]] = -1
        data_array = np.frombuffer(b"".join(encoded), np.uint8)
        return unigram.NormalizedWords(starts, word_starts, sizes, data_array)

    def _encode_rest(
        self, texts: Sequence[str], ids: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lets the tokenizer encode the texts of length -1, and puts them in place."""
        is_rest = lengths == -1
        rest = [texts[int(i)] for i in np.flatnonzero(is_rest)]
        if not rest:
            return ids.copy(), lengths  # a copy, which is as long as need be
        lengths[is_rest] = 0
        places = (np.cumsum(lengths) - lengths)[is_rest].tolist()
        rows = self._tokenizer.encode_batch(rest)
        lengths[is_rest] = [len(row) for row in rows]
        parts, start = [], 0
        for place, row in zip(places, rows, strict=True):
            parts += [ids[start:place], np.array(row, np.int32)]
            start = place
        return np.concatenate([*parts, ids[start:]]), lengths
