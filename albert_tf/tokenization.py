"""The one tokenizer: in Python for data, inside the TensorFlow graph for serving.

`Tokenizer` and `GraphTokenizer` give the same ids for the same text. The text is
normalized as ALBERT's authors do (`normalize`), cut by the SentencePiece unigram
model that the vocabulary file holds, and pieces such as "1990," are cut again so
that the comma stands alone. docs/tokenization.md holds the rules, the departures from
the original, and what depends on the versions of Python and sentencepiece.

Source: Lan et al., "ALBERT" (arXiv 1909.11942), section 3.2, and its authors' code.
"""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

PAD, UNK, CLS, SEP, MASK = "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
META_SYMBOL = "\u2581"  # how SentencePiece writes a space inside a piece

_TRAIN_HINT = "train one with `python -m data_prep.train_vocab`"
_REPLACEMENT = "\ufffd"
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"
_SURROGATES = re.compile("[\ud800-\udfff]")
_PUNCTUATION = frozenset('!"#$%&"()*+,-./:;?@[\\]^_`{|}~€£')
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _all_characters() -> list[str]:
    """Every code point that UTF-8 can hold, as strings of length one."""
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def _re2_ranges(characters: Iterable[str]) -> str:
    """Writes characters as the inside of an RE2 [class]."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


def _drop_combining(text: str) -> str:
    return "".join([c for c in text if not unicodedata.combining(c)])


def normalize(text: str, lower_case: bool = True) -> str:
    """Normalizes text as the original's `preprocess_text` does.

    Whitespace (Python's) is collapsed, the text is decomposed (NFKD), characters with
    a combining class are dropped, and the rest is lower-cased if asked.

    Args:
        text: any string. Lone surrogates become U+FFFD.
        lower_case: whether to lower-case.

    Returns:
        The normalized string. NFKD may leave spaces in a row; SentencePiece's own
        normalization, which follows, merges them.
    """
    text = " ".join(text.split())
    if not text.isascii():
        # Differs from the original: lone surrogates, which UTF-8 cannot hold and on
        # which the original crashes, become the replacement character.
        text = _SURROGATES.sub(_REPLACEMENT, text)
        text = _drop_combining(unicodedata.normalize("NFKD", text))
    return text.lower() if lower_case else text


def is_word_start_piece(piece: str) -> bool:
    """Whether a piece begins a word, by the original's `_is_start_piece_sp`.

    Args:
        piece: a SentencePiece piece, with the meta symbol.

    Returns:
        True for pieces that start with the meta symbol or "<", for single punctuation
        marks, and for pieces with a character that is neither an English letter nor
        punctuation: digits, the apostrophe and foreign letters stand alone.
    """
    return (
        piece.startswith((META_SYMBOL, "<"))
        or piece in _PUNCTUATION
        or any(c not in _ENGLISH and c not in _PUNCTUATION for c in piece)
    )


class Tokenizer:
    """Text to ids and back, in Python.

    Attributes:
        model_proto: bytes, the serialized SentencePiece model.
        lower_case: bool, whether text is lower-cased first.
        sha256: hex digest of `model_proto`.
        vocab_size: V, the number of pieces.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special pieces, looked up
            by piece.
        meta_symbol_id: id of the lone meta symbol, or -1.
        is_word_start: bool [V], see `is_word_start_piece`. Control symbols and the
            unknown piece count as starts.
        replacement_ids: int32 [R], the ids that a random replacement may take.
        replacement_rows: for each id, the ids that stand for it: itself, but for
            digit-comma pieces. Both tokenizers read this one table.
    """

    def __init__(self, model_proto: bytes, lower_case: bool = True):
        """Loads a serialized SentencePiece model.

        Args:
            model_proto: the bytes of a `.model` file.
            lower_case: whether to lower-case text, as the released models need.

        Raises:
            ValueError: the bytes are no SentencePiece model, or it lacks one of the
                special pieces.
        """
        self._sp = sentencepiece.SentencePieceProcessor()
        try:
            self._sp.LoadFromSerializedProto(model_proto)
        except RuntimeError as error:
            raise ValueError(f"not a SentencePiece model; {_TRAIN_HINT}") from error
        self.vocab_size = self._sp.get_piece_size()
        if not self.vocab_size:
            raise ValueError(f"an empty SentencePiece model; {_TRAIN_HINT}")
        self.model_proto = model_proto
        self.lower_case = lower_case
        self.sha256 = hashlib.sha256(model_proto).hexdigest()

        self._pieces = [self._sp.id_to_piece(i) for i in range(self.vocab_size)]
        self._piece_to_id = {piece: i for i, piece in enumerate(self._pieces)}
        missing = [p for p in SPECIAL_PIECES if p not in self._piece_to_id]
        if missing:
            raise ValueError(
                f"the SentencePiece model lacks {', '.join(missing)}, which ALBERT "
                f"needs; {_TRAIN_HINT}"
            )
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._piece_to_id[piece] for piece in SPECIAL_PIECES
        )
        self.meta_symbol_id = self._piece_to_id.get(META_SYMBOL, -1)
        self.is_word_start = np.array(
            [p in SPECIAL_PIECES or is_word_start_piece(p) for p in self._pieces]
        )
        # Differs from the original: it draws random replacements from the whole
        # vocabulary, control symbols included.
        self.replacement_ids = np.array(
            [i for i in range(self.vocab_size) if self._is_plain(i)], np.int32
        )
        self.replacement_rows = [
            self._split_digit_comma(i) for i in range(self.vocab_size)
        ]
        self._digit_comma_ids = frozenset(
            i for i, row in enumerate(self.replacement_rows) if row != [i]
        )

    @classmethod
    def from_file(cls, path: str, lower_case: bool = True) -> "Tokenizer":
        """Reads a `.model` file, local or remote (gs://).

        Args:
            path: anything that `tf.io.gfile` opens.
            lower_case: see `__init__`.

        Raises:
            ValueError: the file cannot be read, or is no model; names the path.
        """
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                return cls(file.read(), lower_case)
        except tf.errors.OpError as error:
            raise ValueError(
                f"{path}: cannot read the vocabulary ({error.message.strip()}); give "
                f"the path of a SentencePiece .model file, or {_TRAIN_HINT}"
            ) from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def __reduce__(self):
        """Pickles as the model's bytes, for worker processes."""
        return Tokenizer, (self.model_proto, self.lower_case)

    def _is_plain(self, piece_id: int) -> bool:
        sp = self._sp
        return self._pieces[piece_id] not in SPECIAL_PIECES and not (
            sp.is_control(piece_id) or sp.is_unknown(piece_id) or sp.is_unused(piece_id)
        )

    def _split_digit_comma(self, piece_id: int) -> list[int]:
        """The ids of "1990" and "," for the id of "1990,"; else the id itself.

        Differs from the original: under Python 3 it tests bytes against str here,
        leaves a stray meta symbol at the front, and fails on some pieces.
        """
        piece = self._pieces[piece_id]
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            return [piece_id]
        rest = self._sp.encode(piece[:-1].replace(META_SYMBOL, ""), out_type=str)
        if not piece.startswith(META_SYMBOL):
            # SentencePiece puts the meta symbol before whatever it encodes; a piece
            # from inside a word had none.
            rest[:1] = [part.removeprefix(META_SYMBOL) for part in rest[:1]]
        parts = [part for part in rest if part] + [","]
        return [self._piece_to_id.get(part, self.unk_id) for part in parts]

    def normalize(self, text: str) -> str:
        """`normalize` with this tokenizer's `lower_case`."""
        return normalize(text, self.lower_case)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without [CLS] and [SEP]."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts; much cheaper a text than `encode`.

        Args:
            texts: B strings.

        Returns:
            B lists of ids, without [CLS] and [SEP].
        """
        # One thread: data preparation runs one process a core.
        rows = self._sp.encode([self.normalize(t) for t in texts], num_threads=1)
        return [
            row
            if self._digit_comma_ids.isdisjoint(row)
            else [new for old in row for new in self.replacement_rows[old]]
            for row in rows
        ]

    def encode_with_masks(self, text: str) -> list[int]:
        """Like `encode`, but a literal "[MASK]" in the text becomes `mask_id`.

        Args:
            text: raw text. The parts between masks are encoded apart. Where the text
                goes on right behind a mask ("the [MASK].") the lone meta symbol that
                SentencePiece puts before the next part is dropped.

        Returns:
            The ids, without [CLS] and [SEP].
        """
        parts = text.split(MASK)
        ids, *rows = self.encode_batch(parts)
        for part, row in zip(parts[1:], rows, strict=True):
            lone = row[:1] == [self.meta_symbol_id]
            ids += [self.mask_id] + row[lone and not part[0].isspace() :]
        return ids

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id; an unknown word's is "<unk>"."""
        return [self._pieces[i] for i in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text: no padding, [CLS] or [SEP]; [MASK] and <unk> as words."""
        hidden = (self.pad_id, self.cls_id, self.sep_id)
        words = []
        for i in ids:
            if i == self.mask_id:
                words.append(META_SYMBOL)
            if i not in hidden:
                words.append(self._pieces[i])
        return " ".join("".join(words).replace(META_SYMBOL, " ").split())


@functools.cache
def _decompositions(lower_case: bool) -> dict[str, str]:
    """What `normalize` makes of each non-space character that it changes.

    Canonical reordering, the only part of NFKD that looks at neighbours, moves nothing
    but combining characters, which are dropped; so a table by character says it all.
    One rule of `lower()` does look at neighbours: a capital sigma stays capital here,
    and `_lower_sigma` sees to it.
    """
    characters = [c for c in _all_characters() if not c.isspace()]
    # One call on all of them joined; "\n" is no character's decomposition.
    joined = unicodedata.normalize("NFKD", "\n".join(characters))
    results = _drop_combining(joined).split("\n")
    if lower_case:
        results = [
            _CAPITAL_SIGMA.join(part.lower() for part in result.split(_CAPITAL_SIGMA))
            for result in results
        ]
    return {c: r for c, r in zip(characters, results, strict=True) if c != r}


@functools.cache
def _sigma_context() -> tuple[str, str]:
    """RE2 ranges of the cased and of the case-ignorable characters.

    Python keeps these two Unicode properties to itself, so they are read off what
    `lower()` does to a sigma behind each character.
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

    def __init__(self, tokenizer: Tokenizer):
        """Takes over the model and the tables of a `Tokenizer`.

        Args:
            tokenizer: the tokenizer to follow.
        """
        super().__init__(name="graph_tokenizer")
        self._mask_id = tokenizer.mask_id
        self._lower_case = tokenizer.lower_case
        self._meta_symbol_id = tokenizer.meta_symbol_id
        self._sp = tf_text.SentencepieceTokenizer(
            model=tokenizer.model_proto, out_type=tf.int32
        )
        rows = tokenizer.replacement_rows
        self._rows = np.concatenate(rows).astype(np.int32), [len(row) for row in rows]

        table = _decompositions(tokenizer.lower_case)
        self._keys = np.array([ord(c) for c in table], np.int32)  # ascending
        # One row more than keys, of length one: the row of characters without a key.
        results = [*table.values(), "?"]
        self._decomposed = (
            np.array([ord(c) for result in results for c in result], np.int32),
            [len(result) for result in results],
        )
        spaces = _re2_ranges(c for c in _all_characters() if c.isspace())
        self._space_run = f"[{spaces}]+"
        self._starts_with_space = f"(?s)[{spaces}].*"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes like `Tokenizer.encode`.

        Args:
            texts: string [B], UTF-8. Invalid bytes become U+FFFD.

        Returns:
            int32 ragged [B, None], ids without [CLS] and [SEP].
        """
        return self._encode(_valid_utf8(texts))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes like `Tokenizer.encode_with_masks`.

        Args:
            texts: string [B], UTF-8. Invalid bytes become U+FFFD.

        Returns:
            int32 ragged [B, None], ids without [CLS] and [SEP].
        """
        parts = tf.strings.split(_valid_utf8(texts), MASK)  # [B, None], N in all
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
        masks = _ragged(masks, num_masks)  # [N, 0 or 1]
        ids = tf.concat([masks, ids], axis=1)  # [N, None]
        return parts.with_flat_values(ids).merge_dims(1, 2)  # [B, None]

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Valid UTF-8, string [B], to ids, int32 ragged [B, None]."""
        ids = self._sp.tokenize(self.normalize(texts))  # [B, None]
        split = tf.gather(_ragged(*self._rows), ids.flat_values)  # [all ids, None]
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
        codes = texts.flat_values  # [T], of all texts
        # tf.strings.lower and tf_text.normalize_utf8 would bring tables of two other
        # Unicode versions, and the former cuts its input at a NUL; so a table of ours.
        slot = tf.searchsorted(self._keys, codes)
        slot = tf.minimum(slot, len(self._keys) - 1)
        has_key = tf.gather(self._keys, slot) == codes
        slot = tf.where(has_key, slot, len(self._keys))
        results = tf.gather(_ragged(*self._decomposed), slot)  # [T, None]
        owner = results.value_rowids()
        kept, codes = ~tf.gather(has_key, owner), tf.gather(codes, owner)
        results = results.with_flat_values(tf.where(kept, codes, results.flat_values))
        texts = texts.with_flat_values(results).merge_dims(1, 2)  # [B, None]
        texts = tf.strings.unicode_encode(texts, "UTF-8")  # [B]
        return _lower_sigma(texts) if self._lower_case else texts


def _ragged(values, row_lengths) -> tf.RaggedTensor:
    # Unvalidated: the checks would stay in the graph, and Grappler complains of them.
    row_lengths = tf.cast(row_lengths, tf.int64)
    return tf.RaggedTensor.from_row_lengths(values, row_lengths, validate=False)


def _valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=ord(_REPLACEMENT)
    )


def _lower_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases capital sigmas, which become final ones at the end of a word.

    A sigma is final if a cased character stands before it and none behind it, with
    case-ignorable characters skipped on both sides (Unicode, section 3.13).

    Args:
        texts: string [B], lower-cased but for capital sigmas.

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
