"""GLUE's files are read as they are downloaded, and answered as its site asks."""

import io
import json
import zipfile

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import glue, glue_archive, predictions
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import real_archives

MNLI_COMMON = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
INDEXED = "index\tsentence1\tsentence2"

# The lines of a file, and what is read: id, texts, label.
FILES = {
    ("cola", "train", "CoLA/train.tsv"): (
        ['gj04\t1\t\tHe said "go.', "gj04\t0\t*\tThem went."],
        [("0", 'He said "go.', None, "1"), ("1", "Them went.", None, "0")],
    ),
    ("cola", "test", "CoLA/test.tsv"): (
        ["index\tsentence", "7\tBill left."],
        [("7", "Bill left.", None, None)],
    ),
    ("sst2", "dev", "SST-2/dev.tsv"): (
        ["sentence\tlabel", "a charming journey . \t1", "bleak \t0"],
        [("0", "a charming journey . ", None, "1"), ("1", "bleak ", None, "0")],
    ),
    ("sst2", "test", "SST-2/test.tsv"): (
        ["index\tsentence", "0\tuneasy ."],
        [("0", "uneasy .", None, None)],
    ),
    ("mrpc", "dev", "MRPC/dev.tsv"): (
        [
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            '1\t11\t12\tHe said .\t" He did say .',
            "0\t13\t14\tA\tB\r",
        ],
        [("0", "He said .", '" He did say .', "1"), ("1", "A", "B", "0")],
    ),
    ("mrpc", "test", "MRPC/test.tsv"): (
        ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", "5\t11\t12\tA\tB"],
        [("5", "A", "B", None)],
    ),
    ("stsb", "train", "STS-B/train.tsv"): (
        [f"{STSB}\tscore", "3\tnews\tx\t2012\t0001\tnone\tnone\tA\tB\t3.800"],
        [("3", "A", "B", 3.8)],
    ),
    ("stsb", "test", "STS-B/test.tsv"): (
        [STSB, "4\tnews\tx\t2012\t0001\tnone\tnone\tA\tB"],
        [("4", "A", "B", None)],
    ),
    ("qqp", "train", "QQP/train.tsv"): (
        ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "9\t1\t2\tA?\tB?\t1"],
        [("9", "A?", "B?", "1")],
    ),
    ("qqp", "test", "QQP/test.tsv"): (
        ["id\tquestion1\tquestion2", "0\tA?\tB?"],
        [("0", "A?", "B?", None)],
    ),
    ("mnli", "train", "MNLI/train.tsv"): (
        [
            f"{MNLI_COMMON}\tlabel1\tgold_label",
            "2\t_\t_\t_\t_\t_\t_\t_\tA\tB\tneutral\tentailment",
        ],
        [("2", "A", "B", "entailment")],
    ),
    ("mnli", "dev_mismatched", "MNLI/dev_mismatched.tsv"): (
        [
            f"{MNLI_COMMON}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
            "2\t_\t_\t_\t_\t_\t_\t_\tA\tB\tneutral\tneutral\tneutral\tneutral\tneutral"
            "\tcontradiction",
        ],
        [("2", "A", "B", "contradiction")],
    ),
    ("mnli", "test_matched", "MNLI/test_matched.tsv"): (
        [MNLI_COMMON, "2\t_\t_\t_\t_\t_\t_\t_\tA\tB"],
        [("2", "A", "B", None)],
    ),
    ("mnli", "diagnostic", "diagnostic/diagnostic.tsv"): (
        [INDEXED, "0\tA\tB"],
        [("0", "A", "B", None)],
    ),
    ("qnli", "dev", "QNLI/dev.tsv"): (
        ["index\tquestion\tsentence\tlabel", "0\tA?\tB\tnot_entailment"],
        [("0", "A?", "B", "not_entailment")],
    ),
    ("rte", "train", "RTE/train.tsv"): (
        [f"{INDEXED}\tlabel", "0\tA\tB\tentailment"],
        [("0", "A", "B", "entailment")],
    ),
    ("wnli", "test", "WNLI/test.tsv"): ([INDEXED, "0\tA\tB"], [("0", "A", "B", None)]),
}
# Rows of the complete files in shared/data; the tasks that are cut down there are left
# out.
REAL_COUNTS = {
    "cola": (8551, 1043, 1063),
    "sst2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "stsb": (5749, 1500, 1379),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
}


