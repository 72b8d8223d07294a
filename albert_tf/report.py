"""Writes the one-page HTML report of a pre-training run.

python -m albert_tf.report MODEL_DIR [--output_dir=MODEL_DIR/report]

The folder holds index.html and the pictures of the curves, each in light and in dark
colours; it needs nothing outside itself and may be moved.
"""

import importlib.resources
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import tensorflow as tf
from absl import flags
from matplotlib import axes as axes_lib
from matplotlib import figure as figure_lib
from matplotlib import ticker
from matplotlib.backends import backend_agg

from albert_tf import binary, run_log, schema
from albert_tf import config as config_lib

PAGE_FILE = "index.html"
SUMMARY_FILE = "summary.json"
_CONFIG_FILE = "config.json"
_TEMPLATE_FILE = "report.html"

# Parts of a summary that have a place of their own; all else goes among the counts.
_NUMBERS = ("heldout_unigram_entropy", "total_seconds")
_OBJECTS = ("before", "after", "seconds")
_PLACED = (*_NUMBERS, *_OBJECTS, "filled_masks", "data_statistics")

Rows = Sequence[Mapping[str, Any]]


class _Theme(NamedTuple):
    """Colours of a picture; `suffix` ends its file's name."""

    suffix: str
    paper: str
    ink: str
    grid: str
    lines: tuple[str, str]


_THEMES = (
    _Theme("", "#ffffff", "#24292f", "#d8dee4", ("#1f6feb", "#bc4c00")),
    _Theme("-dark", "#161b22", "#d7dde3", "#30363d", ("#6cb0ff", "#f0a35e")),
)
# A page column is about as wide as a phone: 10 points stay legible on both.
_INCHES, _DPI = (5.2, 3.5), 200
_PIXELS = tuple(round(side * _DPI) for side in _INCHES)


class _Panel(NamedTuple):
    """Axes over steps: lines as (split, metric, label), and a level to compare with."""

    y_label: str
    lines: tuple[tuple[str, str, str], ...]
    level: float | None = None
    level_label: str = ""
    y_limits: tuple[float | None, float | None] = (None, None)
    y_format: str = "{x:g}"


class _Curve(NamedTuple):
    """One picture; `name` is that of its file without suffix and .png."""

    name: str
    caption: str
    panels: tuple[_Panel, ...]


def write(
    output_dir: str,
    summary: Mapping[str, Any],
    rows: Rows,
    config: config_lib.Config,
) -> str:
    """Writes index.html and its pictures into a folder, which is made if need be.

    Args:
      output_dir: the folder, local or gs://.
      summary: figures by name, of which any may be absent: counts such as `documents`
        and `parameters`; `seconds` of each stage and `total_seconds`;
        `heldout_unigram_entropy` in nats a masked token; `before` and `after`, metrics
        on held-out documents (where absent, they are taken from `rows`);
        `filled_masks`, each with `text` and `answers` of `token` and `probability`;
        `data_statistics`.
      rows: the rows of metrics.jsonl.
      config: the recipe of the run.

    Returns:
      The path of index.html.

    Raises:
      ValueError: a row or a part of the summary has another form than this.
    """
    summary = _check(summary, rows)
    rows = sorted(rows, key=lambda row: row["step"])
    tf.io.gfile.makedirs(output_dir)
    curves = _curves(summary.get("heldout_unigram_entropy"))
    curves = tuple(curve for curve in curves if _has_points(curve, rows))
    for curve in curves:
        for theme in _THEMES:
            path = os.path.join(output_dir, f"{curve.name}{theme.suffix}.png")
            _write_file(path, _picture(curve, rows, theme))
    # The page comes last, so that it never names a picture that is not there.
    path = os.path.join(output_dir, PAGE_FILE)
    _write_file(path, _page(summary, rows, config, curves).encode())
    return path


