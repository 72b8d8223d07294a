"""Tests of the pictures of a fine-tuning: what they count, and how they look."""

import io

import numpy as np
import pytest
from matplotlib import colors, image

from albert_tf.reports import charts, finetuning_charts
from tests.support import sample_runs


def test_answer_lengths_and_null_odds_are_counted():
    lengths, odds = finetuning_charts.of_answers(
        "answerable_span", "dev", sample_runs.SQUAD_ANSWERS, [], -1.0
    )
    (bars,) = lengths.panels
    assert bars.names == ("none\n(1)", "1\n(2)", "2\n(1)")
    assert bars.groups == {"F1": [0.0, 0.75, 0.0], "exact match": [0.0, 0.5, 0.0]}
    (histogram,) = odds.panels
    assert (histogram.edges[0], histogram.edges[-1]) == (-2.5, 3.5)
    assert {name: sum(counts) for name, counts in histogram.groups.items()} == {
        "has an answer": 3,
        "has none": 1,
    }
    assert histogram.groups["has none"][12] == 1  # half-way, at 0.5
    assert histogram.mark == -1.0


def test_questions_that_all_have_answers_have_no_null_odds():
    answers = [{**sample_runs.SQUAD_ANSWERS[0], "null_odds": None}]
    (picture,) = finetuning_charts.of_answers("span", "dev", answers, [], None)
    assert picture.name == "lengths-dev"


def test_confusion_counts_labels_by_row_and_answers_by_column():
    pairs = [("b", "a"), ("b", "a"), ("a", "a"), ("b", "c")]
    found = finetuning_charts.confusion(pairs, ["b", "a", "never"])
    assert found.labels == ("b", "a", "c")
    assert found.counts == [[0, 2, 1], [0, 1, 0], [0, 0, 0]]


def test_rare_labels_are_counted_together():
    labels = [f"{number:02}" for number in range(25)]
    pairs = [(name, name) for name in labels for _ in range(2 if name > "05" else 1)]
    found = finetuning_charts.confusion([*pairs, ("06", "00")], labels)
    assert found.labels == (*labels[6:], "(other)")
    counts = np.array(found.counts)
    assert counts.shape == (20, 20)
    assert counts[-1, -1] == 6 and counts[0, -1] == 1 and counts[0, 0] == 2
    assert counts.sum() == 45


def test_curves_are_by_split_and_mark_the_chosen_checkpoint():
    rows = [
        {"split": "train", "step": 3, "loss": 0.75, "accuracy": 0.5},
        {"split": "dev", "step": 5, "loss": 0.5, "f1": 0.25, "accuracy": 0.625},
        {"split": "dev", "step": 7, "loss": 0.25, "best_f1_threshold": 3.0},
    ]
    loss, scores = finetuning_charts.curves(rows, "accuracy", 5)
    found = {line.label: (line.steps, line.values) for line in loss.panels[0].lines}
    assert found == {"training": ([3], [0.75]), "dev": ([5, 7], [0.5, 0.25])}
    found = {line.label: (line.steps, line.values) for line in scores.panels[0].lines}
    assert found == {
        "accuracy, dev": ([5], [0.625]),
        "F1, dev": ([5], [0.25]),
        "accuracy, training": ([3], [0.5]),
    }
    assert (loss.panels[0].marked_step, scores.panels[0].marked_step) == (5, 5)


def _pixels(panel, theme):
    picture = charts.Picture("name", "", (panel,))
    assert picture.is_over_steps == isinstance(panel, charts.Panel)
    content = charts.draw(picture, 9, theme)
    return np.round(image.imread(io.BytesIO(content))[..., :3] * 255).astype(int)


def _share_of_color(pixels, color):
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return float((pixels == rgb).all(-1).mean())


_NAMES = ("$x^{$", "A name far too long to be written out", "", "Ünï")
_PANELS = [
    charts.Matrix(_NAMES, [[1234567, 0, 0, 0]] * 4),
    charts.Matrix(tuple(map(str, range(20))), np.eye(20, dtype=int).tolist()),
    charts.Points("label", "answer", [0.0, 5.0, 2.5], [1e6, 0.0, 1.0]),
    charts.Points("label", "answer", [float("nan")], [1.0]),
    charts.Bars("x", "y", ("none\n(1)", "10+\n(123,456)"), {"F1": [0.5, 1]}),
    charts.Histogram("x", "y", [-3, -1, 5], {"a": [1, 2], "b": [123456, 0]}, 0),
    charts.Panel(
        "y", (charts.Line("", [1, 9], [1, 2]),), marked_step=5, marked_label="m"
    ),
]


@pytest.mark.parametrize("panel", _PANELS, ids=lambda panel: type(panel).__name__)
@pytest.mark.parametrize("theme", charts.THEMES, ids=["light", "dark"])
def test_every_panel_can_be_drawn_and_no_label_is_cut_at_the_edge(panel, theme):
    pixels = _pixels(panel, theme)
    assert pixels.shape == (700, 1040, 3)
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert _share_of_color(edge[None], theme.paper) == 1.0


def test_cells_of_a_matrix_are_as_dark_as_their_share_of_the_row():
    theme = charts.THEMES[0]
    pixels = _pixels(charts.Matrix(("a", "b"), [[9, 0], [0, 1]]), theme)
    alone = _pixels(charts.Matrix(("a", "b"), [[9, 0], [1, 0]]), theme)
    half = _pixels(charts.Matrix(("a", "b"), [[9, 0], [1, 1]]), theme)
    full = _share_of_color(pixels, theme.lines[0])
    assert 0.15 < full < 0.35
    assert abs(_share_of_color(alone, theme.lines[0]) - full) < 0.01
    assert abs(_share_of_color(half, theme.lines[0]) - full / 2) < 0.01


@pytest.mark.parametrize("theme", charts.THEMES)
def test_counts_are_legible_on_every_colour_of_a_matrix(theme):
    paper, full = (
        np.array(colors.to_rgb(color)) for color in (theme.paper, theme.lines[0])
    )
    for share in np.linspace(0.0, 1.0, 101):
        cell = (1 - share) * paper + share * full
        text = colors.to_rgb(charts.legible_on(cell))
        dark, light = sorted(map(charts.relative_luminance, (cell, text)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, share


def test_the_colour_with_the_higher_contrast_is_taken():
    assert charts.legible_on((1.0, 1.0, 1.0)) == "#000000"
    assert charts.legible_on((0.1, 0.1, 0.1)) == "#ffffff"
    # #6cb0ff, on which the dark theme wrote dark and light text by the share alone.
    assert charts.legible_on((0.42, 0.69, 1.0)) == "#000000"
    assert charts.relative_luminance((1.0, 1.0, 1.0)) == pytest.approx(1.0)
    assert charts.relative_luminance((0.0, 1.0, 0.0)) == pytest.approx(0.7152)
