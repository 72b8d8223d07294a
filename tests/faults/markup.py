"""Pages of hostile wikitext that are as large as `text.max_markup_work` allows."""

import random
import time
from collections.abc import Callable

from albert_tf.core import config
from data_prep.reading import markup_work
from tests.faults import experiment, fuzz, parsers

_MOST = config.TextConfig().max_markup_work
_TEXT = "word and text " * 8
_PIECES = (
    *("<ref>", "[[", "{{", "[http://a ", "<!--", "{|\n", "'''", "\n== a", "<div>"),
    *("&lt;", "<ref name=a ", "{{{", "|", "[[a|b]]", "{{a|b}}", "<b>x</b>", "\n* "),
    *("<ref>a</ref>", "<a b=", '<a b="', "<a b='", "<br>", "\n|-\n|a\n", "|}", "]]"),
    *("}}", "</ref>", "</div>", ">", "=", "\n", "word and text ", "<nowiki>", "<pre>"),
    *("{{a|", "[[a|", ":;", "''", "&", "<li>", "\n!a\n", "[//a b]", "----\n"),
    *("http://a ", "\n;:", "/>", "{", "}", "b=c ", "</pre", "</prefix>", "<math>"),
)
_MAX_PIECES = 60_000  # of a page: joining more takes longer than parsing them
_NUM_HALVINGS = 12


def draw(rng: random.Random) -> Callable[[float], str]:
    """Draws pieces, their shares and a size; returns the page for a share of it."""
    pieces = rng.sample(_PIECES, rng.choice((1, 2, 2, 3, 4)))
    shares = [rng.random() ** 3 for _ in pieces]
    size, is_mixed = int(10 ** rng.uniform(4.5, 6.7)), rng.random() < 0.5
    seed = rng.random()

    def make(share: float) -> str:
        length = int(size * share)
        if is_mixed:
            count = min(length // 6 + 1, _MAX_PIECES)
            markup = "".join(random.Random(seed).choices(pieces, shares, k=count))
        else:
            counts = (
                max(1, int(length * one / len(piece) / len(pieces)))
                for piece, one in zip(pieces, shares, strict=True)
            )
            markup = "".join(
                piece * count for piece, count in zip(pieces, counts, strict=True)
            )
        return markup + _TEXT * max(0, (size - len(markup)) // len(_TEXT))

    return make


def largest(make: Callable[[float], str]) -> str:
    """The page with the largest share that is not refused, to a part in 4,096."""
    if not markup_work.exceeds(make(1.0), _MOST):
        return make(1.0)
    low, high = 0.0, 1.0
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        if markup_work.exceeds(make(middle), _MOST):
            high = middle
        else:
            low = middle
    return make(low)


def run(bench, num_faults: int, rng: random.Random) -> experiment.Tally:
    """Parses so many pages; notes the longest time."""
    tally, slowest = experiment.Tally(), 0.0
    folder, parser = bench.new_path("markup"), parsers.wikitext()
    with fuzz.hangs_end():
        for _ in range(num_faults):
            content = largest(draw(rng)).encode()
            started = time.perf_counter()
            fuzz.feed(parser, folder, content, tally)
            slowest = max(slowest, time.perf_counter() - started)
    tally.notes.append(f"pages of markup: the slowest took {slowest:.1f} s")
    return tally


EXPERIMENTS = (
    experiment.Experiment(
        "markup-within-bound",
        "pages of a MediaWiki dump",
        "hostile markup, as much as text.max_markup_work lets through",
        "plain text, or dropped with a line, after at most "
        f"{config.TextConfig().max_markup_seconds} s of a processor",
        150,
        2,
        run,
    ),
)
