"""SQuAD as a task: what is read, refused, scored and written."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tasks.squad import task as task_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import squad_golden

CONTEXT = "Ann has a  cat.\nBob has none, and no dog."


def entry(name="q1", **changes):
    values = {
        "id": name,
        "question": "Who has a cat?",
        "answers": [{"text": "Ann", "answer_start": 0}],
    }
    values.update(changes)
    return {key: value for key, value in values.items() if value is not ...}


def write(folder, *entries, name="file.json", context=CONTEXT):
    document = {"data": [{"paragraphs": [{"context": context, "qas": list(entries)}]}]}
    (folder / name).write_text(json.dumps(document), encoding="utf-8")


def read(folder, split="train", name="squad2", skip=False):
    named = {f"{part}_file": "file.json" for part in ("train", "dev", "test")}
    problems = examples.Problems(skip)
    found = squad_golden.task(name, **named).read(str(folder), split, problems)
    return (found, problems.lines()) if skip else found


def refused(folder, *entries, split="train", name="squad2", context=CONTEXT):
    """What is said of the last entry; leaving it out leaves the others."""
    write(folder, *entries, context=context)
    with pytest.raises(ValueError) as error:
        read(folder, split, name)
    kept, lines = read(folder, split, name, skip=True)
    assert len(kept) == len(entries) - 1 and len(lines) == 1
    return str(error.value)


def spans(*texts, null_odds=None):
    """A first candidate of each text, and a second."""
    second = predictions_lib.Candidate("none", 24, 28, 0.25, -1.0, -2.0)
    n_best = []
    for text in texts:
        start = CONTEXT.find(text) if text else -1
        end = start + len(text) if text else -1
        n_best.append(
            [predictions_lib.Candidate(text, start, end, 0.75, 1.0, 2.0), second]
        )
    return predictions_lib.AnswerSpans(n_best, null_odds)


def one(name, *answers):
    found = tuple(examples.Answer(text, CONTEXT.find(text)) for text in answers)
    origin = f"f: {name}"
    return examples.SpanExample(name, "Who?", CONTEXT, found, not answers, origin)


# ---- Settings ----


def test_kinds_metrics_and_heads_follow_from_the_version():
    first = squad_golden.task("squad1")
    assert (first.kind, first.labels) == ("span", ())
    assert first.metric_names == ("f1", "exact_match")
    assert first.head_settings() == {}
    second = squad_golden.task(
        "squad2", num_starts=3, num_ends=2, classifier_dropout_rate=0.25
    )
    assert second.kind == "answerable_span"
    assert second.metric_names == ("f1", "exact_match", "best_f1", "best_exact_match")
    expected = {"num_starts": 3, "num_ends": 2, "dropout_rate": 0.25}
    assert second.head_settings() == expected


def test_another_task_and_questions_that_fill_the_row_are_refused():
    with pytest.raises(ValueError, match="squad1, squad2.*received 'race'"):
        task_lib.SquadTask(task_config.TaskConfig("race"))
    with pytest.raises(ValueError, match="at least 36; received 35"):
        squad_golden.task("squad1", max_seq_length=35)
    assert squad_golden.task("squad1", max_seq_length=36).kind == "span"


def test_official_names_are_found_and_others_taken_for_them(tmp_path):
    for name in ("dev-v1.1.json", "train-v2.0.json", "my.json"):
        (tmp_path / name).write_text("{}")
    folder = str(tmp_path)
    first, second = squad_golden.task("squad1"), squad_golden.task("squad2")
    assert first.dev_splits == ("dev",) and first.test_splits == ()
    splits = ("train", "dev", "test")
    assert [first.has_split(folder, s) for s in splits] == [False, True, False]
    assert [second.has_split(folder, s) for s in splits] == [True, False, False]
    own = squad_golden.task("squad1", train_file="my.json", test_file="my.json")
    assert own.test_splits == ("test",)
    assert [own.has_split(folder, s) for s in splits] == [True, True, True]


# ---- Reading ----


def test_questions_are_read_in_order(tmp_path):
    write(tmp_path, entry("b"), entry("a", answers=[], is_impossible=True))
    found = read(tmp_path)
    origin = f"{tmp_path}/file.json: question "
    assert found == [
        examples.SpanExample(
            "b",
            "Who has a cat?",
            CONTEXT,
            (examples.Answer("Ann", 0),),
            False,
            f"{origin}b",
        ),
        examples.SpanExample("a", "Who has a cat?", CONTEXT, (), True, f"{origin}a"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"question": ...}, "a question must not be empty; received None"),
        ({"question": " \n"}, "a question must not be empty"),
        ({"answers": ...}, "must have a list of answers; received None"),
        ({"answers": []}, "must have an answer, or be marked with is_impossible"),
        ({"answers": [{"text": "Ann"}]}, "text and an integer answer_start"),
        (
            {"answers": [{"text": "Ann", "answer_start": True}]},
            "text and an integer answer_start",
        ),
        ({"answers": ["Ann"]}, "text and an integer answer_start"),
        ({"is_impossible": "yes"}, "is_impossible must be true or false"),
        ({"is_impossible": True}, "that is impossible must have no answers"),
    ],
)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_bad_questions_are_refused_by_file_and_id_or_left_out(
    tmp_path, split, changes, said
):
    message = refused(tmp_path, entry("q0"), entry("q7", **changes), split=split)
    assert message.startswith(f"{tmp_path}/file.json: question q7: ")
    assert said in message


def test_a_question_without_id_is_named_by_its_place(tmp_path):
    for name in (..., 7, ""):
        message = refused(tmp_path, entry("q0"), entry(id=name))
        place = "file.json: article 1, paragraph 1, question 2: "
        assert place in message and "must have an id" in message


def test_of_equal_ids_the_first_is_kept(tmp_path):
    message = refused(tmp_path, entry("q1"), entry("q1", question="Again?"))
    assert "file.json: question q1: ids must be unique" in message
    assert read(tmp_path, skip=True)[0][0].question == "Who has a cat?"


def test_an_empty_context_is_refused(tmp_path):
    message = refused(tmp_path, entry("q3"), context=" \n")
    assert "file.json: question q3: a context must not be empty" in message


def test_squad_1_refuses_impossible_questions_and_names_the_other_task(tmp_path):
    bad = entry("q2", answers=[], is_impossible=True)
    message = refused(tmp_path, entry("q1"), bad, name="squad1")
    assert "question q2: every question of SQuAD 1.1 must have an answer" in message
    assert "task.name=squad2" in message and "on_bad_example=skip" in message


@pytest.mark.parametrize(
    ("text", "start"),
    [("Eve", 0), ("Ann", 16), ("cat", -3), ("dog", 400), ("", 0), ("cat dog", 11)],
)
def test_an_answer_that_is_not_at_its_offset_is_refused(tmp_path, text, start):
    bad = entry("q9", answers=[{"text": text, "answer_start": start}])
    message = refused(tmp_path, entry("q1"), bad)
    assert "question q9: an answer must be at its offset in the context" in message


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("a cat", 8, ("a  cat", 8)),  # blanks in a row are as one
        ("cat. Bob", 11, ("cat.\nBob", 11)),
        (" Ann ", 0, ("Ann", 0)),
        ("cat", 12, ("cat", 11)),  # within the word at which it should begin
        ("cat", 11, ("cat", 11)),
    ],
)
def test_an_answer_is_taken_as_it_stands_in_its_words(tmp_path, text, start, expected):
    write(tmp_path, entry(answers=[{"text": text, "answer_start": start}]))
    (found,) = read(tmp_path)
    assert dataclasses.astuple(found.answers[0]) == expected


def test_offsets_do_not_matter_where_only_texts_are_compared(tmp_path):
    write(tmp_path, entry(answers=[{"text": "a cat", "answer_start": 3}]))
    (found,) = read(tmp_path, split="dev")
    assert found.answers == (examples.Answer("a cat", 3),)


def test_a_test_file_needs_no_answers(tmp_path):
    write(tmp_path, entry("q1", answers=...), entry("q2"))
    for name in ("squad1", "squad2"):
        found = read(tmp_path, "test", name)
        assert [(e.answers, e.is_impossible) for e in found] == [((), False)] * 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b'{"data": [\n}',
            "file.json must be JSON; it is damaged (Expecting value: line 2 ",
        ),
        (
            b'{"data": "\xff"}',
            "file.json must be JSON; it is damaged ('utf-8' codec can't decode byte",
        ),
        (b"[]", "file.json: must have a list 'data'"),
        (b'{"data": [{}]}', "file.json: article 1: must have a list 'paragraphs'"),
        (
            b'{"data": [{"paragraphs": [{"qas": []}]}]}',
            "article 1, paragraph 1: must have a text 'context'",
        ),
        (
            b'{"data": [{"paragraphs": [{"context": "x"}]}]}',
            "article 1, paragraph 1: must have a list 'qas'",
        ),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, content, said):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(ValueError) as error:
        read(tmp_path)
    assert said in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="train-v1.1.json: there is no such file"):
        squad_golden.task("squad1").read(
            str(tmp_path), "train", examples.Problems(skip=True)
        )


# ---- From examples to files ----


def collected(task, testdata):
    """The questions of the original's figures, and what is found for them."""
    path = testdata / "tokenization" / "spm_small.model"
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(path))
    found = squad_golden.questions()
    features = task.encode(found, tokenizer, is_training=False)
    results = squad_golden.arrays(f"{task.settings.name}_results")
    return found, task.postprocess(found, features, results)


