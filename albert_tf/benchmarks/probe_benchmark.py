"""The speed of a grammar probe, extrapolated to all of BLiMP."""

import concurrent.futures
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.core import config as config_lib
from albert_tf.core import plurals, text_table
from albert_tf.devices import cpu_threads
from albert_tf.model import pretraining_model
from albert_tf.probing import model_scorer, scoring

# Different rows of BLiMP by their length in tokens, special tokens included: from 5 on
# every length, with a vocabulary of 8,000 pieces that was trained on Wikipedia.
BLIMP_ROWS = dict(
    enumerate(
        (
            *(207, 2710, 10691, 26397, 48390, 72641, 100853, 123246, 131478, 136403),
            *(129679, 124666, 112844, 95835, 85509, 75849, 62554, 57395, 51039, 46360),
            *(39838, 36921, 27806, 24854, 21739, 16524, 12328, 9761, 7922, 4920, 4615),
            *(2376, 1782, 1404, 997, 760, 507, 280, 410, 126, 43, 88, 0, 46),
        ),
        start=5,
    )
)
BLIMP_SENTENCES = 134_000
MAX_MINUTES = 10.0


class Speed(NamedTuple):
    """The speed of one form of the model.

    Attributes:
      dtype: of the blocks.
      batch_tokens: tokens of a batch.
      tokens_per_second: special tokens included.
      sentences_per_second: of BLiMP.
      blimp_minutes: for all of BLiMP.
      core_minutes: the same as time of the cores, to which other programs add little.
    """

    dtype: str
    batch_tokens: int
    tokens_per_second: float
    sentences_per_second: float
    blimp_minutes: float
    core_minutes: float


def measure(
    config: config_lib.Config,
    dtypes: Sequence[str],
    batch_tokens: Sequence[int],
    num_rounds: int,
) -> list[Speed]:
    """Prints a table of the speeds by dtype and size of batch, and returns them."""
    batches_at_once = cpu_threads.one_core_a_batch()
    max_length = config.model.max_positions
    num_longer = sum(BLIMP_ROWS[one] for one in BLIMP_ROWS if one > max_length)
    if num_longer:
        print(
            f"BLiMP has {plurals.count(num_longer, 'row')} of more than {max_length} "
            "tokens, which are not counted: the model has no more positions"
        )
    found = []
    for dtype in dtypes:
        form = model_scorer.scoring_form(dtype, config.train.jit_compile)
        model = pretraining_model.build_pretraining_model(
            config.model, config.train.seed, form
        )
        for size in batch_tokens:
            score_tokens = model_scorer.make_score_tokens(model, size)
            times_of_row = {
                length: _times_of_row(
                    score_tokens,
                    config.model,
                    length,
                    size,
                    batches_at_once,
                    num_rounds,
                )
                for length in BLIMP_ROWS
                if length <= max_length
            }
            found.append(extrapolate(dtype, size, times_of_row))
    print("\n".join(text_table.align(to_rows(found))))
    return found


def extrapolate(
    dtype: str, batch_tokens: int, times_of_row: dict[int, tuple[float, float]]
) -> Speed:
    """Returns the speed on all of BLiMP.

    Args:
      dtype: as in the result.
      batch_tokens: as in the result.
      times_of_row: seconds by the clock and of the cores for a row, by its length.
    """
    seconds, core_seconds = (
        sum(BLIMP_ROWS[length] * times[one] for length, times in times_of_row.items())
        for one in (0, 1)
    )
    num_tokens = sum(length * BLIMP_ROWS[length] for length in times_of_row)
    return Speed(
        dtype,
        batch_tokens,
        num_tokens / seconds,
        BLIMP_SENTENCES / seconds,
        seconds / 60,
        core_seconds / 60,
    )


def to_rows(found: Sequence[Speed]) -> list[list[str]]:
    """Returns the rows of the table, the first with its headings."""
    headings = [
        "",
        "batch tokens",
        "tokens/s",
        "sentences/s",
        "minutes",
        "at most",
        "core minutes",
    ]
    return [
        headings,
        *(
            [
                one.dtype,
                f"{one.batch_tokens:,}",
                f"{one.tokens_per_second:,.0f}",
                f"{one.sentences_per_second:,.0f}",
                f"{one.blimp_minutes:.1f}",
                f"{MAX_MINUTES:.1f}",
                f"{one.core_minutes:.1f}",
            ]
            for one in found
        ),
    ]


def _times_of_row(
    score_tokens: scoring.ScoreTokens,
    model: config_lib.ModelConfig,
    length: int,
    batch_tokens: int,
    batches_at_once: int,
    num_rounds: int,
) -> tuple[float, float]:
    """Returns the times of a row in full batches, the medians over the rounds.

    A round has twice as many batches as are computed at once.
    """
    num_rows = max(1, batch_tokens // length)
    rng = np.random.default_rng(length)
    batch = (
        rng.integers(0, model.vocab_size, [num_rows, length], np.int32),
        rng.integers(1, length - 1, [num_rows], np.int32),
        np.arange(num_rows, dtype=np.int32),
        rng.integers(0, model.vocab_size, [num_rows], np.int32),
    )
    score_tokens(*batch)
    times = []
    num_batches = 2 * batches_at_once
    with concurrent.futures.ThreadPoolExecutor(batches_at_once) as pool:
        for _ in range(num_rounds):
            started = time.perf_counter(), time.process_time()
            for _ in pool.map(lambda _: score_tokens(*batch), range(num_batches)):
                pass
            times.append(
                (time.perf_counter() - started[0], time.process_time() - started[1])
            )
    seconds, core_seconds = (statistics.median(one) for one in zip(*times, strict=True))
    return seconds / (num_batches * num_rows), core_seconds / (num_batches * num_rows)
