"""Each name of a task gives its class."""

import pytest

from albert_tf.core import task_config
from albert_tf.tasks import registry

CLASSES = {
    "squad1": "SquadTask",
    "squad2": "SquadTask",
    "race": "RaceTask",
    "table": "TableTask",
    "conll": "ConllTask",
}


@pytest.mark.parametrize("name", task_config.TASKS)
def test_each_name_gives_its_class(name):
    settings = task_config.TaskConfig(name=name)
    task = registry.create(settings)
    assert type(task).__name__ == CLASSES.get(name, "GlueTask")
    assert task.settings is settings


@pytest.mark.parametrize("name", ["table", "conll"])
def test_labels_of_a_trained_model_are_handed_on(name):
    task = registry.create(task_config.TaskConfig(name=name), ("b", "a"))
    assert task.labels == ("b", "a")


def test_pre_training_is_no_task():
    with pytest.raises(ValueError, match="task.name must be one of cola.*--set task.n"):
        registry.create(task_config.TaskConfig())
