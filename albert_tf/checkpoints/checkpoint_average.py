"""Average of the weights of several checkpoints, as the directory of a run.

The tree of names is taken from the checkpoints, so that no model has to be built:
whatever reads the weights of the run reads those of the average.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.checkpoints import (
    checkpoint_files,
    checkpointer,
    run_vocab,
    untrained,
    warm_start,
)
from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.data import schema

# Says what was averaged; a directory that has it holds no run to resume.
FILE = checkpoint_files.AVERAGE_FILE
_VALUE = "VARIABLE_VALUE"
# Those of pre-training, and of fine-tuning (`finetuning/run_dir.py`).
_RUN_FILES = (
    schema.CONFIG_FILE,
    schema.VOCAB_FILE,
    run_vocab.SUM_FILE,
    schema.MANIFEST_FILE,
    schema.MANIFESTS_FILE,
    untrained.FILE,
    "task.json",
)


def average(
    model_dir: str,
    steps: Sequence[int],
    output_dir: str,
    weights: str = config_lib.WEIGHTS[0],
) -> list[str]:
    """Writes the mean of the weights of some checkpoints of a run.

    Without optimizer and state: the result is read, and not trained further, except as
    the initial weights of another run.

    Args:
      model_dir: the run.
      steps: of the checkpoints, which are whole.
      output_dir: a new or empty directory; gets a checkpoint of the last of these
        steps, and the run's configuration, vocabulary, manifests and task.
      weights: as in `checkpointer.weights_part`.

    Returns:
      Lines that say what was averaged.

    Raises:
      ValueError: a checkpoint is damaged, or they differ in names, shapes or dtypes.
    """
    paths = [checkpointer.path_of_step(model_dir, step) for step in sorted(steps)]
    parts = {checkpointer.weights_part(path, weights) for path in paths}
    if len(parts) > 1:
        raise ValueError(
            "all checkpoints must have an average of the weights (train.ema_decay), or "
            f"none; some of {', '.join(paths)} have none. Pass --weights=trained, or "
            "other steps"
        )
    (part,) = parts
    total = _read(paths[0], part)
    for path in paths[1:]:
        for name, value in _fitting(_read(path, part), total, path, paths[0]).items():
            total[name] = total[name] + value
    values = {name: value / len(paths) for name, value in total.items()}
    tree = _make_tree(paths[0], part, values)
    last = checkpointer.step_of(paths[-1])
    with files.complete_folder(output_dir) as unfinished:
        for name in _RUN_FILES:
            if files.exists(source := os.path.join(model_dir, name)):
                files.copy(source, os.path.join(unfinished, name))
        content = {
            "model_dir": model_dir,
            "steps": [checkpointer.step_of(path) for path in paths],
            "weights": "averaged" if part == checkpointer.AVERAGE else "trained",
        }
        files.write_json(os.path.join(unfinished, FILE), content)
        checkpointer.Checkpointer(
            unfinished, 1, {checkpointer.MODEL: tree}, is_chief=True
        ).save(last, wait=True)
    num_numbers = sum(value.size for value in values.values())
    kind = "moving averages" if part == checkpointer.AVERAGE else "trained weights"
    return [
        f"mean of the {kind} of {len(paths)} checkpoints, {len(values)} variables with "
        f"{num_numbers:,} numbers:",
        *(f"  {path}" for path in paths),
        f"in {checkpointer.path_of_step(output_dir, last)}",
    ]


def _read(path: str, part: str) -> dict[str, np.ndarray]:
    """Returns the variables of a part by their names in it, as float64."""
    with warm_start.naming_damage(path):
        reader = tf.train.load_checkpoint(path)
        dtypes = reader.get_variable_to_dtype_map()
        found = {}
        for name in _keys(*_graph(path, part)):
            if not dtypes[name].is_floating:
                raise ValueError(
                    f"only numbers can be averaged; {name} of {path} is "
                    f"{dtypes[name].name}"
                )
            found[name] = reader.get_tensor(name).astype(np.float64)
    return found


def _graph(
    path: str, part: str
) -> tuple[trackable_object_graph_pb2.TrackableObjectGraph, int]:
    """Returns the objects of a checkpoint, and the number of a part's root."""
    with warm_start.naming_damage(path):
        reader = tf.train.load_checkpoint(path)
        text = reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(text)
    roots = {child.local_name: child.node_id for child in graph.nodes[0].children}
    return graph, roots[part]


def _keys(
    graph: trackable_object_graph_pb2.TrackableObjectGraph, root: int
) -> list[str]:
    """Returns the names of the variables below an object, sorted.

    A variable that two parts hold is stored once, so its name may begin with another
    part: weights that are not trained are their own average.
    """
    seen, rest, found = {root}, [root], set()
    while rest:
        node = graph.nodes[rest.pop()]
        found |= {one.checkpoint_key for one in node.attributes if one.name == _VALUE}
        below = {child.node_id for child in node.children} - seen
        seen |= below
        rest += below
    return sorted(found)


def _fitting(
    values: dict[str, np.ndarray],
    others: dict[str, np.ndarray],
    path: str,
    other_path: str,
) -> dict[str, np.ndarray]:
    """Returns `values` if names and shapes are those of `others`."""
    shapes, expected = (
        {name: value.shape for name, value in found.items()}
        for found in (values, others)
    )
    if shapes != expected:
        differing = sorted(dict(shapes.items() ^ expected.items()))
        raise ValueError(
            "checkpoints to average must have the same variables, of the same shapes; "
            f"{path} and {other_path} differ in {differing[0]}, and {len(differing)} "
            "in all"
        )
    return values


def _make_tree(path: str, part: str, values: dict[str, np.ndarray]) -> Any:
    """Returns the tree of a part of a checkpoint, with other values."""
    graph, root = _graph(path, part)
    made: dict[int, Any] = {}

    def make(number: int):
        if number in made:
            return made[number]
        node = graph.nodes[number]
        keys = {item.name: item.checkpoint_key for item in node.attributes}
        if _VALUE in keys:
            value = tf.constant(values[keys[_VALUE]], tf.float32)
            made[number] = tf.Variable(value, trainable=False)
            return made[number]
        made[number] = tf.Module()
        for child in node.children:
            setattr(made[number], child.local_name, make(child.node_id))
        return made[number]

    return make(root)
