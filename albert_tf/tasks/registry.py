"""Tasks by name.

To add a task like those of GLUE (a directory with train.tsv, dev.tsv and test.tsv, each
with a header line):

1. its name in `TASKS` of core/task_config.py,
2. its columns, labels and metrics in `_LAYOUTS` of glue.py,
3. its title in `TITLES` of core/task_config.py,
4. a recipe configs/finetune_NAME.py.

`create` finds it. For other file formats, subclass `base.Task`, or `text_task.TextTask`
for texts and pairs of texts, and return an instance in `create`.
"""

from collections.abc import Sequence

from albert_tf.core import task_config
from albert_tf.tasks import base, conll, glue, race, table
from albert_tf.tasks.squad import task


def create(settings: task_config.TaskConfig, labels: Sequence[str] = ()) -> base.Task:
    """Creates the task with the name `settings.name`.

    Args:
      settings: the section `task` of the configuration.
      labels: the classes of a trained model, for the tasks "table" and "conll", which
        otherwise read them from the training file; other tasks ignore it.

    Raises:
      ValueError: there is no task with that name.
    """
    if settings.name in glue.TASKS:
        return glue.GlueTask(settings)
    match settings.name:
        case "squad1" | "squad2":
            return task.SquadTask(settings)
        case "race":
            return race.RaceTask(settings)
        case "table":
            return table.TableTask(settings, labels)
        case "conll":
            return conll.ConllTask(settings, labels)
    raise ValueError(
        f"task.name must be one of {', '.join(task_config.TASKS)}; received "
        f"{settings.name!r}. Set it with --set task.name=NAME"
    )
