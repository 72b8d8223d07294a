"""Scores of tasks equal figures worked out by hand, and never warn."""

import warnings

import pytest

from albert_tf.tasks import metrics


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_accuracy_is_the_share_of_equal_pairs():
    assert metrics.accuracy(["a", "b", "a", "c"], ["a", "b", "b", "c"]) == 0.75


def test_f1_is_that_of_class_1():
    # Precision 2/3, recall 2/4.
    found = metrics.f1([1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0])
    assert found == pytest.approx(4 / 7)
    assert metrics.f1([0, 0], [0, 0]) == 0.0


def test_macro_f1_is_the_mean_over_the_classes_that_occur():
    # a: 2/3, b: 1, c: 0.
    found = metrics.macro_f1(["a", "a", "b", "c"], ["a", "c", "b", "a"])
    assert found == pytest.approx((0.5 + 1 + 0) / 3)


def test_matthews_correlation():
    # tp 2, tn 1, fp 1, fn 1.
    found = metrics.matthews([1, 1, 1, 0, 0], [1, 1, 0, 0, 1])
    assert found == pytest.approx((2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5)


def test_correlations():
    assert metrics.pearson([1, 2, 3], [1, 2, 6]) == pytest.approx(5 / 28**0.5)
    assert metrics.spearman([1, 2, 3], [1, 2, 600]) == pytest.approx(1.0)
    assert metrics.spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)


def test_mean_squared_error():
    assert metrics.mean_squared_error([1.0, 2.0], [2.0, 4.0]) == 2.5


@pytest.mark.parametrize("name", ["pearson", "spearman", "matthews"])
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [0, 1, 1]), ([1, 1], [1, 1]), ([1], [0])],
)
def test_values_that_are_all_alike_correlate_0(name, labels, predictions):
    assert getattr(metrics, name)(labels, predictions) == 0.0


def test_an_entity_is_right_with_both_boundaries_and_its_type():
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"], ["O"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["B-ORG", "I-ORG"], ["B-LOC"]]
    # One of three is found, by four tries.
    found = metrics.entity_f1(true, predicted)
    assert found == pytest.approx(2 * (1 / 4) * (1 / 3) / (1 / 4 + 1 / 3))
    assert metrics.entity_f1(true, true) == 1.0
    assert metrics.entity_f1([["O"]], [["O"]]) == 0.0


def test_an_entity_may_begin_without_a_b():
    assert metrics.entity_f1([["I-PER", "I-PER"]], [["B-PER", "I-PER"]]) == 1.0
    assert metrics.entity_f1([["B-PER", "B-PER"]], [["B-PER", "I-PER"]]) == 0.0
    assert metrics.entity_f1([["B-PER", "I-LOC"]], [["B-PER", "B-LOC"]]) == 1.0


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["B-PER", "I-PER", "O"], True),
        (["B-PER"], True),
        (["O"], False),
        (["NN", "VB"], False),
        (["B-PER", "NN"], False),
        (["B-", "O"], False),
        ([], False),
    ],
)
def test_labels_of_entities_are_told_from_others(labels, expected):
    assert metrics.is_bio(labels) is expected


def test_nothing_to_score_and_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="at least one example; received none"):
        metrics.accuracy([], [])
    with pytest.raises(ValueError, match="as many predictions.*received 1 and 2"):
        metrics.pearson([1, 2], [1])
    with pytest.raises(ValueError, match="as many predictions"):
        metrics.entity_f1([["O"]], [])
