"""One's own tables are read in three formats, and mistakes in them named."""

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import predictions, table

FILES = {
    "train_file": "train.tsv",
    "dev_file": "dev.tsv",
    "test_file": "test.tsv",
}


def task(labels=(), **settings) -> table.TableTask:
    settings = {**FILES, **settings}
    return table.TableTask(task_config.TaskConfig(name="table", **settings), labels)


def write(folder, name: str, *lines: str):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), newline="")
    return path


def read(one, folder, split="train", skip=False):
    problems = examples_lib.Problems(skip)
    return one.read(str(folder), split, problems), problems.lines()


def content(examples):
    return [(e.id, e.text_a, e.text_b, e.label) for e in examples]


def test_a_tsv_takes_quotes_as_they_are(tmp_path):
    path = write(tmp_path, "train.tsv", "label\ttext", 'good\t"A" b', 'bad\t"c', "", "")
    one = task()
    examples, _ = read(one, tmp_path)
    assert content(examples) == [("0", '"A" b', None, "good"), ("1", '"c', None, "bad")]
    assert examples[1].origin == f"{path}:3"
    assert one.labels == ("bad", "good")


def test_a_csv_honours_quotes_and_line_ends_within_them(tmp_path):
    lines = ["text,label,more", '"a, ""b""\nc",x,1', "d,y,2"]
    path = write(tmp_path, "train.csv", *lines)
    examples, _ = read(task(train_file="train.csv"), tmp_path)
    assert content(examples) == [("0", 'a, "b"\nc', None, "x"), ("1", "d", None, "y")]
    assert [e.origin for e in examples] == [f"{path}:2", f"{path}:4"]


def test_json_lines_have_labels_of_any_kind(tmp_path):
    write(
        tmp_path,
        "train.jsonl",
        '{"q": "a\\tb", "p": "c", "y": 1, "n": 7}',
        '{"q": "d", "p": "e", "y": true, "n": "x", "more": [1]}',
        '{"q": "f", "p": "g", "y": "1.0", "n": "y"}',
    )
    columns = {
        "text_column": "q",
        "pair_column": "p",
        "label_column": "y",
        "id_column": "n",
    }
    one = task(train_file="train.jsonl", **columns)
    assert content(read(one, tmp_path)[0]) == [
        ("7", "a\tb", "c", "1"),
        ("x", "d", "e", "true"),
        ("y", "f", "g", "1.0"),
    ]
    assert one.labels == ("1", "1.0", "true")


def test_columns_are_named_by_settings(tmp_path):
    write(tmp_path, "train.tsv", "k\tb\ta\ty", "i\tB\tA\t1", "j\tD\tC\t0")
    one = task(
        text_column="a",
        pair_column="b",
        label_column="y",
        id_column="k",
        kind="regression",
    )
    assert content(read(one, tmp_path)[0]) == [("i", "A", "B", 1.0), ("j", "C", "D", 0)]
    assert one.labels == ()


def test_labels_of_a_trained_model_are_kept(tmp_path):
    write(tmp_path, "train.tsv", "text\tlabel", "a\tx", "b\ty")
    one = task(labels=("y", "x", "w"))
    read(one, tmp_path)
    assert one.labels == ("y", "x", "w")
    assert one.head_settings() == {"num_classes": 3, "dropout_rate": 0.1}


def test_classes_come_from_the_training_file(tmp_path):
    write(tmp_path, "dev.tsv", "text\tlabel", "a\tx", "b\tz")
    write(tmp_path, "train.tsv", "text\tlabel", "a\tx", "b\ty")
    one = task()
    with pytest.raises(ValueError, match="classes must be known.*Read the training"):
        read(one, tmp_path, "dev")
    with pytest.raises(ValueError, match="classes must be known"):
        one.head_settings()
    read(one, tmp_path)
    with pytest.raises(ValueError, match="dev.tsv:3: the label must be one of x, y; "):
        read(one, tmp_path, "dev")
    assert len(read(one, tmp_path, "dev", skip=True)[0]) == 1


def test_one_class_is_not_enough(tmp_path):
    write(tmp_path, "train.tsv", "text\tlabel", "a\tx", "b\tx")
    with pytest.raises(
        ValueError, match="train.tsv: .*at least two classes; received x"
    ):
        read(task(), tmp_path)


def test_a_test_file_may_have_labels_or_none(tmp_path):
    one = task(labels=("x", "y"))
    write(tmp_path, "test.tsv", "text", "a", "b")
    assert content(read(one, tmp_path, "test")[0]) == [
        ("0", "a", None, None),
        ("1", "b", None, None),
    ]
    write(tmp_path, "test.tsv", "text\tlabel", "a\tx", "b\t")
    assert [e.label for e in read(one, tmp_path, "test")[0]] == ["x", None]
    write(tmp_path, "test.jsonl", '{"text": "a", "label": "y"}', '{"text": "b"}')
    one = task(labels=("x", "y"), test_file="test.jsonl")
    assert [e.label for e in read(one, tmp_path, "test")[0]] == ["y", None]


