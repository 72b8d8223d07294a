"""RACE's files become the original's rows, four a question."""

import json

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions, race
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import real_archives

ARTICLE = {
    "id": "middle7.txt",
    "article": "is in",
    "questions": ["is _ in", "is?"],
    "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
    "answers": ["B", "D"],
}


@pytest.fixture(scope="module")
def tokenizer(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    return tokenizer_lib.Tokenizer.from_file(str(path))


def task(**settings) -> race.RaceTask:
    return race.RaceTask(task_config.TaskConfig(name="race", **settings))


def write(folder, path: str, *articles):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(article) + "\n" for article in articles))


def read(one, folder, split="train", skip=False):
    problems = examples_lib.Problems(skip)
    return one.read(str(folder), split, problems), problems.lines()


def question(label, group="middle", text="is"):
    options = ("a", "b", "c", "d")
    return examples_lib.ChoiceExample("q", "in", text, options, label, group, "f:1")


def test_rows_equal_the_original(testdata, tokenizer):
    golden = json.loads((testdata / "ft" / "race_features.json").read_text())
    one = task(max_seq_length=128)
    examples, _ = read(one, testdata / "ft" / "race", "dev")
    assert len(examples) == len(golden) == 12
    assert [example.label for example in examples] == [g["label_id"] for g in golden]
    features = one.encode(examples, tokenizer, is_training=True)
    assert features.num_rows == 48
    assert features.example_index.tolist() == [n for n in range(12) for _ in range(4)]
    for number, one_golden in enumerate(golden):
        for choice in range(4):
            row = 4 * number + choice
            found = features.ids[features.span(row)].tolist()
            assert found == one_golden["input_ids"][choice]
            assert features.num_first[row] == one_golden["num_first"][choice]
            assert features.per_row["label_ids"][row] == one_golden["label_id"]
    assert features.per_row["label_ids"].dtype == np.int32


def test_an_option_fills_the_blank_or_follows_the_question(tokenizer):
    features = task().encode(
        [question(0, text="is _ in"), question(0)], tokenizer, is_training=False
    )
    texts = [tokenizer.decode(features.ids[features.span(row)]) for row in (0, 1, 4, 5)]
    assert texts == ["in is a in", "in is b in", "in is a", "in is b"]
    assert features.per_row == {}


def test_a_blank_may_be_a_full_width_line(tokenizer):
    # As in the original, which fills what normalization leaves.
    features = task().encode([question(0, text="is \uff3f in")], tokenizer, False)
    assert tokenizer.decode(features.ids[features.span(0)]) == "in is a in"


def test_options_lose_their_front_and_articles_their_end(tokenizer):
    example = examples_lib.ChoiceExample(
        "q", "is is is in", "in", ("in is is", "a", "b", "c"), 0, "high", "f:1"
    )
    ids = {"is": 38, "in": 20}
    features = task(max_seq_length=8, max_option_length=2).encode(
        [example], tokenizer, True
    )
    assert features.ids[features.span(0)].tolist() == [
        *(2, ids["is"], ids["is"], ids["is"], 3),
        *(ids["is"], ids["is"], 3),
    ]
    # An option that would fill the row alone leaves no place for the article.
    features = task(max_seq_length=8, max_option_length=99).encode(
        [question(0, text="is " * 9)], tokenizer, True
    )
    first = features.ids[features.span(0)].tolist()
    assert (len(first), first[:2], features.num_first[0]) == (8, [2, 3], 2)


def test_no_questions_give_no_rows(tokenizer):
    features = task().encode([], tokenizer, is_training=True)
    assert (features.num_rows, features.offsets.tolist()) == (0, [0])
    assert features.per_row["label_ids"].tolist() == []


def test_parts_give_the_same_rows(tokenizer, monkeypatch):
    examples = [question(n % 4, text=f"is {n}") for n in range(5)]
    whole = task().encode(examples, tokenizer, True)
    monkeypatch.setattr(race, "_CHUNK_SIZE", 2)
    parts = task().encode(examples, tokenizer, True)
    assert parts.ids.tolist() == whole.ids.tolist()
    assert parts.example_index.tolist() == whole.example_index.tolist()
    assert parts.per_row["label_ids"].tolist() == whole.per_row["label_ids"].tolist()


def test_files_are_read_by_group_and_number(tmp_path):
    for path in ("high/2.txt", "middle/10.txt", "middle/9.txt", "middle/x.txt"):
        write(tmp_path, f"RACE/train/{path}", {**ARTICLE, "id": path})
    write(tmp_path, "RACE/train/middle/notes.md", {})
    one = task()
    assert one.has_split(str(tmp_path), "train")
    assert not one.has_split(str(tmp_path), "dev")
    examples, _ = read(one, tmp_path)
    assert [e.id for e in examples][::2] == [
        "middle/9.txt-0",
        "middle/10.txt-0",
        "middle/x.txt-0",
        "high/2.txt-0",
    ]
    second = examples[1]
    assert (second.question, second.options, second.label) == (
        "is?",
        ("e", "f", "g", "h"),
        3,
    )
    assert (second.group, examples[-1].group) == ("middle", "high")
    assert second.origin.endswith("train/middle/9.txt:1: question 1")
    assert len(read(one, tmp_path / "RACE")[0]) == 8


