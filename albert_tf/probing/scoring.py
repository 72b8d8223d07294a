"""Scores of sentences: sums of the log-probabilities of their tokens.

A `Scorer` is a model and its tokenizer; the model is a function of arrays, so that one
in this process, an exported one and a test's are used alike.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.core import progress_bar, side_by_side
from albert_tf.probing import masked_rows, settings
from albert_tf.tokenization import tokenizer as tokenizer_lib

# A model's log-probabilities of tokens at masked positions, float32 [M], natural
# logarithms. Its arguments are int32: `input_ids` [R, S], all of them tokens;
# `positions` [R], one masked position in each row; `target_rows` [M], the row of each
# scored token; `target_ids` [M], the token.
ScoreTokens = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Scorer:
    """A model that scores tokens, and what makes its rows.

    Attributes:
      score_tokens: the model.
      tokenizer: of the model.
      max_length: the largest number of tokens in a row, special tokens included.
      batch_tokens: tokens of a batch; at least one row.
      batches_at_once: batches to compute side by side, each by a thread.
    """

    score_tokens: ScoreTokens
    tokenizer: tokenizer_lib.Tokenizer
    max_length: int
    batch_tokens: int = settings.BATCH_TOKENS
    batches_at_once: int = 1


class Scores(NamedTuple):
    """Scores of sentences, and what was computed for them.

    Attributes:
      values: float64 [N], in the order of the sentences; NaN for a sentence that is
        longer than the model's sequence.
      num_rows: rows of tokens that the model computed.
      num_tokens: their tokens, special tokens included.
    """

    values: np.ndarray
    num_rows: int
    num_tokens: int


def score(
    scorer: Scorer,
    sentences: Sequence[str],
    metric: str = settings.PLL,
    shows_progress: bool = False,
) -> Scores:
    """Computes the pseudo-log-likelihood of each sentence.

    Args:
      scorer: the model.
      sentences: N sentences; equal ones are computed once.
      metric: one of `settings.METRICS`.
      shows_progress: whether to print a progress bar.

    Raises:
      ValueError: a sentence has no token, or the model's scores are not numbers.
    """
    different = list(dict.fromkeys(sentences))
    places = {sentence: place for place, sentence in enumerate(different)}
    rows = scorer.tokenizer.encode_batch(different)
    for sentence, ids in zip(different, rows, strict=True):
        if not ids:
            raise ValueError(
                f"a sentence must have a token; received {sentence!r}, which has none"
            )
    fitting = [place for place, ids in enumerate(rows) if _fits(scorer, ids)]
    scored = [rows[place] for place in fitting]
    num_rows, num_tokens = 0, 0
    sums = np.zeros(len(fitting))
    with progress_bar.make(
        total=masked_rows.num_tokens(scored),
        unit="token",
        unit_scale=True,
        disable=not shows_progress,
    ) as bar:
        batches = _batches(scorer, scored, metric)
        for batch, found in _score_in_order(scorer, batches):
            # In float64: the order of the batches must not change a sum.
            np.add.at(sums, batch.sentences, found.astype(np.float64))
            bar.total -= batch.num_equal_tokens
            bar.update(batch.input_ids.size)
            num_rows += len(batch.input_ids)
            num_tokens += batch.input_ids.size
    if np.isnan(sums).any():
        raise ValueError(
            "the model's scores are not numbers (NaN): its weights are damaged, or its "
            "numbers overflow"
        )
    values = np.full(len(different), np.nan)
    values[fitting] = sums
    return Scores(
        values[[places[sentence] for sentence in sentences]], num_rows, num_tokens
    )


class _Batch(NamedTuple):
    """What `ScoreTokens` takes, and what becomes of it.

    Attributes:
      input_ids: as in `ScoreTokens`.
      positions: as in `ScoreTokens`.
      target_rows: as in `ScoreTokens`.
      target_ids: as in `ScoreTokens`.
      sentences: int32 [M], the sentence of each scored token.
      num_equal_tokens: tokens of rows that equal one of these.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    target_rows: np.ndarray
    target_ids: np.ndarray
    sentences: np.ndarray
    num_equal_tokens: int


def _batches(
    scorer: Scorer, sentences: Sequence[Sequence[int]], metric: str
) -> Iterator[_Batch]:
    for rows in masked_rows.make(sentences, scorer.tokenizer, metric):
        number, length = rows.input_ids.shape
        size = max(1, scorer.batch_tokens // length)
        for first in range(0, number, size):
            last = min(first + size, number)
            targets = slice(*np.searchsorted(rows.target_rows, [first, last]))
            target_ids = rows.target_ids[targets]
            yield _Batch(
                rows.input_ids[first:last],
                rows.positions[first:last],
                rows.target_rows[targets] - first,
                target_ids,
                rows.sentences[targets],
                (len(target_ids) - (last - first)) * length,
            )


def _score_in_order(
    scorer: Scorer, batches: Iterator[_Batch]
) -> Iterator[tuple[_Batch, np.ndarray]]:
    """Yields each batch and its scores."""

    def score_batch(batch: _Batch) -> tuple[_Batch, np.ndarray]:
        return batch, scorer.score_tokens(*batch[:4])

    number = scorer.batches_at_once
    if number == 1:  # in this thread, which may have a device of its own
        yield from map(score_batch, batches)
        return
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        yield from side_by_side.map_in_order(pool, score_batch, batches, number)


def _fits(scorer: Scorer, ids: Sequence[int]) -> bool:
    return len(ids) + 2 <= scorer.max_length
