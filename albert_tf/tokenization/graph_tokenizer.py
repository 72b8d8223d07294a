"""ALBERT's tokenizer in TensorFlow ops, for serving.

It gives the ids of `tokenizer.Tokenizer`; docs/tokenization.md has the rules.
"""

import functools
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenization import tokenizer as tokenizer_lib

_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"


def _all_characters() -> list[str]:
    """Returns every code point that UTF-8 can encode, as strings of length one."""
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def _re2_ranges(characters: Iterable[str]) -> str:
    """Returns the content of an RE2 [class] of these characters."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


@functools.cache
def _decompositions(lower_case: bool) -> dict[str, str]:
    """Maps each non-space character that `normalize` changes to its replacement.

    A table by character is enough: canonical reordering, the only part of NFKD that
    depends on neighbours, moves only combining characters, which are dropped. One rule
    of `lower()` depends on neighbours too: a capital sigma stays capital here, and
    `lower_sigma` handles it.
    """
    characters = [c for c in _all_characters() if not c.isspace()]
    # One call on all of them joined; "\n" is no character's decomposition.
    joined = unicodedata.normalize("NFKD", "\n".join(characters))
    results = tokenizer_lib.drop_combining(joined).split("\n")
    if lower_case:
        results = [
            _CAPITAL_SIGMA.join(part.lower() for part in result.split(_CAPITAL_SIGMA))
            for result in results
        ]
    return {c: r for c, r in zip(characters, results, strict=True) if c != r}


@functools.cache
def _sigma_context() -> tuple[str, str]:
    """Returns RE2 ranges of the cased and of the case-ignorable characters.

    Python does not expose these two Unicode properties, so they are derived from what
    `lower()` does to a sigma after each character.
    """
    characters = [c for c in _all_characters() if c != "\n"]

    def makes_final(prefix: str) -> set[str]:
        probes = "\n".join(f"{prefix}{c}{_CAPITAL_SIGMA}" for c in characters)
        answers = zip(characters, probes.lower().split("\n"), strict=True)
        return {c for c, answer in answers if answer.endswith(_FINAL_SIGMA)}

    cased = makes_final("-")
    return _re2_ranges(cased), _re2_ranges(makes_final("a") - cased)


class GraphTokenizer(tf.Module):
    """The same tokenizer in TensorFlow ops, for `tf.function` and SavedModels.

    A process that loads such a SavedModel needs `import tensorflow_text`, which
    registers the SentencePiece op. The tables come from the Python that builds the
    graph and are saved with it.
    """

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer):
        """Builds the tables.

        Args:
            tokenizer: the tokenizer whose ids it gives.
        """
        super().__init__(name="graph_tokenizer")
        self._mask_id = tokenizer.mask_id
        self._lower_case = tokenizer.lower_case
        self._meta_symbol_id = tokenizer.meta_symbol_id
        self._sp = tf_text.SentencepieceTokenizer(
            model=tokenizer.model_proto, out_type=tf.int32
        )
        # Arrays: of lists, saving would visit every number, for each of its functions.
        rows = tokenizer.replacement_rows
        self._rows = np.concatenate(rows).astype(np.int32), _lengths(rows)

        table = _decompositions(tokenizer.lower_case)
        self._keys = np.array([ord(c) for c in table], np.int32)  # ascending
        # One row more than keys, of length one: the row of characters without a key.
        results = [*table.values(), "?"]
        self._decomposed = (
            np.array([ord(c) for result in results for c in result], np.int32),
            _lengths(results),
        )
        spaces = [c for c in _all_characters() if c.isspace()]
        self._spaces = np.array([ord(c) for c in spaces], np.int32)  # ascending
        ranges = _re2_ranges(spaces)
        self._space_run = f"[{ranges}]+"
        self._starts_with_space = f"(?s)[{ranges}].*"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes like `Tokenizer.encode`.

        Args:
            texts: string [B], UTF-8. Invalid bytes become U+FFFD.

        Returns:
            int32 ragged [B, None], ids without [CLS] and [SEP].
        """
        return self._encode(valid_utf8(texts))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes like `Tokenizer.encode_with_masks`.

        Args:
            texts: string [B], UTF-8. Invalid bytes become U+FFFD.

        Returns:
            int32 ragged [B, None], ids without [CLS] and [SEP].
        """
        parts = tf.strings.split(
            valid_utf8(texts), tokenizer_lib.MASK
        )  # [B, None], N in all
        part = parts.flat_values  # [N]
        ids = self._encode(part)  # [N, None]
        after_mask = tf.ragged.range(parts.row_lengths()).flat_values > 0  # [N]
        tight = after_mask & ~tf.strings.regex_full_match(part, self._starts_with_space)
        place = tf.ragged.range(ids.row_lengths()).flat_values
        dropped = (
            tf.gather(tight, ids.value_rowids())
            & (place == 0)
            & (ids.flat_values == self._meta_symbol_id)
        )
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(~dropped))
        num_masks = tf.cast(after_mask, tf.int64)
        masks = tf.fill([tf.reduce_sum(num_masks)], self._mask_id)
        masks = ragged(masks, num_masks)  # [N, 0 or 1]
        ids = tf.concat([masks, ids], axis=1)  # [N, None]
        return parts.with_flat_values(ids).merge_dims(1, 2)  # [B, None]

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes valid UTF-8, string [B], to ids, int32 ragged [B, None]."""
        ids = self._sp.tokenize(self.normalize(texts))  # [B, None]
        split = tf.gather(ragged(*self._rows), ids.flat_values)  # [all ids, None]
        return ids.with_flat_values(split).merge_dims(1, 2)  # [B, None]

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes like `Tokenizer.normalize`.

        Args:
            texts: string [B], valid UTF-8.

        Returns:
            string [B].
        """
        texts = tf.strings.regex_replace(texts, self._space_run, " ")
        texts = tf.strings.unicode_decode(tf.strings.strip(texts), "UTF-8")  # [B, None]
        results = self._decompose(texts.flat_values)
        texts = texts.with_flat_values(results).merge_dims(1, 2)  # [B, None]
        texts = tf.strings.unicode_encode(texts, "UTF-8")  # [B]
        return lower_sigma(texts) if self._lower_case else texts

    def _decompose(self, codes: tf.Tensor) -> tf.RaggedTensor:
        """Decomposes characters, int32 [T], to int32 ragged [T, None]."""
        # Not tf.strings.lower and tf_text.normalize_utf8: they have tables of two other
        # Unicode versions, and the former cuts its input at a NUL.
        slot, has_key = look_up(self._keys, codes)
        slot = tf.where(has_key, slot, len(self._keys))
        results = tf.gather(ragged(*self._decomposed), slot)  # [T, None]
        owner = results.value_rowids()
        kept, codes = ~tf.gather(has_key, owner), tf.gather(codes, owner)
        return results.with_flat_values(tf.where(kept, codes, results.flat_values))


def _lengths(rows: Sequence[Sequence]) -> np.ndarray:
    return np.array([len(row) for row in rows], np.int32)


def look_up(keys: np.ndarray, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the index of each value in ascending keys, and whether it is there."""
    slot = tf.minimum(tf.searchsorted(keys, values), len(keys) - 1)
    return slot, tf.gather(keys, slot) == values