def test_a_file_without_a_name_is_found_by_its_ending(tmp_path):
    one = task(train_file="", dev_file="")
    write(tmp_path, "train.csv", "text,label", '"a, b",x', "c,y")
    examples, _ = read(one, tmp_path)
    assert [example.text_a for example in examples] == ["a, b", "c"]
    assert not one.has_split(str(tmp_path), "dev")
    write(tmp_path, "dev.jsonl", '{"text": "a", "label": "x"}')
    assert one.has_split(str(tmp_path), "dev")


def test_files_must_be_there(tmp_path):
    one = task(train_file="", dev_file="none.tsv", test_file="text.txt")
    write(tmp_path, "text.txt", "text")
    for split in ("train", "dev"):
        assert not one.has_split(str(tmp_path), split)
    assert one.has_split(str(tmp_path), "test")
    with pytest.raises(
        ValueError, match="train.jsonl: no such .*--set task.train_file=NAME"
    ):
        read(one, tmp_path)
    one = task(labels=("x", "y"), dev_file="none.tsv", test_file="text.txt")
    with pytest.raises(
        ValueError, match="none.tsv: no such .*--set task.dev_file=NAME"
    ):
        read(one, tmp_path, "dev")
    with pytest.raises(ValueError, match="must end in .tsv, .csv, .jsonl; received 't"):
        read(one, tmp_path, "test")


def test_a_missing_column_names_its_setting(tmp_path):
    write(tmp_path, "train.tsv", "text\tlabels", "a\tx")
    with pytest.raises(
        ValueError,
        match="train.tsv:1: .*column 'label'; received text, labels.*label_column=NAME",
    ):
        read(task(), tmp_path)
    write(tmp_path, "train.tsv", "text\tlabel\ttext", "a\tx\tb")
    with pytest.raises(ValueError, match="there must be one column 'text'"):
        read(task(), tmp_path)


