"""The comparison of learning curves: batches, turns and what counts at a minute."""

import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import bench_learning
from albert_tf.benchmarks import (
    batch_files,
    learning_curves,
    learning_runs,
    rounds,
    turns,
)
from albert_tf.data import input_pipeline
from albert_tf.data import manifest as manifest_lib
from tests.support import binaries, small_run

DYNAMIC = "data.masking=dynamic"
FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return str(small_run.write_records(tmp_path_factory.mktemp("run"), DYNAMIC))


def _load(folder) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy") for name in FEATURES}


def test_the_files_hold_the_batches_of_the_first_steps(records, tmp_path):
    config = small_run.small_config(DYNAMIC)
    manifest = manifest_lib.read_manifest(records)
    batch_files.write_training(records, manifest, config, 5, str(tmp_path))
    written = _load(tmp_path)
    assert written["input_ids"].shape == (5, 8, 24)
    input_fn = input_pipeline.train_input_fn(records, manifest, config, first_step=3)
    fourth, fifth = input_fn(tf.distribute.InputContext()).take(2)
    for name in FEATURES:
        np.testing.assert_array_equal(written[name][3], fourth[name])
        np.testing.assert_array_equal(written[name][4], fifth[name])


def test_held_out_files_have_every_held_out_masked_token(records, tmp_path):
    config = small_run.small_config(DYNAMIC, "train.eval_batch_size=7")
    manifest = manifest_lib.read_manifest(records)
    batch_files.write_heldout(records, manifest, config, str(tmp_path))
    written = _load(tmp_path)
    split = manifest.splits["heldout"]
    assert len(written["input_ids"]) == -(-split.num_records // 7)
    assert split.num_records % 7  # the last batch is filled up
    # Only real examples have tokens.
    assert (written["input_mask"][:, :, 0].sum()) == split.num_records
    no_tokens = written["input_mask"].sum(axis=2) == 0
    assert no_tokens.sum() > 0
    assert written["masked_lm_weights"][no_tokens].sum() == 0
    assert written["masked_lm_weights"].sum() > 0


_COUNT = """
import sys, time
for number in range(int(sys.argv[2])):
    time.sleep(0.02)
    with open(sys.argv[1], "a") as file:
        print(time.monotonic(), file=file)
"""


def _counter(path, count: int) -> turns.PausableProcess:
    command = [sys.executable, "-c", _COUNT, str(path), str(count)]
    return turns.PausableProcess(command, f"{path}.log")


def test_processes_compute_in_turns_never_at_once(tmp_path):
    paths = {name: tmp_path / name for name in "ab"}
    processes = {name: _counter(path, 60) for name, path in paths.items()}
    turns.run_in_turns(processes, 0.5, {"a": lambda: None, "b": lambda: None})
    stamps = sorted(
        (float(line), name)
        for name, path in paths.items()
        for line in path.read_text().splitlines()
    )
    names = [name for _, name in stamps]
    assert names.count("a") == names.count("b") == 60
    following = zip(names[:-1], names[1:], strict=True)
    num_changes = sum(one != other for one, other in following)
    assert 2 <= num_changes <= 12  # side by side there would be some sixty
    for process in processes.values():
        assert process.is_done
        # 60 pauses, and the start of Python; not the turns of the other.
        assert 1.2 <= process.seconds


def test_a_process_has_no_turn_after_the_limit(tmp_path):
    processes = {
        "long": _counter(tmp_path / "a", 10**6),
        "short": _counter(tmp_path / "b", 5),
    }
    ended = []
    looks = dict.fromkeys(processes, lambda: None)
    turns.run_in_turns(
        processes, 0.4, looks, 1.0, lambda: ended.append(processes["long"].seconds)
    )
    assert not processes["long"].is_done and processes["short"].is_done
    assert 1.0 <= processes["long"].seconds < 2.0
    assert len(ended) >= 3 and ended == sorted(ended)
    processes["long"].close()


def test_the_reason_of_a_failed_process_is_named(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no records')"]
    process = turns.PausableProcess(command, str(tmp_path / "log"))
    with pytest.raises(rounds.Failure, match="code 1: no records"):
        process.run(20.0)


def test_a_process_that_is_closed_has_ended(tmp_path):
    process = _counter(tmp_path / "a", 10**6)
    process.run(0.5)
    process.close()
    with pytest.raises(rounds.Failure, match="-9"):
        _ = process.is_done


def test_at_a_minute_the_newest_model_saved_by_then_counts():
    saved = {}
    curve = learning_curves._Curve(lambda: saved)
    assert curve.newest_at(1e9) is None
    for seconds, step, loss in ((10.0, 5, 6.5), (20.0, 10, 6.25), (30.0, 15, 6.75)):
        saved[step] = (f"path-{step}", loss)
        curve.look(seconds)
    curve.look(40.0)
    assert [one.seconds for one in curve.saved] == [10.0, 20.0, 30.0]
    assert curve.newest_at(9.0) is None
    assert curve.newest_at(20.0) == learning_curves.SavedModel(
        20.0, 10, "path-10", 6.25
    )
    # Not the best: the curve is what the run had at that time.
    assert curve.newest_at(35.0).mlm_loss == 6.75


def test_the_table_leaves_out_what_was_not_saved_yet():
    results = {
        "minutes": [1, 2.5],
        "at_minutes": {
            "albert_tf": [{"mlm_loss": 6.5, "step": 1000}, {"mlm_loss": 6, "step": 2}],
            "transformers": [None, {"mlm_loss": 7.0625, "step": 30}],
        },
    }
    assert learning_curves.table(results) == [
        ["minutes", "1", "2.5"],
        ["albert_tf, MLM loss", "6.500", "6.000"],
        ["albert_tf, steps", "1,000", "2"],
        ["transformers, MLM loss", "", "7.062"],
        ["transformers, steps", "", "30"],
    ]


def test_models_of_the_minutes_are_probed(monkeypatch, tmp_path):
    calls = []

    def run_module(module, *arguments):
        calls.append((module, *arguments))
        values = dict(one.removeprefix("--").split("=", 1) for one in arguments)
        if module == "albert_tf.probe":
            out = tmp_path / values["output_dir"]
            out.mkdir()
            accuracy = 0.5 + 0.01 * len(calls)
            text = json.dumps({"overall": {"accuracy": accuracy}})
            (out / "results.json").write_text(text)

    monkeypatch.setattr(learning_curves.binaries, "run_module", run_module)
    options = learning_runs.Options(
        "records", str(tmp_path), (1.0, 2.0), (1e-3,), 1.0, 1.0, "blimp", 7
    )
    at_minutes = {
        # The newest at two of the minutes.
        "albert_tf": [None, *[{"path": "ours/model.ckpt-9", "step": 9}] * 2],
        "transformers": [{"path": "theirs/step-5", "step": 5}, None, None],
    }
    results = {"minutes": [1, 2, 3], "at_minutes": at_minutes}
    config = small_run.small_config("data.max_seq_length=20")
    learning_curves._probe(results, config, options)
    accuracies = {
        name: [one and one["accuracy"] for one in of_minutes]
        for name, of_minutes in results["blimp"].items()
    }
    assert accuracies == {
        "albert_tf": [None, 0.51, 0.51],
        "transformers": [0.53, None, None],
    }
    assert json.loads((tmp_path / "results.json").read_text()) == results
    assert [call[0].partition(".")[2] for call in calls] == [
        "probe",
        "convert",
        "probe",
    ]
    assert "--model=ours/model.ckpt-9" in calls[0]
    assert "--pairs_per_paradigm=7" in calls[0]
    # Both on the pairs that fit the training's sequences, in one precision.
    assert "--set=data.max_seq_length=20" in calls[1]
    assert (
        "--compute_dtype=float32" in calls[0] and "--compute_dtype=float32" in calls[2]
    )
    assert "--from=hf:theirs/step-5" in calls[1]
    assert "--vocab_model=records/vocab.model" in calls[1]
    assert calls[2][1].removeprefix("--model=") == calls[1][2].removeprefix("--to=run:")
    table = learning_curves.table(results | {"at_minutes": {}})
    assert table[1:] == [
        ["albert_tf, BLiMP", "", "51.0%", "51.0%"],
        ["transformers, BLiMP", "53.0%", "", ""],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minutes=5,-1"], r"--minutes must be numbers above 0; received"),
        (["--rates=fast"], r"--rates must be numbers: .*'fast'"),
        (["--data_dir=absent"], r"there is no absent/manifest.json"),
        (["--blimp_dir=absent"], r"--blimp_dir: there is no directory .*absent"),
        (["--set=data.pack_sequences=2"], r"data.pack_sequences must be 0"),
    ],
)
def test_wrong_flags_are_named(capsys, records, tmp_path, arguments, message):
    defaults = [f"--data_dir={records}", f"--output_dir={tmp_path / 'new'}"]
    error = binaries.error_of(capsys, bench_learning, *defaults, *arguments)
    assert re.search(message, error)


def test_results_of_an_earlier_comparison_are_kept(capsys, records, tmp_path):
    (tmp_path / "results.json").write_text("{}")
    error = binaries.error_of(
        *(capsys, bench_learning, f"--data_dir={records}", f"--output_dir={tmp_path}")
    )
    assert "--output_dir must be new or empty" in error