def ragged(values, row_lengths) -> tf.RaggedTensor:
    """Returns `tf.RaggedTensor.from_row_lengths` without checks in the graph."""
    # Grappler warns about the checks.
    row_lengths = tf.cast(row_lengths, tf.int64)
    return tf.RaggedTensor.from_row_lengths(values, row_lengths, validate=False)


def valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD; string [B]."""
    return tf.strings.unicode_transcode(
        texts,
        "UTF-8",
        "UTF-8",
        errors="replace",
        replacement_char=ord(tokenizer_lib.REPLACEMENT),
    )


def lower_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases capital sigmas, which become final ones at the end of a word.

    A sigma is final if a cased character precedes it and none follows it, with
    case-ignorable characters skipped on both sides (Unicode, section 3.13).

    Args:
        texts: string [B], lower-cased except for capital sigmas.

    Returns:
        string [B], all lower-cased.
    """
    cased, ignorable = _sigma_context()
    capital, small = _CAPITAL_SIGMA, _SMALL_SIGMA
    followed = f"{capital}([{ignorable}]*[{cased}])"
    # Twice: of two sigmas in a row the first match takes both.
    texts = tf.strings.regex_replace(texts, followed, rf"{small}\1")
    texts = tf.strings.regex_replace(texts, followed, rf"{small}\1")
    not_preceded = f"(^|[^{cased}{ignorable}])([{ignorable}]*){capital}"
    texts = tf.strings.regex_replace(texts, not_preceded, rf"\1\2{small}")
    return tf.strings.regex_replace(texts, capital, _FINAL_SIGMA)