def test_a_name_of_several_lines_is_shown_in_one(tmp_path):
    (tmp_path / "train.csv").write_text('"xt,\n\n label\n"\na\n')
    one = task(train_file="train.csv")
    with pytest.raises(ValueError, match="received xt, label. Name") as raised:
        read(one, tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_an_empty_table_is_told_what_it_begins_with(tmp_path, ending):
    path = tmp_path / f"train.{ending}"
    path.write_text("\n")
    with pytest.raises(ValueError, match="train.* is empty; the first line must name"):
        read(task(train_file=path.name), tmp_path)


GOOD = {
    "tsv": ("text\tlabel", "a\tx", "b\ty"),
    "csv": ("text,label", "a,x", "b,y"),
    "jsonl": ('{"text": "a", "label": "x"}', '{"text": "b", "label": "y"}'),
}


@pytest.mark.parametrize(
    ("ending", "row", "rule"),
    [
        ("tsv", "c", "a row must have 2 columns"),
        ("tsv", "c\tx\ty", "a row must have 2 columns"),
        ("tsv", " \tx", "a text must not be empty"),
        ("tsv", "c\t", "a label must not be empty"),
        ("csv", "c", "a row must have 2 columns"),
        ("csv", ",x", "a text must not be empty"),
        ("jsonl", "c", "a line must be a JSON object"),
        ("jsonl", "[1]", "a line must be a JSON object"),
        ("jsonl", '{"text": "c", "label": NaN}', "a line must be a JSON object"),
        ("jsonl", '{"label": "x"}', "a line must have the key 'text'"),
        ("jsonl", '{"text": "c"}', "a line must have the key 'label'"),
        ("jsonl", '{"text": 3, "label": "x"}', "'text' must be text"),
        ("jsonl", '{"text": "c", "label": null}', "a label must not be empty"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_or_left_out(tmp_path, ending, row, rule):
    *first, last = GOOD[ending]
    write(tmp_path, f"train.{ending}", *first, row, last)
    one = task(train_file=f"train.{ending}")
    with pytest.raises(ValueError) as error:
        read(one, tmp_path)
    assert f"train.{ending}:{len(first) + 1}: {rule}" in str(error.value)
    examples, left_out = read(one, tmp_path, skip=True)
    assert [example.text_a for example in examples] == ["a", "b"]
    assert left_out[0].startswith(f"skipped 1: {rule}")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"text": "c", "label": NaN}', r"\(numbers must be finite: NaN\)\. Fix it"),
        ('{"text": "c", "text": "d"}', r"\(an object has the name 'text' twice\)\. F"),
    ],
)
def test_what_is_wrong_with_a_json_line_is_said(tmp_path, row, reason):
    write(tmp_path, "train.jsonl", *GOOD["jsonl"], row)
    with pytest.raises(ValueError, match=f"train.jsonl:3: a line must be .*{reason}"):
        read(task(train_file="train.jsonl"), tmp_path)


def test_a_column_without_a_name_is_no_column_of_ids(tmp_path):
    # As pandas writes a table, here two that were joined.
    write(tmp_path, "train.csv", ",text,label", "0,a,x", "1,b,y", "0,c,x")
    examples, _ = read(task(train_file="train.csv"), tmp_path)
    assert [e.id for e in examples] == ["0", "1", "2"]


@pytest.mark.parametrize("key", ["text_column", "label_column"])
def test_a_column_that_is_needed_has_a_name(key):
    with pytest.raises(ValueError, match=f"task.{key} must name a column"):
        task(**{key: ""})


def test_an_id_stands_once(tmp_path):
    write(tmp_path, "train.tsv", "id\ttext\tlabel", "k\ta\tx", "k\tb\ty")
    with pytest.raises(
        ValueError, match="train.tsv:3: ids must be unique.*'k'. the first is at .*:2"
    ):
        read(task(id_column="id"), tmp_path)


def test_a_number_that_is_none_is_refused(tmp_path):
    write(tmp_path, "train.tsv", "text\tlabel", "a\t1e3", "b\tmuch")
    with pytest.raises(
        ValueError, match="train.tsv:3: the label must be a number; rec"
    ):
        read(task(kind="regression"), tmp_path)


def test_a_csv_with_a_quote_astray_names_the_line(tmp_path):
    write(tmp_path, "train.csv", "text,label", "a,x", '"b" c,y')
    with pytest.raises(ValueError, match="train.csv:3: rows must be CSV"):
        read(task(train_file="train.csv"), tmp_path)
    write(tmp_path, "train.csv", "text,label", "a,x", '"b,y', "c,x")
    with pytest.raises(ValueError, match="train.csv:3: rows must be CSV"):
        read(task(train_file="train.csv"), tmp_path)


def test_a_cell_may_be_long(tmp_path):
    text = " ".join(["word"] * 50_000)
    write(tmp_path, "train.csv", "text,label", f"{text},x", "b,y")
    assert read(task(train_file="train.csv"), tmp_path)[0][0].text_a == text


def test_text_that_is_not_utf_8_names_the_line(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"text\tlabel\na\tx\n\xff\ty\n")
    with pytest.raises(ValueError, match="train.tsv:3: text files must be UTF-8"):
        read(task(), tmp_path)


def example(number, label, text="a"):
    return examples_lib.TextExample(number, text, None, label, f"f:{number}")


def test_classes_are_scored_and_written(tmp_path):
    one = task(labels=("x", "y", "z"))
    assert one.metric_names == ("accuracy", "macro_f1", "matthews")
    examples = [example("i", "x"), example("j\t1", "y"), example("k", "z")]
    values = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32)
    found = one.compute_metrics(examples, predictions.Logits(values))
    assert list(found) == list(one.metric_names)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert one.answers(examples, predictions.Logits(values))[2]["is_correct"] is False
    (path,) = one.write_predictions(
        "test", examples, predictions.Logits(values), str(tmp_path)
    )
    assert path == str(tmp_path / "predictions-test.tsv")
    assert (tmp_path / "predictions-test.tsv").read_text() == (
        "id\tprediction\tprobability\n"
        "i\tx\t0.576117\n"
        "j 1\ty\t0.576117\n"
        "k\tx\t0.576117\n"
    )


def test_numbers_are_scored_and_written(tmp_path):
    one = task(kind="regression")
    assert one.metric_names == ("pearson", "spearman")
    assert one.head_settings() == {"dropout_rate": 0.1}
    examples = [example("i", 1.0), example("j", 2.0)]
    values = predictions.Logits(np.array([[2.0], [4.25]], np.float32))
    assert one.compute_metrics(examples, values) == {
        "pearson": pytest.approx(1.0),
        "spearman": pytest.approx(1.0),
        "mean_squared_error": pytest.approx((1 + 2.25**2) / 2),
    }
    one.write_predictions("dev", examples, values, str(tmp_path))
    written = (tmp_path / "predictions-dev.tsv").read_text()
    assert written == "id\tprediction\ni\t2\nj\t4.25\n"


def test_what_has_no_label_cannot_be_scored():
    one = task(labels=("x", "y"))
    values = predictions.Logits(np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="f:k: .*must have a label"):
        one.compute_metrics([example("k", None)], values)
    assert "label" not in one.answers([example("k", None)], values)[0]
