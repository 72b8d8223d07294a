"""A load of texts of mixed lengths on a server's queue, batched in two ways.

Clients ask one after another, each as soon as it has its answer, so that the model is
never idle: what changes with the batches is how many are answered, and how soon.
"""

import dataclasses
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.web import batching, sizes
from albert_tf.web import settings as settings_lib

IN_ORDER, LIKE_LENGTHS = "order of arrival", "like lengths"
_WORDS = "the river runs through an old town near a small lake and was built in".split()


class Load(NamedTuple):
    """Who asks, and what.

    Attributes:
      num_clients: that ask at the same time.
      lengths: approximate tokens of a text, with their shares.
      seconds: of one measurement.
      num_rounds: of measurements of both ways of batching.
    """

    num_clients: int
    lengths: dict[int, float]
    seconds: float
    num_rounds: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one way of batching did in all rounds.

    Attributes:
      name: of the way.
      texts_per_second: that were answered.
      latencies: seconds of each request, by the tokens of its text.
    """

    name: str
    texts_per_second: float
    latencies: dict[int, list[float]]


def make_text(num_tokens: int, rng: random.Random) -> str:
    """Returns a text of about `num_tokens` tokens, four characters each."""
    words: list[str] = []
    size = 0
    while size < 4 * num_tokens:
        words.append(rng.choice(_WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)


def measure(
    function: Callable[[Sequence], Sequence],
    size_of: sizes.SizeOf,
    load: Load,
    settings: settings_lib.ServerSettings,
) -> list[Outcome]:
    """Runs the load with both ways of batching, in turns.

    Args:
      function: of a signature, from `web.model`; its items are tuples of a text.
      size_of: the sizes of its items.
      load: who asks, and what.
      settings: of the server.
    """
    counts = dict.fromkeys((IN_ORDER, LIKE_LENGTHS), 0)
    latencies: dict[str, dict[int, list[float]]] = {
        name: {length: [] for length in load.lengths} for name in counts
    }
    for number in range(load.num_rounds):
        names = list(counts) if number % 2 == 0 else list(counts)[::-1]
        for name in names:
            batcher = batching.RequestBatcher(
                function, _limits(settings, name), size_of
            )
            shares = name == LIKE_LENGTHS
            for length, seconds in _ask(batcher, load, number, shares):
                latencies[name][length].append(seconds)
                counts[name] += 1
            batcher.close()
    total = load.seconds * load.num_rounds
    return [Outcome(name, counts[name] / total, latencies[name]) for name in counts]


def _limits(settings: settings_lib.ServerSettings, name: str) -> batching.Limits:
    in_order = name == IN_ORDER
    return batching.Limits(
        settings.max_batch_size,
        # Before there was a limit of tokens, texts alone counted.
        settings.max_batch_size * 512 if in_order else settings.max_batch_tokens,
        settings.max_wait_ms,
        settings.max_queue_tokens,
        math.inf if in_order else batching.Limits.max_length_ratio,
    )


def _ask(
    batcher: batching.RequestBatcher, load: Load, seed: int, shares: bool
) -> list[tuple[int, float]]:
    """Returns the length and the seconds of each request that was answered in time.

    Args:
      batcher: that answers.
      load: who asks, and what.
      seed: of lengths and texts.
      shares: whether the clients have names, so that each gets an equal share.
    """
    found: list[tuple[int, float]] = []
    end = time.monotonic() + load.seconds

    def work(number: int) -> None:
        rng = random.Random(f"{seed}-{number}")
        while (began := time.monotonic()) < end:
            (length,) = rng.choices(list(load.lengths), list(load.lengths.values()))
            text = make_text(length, rng)
            batcher.submit([(text,)], f"client {number}" if shares else "")[0].result()
            if (answered := time.monotonic()) < end:
                found.append((length, answered - began))

    clients = [
        threading.Thread(target=work, args=(number,))
        for number in range(load.num_clients)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return found


def to_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome as values that JSON can hold, latencies as p50 and p99 in seconds."""
    latencies = {
        length: {"count": len(seconds), "p50": middle, "p99": high}
        for length, seconds in outcome.latencies.items()
        for middle, high in [_percentiles(seconds) if seconds else (None, None)]
    }
    return dataclasses.asdict(outcome) | {"latencies": latencies}


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    middle, high = np.percentile(seconds or [math.nan], (50, 99)).tolist()
    return middle, high


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Returns the rows of a table, latencies in milliseconds."""
    header = ["batches in", "texts/s"]
    for length in outcomes[0].latencies:
        header += [f"{length} tokens: p50, ms", "p99"]
    rows = [header]
    for outcome in outcomes:
        row = [outcome.name, f"{outcome.texts_per_second:.1f}"]
        for seconds in outcome.latencies.values():
            row += [f"{1e3 * value:.0f}" for value in _percentiles(seconds)]
        rows.append(row)
    return rows
