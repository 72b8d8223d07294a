"""Statistics of a vocabulary on a text: unknown characters, pieces per word.

A word is a run of characters between spaces after `tokenizer.normalize`, punctuation
included. In text without spaces, words are few and long; read the statistics of
characters there.
"""

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sentencepiece

from albert_tf.tokenization import tokenizer as tokenizer_lib

PERCENTILES = (50, 90, 99)
_NUM_UNKNOWN_CHARACTERS = 10


@dataclasses.dataclass(frozen=True)
class UnknownCharacter:
    """A character that is not in the vocabulary, and its number of occurrences."""

    character: str
    code_point: str
    count: int


@dataclasses.dataclass(frozen=True)
class VocabReport:
    """Statistics of a vocabulary on a text.

    Attributes:
      vocab_sha256: hex digest of the model.
      vocab_size: V.
      lower_case: whether text was lower-cased.
      num_lines: number of lines.
      num_words: number of words, repeats included.
      num_characters: number of characters of the words, as SentencePiece normalizes
        them.
      num_pieces: number of pieces, as the model gets them.
      character_coverage: fraction of the characters that are not in an unknown piece.
      unknown_rate: fraction of the pieces that are unknown.
      single_piece_rate: fraction of the words that are one piece.
      pieces_per_word: mean number.
      pieces_per_word_percentiles: number of pieces by percentile ("50", ...).
      pieces_per_character: mean number.
      characters_per_piece: mean number.
      vocabulary_used: fraction of the vocabulary, without special pieces, that occurs
        in the text.
      unknown_characters: the most frequent ones, by count.
    """

    vocab_sha256: str
    vocab_size: int
    lower_case: bool
    num_lines: int
    num_words: int
    num_characters: int
    num_pieces: int
    character_coverage: float
    unknown_rate: float
    single_piece_rate: float
    pieces_per_word: float
    pieces_per_word_percentiles: Mapping[str, int]
    pieces_per_character: float
    characters_per_piece: float
    vocabulary_used: float
    unknown_characters: tuple[UnknownCharacter, ...]

    def to_json(self) -> str:
        """Returns the report as JSON with unescaped characters."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"


def measure(tokenizer: tokenizer_lib.Tokenizer, lines: Sequence[str]) -> VocabReport:
    """Measures a vocabulary on lines of raw text.

    Args:
      tokenizer: the vocabulary, with its casing.
      lines: text, preferably held out from training.

    Raises:
      ValueError: the lines have no word.
    """
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        counts.update(tokenizer.normalize(line).split())
    if not counts:
        raise ValueError(
            "a vocabulary must be measured on lines with text; received "
            f"{len(lines)} lines and no word"
        )
    # No piece contains a space inside, so each distinct word is encoded only once.
    rows = tokenizer.encode_batch(list(counts))
    repeats = np.fromiter(counts.values(), np.int64)  # [W], W distinct words
    lengths = np.array([len(row) for row in rows])  # [W]
    occurrences = np.bincount(
        np.array([i for row in rows for i in row], np.int64),
        weights=np.repeat(repeats, lengths),
        minlength=tokenizer.vocab_size,
    ).astype(np.int64)  # [V]
    unknown = _unknown_characters(tokenizer, counts, rows)
    num_unknown = sum(unknown.values())
    num_characters = num_unknown + int(occurrences @ _piece_characters(tokenizer))
    num_words, num_pieces = int(repeats.sum()), int(occurrences.sum())
    return VocabReport(
        vocab_sha256=tokenizer.sha256,
        vocab_size=tokenizer.vocab_size,
        lower_case=tokenizer.lower_case,
        num_lines=len(lines),
        num_words=num_words,
        num_characters=num_characters,
        num_pieces=num_pieces,
        character_coverage=1.0 - num_unknown / max(1, num_characters),
        unknown_rate=int(occurrences[tokenizer.unk_id]) / max(1, num_pieces),
        single_piece_rate=int(repeats[lengths == 1].sum()) / num_words,
        pieces_per_word=num_pieces / num_words,
        pieces_per_word_percentiles={
            str(percent): _percentile(lengths, repeats, percent)
            for percent in PERCENTILES
        },
        pieces_per_character=num_pieces / max(1, num_characters),
        characters_per_piece=num_characters / max(1, num_pieces),
        vocabulary_used=float(np.mean(occurrences[tokenizer.replacement_ids] > 0)),
        unknown_characters=tuple(
            UnknownCharacter(character, f"U+{ord(character):04X}", count)
            for character, count in sorted(
                unknown.items(), key=lambda item: (-item[1], item[0])
            )[:_NUM_UNKNOWN_CHARACTERS]
        ),
    )


def _percentile(lengths: np.ndarray, repeats: np.ndarray, percent: int) -> int:
    """Returns the smallest length that this percentage of the words does not exceed.

    Args:
      lengths: int64 [W].
      repeats: int64 [W], count of each length.
      percent: in (0, 100].
    """
    totals = np.cumsum(np.bincount(lengths, weights=repeats))
    return int(np.searchsorted(totals * 100, totals[-1] * percent))


def _piece_characters(tokenizer: tokenizer_lib.Tokenizer) -> np.ndarray:
    """Returns the number of characters of each piece; int64 [V], 0 if special."""
    sizes = np.zeros(tokenizer.vocab_size, np.int64)
    plain = tokenizer.replacement_ids
    sizes[plain] = [
        len(piece.replace(tokenizer_lib.META_SYMBOL, ""))
        for piece in tokenizer.pieces(plain)
    ]
    return sizes


def _unknown_characters(
    tokenizer: tokenizer_lib.Tokenizer,
    counts: Mapping[str, int],
    rows: Iterable[Sequence[int]],
) -> collections.Counter[str]:
    """Counts the occurrences of each character in unknown pieces.

    Args:
      tokenizer: the vocabulary.
      counts: number of occurrences of each distinct word.
      rows: ids of each word, in the same order.
    """
    # Encoding to pieces instead of ids keeps the text of unknown pieces.
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_proto)
    unknown: collections.Counter[str] = collections.Counter()
    for (word, count), row in zip(counts.items(), rows, strict=True):
        if tokenizer.unk_id not in row:
            continue
        for piece in processor.encode(word, out_type=str):
            if processor.piece_to_id(piece) == tokenizer.unk_id:
                for character in piece.replace(tokenizer_lib.META_SYMBOL, ""):
                    unknown[character] += count
    return unknown


def format_table(reports: Mapping[str, VocabReport]) -> str:
    """Formats a table with one column for each report.

    Args:
      reports: reports on the same text, by the name of the vocabulary.
    """
    rows = [["held-out text", *reports]]

    def add(label: str, form: str, name: str) -> None:
        values = [format(getattr(r, name), form) for r in reports.values()]
        rows.append([label, *values])

    add("lines", ",", "num_lines")
    add("words", ",", "num_words")
    add("characters covered", ".4%", "character_coverage")
    add("pieces unknown", ".4%", "unknown_rate")
    add("words in one piece", ".1%", "single_piece_rate")
    add("pieces per word", ".3f", "pieces_per_word")
    for percent in PERCENTILES:
        values = [
            str(r.pieces_per_word_percentiles[str(percent)]) for r in reports.values()
        ]
        rows.append([f"  at most, for {percent}% of the words", *values])
    add("pieces per character", ".3f", "pieces_per_character")
    add("characters per piece", ".3f", "characters_per_piece")
    add("vocabulary used", ".1%", "vocabulary_used")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [value.rjust(w) for value, w in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    ]
    # Below the table, as these lines are long.
    for name, report in reports.items():
        shown = " ".join(_shown(c) for c in report.unknown_characters)
        lines.append(f"unknown characters of {name}: {shown or 'none'}")
    return "\n".join(lines)


def _shown(unknown: UnknownCharacter) -> str:
    """Formats a character, or its code point if it is invisible, and its count."""
    visible = unknown.character.isprintable()
    name = unknown.character if visible else unknown.code_point
    return f"{name} ({unknown.count:,})"