def task(name: str, **settings) -> glue.GlueTask:
    return glue.GlueTask(task_config.TaskConfig(name=name, **settings))


def write(folder, path: str, lines: list[str]):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{line}\n" for line in lines), newline="")
    return target


def read(one: glue.GlueTask, folder, split: str, skip: bool = False):
    problems = examples_lib.Problems(skip)
    return one.read(str(folder), split, problems), problems.lines()


def scores_of(*rows) -> predictions.Logits:
    return predictions.Logits(np.array(rows, np.float32))


@pytest.mark.parametrize(("name", "split", "path"), list(FILES))
def test_the_official_layouts_are_read(tmp_path, name, split, path):
    lines, expected = FILES[name, split, path]
    written = write(tmp_path, path, lines)
    assert task(name).has_split(str(tmp_path), split)
    examples, left_out = read(task(name), tmp_path, split)
    assert [(e.id, e.text_a, e.text_b, e.label) for e in examples] == expected
    assert examples[-1].origin == f"{written}:{len(lines)}"
    assert left_out == []
    # The task's own folder serves as well as the download.
    if split != "diagnostic":
        own = str(written.parent)
        assert read(task(name), own, split)[0][0].text_a == examples[0].text_a


@pytest.mark.parametrize(
    ("name", "labels", "metrics", "kind"),
    [
        ("cola", ("0", "1"), ("matthews",), "classification"),
        ("sst2", ("0", "1"), ("accuracy",), "classification"),
        ("mrpc", ("0", "1"), ("accuracy", "f1"), "classification"),
        ("stsb", (), ("pearson", "spearman"), "regression"),
        ("qqp", ("0", "1"), ("accuracy", "f1"), "classification"),
        (
            "mnli",
            ("contradiction", "entailment", "neutral"),
            ("accuracy",),
            "classification",
        ),
        ("qnli", ("entailment", "not_entailment"), ("accuracy",), "classification"),
        ("rte", ("entailment", "not_entailment"), ("accuracy",), "classification"),
        ("wnli", ("0", "1"), ("accuracy",), "classification"),
    ],
)
def test_labels_metrics_and_heads(name, labels, metrics, kind):
    one = task(name, classifier_dropout_rate=0.25)
    assert (one.labels, one.metric_names, one.kind) == (labels, metrics, kind)
    head = {"num_classes": len(labels)} if labels else {}
    assert one.head_settings() == {**head, "dropout_rate": 0.25}


def test_label_ids_are_those_of_the_original(testdata):
    golden = json.loads((testdata / "ft" / "glue_pair_features.json").read_text())
    assert {pair["label"]: pair["label_id"] for pair in golden} == {"neutral": 2}
    assert task("mnli").labels.index("neutral") == 2


def test_splits_of_mnli_and_of_the_others():
    one = task("mnli")
    assert one.dev_splits == ("dev_matched", "dev_mismatched")
    assert one.test_splits == ("test_matched", "test_mismatched", "diagnostic")
    assert task("rte").dev_splits == ("dev",)
    assert task("rte").test_splits == ("test",)


@pytest.mark.parametrize(
    "path",
    ["diagnostic.tsv", "diagnostic/diagnostic.tsv", "../diagnostic/diagnostic.tsv"],
)
def test_the_diagnostic_set_may_lie_in_three_places(tmp_path, path):
    folder = tmp_path / "MNLI"
    folder.mkdir()
    assert not task("mnli").has_split(str(folder), "diagnostic")
    write(folder, path, [INDEXED, "0\tA\tB"])
    assert task("mnli").has_split(str(folder), "diagnostic")
    assert len(read(task("mnli"), folder, "diagnostic")[0]) == 1