def test_predictions_and_scores_of_squad_1_equal_the_original(testdata):
    task = squad_golden.task("squad1")
    found, result = collected(task, testdata)
    original = squad_golden.expected("squad1")
    expected = [original["predictions"][example.id] for example in found]
    assert task.predicted_answers(result) == expected
    # The original scored only the questions that have an answer.
    kept = [i for i, example in enumerate(found) if example.answers]
    scores = task.compute_metrics(
        [found[i] for i in kept],
        predictions_lib.AnswerSpans([result.n_best[i] for i in kept], None),
    )
    assert 100 * scores["f1"] == pytest.approx(original["metrics"]["f1"])
    exact = original["metrics"]["exact_match"]
    assert 100 * scores["exact_match"] == pytest.approx(exact)


def test_predictions_of_squad_2_equal_the_original_but_at_the_threshold(testdata):
    task = squad_golden.task("squad2")
    found, result = collected(task, testdata)
    original = squad_golden.expected("squad2")
    threshold = task.calibrate(found, result)["null_odds_threshold"]
    assert threshold == original["metrics"]["null_score_diff_threshold"]
    ours, theirs = task.predicted_answers(result), original["predictions"]
    differ = [
        (example.id, text, theirs[example.id])
        for example, text in zip(found, ours, strict=True)
        if text != theirs[example.id]
    ]
    assert differ == [("q041", "another prominent", "")]
    # It is right, so that what was found as the best is reached; there it is not.
    scores = task.compute_metrics(found, result)
    assert scores["f1"] == pytest.approx(scores["best_f1"])
    assert 100 * scores["f1"] == pytest.approx(original["metrics"]["f1"] + 100 / 49)
    # Just below the threshold all is as there.
    task.null_odds_threshold = float(np.nextafter(threshold, -np.inf))
    assert task.predicted_answers(result) == [theirs[example.id] for example in found]
    scores = task.compute_metrics(found, result)
    assert 100 * scores["f1"] == pytest.approx(original["metrics"]["f1"])
    assert 100 * scores["exact_match"] == pytest.approx(original["metrics"]["exact"])


