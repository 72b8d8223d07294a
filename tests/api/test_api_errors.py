"""What is passed wrongly to the Python API is an error that names the argument."""

import re

import numpy as np
import pytest

import albert_tf
from albert_tf.core import config as config_lib
from tests.support import small_run, small_task

pytestmark = pytest.mark.slow

LOADS = "load", "load_tokenizer", "load_encoder"
EMPTY = "path must be a path, text or a pathlib.Path, that is not empty; received ''"
DOWNLOAD = (
    "python -m albert_tf.convert --from=hf:albert/albert-base-v2 --download "
    "--to=run:albert-base-v2_run. Then give albert-base-v2_run"
)
OVERRIDES = 'overrides must be a list of settings, such as ["train.num_steps=3"]'
RECIPE = "config must be a Config, as albert_tf.load_config returns it; received"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_task.write_pretrained(tmp_path_factory.mktemp("pretrained") / "run")


def _message(name: str, *args, **kwargs) -> str:
    with pytest.raises(ValueError) as caught:
        getattr(albert_tf, name)(*args, **kwargs)
    assert caught.value.__cause__ is None or "--" not in str(caught.value.__cause__)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        *((name, [""], {}, EMPTY) for name in LOADS),
        ("load", ["nothing"], {}, "there is no directory nothing"),
        ("load", ["/no/run"], {}, "there is no directory /no/run"),
        ("load_encoder", ["x"], {}, "there is no directory x"),
        ("load_tokenizer", ["nothing"], {}, "there is no file or directory nothing"),
        ("load", ["x"], {"weights": "best"}, "averaged, trained; received 'best'"),
        ("load_encoder", ["x"], {"weights": None}, "averaged, trained; received None"),
        ("load_config", ["nothing"], {}, "path must name a recipe or a config.json; "),
        ("load_config", ["", ["a"]], {}, "overrides must read key.sub=value; "),
        *(
            ("load_config", ["small", given], {}, f"{OVERRIDES}; received {shown}")
            for given, shown in (
                ("train.num_steps=3", "'train.num_steps=3'"),
                ({"train.num_steps": 3}, "{'train.num_steps': 3}"),
                ([3], "[3]"),
                (None, "None"),
            )
        ),
        ("build_model", [{}], {}, f"{RECIPE} {{}}"),
        ("read_batches", ["records", None], {}, f"{RECIPE} None"),
        ("compute_loss", [None, {}, {}], {}, f"{RECIPE} {{}}"),
        ("EncoderLayer", [None], {}, "albert_tf.load_config().model, or its values"),
        ("EncoderLayer", [config_lib.Config()], {}, "config must be the section `mode"),
        ("EncoderLayer", [{"hiden_size": 3}], {}, "hidden_size"),
        ("EncoderLayer", [{"hidden_size": "3"}], {}, "hidden_size must be an integer"),
        ("EncoderLayer", [{}, 1, "int8"], {}, "float32, bfloat16; received 'int8'"),
        *(
            ("load_encoder", ["x"], {"compute_dtype": dtype}, "float32, bfloat16; rec")
            for dtype in ("bf16", "int8", None)
        ),
    ],
)
def test_an_error_says_what_is_expected(
    tmp_path, monkeypatch, name, args, kwargs, message
):
    monkeypatch.chdir(tmp_path)
    found = _message(name, *args, **kwargs)
    assert message in found
    # Flags are not what a caller can pass, and no name is advised that is none.
    assert "--" not in found and "train_vocab" not in found


@pytest.mark.parametrize("name", LOADS)
def test_a_name_of_the_hub_is_answered_with_its_conversion(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    found = _message(name, "albert/albert-base-v2")
    assert found.startswith("there is no ") and found.endswith(DOWNLOAD)
    (tmp_path / "albert").mkdir()  # now it is a path below one that is there
    found = _message(name, "albert/albert-base-v2")
    assert re.fullmatch(r"there is no [ a-z]+ albert/albert-base-v2", found)


@pytest.mark.parametrize("name", ["load", "load_encoder"])
def test_a_wrong_checkpoint_is_named_as_the_argument(run, tmp_path, name):
    found = _message(name, run, checkpoint=run / "model.ckpt-9")
    assert found.startswith("checkpoint must be the prefix of a checkpoint, such as ")
    assert found.endswith(
        f"there is no {run}/model.ckpt-9.index. {run} holds model.ckpt-7"
    )
    other = small_task.write_pretrained(tmp_path / "run", "model.hidden_size=8")
    found = _message(name, run, checkpoint=other / "model.ckpt-7")
    assert "cannot be restored into this model" in found
    assert "give another path, or" in found and "--" not in found
    for path in other.glob("checkpoint"):
        path.unlink()
    for path in other.glob("model.ckpt-*"):
        path.unlink()
    assert _message(name, other).startswith("path must hold a checkpoint; ")
    (other / "vocab.model").unlink()
    found = _message(name, other)
    assert "vocab.model: cannot read the vocabulary" in found
    assert "train_vocab" not in found


def test_records_of_another_recipe_are_answered_with_the_override(tmp_path):
    folder = small_run.write_records(tmp_path)
    config = small_run.small_config("data.max_seq_length=20")
    found = _message("read_batches", folder, config)
    assert found.endswith(
        "or pass the override data.max_seq_length=24 and the override "
        "data.max_predictions_per_seq=4"
    )


def test_no_pairs_are_said_to_be_none_and_no_texts_have_no_embeddings(run):
    model = albert_tf.load(run)
    with pytest.raises(ValueError, match=r"pairs must hold a pair; received \[\]$"):
        model.probe([])
    with pytest.raises(ValueError, match="metric must be one of pll, .*; received 'x'"):
        model.probe([("A", "B")], metric="x")
    for pooling in ("mean", "pooled"):
        found = model.embed([], pooling=pooling)
        assert found.shape == (0, 12) and found.dtype == np.float32
    assert model.fill_mask([]) == []
    for top_k in (True, 0, "3"):
        with pytest.raises(ValueError, match="top_k must be an integer from 1 on"):
            model.fill_mask("A [MASK].", top_k=top_k)
