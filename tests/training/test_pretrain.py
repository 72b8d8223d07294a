"""The run as a whole: it learns, resumes exactly, evaluates, and refuses bad input."""

import hashlib
import json
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import pretrain
from albert_tf.checkpoints import checkpointer, run_lock, untrained
from albert_tf.core import config_io, locks
from albert_tf.data import input_pipeline, schema
from albert_tf.data import manifest as manifest_lib
from albert_tf.training import metrics_log, preemption, pretraining
from tests.support import binaries, heartbeats, small_run
from tests.support import training_processes as processes


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


def _train(data_dir, model_dir, *overrides):
    return pretraining.train(
        small_run.small_config(*overrides), str(data_dir), str(model_dir)
    )


@pytest.fixture(scope="module")
def six(data_dir, tmp_path_factory):
    """A run of six steps, which no test changes: `_copy` makes one's own."""
    folder = tmp_path_factory.mktemp("six") / "run"
    return folder, _train(data_dir, folder, "train.num_steps=6")


@pytest.fixture(scope="module")
def twelve(data_dir, tmp_path_factory):
    """A run of twelve steps, which no test changes either, by the binary."""
    folder = tmp_path_factory.mktemp("twelve") / "run"
    _binary(data_dir, folder)
    return folder


def _copy(run, folder):
    shutil.copytree(run, folder, dirs_exist_ok=True)
    return folder


def test_the_loss_falls_and_everything_is_written(data_dir, tmp_path):
    held_out = _train(data_dir, tmp_path, "train.num_steps=60")
    rows = metrics_log.read_metrics(str(tmp_path))
    train = [row for row in rows if row["split"] == "train"]
    heldout = [row for row in rows if row["split"] == "heldout"]
    assert [row["step"] for row in heldout] == [0, *range(6, 61, 6)]
    assert heldout[-1]["mlm_loss"] < heldout[0]["mlm_loss"] - 1.0
    assert {k: heldout[-1][k] for k in held_out} == held_out
    assert train[-1]["learning_rate"] < train[3]["learning_rate"]
    assert all(row["gradient_norm"] > 0 for row in train)
    assert json.loads((tmp_path / schema.CONFIG_FILE).read_text())["train"]["seed"] == 1
    assert (tmp_path / schema.VOCAB_FILE).read_bytes() == small_run.VOCAB.read_bytes()
    assert list((tmp_path / "summaries" / "train").glob("events*"))
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-60")


def test_other_masks_are_said_and_no_part_is_untrained_any_more(
    data_dir, tmp_path, capsys
):
    untrained.write(str(tmp_path), ["pooler"])
    _train(data_dir, tmp_path, "train.num_steps=2", "data.max_ngram=1")
    said = " ".join(capsys.readouterr().err.split())
    assert f"records in {data_dir} were masked with data.max_ngram=3 and not 1" in said
    assert not (tmp_path / untrained.FILE).exists()


@pytest.mark.parametrize(
    ("pair_loss", "expected"),
    [("nsp", {"next_sentence_loss", "next_sentence_accuracy"}), ("none", set())],
)
def test_other_pair_losses_are_trained_and_named(tmp_path, capsys, pair_loss, expected):
    data = (f"data.pair_loss={pair_loss}", "data.masking=dynamic")
    records = small_run.write_records(tmp_path, *data)
    held_out = _train(records, tmp_path / "run", *data)
    assert set(held_out) == {"mlm_loss", "mlm_accuracy"} | expected
    rows = metrics_log.read_metrics(str(tmp_path / "run"))
    assert set(held_out) <= set(rows[0])
    before, after = (
        tf.train.load_checkpoint(str(tmp_path / "run" / f"model.ckpt-{step}"))
        for step in (0, 12)
    )
    unchanged = {
        name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").removeprefix("model/")
        for name in processes.variables(tmp_path / "run")
        if name.startswith("model/")
        and np.array_equal(before.get_tensor(name), after.get_tensor(name))
    }
    parts = ("encoder/pooler", "sentence_order/output_projection")
    of_the_pair = {f"{part}/{name}" for part in parts for name in ("kernel", "bias")}
    said = capsys.readouterr().err
    if pair_loss == "none":
        assert unchanged == of_the_pair
        count = 12 * 12 + 12 + 12 * 2 + 2
        assert (
            f" parameters {count} are reached by no loss and stay as they are" in said
        )
    else:
        assert not unchanged & of_the_pair and "by no loss" not in said
    trust_ratios = {name for name in rows[1] if name.startswith("trust_ratio/")}
    assert ("trust_ratio/encoder/pooler/kernel" in trust_ratios) == bool(expected)