def _check(summary: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """The summary without what is None."""
    _require(_has(summary), "a summary must be an object", summary)
    summary = {name: value for name, value in summary.items() if value is not None}
    for name in _NUMBERS:
        value = summary.get(name, 0)
        _require(_is_number(value), f"{name} must be a number", value)
    for name in _OBJECTS:
        value = summary.get(name, {})
        holds = _has(value) and all(map(_is_number, value.values()))
        _require(holds, f"{name} must hold numbers by name", value)
    statistics = summary.get("data_statistics", {})
    _require(_has(statistics), "data_statistics must be an object", statistics)
    masks = summary.get("filled_masks", [])
    _require(isinstance(masks, list | tuple), "filled_masks must be a list", masks)
    for mask in masks:
        _require(_has(mask, "text", "answers"), "a mask has text and answers", mask)
        for answer in mask["answers"]:
            holds = _has(answer, "token", "probability")
            _require(holds, "an answer has token and probability", answer)
    for row in rows:
        _require(_has(row, "split", "step"), "metrics have split and step", row)
    return summary


def _require(condition: bool, rule: str, received: Any) -> None:
    if not condition:
        raise ValueError(f"{rule}; received {received!r}")


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, Mapping) and set(names) <= set(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _write_file(path: str, content: bytes) -> None:
    temporary = path + ".tmp"
    with tf.io.gfile.GFile(temporary, "wb") as file:
        file.write(content)
    tf.io.gfile.rename(temporary, path, overwrite=True)


# ---- Pictures ----


def _curves(entropy: float | None) -> tuple[_Curve, ...]:
    train, heldout = schema.TRAIN, schema.HELDOUT
    loss = _Panel(
        "MLM loss (nats a masked token)",
        ((train, "mlm_loss", "training"), (heldout, "mlm_loss", "held-out")),
        entropy,
        "" if entropy is None else f"unigram entropy ({entropy:.2f})",
    )
    accuracy = _Panel(
        "held-out accuracy",
        (
            (heldout, "mlm_accuracy", "masked tokens"),
            (heldout, "sentence_order_accuracy", "sentence order"),
            (heldout, "next_sentence_accuracy", "next sentence"),
        ),
        0.5,
        "a pair by chance",
        (0.0, 1.0),
        "{x:.0%}",
    )
    rate, norm, speed = (
        _Panel(label, ((train, metric, ""),), y_limits=(0.0, None), y_format=y_format)
        for label, metric, y_format in (
            ("learning rate", "learning_rate", "{x:g}"),
            ("gradient norm", "gradient_norm", "{x:g}"),
            ("tokens a second", "tokens_per_second", "{x:,.0f}"),
        )
    )
    return (
        _Curve("mlm-loss", "Masked-token (MLM) loss", (loss,)),
        _Curve("heldout-accuracy", "Accuracy on held-out documents", (accuracy,)),
        _Curve(
            "optimization", "Learning rate; gradient norm before clipping", (rate, norm)
        ),
        _Curve("throughput", "Training speed, padding not counted", (speed,)),
    )


def _points(rows: Rows, split: str, metric: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric of a split; both empty if it was not recorded."""
    found = [row for row in rows if row["split"] == split and metric in row]
    return [row["step"] for row in found], [row[metric] for row in found]


def _has_points(curve: _Curve, rows: Rows) -> bool:
    return any(
        _points(rows, split, metric)[0]
        for panel in curve.panels
        for split, metric, _ in panel.lines
    )


def _picture(curve: _Curve, rows: Rows, theme: _Theme) -> bytes:
    """The curve as a PNG."""
    figure = figure_lib.Figure(
        figsize=_INCHES, dpi=_DPI, facecolor=theme.paper, layout="constrained"
    )
    canvas = backend_agg.FigureCanvasAgg(figure)
    for place, panel in enumerate(curve.panels, 1):
        axes = figure.add_subplot(len(curve.panels), 1, place, facecolor=theme.paper)
        _draw(axes, panel, rows, theme)
        is_lowest = place == len(curve.panels)
        axes.tick_params(labelbottom=is_lowest)
        axes.set_xlabel("step" if is_lowest else "", color=theme.ink)
    figure.align_ylabels()
    content = io.BytesIO()
    canvas.print_png(content)
    return content.getvalue()


def _draw(axes: axes_lib.Axes, panel: _Panel, rows: Rows, theme: _Theme) -> None:
    for (split, metric, label), color in zip(panel.lines, theme.lines, strict=False):
        steps, values = _points(rows, split, metric)
        # Held-out points are few, and a line through one point is invisible.
        marker = "o" if split == schema.HELDOUT or len(steps) == 1 else ""
        if steps:
            axes.plot(
                steps, values, color=color, lw=1.6, marker=marker, ms=4, label=label
            )
    if panel.level is not None:
        axes.axhline(
            panel.level, color=theme.ink, ls="--", lw=1.0, label=panel.level_label
        )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, labelcolor=theme.ink)
    last = max(rows[-1]["step"], 1)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.set_ylim(*panel.y_limits)
    axes.set_ylabel(panel.y_label, color=theme.ink)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter(panel.y_format))
    axes.tick_params(colors=theme.ink, length=0)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.grid)


# ---- Page ----


def _page(
    summary: Mapping[str, Any],
    rows: Rows,
    config: config_lib.Config,
    curves: Sequence[_Curve],
) -> str:
    """The HTML."""
    heldout = [row for row in rows if row["split"] == schema.HELDOUT]
    before = next((row for row in heldout if row["step"] == 0), {})
    after = next((row for row in reversed(heldout) if row["step"] > 0), {})
    counts = {key: value for key, value in summary.items() if key not in _PLACED}
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters.update(count=_count, duration=_duration, label=_label)
    template = importlib.resources.files(__package__).joinpath(_TEMPLATE_FILE)
    return environment.from_string(template.read_text("utf-8")).render(
        summary=summary,
        config=config,
        config_json=config_lib.to_json(config),
        steps=summary.get("steps", rows[-1]["step"] if rows else 0),
        before=summary.get("before") or before,
        after=summary.get("after") or after,
        entropy=summary.get("heldout_unigram_entropy"),
        curves=curves,
        pixels=_PIXELS,
        counts=list(_flatten(counts)),
        statistics=list(_flatten(summary.get("data_statistics", {}))),
    )


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Labels and texts; an object of whole numbers is one row, with their shares."""
    for key, value in values.items():
        label = prefix + _label(key)
        if not isinstance(value, Mapping):
            yield label, _text(key, value)
        elif all(type(number) is int for number in value.values()):
            total = sum(value.values())
            parts = [
                f"{_label(name)}:\u00a0{number:,}"
                + (f"\u00a0({number / total:.1%})" if total and number != total else "")
                for name, number in value.items()
            ]
            yield label, "; ".join(parts) or "none"
        else:
            yield from _flatten(value, f"{label}: ")


def _label(key: str) -> str:
    words = key.removeprefix("num_").replace("_", " ")
    return words.replace("heldout", "held-out")


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool) or not _is_number(value):
        return "–" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2%}" if key.endswith("_rate") else f"{value:,.4g}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


