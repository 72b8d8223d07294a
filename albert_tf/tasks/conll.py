"""Labels of words, in the files of CoNLL: named entities and the like."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from albert_tf import task_config, tokenization
from albert_tf.tasks import base, rules, scores, text_features, text_files
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import outputs as outputs_lib
from albert_tf.tasks import rows as rows_lib

_DOCUMENT = "-DOCSTART-"
# Not whatever Unicode calls a space: a word may hold one that does not break.
_GAP = re.compile("[ \t]+")


class ConllTask(base.Task):
    """A class for each word.

    A line has a word, columns that are not read, and the label; an empty line ends a
    sentence. Lines of the word -DOCSTART- are left out. Sentences have their numbers,
    from 0, for ids. Test files may have the words alone.

    A sentence is one row. Words that begin beyond `max_seq_length` are not learnt, and
    get the label "O", or the first where there is no "O".
    """

    kind = "token_classification"

    def __init__(self, settings: task_config.TaskConfig, labels: Sequence[str] = ()):
        """Without `labels` they are the sorted ones of the training file, once read.

        The first of `metrics` is `entity_f1` where the labels are those of entities.
        """
        super().__init__(settings, (), ("accuracy",))
        self._set_labels(labels)

    def learn_labels(self, data_dir: str) -> None:
        """See `base.Task`."""
        if not self.labels:
            skips = self.settings.bad_examples == "skip"
            self.read(data_dir, base.TRAIN, examples_lib.Problems(skips))

    def has_split(self, data_dir: str, split: str) -> bool:
        """See `base.Task`."""
        return text_files.first_existing([self._path(data_dir, split)]) is not None

    def head_settings(self) -> dict[str, Any]:
        """See `base.Task`."""
        return {
            "num_classes": len(rules.require_labels(self.labels)),
            "dropout_rate": self.settings.classifier_dropout_rate,
        }

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.TokenExample]:
        """See `base.Task`; a sentence with a line that cannot be used is left out."""
        advice = f"Name the file with --set task.{base.FILE_SETTINGS[split]}=NAME"
        path = text_files.require([self._path(data_dir, split)], advice)
        learns_labels = split == base.TRAIN and not self.labels
        if not learns_labels:
            rules.require_labels(self.labels)
        found: list[examples_lib.TokenExample] = []
        for first_line, lines in _sentences(path):
            columns = [_GAP.split(line.strip(" \t")) for line in lines]
            is_bare = all(len(cells) == 1 for cells in columns)
            labels = None
            if split not in self.test_splits or not is_bare:
                known = () if learns_labels else self.labels
                labels = _labels(path, first_line, columns, known, problems)
                if labels is None:
                    continue
            found.append(
                examples_lib.TokenExample(
                    str(len(found)),
                    tuple(cells[0] for cells in columns),
                    labels,
                    f"{path}:{first_line}",
                )
            )
        if not found:
            raise ValueError(
                f"{path}: the file must hold a sentence that can be used; received "
                "none. Give another file"
            )
        if learns_labels:
            self._set_labels(sorted({v for e in found for v in e.labels or ()}))
            rules.require_two_labels(path, self.labels)
        return found

    def encode(
        self,
        examples: Sequence[examples_lib.TokenExample],
        tokenizer: tokenization.Tokenizer,
        is_training: bool,
    ) -> rows_lib.Rows:
        """See `base.Task`; in training `per_token` holds `token_label_ids`."""
        ids = {label: number for number, label in enumerate(self.labels)}
        return text_features.token_rows(
            [example.words for example in examples],
            [[ids[label] for label in _known(e)] for e in examples]
            if is_training
            else None,
            tokenizer,
            self.settings.max_seq_length,
        )

    def collect(
        self,
        examples: Sequence[examples_lib.TokenExample],
        rows: rows_lib.Rows,
        model_outputs: Mapping[str, np.ndarray],
    ) -> outputs_lib.TokenScores:
        """See `base.Task`; reads `logits` [N, S, C].

        A word that was cut off has the logit 1 for "O" and 0 for all else.
        """
        absent = np.array([label == scores.OUTSIDE for label in self.labels])
        return outputs_lib.TokenScores(
            text_features.word_logits(
                rows,
                [len(example.words) for example in examples],
                model_outputs["logits"],
                absent.astype(np.float32),
            )
        )

    def score(
        self,
        examples: Sequence[examples_lib.TokenExample],
        outputs: outputs_lib.Outputs,
    ) -> dict[str, float]:
        """See `base.Task`; accuracy is that of words."""
        true = [_known(example) for example in examples]
        predicted = self._predicted(outputs)
        found = {}
        if "entity_f1" in self.metrics:
            found["entity_f1"] = scores.entity_f1(true, predicted)
        found["accuracy"] = scores.accuracy(
            [label for row in true for label in row],
            [label for row in predicted for label in row],
        )
        return found

    def answers(
        self,
        examples: Sequence[examples_lib.TokenExample],
        outputs: outputs_lib.Outputs,
    ) -> list[dict[str, Any]]:
        """See `base.Task`; prediction, label and probability are lists, one a word.

        A sentence is right where all its words are.
        """
        found = []
        values = _values(outputs)
        predicted = self._predicted(outputs)
        for example, labels, logits in zip(examples, predicted, values, strict=True):
            best = special.softmax(logits, axis=-1).max(-1)
            answer: dict[str, Any] = {
                "id": example.id,
                "words": list(example.words),
                "prediction": labels,
                "probability": [float(value) for value in best],
            }
            if example.labels is not None:
                answer["label"] = list(example.labels)
                answer["is_correct"] = labels == answer["label"]
            found.append(answer)
        return found

    def write_predictions(
        self,
        split: str,
        examples: Sequence[examples_lib.TokenExample],
        outputs: outputs_lib.Outputs,
        folder: str,
    ) -> list[str]:
        """Writes `predictions-SPLIT.txt`: word, tab, label; an empty line between."""
        path = text_files.join(folder, f"predictions-{split}.txt")
        rows = []
        for example, labels in zip(examples, self._predicted(outputs), strict=True):
            pairs = zip(example.words, labels, strict=True)
            rows += [f"{word}\t{label}" for word, label in pairs]
            rows.append("")
        text_files.write_lines(path, rows)
        return [path]

    def _path(self, data_dir: str, split: str) -> str:
        name = getattr(self.settings, base.FILE_SETTINGS[split])
        return text_files.join(data_dir, name or f"{split}.txt")

    def _set_labels(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        if scores.is_bio(self.labels):
            self.metrics = ("entity_f1", "accuracy")

    def _predicted(self, outputs: outputs_lib.Outputs) -> list[list[str]]:
        return [
            [self.labels[number] for number in logits.argmax(-1)]
            for logits in _values(outputs)
        ]


def _sentences(path: str) -> list[tuple[int, list[str]]]:
    """The number of the first line of each sentence, and its lines."""
    found: list[tuple[int, list[str]]] = []
    is_open = False
    for number, line in enumerate(text_files.lines(path), 1):
        if not line.strip() or line.startswith(_DOCUMENT):
            is_open = False
        elif is_open:
            found[-1][1].append(line)
        else:
            found.append((number, [line]))
            is_open = True
    return found


def _labels(
    path: str,
    first_line: int,
    columns: Sequence[Sequence[str]],
    known: Sequence[str],
    problems: examples_lib.Problems,
) -> tuple[str, ...] | None:
    """The labels of a sentence, or None where one cannot be used.

    Args:
      path: of the file.
      first_line: of the sentence.
      columns: of its lines.
      known: the labels there are; empty where any is.
      problems: takes the first line that cannot be used.
    """
    for number, cells in enumerate(columns, first_line):
        if len(cells) < 2:
            rule = "a line must have a word and a label"
            problems.add(f"{path}:{number}", rule, " ".join(cells))
            return None
        if known and cells[-1] not in known:
            rule = rules.unknown_label_rule(known)
            problems.add(f"{path}:{number}", rule, cells[-1])
            return None
    return tuple(cells[-1] for cells in columns)


def _known(example: examples_lib.TokenExample) -> tuple[str, ...]:
    if example.labels is None:
        raise ValueError(rules.unlabelled(example.origin))
    return example.labels


def _values(outputs: outputs_lib.Outputs) -> Sequence[np.ndarray]:
    if not isinstance(outputs, outputs_lib.TokenScores):
        raise TypeError(
            f"outputs must be TokenScores; received {type(outputs).__name__}"
        )
    return outputs.values
