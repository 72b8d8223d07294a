"""Scores of files of predictions, and the files of albert_tf.finetune itself."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from albert_tf import evaluate
from albert_tf.core import task_config
from albert_tf.tasks import features, prediction_files, predictions
from tests.support import binaries


def _score(folder, name, content, split=""):
    path = folder / "predictions"
    path.write_text(content)
    settings = task_config.TaskConfig(name=name)
    return prediction_files.score(settings, str(folder), split, str(path))


@pytest.fixture
def rte(tmp_path):
    labels = ["entailment", "not_entailment", "entailment", "entailment"]
    rows = [f"{n}\ta\tb\t{label}" for n, label in enumerate(labels, 5)]
    lines = ["index\tsentence1\tsentence2\tlabel", *rows]
    (tmp_path / "dev.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def _squad(folder, name, answers):
    """Questions with the ids 0, 1, ..., each with a list of answers."""
    questions = [
        {
            "id": str(number),
            "question": "Who?",
            "is_impossible": not texts,
            "answers": [{"text": text, "answer_start": 0} for text in texts],
        }
        for number, texts in enumerate(answers)
    ]
    paragraph = {"context": "The old mill", "qas": questions}
    article = {"title": "t", "paragraphs": [paragraph]}
    values = {"version": name, "data": [article]}
    (folder / f"dev-v{name}.json").write_text(json.dumps(values))


def test_predictions_of_glue(rte):
    rows = "8\tentailment\n5\tentailment\n6\tentailment\n7\tnot_entailment\n"
    split, scores, majority = _score(rte, "rte", f"index\tprediction\n{rows}")
    assert (split, scores, majority) == ("dev", {"accuracy": 0.5}, 0.75)


def test_the_command_prints_the_share_of_the_most_frequent_label(rte, capsys):
    labels = ["entailment", "entailment", "entailment", "not_entailment"]
    rows = "".join(f"{n}\t{label}\n" for n, label in enumerate(labels, 5))
    (rte / "RTE.tsv").write_text(f"index\tprediction\n{rows}")
    binaries.run(
        evaluate, f"--predictions={rte}/RTE.tsv", "--task=rte", f"--data_dir={rte}"
    )
    assert capsys.readouterr().out == (
        "dev accuracy: 50.00 (always the most frequent label: 75.00)\n"
    )


def test_the_command_reads_the_files_as_the_recipe_does(tmp_path, capsys):
    columns = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    # A row that a line end within a question has broken, as in QQP's files.
    rows = ["0\t1\t2\ta?\tb?\t0", "1\t3\t4\ta", "2\t5\t6\ta?\tb?\t1"]
    (tmp_path / "dev.tsv").write_text("\n".join([columns, *rows]) + "\n")
    (tmp_path / "QQP.tsv").write_text("index\tprediction\n0\t0\n2\t0\n")
    arguments = f"--predictions={tmp_path}/QQP.tsv", "--task=qqp"
    arguments = *arguments, f"--data_dir={tmp_path}"
    binaries.run(evaluate, *arguments)
    assert "dev accuracy: 50.00" in capsys.readouterr().out
    strict = "--set=task.on_bad_example=error"
    assert "dev.tsv:3" in binaries.error_of(capsys, evaluate, *arguments, strict)


def test_numbers_of_glue(tmp_path):
    columns = "index\tsentence1\tsentence2\tscore\n"
    rows = "".join(f"{n}\ta\tb\t{n}.5\n" for n in range(4))
    (tmp_path / "dev.tsv").write_text(columns + rows)
    found = "".join(f"{n}\t{-2 * n}\n" for n in range(4))
    _, scores, majority = _score(tmp_path, "stsb", f"index\tprediction\n{found}")
    assert scores["pearson"] == pytest.approx(-1.0) and majority is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("index\tprediction\n5\tentailment\n", "3 have none, the first is '6'"),
        ("id\tprediction\n", "predictions:1: there must be one column 'index'"),
        ("index\tprediction\n5\n", "predictions:2: a row must have 2 columns"),
        ("index\tprediction\n5\ta\n5\ta\n", "predictions:3: an index must be un"),
        (
            "index\tprediction\n" + "".join(f"{n}\tyes\n" for n in range(5, 9)),
            "must be one of entailment, not_entailment; received 'yes'",
        ),
        (
            "index\tprediction\n" + "".join(f"{n}\tentailment\n" for n in range(5, 10)),
            "each prediction must be for an example; 1 have none, the first is '9'",
        ),
    ],
)
def test_a_file_of_others_is_refused(rte, content, message):
    with pytest.raises(ValueError, match=message):
        _score(rte, "rte", content)


def test_answers_of_squad_1(tmp_path):
    _squad(tmp_path, "1.1", [["The old mill"], ["mill"]])
    content = json.dumps({"0": "old mill!", "1": "old mill"})
    _, scores, majority = _score(tmp_path, "squad1", content)
    assert scores == {"exact_match": 0.5, "f1": pytest.approx((1 + 2 / 3) / 2)}
    assert majority is None


def test_answers_of_squad_2(tmp_path):
    _squad(tmp_path, "2.0", [["old mill"], [], []])
    content = json.dumps({"0": "old mill", "1": "", "2": "mill"})
    _, scores, _ = _score(tmp_path, "squad2", content)
    assert scores["exact_match"] == pytest.approx(2 / 3)
    assert (scores["has_answer_f1"], scores["no_answer_f1"]) == (1.0, 0.5)


def test_an_answer_that_is_no_text(tmp_path):
    _squad(tmp_path, "1.1", [["mill"]])
    with pytest.raises(ValueError, match="an answer must be text"):
        _score(tmp_path, "squad1", json.dumps({"0": 3}))


def test_a_split_without_labels(rte):
    with pytest.raises(ValueError, match="--split must be one with labels, dev"):
        _score(rte, "rte", "", "test")


def test_a_task_of_other_files(rte):
    with pytest.raises(ValueError, match="--task must be one of squad1, squad2, cola"):
        _score(rte, "race", "")


def _npz(**arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


_IDS = np.array(["a", "b"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": np.arange(2), "values": np.ones([2, 3])}, "ids must be text"),
        ({"ids": _IDS, "values": np.ones([3, 3])}, r"for 2 rows; received .* \[3, 3\]"),
        ({"ids": _IDS, "values": np.ones(2)}, "logits must be floats"),
        ({"ids": _IDS, "values": np.ones([2, 3], int)}, "logits must be floats"),
        (
            {"ids": _IDS, "num_words": [1, 1], "token_values": np.ones([3, 2])},
            "for 2 rows",
        ),
        (
            {"ids": _IDS, "num_words": [4, -1], "token_values": np.ones([3, 2])},
            "num_words must hold",
        ),
        (
            {"ids": _IDS, "num_words": [3], "token_values": np.ones([3, 2])},
            "num_words must hold",
        ),
        ({"ids": _IDS}, "num_words is not a file"),
    ],
)
def test_arrays_that_are_no_predictions_are_refused(arrays, message):
    with pytest.raises(ValueError, match=f"not a file of predictions: .*{message}"):
        predictions.from_bytes(_npz(**arrays))


@pytest.mark.parametrize("read", [predictions.from_bytes, features.from_bytes])
def test_what_unpacks_to_far_more_is_refused_before_it_does(read):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        with packed.open("ids.npy", "w") as member:
            for _ in range(100):
                member.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="it unpacks to 104,857,600 bytes, more than"):
        read(content.getvalue())
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_the_reason_is_one_short_line():
    """zipfile and numpy repeat damaged headers, of any length."""
    with pytest.raises(ValueError, match="not a file of features") as raised:
        with features.naming_damage("features"):
            raise ValueError("Cannot parse header: " + "x" * 5000 + "\nmore")
    assert len(str(raised.value)) < 300 and "\n" not in str(raised.value)
