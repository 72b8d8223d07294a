"""Tables answered row by row."""

import json

import pytest
import tensorflow as tf

from albert_tf import predict
from albert_tf.core import config_io
from albert_tf.inference import predict as text_prediction
from albert_tf.inference import saved_model, saved_model_dir
from albert_tf.serving import table_prediction
from tests.support import binaries, small_run


class _Model:
    """Answers "long" for pairs of more than four characters."""

    signatures: dict

    def __init__(self):
        self.signatures = {"classify": self._classify}

    def _classify(self, text, pair):
        lengths = tf.strings.length(text) + tf.strings.length(pair)
        is_long = tf.cast(lengths > 4, tf.float32)
        return {
            "label": tf.where(lengths > 4, "long", "short"),
            "probability": tf.stack([0.75 * is_long, 1 - 0.75 * is_long], 1),
            "labels": tf.constant(["long", "short"]),
        }


class _Regression:
    """Gives each pair the number of its characters, and a half."""

    signatures: dict

    def __init__(self):
        self.signatures = {"classify": self._classify}

    def _classify(self, text, pair):
        lengths = tf.strings.length(text) + tf.strings.length(pair)
        return {"score": tf.cast(lengths, tf.float32) + 0.5}


@pytest.fixture
def model(tmp_path, monkeypatch):
    def make(*settings):
        folder = tmp_path / "model"
        (folder / "assets.extra").mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        config = small_run.small_config("train.best_metric=", *settings)
        text = config_io.to_json(config)
        (folder / "assets.extra" / "config.json").write_text(text)
        return str(folder)

    monkeypatch.setattr(saved_model, "load", lambda _: _Model())
    return make


_PAIR = ("task.name=table", "task.text_column=a", "task.pair_column=b")
_CSV = 'id,b,a\n7,x,"one, two"\n8,y,z\n'


def _predict(model, path, content, batch_size=1, as_json=False):
    path.write_text(content)
    columns = table_prediction.find_columns(model, str(path))
    arguments = model, str(path), columns, batch_size, as_json
    return list(table_prediction.predict(*arguments))


def test_a_csv_file_keeps_its_columns(tmp_path, model):
    assert _predict(model(*_PAIR), tmp_path / "t.csv", _CSV) == [
        "id,b,a,prediction,probability",
        '7,x,"one, two",long,0.75',
        "8,y,z,short,1",
    ]


def test_a_table_as_json(tmp_path, model):
    lines = _predict(model(*_PAIR), tmp_path / "t.csv", _CSV, 9, as_json=True)
    assert json.loads(lines[1]) == {
        **{"id": "8", "b": "y", "a": "z"},
        **{"prediction": "short", "probability": 1.0},
    }


def test_a_tsv_file_of_glue(tmp_path, model):
    content = 'sentence\tlabel\na "quote\t1\n'
    assert _predict(model("task.name=sst2"), tmp_path / "dev.tsv", content) == [
        "sentence\tlabel\tprediction\tprobability",
        'a "quote\t1\tlong\t0.75',
    ]


def test_json_lines_keep_their_values(tmp_path, model):
    content = '{"a": "x", "n": [1, null], "b": "y"}\n'
    (line,) = _predict(model(*_PAIR), tmp_path / "t.jsonl", content)
    assert json.loads(line)["n"] == [1, None]
    assert json.loads(line)["prediction"] == "short"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "id,a\n1,x\n", r"t.csv:1: there must be one column 'b'.*id, a"),
        ("t.csv", "a,b\nx\n", "t.csv:2: a row must have 2 columns"),
        ("t.csv", "a,b\n", "a table must have a row"),
        ("t.csv", "a,b,prediction\nx,y,z\n", "the column 'prediction' would be there"),
        ("t.jsonl", '{"a": "x", "b": 3}\n', "t.jsonl:1: 'b' must be text; received 3"),
    ],
)
def test_a_table_that_does_not_fit(tmp_path, model, name, content, message):
    with pytest.raises(ValueError, match=message):
        _predict(model(*_PAIR), tmp_path / name, content)


def test_what_is_no_table(tmp_path, model):
    folder = model(*_PAIR)
    assert table_prediction.find_columns(folder, "t.csv") == ("a", "b")
    assert table_prediction.find_columns(folder, "t.txt") == ()
    assert table_prediction.find_columns(str(tmp_path), "t.csv") == ()


def _asked(folder, *texts):
    """What `albert_tf.predict` prints of texts on its command line."""
    takes_pairs = saved_model_dir.takes_pairs(folder)
    return "\n".join(
        text_prediction.show_answers(folder, None, texts, "", 8, 1, False, takes_pairs)
    )


def test_a_model_of_pairs_takes_no_single_text(model):
    pairs = model(*_PAIR)
    assert _asked(pairs, "x", "y").startswith("x | y\n  -> short")
    assert _asked(pairs, "x\ty").startswith("x | y\n  -> short")
    with pytest.raises(
        ValueError, match="two texts, as the model was trained on pairs"
    ):
        _asked(pairs, "x")


def test_a_model_of_texts_answers_each(model):
    texts = model("task.name=table", "task.text_column=a")
    assert _asked(texts, "x", "y").count("->") == 2


def test_a_model_of_other_tasks_reads_no_table(model):
    assert table_prediction.find_columns(model("task.name=race"), "t.csv") == ()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "dev.tsv",
            "index\tsentence1\tsentence2\tscore\n0\ta\tbc\t5.000\n1\td\te\t0\n",
            "index\tsentence1\tsentence2\tscore\tprediction\n"
            "0\ta\tbc\t5.000\t3.5\n1\td\te\t0\t2.5\n",
        ),
        (
            "new.csv",
            'sentence2,sentence1\n"x, y",z\n',
            'sentence2,sentence1,prediction\n"x, y",z,5.5\n',
        ),
    ],
)
def test_the_binary_predicts_the_numbers_of_a_regression(
    tmp_path, model, capsys, monkeypatch, name, content, expected
):
    folder = model("task.name=stsb")
    monkeypatch.setattr(saved_model, "load", lambda _: _Regression())
    path = tmp_path / name
    path.write_text(content)
    binaries.run(predict, f"--saved_model={folder}", f"--input={path}")
    assert capsys.readouterr().out == expected
    output = path.with_stem("out")
    arguments = f"--saved_model={folder}", f"--input={path}", f"--output={output}"
    binaries.run(predict, *arguments)
    assert output.read_text() == expected


def test_the_binary_writes_a_table(tmp_path, model, capsys):
    from absl import flags

    (tmp_path / "t.csv").write_text(_CSV)
    values = flags.FlagValues()
    predict.define_flags(values)
    output = tmp_path / "out.csv"
    saved = f"--saved_model={model(*_PAIR)}"
    values(["predict", saved, f"--input={tmp_path}/t.csv", f"--output={output}"])
    predict.main(["predict"], values)
    assert output.read_text().splitlines()[2] == "8,y,z,short,1"
    assert capsys.readouterr().out == f"{output}: 2 rows with predictions\n"
