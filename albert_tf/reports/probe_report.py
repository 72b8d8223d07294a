"""Report of a grammar probe: accuracies as bars, beside those of others."""

from collections.abc import Mapping
from typing import Any

from albert_tf.core import validation
from albert_tf.probing import probe, suites
from albert_tf.reports import html

_TEMPLATE_FILE = "probe.html"
_METRICS = {
    "pll": "pseudo-log-likelihood, one token masked at a time (Salazar et al., 2020)",
    "within_word": (
        "pseudo-log-likelihood, with the later tokens of the same word masked too "
        "(Kauf and Ivanova, 2023)"
    ),
}
_NOTES = {
    "blimp": (
        "The accuracies of 5-gram, LSTM, Transformer-XL and GPT-2 and of people are "
        "those that BLiMP's authors publish with it. Their language models read from "
        "left to right and compare probabilities of whole sentences; people chose one "
        "of the two sentences."
    ),
    "zorro": (
        "The accuracy of RoBERTa-base follows from the cross-entropies that Zorro's "
        "authors publish. They were computed without masks."
    ),
}
_OWN = "this model"


def write(
    output_dir: str, values: Mapping[str, Any], config_json: str, identity: str = ""
) -> str:
    """Writes index.html, which needs no other file.

    Args:
      output_dir: the directory, local or gs://; made if it does not exist.
      values: from `probe.to_dict`, with the settings `suite`, `metric`, `model`,
        `checkpoint`, `compute_dtype` and `seconds`.
      config_json: the configuration of the model's run.
      identity: name, date and versions of what was probed.

    Returns:
      The path of index.html.

    Raises:
      ValueError: there are no accuracies.
    """
    page = {
        "probe": section(values),
        "identity": identity,
        "paradigms": _paradigm_groups(values),
        "published_names": list(values["published"]),
        "settings": _settings(values),
        "config_json": config_json,
    }
    return html.write(output_dir, _TEMPLATE_FILE, page)


def section(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the macros `probe_verdict` and `probe_bars` of a page show.

    Args:
      values: as for `write`.

    Raises:
      ValueError: there are no accuracies.
    """
    holds = html.has(values, "overall", "phenomena", "paradigms", "published")
    validation.require(holds, "a probe's results must have accuracies", values)
    suite = values["suite"]
    published_note = _NOTES.get(suite, "") if values["published"] else ""
    return {
        "title": suites.TITLES.get(suite, suite),
        "results": values,
        "metric": _METRICS[values["metric"]],
        "own": _OWN,
        "charts": [
            _chart("all paradigms", values["overall"], values, "overall"),
            *(
                _chart(name, one, values, "phenomena")
                for name, one in values["phenomena"].items()
            ),
        ],
        "note": " ".join(filter(None, (published_note, probe.part_note(values)))),
    }


def _chart(
    name: str, own: Mapping[str, Any], values: Mapping[str, Any], part: str
) -> dict[str, Any]:
    """Returns one group of bars: this model's, and those of others."""
    bars: list[dict[str, Any]] = [
        {"name": _OWN, **_shares(own["accuracy"]), "interval": _interval(own)}
    ]
    for other, found in values["published"].items():
        share = found["overall"] if part == "overall" else found[part][name]
        bars.append({"name": other, **_shares(share), "interval": None})
    return {"name": html.label(name), "num_pairs": own["num_pairs"], "bars": bars}


def _shares(share: float) -> dict[str, str]:
    return {"width": f"{share:.2%}", "shown": f"{share:.1%}"}


def _interval(own: Mapping[str, Any]) -> dict[str, str]:
    """Returns where the interval's line begins, and how long it is."""
    return {"left": f"{own['low']:.2%}", "width": f"{own['high'] - own['low']:.2%}"}


def _paradigm_groups(
    values: Mapping[str, Any],
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Returns the rows of the table of paradigms, by phenomenon."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, one in values["paradigms"].items():
        good, bad = one["example"]
        row = {
            "name": html.label(name),
            "good": good,
            "bad": bad,
            "cells": [
                f"{one['accuracy']:.1%}",
                f"{100 * one['low']:.1f}\u00a0to\u00a0{100 * one['high']:.1f}",
                *(
                    f"{found['paradigms'][name]:.1%}"
                    for found in values["published"].values()
                ),
            ],
        }
        groups.setdefault(html.label(one["phenomenon"]), []).append(row)
    return list(groups.items())


def _settings(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns labels and texts of what was probed, and how."""
    shown = [
        ("model", values["model"]),
        ("checkpoint", values["checkpoint"]),
        ("computed in", values["compute_dtype"]),
        ("pairs", f"{values['num_pairs']:,}"),
        ("pairs with equal scores", f"{values['overall']['num_ties']:,}"),
        ("pairs too long for the model", f"{values['num_too_long']:,}"),
        ("different rows of tokens", f"{values['num_rows']:,}"),
        ("time", html.duration(values["seconds"])),
    ]
    return [(name, value) for name, value in shown if value]
