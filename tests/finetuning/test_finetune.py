"""Fine-tuning from its command: what is learnt, chosen, written, and gone on from."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import ensemble, evaluate, finetune
from albert_tf.checkpoints import run_lock
from albert_tf.core import config_io
from albert_tf.devices import strategies
from albert_tf.finetuning import finetuning
from albert_tf.tasks import predictions as predictions_lib
from tests.support import binaries, heartbeats, small_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    # One layer: to trace two takes longer than all these steps.
    folder = tmp_path_factory.mktemp("origin") / "run"
    return small_task.write_pretrained(folder, "model.num_layers=1")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return small_task.write_table(tmp_path_factory.mktemp("table"))


_TUNED = ("train.num_steps=60", "train.eval_every_steps=20", "train.ema_decay=0.5")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, pretrained, table):
    """A whole run of 60 steps, whose averages are evaluated."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    with pytest.MonkeyPatch.context() as patch:
        leavings = []
        patch.setattr(strategies, "leave_together", leavings.append)
        binaries.run(
            finetune, *small_task.arguments(pretrained, table, folder, *_TUNED)
        )
    assert len(leavings) == 2  # after the last step, and after the last prediction
    return folder


def _results(folder):
    return json.loads((folder / "results.json").read_text())


def _weights(folder):
    reader = tf.train.load_checkpoint(str(folder))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.startswith(("model/", "optimizer/"))
    }


def test_classes_that_follow_from_words_are_learnt(tuned):
    results = _results(tuned)
    assert results["scores"]["dev"]["accuracy"] > 0.9
    assert results["labels"] == ["bad", "good"]
    assert results["num_examples"] == {"train": 60, "dev": 23, "test": 9}
    assert results["selected_on"] == "dev"
    assert results["best_metric"] == "accuracy"
    assert set(results["scores"]) == {"dev"}  # test has no labels


def test_the_best_score_of_the_curve_is_that_of_the_results(tuned):
    rows = [json.loads(line) for line in (tuned / "metrics.jsonl").open()]
    curve = {row["step"]: row["accuracy"] for row in rows if row["split"] == "dev"}
    results = _results(tuned)
    assert list(curve) == [20, 40, 60]
    assert results["scores"]["dev"]["accuracy"] == max(curve.values())
    assert curve[results["best_step"]] == max(curve.values())
    losses = [row["loss"] for row in rows if row["split"] == "train"]
    assert losses[-1] < 0.5 * losses[0]


def test_every_example_of_each_split_is_answered_and_kept(tuned, table):
    for split, count in (("dev", 23), ("test", 9)):
        texts = (table / f"{split}.tsv").read_text().splitlines()[1:]
        path = tuned / f"answers-{split}.jsonl"
        answers = [json.loads(line) for line in path.open()]
        assert [a["text_a"] for a in answers] == [t.split("\t")[0] for t in texts]
        assert {a["prediction"] for a in answers} == {"bad", "good"}
        ids, outputs = predictions_lib.from_bytes(
            (tuned / f"outputs-{split}.npz").read_bytes()
        )
        assert (len(ids), outputs.values.shape) == (count, (count, 2))
        found = [("bad", "good")[number] for number in outputs.values.argmax(1)]
        assert found == [a["prediction"] for a in answers]


def test_a_checkpoint_is_scored_alone(tuned, table, tmp_path, capsys, monkeypatch):
    leavings = []
    monkeypatch.setattr(strategies, "leave_together", leavings.append)
    arguments = [f"--model_dir={tuned}", f"--data_dir={table}"]
    binaries.run(evaluate, *arguments, f"--output_dir={tmp_path / 'again'}")
    assert len(leavings) == 1
    again = (tmp_path / "again" / "answers-dev.jsonl").read_text()
    assert again == (tuned / "answers-dev.jsonl").read_text()
    assert _results(tmp_path / "again")["scores"] == _results(tuned)["scores"]
    assert "dev selected the checkpoint" in capsys.readouterr().out
    said = binaries.error_of(capsys, evaluate, *arguments, f"--output_dir={tuned}/")
    assert "must be another directory" in said


