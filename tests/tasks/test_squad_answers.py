"""Answers of SQuAD from the scores of positions, by the original's rules."""

import time

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tasks.squad import answers as answers_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import golden, squad_golden

TOLERANCE = 1e-6  # largest absolute difference
CONTEXT = "ab cd ef gh"
LOW = -9.0
SIDES = ("start", "end")


@pytest.fixture(scope="module")
def tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


def collected(name, tokenizer):
    """The questions, and what is found for them."""
    task, found = squad_golden.task(name), squad_golden.questions()
    features = task.encode(found, tokenizer, is_training=False)
    return found, task.postprocess(
        found, features, squad_golden.arrays(f"{name}_results")
    )


def question(name="q", context=CONTEXT):
    return examples.SpanExample(name, "?", context, (), False, f"f: {name}")


def windows(*is_max, example_index=None):
    """Rows `[CLS] [SEP] ab cd ef gh [SEP]`, each with its maximal context."""
    return features_lib.build(
        [[2, 3, 10, 11, 12, 13, 3]] * len(is_max),
        [2] * len(is_max),
        example_index or [0] * len(is_max),
        notes={
            "char_starts": np.array([-1, -1, 0, 2, 5, 8, -1] * len(is_max), np.int32),
            "char_ends": np.array([-1, -1, 2, 5, 8, 11, -1] * len(is_max), np.int32),
            "is_max_context": np.array(
                [bool(int(c)) for row in is_max for c in f"00{row}0"]
            ),
        },
    )


def logits(*rows, width=8):
    """Float32 [R, width]; a row is {position: logit}, LOW elsewhere."""
    values = np.full((len(rows), width), LOW, np.float32)
    for number, row in enumerate(rows):
        for position, value in row.items():
            values[number, position] = value
    return values


def from_logits(features, starts, ends, found=None, **settings):
    settings = task_config.TaskConfig("squad1", **{"n_best_size": 2, **settings})
    scores = {"start_logits": logits(*starts), "end_logits": logits(*ends)}
    spans = answers_lib.from_logits(found or [question()], features, scores, settings)
    assert spans.null_odds is None
    return spans.n_best


def texts(candidates):
    return [candidate.text for candidate in candidates]


@pytest.mark.parametrize("name", ["squad1", "squad2"])
def test_n_best_equal_the_original(name, tokenizer):
    found, spans = collected(name, tokenizer)
    expected = squad_golden.expected(name)["n_best"]
    assert len(found) == len(spans.n_best) == len(expected) == 49
    for one, candidates in zip(found, spans.n_best, strict=True):
        assert texts(candidates) == [entry[0] for entry in expected[one.id]], one.id
        numbers = [(c.probability, c.start_score, c.end_score) for c in candidates]
        theirs = np.array([entry[1:] for entry in expected[one.id]])
        golden.assert_near(numbers, theirs, TOLERANCE, "n-best")


@pytest.mark.parametrize("name", ["squad1", "squad2"])
def test_places_of_candidates_give_their_texts(name, tokenizer):
    found, spans = collected(name, tokenizer)
    for one, candidates in zip(found, spans.n_best, strict=True):
        for candidate in candidates:
            if candidate.start == -1:
                assert candidate.end == -1 and candidate.text == ""
            else:
                part = one.context[candidate.start : candidate.end]
                assert part == candidate.text == part.strip() != ""


def test_null_odds_equal_the_original(tokenizer):
    found, spans = collected("squad2", tokenizer)
    expected = squad_golden.expected("squad2")["null_odds"]
    theirs = [expected[one.id] for one in found]
    golden.assert_near(spans.null_odds, theirs, TOLERANCE, "null odds")


def test_the_best_pair_wins_and_probabilities_are_a_softmax():
    (candidates,) = from_logits(
        windows("1111"), [{3: 2.0, 4: 1.0}], [{4: 1.0, 5: 3.0}], n_best_size=2
    )
    assert texts(candidates) == ["cd ef gh", "ef gh"]
    best, second = candidates
    assert (best.start, best.end) == (3, 11)
    assert (best.start_score, best.end_score) == (2.0, 3.0)
    assert best.probability == pytest.approx(1 / (1 + np.exp(-1)))
    assert best.probability + second.probability == pytest.approx(1.0)


def test_ends_before_starts_and_long_answers_do_not_count():
    features = windows("1111")
    starts, ends = [{2: 5.0, 5: 4.0}], [{2: 1.0, 5: 5.0}]
    assert texts(from_logits(features, starts, ends)[0]) == ["ab cd ef gh", "gh"]
    short = from_logits(features, starts, ends, max_answer_length=3)
    assert texts(short[0]) == ["gh", "ab"]


def test_question_separators_and_padding_are_no_answers():
    features = windows("1111")
    for position in (0, 1, 6, 7):
        starts, ends = [{position: 9.0, 3: 1.0}], [{position: 9.0, 3: 1.0}]
        assert texts(from_logits(features, starts, ends)[0]) == ["cd"], position


