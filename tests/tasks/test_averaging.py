"""Averages of what several models say."""

import numpy as np
import pytest

from albert_tf.tasks import averaging
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib


def _candidate(start, probability, score=0.0):
    text = "" if start < 0 else f"text{start}"
    return predictions_lib.Candidate(
        text, start, start + 2, probability, score, score - 1.0
    )


def test_logits_are_averaged():
    first = predictions_lib.Logits(np.array([[1.0, 3.0], [0.0, 2.0]], np.float32))
    second = predictions_lib.Logits(np.array([[4.0, 1.0], [0.0, 4.0]], np.float32))
    mean = averaging.average([first, second])
    assert mean.values.dtype == np.float32
    assert mean.values.tolist() == [[2.5, 2.0], [0.0, 3.0]]


def test_logits_of_words_are_averaged_example_by_example():
    first = predictions_lib.TokenLogits([np.ones([2, 3]), np.zeros([1, 3])])
    second = predictions_lib.TokenLogits([np.zeros([2, 3]), np.ones([1, 3])])
    mean = averaging.average([first, second, second])
    np.testing.assert_allclose(mean.values[0], np.full([2, 3], 1 / 3))
    np.testing.assert_allclose(mean.values[1], np.full([1, 3], 2 / 3))


def test_answers_are_averaged_by_their_place_and_are_0_where_absent():
    first = predictions_lib.AnswerSpans(
        [[_candidate(5, 0.6, 2.0), _candidate(9, 0.4)]], None
    )
    second = predictions_lib.AnswerSpans(
        [[_candidate(7, 0.5), _candidate(5, 0.3, 4.0)]], None
    )
    mean = averaging.average([first, second])
    (candidates,) = mean.n_best
    assert [(c.start, round(c.probability, 6)) for c in candidates] == [
        (5, 0.45),
        (7, 0.25),
    ]  # as many as the longest list
    assert (candidates[0].start_score, candidates[0].end_score) == (3.0, 2.0)
    assert mean.null_odds is None


def test_null_odds_are_averaged():
    first = predictions_lib.AnswerSpans([[_candidate(5, 1.0)]] * 2, [1.0, -2.0])
    second = predictions_lib.AnswerSpans([[_candidate(5, 1.0)]] * 2, [3.0, -4.0])
    assert averaging.average([first, second]).null_odds == [2.0, -3.0]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            [
                predictions_lib.Logits(np.ones([2, 3])),
                predictions_lib.AnswerSpans([], None),
            ],
            "one kind",
        ),
        (
            [
                predictions_lib.Logits(np.ones([2, 3])),
                predictions_lib.Logits(np.ones([2, 4])),
            ],
            "the same in all",
        ),
        (
            [
                predictions_lib.AnswerSpans([], None),
                predictions_lib.AnswerSpans([], []),
            ],
            "received 1 of 2",
        ),
    ],
)
def test_what_cannot_be_averaged_is_refused(members, words):
    with pytest.raises(ValueError, match=words):
        averaging.average(members)


@pytest.mark.parametrize(
    "outputs",
    [
        predictions_lib.Logits(np.array([[1.5, -2.0], [0.25, 7.0]], np.float32)),
        predictions_lib.TokenLogits(
            [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones([3, 3], np.float32)]
        ),
        predictions_lib.AnswerSpans(
            [[_candidate(5, 0.75, 2.0)], [_candidate(-1, 1.0)]], [0.5, 2]
        ),
    ],
)
def test_outputs_come_back_from_their_files(outputs):
    ids, found = predictions_lib.from_bytes(
        predictions_lib.to_bytes(["é", "2"], outputs)
    )
    assert ids == ["é", "2"]
    assert type(found) is type(outputs)
    if isinstance(outputs, predictions_lib.AnswerSpans):
        assert found == outputs
    else:
        for ours, theirs in zip(found.values, outputs.values, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (
            predictions_lib.to_bytes(
                ["a"] * 9, predictions_lib.Logits(np.ones([9, 2]))
            ),
            predictions_lib.from_bytes,
        ),
        (
            features_lib.to_bytes(
                features_lib.Features(*[np.arange(9)] * 4, {}, {}, {})
            ),
            features_lib.from_bytes,
        ),
    ],
)
def test_files_with_a_wrong_byte_are_read_or_refused(content, read):
    num_refused = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        try:
            read(bytes(damaged))
        except ValueError:
            num_refused += 1
    assert num_refused > len(content) / 4


def test_a_file_that_would_have_to_be_unpickled_is_refused(tmp_path):
    path = tmp_path / "outputs.npz"
    np.savez(path, ids=np.array(["a"]), values=np.array([{}], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        predictions_lib.from_bytes(path.read_bytes())
