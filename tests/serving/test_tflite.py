"""Models for TensorFlow Lite compute what the models do, but for rounded matrices."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import evaluate, export, finetune
from albert_tf.checkpoints import checkpointer
from albert_tf.core import checksums, config_io
from albert_tf.data import schema
from albert_tf.model import pretraining_model
from albert_tf.serving import tflite
from albert_tf.tasks import predictions as predictions_lib
from tests.support import binaries, fine_tuned, small_task

BATCH, LENGTH, CHOICES = 3, 24, 2
# Of scores of size 1; rounding to eight bits gave at most 0.05.
CLOSE = 0.15


def features(shape, num_positions=0):
    rng = np.random.default_rng(5)
    length = shape[-1]
    used = rng.integers(2, length, shape[:-1], endpoint=True)
    mask = (np.arange(length) < used[..., None]).astype(np.int32)
    found = {
        "input_ids": rng.integers(5, 60, shape, np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(length) > used[..., None] // 2).astype(np.int32),
    }
    if num_positions:
        positions = rng.integers(0, length, (*shape[:-1], num_positions), np.int32)
        found["masked_lm_positions"] = positions
    return found


def check_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        spread = np.std(value)
        assert spread > 1e-5, f"{name} hardly differs, whatever is asked"
        difference = np.abs(found[name] - value).mean()
        # Of what has nothing to do with it, it would be as large as the spread.
        assert difference < 0.5 * spread, name


def test_a_pretrained_model_in_eight_bits(tmp_path):
    # Large enough that its matrices are rounded: small ones are left as they are.
    run = small_task.write_pretrained(
        tmp_path / "run",
        "model.hidden_size=64",
        "model.intermediate_size=1024",
        # So that what is asked makes a difference.
        "model.initializer_range=0.3",
    )
    settings = config_io.from_json((run / "config.json").read_text())
    out = tmp_path / "lite"
    binaries.run(
        export,
        f"--model_dir={run}",
        f"--output_dir={out}",
        "--form=lite",
        "--fixed_length=12",
    )
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "SHA256SUMS",
        "config.json",
        tflite.MODEL_FILE,
        "vocab.model",
    }
    kept = config_io.from_json((out / "config.json").read_text())
    assert kept.data.max_seq_length == 12
    model = pretraining_model.build_pretraining_model(settings.model, 0)
    checkpointer.restore_parts(str(run / "model.ckpt-7"), model=model)
    num_bytes = sum(4 * np.prod(value.shape) for value in model.variables)
    # A quarter, and the graph.
    assert (out / tflite.MODEL_FILE).stat().st_size < num_bytes / 2
    small = tflite.LiteModel(str(out))
    assert small.length == 12
    for size in (2, 5):  # any number of texts
        inputs = features((size, 12), num_positions=size)
        outputs = model(inputs)
        expected = {
            "sequence_output": outputs.encoder.sequence_output,
            "pooled_output": outputs.encoder.pooled_output,
            "masked_lm_probabilities": tf.nn.softmax(outputs.mlm.logits),
            "sentence_order_probability": tf.nn.softmax(outputs.pair_logits)[
                :, schema.IN_ORDER
            ],
        }
        found = small(inputs)
        check_close(found, expected)
        difference = np.abs(found["sequence_output"] - expected["sequence_output"])
        assert difference.max() > 1e-4, "nothing was rounded"


@pytest.mark.parametrize("kind", fine_tuned.KINDS)
def test_a_fine_tuned_model_of_each_kind(kind, tmp_path):
    run = fine_tuned.write(tmp_path / "run", kind)
    out = tmp_path / "lite"
    binaries.run(export, f"--model_dir={run}", f"--output_dir={out}", "--form=lite")
    described = json.loads((out / "task.json").read_text())
    assert described == json.loads((run / "task.json").read_text())
    # Step 2 was the best.
    settings = config_io.from_json((run / "config.json").read_text())
    model = fine_tuned.model(kind, 2, settings)
    shape = (BATCH, CHOICES, LENGTH) if kind == "multiple_choice" else (BATCH, LENGTH)
    inputs = features(shape)
    if kind == "answerable_span":
        inputs["p_mask"] = (1 - inputs["input_mask"]).astype(np.float32)
    expected = {
        name: value.numpy() for name, value in model.infer(inputs)._asdict().items()
    }
    found = tflite.LiteModel(str(out))(inputs | {"labels": np.zeros(BATCH)})
    if kind == "answerable_span":
        # Where it looks for ends depends on which starts are best.
        expected = {
            name: expected[name] for name in ("start_log_probs", "impossible_logits")
        }
        found = {name: found[name] for name in expected}
    check_close(found, expected)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    # So large that its matrices are rounded.
    pretrained = small_task.write_pretrained(
        folder / "pretrained", "model.hidden_size=64"
    )
    table = small_task.write_table(folder / "table")
    run = folder / "run"
    binaries.run(finetune, *small_task.arguments(pretrained, table, run))
    binaries.run(
        export, f"--model_dir={run}", f"--output_dir={folder / 'lite'}", "--form=lite"
    )
    return folder


@pytest.mark.slow
def test_what_is_exported_can_be_scored(tuned, tmp_path):
    run = tuned / "run"
    common = f"--model_dir={run}", f"--data_dir={tuned / 'table'}"
    forms = {
        "float32": "--compute_dtype=float32",
        "bfloat16": "--compute_dtype=bfloat16",
        "lite": f"--lite={tuned / 'lite'}",
    }
    found = {}
    for name, flag in forms.items():
        out = tmp_path / name
        binaries.run(evaluate, *common, f"--output_dir={out}", flag)
        content = (out / "outputs-dev.npz").read_bytes()
        found[name] = predictions_lib.from_bytes(content)[1].values
        results = json.loads((out / "results.json").read_text())
        assert results["num_examples"] == {"dev": 23}
        assert 0.0 <= results["scores"]["dev"]["accuracy"] <= 1.0
    for name in ("bfloat16", "lite"):
        difference = np.abs(found[name] - found["float32"]).max()
        assert 1e-5 < difference < CLOSE, name


def test_bad_input_to_the_lite_form_is_refused(tuned, capsys, tmp_path):
    run = f"--model_dir={tuned / 'run'}"
    out = tmp_path / "out"
    said = binaries.error_of(
        capsys,
        export,
        run,
        f"--output_dir={out}",
        "--form=lite",
        "--compute_dtype=bfloat16",
    )
    assert "--compute_dtype must go with --form=text" in said
    scored = [run, f"--data_dir={tuned / 'table'}", f"--output_dir={out}"]
    said = binaries.error_of(
        capsys,
        evaluate,
        *scored,
        f"--lite={tuned / 'lite'}",
        "--compute_dtype=float32",
    )
    assert "--lite must be given without --checkpoint and --compute_dtype" in said
    other = tmp_path / "other"
    shutil.copytree(tuned / "lite", other)
    (other / "task.json").write_text("{}")
    said = binaries.error_of(capsys, evaluate, *scored, f"--lite={other}")
    assert f"{other / 'task.json'} is damaged or was replaced" in said
    (other / checksums.FILE).unlink()
    said = binaries.error_of(capsys, evaluate, *scored, f"--lite={other}")
    assert "the model must be exported from --model_dir; task.json differs" in said
    said = binaries.error_of(capsys, evaluate, *scored, f"--lite={tmp_path}")
    assert "must be one that albert_tf.export --form=lite wrote; there is no" in said
    assert not out.exists()
