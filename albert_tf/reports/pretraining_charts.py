"""Charts of a pre-training report, from the rows of metrics.jsonl."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data import schema
from albert_tf.probing import settings
from albert_tf.reports import charts

# Prefix of the trust ratios of variables in a row.
TRUST_RATIO = "trust_ratio/"
# With more variables than this, those that differ in the block alone are one line.
_MAX_LINES = 12
# Phenomena of grammar in a picture: more lines cross too often to be followed.
_MAX_PHENOMENA = 4
# The parts of the model, with what the names of their variables hold; the first counts.
_PARTS = {
    "embeddings": "embedding",
    "attention": "attention",
    "feed-forward": "feed_forward",
    "pooler and heads": "",
}
_BAND_NOTE = (
    "Line: median of the variables, whose number is in brackets. Strong band: 10 to "
    "90% of them. Faint band: from the least to the greatest."
)

Rows = Sequence[Mapping[str, Any]]


def pictures(
    rows: Rows, entropy: float | None, boundaries: Sequence[int] = ()
) -> tuple[charts.Picture, ...]:
    """Returns the pictures for which the rows have values.

    Args:
      rows: of metrics.jsonl, by step.
      entropy: of held-out tokens without context, in nats a masked token, if known.
      boundaries: the steps at which a stage ends and another begins.
    """
    found = (
        *_results(rows, entropy),
        _picture(
            "optimization",
            {
                "Learning rate": _from_zero(rows, "learning rate", "learning_rate"),
                "gradient norm before clipping": _from_zero(
                    rows, "gradient norm", "gradient_norm"
                ),
            },
        ),
        *_trust_ratio_pictures(rows),
        _picture(
            "throughput",
            {
                "Training speed, padding not counted": _from_zero(
                    rows, "tokens a second", "tokens_per_second", charts.WHOLE
                )
            },
        ),
        _picture(
            "utilization",
            {
                "Use of the devices": _utilization(rows),
                "time waiting for batches": _from_zero(
                    rows, "share of time", "input_share", charts.SHARE
                ),
            },
        ),
        _picture(
            "masks-and-skips",
            {
                "Masked share of the tokens": _if_above_zero(
                    _from_zero(rows, "masked share", "masked_share", charts.SHARE)
                ),
                "steps skipped so far": _if_above_zero(
                    _from_zero(rows, "skipped steps", "skipped_steps", charts.WHOLE)
                ),
            },
        ),
    )
    return tuple(
        picture._replace(boundaries=tuple(boundaries))
        for picture in found
        if picture.panels
    )


def _picture(name: str, panels: Mapping[str, charts.Panel]) -> charts.Picture:
    """Returns a picture of panels by caption; panels without lines are omitted."""
    shown = {caption: panel for caption, panel in panels.items() if panel.lines}
    caption = "; ".join(shown)
    return charts.Picture(
        name, caption[:1].upper() + caption[1:], tuple(shown.values())
    )


def _results(rows: Rows, entropy: float | None) -> Iterable[charts.Picture]:
    loss = charts.Panel(
        "MLM loss (nats a masked token)",
        _both_splits(rows, "mlm_loss"),
        entropy,
        "" if entropy is None else f"unigram entropy ({entropy:.2f})",
    )
    yield _picture("mlm-loss", {"Masked-token (MLM) loss": loss})
    for pair in ("sentence-order", "next-sentence"):
        metric = pair.replace("-", "_")
        loss = charts.Panel(
            "loss (nats a pair)",
            _both_splits(rows, f"{metric}_loss"),
            math.log(2.0),
            "by chance",
        )
        accuracy = _accuracy("accuracy", rows, f"{metric}_accuracy")
        accuracy = accuracy._replace(level=0.5, level_label="by chance")
        yield _picture(pair, {f"{pair} loss": loss, "accuracy": accuracy})
    accuracy = _accuracy("MLM accuracy", rows, "mlm_accuracy")
    yield _picture("mlm-accuracy", {"Masked tokens predicted correctly": accuracy})
    lines = tuple(
        line._replace(has_markers=True)
        for line in _line(rows, settings.PROBE, "accuracy", "mean over paradigms")
    )
    pairs = charts.Panel("accuracy", lines, 0.5, "by chance", y_format=charts.SHARE)
    yield _picture("grammar-probe", {"Minimal pairs of grammar": pairs})
    yield from _phenomenon_pictures(rows)
    yield _picture(
        "mlm-by-source",
        {
            "MLM loss by source of the records, held-out": charts.Panel(
                "MLM loss", _lines_by_source(rows, "mlm_loss")
            ),
            "accuracy": charts.Panel(
                "MLM accuracy",
                _lines_by_source(rows, "mlm_accuracy"),
                y_format=charts.SHARE,
            ),
        },
    )


def _phenomenon_pictures(rows: Rows) -> Iterable[charts.Picture]:
    """Returns pictures of the accuracies by phenomenon, all with the same axis."""
    prefix = "accuracy/"
    found = (row for row in rows if row["split"] == settings.PROBE)
    names = list(dict.fromkeys(n for row in found for n in row if n.startswith(prefix)))
    lines = [
        line._replace(color=place % _MAX_PHENOMENA, has_markers=True)
        for place, name in enumerate(sorted(names))
        for line in _line(
            rows, settings.PROBE, name, name.removeprefix(prefix).replace("_", " ")
        )
    ]
    for first in range(0, len(lines), _MAX_PHENOMENA):
        shown = tuple(lines[first : first + _MAX_PHENOMENA])
        panel = charts.Panel("accuracy", shown, 0.5, "by chance", (0.0, 1.0))
        number = first // _MAX_PHENOMENA + 1
        yield charts.Picture(
            f"grammar-probe-{number}",
            f"Minimal pairs by phenomenon ({number})",
            (panel._replace(y_format=charts.SHARE),),
        )


def _lines_by_source(rows: Rows, metric: str) -> tuple[charts.Line, ...]:
    """Returns a line for each source of a mixture, such as that of mlm_loss/wiki."""
    heldout = (row for row in rows if row["split"] == schema.HELDOUT)
    prefix = f"{metric}/"
    names = dict.fromkeys(n for row in heldout for n in row if n.startswith(prefix))
    return tuple(
        line._replace(color=place)
        for place, name in enumerate(names)
        for line in _line(rows, schema.HELDOUT, name, name.removeprefix(prefix))
    )


def _accuracy(y_label: str, rows: Rows, metric: str) -> charts.Panel:
    lines = _both_splits(rows, metric)
    return charts.Panel(y_label, lines, y_limits=(0.0, 1.0), y_format=charts.SHARE)


def _utilization(rows: Rows) -> charts.Panel:
    metric = "model_flops_utilization"
    if any(metric in row for row in rows):
        return _from_zero(rows, "MFU (of the peak)", metric, charts.SHARE)
    panel = _from_zero(rows, "TFLOP/s", "model_flops_per_second")
    lines = (
        line._replace(values=[value / 1e12 for value in line.values])
        for line in panel.lines
    )
    return panel._replace(lines=tuple(lines))


def _from_zero(
    rows: Rows, y_label: str, metric: str, y_format: str = charts.PLAIN
) -> charts.Panel:
    """Returns a panel, from 0 on, of a metric of training rows."""
    lines = _line(rows, schema.TRAIN, metric, "")
    return charts.Panel(y_label, lines, y_limits=(0.0, None), y_format=y_format)


def _if_above_zero(panel: charts.Panel) -> charts.Panel:
    is_above = any(value > 0 for line in panel.lines for value in line.values)
    return panel if is_above else panel._replace(lines=())


def _both_splits(rows: Rows, metric: str) -> tuple[charts.Line, ...]:
    return (
        *_line(rows, schema.TRAIN, metric, "training"),
        *_line(rows, schema.HELDOUT, metric, "held-out"),
    )


def _line(rows: Rows, split: str, metric: str, label: str) -> tuple[charts.Line, ...]:
    """Returns the line of a metric of a split; empty if it was not recorded."""
    found = [row for row in rows if row["split"] == split and metric in row]
    steps, values = [row["step"] for row in found], [row[metric] for row in found]
    # Held-out points are few; they keep their colour if they are the only line.
    is_heldout = split == schema.HELDOUT
    line = charts.Line(
        label, steps, values, color=int(is_heldout), has_markers=is_heldout
    )
    return (line,) if found else ()


# ---- Trust ratios ----


def trust_ratios(row: Mapping[str, Any]) -> dict[str, float]:
    """Returns the trust ratios of a row by variable, if they have a logarithm."""
    return {
        name.removeprefix(TRUST_RATIO): value
        for name, value in row.items()
        if name.startswith(TRUST_RATIO) and 0.0 < value < math.inf
    }


def variable_label(name: str) -> str:
    """Formats `encoder/block_3/attention/query/kernel` as `block 3 attention query`."""
    name = name.removeprefix("encoder/").removeprefix("embeddings/")
    return name.removesuffix("/kernel").replace("/", " ").replace("_", " ")


def _trust_ratio_pictures(rows: Rows) -> Iterable[charts.Picture]:
    """Returns a picture for each part of the model, all with the same axis."""
    found = {
        row["step"]: ratios
        for row in rows
        if row["split"] == schema.TRAIN and (ratios := trust_ratios(row))
    }
    if not found:
        return
    limits = _decades([value for ratios in found.values() for value in ratios.values()])
    for part, kinds in _kinds_by_part(found.values()).items():
        lines = tuple(
            _kind_line(part, kind, kinds[kind], found)._replace(color=place)
            for place, kind in enumerate(kinds)
        )
        panel = charts.Panel("trust ratio", lines, y_limits=limits, is_logarithmic=True)
        note = _BAND_NOTE if any(line.bands for line in lines) else ""
        name = f"trust-ratios-{part.replace(' ', '-')}"
        yield charts.Picture(name, f"Trust ratios: {part}", (panel,), note)


def _kinds_by_part(
    found: Iterable[Mapping[str, float]],
) -> dict[str, dict[str, list[str]]]:
    """Returns the variables of each line, by part of the model and by kind."""
    names = dict.fromkeys(name for ratios in found for name in ratios)
    kinds: dict[str, dict[str, list[str]]] = {part: {} for part in _PARTS}
    for name in names:
        part = next(part for part, word in _PARTS.items() if word in name)
        kind = re.sub(r"block_\d+/", "", name) if len(names) > _MAX_LINES else name
        kinds[part].setdefault(kind, []).append(name)
    return {part: kinds[part] for part in kinds if kinds[part]}


def _kind_line(
    part: str, kind: str, names: Sequence[str], found: Mapping[int, dict[str, float]]
) -> charts.Line:
    """Returns the line of one variable, or of the median of several with bands."""
    label = variable_label(kind)
    if _PARTS[part]:  # The caption has it already.
        label = label.replace(f"{variable_label(_PARTS[part])} ", "")
    steps = [step for step in found if found[step].keys() & set(names)]
    quantiles = np.array(
        [
            np.quantile(
                [found[step][name] for name in names if name in found[step]],
                (0.0, 0.1, 0.5, 0.9, 1.0),
            )
            for step in steps
        ]
    ).T.tolist()  # [5, steps]
    least, low, median, high, greatest = quantiles
    if len(names) == 1:
        return charts.Line(label, steps, median)
    bands = ((least, greatest), (low, high))
    return charts.Line(f"{label} ({len(names)})", steps, median, bands=bands)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Returns the powers of ten around the values, at least two decades."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 2)
