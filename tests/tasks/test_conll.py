"""Labelled words are read from CoNLL's files, scored by entities and written."""

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import conll, predictions
from albert_tf.tasks import examples as examples_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

TRAIN = """\
-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German\tJJ  B-NP B-MISC


Peter\u00a0B NNP B-NP B-PER
Smith NNP I-NP I-PER
"""
LABELS = ("B-MISC", "B-ORG", "B-PER", "I-PER", "O")


def task(labels=(), **settings) -> conll.ConllTask:
    return conll.ConllTask(task_config.TaskConfig(name="conll", **settings), labels)


def read(one, folder, split="train", skip=False):
    problems = examples_lib.Problems(skip)
    return one.read(str(folder), split, problems), problems.lines()


def sentence(words, labels=None):
    labels = None if labels is None else tuple(labels.split())
    return examples_lib.TokenExample("0", tuple(words.split()), labels, "f:1")


def one_hot(*rows):
    """Scores of which the classes named are the highest."""
    return predictions.TokenLogits([np.eye(5, dtype=np.float32)[row] for row in rows])


def test_sentences_are_parted_by_empty_lines(tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN)
    one = task()
    assert (one.labels, one.metric_names) == ((), ("accuracy",))
    examples, _ = read(one, tmp_path)
    assert [(e.id, e.words, e.labels) for e in examples] == [
        ("0", ("EU", "rejects", "German"), ("B-ORG", "O", "B-MISC")),
        ("1", ("Peter\u00a0B", "Smith"), ("B-PER", "I-PER")),
    ]
    assert [e.origin[-11:] for e in examples] == ["train.txt:3", "train.txt:8"]
    assert one.labels == LABELS
    assert one.metric_names == ("entity_f1", "accuracy")
    assert one.head_settings() == {"num_classes": 5, "dropout_rate": 0.1}


def test_labels_that_are_no_entities_are_scored_by_words(tmp_path):
    (tmp_path / "t.txt").write_text("a DT\nb NN\n")
    one = task(train_file="t.txt")
    read(one, tmp_path)
    assert one.metric_names == ("accuracy",)
    words = [sentence("a b", "DT NN")]
    assert one.compute_metrics(words, one_hot([0, 0])) == {"accuracy": 0.5}


def test_a_file_of_tabs_has_words_with_blanks(tmp_path):
    lines = "New York\tB-LOC", "# 1\tO", "", "a \t\t O ", ""
    (tmp_path / "train.txt").write_text("\n".join(lines))
    examples, _ = read(task(), tmp_path)
    assert [(e.words, e.labels) for e in examples] == [
        (("New York", "# 1"), ("B-LOC", "O")),
        (("a",), ("O",)),
    ]


@pytest.mark.parametrize("separator", [" _ _ ", "\t_\t_\t"])
def test_comments_before_a_sentence_are_not_words(tmp_path, separator):
    lines = [
        *("# id 7a domain=en", "# text = in Rome", f"in{separator}O"),
        *(f"Rome{separator}B-LOC", ""),
        # A word, as its label shows.
        *(f"#{separator}O", f"#{separator}B-LOC", "", "# id 7b domain=en", ""),
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    one = task()
    examples, _ = read(one, tmp_path)
    assert [(e.words, e.labels) for e in examples] == [
        (("in", "Rome"), ("O", "B-LOC")),
        (("#", "#"), ("O", "B-LOC")),
    ]
    assert [e.origin[-11:] for e in examples] == ["train.txt:3", "train.txt:6"]
    assert one.labels == ("B-LOC", "O")


@pytest.mark.parametrize(
    ("labels", "count"),
    [(("B-X", "I-X", "O"), 0), (("NN", "VB"), 0), (("B-X", "E-X", "O", "S-X"), 1)],
)
def test_labels_of_another_scheme_are_said(labels, count):
    notes = task(labels).notes
    assert len(notes) == count
    assert all("F1 of entities is not computed" in n and "E-X" in n for n in notes)


def test_a_test_file_may_have_the_words_alone(tmp_path):
    (tmp_path / "test.txt").write_text("EU\nrejects\n\nBerlin B-ORG\n")
    examples, _ = read(task(LABELS), tmp_path, "test")
    assert [e.labels for e in examples] == [None, ("B-ORG",)]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("alone", "a line must have a word and a label"),
        ("Berlin NNP B-LOC", "the label must be one of B-MISC, B-ORG,"),
    ],
)
def test_sentences_that_cannot_be_used_are_refused_or_left_out(tmp_path, line, rule):
    (tmp_path / "dev.txt").write_text(f"a O\n\nb O\n{line}\n\nc O\n")
    with pytest.raises(ValueError, match=f"dev.txt:4: {rule}"):
        read(task(LABELS), tmp_path, "dev")
    examples, left_out = read(task(LABELS), tmp_path, "dev", skip=True)
    assert [(e.id, e.words) for e in examples] == [("0", ("a",)), ("1", ("c",))]
    assert left_out[0].startswith(f"skipped 1: {rule}")


