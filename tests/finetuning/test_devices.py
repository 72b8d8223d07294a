"""Fine-tuning on several devices, ended and gone on with, in parts, and for a TPU."""

import functools
import json
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import finetune
from albert_tf.checkpoints import checkpointer
from albert_tf.devices import strategies
from albert_tf.finetuning import prediction, results_writer, run_dir
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.training import trainer
from tests.support import binaries, fake_tpu, small_rows, small_task, tpu_ops
from tests.support import training_processes as processes

pytestmark = pytest.mark.slow

STILL = (
    "model.hidden_dropout_rate=0",
    "model.attention_dropout_rate=0",
    "task.classifier_dropout_rate=0",
    # On a second device variables have other names, by which rates could be missed.
    "task.layer_decay=0.9",
    "task.num_lengths=2",
)
WITH_DROPOUT = (
    "model.hidden_dropout_rate=0.1",
    "task.classifier_dropout_rate=0.3",
    "task.num_lengths=2",
)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    # One layer: to trace two takes longer than all these steps.
    folder = tmp_path_factory.mktemp("origin") / "run"
    return small_task.write_pretrained(folder, "model.num_layers=1")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return small_task.write_table(tmp_path_factory.mktemp("table"))


def _results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def _rows(folder: pathlib.Path, split: str) -> dict[int, dict]:
    """The rows of metrics.jsonl by step, without what depends on the clock."""
    rows = processes.computed_rows(folder)
    return {row["step"]: row for row in rows if row["split"] == split}


def _largest_difference(one: pathlib.Path, other: pathlib.Path) -> float:
    """Over all variables of the newest checkpoints of two runs."""
    ours, theirs = processes.variables(one), processes.variables(other)
    assert ours.keys() == theirs.keys() and len(ours) > 60
    return max(
        float(np.abs(value.astype(np.float64) - theirs[name]).max())
        for name, value in ours.items()
    )


# ---- On one device, on two, and by two workers ----


def _words(pretrained, table, folder, settings: Sequence[str], *flags: str):
    arguments = small_task.arguments(pretrained, table, folder, *settings)
    return [sys.executable, "-m", "albert_tf.finetune", *arguments, *flags]


@pytest.fixture(scope="module")
def runs(pretrained, table, tmp_path_factory):
    """Twelve steps: on one device, on two, by two workers."""
    folder = tmp_path_factory.mktemp("runs")
    two = ("--strategy=mirrored", "--num_cpu_devices=2")
    mirrored = _words(pretrained, table, folder / "two", STILL, *two)
    worker = _words(pretrained, table, folder / "workers", STILL)
    logs = folder / "log", folder / "cluster_log"
    with (
        processes.running([mirrored], logs[0]) as alone,
        processes.running([worker] * 2, logs[1], is_cluster=True) as cluster,
    ):
        one = small_task.arguments(pretrained, table, folder / "one", *STILL)
        binaries.run(finetune, *one)
        codes = processes.exit_codes([*alone, *cluster])
        errors = [path.read_text()[-3000:] for log in logs for path in log.iterdir()]
        assert codes == [0, 0, 0], errors
    return folder


@pytest.mark.parametrize("name", ["two", "workers"])
def test_several_devices_learn_what_one_does(runs, name):
    assert _largest_difference(runs / "one", runs / name) < 1e-6
    ours, theirs = _rows(runs / "one", "train"), _rows(runs / name, "train")
    assert list(ours) == list(theirs) == [4, 8, 12]
    for step, row in ours.items():
        assert abs(row["loss"] - theirs[step]["loss"]) < 1e-6
        assert row["accuracy"] == theirs[step]["accuracy"]
    assert _rows(runs / "one", "dev") == _rows(runs / name, "dev")


