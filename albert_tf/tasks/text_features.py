"""Features of texts, pairs of texts and labelled words."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.tasks import features as features_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

# [CLS] and one [SEP], or two.
SINGLE_FRAME, PAIR_FRAME = 2, 3
# In `notes` of `encode_words`: int32 [T], the word that begins at the token, or -1.
WORD_INDEX = "word_index"
NO_LABEL = -1


def truncated_lengths(first: int, second: int, most: int) -> tuple[int, int]:
    """Lengths of a pair after truncating the longer text, token by token.

    If both are equally long, the second is truncated, as in the original.

    Args:
      first: tokens of the first text.
      second: tokens of the second.
      most: maximal sum of the lengths.
    """
    kept = min(first, max(most - second, (most + 1) // 2))
    return kept, min(second, most - kept)


def encode_texts(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    per_row: dict[str, np.ndarray],
) -> features_lib.Features:
    """Encodes texts or pairs of texts, one row each.

    Args:
      texts: N texts.
      pairs: the second texts; None for single texts.
      tokenizer: of the model.
      max_seq_length: maximal tokens of a row, with [CLS] and [SEP].
      per_row: labels, arrays [N].
    """
    if pairs is None:
        first = [
            ids[: max_seq_length - SINGLE_FRAME]
            for ids in tokenizer.encode_batch(texts)
        ]
        return join_segments(first, None, range(len(texts)), tokenizer, per_row)
    both = tokenizer.encode_batch([*texts, *pairs])
    first, second = both[: len(texts)], both[len(texts) :]
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        if len(a) + len(b) > max_seq_length - PAIR_FRAME:
            num_a, num_b = truncated_lengths(
                len(a), len(b), max_seq_length - PAIR_FRAME
            )
            first[row], second[row] = a[:num_a], b[:num_b]
    return join_segments(first, second, range(len(texts)), tokenizer, per_row)


def join_segments(
    first: Sequence[Sequence[int]],
    second: Sequence[Sequence[int]] | None,
    example_index: Iterable[int],
    tokenizer: tokenizer_lib.Tokenizer,
    per_row: dict[str, np.ndarray],
) -> features_lib.Features:
    """Builds rows `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`.

    Args:
      first: ids of R texts, already truncated.
      second: of R texts, or None.
      example_index: the example of each row.
      tokenizer: has the special ids.
      per_row: arrays [R].
    """
    cls, sep = (tokenizer.cls_id,), (tokenizer.sep_id,)
    num_first = np.fromiter(map(len, first), np.int32, len(first)) + SINGLE_FRAME
    parts: Iterable[tuple[Sequence[int], ...]]
    if second is None:
        lengths = num_first
        parts = zip(itertools.repeat(cls), first, itertools.repeat(sep), strict=False)
    else:
        num_second = np.fromiter(map(len, second), np.int32, len(second)) + 1
        lengths = num_first + num_second
        frames = (itertools.repeat(cls), itertools.repeat(sep), itertools.repeat(sep))
        parts = zip(frames[0], first, frames[1], second, frames[2], strict=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    # In one pass, without a list of all tokens.
    chain = itertools.chain.from_iterable
    ids = np.fromiter(chain(chain(parts)), np.int32, int(offsets[-1]))
    index = np.fromiter(example_index, np.int32, len(first))
    return features_lib.Features(
        ids, offsets.astype(np.int64), num_first, index, per_row, {}, {}
    )


def encode_words(
    sentences: Sequence[Sequence[str]],
    label_ids: Sequence[Sequence[int]] | None,
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
) -> features_lib.Features:
    """Encodes sentences, one row each; the first piece of a word represents the word.

    A word without pieces (such as a lone accent) becomes <unk>. Pieces that exceed the
    maximal length are truncated, with the words that begin there.

    Args:
      sentences: the words of N sentences.
      label_ids: one class per word; None omits `token_label_ids`.
      tokenizer: of the model.
      max_seq_length: maximal tokens of a row, with [CLS] and [SEP].
    """
    vocabulary = list(dict.fromkeys(itertools.chain.from_iterable(sentences)))
    pieces = tokenizer.encode_batch(vocabulary)
    known = {
        word: ids or [tokenizer.unk_id]
        for word, ids in zip(vocabulary, pieces, strict=True)
    }
    ids: list[list[int]] = []
    words: list[list[int]] = []
    labels: list[list[int]] = []
    most = max_seq_length - SINGLE_FRAME
    for number, sentence in enumerate(sentences):
        row: list[int] = []
        starts: list[int] = []
        targets: list[int] = []
        for place, word in enumerate(sentence):
            if len(row) >= most:
                break
            rest = [NO_LABEL] * (len(known[word]) - 1)
            row += known[word]
            starts += [place, *rest]
            if label_ids is not None:
                targets += [label_ids[number][place], *rest]
        ids.append([tokenizer.cls_id, *row[:most], tokenizer.sep_id])
        words.append([NO_LABEL, *starts[:most], NO_LABEL])
        labels.append([NO_LABEL, *targets[:most], NO_LABEL])
    per_token = {} if label_ids is None else {"token_label_ids": _flat(labels)}
    return features_lib.build(
        ids,
        [len(row) for row in ids],
        range(len(ids)),
        per_token=per_token,
        notes={WORD_INDEX: _flat(words)},
    )


def word_logits(
    features: features_lib.Features,
    num_words: Sequence[int],
    logits: np.ndarray,
    truncated: np.ndarray,
) -> list[np.ndarray]:
    """Gathers the logits at the first piece of each word.

    Args:
      features: from `encode_words`, R rows.
      num_words: of each sentence, R.
      logits: float32 [R, S, C].
      truncated: float32 [C], the logits of a word that was truncated.

    Returns:
      A float32 [words, C] for each sentence.
    """
    found = []
    for row, count in enumerate(num_words):
        index = features.notes[WORD_INDEX][features.span(row)]
        places = np.flatnonzero(index >= 0)
        values = np.tile(truncated, (count, 1)).astype(np.float32)  # [words, C]
        values[index[places]] = logits[row, places]
        found.append(values)
    return found


def _flat(values: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array(list(itertools.chain.from_iterable(values)), np.int32)