def test_a_missing_file_names_the_setting(tmp_path):
    assert not task().has_split(str(tmp_path), "train")
    with pytest.raises(ValueError, match="train.txt.*--set task.train_file=NAME"):
        read(task(), tmp_path)
    (tmp_path / "dev.txt").write_text("a O\n")
    assert task().has_split(str(tmp_path), "dev")
    with pytest.raises(ValueError, match="classes must be known"):
        read(task(), tmp_path, "dev")


def test_files_of_no_use_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("-DOCSTART- O\n\n")
    with pytest.raises(ValueError, match="must contain a sentence"):
        read(task(), tmp_path)
    (tmp_path / "train.txt").write_text("a O\nb O\n")
    with pytest.raises(ValueError, match="at least two classes; received O"):
        read(task(), tmp_path)
    (tmp_path / "train.txt").write_bytes(b"a O\n\xe9 O\n")
    with pytest.raises(ValueError, match="train.txt:2: text files must be UTF-8"):
        read(task(), tmp_path)


def test_rows_and_scores_of_words(testdata):
    path = testdata / "tokenization" / "spm_small.model"
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(path))
    one = task(LABELS, max_seq_length=8)
    # is: 38, Zoo: four pieces
    examples = [sentence("is Zoo is is", "O B-ORG O B-PER"), sentence("is", "I-PER")]
    features = one.encode(examples, tokenizer, is_training=True)
    assert features.ids.tolist() == [2, 38, 13, 357, 58, 58, 38, 3, 2, 38, 3]
    expected = [-1, 4, 1, -1, -1, -1, 4, -1, -1, 3, -1]
    assert features.per_token["token_label_ids"].tolist() == expected
    assert one.encode(examples, tokenizer, is_training=False).per_token == {}

    logits = np.zeros((2, 8, 5), np.float32)
    for row, place, label in ((0, 1, 4), (0, 2, 0), (0, 6, 3), (1, 1, 2)):
        logits[row, place, label] = 9.0
    found = one.postprocess(examples, features, {"logits": logits})
    assert [v.argmax(-1).tolist() for v in found.values] == [[4, 0, 3, 4], [2]]
    assert found.values[0][3].tolist() == [0, 0, 0, 0, 1]  # cut off
    with pytest.raises(ValueError, match="f:1: .*must have a label"):
        one.encode([sentence("is")], tokenizer, is_training=True)


def test_entities_and_words_are_scored():
    one = task(LABELS)
    examples = [sentence("a b c", "B-PER I-PER O"), sentence("d", "B-ORG")]
    # The first entity is found; the second takes another type.
    found = one.compute_metrics(examples, one_hot([2, 3, 4], [0]))
    assert found == {"entity_f1": 0.5, "accuracy": 0.75}


def test_answers_and_files_of_predictions(tmp_path):
    one = task(LABELS)
    examples = [sentence("a b", "B-PER O"), sentence("c")]
    scored = one_hot([2, 4], [1])
    answers = one.answers(examples, scored)
    share = pytest.approx(np.e / (np.e + 4))
    assert answers == [
        {
            "id": "0",
            "words": ["a", "b"],
            "prediction": ["B-PER", "O"],
            "probability": [share, share],
            "label": ["B-PER", "O"],
            "is_correct": True,
        },
        {"id": "0", "words": ["c"], "prediction": ["B-ORG"], "probability": [share]},
    ]
    (path,) = one.write_predictions("test", examples, scored, str(tmp_path))
    assert path == str(tmp_path / "predictions-test.txt")
    written = (tmp_path / "predictions-test.txt").read_text()
    assert written == "a\tB-PER\nb\tO\n\nc\tB-ORG\n\n"
