"""What a pair loss can teach that is of use to the other one, by the length of pairs.

Call as `python -m tests.reproduction.pair_features --input=TEXT
--json=docs/reproduction/pair_features.json`. TEXT has one paragraph a line and an empty
line between documents. Gradient boosting learns sentence order (SOP) and next sentence
(NSP) from a few features of a pair: how many rare words both segments share, near the
cut and elsewhere, and with which words they begin. Then it is tried on both tasks. No
model of ALBERT is trained. It prints the table that docs/reproduction.md has.
"""

import argparse
import collections
import itertools
import json
import math
import pathlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn import ensemble, metrics

from albert_tf.core import config
from data_prep.text import sentences as sentences_lib

LENGTHS = (50, 100, 200, 400)  # words and punctuation marks of a pair
MAX_CHARACTERS = 40_000_000
MAX_PAIRS = 30_000
HELDOUT_SHARE = 0.15
SEEDS = (1, 2, 3)
NUM_COMMON = 150  # most frequent words, which do not count as shared
NEAR = (10, 20, 40)  # words before and after the cut

_WORD = re.compile(r"\w+|[^\w\s]")
_PRONOUNS = frozenset(
    "he she it they his her their its this that these those him them".split()
)
_ARTICLES = frozenset(("the", "a", "an"))
_LINKS = frozenset("however but and then so also in after".split())

Words = list[str]


class Pair(NamedTuple):
    """Two consecutive segments of a document."""

    first: Words
    second: Words


class Text:
    """Documents as sentences of words, and how rare a word is."""

    def __init__(self, documents: list[list[Words]]):
        counts: collections.Counter[str] = collections.Counter()
        holding: collections.Counter[str] = collections.Counter()
        for document in documents:
            words = [*itertools.chain.from_iterable(document)]
            counts.update(words)
            holding.update(set(words))
        self.documents = documents
        self._common = {word for word, _ in counts.most_common(NUM_COMMON)}
        self._rarity = {
            word: math.log(len(documents) / count) for word, count in holding.items()
        }

    def shared(self, one: Words, other: Words) -> float:
        """Returns the sum of the rarities of the words that both have."""
        both = (set(one) & set(other)) - self._common
        return sum(self._rarity[word] for word in sorted(both))

    def pairs(self, length: int, chance: random.Random) -> list[Pair]:
        """Returns pairs of whole sentences of at most `length` words, shuffled."""
        found = []
        for document in self.documents:
            for sentences in _windows(document, length):
                cut = chance.randint(1, len(sentences) - 1)
                parts = sentences[:cut], sentences[cut:]
                first, second = ([*itertools.chain(*part)] for part in parts)
                found.append(Pair(first, second))
        chance.shuffle(found)
        return found[:MAX_PAIRS]

    def features(self, pair: Pair) -> list[float]:
        """Returns the features of a pair as it is read."""
        first, second = pair
        found = []
        for near in NEAR:
            found += [
                self.shared(first[-near:], second[:near]),
                self.shared(second[-near:], first[:near]),
            ]
        found += [self.shared(first, second), len(first), len(second)]
        for segment in pair:
            found += [
                sum(word in _PRONOUNS for word in segment[:8]),
                sum(word in _PRONOUNS for word in segment),
                sum(word in _ARTICLES for word in segment[:3]),
                segment[0] in _LINKS,
            ]
        both = (set(first) & set(second)) - self._common
        for segment in pair:
            places = [segment.index(word) / len(segment) for word in sorted(both)]
            found.append(float(np.mean(places)) if places else 0.5)
        return found


def read(path: pathlib.Path) -> Text:
    """Reads the first MAX_CHARACTERS of a text."""
    with path.open(encoding="utf-8") as file:
        text = file.read(MAX_CHARACTERS)
    settings = config.TextConfig(sentence_splitter="sentencex")
    documents = []
    for part in text.split("\n\n"):
        sentences = sentences_lib.split_sentences(part.splitlines(), settings)
        words = [_WORD.findall(sentence.lower()) for sentence in sentences]
        documents.append([sentence for sentence in words if sentence])
    return Text([document for document in documents if document])


