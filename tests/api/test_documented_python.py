"""The code of docs/python.md runs, from its first line to its last."""

import pathlib
import re

import numpy as np
import pytest

from tests.support import fine_tuned, small_run, small_task

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "python.md"
# The recipe of the page, but small.
SETTINGS = [
    setting
    for setting in small_run.OVERRIDES
    if not setting.startswith(("train.batch_size", "model.max_positions"))
]
SETTINGS += ["model.num_layers=1", "train.save_every_steps=4"]
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
    small = ", ".join(f'"{setting}"' for setting in SETTINGS)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    assert code.count('"train.stages=[]"]') == 1
    code = code.replace('"train.stages=[]"]', f'"train.stages=[]", {small}]')
    code = code.replace('"configs/small.py"', '""')
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
    checkpoints = list((names["folder"] / "own_run").glob("model.ckpt-*.index"))
    assert checkpoints


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
