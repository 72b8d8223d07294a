"""Folders of fine-tuning runs, made up, for tests of their report."""

import json
import pathlib
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, task_config

MRPC_ANSWERS = [
    {
        "id": "1",
        "text_a": "A <b>cat</b> sat.",
        "text_b": "It sat & slept.",
        "label": "0",
        "prediction": "1",
        "is_correct": False,
        "probability": 0.75,
    },
    {
        "id": "2",
        "text_a": "Sure and wrong.",
        "text_b": "Wrong and sure.",
        "label": "1",
        "prediction": "0",
        "is_correct": False,
        "probability": 0.9375,
    },
    *(
        {
            "id": str(number),
            "text_a": "Right.",
            "text_b": "Right, too.",
            "label": "1",
            "prediction": "1",
            "is_correct": True,
            "probability": 0.875,
        }
        for number in (3, 4, 5)
    ),
]
CONTEXT = "Ada Lovelace wrote of the engine in 1843 while Babbage built it in London."
SQUAD_ANSWERS = [
    {
        "id": "a",
        "question": "When did she write?",
        "context": CONTEXT,
        "answers": [{"text": "1843", "start": 36}],
        "prediction": "in 1843",
        "start": 33,
        "end": 40,
        "probability": 0.625,
        "is_correct": False,
        "f1": 0.5,
        "null_odds": -1.5,
    },
    {
        "id": "b",
        "question": "Where is Paris?",
        "context": CONTEXT,
        "answers": [],
        "prediction": "London",
        "start": 67,
        "end": 73,
        "probability": 0.75,
        "is_correct": False,
        "f1": 0.0,
        "null_odds": 0.5,
    },
    {
        "id": "c",
        "question": "Who built it?",
        "context": CONTEXT,
        "answers": [{"text": "Babbage", "start": 47}],
        "prediction": "Babbage",
        "start": 47,
        "end": 54,
        "probability": 0.5,
        "is_correct": True,
        "f1": 1.0,
        "null_odds": -2.5,
    },
    {
        "id": "d",
        "question": "Who slept?",
        "context": CONTEXT,
        "answers": [{"text": "Ada Lovelace", "start": 0}],
        "prediction": "",
        "start": -1,
        "end": -1,
        "probability": 0.25,
        "is_correct": False,
        "f1": 0.0,
        "null_odds": 3.5,
    },
]
CONLL_ANSWERS = [
    {
        "id": "1",
        "words": ["Ada", "met", "Bab$bage"],
        "label": ["B-PER", "O", "B-PER"],
        "prediction": ["B-PER", "O", "O"],
        "is_correct": False,
    },
    {
        "id": "2",
        "words": ["In", "London"],
        "label": ["O", "B-LOC"],
        "prediction": ["B-PER", "B-PER"],
        "is_correct": False,
    },
]
RACE_ANSWERS = [
    {
        "id": "high1-1",
        "context": "The sun is far.",
        "question": "The sun is _ .",
        "options": ["near", "far", "cold", "wet"],
        "label": "B",
        "prediction": letter,
        "is_correct": letter == "B",
        "probability": 0.5,
        "group": "high",
    }
    for letter in ("B", "D", "B")
]
STSB_ANSWERS = [
    {"id": "1", "text_a": "One.", "text_b": "Two.", "label": 1.0, "prediction": 1.5},
    {"id": "2", "text_a": "Far.", "text_b": "Off.", "label": 5.0, "prediction": 2.0},
    {"id": "3", "text_a": "Same.", "text_b": "Same.", "label": 5.0, "prediction": 5.0},
]
KINDS = {
    "stsb": "regression",
    "conll": "token_classification",
    "squad1": "span",
    "squad2": "answerable_span",
    "race": "multiple_choice",
}


def config(task: str) -> config_lib.Config:
    """A recipe of fine-tuning."""
    return config_lib.Config(
        model=config_lib.ModelConfig(vocab_size=4001, num_layers=5, hidden_size=240),
        train=config_lib.TrainConfig(batch_size=33, num_steps=800, best_metric=""),
        optimizer=config_lib.OptimizerConfig(
            name="adamw", learning_rate=2e-5, warmup_steps=200
        ),
        task=task_config.TaskConfig(name=task, max_seq_length=128),
    )


def rows(metric: str, values: tuple[float, ...]) -> list[dict[str, Any]]:
    """Rows of metrics.jsonl: eight of training, and one of dev for each value."""
    train = [
        {
            "split": "train",
            "step": 100 * number,
            "seconds": 10.0 * number,
            "loss": 0.7 - 0.05 * number,
            "learning_rate": 2e-5 * (9 - number) / 8,
            "gradient_norm": 1.0 + 0.1 * number,
        }
        for number in range(1, 9)
    ]
    dev = [
        {"split": "dev", "step": 200 * (place + 1), "seconds": 20.0, metric: value}
        for place, value in enumerate(values)
    ]
    return train + dev


def results(task: str, **values: Any) -> dict[str, Any]:
    """What results.json holds; `values` take the place of its own."""
    return {
        "task": task,
        "kind": KINDS.get(task, "classification"),
        "labels": [],
        "seed": 1,
        "initial_weights": "checkpoint",
        "init_checkpoint": "/models/base/ckpt-9",
        "num_steps": 800,
        "best_step": 600,
        "best_metric": "accuracy",
        "selected_on": "dev",
        "num_examples": {"train": 3668, "dev": 408},
        "left_out": [],
        "scores": {"dev": {"accuracy": 0.6}},
        "seconds": 123.4,
        **values,
    }


def write(
    folder: pathlib.Path,
    task: str,
    found: dict[str, Any],
    answers: list[dict[str, Any]],
    metrics: list[dict[str, Any]],
) -> None:
    """Writes the folder of a run."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config_io.to_json(config(task)))
    (folder / "results.json").write_text(json.dumps(found))
    for name, lines in (("metrics", metrics), ("answers-dev", answers)):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