def test_answers_above_null_odds_of_1_count_where_the_threshold_allows_them():
    task = squad_golden.task("squad2")
    found, result = [one("a", "Ann")], spans("Ann", null_odds=[2.5])
    assert task.calibrate(found, result)["null_odds_threshold"] == 2.5
    assert task.compute_metrics(found, result)["f1"] == 1.0


def test_scores_of_squad_2_are_of_the_predictions_at_the_threshold():
    task = squad_golden.task("squad2")
    found = [one("a", "Ann"), one("b"), one("c", "no dog")]
    result = spans("Ann", "cat", "dog", null_odds=[2.0, -1.0, -3.0])
    assert task.null_odds_threshold == 0.0
    assert task.predicted_answers(result) == ["", "cat", "dog"]
    scores = task.compute_metrics(found, result)
    assert scores == {
        "f1": pytest.approx(2 / 9),  # "dog" of "no dog" has 2/3
        "exact_match": 0.0,
        "has_answer_f1": pytest.approx(1 / 3),
        "has_answer_exact_match": 0.0,
        "no_answer_f1": 0.0,
        "no_answer_exact_match": 0.0,
        "best_f1": pytest.approx(5 / 9),
        "best_exact_match": pytest.approx(1 / 3),
    }
    assert task.calibrate(found, result)["null_odds_threshold"] == -3.0
    assert task.predicted_answers(result) == ["", "", "dog"]
    assert task.compute_metrics(found, result)["f1"] == pytest.approx(5 / 9)


