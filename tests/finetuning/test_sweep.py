"""A swept setting: what is tried, chosen, written, and refused."""

import json
import shutil

import pytest

from albert_tf import finetune
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, task_config
from albert_tf.finetuning import results_reader, sweep
from tests.support import binaries, small_task

RECIPE = config_lib.Config(task=task_config.TaskConfig(name="cola"))
RATES = sweep.Sweep("optimizer.learning_rate", ("1e-4", "3e-4", "1e-3"))


def _fine_tune(scores, seen):
    """Pretends to train: the scores by learning rate; notes recipe and directory."""

    def run(config, folder):
        seen.append((config.optimizer.learning_rate, folder))
        return {
            "best_value": scores[config.optimizer.learning_rate],
            "best_metric": "accuracy",
            "selected_on": "selection",
        }

    return run


def _choose(folder, run):
    return sweep.choose(RATES, RECIPE, str(folder), run, results_reader.format_metric)


def test_the_value_with_the_best_score_is_taken(tmp_path, capsys):
    seen = []
    run = _fine_tune({1e-4: 0.5, 3e-4: 0.75, 1e-3: 0.625}, seen)
    config = _choose(tmp_path, run)
    assert config == config_io.override(RECIPE, ["optimizer.learning_rate=3e-4"])
    assert config.optimizer.learning_rate == 3e-4
    assert seen == [
        (1e-4, f"{tmp_path}/sweep/1e-4"),
        (3e-4, f"{tmp_path}/sweep/3e-4"),
        (1e-3, f"{tmp_path}/sweep/1e-3"),
    ]
    assert json.loads((tmp_path / "sweep.json").read_text()) == {
        "setting": "optimizer.learning_rate",
        "best_metric": "accuracy",
        "selected_on": "selection",
        "scores": {"1e-4": 0.5, "3e-4": 0.75, "1e-3": 0.625},
        "best": "3e-4",
    }
    assert capsys.readouterr().out == (
        "optimizer.learning_rate=3e-4 has the best accuracy on selection "
        "(1e-4: 50.00, 3e-4: 75.00, 1e-3: 62.50)\n"
    )


def test_of_equal_scores_the_first_is_taken(tmp_path):
    run = _fine_tune({1e-4: 0.25, 3e-4: 0.5, 1e-3: 0.5}, [])
    config = _choose(tmp_path, run)
    assert config.optimizer.learning_rate == 3e-4


def test_without_a_split_to_choose_by_it_is_refused(tmp_path):
    run = _fine_tune(dict.fromkeys((1e-4, 3e-4, 1e-3)), [])
    with pytest.raises(ValueError, match="--set task.selection_fraction=0.1"):
        _choose(tmp_path, run)
    assert not (tmp_path / "sweep.json").exists()


def test_dropout_rates_can_be_chosen():
    text = "model.hidden_dropout_rate=0,0.1"
    assert sweep.parse(text, RECIPE).values == ("0", "0.1")


def _failing(rates):
    scored = _fine_tune({1e-4: 0.5, 3e-4: 0.75, 1e-3: 0.625}, [])

    def run(config, folder):
        if config.optimizer.learning_rate in rates:
            raise FloatingPointError("the loss is not finite at step 7")
        return scored(config, folder)

    return run


def test_a_value_with_which_training_fails_is_not_chosen(tmp_path, capsys):
    config = _choose(tmp_path, _failing([3e-4]))
    assert config.optimizer.learning_rate == 1e-3
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert found["scores"] == {"1e-4": 0.5, "1e-3": 0.625}
    assert found["failed"] == {"3e-4": "the loss is not finite at step 7"}
    said = "optimizer.learning_rate=3e-4 failed, and is not chosen: the loss is not"
    assert said in capsys.readouterr().out


def test_values_that_all_fail_end_the_sweep(tmp_path):
    with pytest.raises(FloatingPointError, match="with all values of --sweep=opt"):
        _choose(tmp_path, _failing([1e-4, 3e-4, 1e-3]))
    assert not (tmp_path / "sweep.json").exists()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("optimizer.learning_rate", "two values or more"),
        ("optimizer.learning_rate=1e-4", "two values or more"),
        ("optimizer.learning_rate=1e-4,1e-4", "two values or more"),
        ("optimizer.learning_rate=1e-4,", "two values or more"),
        ("optimizer.learning_rate=1e-4,fast", "optimizer.learning_rate must be a num"),
        ("optimizer.rate=1e-4,3e-4", "optimizer.rate"),
        # Scores by different metrics, or of different examples.
        ("train.best_metric=accuracy,f1", "train.best_metric, which changes the ex"),
        ("task.selection_fraction=0.1,0.2", "scores remain comparable"),
        ("task.dev_file=a.tsv,b.tsv", "scores remain comparable"),
        ("task.name=cola,sst2", "scores remain comparable"),
        ("task.on_bad_example=error,skip", "scores remain comparable"),
        # Settings without an effect.
        ("data.lower_case=true,false", "data.lower_case, which is that of --init"),
        ("model.num_layers=1,2", "model.num_layers, which is that of --init_check"),
        ("text.invalid_utf8=error,replace", "text.invalid_utf8, which is that of"),
    ],
)
def test_malformed_sweeps_are_refused(text, rule):
    with pytest.raises(ValueError, match=rule):
        sweep.parse(text, RECIPE)


@pytest.mark.slow
def test_the_command_trains_with_what_was_chosen_and_resumes(tmp_path, capsys):
    pretrained = small_task.write_pretrained(tmp_path / "origin", "model.num_layers=1")
    table = small_task.write_table(tmp_path / "table")
    # A recipe that chooses its hyperparameters by the model, as the project's do.
    recipe = "task.selection_fraction=0.4", "task.hyperparameters=auto"
    arguments = small_task.arguments(pretrained, table, tmp_path / "run", *recipe)
    # With a rate of almost 0 nothing is learnt.
    rates = "--sweep=optimizer.learning_rate=1e-12,0.01"
    arguments = [one for one in arguments if "learning_rate" not in one]
    binaries.run(finetune, *arguments, rates)
    assert "optimizer.learning_rate=0.01 has the best acc" in capsys.readouterr().out
    run = tmp_path / "run"
    assert config_io.read(str(run / "config.json")).optimizer.learning_rate == 0.01
    scores = {}
    for rate in ("1e-12", "0.01"):
        config = config_io.read(str(run / "sweep" / rate / "config.json"))
        assert config.optimizer.learning_rate == float(rate)
        text = (run / "sweep" / rate / "results.json").read_text()
        scores[rate] = json.loads(text)["best_value"]
    found = json.loads((run / "sweep.json").read_text())
    assert (found["scores"], found["selected_on"]) == (scores, "train-share")
    assert scores["0.01"] > scores["1e-12"]
    # The features are computed once.
    assert not (run / "sweep" / "0.01" / "features").exists()
    # Given again, it trains only what is missing.
    weights = run / "sweep" / "0.01" / "model.ckpt-12.index"
    written = weights.stat().st_mtime_ns
    shutil.rmtree(run / "sweep" / "1e-12")
    binaries.run(finetune, *arguments, rates)
    assert (run / "sweep" / "1e-12" / "results.json").exists()
    assert weights.stat().st_mtime_ns == written
    assert json.loads((run / "sweep.json").read_text()) == found
