"""ALBERT's tokenizer in Python; `graph_tokenizer` has the same one in TensorFlow ops.

Both give the same ids for the same text. The text is normalized as ALBERT's authors do
(`normalize`) and split by the SentencePiece unigram model of the vocabulary file.
Pieces such as "1990," are split again, so that the comma is a piece.
docs/tokenization.md has the rules, the departures from the original, and what depends
on the versions of Python and sentencepiece.

Source: Lan et al., "ALBERT" (arXiv 1909.11942), section 3.2, and its authors' code.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece

from albert_tf.core import files

PAD, UNK, CLS, SEP, MASK = "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
META_SYMBOL = "\u2581"  # how SentencePiece writes a space inside a piece

_OF_MODEL = (
    "it must be the SentencePiece .model file that the model or the records were made "
    "with"
)
REPLACEMENT = "\ufffd"  # replaces what UTF-8 cannot encode
_SURROGATES = re.compile("[\ud800-\udfff]")
_PUNCTUATION = frozenset('!"#$%&"()*+,-./:;?@[\\]^_`{|}~€£')
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def drop_combining(text: str) -> str:
    """Removes the characters of a combining class."""
    return "".join([c for c in text if not unicodedata.combining(c)])


def normalize(text: str, lower_case: bool = True) -> str:
    """Normalizes text as the original's `preprocess_text` does.

    Whitespace (Python's) is collapsed, the text is decomposed (NFKD), characters with
    a combining class are dropped, and the rest is lower-cased if asked.

    Args:
        text: any string. Lone surrogates become U+FFFD.
        lower_case: whether to lower-case.

    Returns:
        The normalized string. NFKD may leave several spaces in a row, which
        SentencePiece's own normalization merges later.
    """
    text = " ".join(text.split())
    if not text.isascii():
        # Differs from the original: lone surrogates, which UTF-8 cannot encode and
        # on which the original crashes, become the replacement character.
        text = _SURROGATES.sub(REPLACEMENT, text)
        text = drop_combining(unicodedata.normalize("NFKD", text))
    return text.lower() if lower_case else text


def is_word_start_piece(piece: str) -> bool:
    """Returns whether a piece begins a word, as the original's `_is_start_piece_sp`.

    Args:
        piece: a SentencePiece piece, with the meta symbol.

    Returns:
        True for pieces that start with the meta symbol or "<", for single punctuation
        marks, and for pieces with a character that is neither an English letter nor
        punctuation: digits, the apostrophe and foreign letters begin words.
    """
    return (
        piece.startswith((META_SYMBOL, "<"))
        or piece in _PUNCTUATION
        or any(c not in _ENGLISH and c not in _PUNCTUATION for c in piece)
    )


class Tokenizer:
    """Converts text to ids and back.

    Attributes:
        model_proto: bytes, the serialized SentencePiece model.
        lower_case: bool, whether text is lower-cased first.
        sha256: hex digest of `model_proto`.
        vocab_size: V, the number of pieces.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special pieces.
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
            ValueError: the bytes are not a SentencePiece model, or it lacks one of the
                special pieces.
        """
        self._sp = sentencepiece.SentencePieceProcessor()
        try:
            self._sp.LoadFromSerializedProto(model_proto)
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        self.vocab_size = self._sp.get_piece_size()
        if not self.vocab_size:
            raise ValueError("an empty SentencePiece model")
        self.model_proto = model_proto
        self.lower_case = lower_case
        self.sha256 = hashlib.sha256(model_proto).hexdigest()

        ids = list(range(self.vocab_size))
        self._pieces = self._sp.id_to_piece(ids)
        self._piece_to_id = {piece: i for i, piece in enumerate(self._pieces)}
        missing = [p for p in SPECIAL_PIECES if p not in self._piece_to_id]
        if missing:
            raise ValueError(
                f"the SentencePiece model lacks {', '.join(missing)}, which ALBERT "
                "needs"
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
            [i for i, is_plain in enumerate(self._are_plain(ids)) if is_plain], np.int32
        )
        self.replacement_rows = [
            self._split_digit_comma(i) for i in range(self.vocab_size)
        ]
        self._digit_comma_ids = frozenset(
            i for i, row in enumerate(self.replacement_rows) if row != [i]
        )

    @classmethod
    def from_file(
        cls, path: str, lower_case: bool = True, advice: str = _OF_MODEL
    ) -> "Tokenizer":
        """Reads a `.model` file, local or remote (gs://).

        Args:
            path: local or remote.
            lower_case: see `__init__`.
            advice: what to do about an error. With another vocabulary than its own a
                model is of no use, so that only who begins one may train one.

        Raises:
            ValueError: the file cannot be read, or is not a model; names the path.
        """
        try:
            return cls(files.read_bytes(path), lower_case)
        except OSError as error:
            raise ValueError(
                f"{path}: cannot read the vocabulary ({error.strerror}); {advice}"
            ) from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}; {advice}") from error

    def __reduce__(self):
        """Pickles as the model's bytes, for worker processes."""
        return Tokenizer, (self.model_proto, self.lower_case)

    def _are_plain(self, ids: list[int]) -> list[bool]:
        """Returns whether each piece is of text, for all ids at once, which is fast."""
        sp = self._sp
        kinds = zip(
            sp.is_control(ids), sp.is_unknown(ids), sp.is_unused(ids), strict=True
        )
        return [
            not any(kind) and piece not in SPECIAL_PIECES
            for kind, piece in zip(kinds, self._pieces, strict=True)
        ]

    def _split_digit_comma(self, piece_id: int) -> list[int]:
        """Returns the ids of "1990" and "," for the id of "1990,"; else the id itself.

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
        """Normalizes text with this tokenizer's `lower_case`."""
        return normalize(text, self.lower_case)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of one text, without [CLS] and [SEP]."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many texts, at a much lower cost per text than `encode`.

        Args:
            texts: B strings.

        Returns:
            B lists of ids, without [CLS] and [SEP].
        """
        # One thread: data preparation runs one process per core.
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
            text: raw text. The parts between masks are encoded separately. If no space
                follows a mask ("the [MASK].") the lone meta symbol that SentencePiece
                puts before the next part is dropped.

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
        """Returns the piece of each id; that of an unknown word is "<unk>"."""
        return [self._pieces[i] for i in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Returns readable text, without padding, [CLS] and [SEP]."""
        hidden = (self.pad_id, self.cls_id, self.sep_id)
        words = []
        for i in ids:
            if i == self.mask_id:
                words.append(META_SYMBOL)
            if i not in hidden:
                words.append(self._pieces[i])
        return " ".join("".join(words).replace(META_SYMBOL, " ").split())