def _assert_resumes_exactly(records, whole, stopped, *overrides):
    _copy(whole, stopped)
    # As if it had been killed after the checkpoint of step 6.
    for file in stopped.glob("model.ckpt-12*"):
        file.unlink()
    (stopped / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-6"\n'
        'all_model_checkpoint_paths: "model.ckpt-6"\n'
    )
    _train(records, stopped, *overrides)
    expected, found = processes.variables(whole), processes.variables(stopped)
    assert expected.keys() == found.keys() and len(expected) > 90
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
    steps = [row["step"] for row in metrics_log.read_metrics(str(stopped))]
    assert steps == [row["step"] for row in metrics_log.read_metrics(str(whole))]


# ---- A directory with a run in it ----


def _contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("init_checkpoint", ["", "absent"])
def test_a_run_that_lost_the_file_checkpoint_resumes_from_the_newest_whole_one(
    data_dir, twelve, tmp_path, capsys, init_checkpoint
):
    run = _copy(twelve, tmp_path / "run")
    (run / "checkpoint").unlink()
    (run / "model.ckpt-12.index").unlink()
    # A warm start would begin at step 0.
    init = (
        [f"--init_checkpoint={tmp_path / init_checkpoint}"] if init_checkpoint else []
    )
    _binary(data_dir, run, *init)
    said = capsys.readouterr().err
    assert "is missing: resuming from the newest whole checkpoint" in said
    expected, found = processes.variables(twelve), processes.variables(run)
    assert processes.largest_difference(expected, found) == 0.0
    assert processes.computed_rows(run) == processes.computed_rows(twelve)
    begun = [row["begun_at"] for row in metrics_log.read_metrics(str(run))]
    assert set(begun) == {0, 6}


def _lose_all_checkpoints(run):
    for path in [run / "checkpoint", *run.glob("model.ckpt-*")]:
        path.unlink()


def _lose_parts(run):
    for path in [run / "checkpoint", *run.glob("model.ckpt-*.index")]:
        path.unlink()


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (
            _lose_all_checkpoints,
            "metrics.jsonl has rows of a run up to step 6, but its",
        ),
        (
            _lose_parts,
            r"model.ckpt-\* are parts of checkpoints, none of which is whole",
        ),
        (
            lambda run: (run / schema.CONFIG_FILE).unlink(),
            "has checkpoints, but the config.json of their run is missing",
        ),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_new_run_never_starts_over_what_is_left_of_an_old_one(
    data_dir, six, tmp_path, lose, message, warm
):
    run = _copy(six[0], tmp_path / "run")
    lose(run)
    before = _contents(run)
    options = pretraining.PretrainingOptions(
        init_checkpoint=str(six[0]) if warm else ""
    )
    with pytest.raises(ValueError, match=message):
        pretraining.train(
            small_run.small_config("train.num_steps=6"),
            str(data_dir),
            str(run),
            options,
        )
    assert _contents(run) == before


def test_a_run_killed_before_its_first_checkpoint_starts_again(data_dir, six, tmp_path):
    run = _copy(six[0], tmp_path / "run")
    _lose_all_checkpoints(run)
    rows = (run / metrics_log.METRICS_FILE).read_text().splitlines(keepends=True)
    assert json.loads(rows[0])["step"] == 0
    (run / metrics_log.METRICS_FILE).write_text(rows[0])
    (run / "model.ckpt-0.data-00000-of-00001").write_bytes(b"a part")
    assert _train(data_dir, run, "train.num_steps=6") == six[1]
    assert processes.computed_rows(run) == processes.computed_rows(six[0])


