"""Scores of the ALBERT paper, for comparison with those of a run.

Source: Lan et al., 2019 (arXiv 1909.11942, version 6). Its table 2 has development
scores of models that saw BookCorpus and Wikipedia (16 GB of text) for 125,000 steps;
the authors' repository repeats those of ALBERT as its version 1, except xxlarge.
Tables 9 (GLUE, development set) and 10 (SQuAD, development set; RACE, test set) have
single models, of which ALBERT is an xxlarge that saw more text; the repository's README
has both too. Of the other models in these tables only BERT large is kept here.

Table 9 names no metrics: its figures are read here as accuracy, for CoLA as Matthews
correlation and for STS-B as Pearson correlation. It has no WNLI.
"""

from collections.abc import Mapping
from typing import NamedTuple

_SAME_TEXT = "16 GB of text, 125k steps"
_MORE_TEXT = "more than 16 GB of text"
_OF_OTHERS = "as others reported it"


class PaperRow(NamedTuple):
    """Scores of one model on one task.

    Attributes:
      model: its name and size.
      parameters: their number as the paper rounds it.
      pretraining: its text and steps.
      split: "dev" or "test".
      scores: by the names of this project's metrics, in percent.
      table: its number in the paper.
    """

    model: str
    parameters: str
    pretraining: str
    split: str
    scores: Mapping[str, float]
    table: int


_METRICS: dict[str, tuple[str, ...]] = {
    "squad1": ("f1", "exact_match"),
    "squad2": ("f1", "exact_match"),
    "cola": ("matthews",),
    "stsb": ("pearson",),
}
_ACCURACY = ("accuracy",)

_TABLE_2_TASKS = ("squad1", "squad2", "mnli", "sst2", "race")
_TABLE_2: dict[tuple[str, str], tuple[tuple[float, ...], ...]] = {
    ("BERT base", "108M"): ((90.4, 83.2), (80.4, 77.6), (84.5,), (92.8,), (68.2,)),
    ("BERT large", "334M"): ((92.2, 85.5), (85.0, 82.2), (86.6,), (93.0,), (73.9,)),
    ("ALBERT base", "12M"): ((89.3, 82.3), (80.0, 77.1), (81.6,), (90.3,), (64.0,)),
    ("ALBERT large", "18M"): ((90.6, 83.9), (82.3, 79.4), (83.5,), (91.7,), (68.5,)),
    ("ALBERT xlarge", "60M"): ((92.5, 86.1), (86.1, 83.1), (86.4,), (92.4,), (74.8,)),
    ("ALBERT xxlarge", "235M"): ((94.1, 88.3), (88.1, 85.1), (88.0,), (95.2,), (82.3,)),
}

_BERT_LARGE = ("BERT large", "334M", _OF_OTHERS)
_ALBERT_1M = ("ALBERT xxlarge", "235M", f"{_MORE_TEXT}, 1M steps")
_ALBERT_15M = ("ALBERT xxlarge", "235M", f"{_MORE_TEXT}, 1.5M steps")

_TABLE_9_TASKS = ("mnli", "qnli", "qqp", "rte", "sst2", "mrpc", "cola", "stsb")
_TABLE_9 = {
    _BERT_LARGE: (86.6, 92.3, 91.3, 70.4, 93.2, 88.0, 60.6, 90.0),
    _ALBERT_1M: (90.4, 95.2, 92.0, 88.1, 96.8, 90.2, 68.7, 92.7),
    _ALBERT_15M: (90.8, 95.3, 92.2, 89.2, 96.9, 90.9, 71.4, 93.0),
}

_RACE_METRICS = ("accuracy", "accuracy_middle", "accuracy_high")
_TABLE_10: dict[tuple[str, str, str], dict[str, tuple[float, ...]]] = {
    _BERT_LARGE: {
        "squad1": (90.9, 84.1),
        "squad2": (81.8, 79.0),
        "race": (72.0, 76.6, 70.1),
    },
    _ALBERT_1M: {
        "squad1": (94.8, 89.2),
        "squad2": (89.9, 87.2),
        "race": (86.0, 88.2, 85.1),
    },
    _ALBERT_15M: {
        "squad1": (94.8, 89.3),
        "squad2": (90.2, 87.4),
        "race": (86.5, 89.0, 85.5),
    },
}

# What the paper says of its tasks besides.
NOTES: dict[str, str] = dict.fromkeys(
    ("rte", "stsb", "mrpc"),
    "In table 9 the paper fine-tunes for this task a model already fine-tuned on MNLI, "
    "and gives the median of five runs.",
)


def rows_of(task: str) -> tuple[PaperRow, ...]:
    """Returns the paper's rows for a task of `task_config.TASKS`, by table.

    Args:
      task: such as "mrpc".
    """
    metrics = _METRICS.get(task, _ACCURACY)
    found = []
    for model, of_tasks in _TABLE_2.items() if task in _TABLE_2_TASKS else ():
        scores = dict(zip(metrics, of_tasks[_TABLE_2_TASKS.index(task)], strict=True))
        found.append(PaperRow(*model, _SAME_TEXT, "dev", scores, 2))
    for named, of_glue in _TABLE_9.items() if task in _TABLE_9_TASKS else ():
        scores = {metrics[0]: of_glue[_TABLE_9_TASKS.index(task)]}
        found.append(PaperRow(*named, "dev", scores, 9))
    for named, of_others in _TABLE_10.items():
        if task in of_others:
            names, split = (
                (_RACE_METRICS, "test") if task == "race" else (metrics, "dev")
            )
            scores = dict(zip(names, of_others[task], strict=True))
            found.append(PaperRow(*named, split, scores, 10))
    return tuple(found)