def test_a_finished_run_changes_nothing_when_it_is_called_again(
    tuned, pretrained, table, monkeypatch
):
    before = (tuned / "metrics.jsonl").read_text()
    results = _results(tuned)
    beats = heartbeats.record(monkeypatch, "prediction")
    binaries.run(finetune, *small_task.arguments(pretrained, table, tuned, *_TUNED))
    assert (tuned / "metrics.jsonl").read_text() == before
    # The seconds are those of the training, not of predicting again.
    assert _results(tuned) == results
    # The watchdog saw the batches of five of 23 and of 9 examples.
    assert beats["the prediction with the best checkpoint"] == 5 + 2


def _contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_seconds_are_those_of_all_processes(tuned, pretrained, table, tmp_path):
    run = shutil.copytree(tuned, tmp_path / "run")
    # As if the process that trained had ended before the results.
    (run / "results.json").unlink()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    rows[-1]["seconds"] = 5000.0
    lines = [json.dumps(row) + "\n" for row in rows]
    (run / "metrics.jsonl").write_text("".join(lines))
    binaries.run(finetune, *small_task.arguments(pretrained, table, run, *_TUNED))
    assert 5000 <= _results(run)["seconds"] < 5100


def test_a_run_that_lost_its_checkpoints_is_not_started_over(
    tuned, pretrained, table, tmp_path, capsys
):
    run = shutil.copytree(tuned, tmp_path / "run")
    arguments = small_task.arguments(pretrained, table, run, *_TUNED)
    (run / "checkpoint").unlink()
    binaries.run(finetune, *arguments)
    assert "resuming from the newest whole checkpoint" in capsys.readouterr().err
    assert (run / "metrics.jsonl").read_text() == (tuned / "metrics.jsonl").read_text()
    assert _results(run)["scores"] == _results(tuned)["scores"]
    for path in [run / "checkpoint", *run.glob("model.ckpt-*")]:
        path.unlink(missing_ok=True)
    before = _contents(run)
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "metrics.jsonl has rows of a run up to step 60, but its checkpoints" in said
    assert _contents(run) == before


def test_several_lengths_are_refused_where_padding_has_a_share_in_scores(
    pretrained, table, tmp_path, capsys
):
    said = binaries.error_of(
        capsys,
        finetune,
        *small_task.arguments(
            pretrained,
            table,
            tmp_path / "run",
            "task.name=squad1",
            "task.max_query_length=4",
            "task.num_lengths=2",
        ),
    )
    assert "task.num_lengths must be 1 for the task squad1" in said


def test_a_directory_in_use_is_refused(tuned, pretrained, table, tmp_path):
    run = shutil.copytree(tuned, tmp_path / "run")
    settings = [*small_task.OVERRIDES, *small_task.TABLE, "train.seed=9"]
    config = config_io.load("", settings)
    with run_lock.hold(str(run), True, pytest.fail):
        before = _contents(run)
        with pytest.raises(ValueError, match="another run is training in"):
            finetuning.fine_tune(config, str(pretrained), str(table), str(run))
        assert _contents(run) == before


