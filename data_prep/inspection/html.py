"""The HTML page of `inspect_records`: self-contained, with embedded pictures."""

import base64
import functools
import importlib.resources
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jinja2
import numpy as np
from matplotlib import axes as axes_lib
from matplotlib import figure as figure_lib
from matplotlib import ticker
from matplotlib.backends import backend_agg

from data_prep.inspection import sample
from data_prep.inspection import tables as tables_lib

_TEMPLATE_FILE = "page.html"
# A column of the page is about as wide as a phone: 10 points are legible on both.
_INCHES, _DPI = (5.2, 3.3), 160
_PIXELS = tuple(round(side * _DPI) for side in _INCHES)
_MAX_BARS = 64


class _Theme(NamedTuple):
    """Colors of a picture; `bars` are those of the expected shares and two counts."""

    paper: str
    ink: str
    grid: str
    bars: tuple[str, str, str]


_LIGHT = _Theme("#ffffff", "#24292f", "#d8dee4", ("#8c959f", "#1f6feb", "#bc4c00"))
_DARK = _Theme("#161b22", "#d7dde3", "#30363d", ("#7d8590", "#6cb0ff", "#f0a35e"))


class ShownExample(NamedTuple):
    """A record on the page: its heading and its segments."""

    heading: str
    segments: Sequence[Sequence[sample.Part]]


class _Picture(NamedTuple):
    """One picture in both color schemes, as data URIs."""

    caption: str
    light: str
    dark: str


_Draw = Callable[[axes_lib.Axes, _Theme], None]


class _Bars(NamedTuple):
    """Groups of bars, with a bar in each group per (label, shares) of `series`."""

    names: Sequence[str]
    series: Sequence[tuple[str, np.ndarray]]
    x_label: str = ""


def make_page(
    data_dir: str,
    counts: tables_lib.Counts,
    tables: Sequence[tables_lib.Table],
    examples: Sequence[ShownExample],
) -> str:
    """Returns the HTML.

    Args:
      data_dir: the directory, for the heading.
      counts: for the pictures.
      tables: in the order of the page.
      examples: the records to show.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    template = importlib.resources.files(__package__).joinpath(_TEMPLATE_FILE)
    return environment.from_string(template.read_text("utf-8")).render(
        data_dir=data_dir,
        split=counts.split,
        is_dynamic=counts.is_dynamic,
        pictures=_pictures(counts),
        pixels=_PIXELS,
        tables=tables,
        examples=examples,
    )


def _pictures(counts: tables_lib.Counts) -> list[_Picture]:
    expected = counts.ngram_probabilities
    groups = {
        "Words of one masked span": _Bars(
            [str(n + 1) for n in range(len(expected))],
            (
                ("expected", expected),
                ("drawn", _shares(counts.drawn)),
                ("placed", _shares(counts.placed)),
            ),
            "words",
        ),
        "What replaced masked tokens": _Bars(
            tables_lib.KIND_WORDS,
            (
                ("expected", counts.replacement_rates),
                ("drawn", _shares(counts.kinds)),
                ("observed", _shares(counts.sample.kinds)),
            ),
        ),
    }
    if counts.label_words:
        groups["Labels"] = _Bars(
            counts.label_words,
            (("expected", np.full(2, 0.5)), ("pairs", _shares(counts.labels[:2]))),
        )
    draws: dict[str, _Draw] = {
        caption: functools.partial(_draw_groups, bars)
        for caption, bars in groups.items()
    }
    draws["Lengths of the records"] = functools.partial(
        _draw_lengths, counts.sample.lengths
    )
    return [
        _Picture(caption, _data_uri(draw, _LIGHT), _data_uri(draw, _DARK))
        for caption, draw in draws.items()
    ]


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / max(1, counts.sum())


def _data_uri(draw: _Draw, theme: _Theme) -> str:
    """Returns a picture as a data URI."""
    figure = figure_lib.Figure(
        figsize=_INCHES, dpi=_DPI, facecolor=theme.paper, layout="constrained"
    )
    canvas = backend_agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot(facecolor=theme.paper)
    draw(axes, theme)
    axes.tick_params(colors=theme.ink, length=0)
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.grid)
    content = io.BytesIO()
    canvas.print_png(content)
    encoded = base64.b64encode(content.getvalue()).decode()
    return f"data:image/png;base64,{encoded}"


def _draw_groups(bars: _Bars, axes: axes_lib.Axes, theme: _Theme) -> None:
    places = np.arange(len(bars.names))
    width = 0.8 / len(bars.series)
    # Numbers above many bars would overlap.
    has_numbers = len(bars.names) <= 3
    for number, (label, shares) in enumerate(bars.series):
        offset = (number - (len(bars.series) - 1) / 2) * width
        container = axes.bar(
            places + offset, shares, 0.92 * width, color=theme.bars[number], label=label
        )
        if has_numbers:
            axes.bar_label(container, fmt="{:.1%}", color=theme.ink, fontsize=7.5)
    axes.set_xticks(places, bars.names)
    axes.set_xlabel(bars.x_label)
    axes.margins(y=0.22)
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, 0))
    axes.legend(
        frameon=False, labelcolor=theme.ink, ncols=len(bars.series), loc="upper right"
    )


def _draw_lengths(lengths: np.ndarray, axes: axes_lib.Axes, theme: _Theme) -> None:
    width = -(-len(lengths) // _MAX_BARS)
    edges = np.arange(0, len(lengths) + width, width)
    padded = np.pad(lengths, (0, len(edges) * width - width - len(lengths)))
    axes.bar(
        edges[:-1],
        _shares(padded.reshape(-1, width).sum(1)),
        width,
        align="edge",
        color=theme.bars[1],
        edgecolor=theme.paper,
        linewidth=0.4,
    )
    axes.set_xlim(0, edges[-1])
    axes.set_xlabel("tokens, without padding")
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, None))
