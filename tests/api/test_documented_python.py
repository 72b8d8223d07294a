"""The code of docs/python.md runs, from its first line to its last."""

import json
import math
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support import fine_tuned, small_run, small_task

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "python.md"
# The recipe of the page, but small.
SETTINGS = [
    setting
    for setting in small_run.OVERRIDES
    if not setting.startswith(("train.batch_size", "model.max_positions"))
]
SETTINGS += ["model.num_layers=1", "train.num_steps=4", "train.save_every_steps=4"]
# Records as docs/start.md makes them: the last stage of the recipe, in packed rows.
PACKED = ["data.pack_sequences=1", "data.masking=dynamic", "data.dupe_factor=1"]
KINDS = {
    "classifier": "classification",
    "tagger": "token_classification",
    "reader": "span",
    "chooser": "multiple_choice",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the names of the page are after its last line."""
    folder = tmp_path_factory.mktemp("page")
    small_task.write_pretrained(folder / "run", "model.initializer_range=0.5")
    small_run.write_records(folder / "made", *PACKED)
    (folder / "records").mkdir()
    (folder / "made" / "records").rename(folder / "records" / "128")
    for name, kind in KINDS.items():
        fine_tuned.write(folder / name, kind)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    assert code.count('("configs/small.py", settings)') == 1
    code = code.replace('small.py", settings)', f'small.py", settings + {SETTINGS})')
    found: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(code, str(PAGE), "exec"), found)
        found["folder"] = folder
        yield found


@pytest.mark.slow
def test_the_page_runs_and_its_names_are_what_it_says(names):
    assert names["similarity"].shape == (2, 2)
    assert names["tokenizer"].pieces(names["ids"])[0].startswith("▁")
    assert np.isfinite(float(names["loss"]))
    assert "sequence_numbers" in names["batch"]
    checkpoints = list((names["folder"] / "own_run").glob("model.ckpt-*.index"))
    rows = (names["folder"] / "own_run" / "metrics.jsonl").read_text().splitlines()
    losses = [row["loss"] for row in map(json.loads, rows) if "loss" in row]
    # Nearly that of equal probabilities, after so few steps.
    uniform = math.log(names["config"].model.vocab_size)
    assert losses and all(0.6 * uniform < loss < 1.5 * uniform for loss in losses)
    assert checkpoints


@pytest.mark.slow
def test_the_objective_of_the_page_takes_rows_of_one_sequence_too(names):
    api = names["albert_tf"]
    config = small_run.small_config("model.num_layers=1")
    folder = small_run.write_records(names["folder"] / "unpacked")
    (batch,) = api.read_batches(folder, config).take(1)
    first, second = (
        one["input_ids"] for one in api.read_batches(folder, config).take(2)
    )
    (later,) = api.read_batches(folder, config, first_step=1).take(1)
    np.testing.assert_array_equal(later["input_ids"], second)
    # Of two devices each takes its half.
    context = tf.distribute.InputContext(1, 0, 2)
    halves = api.read_batches(folder, config, context=context).take(2)
    rows = np.concatenate([half["input_ids"] for half in halves])
    np.testing.assert_array_equal(rows, first)
    model = api.build_model(config)
    sums = names["MaskedWordsOnly"]().batch_sums(model, batch, None)
    assert sums["num_tokens"] == batch["input_mask"].numpy().sum()
    assert 7 < sums["masked_lm_loss"] / sums["masked_lm_weight"] < 10  # ln(4000) is 8.3
    assert model(batch).mlm.logits.shape == [8, 4, 4000]
    with pytest.raises(ValueError, match="received packed rows"):
        model(names["batch"])
    with pytest.raises(ValueError, match="input_mask, .*; received input_ids$"):
        model.scores({"input_ids": batch["input_ids"]})


@pytest.mark.slow
def test_a_model_with_the_layer_is_loaded_with_its_weights(names):
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": rng.integers(5, 4000, [2, 7]).astype(np.int32),
        "input_mask": np.ones([2, 7], np.int32),
        "segment_ids": np.zeros([2, 7], np.int32),
    }
    loaded = names["classifier"]
    before = names["tf_keras"].Model(names["inputs"], names["scores"])
    np.testing.assert_allclose(loaded(batch), before(batch), rtol=0, atol=1e-6)
    # Its variables are trained, and are those of the run.
    assert len(loaded.trainable_variables) == len(before.trainable_variables) > 20
    own = names["encoder"](batch)["sequence_output"]
    expected = names["albert_tf"].load("run")._loaded
    assert own.shape == (2, 7, 12) and expected is not None