def test_rows_of_steps_exist_only_once_the_first_checkpoint_is_complete(
    data_dir, tmp_path, monkeypatch
):
    record, complete = metrics_log.MetricsLog.record, []

    def look(log, split, step, values):
        complete.append((step, (tmp_path / "checkpoint").exists()))
        record(log, split, step, values)

    monkeypatch.setattr(metrics_log.MetricsLog, "record", look)
    _train(data_dir, tmp_path, "train.num_steps=4", "train.steps_per_loop=1")
    assert complete[:3] == [(0, False), (1, True), (2, True)]


@pytest.mark.parametrize("override", ["train.num_steps=6", "model.num_layers=3"])
def test_a_second_run_in_a_directory_is_refused_and_changes_nothing(
    data_dir, six, tmp_path, override
):
    run = _copy(six[0], tmp_path / "run")
    with run_lock.hold(str(run), True, pytest.fail):
        before = _contents(run)
        with pytest.raises(ValueError, match="another run is training in .*process"):
            _train(data_dir, run, override)
        assert _contents(run) == before
    assert not (run / run_lock.LOCK_FILE).exists()
    assert _train(data_dir, run, "train.num_steps=6") == six[1]


def test_a_run_that_lost_its_directory_ends_with_75_before_it_saves(
    data_dir, tmp_path, monkeypatch, capsys
):
    class Exited(BaseException):
        pass

    def exit_now(code):
        raise Exited(code)

    def lose(lock):
        raise locks.LostError(None)

    monkeypatch.setattr(preemption, "exit_now", exit_now)
    monkeypatch.setattr(run_lock, "_TRUSTED_SECONDS", -1.0)
    monkeypatch.setattr(locks.FileLock, "check", lose)
    with pytest.raises(Exited) as exited:
        _train(data_dir, tmp_path)
    assert exited.value.args == (75,)
    assert "another run has taken" in capsys.readouterr().err
    assert not list(tmp_path.glob("model.ckpt-*"))


# ---- Exact resume ----


def test_a_run_that_draws_its_masks_resumes_exactly(tmp_path):
    data = ("data.masking=dynamic", "data.dupe_factor=1")
    records = small_run.write_records(tmp_path, *data)
    _train(records, tmp_path / "whole", *data)
    _assert_resumes_exactly(records, tmp_path / "whole", tmp_path / "stopped", *data)


def test_a_resumed_run_equals_one_that_was_not_interrupted(data_dir, twelve, tmp_path):
    config = small_run.small_config().model
    assert (config.hidden_dropout_rate, config.attention_dropout_rate) == (0.0, 0.0)
    _assert_resumes_exactly(data_dir, twelve, tmp_path / "stopped")


def test_a_resumed_run_draws_the_dropout_of_one_not_interrupted(data_dir, tmp_path):
    rates = ("model.hidden_dropout_rate=0.1", "model.attention_dropout_rate=0.1")
    whole, again = tmp_path / "whole", tmp_path / "again"
    _train(data_dir, whole, *rates)
    _assert_resumes_exactly(data_dir, whole, tmp_path / "stopped", *rates)
    # A run from its start draws the same.
    _train(data_dir, again, *rates)
    expected, found = processes.variables(whole), processes.variables(again)
    assert processes.largest_difference(expected, found) == 0.0
    assert processes.computed_rows(whole) == processes.computed_rows(again)


def test_accumulation_equals_one_large_batch(data_dir, six, tmp_path):
    _train(
        data_dir, tmp_path / "four", "train.num_steps=6", "train.accumulation_steps=4"
    )
    one, four = (
        processes.variables(six[0]),
        processes.variables(tmp_path / "four"),
    )
    for name, value in one.items():
        assert np.abs(value - four[name]).max() < 1e-5, name


