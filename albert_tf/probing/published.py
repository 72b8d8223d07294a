"""Published accuracies of other models and of people, from the files of a suite.

BLiMP has accuracies by paradigm of language models, which compare probabilities of
whole sentences, and of people. Zorro has the cross-entropy of each sentence under
RoBERTa-base, from which the accuracies are computed here as those of any model.
"""

import csv
import io
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from albert_tf.core import files, strict_json
from albert_tf.probing import accuracy, suites

PEOPLE = "people"
# As in BLiMP's repository, or beside its data.
_BLIMP_FOLDERS = (os.path.join("raw_results", "summary"), "results")
_BLIMP_MODELS, _BLIMP_PEOPLE = "models_summary.jsonl", "human_validation_summary.csv"
_BLIMP_NAMES = {
    "ngram": "5-gram",
    "lstm": "LSTM",
    "txl": "Transformer-XL",
    "gpt2": "GPT-2",
}
# The rows of means in the file of models.
_MEANS = "overall"
_ZORRO_RESULTS = os.path.join(
    "reference", "huggingface_RoBERTa-base_Liu2019", "0", "saves", "babyberta"
)
_ZORRO_FILE = re.compile(r"probing_(.+)_results_\d+\.txt")


class Published(NamedTuple):
    """Accuracies of one model, or of people.

    Attributes:
      name: such as "GPT-2".
      paradigms: accuracies by paradigm, 0 to 1.
    """

    name: str
    paradigms: Mapping[str, float]

    def means(self, phenomenon_of: Mapping[str, str]) -> tuple[float, dict[str, float]]:
        """Returns the mean over paradigms, and the means by phenomenon.

        Args:
          phenomenon_of: the phenomenon of each paradigm to count.

        Raises:
          ValueError: a paradigm is missing.
        """
        missing = sorted(set(phenomenon_of) - set(self.paradigms))
        if missing:
            raise ValueError(
                f"the published results of {self.name} must have each paradigm; they "
                f"lack {', '.join(missing)}. Unpack the suite again"
            )
        grouped: dict[str, list[float]] = {}
        for name, phenomenon in phenomenon_of.items():
            grouped.setdefault(phenomenon, []).append(self.paradigms[name])
        overall = sum(self.paradigms[name] for name in phenomenon_of)
        return overall / len(phenomenon_of), {
            name: sum(values) / len(values) for name, values in grouped.items()
        }


def read(path: str) -> list[Published]:
    """Reads the published accuracies of a suite; none if there are none.

    Args:
      path: as for `suites.read`.

    Raises:
      ValueError: a file is damaged; names it.
    """
    suite = suites.find(path)
    if suite == suites.BLIMP:
        return [*_read_blimp_models(path), *_read_blimp_people(path)]
    return _read_zorro(path) if suite == suites.ZORRO else []


def _find_blimp(path: str, name: str) -> str | None:
    """Returns the path of a file of BLiMP's results, if there is one."""
    paths = (os.path.join(path, folder, name) for folder in _BLIMP_FOLDERS)
    return next(filter(files.exists, paths), None)


def _read_blimp_models(folder: str) -> list[Published]:
    path = _find_blimp(folder, _BLIMP_MODELS)
    if path is None:
        return []
    try:
        rows = [
            strict_json.as_object(row, place) for place, row in strict_json.lines(path)
        ]
        return [
            Published(
                name,
                {row["UID"]: float(row[key]) for row in rows if row["UID"] != _MEANS},
            )
            for key, name in _BLIMP_NAMES.items()
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(_damaged(path, error)) from error


def _read_blimp_people(folder: str) -> list[Published]:
    path = _find_blimp(folder, _BLIMP_PEOPLE)
    if path is None:
        return []
    try:
        text = files.read_bytes(path).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        shares = {row["Condition"]: float(row["total_mean"]) for row in rows}
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(_damaged(path, error)) from error
    return [Published(PEOPLE, shares)]


def _read_zorro(path: str) -> list[Published]:
    folder = os.path.join(path, _ZORRO_RESULTS)
    paradigms = {}
    for name in files.names(folder):
        if match := _ZORRO_FILE.fullmatch(name):
            paradigm = match.group(1)
            losses = _cross_entropies(os.path.join(folder, name))
            pairs = [suites.Pair(paradigm, paradigm, "", "")] * (len(losses) // 2)
            scores = [-loss for loss in losses]
            found = accuracy.compute(pairs, scores[1::2], scores[::2])
            paradigms[paradigm] = found.overall.accuracy
    return [Published("RoBERTa-base", paradigms)] if paradigms else []


def _cross_entropies(path: str) -> list[float]:
    """Returns the last number of each line, nats per token, in the order of a suite."""
    try:
        lines = files.read_bytes(path).decode().splitlines()
        losses = [float(line.rsplit(maxsplit=1)[-1]) for line in lines if line.strip()]
    except ValueError as error:
        raise ValueError(_damaged(path, error)) from error
    if len(losses) % 2 or not losses:
        raise ValueError(_damaged(path, f"it holds {len(losses)} sentences"))
    return losses


def _damaged(path: str, reason: object) -> str:
    found = f"{reason}"[:200]
    return f"{path} must be as published; it is damaged ({found}). Unpack it again"