def test_parts_without_questions_have_no_score():
    task = squad_golden.task("squad2")
    scores = task.compute_metrics([one("a", "Ann")], spans("Ann", null_odds=[-1.0]))
    assert scores["has_answer_f1"] == 1.0 and "no_answer_f1" not in scores


def test_answers_say_what_was_found():
    task = squad_golden.task("squad2")
    found = [one("a", "Ann has", "Ann"), one("b"), one("c")]
    found[2] = dataclasses.replace(found[2], is_impossible=False)  # not known
    result = spans("Ann", "cat", "dog", null_odds=[-1.0, 2.0, -3.0])
    answers = task.answers(found, result)
    assert json.loads(json.dumps(answers)) == answers
    assert answers[0] == {
        "id": "a",
        "question": "Who?",
        "context": CONTEXT,
        "prediction": "Ann",
        "start": 0,
        "end": 3,
        "probability": 0.75,
        "answers": [{"text": "Ann has", "start": 0}, {"text": "Ann", "start": 0}],
        "is_correct": True,
        "f1": 1.0,
        "null_odds": -1.0,
    }
    none = answers[1]
    assert (none["prediction"], none["start"], none["end"]) == ("", -1, -1)
    assert none["is_correct"] and none["answers"] == []
    assert none["probability"] == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert not {"answers", "is_correct", "f1"} & set(answers[2])
    first = squad_golden.task("squad1").answers(found[:1], spans("Ann"))
    assert "null_odds" not in first[0]


def test_files_are_those_of_the_official_scripts(tmp_path):
    task = squad_golden.task("squad2")
    found = [one("a", "Ann"), one("b\ud800")]
    result = spans("Ann", "cat", null_odds=[-1.0, 2.5])
    folder = tmp_path / "new" / "dev"
    paths = task.write_predictions("dev", found, result, str(folder))
    names = ["predictions.json", "nbest_predictions.json", "null_odds.json"]
    assert paths == [str(folder / name) for name in names]
    predictions, n_best, null_odds = (
        json.loads((folder / name).read_text()) for name in names
    )
    assert predictions == {"a": "Ann", "b\ud800": ""}
    assert null_odds == {"a": -1.0, "b\ud800": 2.5}
    assert list(n_best) == ["a", "b\ud800"]
    assert n_best["a"][0] == {
        "text": "Ann",
        "probability": 0.75,
        "start_log_prob": 1.0,
        "end_log_prob": 2.0,
    }
    assert [candidate["text"] for candidate in n_best["b\ud800"]] == ["cat", "none"]
    first = squad_golden.task("squad1")
    paths = first.write_predictions("dev", found[:1], spans("Ann"), str(tmp_path))
    assert paths == [str(tmp_path / name) for name in names[:2]]


def test_outputs_of_another_task_are_refused():
    scores = predictions_lib.Logits(np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="must be AnswerSpans.*received Logits"):
        squad_golden.task("squad1").predicted_answers(scores)


def test_real_files_are_read_whole(shared_data):
    folder = str(shared_data / "squad")
    for name, split, file, expected in (
        ("squad1", "train", "train-v1.1-merged.json", (10858, 0)),
        ("squad1", "dev", "dev-v1.1-3articles.json", (700, 0)),
        ("squad2", "train", "v2.0-split-train12articles.json", (4449, 2342)),
        ("squad2", "dev", "v2.0-split-dev4articles.json", (1629, 826)),
    ):
        task = squad_golden.task(name, **{f"{split}_file": file})
        found = task.read(folder, split, examples.Problems(skip=False))
        assert (len(found), sum(e.is_impossible for e in found)) == expected