def test_several_seeds_have_a_median_a_spread_and_a_best(
    pretrained, table, tmp_path, capsys
):
    arguments = small_task.arguments(
        pretrained, table, tmp_path / "runs", "train.num_steps=4"
    )
    binaries.run(finetune, *arguments, "--seeds=3")
    summary = json.loads((tmp_path / "runs" / "seeds.json").read_text())
    scores = [seed["scores"]["dev"]["accuracy"] for seed in summary["seeds"]]
    assert [seed["folder"] for seed in summary["seeds"]] == [
        "seed-1",
        "seed-2",
        "seed-3",
    ]
    assert summary["median"]["dev"]["accuracy"] == sorted(scores)[1]
    assert summary["standard_deviation"]["dev"]["accuracy"] == pytest.approx(
        np.std(scores, ddof=1)
    )
    assert scores[summary["best"] - 1] == max(scores)
    assert "over 3 seeds" in capsys.readouterr().out
    # The ensemble of all three is the argmax of their mean logits.
    binaries.run(
        ensemble,
        f"--runs={tmp_path / 'runs'}",
        f"--data_dir={table}",
        f"--output_dir={tmp_path / 'mean'}",
    )
    parts = [
        predictions_lib.from_bytes(
            (tmp_path / "runs" / f"seed-{seed}" / "outputs-dev.npz").read_bytes()
        )[1].values
        for seed in (1, 2, 3)
    ]
    _, mean = predictions_lib.from_bytes(
        (tmp_path / "mean/outputs-dev.npz").read_bytes()
    )
    np.testing.assert_allclose(mean.values, np.mean(parts, axis=0), atol=1e-6)
    assert len(_results(tmp_path / "mean")["members"]) == 3


def test_an_ensemble_of_other_texts_with_the_same_ids_is_refused(
    tuned, table, tmp_path, capsys
):
    run = shutil.copytree(tuned, tmp_path / "run")
    other = shutil.copytree(table, tmp_path / "other")
    text = (other / "dev.tsv").read_text()
    arguments = f"--runs={run}", f"--data_dir={other}", f"--output_dir={tmp_path}/mean"
    # Other labels of the same texts, which may have been unknown, are none.
    (other / "dev.tsv").write_text(text.replace("\tbad", "\tgood"))
    binaries.run(ensemble, *arguments)
    (other / "dev.tsv").write_text(text.replace("river", "lake"))
    said = binaries.error_of(capsys, ensemble, *arguments)
    assert "for other examples than those of --data_dir: their texts differ" in said
    # An earlier version wrote no digest.
    path = run / "outputs-dev.npz"
    path.write_bytes(
        predictions_lib.to_bytes(*predictions_lib.from_bytes(path.read_bytes()))
    )
    binaries.run(ensemble, *arguments)


def test_an_ensemble_spares_its_members_and_says_what_chose_any_of_them(
    pretrained, table, tmp_path, capsys
):
    runs = tmp_path / "runs"
    arguments = small_task.arguments(
        pretrained, table, runs, "train.num_steps=4", "task.on_bad_example=skip"
    )
    binaries.run(finetune, *arguments, "--seeds=2")
    for folder in (runs, runs / "seed-2"):
        before = (folder / "results.json").exists() and _results(folder)
        said = binaries.error_of(
            capsys,
            ensemble,
            f"--runs={runs}",
            f"--data_dir={table}",
            f"--output_dir={folder}/",
        )
        assert "--output_dir must be another directory than that of a run" in said
        assert not before or _results(folder) == before
    # The first member was chosen by other examples than the second.
    results = _results(runs / "seed-1") | {"selected_on": "train-share"}
    (runs / "seed-1" / "results.json").write_text(json.dumps(results))
    # What cannot be used now is counted, and not what could not be used then.
    worse = shutil.copytree(table, tmp_path / "worse")
    with (worse / "dev.tsv").open("a") as file:
        file.write("a text without a label\n")
    mean, again = tmp_path / "mean", tmp_path / "again"
    for binary, run, folder in (
        (ensemble, f"--runs={runs / 'seed-1'},{runs / 'seed-2'}", mean),
        (evaluate, f"--model_dir={runs / 'seed-2'}", again),
    ):
        binaries.run(binary, run, f"--data_dir={worse}", f"--output_dir={folder}")
        assert _results(folder)["selected_on"] == "dev"
        (left_out,) = _results(folder)["left_out"]
        assert left_out.startswith("skipped 1: ")
        said = capsys.readouterr().out
        assert "dev selected the checkpoint" in said and left_out in said