def test_settings_name_other_files(tmp_path):
    header = f"{INDEXED}\tlabel"
    for name in ("a", "b"):
        write(tmp_path, f"RTE/{name}.tsv", [header, f"0\t{name}\tB\tentailment"])
    write(tmp_path, "RTE/c.tsv", [INDEXED, "0\tc\tB"])
    one = task("rte", train_file="a.tsv", dev_file="b.tsv", test_file="c.tsv")
    for split, expected in (("train", "a"), ("dev", "b"), ("test", "c")):
        assert read(one, tmp_path, split)[0][0].text_a == expected
    one = task("mnli", dev_file="x.tsv")
    with pytest.raises(ValueError, match="MNLI/x.tsv.*--set task.dev_file=NAME"):
        read(one, tmp_path, "dev_matched")
    with pytest.raises(ValueError, match="MNLI/dev_mismatched.tsv"):
        read(one, tmp_path, "dev_mismatched")


def test_a_missing_file_names_the_setting(tmp_path):
    assert not task("rte").has_split(str(tmp_path), "train")
    with pytest.raises(
        ValueError, match="RTE/train.tsv.*no such file.*--set task.train_file=NAME"
    ):
        read(task("rte"), tmp_path, "train")


def test_a_missing_column_is_named(tmp_path):
    write(tmp_path, "RTE/train.tsv", [INDEXED, "0\tA\tB"])
    with pytest.raises(ValueError, match=r"train.tsv:1: .*column 'label'; received in"):
        read(task("rte"), tmp_path, "train")


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("1\tA\tB", "a row must have 4 columns"),
        ("1\tA\tB\tC\tentailment", "a row must have 4 columns"),
        ("1\tA\tB\tmaybe", "the label must be one of entailment, not_entailment"),
        ("1\tA\tB\t", "the label must be one of"),
        ("1\t \tB\tentailment", "a text must not be empty"),
        ("1\tA\t\tentailment", "a text must not be empty"),
        ("0\tA\tB\tentailment", "ids must be unique"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_or_left_out(tmp_path, row, rule):
    first, last = "0\tA\tB\tentailment", "2\tC\tD\tentailment"
    write(tmp_path, "RTE/train.tsv", [f"{INDEXED}\tlabel", first, row, last])
    with pytest.raises(ValueError, match=f"train.tsv:3: {rule}"):
        read(task("rte"), tmp_path, "train")
    examples, left_out = read(task("rte"), tmp_path, "train", skip=True)
    assert [example.id for example in examples] == ["0", "2"]
    assert len(left_out) == 1
    assert left_out[0].startswith(f"skipped 1: {rule}")


@pytest.mark.parametrize("number", ["much", "nan", "inf", ""])
def test_a_number_that_is_none_is_refused(tmp_path, number):
    row = f"3\tnews\tx\t2012\t0001\tnone\tnone\tA\tB\t{number}"
    write(tmp_path, "STS-B/dev.tsv", [f"{STSB}\tscore", row])
    with pytest.raises(ValueError, match="dev.tsv:2: the label must be a number"):
        read(task("stsb"), tmp_path, "dev")


def test_a_test_file_may_have_empty_texts_since_all_must_be_answered(tmp_path):
    write(tmp_path, "QQP/test.tsv", ["id\tquestion1\tquestion2", "0\tA?\t", "1\tA\tB"])
    assert len(read(task("qqp"), tmp_path, "test")[0]) == 2


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(b"index\tsentence1\tsentence2\tlabel\n0\tA\tB\xe9\tentailment\n")
    with pytest.raises(ValueError, match=r"train.tsv:2: .*UTF-8; received .*xe9"):
        read(task("rte"), tmp_path, "train")


def test_a_file_without_examples_is_refused(tmp_path):
    write(tmp_path, "train.tsv", [f"{INDEXED}\tlabel"])
    with pytest.raises(ValueError, match="train.tsv: .*must contain an example"):
        read(task("rte"), tmp_path, "train")
    (tmp_path / "train.tsv").write_text("")
    with pytest.raises(ValueError, match="train.tsv:1: .*column"):
        read(task("rte"), tmp_path, "train")


def test_rows_in_training_hold_labels_and_else_none(tmp_path, testdata):
    path = testdata / "tokenization" / "spm_small.model"
    tokenizer = tokenizer_lib.Tokenizer.from_file(str(path))
    example = examples_lib.TextExample("0", "is", "in", "neutral", "f:2")
    one = task("mnli")
    features = one.encode([example], tokenizer, is_training=True)
    assert features.ids.tolist() == [2, 38, 3, 20, 3]
    assert features.per_row["label_ids"].tolist() == [2]
    assert features.per_row["label_ids"].dtype == np.int32
    assert one.encode([example], tokenizer, is_training=False).per_row == {}
    number = examples_lib.TextExample("0", "is", "in", 2.5, "f:2")
    features = task("stsb").encode([number], tokenizer, is_training=True)
    assert features.per_row["targets"].tolist() == [2.5]
    assert features.per_row["targets"].dtype == np.float32
    bare = examples_lib.TextExample("0", "is", "in", None, "f:2")
    with pytest.raises(ValueError, match="f:2: .*must have a label"):
        one.encode([bare], tokenizer, is_training=True)


def labelled(*labels, pair=None):
    return [
        examples_lib.TextExample(str(n), f"text {n}", pair, label, f"f:{n}")
        for n, label in enumerate(labels)
    ]


def test_scores_and_answers_of_classes():
    examples = labelled("1", "1", "0", pair="B")
    one = task("mrpc")
    logits = np.array([[0.0, 1.0], [2.0, 0.0], [3.0, 0.0]])
    found = one.postprocess(examples, None, {"logits": logits})
    assert found.values.dtype == np.float32
    assert one.compute_metrics(examples, found) == {
        "accuracy": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3),
    }
    assert one.answers(examples, found)[1] == {
        "id": "1",
        "text_a": "text 1",
        "text_b": "B",
        "prediction": "0",
        "label": "1",
        "probability": pytest.approx(0.880797, abs=1e-6),
        "is_correct": False,
    }
    unknown = one.answers(labelled(None), scores_of([0, 1]))
    assert unknown == [
        {
            "id": "0",
            "text_a": "text 0",
            "prediction": "1",
            "probability": pytest.approx(0.731059, abs=1e-6),
        }
    ]


