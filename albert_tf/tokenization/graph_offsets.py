"""Tokenization in TensorFlow ops with the offsets of pieces in the original text.

docs/tokenization.md explains how offsets are found.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenization import graph_tokenizer
from albert_tf.tokenization import tokenizer as tokenizer_lib


class Aligned(NamedTuple):
    """Ids of texts, and the characters of each piece.

    `text[start:end]` is the text of a piece, without whitespace at its ends, and with
    the combining marks that normalization drops. A span of pieces is from the start of
    its first to the end of its last. A piece of whitespace alone ("▁") starts at the
    next visible character and ends after the last one before it, so its start may be
    after its end. The "▁" that SentencePiece puts before a text has the offsets of the
    first character.

    ids: int32 ragged [B, None], as `GraphTokenizer.__call__` gives them.
    starts: int32 ragged [B, None], indices of code points of the given text.
    ends: int32 ragged [B, None], the index after the last code point.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class Words(NamedTuple):
    """Words of texts, which are separated by whitespace.

    words: string ragged [B, None].
    starts: int32 ragged [B, None], indices of code points of the given text.
    ends: int32 ragged [B, None], the index after the last code point.
    """

    words: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class _Normalized(NamedTuple):
    """Normalized texts, and the original character of each of their characters.

    texts: string [B].
    codes: int32 ragged [B, None], their code points.
    starts: int32, one for each of `codes`: the index of the original character.
    ends: int32, the same: the first character after that one that was not dropped.
    num_characters: int32 [B], of the original texts.
    """

    texts: tf.Tensor
    codes: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor
    num_characters: tf.Tensor