def test_examples_that_cannot_be_used_can_be_skipped_afterwards(
    tuned, pretrained, table, tmp_path, capsys
):
    run = shutil.copytree(tuned, tmp_path / "run")
    worse = shutil.copytree(table, tmp_path / "worse")
    with (worse / "dev.tsv").open("a") as file:
        file.write("a text without a label\n")
    skip = "--set=task.on_bad_example=skip"
    again = tmp_path / "again"
    for binary, runs, folder in (
        (evaluate, f"--model_dir={run}", again),
        (ensemble, f"--runs={again}", tmp_path / "mean"),
    ):
        arguments = runs, f"--data_dir={worse}", f"--output_dir={folder}"
        said = binaries.error_of(capsys, binary, *arguments)
        assert "dev.tsv:25" in said and "--set task.on_bad_example=skip" in said
        binaries.run(binary, *arguments, skip)
        assert _results(folder)["left_out"][0].startswith("skipped 1: ")
        assert _results(folder)["scores"] == _results(tuned)["scores"]
        said = binaries.error_of(capsys, binary, *arguments, "--set=train.seed=3")
        assert "--set takes task.on_bad_example alone" in said
    # The run itself too, as long as it trains and selects by the same examples.
    arguments = small_task.arguments(pretrained, worse, run, *_TUNED)
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "--set task.on_bad_example=skip" in said
    binaries.run(finetune, *arguments, skip)
    assert _results(run)["scores"] == _results(tuned)["scores"]
    assert _results(run)["left_out"][0].startswith("skipped 1: ")


def test_an_exported_model_reads_examples_as_its_run_does(tuned, table, capsys):
    said = binaries.error_of(
        capsys,
        evaluate,
        *(f"--model_dir={tuned}", f"--data_dir={table}", "--output_dir=again"),
        *("--compute_dtype=bfloat16", "--set=task.on_bad_example=skip"),
    )
    assert "--set must be given without --lite, --openvino and --compute_dtype" in said


def test_entities_choose_the_checkpoint_where_words_have_such_labels(
    pretrained, tmp_path
):
    lines = ["The\tO", "river\tO", "York\tB-LOC", "city\tI-LOC", "", "a\tO", ""]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines * 8))
    overrides = (
        *small_task.OVERRIDES,
        "task.name=conll",
        "train.num_steps=40",
        "train.eval_every_steps=20",
    )
    binaries.run(
        finetune,
        f"--init_checkpoint={pretrained}",
        f"--data_dir={tmp_path}",
        f"--model_dir={tmp_path / 'run'}",
        *(f"--set={setting}" for setting in overrides),
    )
    results = _results(tmp_path / "run")
    assert results["best_metric"] == "entity_f1"
    assert results["best_value"] == results["scores"]["dev"]["entity_f1"] > 0.9


def test_patience_ends_a_run_that_gets_no_better(pretrained, table, tmp_path):
    # A rate so small that no answer changes: the first evaluation stays the best.
    arguments = small_task.arguments(
        pretrained,
        table,
        tmp_path / "run",
        "optimizer.learning_rate=1e-12",
        "task.patience=2",
        "train.num_steps=40",
    )
    binaries.run(finetune, *arguments)
    before = _results(tmp_path / "run")
    assert (before["last_step"], before["num_steps"]) == (12, 40)
    binaries.run(finetune, *arguments)
    assert _results(tmp_path / "run") == before
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert [row["step"] for row in rows if row["split"] == "dev"] == [4, 8, 12]
    assert _results(tmp_path / "run")["best_step"] == 4


