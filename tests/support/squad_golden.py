"""The original's figures for SQuAD, on a small file made up for them.

The arrays were cut and put together without changes, but for log probabilities in
float32 and n-best figures of eight decimals.
"""

import json
import os

import numpy as np

from albert_tf.core import task_config
from albert_tf.tasks import examples
from albert_tf.tasks.squad import task as task_lib

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "ft")
SETTINGS = {"max_seq_length": 128, "doc_stride": 48, "max_query_length": 32}


def task(name: str, **settings) -> task_lib.SquadTask:
    """The task `name` with the settings of the figures, unless others are given."""
    return task_lib.SquadTask(task_config.TaskConfig(name, **{**SETTINGS, **settings}))


def questions() -> list[examples.SpanExample]:
    """All questions of the small file, also those without an answer."""
    reader = task("squad2", dev_file="squad_toy.json")
    return reader.read(FOLDER, "dev", examples.Problems(skip=False))


def arrays(name: str) -> dict[str, np.ndarray]:
    """`squad_features`, or the model's outputs `squad1_results`, `squad2_results`."""
    with np.load(os.path.join(FOLDER, f"{name}.npz"), allow_pickle=False) as content:
        return dict(content)


def expected(name: str):
    """What the original made of these outputs: n-best, predictions, metrics."""
    path = os.path.join(FOLDER, "squad_expected.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)[name]
