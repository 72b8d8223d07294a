"""Probes a model with minimal pairs, and writes what it found.

Source: Warstadt et al., "BLiMP" (arXiv 1912.00582), with the scores of Salazar et al.,
"Masked Language Model Scoring" (arXiv 1910.14659).
"""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.core import files, plurals, text_table
from albert_tf.probing import accuracy, published, scoring, settings, suites

RESULTS_FILE = "results.json"
PAIRS_FILE = "pairs.tsv"
_COLUMNS = (
    "paradigm",
    "phenomenon",
    "score_good",
    "score_bad",
    "sentence_good",
    "sentence_bad",
)


class Probed(NamedTuple):
    """Scores and accuracies of a model on a suite.

    Attributes:
      pairs: the pairs of the suite.
      good_scores: float64 [pairs], of the grammatical sentences, in nats; NaN where a
        sentence of the pair is longer than the model's sequence.
      bad_scores: float64 [pairs], of the ungrammatical ones.
      accuracies: of the pairs that have scores.
      num_too_long: the number of pairs that have none.
      max_tokens: the most tokens of a sentence, without [CLS] and [SEP].
      scores: those of all sentences, and what was computed for them.
    """

    pairs: Sequence[suites.Pair]
    good_scores: np.ndarray
    bad_scores: np.ndarray
    accuracies: accuracy.Accuracies
    num_too_long: int
    max_tokens: int
    scores: scoring.Scores


def probe(
    scorer: scoring.Scorer,
    pairs: Sequence[suites.Pair],
    metric: str = settings.PLL,
    shows_progress: bool = False,
) -> Probed:
    """Scores both sentences of each pair, and computes the accuracies.

    Args:
      scorer: the model.
      pairs: at least one.
      metric: one of `settings.METRICS`.
      shows_progress: as for `scoring.score`.

    Raises:
      ValueError: a sentence has no token, or no pair is short enough for the model.
    """
    sentences = [sentence for pair in pairs for sentence in (pair.good, pair.bad)]
    scores = scoring.score(scorer, sentences, metric, shows_progress)
    values = scores.values.reshape(-1, 2)  # [pairs, 2]
    is_scored = ~np.isnan(values).any(1)
    values[~is_scored] = np.nan
    max_tokens = scorer.max_length - 2
    if not is_scored.any():
        raise ValueError(
            f"a sentence must have at most {max_tokens} tokens; all pairs are longer. "
            "Probe a model that was trained with longer sequences"
        )
    scored = [pair for pair, kept in zip(pairs, is_scored, strict=True) if kept]
    found = accuracy.compute(scored, *values[is_scored].T.tolist())
    good, bad = values.T
    num_too_long = len(pairs) - len(scored)
    return Probed(pairs, good, bad, found, num_too_long, max_tokens, scores)


def to_dict(
    probed: Probed, compared: Sequence[published.Published], **circumstances: Any
) -> dict[str, Any]:
    """Returns all but the scores of the pairs, as values that JSON can hold.

    Args:
      probed: the outcome.
      compared: accuracies of others on the same suite.
      **circumstances: what was probed and how, which come first.
    """
    examples: dict[str, suites.Pair] = {}
    for pair in probed.pairs:
        examples.setdefault(pair.paradigm, pair)
    values = probed.accuracies.to_dict()
    for name, paradigm in values["paradigms"].items():
        paradigm["example"] = [examples[name].good, examples[name].bad]
    phenomenon_of = probed.accuracies.phenomenon_of
    return {
        **circumstances,
        "num_pairs": len(probed.pairs),
        "num_too_long": probed.num_too_long,
        "max_tokens": probed.max_tokens,
        "num_rows": probed.scores.num_rows,
        "num_tokens": probed.scores.num_tokens,
        **values,
        "published": {
            one.name: _published_to_dict(one, phenomenon_of) for one in compared
        },
    }


def _published_to_dict(one: published.Published, phenomenon_of) -> dict[str, Any]:
    overall, phenomena = one.means(phenomenon_of)
    paradigms = {name: one.paradigms[name] for name in phenomenon_of}
    return {"overall": overall, "phenomena": phenomena, "paradigms": paradigms}


def write(output_dir: str, probed: Probed, values: dict[str, Any]) -> None:
    """Writes results.json and pairs.tsv.

    Args:
      output_dir: local or gs://; made if it does not exist.
      probed: the outcome.
      values: from `to_dict`.
    """
    files.make_folder(output_dir)
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(_COLUMNS)
    rows = zip(probed.pairs, probed.good_scores, probed.bad_scores, strict=True)
    for pair, good, bad in rows:
        scores = ("", "") if np.isnan(good) else (f"{good:.6f}", f"{bad:.6f}")
        names = pair.paradigm, pair.phenomenon
        table.writerow((*names, *scores, pair.good, pair.bad))
    path = os.path.join(output_dir, PAIRS_FILE)
    files.write_bytes(path, text.getvalue().encode())
    files.write_json(os.path.join(output_dir, RESULTS_FILE), values)


def summary_lines(values: dict[str, Any]) -> list[str]:
    """Returns the accuracies by phenomenon and overall as lines of a table.

    Args:
      values: from `to_dict`.
    """
    rows = [["", "this model", "95% interval", *values["published"]]]
    for name, one in values["phenomena"].items():
        others = [other["phenomena"][name] for other in values["published"].values()]
        rows.append(_summary_row(name, one, others))
    others = [other["overall"] for other in values["published"].values()]
    rows.append(_summary_row("overall", values["overall"], others))
    lines = text_table.align(rows)
    if num_too_long := values["num_too_long"]:
        lines.append(
            f"{plurals.count(num_too_long, 'pair')} not counted: a sentence is longer "
            f"than the {values['max_tokens']} tokens that the model's sequences hold"
        )
    if note := part_note(values):
        lines.append(note)
    return lines


def part_note(values: Mapping[str, Any]) -> str:
    """Returns a sentence if only a part of a suite was probed, or an empty string.

    Args:
      values: from `to_dict`; `pairs_per_paradigm` may be missing.
    """
    count = values.get("pairs_per_paradigm", 0)
    if not count:
        return ""
    verb = "was" if count == 1 else "were"
    note = (
        f"Only the first {plurals.count(count, 'pair')} of each paradigm {verb} probed"
    )
    if values["published"]:
        note += "; published figures are of all pairs"
    return f"{note}."


def _summary_row(name: str, own: dict[str, Any], others: Sequence[float]) -> list[str]:
    interval = f"{100 * own['low']:.1f} to {100 * own['high']:.1f}"
    return [name, f"{own['accuracy']:.1%}", interval, *map("{:.1%}".format, others)]