def test_scores_and_answers_of_numbers():
    examples = labelled(1.0, 2.0, 3.0)
    one = task("stsb")
    found = one.postprocess(examples, None, {"predictions": np.array([1.0, 2.0, 6.0])})
    assert one.compute_metrics(examples, found) == {
        "pearson": pytest.approx(5 / 28**0.5),
        "spearman": pytest.approx(1.0),
    }
    assert one.answers(examples, found)[2] == {
        "id": "2",
        "text_a": "text 2",
        "prediction": 6.0,
        "label": 3.0,
    }


@pytest.mark.parametrize(
    ("name", "split", "values", "file", "expected"),
    [
        ("cola", "test", [[1, 0], [0, 1]], "CoLA.tsv", ["0", "1"]),
        ("sst2", "test", [[1, 0], [0, 1]], "SST-2.tsv", ["0", "1"]),
        ("mrpc", "test", [[1, 0], [0, 1]], "MRPC.tsv", ["0", "1"]),
        ("stsb", "test", [[-0.2], [5.4]], "STS-B.tsv", ["0.000", "5.000"]),
        ("stsb", "test", [[1.23456], [3]], "STS-B.tsv", ["1.235", "3.000"]),
        ("qqp", "test", [[1, 0], [0, 1]], "QQP.tsv", ["0", "1"]),
        (
            "mnli",
            "test_matched",
            [[1, 0, 0], [0, 0, 1]],
            "MNLI-m.tsv",
            ["contradiction", "neutral"],
        ),
        (
            "mnli",
            "test_mismatched",
            [[0, 1, 0], [0, 0, 1]],
            "MNLI-mm.tsv",
            ["entailment", "neutral"],
        ),
        (
            "mnli",
            "diagnostic",
            [[0, 1, 0], [0, 0, 1]],
            "AX.tsv",
            ["entailment", "neutral"],
        ),
        (
            "qnli",
            "test",
            [[1, 0], [0, 1]],
            "QNLI.tsv",
            ["entailment", "not_entailment"],
        ),
        ("rte", "test", [[1, 0], [0, 1]], "RTE.tsv", ["entailment", "not_entailment"]),
        ("wnli", "test", [[1, 0], [0, 1]], "WNLI.tsv", ["0", "1"]),
        ("rte", "dev", [[1, 0], [1, 0]], "RTE-dev.tsv", ["entailment"] * 2),
    ],
)
def test_predictions_are_what_the_site_takes(
    tmp_path, name, split, values, file, expected
):
    paths = task(name).write_predictions(
        split, labelled(None, None), scores_of(*values), str(tmp_path)
    )
    assert paths == [str(tmp_path / file)]
    content = (tmp_path / file).read_bytes().decode()
    assert content == f"index\tprediction\n0\t{expected[0]}\n1\t{expected[1]}\n"


