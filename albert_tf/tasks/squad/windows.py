"""Encodes questions and contexts as windows, with the offsets of each token.

A question and a long context become rows `[CLS] question [SEP] window [SEP]` whose
windows overlap. SentencePiece gives the span of the normalized text that each piece
covers; a map parallel to `tokenizer_lib.normalize` gives the offsets in the context.

Source: Lan et al., "ALBERT" (arXiv 1909.11942), section 4.1, and its authors' code;
windows and maximal context are those of Devlin et al., 2019.
"""

import dataclasses
import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
import sentencepiece

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

NUM_SPECIAL = 3  # [CLS] and two [SEP]
OUTSIDE = -1  # the offset of a token that is not part of the context

# Whether `str.split` treats a character as white space; the last one that it does is
# U+3000, and all later characters use the last entry of the table.
_LAST_BLANK = 0x3000
_IS_BLANK = np.array([chr(c).isspace() for c in range(_LAST_BLANK + 2)])


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """The tokens of a context.

    A token that begins a word covers the white space before it, as its piece does.
    Tokens may share a character that normalization expands, such as a ligature.

    Attributes:
      ids: int32 [P].
      starts: int32 [P], the first character of the context that a token covers.
      ends: int32 [P], exclusive. Equal to the start for a piece that covers no text,
        such as a lone word-boundary mark.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def char_sources(text: str) -> np.ndarray:
    """Maps each character of a normalized text to its source in the text.

    Args:
      text: any string.

    Returns:
      int64 [N + 1] for the N characters of `tokenizer_lib.normalize(text)`, then the
      end of the text without trailing white space. A run of white space maps to its
      first character.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    # Lower-casing, after decomposition, does not change the number of characters.
    is_blank = _IS_BLANK[np.minimum(codes, _LAST_BLANK + 1)]
    words = np.flatnonzero(~is_blank)
    if not len(words):
        return np.zeros(1, np.int64)
    begin, end = words[0], words[-1] + 1
    after_word = np.concatenate([[False], ~is_blank[:-1]])
    kept = np.flatnonzero(~is_blank | after_word)
    kept = kept[(kept >= begin) & (kept < end)]
    if not text.isascii():
        others, places = np.unique(codes[kept], return_inverse=True)
        kept = np.repeat(
            kept, np.array([_num_normalized(int(c)) for c in others])[places]
        )
    return np.append(kept, end)


@functools.lru_cache(maxsize=10_000)
def _num_normalized(code: int) -> int:
    """The number of characters that normalization turns a visible character into."""
    if code < 128:
        return 1
    decomposed = unicodedata.normalize("NFKD", chr(code))
    return len(tokenizer_lib.drop_combining(decomposed))