def test_a_share_of_the_training_examples_chooses_where_asked(
    pretrained, table, tmp_path, capsys
):
    arguments = small_task.arguments(
        pretrained, table, tmp_path / "run", "task.selection_fraction=0.3"
    )
    binaries.run(finetune, *arguments)
    results = _results(tmp_path / "run")
    assert results["selected_on"] == "train-share"
    assert 35 <= results["num_examples"]["train"] <= 50
    assert "selected the checkpoint" not in capsys.readouterr().out


def test_a_run_begins_with_the_encoder_of_another_task(
    tuned, pretrained, table, tmp_path
):
    still = ("optimizer.learning_rate=1e-12", "train.num_steps=4")
    for name, origin in (("task", tuned), ("pretrained", pretrained)):
        binaries.run(
            finetune, *small_task.arguments(origin, table, tmp_path / name, *still)
        )
    embeddings = "model/encoder/embeddings/word_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    best = _results(tuned)["best_step"]
    expected = tf.train.load_checkpoint(str(tuned / f"model.ckpt-{best}"))
    found = _weights(tmp_path / "task")[embeddings]
    average = embeddings.replace("model/", "average/")
    np.testing.assert_allclose(found, expected.get_tensor(average), atol=1e-9)
    assert np.abs(expected.get_tensor(embeddings) - found).max() > 1e-6
    other = _weights(tmp_path / "pretrained")[embeddings]
    assert np.abs(other - found).max() > 1e-4


