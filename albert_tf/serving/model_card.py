"""Model card of an exported or converted model: README.md, as model hubs read it.

The card begins with metadata in YAML (language, license, library, tags, scores), whose
names are those of the Hugging Face Hub's model cards.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from albert_tf.core import provenance, short_repr, task_config

FILE = "README.md"
# What hubs call a licence that nobody has named.
UNKNOWN_LICENSE = "unknown"
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")

ENCODER = "encoder"
# By kind of head, "" for a pre-trained model: the hubs' names of the tasks.
_PIPELINE_TAGS = {
    "": "fill-mask",
    ENCODER: "feature-extraction",
    "classification": "text-classification",
    "regression": "text-classification",
    "token_classification": "token-classification",
    "span": "question-answering",
    "answerable_span": "question-answering",
    "multiple_choice": "multiple-choice",
}
# The hubs' names of data sets and metrics, where they differ.
_DATASETS = {"squad1": "squad", "squad2": "squad_v2", "race": "race"}
_GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
_METRICS = {
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


@dataclasses.dataclass(frozen=True)
class Score:
    """A score of a model.

    Attributes:
      dataset: a name of `task_config.TASKS`, or another data set's.
      split: of it, or what was asked of it.
      metric: its name in this project.
      value: a share of 1, or nats for losses.
    """

    dataset: str
    split: str
    metric: str
    value: float


@dataclasses.dataclass(frozen=True)
class Card:
    """What a card says. What is empty is not known, and the card says so.

    Attributes:
      name: of the model.
      kind: of its head, a key of `task_model.HEADS`; empty if it is pre-trained only,
        and ENCODER if it has no head that was trained.
      library: the hubs' name of the library that reads the files.
      summary: a sentence on the architecture.
      made: how the files were made.
      license: as hubs name it.
      languages: codes of the languages of the training text.
      data: sentences on the training data.
      settings: labels and values.
      scores: of the weights, before they were exported or converted.
      usage: commands or code, by their language.
      architecture: the hubs' tag of it.
    """

    name: str
    kind: str
    library: str
    summary: str
    made: str
    license: str = UNKNOWN_LICENSE
    languages: Sequence[str] = ()
    data: Sequence[str] = ()
    settings: Sequence[tuple[str, str]] = ()
    scores: Sequence[Score] = ()
    usage: Sequence[tuple[str, str]] = ()
    architecture: str = "albert"


def check_license(license_name: str) -> None:
    """Raises ValueError if a licence has not the form of the hubs' identifiers."""
    if not _LICENSE.fullmatch(license_name):
        raise ValueError(
            "--license must be an identifier as model hubs use it, such as apache-2.0, "
            f"cc-by-4.0 or other; received {short_repr.shown(license_name)}"
        )


def render(card: Card) -> str:
    """Returns the card as Markdown, after its metadata."""
    metadata = yaml.safe_dump(
        _metadata(card), sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    parts = [
        f"---\n{metadata}---\n",
        f"# {_plain(card.name)}\n",
        f"{card.summary}\n",
        f"{card.made}\n",
        "## Use\n",
        *(f"```{language}\n{text}\n```\n" for language, text in card.usage),
        "## Training data\n",
        *(f"- {sentence}" for sentence in card.data or ["Not known."]),
        "\n## Scores\n",
        *_score_lines(card.scores),
        "\n## Settings\n",
        *_table(("setting", "value"), card.settings or [("none known", "")]),
        "\n## License\n",
        _license_sentence(card.license),
    ]
    return "\n".join(parts) + "\n"


def _metadata(card: Card) -> dict[str, Any]:
    tag = _PIPELINE_TAGS[card.kind]
    values: dict[str, Any] = {}
    if card.languages:
        values["language"] = list(card.languages)
    values |= {
        "license": card.license,
        "library_name": card.library,
        "pipeline_tag": tag,
        "tags": [card.architecture, tag],
    }
    if card.scores:
        # The Hub's data sheet wants each metric once.
        metrics = dict.fromkeys(_metric(score) for score in card.scores)
        values["metrics"] = list(metrics)
        results = [_result(score, tag) for score in card.scores]
        values["model-index"] = [{"name": card.name, "results": results}]
    return values


def _metric(score: Score) -> str:
    return _METRICS.get(score.metric, score.metric)


def _result(score: Score, tag: str) -> dict[str, Any]:
    name = task_config.TITLES.get(score.dataset, score.dataset)
    dataset: Mapping[str, Any]
    if score.dataset in _GLUE:
        dataset = {"type": "glue", "name": f"GLUE {name}", "config": score.dataset}
    else:
        kind = _DATASETS.get(score.dataset, score.dataset.lower().replace(" ", "-"))
        dataset = {"type": kind, "name": name}
    return {
        "task": {"type": tag},
        "dataset": {**dataset, "split": score.split},
        "metrics": [{"type": _metric(score), "value": round(score.value, 6)}],
    }


def _score_lines(scores: Sequence[Score]) -> list[str]:
    if not scores:
        return ["None are known."]
    rows = [
        (
            task_config.TITLES.get(score.dataset, score.dataset),
            score.split,
            score.metric.replace("_", " "),
            f"{score.value:.4f}",
        )
        for score in scores
    ]
    lines = _table(("data", "split", "metric", "value"), rows)
    note = "Of the checkpoint, before these files were made from it. Shares are of 1."
    return [*lines, "", note]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(map(_plain, line))} |" for line in lines]


def _plain(text: str) -> str:
    """Returns text that is no markup and stays in its cell."""
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", text)


def _license_sentence(license_name: str) -> str:
    if license_name == UNKNOWN_LICENSE:
        return "Unknown: none was given when these files were made."
    return f"{_plain(license_name)}, as given by who made these files."


def made_line(what: str) -> str:
    """Returns a sentence on date and versions.

    Args:
      what: such as "Exported from model.ckpt-600".
    """
    made = provenance.now()
    return f"{what} on {made.date}, with {made.versions_line}."
