"""Rendering of report pages: templates, pictures, and formats of values."""

import base64
import importlib.resources
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jinja2

from albert_tf.core import files, plurals, provenance, validation
from albert_tf.reports import charts

PAGE_FILE = "index.html"


def write(
    output_dir: str, template: str, values: Mapping[str, Any], last_step: int = 0
) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      template: name of a template of this package.
      values: of the template. Its `page.figures` takes pictures, which are drawn once
        in each theme and embedded.
      last_step: the end of the axes over steps.

    Returns:
      The path of index.html.
    """
    page = _environment(last_step).get_template(template).render(values)
    files.make_folder(output_dir)
    path = os.path.join(output_dir, PAGE_FILE)
    files.write_bytes(path, page.encode())
    return path


def _environment(last_step: int) -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_template),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    light, dark = charts.THEMES
    environment.filters.update(
        count=plurals.count,
        duration=duration,
        label=label,
        split_flags=split_flags,
        light=lambda picture: _embedded(charts.draw(picture, last_step, light)),
        dark=lambda picture: _embedded(charts.draw(picture, last_step, dark)),
    )
    environment.globals["pixels"] = charts.PIXELS
    return environment


def _embedded(png: bytes) -> str:
    """Returns a picture as a data: URL."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _template(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text("utf-8")


def describe_run(model_dir: str) -> str:
    """Returns name, dates and versions of a run, as far as it has recorded them.

    Raises:
      ValueError: its record is damaged; names it.
    """
    name, starts = provenance.name_of(model_dir), provenance.read_starts(model_dir)
    if not starts:
        return f"Run directory {name}; its date and versions were not recorded."
    text = f"Run directory {name}, begun {starts[0].date}"
    if resumed := starts[1:]:
        times = "once" if len(resumed) == 1 else f"{len(resumed):,} times"
        text += f", resumed {times}, last {resumed[-1].date}"
    lines = list(dict.fromkeys(start.versions_line for start in starts))
    return f"{text}; {'; then '.join(lines)}."


def has(value: Any, *names: str) -> bool:
    """Returns whether a value is an object with these names."""
    return isinstance(value, Mapping) and set(names) <= set(value)


def is_number(value: Any) -> bool:
    """Returns whether a value is an int or a float."""
    return isinstance(value, int | float)


def check_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises a ValueError if a row is not one of metrics.jsonl."""
    for row in rows:
        validation.require(
            has(row, "split", "step"), "metrics have split and step", row
        )
        holds = all(is_number(row[name]) for name in row if name != "split")
        validation.require(holds, "all metrics but split must be numbers", row)


# ---- Formats of values ----


def figure(value: float) -> str:
    """Formats a number with four digits, or as an integer from 1000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def split_flags(text: str) -> list[str]:
    """Splits a text at flags such as "--set a.b=1": every second part is a flag."""
    return re.split(r"(--\w+(?: [\w.]+)?=\S*\w)", text)


def duration(seconds: float) -> str:
    """Formats a time, such as "1.5 s", "3 min 05 s" and "2 h 04 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def label(key: str) -> str:
    """Formats a key as words."""
    words = key.removeprefix("num_").replace("_", " ")
    return words.replace("heldout", "held-out")


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields labels and texts; an object of integers is one row, with their shares."""
    for key, value in values.items():
        name = prefix + label(key)
        if not isinstance(value, Mapping):
            yield name, _text(key, value)
        elif all(type(number) is int for number in value.values()):
            total = sum(value.values())
            parts = [
                f"{label(part)}:\u00a0{number:,}"
                + (f"\u00a0({number / total:.1%})" if total and number != total else "")
                for part, number in value.items()
            ]
            yield name, "; ".join(parts) or "none"
        else:
            yield from flatten(value, f"{name}: ")


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool) or not is_number(value):
        return "–" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2%}" if key.endswith("_rate") else f"{value:,.4g}"