def test_another_seed_gives_another_run(data_dir, six, tmp_path):
    _train(data_dir, tmp_path / "2", "train.num_steps=6", "train.seed=2")
    one, two = processes.variables(six[0]), processes.variables(tmp_path / "2")
    assert any(np.any(value != two[name]) for name, value in one.items())


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(data_dir, tmp_path):
    message = r"step 3 failed: the loss is nan .*bad_batch-3.npz.*model.ckpt-0"
    with pytest.raises(FloatingPointError, match=message):
        _train(data_dir, tmp_path, "optimizer.learning_rate=1e30")
    manifest = manifest_lib.read_manifest(str(data_dir))
    input_fn = input_pipeline.train_input_fn(
        str(data_dir), manifest, small_run.small_config(), first_step=2
    )
    batch = next(input_fn(tf.distribute.InputContext()).as_numpy_iterator())
    kept = np.load(tmp_path / "bad_batch-3.npz", allow_pickle=False)
    for name, values in batch.items():
        np.testing.assert_array_equal(kept[name], values)


def test_a_folder_of_another_model_is_refused(data_dir, six, tmp_path):
    _copy(six[0], tmp_path)
    with pytest.raises(ValueError, match="model.num_layers was 2 and is 3"):
        _train(data_dir, tmp_path, "model.num_layers=3")


def test_a_run_of_another_vocabulary_is_refused(data_dir, six, tmp_path):
    _copy(six[0], tmp_path / "run")
    copy = tmp_path / "records"
    shutil.copytree(data_dir, copy)
    (copy / schema.VOCAB_FILE).write_bytes(b"another")
    with pytest.raises(ValueError, match="not the vocabulary that the records were"):
        _train(copy, tmp_path / "run")
    manifest = json.loads((copy / schema.MANIFEST_FILE).read_text())
    manifest["vocab_sha256"] = hashlib.sha256(b"another").hexdigest()
    (copy / schema.MANIFEST_FILE).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="holds a run whose vocabulary is not that of"):
        _train(copy, tmp_path / "run")
    (copy / schema.VOCAB_FILE).unlink()
    with pytest.raises(ValueError, match="must have their vocabulary beside them"):
        _train(copy, tmp_path / "run")


def test_a_finished_run_is_evaluated_and_a_longer_one_refused(data_dir, six, tmp_path):
    run, first = six
    _copy(run, tmp_path)
    before = processes.variables(tmp_path)
    assert _train(data_dir, tmp_path, "train.num_steps=6") == first
    for name, value in processes.variables(tmp_path).items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(
        ValueError, match="less than the checkpoint's step 6; received 5"
    ):
        _train(data_dir, tmp_path, "train.num_steps=5")


def test_a_damaged_checkpoint_is_named(data_dir, six, tmp_path):
    _copy(six[0], tmp_path)
    data = tmp_path / "model.ckpt-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model.ckpt-6 cannot be restored"):
        _train(data_dir, tmp_path)


def test_an_unwritable_model_dir_is_one_clear_error(data_dir, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="--model_dir must be a writable directory"):
        _train(data_dir, tmp_path / "file" / "run")


def test_a_flipped_bit_in_a_shard_is_named(data_dir, tmp_path, capsys):
    copy = tmp_path / "records"
    shutil.copytree(data_dir, copy)
    manifest = manifest_lib.read_manifest(str(copy))
    shard = copy / manifest.splits[schema.TRAIN].shards[0].name
    data = bytearray(shard.read_bytes())
    data[200] ^= 4
    shard.write_bytes(data)
    with pytest.raises(ValueError, match=f"{shard.name} is damaged"):
        _train(copy, tmp_path / "run")


def test_without_held_out_records_training_goes_on(tmp_path):
    records = small_run.write_records(tmp_path, "data.heldout_rate=0.0")
    held_out = _train(records, tmp_path / "run", "data.heldout_rate=0.0")
    assert held_out == {}


# ---- A storage that fails for a while ----