class Aligner:
    """Tokenizes contexts, with the offsets of each token."""

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer):
        self._tokenizer = tokenizer
        self._sp = sentencepiece.SentencePieceProcessor()
        self._sp.LoadFromSerializedProto(tokenizer.model_proto)
        # Pieces such as "1990,", which the tokenizer splits again, and the lengths of
        # their parts: only the first part begins a word.
        self._parts = {
            i: (row, [len(piece) for piece in tokenizer.pieces(row)])
            for i, row in enumerate(tokenizer.replacement_rows)
            if row != [i]
        }

    def paragraph(self, text: str) -> Paragraph:
        """Tokenizes a context, with the ids of `Tokenizer.encode`.

        Differs from the original, which aligns text and pieces in quadratic time, skips
        the question if fewer than four fifths of the characters match, and does not
        count a combining accent as part of its letter.

        Args:
          text: any string; P is 0 if its normalized form is empty.
        """
        normalized = self._tokenizer.normalize(text)
        pieces = self._sp.encode(normalized, out_type="immutable_proto").pieces
        covered = []
        for piece in pieces:
            if piece.id in self._parts:
                covered += self._cut(piece.id, piece.begin, piece.end)
            else:
                covered.append((piece.id, piece.begin, piece.end))
        found = np.array(covered, np.int64).reshape(-1, 3)
        ids, begins, ends = found[:, 0], found[:, 1], found[:, 2]
        sources = char_sources(text)
        starts = sources[begins]
        # Characters that normalization removes, such as accents, belong to the one
        # before them: a token ends where the next one starts.
        stops = np.maximum(sources[np.maximum(ends - 1, 0)] + 1, sources[ends])
        stops = np.where(ends > begins, stops, starts)
        return Paragraph(
            ids.astype(np.int32), starts.astype(np.int32), stops.astype(np.int32)
        )

    def _cut(self, piece_id: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """The parts of a piece; the first covers the remaining characters."""
        ids, lengths = self._parts[piece_id]
        cut = []
        for part, length in zip(ids[:0:-1], lengths[:0:-1], strict=True):
            middle = max(begin, end - length)
            cut.append((part, middle, end))
            end = middle
        return [(ids[0], begin, end), *cut[::-1]]


def windows(num_tokens: int, room: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the starts and lengths of windows over the tokens of a context.

    Args:
      num_tokens: of the context; 0 gives one empty window.
      room: maximal tokens of a window, at least 1.
      stride: tokens between the starts of successive windows, at most `room`, which is
        used otherwise.

    Returns:
      int64 [W] and int64 [W].
    """
    step = min(room, stride)
    count = 1 + max(0, -(-(num_tokens - room) // step))
    starts = np.arange(count) * step
    return starts, np.minimum(room, num_tokens - starts)


def max_context(starts: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Returns whether each token has its maximal context in this window.

    The context of a token is the smaller of the numbers of tokens on its left and
    right, plus a hundredth of the window's length; ties go to the first window.

    Args:
      starts: int64 [W], from `windows`.
      lengths: int64 [W].

    Returns:
      For each window a bool [length].
    """
    if len(starts) == 1:
        return [np.ones(lengths[0], bool)]
    num_tokens = int(starts[-1] + lengths[-1])
    best = np.full(num_tokens, -1.0)
    owner = np.zeros(num_tokens, np.int64)
    parts = [slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]
    for window, part in enumerate(parts):
        left = np.arange(lengths[window])
        score = np.minimum(left, left[::-1]) + 0.01 * lengths[window]
        better = score > best[part]
        best[part][better] = score[better]
        owner[part][better] = window
    return [owner[part] == window for window, part in enumerate(parts)]


def answer_tokens(paragraph: Paragraph, answer: examples_lib.Answer) -> tuple[int, int]:
    """Returns the first and the last token of an answer.

    Args:
      paragraph: its context, with at least one token.
      answer: within the context.
    """
    last = answer.start + len(answer.text) - 1
    num_tokens = len(paragraph.ids)
    start = int(np.searchsorted(paragraph.ends, answer.start, side="right"))
    end = int(np.searchsorted(paragraph.starts, last, side="right")) - 1
    start = min(start, num_tokens - 1)
    # Differs from the original, which fails for an answer of white space only: here it
    # is the next token.
    return start, max(start, end)


def p_mask(lengths: np.ndarray, num_first: np.ndarray, width: int) -> np.ndarray:
    """Masks the positions at which no answer may start or end.

    [CLS] is not masked: in training it is the span of an absent answer.

    Args:
      lengths: int [B], tokens of each row: the differences of `Features.offsets`.
      num_first: int [B], `Features.num_first`.
      width: S, at least the longest row.

    Returns:
      int32 [B, S], 1 at the question, the separators and the padding.
    """
    place = np.arange(width)
    window = (place >= num_first[:, None]) & (place < lengths[:, None] - 1)
    return np.where(window | (place == 0), 0, 1).astype(np.int32)


def encode(
    examples: Sequence[examples_lib.SpanExample],
    tokenizer: tokenizer_lib.Tokenizer,
    settings: task_config.TaskConfig,
    is_training: bool,
) -> features_lib.Features:
    """Encodes questions, one row per window.

    Args:
      examples: successive ones with the same context tokenize it once.
      tokenizer: of the model.
      settings: `max_seq_length`, `max_query_length` and `doc_stride` are used; the
        longest question must leave a token for the window.
      is_training: whether to include the span of the answer. A window without the whole
        answer is impossible, and its span is [CLS], 0 to 0.

    Returns:
      Features with `per_row` `start_positions`, `end_positions` and `is_impossible`
      int32 in training, and with the notes
        char_starts: int32, the first character of the context that a token covers,
        char_ends: int32, exclusive; both are -1 at tokens outside of the context,
        is_max_context: bool, see `max_context`; false at such tokens.
    """
    aligner = Aligner(tokenizer)
    queries = tokenizer.encode_batch([example.question for example in examples])
    builder = _FeatureBuilder(tokenizer)
    paragraph = aligner.paragraph("")
    for number, (example, query) in enumerate(zip(examples, queries, strict=True)):
        if not number or example.context != examples[number - 1].context:
            paragraph = aligner.paragraph(example.context)
        query = query[: settings.max_query_length]
        room = settings.max_seq_length - len(query) - NUM_SPECIAL
        spans = windows(len(paragraph.ids), room, settings.doc_stride)
        builder.add(number, query, paragraph, *spans)
        if is_training:
            builder.add_labels(len(query) + 2, _answer_of(paragraph, example), *spans)
    return builder.features(is_training)


def _answer_of(
    paragraph: Paragraph, example: examples_lib.SpanExample
) -> tuple[int, int] | None:
    """The tokens of the answer to train on, or None if there is none."""
    if example.is_impossible or not len(paragraph.ids):
        return None
    return answer_tokens(paragraph, example.answers[0])


class _FeatureBuilder:
    """Collects rows, and concatenates them into `Features`."""

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer):
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)
        self._lengths: list[int] = []
        self._num_first: list[int] = []
        self._example_index: list[int] = []
        self._ids: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._starts: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._ends: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._is_max: list[np.ndarray] = [np.zeros(0, bool)]
        self._labels: list[np.ndarray] = [np.zeros((0, 3), np.int64)]

    def add(
        self,
        number: int,
        query: list[int],
        paragraph: Paragraph,
        starts: np.ndarray,
        lengths: np.ndarray,
    ) -> None:
        """Adds the windows of one question."""
        first = np.concatenate([self._cls, np.array(query, np.int32), self._sep])
        outside = np.full(len(first), OUTSIDE, np.int32)
        nowhere = np.zeros(len(first), bool)
        # A piece that covers no text gets the character after it.
        ends = np.maximum(paragraph.ends, paragraph.starts + 1)
        is_max = max_context(starts, lengths)
        for start, length, seen in zip(starts, lengths, is_max, strict=True):
            part = slice(start, start + length)
            self._ids += [first, paragraph.ids[part], self._sep]
            self._starts += [outside, paragraph.starts[part], outside[:1]]
            self._ends += [outside, ends[part], outside[:1]]
            self._is_max += [nowhere, seen, nowhere[:1]]
        self._lengths += (len(first) + lengths + 1).tolist()
        self._num_first += [len(first)] * len(starts)
        self._example_index += [number] * len(starts)

    def add_labels(
        self,
        num_first: int,
        answer: tuple[int, int] | None,
        starts: np.ndarray,
        lengths: np.ndarray,
    ) -> None:
        """Adds the labels of the windows of one question."""
        labels = np.tile([0, 0, 1], (len(starts), 1))
        if answer is not None:
            holds = (answer[0] >= starts) & (answer[1] < starts + lengths)
            shift = num_first - starts[holds]
            labels[holds, 0] = answer[0] + shift
            labels[holds, 1] = answer[1] + shift
            labels[holds, 2] = 0
        self._labels.append(labels)

    def features(self, is_training: bool) -> features_lib.Features:
        """The features of all rows."""
        per_row = {}
        if is_training:
            names = ("start_positions", "end_positions", "is_impossible")
            labels = np.concatenate(self._labels).astype(np.int32)
            per_row = dict(zip(names, labels.T.copy(), strict=True))
        return features_lib.Features(
            np.concatenate(self._ids),
            np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)]).astype(
                np.int64
            ),
            np.array(self._num_first, np.int32),
            np.array(self._example_index, np.int32),
            per_row,
            {},
            {
                "char_starts": np.concatenate(self._starts),
                "char_ends": np.concatenate(self._ends),
                "is_max_context": np.concatenate(self._is_max),
            },
        )