def test_a_submission_holds_the_predictions_of_all_tasks(tmp_path):
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    names = list(glue.SUBMISSION_FILES)
    assert sorted(names) == [
        "AX.tsv",
        "CoLA.tsv",
        "MNLI-m.tsv",
        "MNLI-mm.tsv",
        "MRPC.tsv",
        "QNLI.tsv",
        "QQP.tsv",
        "RTE.tsv",
        "SST-2.tsv",
        "STS-B.tsv",
        "WNLI.tsv",
    ]
    for number, name in enumerate(names):
        write(
            tmp_path, f"{'ab'[number % 2]}/{name}", ["index\tprediction", f"0\t{name}"]
        )
    write(tmp_path, "a/RTE-dev.tsv", ["index\tprediction"])  # no matter
    path = tmp_path / "submission.zip"
    packed = glue_archive.pack(folders, str(path))
    assert len(packed) == 11
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        assert archive.namelist() == names
        assert archive.read("AX.tsv") == b"index\tprediction\n0\tAX.tsv\n"
    again = tmp_path / "again.zip"
    glue_archive.pack(folders[::-1], str(again))
    assert again.read_bytes() == path.read_bytes()

    write(tmp_path, "b/CoLA.tsv", ["index\tprediction"])
    with pytest.raises(ValueError, match="CoLA.tsv must be in one directory only"):
        glue_archive.pack(folders, str(path))
    (tmp_path / "b/CoLA.tsv").unlink()
    write(tmp_path, "a/CoLA.tsv", ["id\tprediction"])
    with pytest.raises(ValueError, match="CoLA.tsv:1: the columns must be index"):
        glue_archive.pack(folders, str(path))
    (tmp_path / "a/CoLA.tsv").unlink()
    with pytest.raises(ValueError, match="all 11 files; CoLA.tsv not found in"):
        glue_archive.pack(folders, str(path))


def test_real_files_are_read_whole(shared_data, tmp_path):
    real_archives.unpack(shared_data / "glue_data.tar.xz", tmp_path)
    folder = tmp_path / "glue_data"
    for name, counts in REAL_COUNTS.items():
        for split, count in zip(("train", "dev", "test"), counts, strict=True):
            assert len(read(task(name), folder, split)[0]) == count, (name, split)
    subsets = {"train_file": "train_subset.tsv", "dev_file": "dev_subset.tsv"}
    for name in ("qqp", "qnli"):
        one = task(name, **subsets)
        assert len(read(one, folder, "train")[0]) == 8999
        assert len(read(one, folder, "dev")[0]) == 1000
    one = task("mnli", dev_file="dev_matched_subset.tsv")
    assert len(read(one, folder, "dev_matched")[0]) == 1000
    assert len(read(one, folder, "diagnostic")[0]) == 1104