def test_a_run_whose_storage_fails_for_a_while_ends_as_one_undisturbed(
    data_dir, twelve, tmp_path, monkeypatch, capsys
):
    """The weights of step 6 cannot be written, nor the rows of steps 4 to 8."""
    run, rows = tmp_path / "run", tmp_path / "run" / metrics_log.METRICS_FILE
    write, check = tf.train.Checkpoint.write, checkpointer.Checkpointer.check

    def write_among_obstacles(checkpoint, path, *rest):
        if path.endswith("-0"):
            rows.rename(run / "kept")
            rows.mkdir()
        if path.endswith("-6"):
            (run / "model.ckpt-6.index").mkdir(exist_ok=True)
        if path.endswith("-8"):
            rows.rmdir()
            (run / "kept").rename(rows)
        return write(checkpoint, path, *rest)

    def wait_and_check(saver):
        while saver.is_writing:  # to have it fail before the next loop ends
            time.sleep(0.01)
        return check(saver)

    monkeypatch.setattr(tf.train.Checkpoint, "write", write_among_obstacles)
    monkeypatch.setattr(checkpointer.Checkpointer, "check", wait_and_check)
    beats = heartbeats.record(monkeypatch, "evaluation")
    _train(data_dir, run)
    said = capsys.readouterr().err
    assert said.count("model.ckpt-6 could not be written: ") == 1
    assert said.count("metrics.jsonl cannot be written: ") == 1
    assert (run / "model.ckpt-8.index").is_file()
    whole, other = processes.variables(twelve), processes.variables(run)
    assert processes.largest_difference(whole, other) == 0.0
    assert processes.computed_rows(run) == processes.computed_rows(twelve)
    split = manifest_lib.read_manifest(str(data_dir)).splits[schema.HELDOUT]
    num_batches = -(-split.num_records // 16)
    assert beats == dict.fromkeys([0, 6, 12], num_batches - 1) and num_batches > 1


# ---- Flags of the binary ----


def _binary(data_dir, model_dir, *flags):
    settings = [f"--set={setting}" for setting in small_run.OVERRIDES]
    folders = (f"--data_dir={data_dir}", f"--model_dir={model_dir}")
    binaries.run(pretrain, *settings, "--set=train.num_steps=12", *folders, *flags)


def test_a_run_goes_on_from_an_older_checkpoint_only_when_told(
    data_dir, twelve, tmp_path, capsys
):
    _copy(twelve, tmp_path / "run")
    (tmp_path / "run" / "model.ckpt-12.index").write_bytes(b"damaged")
    with pytest.raises(SystemExit) as stopped:
        _binary(data_dir, tmp_path / "run")
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert "model.ckpt-12 cannot be restored" in said
    assert "model.ckpt-6: --use_previous_checkpoint resumes from it" in said
    _binary(data_dir, tmp_path / "run", "--use_previous_checkpoint")
    assert "model.ckpt-12 cannot be restored" in capsys.readouterr().err
    whole, run = (
        processes.variables(twelve),
        processes.variables(tmp_path / "run"),
    )
    for name, value in whole.items():
        np.testing.assert_array_equal(value, run[name], err_msg=name)
    rows = processes.computed_rows
    assert rows(twelve) == rows(tmp_path / "run")


def test_a_new_run_begins_with_the_weights_of_another(
    data_dir, twelve, tmp_path, capsys
):
    _copy(twelve, tmp_path / "old")
    capsys.readouterr()
    _binary(data_dir, tmp_path / "new", f"--init_checkpoint={tmp_path / 'old'}")
    said = capsys.readouterr().err
    assert "weights only: optimizer and step start from zero" in said
    old, new = (
        metrics_log.read_metrics(str(tmp_path / name)) for name in ("old", "new")
    )
    assert new[0]["step"] == 0 and new[0]["mlm_loss"] == old[-1]["mlm_loss"]
    # Once it has begun, the other run is no longer asked for.
    shutil.rmtree(tmp_path / "old")
    _binary(data_dir, tmp_path / "new", f"--init_checkpoint={tmp_path / 'old'}")


def test_chosen_steps_are_profiled_and_rows_stay(data_dir, twelve, tmp_path):
    _binary(data_dir, tmp_path / "profiled", "--profile_steps=6:7")
    assert list((tmp_path / "profiled").rglob("*.xplane.pb"))
    rows = processes.computed_rows
    assert rows(twelve) == rows(tmp_path / "profiled")


@pytest.mark.parametrize("steps", ["7", "7:6", "0:3", "a:b"])
def test_steps_to_profile_must_be_a_range(data_dir, tmp_path, capsys, steps):
    flags = [f"--data_dir={data_dir}", f"--model_dir={tmp_path}"]
    said = binaries.error_of(capsys, pretrain, *flags, f"--profile_steps={steps}")
    assert said.startswith("--profile_steps must be FIRST:LAST, such as 100:110")


def test_a_recipe_is_carried_over_to_another_batch_and_says_so(
    data_dir, tmp_path, capsys
):
    _binary(data_dir, tmp_path, "--scale_to_batch_size=16")
    assert "6 steps (from 12)" in capsys.readouterr().err
    saved = config_io.from_json((tmp_path / "config.json").read_text())
    assert (saved.train.batch_size, saved.train.num_steps) == (16, 6)
    assert saved.optimizer.learning_rate == pytest.approx(0.02 * 2**0.5)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.batch_size=16", "train.batch_size was 8 and is 16"),
        ("train.seed=2", "train.seed was 1 and is 2"),
        ("optimizer.decay=cosine", "optimizer.decay was polynomial and is cosine"),
    ],
)
def test_a_run_does_not_go_on_with_another_order_or_optimizer(
    data_dir, six, tmp_path, override, message
):
    _copy(six[0], tmp_path)
    with pytest.raises(ValueError, match=message):
        _train(data_dir, tmp_path, override)


