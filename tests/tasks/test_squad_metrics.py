"""Exact match and F1 of SQuAD as the official scripts give them."""

import itertools
import json

import numpy as np
import pytest

from albert_tf.tasks import examples
from albert_tf.tasks.squad import metrics
from tests.support import squad_golden


def scores_of_file(data, predictions, has_null):
    """Percent, of all questions of a file of SQuAD."""
    found = [
        examples.SpanExample(
            entry["id"],
            entry["question"],
            paragraph["context"],
            tuple(
                examples.Answer(answer["text"], answer["answer_start"])
                for answer in entry["answers"]
            ),
            not entry["answers"],
            "",
        )
        for article in data["data"]
        for paragraph in article["paragraphs"]
        for entry in paragraph["qas"]
        if entry["answers"] or has_null
    ]
    texts = [predictions[one.id] for one in found]
    exact, f1 = metrics.score_questions(found, texts, has_null)
    return 100 * exact.mean(), 100 * f1.mean()


def toy():
    with open(f"{squad_golden.FOLDER}/squad_toy.json", encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat,\n sat!", "cat sat"),
        ("An apple a day", "apple day"),
        ("theatre", "theatre"),
        ("the-end", "theend"),  # punctuation goes before articles do
        ("a.b", "ab"),
        ("U.S.", "us"),
        ("\u201cquoted\u201d", "\u201cquoted\u201d"),  # only ASCII punctuation
        ("The", ""),
        ("", ""),
    ],
)
def test_answers_are_normalized_as_in_the_official_scripts(text, expected):
    assert metrics.normalize_answer(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("the Cat", ["cat"], (1.0, 1.0)),
        ("black cat", ["cat"], (0.0, 2 / 3)),
        ("black cat", ["dog", "the cat", "black"], (0.0, 2 / 3)),
        ("cat cat", ["cat dog dog"], (0.0, 0.4)),  # a word counts as often as it is
        ("dog", ["cat"], (0.0, 0.0)),
        ("", ["cat"], (0.0, 0.0)),
        ("the", ["a"], (1.0, 0.0)),  # no word in common, so no F1
    ],
)
def test_scores_of_squad_1(prediction, answers, expected):
    found = metrics.score_question(prediction, answers, has_null=False)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("black cat", ["cat"], (0.0, 2 / 3)),
        ("", [], (1.0, 1.0)),
        ("cat", [], (0.0, 0.0)),
        ("", ["cat"], (0.0, 0.0)),
        ("the", ["a"], (1.0, 1.0)),
        ("", ["cat", "the"], (0.0, 0.0)),  # "the" does not count beside "cat"
        ("the", [], (1.0, 1.0)),
    ],
)
def test_scores_of_squad_2(prediction, answers, expected):
    found = metrics.score_question(prediction, answers, has_null=True)
    assert found == pytest.approx(expected)


def test_real_predictions_score_as_with_the_official_script(shared_data):
    folder = shared_data / "squad"
    expected = json.loads((folder / "expected-dev-v1.1-3articles.json").read_text())
    data = json.loads((folder / expected["dataset"]).read_text())
    predictions = json.loads((folder / expected["predictions"]).read_text())
    exact, f1 = scores_of_file(data, predictions, has_null=False)
    assert round(exact, 4) == expected["exact_match"]
    assert round(f1, 4) == expected["f1"]


def test_the_originals_predictions_score_as_there():
    """Those of 1.1 by the script of 1.1, and only of questions with an answer."""
    original = squad_golden.expected("squad1")
    exact, f1 = scores_of_file(toy(), original["predictions"], has_null=False)
    assert exact == pytest.approx(original["metrics"]["exact_match"], abs=1e-9)
    assert f1 == pytest.approx(original["metrics"]["f1"], abs=1e-9)
    original = squad_golden.expected("squad2")
    exact, f1 = scores_of_file(toy(), original["predictions"], has_null=True)
    assert exact == pytest.approx(original["metrics"]["exact"], abs=1e-9)
    assert f1 == pytest.approx(original["metrics"]["f1"], abs=1e-9)


def test_the_best_threshold_answers_what_gains():
    scores = np.array([0.5, 0.0, 1.0, 0.0])
    null_scores = np.array([0.0, 1.0, 0.0, 1.0])
    odds = np.array([-2.0, 3.0, 0.5, 1.0])
    found = metrics.best_threshold(scores, null_scores, odds)
    assert found == (pytest.approx(3.5 / 4), 0.5)


def test_no_answer_at_all_has_a_threshold_below_all_odds():
    nothing, everything = np.zeros(3), np.ones(3)
    odds = np.array([-2.0, -1.0, -3.0])
    found = metrics.best_threshold(nothing, everything, odds)
    assert found == (1.0, -4.0)
    found = metrics.best_threshold(everything, nothing, odds)
    assert found == (1.0, -1.0)


def test_questions_of_equal_odds_are_answered_together():
    scores, null_scores = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0])
    odds = np.array([0.5, 0.5, 0.5])
    found = metrics.best_threshold(scores, null_scores, odds)
    assert found == (pytest.approx(2 / 3), -0.5)


def test_no_other_threshold_is_better():
    generator = np.random.default_rng(11)
    for num, values in itertools.product((1, 2, 7, 40), (3, 1000)):
        scores = generator.random(num) * (generator.random(num) < 0.7)
        null_scores = (generator.random(num) < 0.5).astype(float)
        odds = generator.integers(-values, values, num) / 7.0
        best, threshold = metrics.best_threshold(scores, null_scores, odds)

        def mean(limit, scores=scores, null_scores=null_scores, odds=odds):
            return np.where(odds > limit, null_scores, scores).mean()

        assert mean(threshold) == pytest.approx(best)
        tried = [mean(limit) for limit in [*odds, -1e9, 1e9, *(odds + 0.01)]]
        assert max(tried) == pytest.approx(best)