@pytest.mark.parametrize("name", ["two", "workers"])
def test_several_devices_answer_as_one_does_in_the_order_of_the_file(runs, name):
    # 23 and 9 examples in rounds of two times five.
    for split, count in (("dev", 23), ("test", 9)):
        found = []
        for folder in (runs / "one", runs / name):
            text = (folder / f"answers-{split}.jsonl").read_text()
            answers = [json.loads(line) for line in text.splitlines()]
            content = (folder / f"outputs-{split}.npz").read_bytes()
            found.append((answers, *predictions_lib.from_bytes(content)))
        (answers, ids, outputs), (other_answers, other_ids, other_outputs) = found
        assert ids == other_ids == [str(number) for number in range(count)]
        np.testing.assert_allclose(
            outputs.values, other_outputs.values, rtol=0, atol=1e-6
        )
        assert np.ptp(outputs.values[:, 0]) > 3e-5  # another order would be seen
        for answer, other in zip(answers, other_answers, strict=True):
            assert abs(answer.pop("probability") - other.pop("probability")) < 1e-5
            assert answer == other
    ours, theirs = _results(runs / "one"), _results(runs / name)
    for results in (ours, theirs):
        assert results.pop("seconds") > 0
    assert ours == theirs


def test_what_is_not_the_chief_writes_nothing_but_features(
    pretrained, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(strategies, "is_chief", lambda strategy: False)
    settings = (*STILL, "train.num_steps=4")
    arguments = small_task.arguments(pretrained, table, tmp_path / "run", *settings)
    binaries.run(finetune, *arguments, f"--cache_dir={tmp_path / 'features'}")
    assert not (tmp_path / "run").exists()
    assert len(list((tmp_path / "features").iterdir())) == 3


def test_workers_run_out_of_patience_at_the_same_step(pretrained, table, tmp_path):
    # A rate so small that no answer changes: the first evaluation stays the best.
    settings = (
        *STILL,
        "optimizer.learning_rate=1e-12",
        "task.patience=2",
        "train.num_steps=4000",
    )
    words = _words(pretrained, table, tmp_path / "run", settings)
    # The second time they learn from what is saved that they are done.
    for attempt in range(2):
        log = tmp_path / f"log{attempt}"
        with processes.running([words] * 2, log, is_cluster=True) as started:
            codes = processes.exit_codes(started)
            assert codes == [0, 0], (log / "0.err").read_text()[-3000:]
        assert list(_rows(tmp_path / "run", "dev")) == [4, 8, 12]
        assert processes.newest_step(tmp_path / "run") == 12
        assert _results(tmp_path / "run")["best_step"] == 4


# ---- Ended, and gone on with ----


def _at_step_8(_, step: int) -> bool:
    return step == 8


def _at_dev(*arguments) -> bool:
    return arguments[2] == "dev"


def _at_test(*arguments) -> bool:
    return arguments[2] == "test"


def _at_seed_2(run, step: int) -> bool:
    return step == 8 and run.model_dir.endswith("seed-2")


# Where a process may be sent a signal: before this function, called with these.
PLACES = {
    "evaluation": (trainer.Trainer, "_evaluate", _at_step_8),
    "second_seed": (trainer.Trainer, "_evaluate", _at_seed_2),
    "last_save": (checkpointer.Checkpointer, "save", lambda _, step, *rest: step == 12),
    "dev_predicted": (results_writer, "write_split", _at_dev),
    "test_predicted": (results_writer, "write_split", _at_test),
}


def _fine_tune(arguments: Sequence[str], place: str, number: int) -> None:
    """Fine-tunes, and sends itself a signal at a place; 0 sends none."""
    owner, name, is_there = PLACES[place]
    function = getattr(owner, name)

    @functools.wraps(function)
    def interrupted(*positional, **named):
        if number and is_there(*positional):
            os.kill(os.getpid(), number)
            # The listening thread sets the flag that the devices read.
            signal.sigtimedwait([], 0.5)
        return function(*positional, **named)

    setattr(owner, name, interrupted)
    binaries.run(finetune, *arguments)


@pytest.fixture(scope="module")
def exit_code_of() -> Callable[..., int]:
    """A function that does `_fine_tune` in a process of its own."""

    def run(arguments, place="evaluation", number=0) -> int:
        process = processes.forkserver().Process(
            target=_fine_tune, args=(arguments, place, number)
        )
        process.start()
        try:
            process.join(timeout=processes.TIMEOUT)
        finally:
            if process.is_alive():
                process.kill()
            process.join()
        return process.exitcode

    return run


@pytest.fixture(scope="module")
def whole(pretrained, table, tmp_path_factory):
    """Two seeds that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "runs"
    arguments = small_task.arguments(pretrained, table, folder, *WITH_DROPOUT)
    binaries.run(finetune, *arguments, "--seeds=2")
    return folder


def _assert_bitwise_equal(whole: pathlib.Path, other: pathlib.Path) -> None:
    assert _largest_difference(whole, other) == 0.0
    assert processes.computed_rows(whole) == processes.computed_rows(other)
    for name in ("answers-dev.jsonl", "answers-test.jsonl", checkpointer.BEST_FILE):
        assert (whole / name).read_bytes() == (other / name).read_bytes(), name
    ours, theirs = _results(whole), _results(other)
    for results in (ours, theirs):
        assert results.pop("seconds") >= 0
    assert ours == theirs


@pytest.mark.parametrize(
    ("place", "number", "code", "step"),
    [
        ("evaluation", signal.SIGTERM, 75, 8),
        ("evaluation", signal.SIGKILL, -9, 4),
        ("last_save", signal.SIGTERM, 75, 12),
        ("dev_predicted", signal.SIGTERM, 75, 12),
        ("dev_predicted", signal.SIGINT, 130, 12),
    ],
)
def test_a_run_that_is_ended_anywhere_goes_on_to_the_same_bytes(
    exit_code_of, pretrained, table, whole, tmp_path, place, number, code, step
):
    arguments = small_task.arguments(pretrained, table, tmp_path / "run", *WITH_DROPOUT)
    assert exit_code_of(arguments, place, number) == code
    # Who is killed has a thread that was about to write the last one, or not yet.
    kept = processes.newest_step(tmp_path / "run")
    assert kept == step or (kept < step == 4 and number == signal.SIGKILL)
    assert not (tmp_path / "run" / "results.json").exists()
    assert exit_code_of(arguments) == 0
    _assert_bitwise_equal(whole / "seed-1", tmp_path / "run")


def test_a_run_that_is_ended_behind_its_last_prediction_is_done(
    exit_code_of, pretrained, table, whole, tmp_path
):
    arguments = small_task.arguments(pretrained, table, tmp_path / "run", *WITH_DROPOUT)
    assert exit_code_of(arguments, "test_predicted", signal.SIGTERM) == 0
    _assert_bitwise_equal(whole / "seed-1", tmp_path / "run")


def _of_training(folder: pathlib.Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of what training writes, but for its state's name."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.name.startswith(("model.ckpt", "metrics", "best_", "checkpoint"))
    }


@pytest.mark.parametrize(
    ("place", "number", "code"),
    [("second_seed", signal.SIGKILL, -9), ("test_predicted", signal.SIGTERM, 75)],
)
def test_seeds_go_on_with_the_one_that_was_ended(
    exit_code_of, pretrained, table, whole, tmp_path, place, number, code
):
    folder = tmp_path / "runs"
    arguments = small_task.arguments(pretrained, table, folder, *WITH_DROPOUT)
    arguments.append("--seeds=2")
    assert exit_code_of(arguments, place, number) == code
    assert not (folder / "seeds.json").exists()
    before = _of_training(folder / "seed-1")
    assert len(before) >= 5
    assert exit_code_of(arguments) == 0
    assert _of_training(folder / "seed-1") == before
    for name in ("seed-1", "seed-2"):
        _assert_bitwise_equal(whole / name, folder / name)
    assert (folder / "seeds.json").read_bytes() == (whole / "seeds.json").read_bytes()


def test_what_was_calibrated_stays_while_a_run_is_called_again(whole, tmp_path):
    shutil.copytree(whole / "seed-1", tmp_path / "run")
    run_dir.add_calibration(str(tmp_path / "run"), {"threshold": 0.25})
    read = run_dir.read(str(tmp_path / "run"))
    vocab = (tmp_path / "run" / "vocab.model").read_bytes()
    before = run_dir.read_task(str(tmp_path / "run"))
    arguments = vocab, read.task, "other/model.ckpt-9", before["train_digest"]
    run_dir.write(read.config, *arguments, str(tmp_path / "run"))
    described = run_dir.read_task(str(tmp_path / "run"))
    assert described["calibration"] == {"threshold": 0.25}
    # It began with that one, whatever is the newest of that run now.
    assert described["init_checkpoint"] == before["init_checkpoint"]


# ---- In parts ----


def _weights_after_steps(kind: str, *overrides: str) -> list[np.ndarray]:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    training = small_rows.Training(strategy, kind, *overrides)
    before = [variable.numpy() for variable in training.model.trainable_variables]
    outcome = training.loop(training.batches, tf.constant(5))
    assert int(outcome["num_steps"]) == 5 and not bool(outcome["failed"])
    after = [variable.numpy() for variable in training.model.trainable_variables]
    moved = [np.abs(a - b).max() for a, b in zip(after, before, strict=True)]
    assert np.median(moved) > 1e-4
    return after


@pytest.mark.parametrize("kind", small_rows.KINDS)
def test_a_batch_in_two_parts_teaches_what_one_does(kind):
    # Descent by the momentum alone: Adam would blow up gradients that are noise.
    steady = (
        "optimizer.epsilon=1.0",
        "optimizer.learning_rate=0.3",
        "train.max_loss_rise=30.0",
    )
    whole = _weights_after_steps(kind, *steady)
    parts = _weights_after_steps(kind, *steady, "train.accumulation_steps=2")
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_parts_of_a_batch_hold_different_numbers_of_words_with_labels():
    batcher = small_rows.Training(
        tf.distribute.OneDeviceStrategy("/cpu:0"), "token_classification"
    ).batcher
    batch = batcher.batch(range(8))
    counts = [int((part >= 0).sum()) for part in np.split(batch["token_label_ids"], 2)]
    assert counts[0] != counts[1]


# ---- A step that cannot be taken ----


def test_a_step_with_an_infinite_loss_is_named_with_batch_and_checkpoint(
    capsys, pretrained, tmp_path
):
    lines = ["text\tlabel", *(f"The river {n}\t{n / 10}" for n in range(30))]
    lines[20] = "A train\t1e38"
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    folder = tmp_path / "run"
    arguments = small_task.arguments(
        pretrained,
        tmp_path,
        folder,
        "task.kind=regression",
        "task.dev_file=",
        "task.test_file=",
        "train.save_every_steps=1",
    )
    said = binaries.error_of(capsys, finetune, *arguments)
    (path,) = folder.glob("bad_batch-*.npz")
    step = int(path.stem.rpartition("-")[2])
    assert f"step {step} failed: the loss is inf and the gradient norm" in said
    assert f"Its batch is kept in {path}; the last good checkpoint is" in said
    assert f"{folder}/model.ckpt-{step - 1}. A smaller" in said
    assert np.load(path)["targets"].max() == np.float32(1e38)
    assert processes.newest_step(folder) == step - 1


# ---- What a TPU is given ----

ON_TPU = ("classification", "answerable_span", "multiple_choice")


@functools.cache
def _on_tpu(kind: str) -> small_rows.Training:
    return small_rows.Training(
        fake_tpu.create_strategy(),
        kind,
        "model.hidden_dropout_rate=0.1",
        "model.attention_dropout_rate=0.2",
        "train.batch_size=32",
        "train.eval_batch_size=3",
        "train.jit_compile=auto",
    )


@functools.cache
def _train_ops(kind: str) -> tpu_ops.Ops:
    training = _on_tpu(kind)
    num_steps = tf.TensorSpec([], tf.int32)
    graph = training.loop.get_concrete_function(training.batches, num_steps).graph
    return tpu_ops.split(graph)


@pytest.mark.parametrize("kind", ON_TPU)
def test_the_train_step_of_a_task_holds_nothing_that_a_tpu_cannot_do(kind):
    ops = _train_ops(kind)
    assert tpu_ops.faults(ops) == set()
    (metadata,) = (op for op in ops.inside if op.type == "TPUReplicateMetadata")
    assert metadata.get_attr("num_replicas") == 8
    assert tpu_ops.types(ops.outside)["IteratorGetNext"] == 8
    parts = strategies.local_values(_on_tpu(kind).strategy, next(_on_tpu(kind).batches))
    choices = [3] if kind == "multiple_choice" else []
    shapes = [part["input_ids"].shape.as_list() for part in parts]
    assert shapes == [[4, *choices, 24]] * 8


def test_the_train_step_at_one_of_several_lengths_holds_nothing_else():
    training = small_rows.Training(
        fake_tpu.create_strategy(),
        "multiple_choice",
        "train.batch_size=32",
        "train.jit_compile=auto",
        "task.num_lengths=2",
    )
    num_steps = tf.TensorSpec([], tf.int32)
    graph = training.loop.get_concrete_function(training.batches, num_steps).graph
    ops = tpu_ops.split(graph)
    assert tpu_ops.faults(ops) == set()
    # One branch for each length; what crosses replicas is outside of them.
    types = tpu_ops.types(ops.inside)
    assert types["Case"] + types["StatelessCase"] == 1
    num_variables = len(training.model.trainable_variables)
    assert types["CrossReplicaSum"] == num_variables + 2


@pytest.mark.parametrize("kind", ON_TPU)
def test_gradients_of_tables_cross_replicas_dense(kind):
    shapes = [
        tuple(op.outputs[0].shape)
        for op in _train_ops(kind).inside
        if op.type == "CrossReplicaSum"
    ]
    model = _on_tpu(kind).model
    variables = [tuple(variable.shape) for variable in model.trainable_variables]
    assert (4000, 10) in variables
    # The weights of the losses, of which there is one here, the gradients, then four
    # sums and `stop`.
    assert shapes == [(1,), *variables, (5,)]


# Elsewhere the iterator is made before the graph.
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
@pytest.mark.parametrize("kind", ON_TPU)
def test_a_prediction_holds_nothing_that_a_tpu_cannot_do(kind):
    training = _on_tpu(kind)
    predict = prediction.make_predict(
        training.strategy,
        training.model,
        training.batcher,
        training.config.train.eval_batch_size,
        training.config.train.jit_compile,
        training.signals,
    )

    @tf.function(autograph=False)
    def trace():
        # Where the host first asks whether to stop.
        with pytest.raises(TypeError, match="bool"):
            predict()

    ops = tpu_ops.split(trace.get_concrete_function().graph)
    assert tpu_ops.faults(ops) == set()
    sums = [
        op.outputs[0].shape.as_list()
        for op in ops.inside
        if op.type == "CrossReplicaSum"
    ]
    # What each of eight replicas says of three items, and `stop`.
    outputs = {
        "classification": [[3]] * 2,
        "answerable_span": [[], [3], [3], [3, 2], [3, 2]],
        "multiple_choice": [[3]] * 2,
    }[kind]
    assert sorted(sums) == [[], *([8, 3, *shape] for shape in outputs)]


# ---- What the tests above lean on ----


def test_the_difference_between_two_runs_is_seen(whole):
    assert _largest_difference(whole / "seed-1", whole / "seed-2") > 1e-3