# ---- Command ----


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder to write, local or gs://. Default: MODEL_DIR/report.",
        flag_values=flag_values,
    )


def _read_run(model_dir: str) -> tuple[dict[str, Any], list[dict], config_lib.Config]:
    """Summary (empty if there is none), metrics and configuration."""
    config_path = os.path.join(model_dir, _CONFIG_FILE)
    summary_path = os.path.join(model_dir, SUMMARY_FILE)
    metrics_path = os.path.join(model_dir, run_log.METRICS_FILE)
    if not tf.io.gfile.exists(config_path):
        raise ValueError(
            f"MODEL_DIR must be the folder of a run; {model_dir} has no {_CONFIG_FILE}"
        )
    config = _read(config_path, config_lib.from_json)
    rows = _read(metrics_path, lambda _: run_log.read_metrics(model_dir))
    has_summary = tf.io.gfile.exists(summary_path)
    return _read(summary_path, json.loads) if has_summary else {}, rows, config


def _read(path: str, parse):
    try:
        with tf.io.gfile.GFile(path) as file:
            return parse(file.read())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads a run's folder and writes its report."""
    with binary.user_errors():
        if len(argv) != 2:
            raise ValueError(
                f"one argument is needed, MODEL_DIR; received {len(argv) - 1}"
            )
        output_dir = flag_values.output_dir or os.path.join(argv[1], "report")
        path = write(output_dir, *_read_run(argv[1]))
    print(path)


if __name__ == "__main__":
    binary.run(main, define_flags)
