"""Drawing of charts: lines over steps, matrices, points, bars and histograms."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import axes as axes_lib
from matplotlib import colors as colors_lib
from matplotlib import figure as figure_lib
from matplotlib import ticker
from matplotlib.backends import backend_agg

# A page column is about as wide as a phone: 10 points stay legible on both.
_INCHES, _DPI = (5.2, 3.5), 200
PIXELS = tuple(round(side * _DPI) for side in _INCHES)
# In a matrix: the longest name shown, the total length of names above which they are
# drawn upright, and the number of labels above which counts are not shown.
_MAX_NAME = 14
_MAX_CHARACTERS_ACROSS = 30
_MAX_COUNTS_SHOWN = 12
# Characters that a line of a legend has room for.
_MAX_LEGEND = 48
_DASHES = ("-", "--", "-.", ":")

# Formats of the numbers along an axis.
PLAIN = "{x:g}"
WHOLE = "{x:,.0f}"
SHARE = "%"
# The horizontal axis that the panels of a picture share.
STEP = "step"


class Theme(NamedTuple):
    """Colours of a picture."""

    paper: str
    ink: str
    grid: str
    lines: tuple[str, ...]


THEMES = (
    Theme(
        "#ffffff",
        "#24292f",
        "#d8dee4",
        ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#6e7781"),
    ),
    Theme(
        "#161b22",
        "#d7dde3",
        "#30363d",
        ("#6cb0ff", "#f0a35e", "#56c271", "#c297ff", "#ff8fc7", "#a9b3bd"),
    ),
)


class Line(NamedTuple):
    """Values over steps, or over what the panel's `x_label` says.

    `color` is an index of the theme's colours; from their number on they repeat, with
    other dashes. `bands` are (low, high) around the values, the widest first.
    """

    label: str
    steps: Sequence[float]
    values: list[float]
    color: int = 0
    has_markers: bool = False
    bands: tuple[tuple[list[float], list[float]], ...] = ()


class Panel(NamedTuple):
    """Axes over steps: lines, and a level to compare them with.

    `y_format` is PLAIN, WHOLE (integers only) or SHARE (in percent). If
    `y_limits` begin at 0 and have no end, they end above the largest value. The lines
    of a logarithmic panel also differ in their dashes. `marked_step` gets a vertical
    line. With another `x_label` than `STEP` the axis ends where the lines do.
    """

    y_label: str
    lines: tuple[Line, ...]
    level: float | None = None
    level_label: str = ""
    y_limits: tuple[float | None, float | None] = (None, None)
    y_format: str = PLAIN
    is_logarithmic: bool = False
    marked_step: int | None = None
    marked_label: str = ""
    x_label: str = STEP


class Matrix(NamedTuple):
    """Counts of examples by label (row) and prediction (column).

    `counts` is [labels, labels]. Colours are shares of a row.
    """

    labels: tuple[str, ...]
    counts: Sequence[Sequence[int]]


class Points(NamedTuple):
    """Points, and the diagonal x = y."""

    x_label: str
    y_label: str
    x: Sequence[float]
    y: Sequence[float]


class Bars(NamedTuple):
    """Bars for each name, one per group; `y_format` as in `Panel`."""

    x_label: str
    y_label: str
    names: tuple[str, ...]
    groups: Mapping[str, Sequence[float]]
    y_format: str = PLAIN


class Histogram(NamedTuple):
    """Counts of several groups, with one more edge than counts."""

    x_label: str
    y_label: str
    edges: Sequence[float]
    groups: Mapping[str, Sequence[int]]
    mark: float | None = None
    mark_label: str = ""


Axes = Panel | Matrix | Points | Bars | Histogram


class Picture(NamedTuple):
    """One picture; `name` is unique on its page.

    Over steps, each of `boundaries` gets a thin vertical line: a stage ends there.
    """

    name: str
    caption: str
    panels: tuple[Axes, ...]
    note: str = ""
    boundaries: tuple[int, ...] = ()

    @property
    def is_over_steps(self) -> bool:
        """Returns whether the horizontal axis is that of steps."""
        return all(
            isinstance(panel, Panel) and panel.x_label == STEP for panel in self.panels
        )


def draw(picture: Picture, last_step: int, theme: Theme) -> bytes:
    """Draws a PNG of `PIXELS`; axes over steps go from 0 to `last_step`."""
    figure = figure_lib.Figure(
        figsize=_INCHES, dpi=_DPI, facecolor=theme.paper, layout="constrained"
    )
    canvas = backend_agg.FigureCanvasAgg(figure)
    named: dict[str, Any] = {}
    for place, panel in enumerate(picture.panels, 1):
        axes = figure.add_subplot(len(picture.panels), 1, place, facecolor=theme.paper)
        _set_colors(axes, theme)
        match panel:
            case Panel():
                _draw_lines(axes, panel, theme)
                _draw_boundaries(axes, picture.boundaries, theme)
                _set_axes(axes, panel, last_step)
                is_labelled = not picture.is_over_steps or place == len(picture.panels)
                axes.tick_params(labelbottom=is_labelled)
                axes.set_xlabel(panel.x_label if is_labelled else "")
            case Matrix():
                _draw_matrix(axes, panel, theme)
            case Points():
                _draw_points(axes, panel, theme)
            case Bars():
                _draw_bars(axes, panel, theme)
            case Histogram():
                _draw_histogram(axes, panel, theme)
        handles, labels = axes.get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True)) | named
    if named:
        # Outside the axes, so that it hides no line.
        figure.legend(
            named.values(),
            named.keys(),
            loc="outside lower center",
            ncols=_num_columns(named),
            columnspacing=1.2,
            handletextpad=0.5,
            frameon=False,
            labelcolor=theme.ink,
        )
    figure.align_ylabels()
    content = io.BytesIO()
    canvas.print_png(content)
    return content.getvalue()


def _legend(name: str) -> str:
    """Returns a name as a legend shows it: "_" would hide it, "$" begin a formula."""
    escaped = name.replace("$", r"\$")
    return f" {escaped}" if name.startswith("_") else escaped


def _num_columns(names: Iterable[str]) -> int:
    """Returns the number of columns of a legend that fit into the width."""
    lengths = [len(name) for name in names]
    if len(lengths) == 3 and sum(lengths) <= _MAX_LEGEND:
        return 3
    return 2 if 2 * max(lengths) <= _MAX_LEGEND else 1


def _draw_lines(axes: axes_lib.Axes, panel: Panel, theme: Theme) -> None:
    for line in panel.lines:
        color = theme.lines[line.color % len(theme.lines)]
        repeats = line.color if panel.is_logarithmic else line.color // len(theme.lines)
        dashes = _DASHES[repeats % len(_DASHES)]
        # A line through one point is invisible.
        marker = "o" if line.has_markers or len(line.steps) == 1 else ""
        axes.plot(
            line.steps,
            line.values,
            color=color,
            ls=dashes,
            lw=1.6,
            marker=marker,
            ms=4,
            label=_legend(line.label),
        )
        for low, high in line.bands:
            axes.fill_between(line.steps, low, high, color=color, alpha=0.15, lw=0)
    if panel.level is not None:
        axes.axhline(
            panel.level, color=theme.ink, ls="--", lw=1.0, label=panel.level_label
        )
    if panel.marked_step is not None:
        axes.axvline(
            panel.marked_step, color=theme.ink, ls=":", lw=1.2, label=panel.marked_label
        )


def _draw_boundaries(
    axes: axes_lib.Axes, boundaries: Iterable[int], theme: Theme
) -> None:
    for place, step in enumerate(boundaries):
        # An underscore hides a label: one line stands for all in the legend.
        label = "_boundary" if place else "end of a stage"
        axes.axvline(step, color=theme.ink, ls="-.", lw=0.8, label=label)


def _set_axes(axes: axes_lib.Axes, panel: Panel, last_step: float) -> None:
    if panel.x_label != STEP:
        last_step = max((max(line.steps) for line in panel.lines), default=0)
    last = max(last_step, 1)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    if panel.is_logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    low, high = panel.y_limits
    if low == 0.0 and high is None and 0.0 < axes.dataLim.y1 < math.inf:
        high = 1.05 * axes.dataLim.y1
    axes.set_ylim(low, high)
    axes.set_ylabel(panel.y_label)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter(WHOLE))
    if panel.y_format == WHOLE:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(_formatter(panel.y_format))


def _formatter(y_format: str) -> ticker.Formatter:
    if y_format == SHARE:
        return ticker.FuncFormatter(lambda share, _: f"{100.0 * share:g}%")
    return ticker.StrMethodFormatter(y_format)


def _set_colors(axes: axes_lib.Axes, theme: Theme) -> None:
    axes.tick_params(which="both", colors=theme.ink, length=0)
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.grid)


def _draw_matrix(axes: axes_lib.Axes, panel: Matrix, theme: Theme) -> None:
    counts = np.array(panel.counts)  # [labels, labels]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    colors = colors_lib.LinearSegmentedColormap.from_list(
        "shares", [theme.paper, theme.lines[0]]
    )
    cells = axes.imshow(shares, cmap=colors, vmin=0.0, vmax=1.0).to_rgba(shares)
    axes.grid(False)
    # Labels come from the user: a dollar sign must not begin a formula.
    names = [_shortened(name) for name in panel.labels]
    places = range(len(names))
    is_long = sum(map(len, names)) > _MAX_CHARACTERS_ACROSS
    size = 10 if len(names) <= _MAX_COUNTS_SHOWN else 7
    axes.set_yticks(places, names, parse_math=False, size=size)
    axes.set_xticks(
        places, names, rotation=90 if is_long else 0, parse_math=False, size=size
    )
    axes.set_ylabel("label")
    axes.set_xlabel("answer")
    if len(names) > _MAX_COUNTS_SHOWN:
        return
    size = 10 if len(names) <= _MAX_COUNTS_SHOWN // 2 else 7
    for row in places:
        for column in places:
            color = legible_on(cells[row, column])
            text = f"{counts[row, column]:,}"
            axes.text(
                column, row, text, ha="center", va="center", color=color, size=size
            )


def legible_on(color: Sequence[float]) -> str:
    """Returns black or white, whichever has the higher contrast to a colour.

    It is 4.5 at least, as the Web Content Accessibility Guidelines ask of text.

    Args:
      color: red, green and blue from 0 to 1; what follows is not read.
    """
    luminance = relative_luminance(color)
    is_dark = 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05
    return "#ffffff" if is_dark else "#000000"


def relative_luminance(color: Sequence[float]) -> float:
    """Returns the relative luminance of a colour in sRGB, as the guidelines define it.

    Args:
      color: as for `legible_on`.
    """
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in color[:3]
    ]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _draw_points(axes: axes_lib.Axes, panel: Points, theme: Theme) -> None:
    alpha = 0.6 if len(panel.x) <= 500 else 0.25
    axes.scatter(panel.x, panel.y, s=12, color=theme.lines[0], alpha=alpha, lw=0)
    finite = [value for value in (*panel.x, *panel.y) if math.isfinite(value)]
    if finite:
        ends = [min(finite), max(finite)]
        axes.plot(ends, ends, color=theme.ink, ls="--", lw=1.0, label="equal")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _draw_bars(axes: axes_lib.Axes, panel: Bars, theme: Theme) -> None:
    width = 0.8 / len(panel.groups)
    places = np.arange(len(panel.names))
    for number, (name, values) in enumerate(panel.groups.items()):
        shift = (number - (len(panel.groups) - 1) / 2) * width
        color = theme.lines[number % len(theme.lines)]
        axes.bar(places + shift, values, width, color=color, label=name)
    axes.set_xticks(places, panel.names, parse_math=False)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(False, axis="x")
    if panel.y_format == SHARE:
        axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(_formatter(panel.y_format))


def _draw_histogram(axes: axes_lib.Axes, panel: Histogram, theme: Theme) -> None:
    for number, (name, counts) in enumerate(panel.groups.items()):
        color = theme.lines[number % len(theme.lines)]
        axes.stairs(counts, panel.edges, fill=True, color=color, alpha=0.35)
        axes.stairs(counts, panel.edges, color=color, lw=1.6, label=name)
    if panel.mark is not None:
        axes.axvline(
            panel.mark, color=theme.ink, ls="--", lw=1.0, label=panel.mark_label
        )
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter(WHOLE))