def test_a_start_counts_where_it_sees_most():
    features = windows("1100", "0011")
    starts, ends = [{4: 9.0, 2: 1.0}, {4: 2.0, 2: 9.0}], [{4: 1.0, 2: 1.0}] * 2
    (candidates,) = from_logits(features, starts, ends)
    assert texts(candidates) == ["ef", "ab"]
    assert [c.start_score for c in candidates] == [2.0, 1.0]


def test_texts_come_once_with_their_best_score():
    features = windows("1111", example_index=[0])
    one = question(context="ab ab ab cd")
    starts, ends = [{2: 1.0, 3: 3.0, 4: 2.0}], [{2: 1.0, 3: 1.0, 4: 1.0}]
    (candidates,) = from_logits(features, starts, ends, [one], n_best_size=3)
    # All nine pairs of these starts and ends, by score: those from token 3 first.
    assert texts(candidates) == ["ab", "ab ab", "ab ab ab"]
    assert (candidates[0].start, candidates[0].start_score) == (3, 3.0)


def test_equal_scores_keep_the_order_of_positions():
    scores = np.zeros((1, 384), np.float32)
    scores[0, ::7] = 1.0  # many equal ones, as a sort that is not stable mixes them
    scores[0, :6] = 1.0
    outputs = {f"{side}_logits": scores for side in SIDES}
    settings = task_config.TaskConfig("squad1", n_best_size=6)
    spans = answers_lib.from_logits([question()], windows("1111"), outputs, settings)
    # The best six positions are 0 to 5, of which the last four are of the context.
    expected = ["ab", "ab cd", "ab cd ef", "ab cd ef gh", "cd", "cd ef"]
    assert texts(spans.n_best[0]) == expected


def test_without_any_span_the_answer_is_empty():
    (candidates,) = from_logits(windows("0000"), [{}], [{}])
    assert candidates == [predictions_lib.Candidate("", -1, -1, 1.0, -1e6, -1e6)]


def test_examples_do_not_mix():
    features = windows("1111", "1111", "1111", example_index=[0, 1, 1])
    found = [question("a"), question("b", "xy zw uv st")]
    starts = [{2: 1.0}, {3: 1.0}, {4: 2.0}]
    answers = from_logits(features, starts, starts, found, n_best_size=1)
    assert [texts(candidates) for candidates in answers] == [["ab"], ["uv"]]


def test_the_least_null_odds_of_the_windows_count():
    settings = task_config.TaskConfig("squad2", num_starts=1, num_ends=1)
    features = windows("1111", "1111", "1111", example_index=[0, 0, 1])
    outputs = {
        "start_log_probs": np.array([[-1.0], [-2.0], [-1.0]], np.float32),
        "start_positions": np.array([[2], [3], [6]], np.int32),
        "end_log_probs": np.array([[[-1.0]], [[-0.5]], [[-1.0]]], np.float32),
        "end_positions": np.array([[[2]], [[5]], [[6]]], np.int32),
        "impossible_logits": np.array([3.0, -1.5, 2.0], np.float32),
    }
    found = [question("a"), question("b")]
    spans = answers_lib.from_beams(found, features, outputs, settings)
    assert spans.null_odds == [-1.5, 2.0]
    assert [texts(c) for c in spans.n_best] == [["ab", "cd ef gh"], [""]]


def test_a_pair_found_twice_has_the_mean_of_its_scores():
    settings = task_config.TaskConfig("squad2")
    outputs = {
        "start_log_probs": np.array([[-1.0, -1.0]]),
        "start_positions": np.array([[2, 3]]),
        "end_log_probs": np.array([[[-1.0, -3.0], [-1.5, -9.0]]]),
        "end_positions": np.array([[[2, 2], [3, 5]]]),
        "impossible_logits": np.zeros(1),
    }
    found = [question()]
    spans = answers_lib.from_beams(found, windows("1111"), outputs, settings)
    (best, second, _) = spans.n_best[0]
    assert (best.text, best.end_score) == ("cd", -1.5)
    assert (second.text, second.start_score, second.end_score) == ("ab", -1.0, -2.0)


def test_ten_thousand_windows_take_seconds():
    num = 10_000
    features = windows(*["1111"] * num, example_index=list(range(num)))
    found = [question(str(number)) for number in range(num)]
    scores = np.random.default_rng(5).normal(size=(2, num, 384)).astype(np.float32)
    scores[:, :, 2:6] += 9.0  # so that these four are among the best
    outputs = {"start_logits": scores[0], "end_logits": scores[1]}
    settings = task_config.TaskConfig("squad1")
    begin = time.process_time()
    spans = answers_lib.from_logits(found, features, outputs, settings)
    assert time.process_time() - begin < 20
    assert min(len(candidates) for candidates in spans.n_best) == 10
