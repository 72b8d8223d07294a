"""Logistic regression on the words of a pair, in place of a model.

Call as `python -m tests.reproduction.pair_words --sop=RECORDS --nsp=RECORDS
--json=docs/reproduction/pair_words.json`. It knows which pieces are in one segment
only, and the first three of each segment. What it learns of the pairs of one kind is
also tried on those of the other. It prints what it writes.
"""

import argparse
import json
import pathlib

import numpy as np
import sklearn
from scipy import sparse
from sklearn import linear_model, metrics

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from data_prep.records import reader

STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # inverse of the regularization
NUM_FIRST = 3


def features(first: np.ndarray, second: np.ndarray, vocab_size: int) -> list[int]:
    """Returns the numbers of the features that a pair has.

    Args:
      first: ids of the pieces of the first segment.
      second: of the second one.
      vocab_size: V. There are V features for the pieces of the first segment that the
        second one lacks, V the other way round, then V for each of the first pieces.
    """
    found = [*np.setdiff1d(first, second), *(vocab_size + np.setdiff1d(second, first))]
    for number, segment in enumerate((first, second)):
        for place, piece in enumerate(segment[:NUM_FIRST]):
            found.append((2 + NUM_FIRST * number + place) * vocab_size + piece)
    return [int(one) for one in found]


def read(data_dir: str, split: str) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Returns the features [pairs, F] and the labels [pairs] of a split."""
    manifest = manifest_lib.read_manifest(data_dir)
    size, columns, ends, labels = manifest.vocab_size, [], [0], []
    for _, values in reader.iter_records(data_dir, manifest, split):
        if values["next_sentence_labels"] == schema.NO_LABEL:
            continue
        tokens, cut = reader.unmask(values), values["segment_a_length"]
        # Without [CLS] and both [SEP].
        columns += features(tokens[1 : cut - 1], tokens[cut:-1], size)
        ends.append(len(columns))
        labels.append(values["next_sentence_labels"])
    shape = len(labels), (2 + 2 * NUM_FIRST) * size
    ones = np.ones(len(columns), np.float32)
    return sparse.csr_matrix((ones, columns, ends), shape), np.array(labels)


def percent(share: float) -> float:
    """Returns a share in percent, as it is written."""
    return round(100 * float(share), 1)


def measure(data_dirs: dict[str, str]) -> dict[str, dict]:
    """Returns how well the regression of each kind tells its pairs, and all others.

    Args:
      data_dirs: records by kind of pair.

    Returns:
      By kind: the numbers of `pairs`; the percentages right by inverse regularization,
      `heldout` and `train`; and by the one that is best on the held-out pairs of its
      own kind, `on` held-out pairs of each kind, the `accuracy` and the area under the
      ROC curve (`auc`), in percent.
    """
    splits = {
        kind: {split: read(folder, split) for split in (schema.TRAIN, schema.HELDOUT)}
        for kind, folder in data_dirs.items()
    }
    found = {}
    for kind, parts in splits.items():
        models = {
            str(strength): linear_model.LogisticRegression(
                C=strength, max_iter=1000
            ).fit(*parts[schema.TRAIN])
            for strength in STRENGTHS
        }
        right: dict[str, dict[str, float]] = {
            split: {name: percent(model.score(*part)) for name, model in models.items()}
            for split, part in parts.items()
        }
        best = max(right[schema.HELDOUT], key=right[schema.HELDOUT].__getitem__)
        found[kind] = {
            "pairs": {split: len(labels) for split, (_, labels) in parts.items()},
            **right,
            "best": best,
            "on": {
                other: _figures(models[best], *of[schema.HELDOUT])
                for other, of in splits.items()
            },
        }
    return found


def _figures(
    model: linear_model.LogisticRegression, x: sparse.csr_matrix, labels: np.ndarray
) -> dict[str, float]:
    area = metrics.roc_auc_score(labels, model.decision_function(x))
    return {"accuracy": percent(model.score(x, labels)), "auc": percent(area)}


def main() -> None:
    """Measures both kinds, and writes and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sop", "nsp", "json"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    found = {
        "what": "logistic regression on the records of pair_loss; percent right by C",
        **measure({"sop": arguments.sop, "nsp": arguments.nsp}),
        "scikit-learn": sklearn.__version__,
    }
    text = json.dumps(found, indent=1) + "\n"
    pathlib.Path(arguments.json).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
