"""The recipes of fine-tuning hold the paper's hyperparameters."""

import pathlib

import pytest

from albert_tf.core import config_io
from albert_tf.tasks import registry

CONFIGS = pathlib.Path(__file__).resolve().parent.parent.parent / "configs"

# ALBERT paper, appendix A.4: learning rate, batch size, dropout of ALBERT and of the
# classifier, steps, warmup steps, longest sequence. WNLI is not verified.
PAPER = {
    "cola": (1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "stsb": (2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst2": (1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad1": (5e-5, 48, 0.0, 0.1, 3649, 365, 384),
    "squad2": (3e-5, 48, 0.0, 0.1, 8144, 814, 512),
    "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}
OWN = ("table", "conll")
METRICS = {"cola": "matthews", "stsb": "pearson", "squad1": "f1", "squad2": "best_f1"}


def _recipe(name):
    return config_io.load(str(CONFIGS / f"finetune_{name}.py"))


def test_there_is_a_recipe_for_each_task_and_no_other():
    names = {path.stem.removeprefix("finetune_") for path in CONFIGS.glob("finetune_*")}
    assert names == {*PAPER, *OWN}


@pytest.mark.parametrize("name", PAPER)
def test_recipe_equals_the_papers_row(name):
    recipe = _recipe(name)
    model, adam, run, task = recipe.model, recipe.optimizer, recipe.train, recipe.task
    assert (task.name, task.hyperparameters) == (name, "auto")
    assert model.hidden_dropout_rate == model.attention_dropout_rate
    found = (
        *(adam.learning_rate, run.batch_size, model.hidden_dropout_rate),
        *(task.classifier_dropout_rate, run.num_steps, adam.warmup_steps),
        task.max_seq_length,
    )
    assert found == PAPER[name]
    assert (adam.name, adam.weight_decay_rate, adam.decay) == (
        "adamw",
        0.01,
        "polynomial",
    )


@pytest.mark.parametrize("name", (*PAPER, *OWN))
def test_recipe_names_its_own_command_and_a_score_of_its_task(name):
    path = CONFIGS / f"finetune_{name}.py"
    text = path.read_text()
    assert f"--config=configs/finetune_{name}.py" in text
    assert f"--model_dir={name}\n" in text
    recipe = _recipe(name)
    metrics = registry.create(recipe.task).metric_names
    chosen = recipe.train.best_metric or metrics[0]
    assert chosen in metrics
    if name in PAPER:
        assert chosen == METRICS.get(name, "accuracy")


def test_squad_and_race_have_the_papers_lengths():
    for name in ("squad1", "squad2"):
        task = _recipe(name).task
        assert (task.doc_stride, task.max_query_length) == (128, 64)
        assert (task.n_best_size, task.max_answer_length) == (20, 30)
        assert (task.num_starts, task.num_ends) == (5, 5)
    assert _recipe("race").task.max_option_length == 128
