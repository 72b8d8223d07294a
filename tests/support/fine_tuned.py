"""Folders as a fine-tuning leaves them, with models that were never trained."""

import json
import pathlib
import shutil

from albert_tf.checkpoints import checkpointer
from albert_tf.core import config, config_io
from albert_tf.model import task_model
from tests.support import small_run

# What the models are asked.
LONG = "The river runs through New York, and number 1990, is a small lake near it. "
TEXTS = [LONG, "A train", "", LONG * 3]
PAIRS = ["His brother", LONG, "The old city", ""]
OPTIONS = [["a lake", "a train", LONG], ["x", "y", "New York"]] * 2
QUESTIONS = ["What is _ near?", "Where is it?", "_", "Is it, as _ says, _?"]

# Of each kind a task, its labels, the arguments of its head, and its settings.
KINDS = {
    "classification": (
        "mnli",
        ["contradiction", "entailment", "neutral"],
        {"num_classes": 3, "dropout_rate": 0.1},
        [],
    ),
    "regression": ("stsb", [], {"dropout_rate": 0.1}, []),
    "token_classification": (
        "conll",
        ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"],
        {"num_classes": 5, "dropout_rate": 0.1},
        [],
    ),
    "span": ("squad1", [], {}, []),
    "answerable_span": (
        "squad2",
        [],
        {"num_starts": 3, "num_ends": 2, "dropout_rate": 0.1},
        ["task.num_starts=3", "task.num_ends=2"],
    ),
    "multiple_choice": ("race", [], {"dropout_rate": 0.1}, []),
}
SETTINGS = (
    "task.max_seq_length=24",
    "task.max_query_length=7",
    "task.doc_stride=5",
    "task.max_answer_length=4",
    "task.n_best_size=6",
    "task.max_option_length=9",
    # To trace two takes longer, six times; shared layers have tests of their own.
    "model.num_layers=1",
    # So that scores of untrained models differ.
    "model.initializer_range=0.5",
)


def write(folder: pathlib.Path, kind: str, *overrides: str, **task) -> pathlib.Path:
    """Makes the folder of a run, in which step 2 was the best of 1, 2 and 3.

    Args:
      folder: is made.
      kind: a key of `KINDS`.
      *overrides: of the configuration.
      **task: what task.json holds besides.
    """
    folder.mkdir(parents=True)
    name, labels, head_settings, own = KINDS[kind]
    settings = small_run.small_config(*SETTINGS, *own, f"task.name={name}", *overrides)
    (folder / "config.json").write_text(config_io.to_json(settings))
    shutil.copy(small_run.VOCAB, folder / "vocab.model")
    values = {
        "name": name,
        "kind": kind,
        "labels": labels,
        "head_settings": head_settings,
        "calibration": {},
        **task,
    }
    (folder / "task.json").write_text(json.dumps(values))
    for step in (1, 2, 3):
        saver = checkpointer.Checkpointer(
            str(folder), 3, {"model": model(kind, step, settings)}, is_chief=True
        )
        saver.save(step, 0.5 if step == 2 else None, wait=True)
    return folder


def model(kind: str, seed: int, settings: config.Config) -> task_model.TaskModel:
    """The model that the checkpoint of step `seed` holds."""
    head_settings = KINDS[kind][2]
    return task_model.build_task_model(settings.model, kind, seed, **head_settings)
