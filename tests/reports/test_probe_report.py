"""The page of a grammar probe: its figures, and bars of their length."""

import re

import numpy as np
import pytest

from albert_tf.probing import accuracy, probe, published, scoring, suites
from albert_tf.reports import probe_report

PAIRS = [
    suites.Pair("gap_1", "filler_gap", "Who <b>ran</b>?", "Ran who?"),
    suites.Pair("gap_1", "filler_gap", "Who sat?", "Sat who?"),
    suites.Pair("npi_1", "npi", "No one ever sat.", "One ever sat."),
    suites.Pair("npi_1", "npi", "No dog ever sat.", "Dogs ever sat."),
]


def written(folder, compared=(), suite="blimp", num_too_long=0, pairs_per_paradigm=0):
    good, bad = np.array([-1.0, -5.0, -1.0, -1.0]), np.array([-2.0, -4.0, -2.0, -3.0])
    probed = probe.Probed(
        PAIRS,
        good,
        bad,
        accuracy.compute(PAIRS, good, bad),
        num_too_long,
        30,
        scoring.Scores(good, 1234, 5678),
    )
    values = probe.to_dict(
        probed,
        compared,
        suite=suite,
        pairs_per_paradigm=pairs_per_paradigm,
        metric="pll",
        model="run",
        checkpoint="run/model.ckpt-7",
        compute_dtype="float32",
        seconds=61.0,
    )
    assert probe_report.write(str(folder), values, '{"train": 1}').endswith(
        "index.html"
    )
    return (folder / "index.html").read_text()


def test_the_page_has_bars_beside_those_of_others(tmp_path):
    others = [
        published.Published("LSTM", {"gap_1": 0.25, "npi_1": 0.75}),
        published.Published("people", {"gap_1": 0.9, "npi_1": 1.0}),
    ]
    page = written(tmp_path, others)
    widths = re.findall(r'<div style="width: ([\d.]+)%">', page)
    # Overall, then by phenomenon: this model, LSTM, people.
    assert widths == "75.00 50.00 95.00 50.00 25.00 90.00 100.00 75.00 100.00".split()
    low, high = accuracy.interval(0.5, 2)
    expected = f'<i style="left: {low:.2%}; width: {high - low:.2%}"></i>'
    assert expected in page
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "75.0% on 4 minimal pairs" in text
    assert "over 2 paradigms" in text and "2 phenomena is 75.0%" in text
    assert "filler gap 2 pairs" in text
    assert "different rows of tokens 1,234" in text and "1 min 01 s" in text
    assert "those that BLiMP&#39;s authors publish" in text
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_a_share_of_all_fits_into_its_column(tmp_path):
    """100.0% in the page's font is wider than 3.5 rem."""
    widths = re.findall(r"minmax\(5rem, 9rem\) 1fr ([\d.]+)rem", written(tmp_path))
    assert widths and float(widths[0]) >= 4


def test_sentences_are_text_and_not_markup(tmp_path):
    page = written(tmp_path)
    assert "Who &lt;b&gt;ran&lt;/b&gt;?" in page and "<b>ran" not in page
    # Nobody else is named where nothing is published.
    assert "authors publish" not in page


def test_pairs_that_are_too_long_are_told(tmp_path):
    page = " ".join(written(tmp_path, suite="mine.jsonl", num_too_long=1).split())
    assert "Grammar probe: mine.jsonl" in page
    assert "1 pair of 4 is longer than the model's sequence" in page


def test_results_without_accuracies_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must have accuracies"):
        probe_report.write(str(tmp_path), {"suite": "blimp"}, "{}")


def test_the_page_says_if_a_part_of_a_suite_was_probed(tmp_path):
    others = [published.Published("LSTM", {"gap_1": 0.25, "npi_1": 0.75})]
    note = "Only the first 2 pairs of each paradigm were probed"
    page = written(tmp_path, others, pairs_per_paradigm=2)
    assert f"{note}; published figures are of all pairs." in page
    assert f"{note}." in written(tmp_path, pairs_per_paradigm=2)
    assert note not in written(tmp_path, others)
