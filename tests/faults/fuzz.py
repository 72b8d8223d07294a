"""Damaged and hostile input for every parser: a value or one clear line, in bounds."""

import contextlib
import itertools
import pathlib
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import hypothesis
import tensorflow as tf
from hypothesis import strategies

from tests.faults import experiment, parsers
from tests.support import hostile_json

# What one input may take: seconds of the processor, which do not depend on what else
# the machine does; and seconds of the clock, for what waits.
MAX_SECONDS = 10.0
MAX_WAIT_SECONDS = 120.0
MAX_BYTES = 512 << 20
_MAX_MESSAGE = 600
# A parser may say with them that the input is wrong; all others are its faults.
_REFUSALS = (ValueError, OSError, tf.errors.OpError)
_NUM_LONG, _NUM_SHORT = 10_000, 20
# About as many as `inputs` gives for the cuts that hypothesis draws.
_INPUTS_PER_EXAMPLE = 4

_HOSTILE = (
    b"[" * 300,
    b"{" * 300,
    b"<" * 300,
    b"9" * 400,
    b"-1",
    b"1e999",
    b"NaN",
    b"\0" * 64,
    b"\xff" * 64,
    b"\n" * 64,
    b"\t",
    b'"',
    b"'" * 20,
    b"{{{{[[[[",
    b"<ref>" * 40,
    b"&#x110000;",
    b"\\ud800",
    "\u00df\ufdfa\U0001f600".encode(),
)
_PIECES = strategies.one_of(
    strategies.binary(max_size=6), strategies.sampled_from(_HOSTILE)
)
# What grows faster than its input is seen at this size.
GROWN_BYTES = 2 << 20
# Each cut replaces some bytes, at a share of the length, by others.
_CUTS = strategies.lists(
    strategies.tuples(
        strategies.floats(0, 1),
        _PIECES,
        strategies.sampled_from([0, 0, 1, 2, 9, 10**6]),
    ),
    min_size=1,
    max_size=6,
)


_TIMERS = {
    signal.ITIMER_PROF: signal.SIGPROF,
    signal.ITIMER_REAL: signal.SIGALRM,
}


class HangError(BaseException):
    """A parser took longer than it may; nothing in it catches this."""


def _hang(*_: object) -> None:
    raise HangError


def apply(content: bytes, cuts: Sequence[tuple[float, bytes, int]]) -> bytes:
    """The content with pieces dropped and inserted."""
    for place, inserted, num_dropped in cuts:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + num_dropped :]
    return content


def inputs(content: bytes, cuts: Sequence[tuple[float, bytes, int]]) -> Iterator[bytes]:
    """The content with all cuts, and with each of several by itself.

    To draw cuts takes longer than most parsers do.
    """
    yield apply(content, cuts)
    if len(cuts) > 1:
        for cut in cuts:
            yield apply(content, [cut])