class AligningTokenizer(graph_tokenizer.GraphTokenizer):
    """A `GraphTokenizer` that also returns the offsets of pieces in the text."""

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer):
        """Builds the tables.

        Args:
            tokenizer: the tokenizer whose ids it gives.
        """
        super().__init__(tokenizer)
        rows = tokenizer.replacement_rows
        part_starts = [_part_starts(tokenizer, i, row) for i, row in enumerate(rows)]
        self._part_starts = np.concatenate(part_starts).astype(np.int32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode_with_offsets(self, texts: tf.Tensor) -> Aligned:
        """Encodes like `__call__`, and returns the offsets of each piece.

        In a digit-comma piece that is split again the comma has the last character.

        Args:
            texts: string [B], UTF-8. An invalid byte counts as one character, U+FFFD.

        Returns:
            Ids, and offsets in code points.
        """
        normalized = self._normalize_with_places(graph_tokenizer.valid_utf8(texts))
        codes = normalized.codes
        ids, begins, limits = self._sp.tokenize_with_offsets(normalized.texts)
        # Characters are counted through all texts, and so are bytes.
        first_bytes = tf.cumsum(
            tf.cast(tf.strings.length(normalized.texts), tf.int64), exclusive=True
        )
        first_bytes = tf.gather(first_bytes, ids.value_rowids())
        character_of_byte = _character_of_byte(codes.flat_values)
        first = tf.gather(character_of_byte, first_bytes + begins.flat_values)
        limit = tf.gather(character_of_byte, first_bytes + limits.flat_values)
        visible = tf.where(codes.flat_values != ord(" "))[:, 0]
        visible = tf.cast(visible, tf.int32)  # [characters that are not spaces]
        is_nothing = first == limit
        first = _next_of(visible, first, tf.size(codes.flat_values))
        limit = tf.where(is_nothing, first, _last_of(visible, limit)) + 1

        parts = tf.gather(
            graph_tokenizer.ragged(*self._rows), ids.flat_values
        )  # [all ids, None]
        part_starts = tf.gather(
            graph_tokenizer.ragged(self._part_starts, self._rows[1]), ids.flat_values
        )
        owner = parts.value_rowids()
        first, limit = _cut(parts, part_starts.flat_values, first, limit)
        text = tf.gather(ids.value_rowids(), owner)
        text_first = tf.cast(tf.gather(codes.row_starts(), text), tf.int32)
        text_limit = tf.cast(tf.gather(codes.row_limits(), text), tf.int32)
        # One more, so that indices after the last character are valid.
        starts = tf.concat([normalized.starts, [0]], 0)
        ends = tf.concat([[0], normalized.ends], 0)
        whole = tf.gather(normalized.num_characters, text)
        starts = tf.where(first < text_limit, tf.gather(starts, first), whole)
        ends = tf.where(limit > text_first, tf.gather(ends, limit), 0)
        rows = ids.with_flat_values(parts)
        return Aligned(
            rows.merge_dims(1, 2),
            ids.with_flat_values(parts.with_flat_values(starts)).merge_dims(1, 2),
            ids.with_flat_values(parts.with_flat_values(ends)).merge_dims(1, 2),
        )

    def _normalize_with_places(self, texts: tf.Tensor) -> _Normalized:
        """Normalizes valid UTF-8, string [B], and keeps the original offsets."""
        texts = tf.strings.unicode_decode(texts, "UTF-8")  # [B, None]
        codes = texts.flat_values  # [T], of all texts
        is_space = graph_tokenizer.look_up(self._spaces, codes)[1]
        row_of = texts.value_rowids()
        first = tf.cast(tf.gather(texts.row_starts(), row_of), tf.int32)
        limit = tf.cast(tf.gather(texts.row_limits(), row_of), tf.int32)
        places = tf.range(tf.size(codes))
        # The last of several spaces between other characters is kept.
        visible = tf.cast(tf.where(~is_space)[:, 0], tf.int32)
        inner = _last_of(visible, places) >= first
        inner &= (_next_of(visible, places, -1) == places + 1) & (places + 1 < limit)
        results = self._decompose(tf.where(is_space, ord(" "), codes))  # [T, None]
        stays = tf.where(is_space | (results.row_lengths() > 0))[:, 0]
        following = _next_of(tf.cast(stays, tf.int32), places + 1, tf.size(codes))
        ends = tf.minimum(following, limit) - first

        kept = texts.with_flat_values(places)
        kept = tf.ragged.boolean_mask(kept, texts.with_flat_values(~is_space | inner))
        results = tf.gather(results, kept.flat_values)
        owner = tf.gather(kept.flat_values, results.value_rowids())
        codes = kept.with_flat_values(results).merge_dims(1, 2)  # [B, None]
        encoded = tf.strings.unicode_encode(codes, "UTF-8")
        return _Normalized(
            # A small sigma has as many bytes as a capital one.
            graph_tokenizer.lower_sigma(encoded) if self._lower_case else encoded,
            codes,
            tf.gather(places - first, owner),
            tf.gather(ends, owner),
            tf.cast(texts.row_lengths(), tf.int32),
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def split_words(self, texts: tf.Tensor) -> Words:
        """Splits texts into words as Python's `str.split` does.

        Args:
            texts: string [B], UTF-8. An invalid byte counts as one character, U+FFFD.
        """
        texts = tf.strings.unicode_decode(
            graph_tokenizer.valid_utf8(texts), "UTF-8"
        )  # [B, None]
        visible = ~graph_tokenizer.look_up(self._spaces, texts.flat_values)[1]  # [T]
        places = tf.cast(tf.ragged.range(texts.row_lengths()).flat_values, tf.int32)
        visible_before = tf.concat([[False], visible[:-1]], 0) & (places > 0)
        begins = visible & ~visible_before
        codes = tf.boolean_mask(texts.flat_values, visible)
        word_of = tf.boolean_mask(tf.cumsum(tf.cast(begins, tf.int64)) - 1, visible)
        starts = tf.ragged.boolean_mask(
            texts.with_flat_values(places), texts.with_flat_values(begins)
        )  # [B, None]
        count = tf.size(starts.flat_values, tf.int64)
        codes = tf.RaggedTensor.from_value_rowids(codes, word_of, count, validate=False)
        lengths = tf.cast(codes.row_lengths(), tf.int32)
        words = tf.strings.unicode_encode(codes, "UTF-8")
        return Words(
            starts.with_flat_values(words),
            starts,
            starts.with_flat_values(starts.flat_values + lengths),
        )


def _part_starts(
    tokenizer: tokenizer_lib.Tokenizer, piece_id: int, row: list[int]
) -> list[int]:
    """Returns the first character of each part of a piece, without meta symbol."""
    if len(row) == 1:
        return [0]
    meta = tokenizer_lib.META_SYMBOL
    whole, *parts = (
        piece.replace(meta, "") for piece in tokenizer.pieces([piece_id, *row])
    )
    known = [
        len(part)
        for part, part_id in zip(parts, row, strict=True)
        if part_id != tokenizer.unk_id
    ]
    # The length of unknown parts is not known: the first has all the rest.
    rest = len(whole) - sum(known)
    starts, start = [], 0
    for part, part_id in zip(parts, row, strict=True):
        starts.append(start)
        if part_id == tokenizer.unk_id:
            start, rest = start + rest, 0
        else:
            start += len(part)
    return starts


def _cut(parts, part_starts, first, limit) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first characters and limits of parts from those of their pieces.

    Args:
        parts: int32 ragged [P, None], Q in all.
        part_starts: int32 [Q], see `_part_starts`.
        first: int32 [P].
        limit: int32 [P].
    """
    owner = parts.value_rowids()
    first, limit = tf.gather(first, owner), tf.gather(limit, owner)
    number = tf.ragged.range(parts.row_lengths()).flat_values
    is_last = number + 1 == tf.gather(parts.row_lengths(), owner)
    # The comma is one character, whatever SentencePiece dropped before it.
    begins = tf.where(is_last, limit - 1, tf.minimum(first + part_starts, limit - 1))
    begins = tf.where(number == 0, first, begins)
    limits = tf.where(is_last, limit, tf.roll(begins, -1, 0))
    return begins, limits


def _next_of(sorted_places, places, otherwise) -> tf.Tensor:
    """Returns, for each place, the first of `sorted_places` that is not before it."""
    padded = tf.concat([sorted_places, [otherwise]], 0)
    return tf.gather(padded, tf.searchsorted(sorted_places, places))


def _last_of(sorted_places, places) -> tf.Tensor:
    """Returns, for each place, the last of `sorted_places` before it; else -1."""
    padded = tf.concat([[-1], sorted_places], 0)
    return tf.gather(padded, tf.searchsorted(sorted_places, places))


def _character_of_byte(codes) -> tf.Tensor:
    """Returns the index of the character of each byte of UTF-8, and one more.

    Args:
        codes: int32 [T].

    Returns:
        int32 [bytes + 1]; the last is T.
    """
    widths = 1 + sum(tf.cast(codes >= low, tf.int32) for low in (0x80, 0x800, 0x10000))
    count = tf.size(codes)
    return tf.repeat(tf.range(count + 1), tf.concat([widths, [1]], 0))