def _windows(document: list[Words], length: int) -> Iterator[list[Words]]:
    """Yields consecutive runs of at least two sentences."""
    start = 0
    while start < len(document):
        end, total = start, 0
        while end < len(document) and total + len(document[end]) <= length:
            total += len(document[end])
            end += 1
        if end - start >= 2:
            yield document[start:end]
        start = max(end, start + 1)


def ordered(pairs: Sequence[Pair], chance: random.Random) -> list[tuple[Pair, int]]:
    """Returns each pair in its order (1) or in the other one (0)."""
    found = []
    for pair in pairs:
        label = chance.randint(0, 1)
        found.append((pair if label else Pair(pair.second, pair.first), label))
    return found


def followed(pairs: Sequence[Pair], chance: random.Random) -> list[tuple[Pair, int]]:
    """Returns each pair as it is (1) or with another pair's second segment (0)."""
    found = []
    for pair in pairs:
        label = chance.randint(0, 1)
        other = pair if label else chance.choice(pairs)
        found.append((Pair(pair.first, other.second), label))
    return found


def measure(text: Text, length: int, seed: int) -> dict[str, float]:
    """Returns how well what each task teaches solves each task, held out, in percent.

    `A on B` is an accuracy, `A ranks B` the area under the ROC curve: how often a pair
    with label 1 has a higher score than one with label 0.
    """
    chance = random.Random(seed)
    pairs = text.pairs(length, chance)
    cut = int(len(pairs) * (1 - HELDOUT_SHARE))
    tasks = {}
    for name, make in (("sop", ordered), ("nsp", followed)):
        # Each part by itself, so that no segment is on both sides.
        parts = (make(part, chance) for part in (pairs[:cut], pairs[cut:]))
        tasks[name] = [
            (
                np.array([text.features(pair) for pair, _ in part]),
                np.array([label for _, label in part]),
            )
            for part in parts
        ]
    found: dict[str, float] = {"pairs": cut, "heldout_pairs": len(pairs) - cut}
    for learnt, (train, _) in tasks.items():
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.08, random_state=seed
        ).fit(*train)
        for tried, (_, heldout) in tasks.items():
            features, labels = heldout
            scores = model.predict_proba(features)[:, 1]
            area = metrics.roc_auc_score(labels, scores)
            found[f"{learnt} on {tried}"] = round(100 * model.score(*heldout), 1)
            found[f"{learnt} ranks {tried}"] = round(100 * float(area), 1)
    return found


def main() -> None:
    """Measures all lengths, writes the figures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    text = read(arguments.input)
    figures = {
        "what": "percent right, and areas under the ROC curve, of gradient boosting",
        "characters": MAX_CHARACTERS,
        "documents": len(text.documents),
        "lengths": {
            str(length): [measure(text, length, seed) for seed in SEEDS]
            for length in LENGTHS
        },
        "scikit-learn": sklearn.__version__,
    }
    arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print("\n".join(table(figures["lengths"])))


def table(lengths: dict[str, list[dict[str, float]]]) -> list[str]:
    """Returns the rows of a table in Markdown: means and ranges of the seeds."""
    rows = [
        "| words | SOP | SOP on NSP | SOP ranks NSP "
        "| NSP | NSP on SOP | NSP ranks SOP |",
        "|---" * 7 + "|",
    ]
    names = [
        *("sop on sop", "sop on nsp", "sop ranks nsp"),
        *("nsp on nsp", "nsp on sop", "nsp ranks sop"),
    ]
    for length, found in lengths.items():
        cells = [length]
        for name in names:
            values = [of_seed[name] for of_seed in found]
            span = f"{min(values):.1f} to {max(values):.1f}"
            cells.append(f"{np.mean(values):.1f} ({span})")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    main()