def test_random_weights_leave_those_of_the_checkpoint(pretrained, table, tmp_path):
    arguments = small_task.arguments(
        pretrained,
        table,
        tmp_path / "run",
        "task.initial_weights=random",
        "optimizer.learning_rate=1e-12",
        "train.num_steps=4",
    )
    binaries.run(finetune, *arguments)
    embeddings = "model/encoder/embeddings/word_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    theirs = tf.train.load_checkpoint(str(pretrained)).get_tensor(embeddings)
    assert np.abs(_weights(tmp_path / "run")[embeddings] - theirs).max() > 0.01


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["task.name=", "train.best_metric=mlm_loss"], "must be a recipe of a task"),
        (["model.num_layers=3"], "model.num_layers is that of --init_checkpoint, 1"),
        (["task.max_seq_length=33"], "--set task.max_seq_length=32"),
        (["train.best_metric=f2"], "must be one of accuracy, macro_f1"),
        (["task.selection_fraction=0.0001"], "must leave examples on both sides"),
        (["data.max_seq_length=8"], "--set task.max_seq_length=8"),
        (["data.lower_case=false"], "data.lower_case is that of --init_checkpoint, Tr"),
        (["model.initializer_range=0.5"], "model.initializer_range is that of"),
        (["train.eval_batches=2"], "train.eval_batches is a setting of pre-training"),
        (["task.name=race"], "task.train_file must be empty for the task race"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_written(
    capsys, pretrained, table, tmp_path, overrides, words
):
    arguments = small_task.arguments(pretrained, table, tmp_path / "run", *overrides)
    assert words in binaries.error_of(capsys, finetune, *arguments)
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_named_file_that_is_not_there_is_missed(capsys, pretrained, table, tmp_path):
    for name in ("dev_file", "test_file"):
        arguments = small_task.arguments(
            pretrained, table, tmp_path / "run", f"task.{name}=typo.tsv"
        )
        said = binaries.error_of(capsys, finetune, *arguments)
        assert f"task.{name} must name a file" in said and "'typo.tsv'" in said


def test_another_origin_or_other_examples_are_another_run(
    capsys, tuned, pretrained, table, tmp_path
):
    other = small_task.write_pretrained(tmp_path / "other", "model.num_layers=1")
    arguments = small_task.arguments(other, table, tuned, *_TUNED)
    said = binaries.error_of(capsys, finetune, *arguments)
    assert f"and is {other}/model.ckpt-7" in said
    fewer = small_task.write_table(tmp_path / "fewer", num_train=50)
    arguments = small_task.arguments(pretrained, fewer, tuned, *_TUNED)
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "the training examples differ" in said


@pytest.mark.parametrize("overrides", [(), ("task.selection_fraction=0.4",)])
def test_other_examples_that_select_the_checkpoint_are_another_run(
    capsys, pretrained, table, tmp_path, overrides
):
    data, run = shutil.copytree(table, tmp_path / "data"), tmp_path / "run"
    settings = ("train.num_steps=4", *overrides)
    arguments = small_task.arguments(pretrained, data, run, *settings)
    binaries.run(finetune, *arguments)
    before = _results(run)
    train, dev = data / "train.tsv", data / "dev.tsv"
    if overrides:
        # An example that is kept out of training; the others stay.
        header, *rows = train.read_text().splitlines()
        place = next(n for n in range(len(rows)) if _selects(str(n)))
        rows[place] = "river\tbad"
        train.write_text("\n".join([header, *rows]) + "\n")
    else:
        dev.write_text("text\tlabel\nriver\tgood\n")
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "the examples that select the checkpoint differ" in said
    assert _results(run) == before
    # A run of an earlier version has no digest of them, and keeps its file.
    task = json.loads((run / "task.json").read_text())
    del task["selection_digest"]
    (run / "task.json").write_text(json.dumps(task))
    binaries.run(finetune, *arguments)
    assert json.loads((run / "task.json").read_text()) == task


def _selects(example_id):
    digest = hashlib.sha256(example_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64 < 0.4


def test_a_folder_of_pre_training_is_left_alone(capsys, pretrained, table):
    before = sorted(path.name for path in pretrained.iterdir())
    arguments = small_task.arguments(pretrained, table, pretrained)
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "contains a run of pre-training" in said
    assert sorted(path.name for path in pretrained.iterdir()) == before


def test_a_folder_of_another_fine_tuning_is_refused(capsys, tuned, pretrained, table):
    arguments = small_task.arguments(
        pretrained, table, tuned, "train.num_steps=60", "optimizer.learning_rate=0.02"
    )
    said = binaries.error_of(capsys, finetune, *arguments)
    assert "optimizer.learning_rate was 0.01 and is 0.02" in said


def test_auto_hyperparameters_are_chosen_once_for_all_seeds(
    pretrained, table, tmp_path, capsys
):
    def arguments(*overrides):
        settings = (
            *("task.train_file=train.tsv", "train.num_steps=4", *overrides),
            *("train.jit_compile=off", "train.batch_size=8", "train.eval_batch_size=5"),
        )
        return [
            "--config=configs/finetune_table.py",
            f"--init_checkpoint={pretrained}",
            f"--data_dir={table}",
            f"--model_dir={tmp_path / 'run'}",
            *(f"--set={setting}" for setting in settings),
        ]

    binaries.run(finetune, *arguments(), "--seeds=2")
    said = capsys.readouterr().err
    assert "hyperparameters for hidden size 12 and 60 training rows" in said
    assert "optimizer.learning_rate=0.0001 (recipe: 2e-05)" in said
    config = config_io.read(str(tmp_path / "run" / "seed-2" / "config.json"))
    assert config.optimizer.learning_rate == 1e-4
    assert (config.train.num_steps, config.task.max_seq_length) == (4, 32)
    assert config.task.hyperparameters == "given"
    # More seeds get what the first ones have, whatever would be chosen now.
    for folder in ("seed-1", "seed-2"):
        path = tmp_path / "run" / folder / "config.json"
        path.write_text(path.read_text().replace("0.0001", "0.0004"))
    binaries.run(finetune, *arguments(), "--seeds=3")
    config = config_io.read(str(tmp_path / "run" / "seed-3" / "config.json"))
    assert config.optimizer.learning_rate == 4e-4
    said = binaries.error_of(
        capsys, finetune, *arguments("optimizer.learning_rate=1e-3"), "--seeds=3"
    )
    assert "optimizer.learning_rate was 0.0004 and is 0.001" in said