def test_a_run_does_not_go_on_with_other_streams(data_dir, six, tmp_path):
    _copy(six[0], tmp_path)
    with pytest.raises(
        ValueError, match="from 1 streams of records, and now .* from 2: p"
    ):
        _train(data_dir, tmp_path, "train.num_streams=2")


def test_other_records_are_taken_and_said(six, tmp_path, capsys):
    _copy(six[0], tmp_path / "run")
    other = small_run.write_records(tmp_path / "other", "data.dupe_factor=3")
    capsys.readouterr()
    _train(other, tmp_path / "run", "data.dupe_factor=3")
    assert "are not those of the run so far" in capsys.readouterr().err


def test_a_folder_that_tensorflow_takes_for_a_pattern_is_refused(data_dir, tmp_path):
    with pytest.raises(ValueError, match=r"must not contain any of \* \? \[ \]"):
        _train(data_dir, tmp_path / "run[1]")


def test_a_wrong_directory_of_records_is_named_by_its_flag(tmp_path, capsys):
    flags = "--config=small", f"--data_dir={tmp_path}/record", f"--model_dir={tmp_path}"
    said = binaries.error_of(capsys, pretrain, *flags)
    assert f"--data_dir: there is no directory {tmp_path}/record" in said


def test_a_recipe_must_be_chosen(tmp_path, capsys):
    records = small_run.write_records(tmp_path)
    flags = f"--data_dir={records}", f"--model_dir={tmp_path / 'run'}"
    # What the records were made with; the batch is that of ALBERT base.
    settings = [f"--set={one}" for one in small_run.OVERRIDES if "batch" not in one]
    said = binaries.error_of(capsys, pretrain, *flags, *settings)
    assert "--config must name a recipe, such as configs/small.py" in said
    assert not (tmp_path / "run").exists()


def test_a_run_says_that_it_compiles_what_is_next_and_that_nothing_was_held_out(
    tmp_path, capsys
):
    settings = "data.heldout_rate=0", "train.num_steps=2", "optimizer.warmup_steps=1"
    records = small_run.write_records(tmp_path, settings[0])
    flags = f"--data_dir={records}", f"--model_dir={tmp_path / 'run'}"
    overrides = [f"--set={one}" for one in (*small_run.OVERRIDES, *settings)]
    binaries.run(pretrain, *flags, *overrides)
    said, progress = capsys.readouterr()
    compiling = "tracing and compiling the train step: seconds for a small model, "
    assert progress.count(compiling) == 1
    assert "nothing was held out, so that it is not known" in said
    export = f"albert_tf.export --model_dir={tmp_path / 'run'} --output_dir=run_model"
    assert f"Next: python -m {export}" in said