def grown(content: bytes) -> Iterator[bytes]:
    """The content with each hostile piece many times, at its start, middle and end."""
    for piece in _HOSTILE:
        many = piece * (GROWN_BYTES // len(piece))
        for place in (0, len(content) // 2, len(content)):
            yield content[:place] + many + content[place:]
    yield content * (GROWN_BYTES // len(content) + 1)


def feed(
    one: parsers.Parser, folder: pathlib.Path, content: bytes, tally: experiment.Tally
) -> None:
    """Gives a parser an input, and counts what it makes of it."""
    tally.num_runs += 1
    tally.num_faults += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, MAX_WAIT_SECONDS)
    outcome, fault = experiment.UNHARMED, ""
    try:
        one.read(folder, content)
    except _REFUSALS as error:
        outcome, message = experiment.NAMED, str(error)
        if type(error) is UnicodeDecodeError or "\n" in message.strip():
            fault = f"not one line: {error!r}"
        elif (
            len(message) - message.count(str(folder)) * len(str(folder)) > _MAX_MESSAGE
        ):
            fault = f"a message of {len(message)} characters"
        elif one.names_file and str(folder) not in message:
            fault = f"does not name the file: {message}"
    except HangError:
        fault = "no answer"
    except Exception as error:  # noqa: BLE001  (any other is a fault of the parser)
        fault = f"{type(error).__name__}: {error}"
    finally:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
    seconds = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
    if not fault and seconds > MAX_SECONDS:
        fault = f"{seconds:.1f} s"
    if not fault and grown > MAX_BYTES:
        fault = f"{grown >> 20} MiB more memory"
    if fault:
        tally.fail(f"{one.name}: {fault[:400]}; input {content[:200]!r}")
    else:
        tally.add(outcome)


@contextlib.contextmanager
def hangs_end() -> Iterator[None]:
    """Within it `feed` ends a parser that takes longer than it may."""
    before = {number: signal.signal(number, _hang) for number in _TIMERS.values()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def fuzz(group: str) -> Callable[..., experiment.Tally]:
    """Feeds each parser of a group with so many inputs; notes the counts of each."""

    def run(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
        tally = experiment.Tally()
        for one in parsers.GROUPS[group](bench.new_path("valid")):
            found = run_parser(one, bench.new_path("fuzz"), num_faults, rng)
            tally.num_runs += found.num_runs
            tally.num_faults += found.num_faults
            tally.outcomes += found.outcomes
            tally.failures += found.failures
            counts = ", ".join(f"{n} {name}" for name, n in found.outcomes.items())
            tally.notes.append(f"{one.name}: {counts}")
            print(f"  {tally.notes[-1]}", flush=True)
        return tally

    return run


def run_parser(one, folder, num_inputs: int, rng: random.Random) -> experiment.Tally:
    """Feeds a parser with hostile and with drawn inputs.

    Args:
      one: the parser.
      folder: for its files; is made.
      num_inputs: how many.
      rng: draws the seed of hypothesis.
    """
    tally = experiment.Tally()
    folder.mkdir(parents=True)
    with hangs_end():
        # Its imports are no part of an input's time. Some need files beside this one.
        with contextlib.suppress(*_REFUSALS):
            one.read(folder, one.valid)
        for content in list(hostile_json.CONTENTS.values())[: num_inputs // 2]:
            feed(one, folder, content, tally)
        for content in itertools.islice(grown(one.valid), num_inputs // 20):
            feed(one, folder, content, tally)

        while (num_left := num_inputs - tally.num_faults) > 0:

            @hypothesis.seed(rng.randrange(2**32))
            @hypothesis.settings(
                max_examples=-(-num_left // _INPUTS_PER_EXAMPLE),
                database=None,
                deadline=None,
                # What fails is counted, and does not stop the others.
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(_CUTS)
            def feed_drawn(cuts):
                for content in inputs(one.valid, cuts):
                    if tally.num_faults < num_inputs:
                        feed(one, folder, content, tally)

            feed_drawn()
    shutil.rmtree(folder, ignore_errors=True)
    # Of faults of one kind a few say enough.
    tally.failures = tally.failures[:20]
    return tally


EXPERIMENTS = tuple(
    experiment.Experiment(
        f"fuzz-{group}",
        f"{subject}, each parser",
        "bytes replaced, inserted and dropped; content that was made to break parsers, "
        f"also {GROWN_BYTES >> 20} MiB of it",
        f"a value, or one line that names the file; within {MAX_SECONDS:.0f} s of a "
        f"processor and {MAX_BYTES >> 20} MiB",
        _NUM_LONG,
        _NUM_SHORT,
        fuzz(group),
    )
    for group, subject in (
        ("json", "readers of JSON of this project"),
        ("json-data", "readers of JSON of texts, tasks and records"),
        ("json-models", "readers of JSON of models of others"),
        ("requests", "requests of the server"),
        ("texts", "formats of texts, and wikitext"),
        ("tables", "tables of tasks"),
        ("binary", "vocabularies, compressed texts, records, weights, caches"),
        ("commands", "values of --set, locks, JSON by itself"),
    )
)