def test_a_test_split_may_have_answers_or_none(tmp_path):
    bare = {key: value for key, value in ARTICLE.items() if key != "answers"}
    write(tmp_path, "test/high/1.txt", bare, {**ARTICLE, "id": "other"})
    labels = [e.label for e in read(task(), tmp_path, "test")[0]]
    assert labels == [None, None, 1, 3]
    write(tmp_path, "train/high/1.txt", bare)
    with pytest.raises(ValueError, match="1.txt:1: an article must have id.*answers"):
        read(task(), tmp_path)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"options": [["a", "b", "c"], ARTICLE["options"][1]]}, "question 0: .*four"),
        (
            {"options": [["a", "b", "c", ""], ARTICLE["options"][1]]},
            "question 0: .*empty",
        ),
        ({"questions": ["", "is?"]}, "question 0: question and options must be texts"),
        ({"answers": ["E", "D"]}, "question 0: an answer must be A, B, C or D"),
        ({"answers": ["B"]}, "an article must have id, article, and as many"),
        ({"questions": "is?"}, "an article must have id, article, and as many"),
        ({"article": None}, "an article must have id, article, and as many"),
        ({"article": " "}, "question 0: an article must not be empty"),
        ({"id": "z"}, "question 0: ids must be unique"),
    ],
)
def test_questions_that_cannot_be_used_are_refused_or_left_out(tmp_path, change, rule):
    good = {**ARTICLE, "id": "z"}
    write(tmp_path, "train/middle/1.txt", good, {**ARTICLE, **change})
    with pytest.raises(ValueError, match=f"1.txt:2: {rule}"):
        read(task(), tmp_path)
    examples, left_out = read(task(), tmp_path, skip=True)
    assert [e.id for e in examples][:2] == ["z-0", "z-1"]
    assert len(left_out) == 1


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(
        ValueError, match="train: .*Pass the directory of RACE's download"
    ):
        read(task(), tmp_path)
    write(tmp_path, "train/middle/1.txt", ARTICLE)
    path = tmp_path / "train/middle/2.txt"
    path.write_text("{")
    with pytest.raises(ValueError, match="2.txt:1: a line must be a JSON object"):
        read(task(), tmp_path)
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="2.txt:1: text files must be UTF-8"):
        read(task(), tmp_path)


def test_scores_are_given_for_each_group_too():
    examples = [question(0), question(1), question(2, "high")]
    one = task()
    logits = np.eye(4)[[0, 3, 2]]
    found = one.postprocess(examples, None, {"logits": logits})
    assert found.values.dtype == np.float32
    assert one.compute_metrics(examples, found) == {
        "accuracy": pytest.approx(2 / 3),
        "accuracy_middle": 0.5,
        "accuracy_high": 1.0,
    }
    only = predictions.Logits(found.values[:1])
    assert list(one.compute_metrics(examples[:1], only)) == [
        "accuracy",
        "accuracy_middle",
    ]
    assert one.metric_names == ("accuracy",)
    assert one.head_settings() == {"dropout_rate": 0.1}


def test_answers_and_files_of_predictions(tmp_path):
    examples = [question(0), question(None, "high")]
    scored = predictions.Logits(np.eye(4, dtype=np.float32)[[1, 2]])
    answers = task().answers(examples, scored)
    assert answers[0] == {
        "id": "q",
        "group": "middle",
        "context": "in",
        "question": "is",
        "options": ["a", "b", "c", "d"],
        "prediction": "B",
        "probability": pytest.approx(np.e / (np.e + 3)),
        "label": "A",
        "is_correct": False,
    }
    assert "label" not in answers[1]
    assert "is_correct" not in answers[1]
    (path,) = task().write_predictions("test", examples, scored, str(tmp_path))
    assert path == str(tmp_path / "RACE-test.tsv")
    written = (tmp_path / "RACE-test.tsv").read_text()
    assert written == "id\tprediction\nq\tB\nq\tC\n"


@pytest.mark.slow
def test_real_questions_are_read_whole(shared_data, tmp_path):
    real_archives.unpack(shared_data / "race_train_dev.tar.xz", tmp_path, "RACE/dev/")
    examples, _ = read(task(), tmp_path, "dev")
    groups = [example.group for example in examples]
    assert (len(examples), groups.count("middle")) == (4887, 1436)
