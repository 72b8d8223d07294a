"""Token classification in CoNLL files, such as named entity recognition."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from albert_tf.core import task_config
from albert_tf.tasks import base, checks, metrics, text_features, text_files
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

_DOCUMENT, _COMMENT = "-DOCSTART-", "# "
# Not all of Unicode's white space: a word may contain a no-break space.
_SEPARATOR, _TAB = re.compile("[ \t]+"), re.compile("[ \t]*\t[ \t]*")
# Labels of another scheme than BIO, such as S-PER.
_SCHEME = re.compile("[A-Z]-.")


class ConllTask(base.Task):
    """A class for each word.

    A line has a word, columns that are ignored, and the label; an empty line ends a
    sentence. Columns are separated by blanks and tabs, or, in a file whose every line
    has a tab, by tabs alone, so that a word may contain blanks. Lines with the word
    -DOCSTART- are ignored, and so are comments: lines before a sentence that begin with
    "# ", unless their last column is one of the file's labels, as in "# O". The ids of
    sentences are their numbers from 0. Test files may have words without labels.

    A sentence is one row. Words that begin after `max_seq_length` tokens are not
    trained on; their predicted label is "O", or the first label if there is no "O".
    """

    kind = "token_classification"

    def __init__(self, settings: task_config.TaskConfig, labels: Sequence[str] = ()):
        """Without `labels`, those of the training file are used, sorted.

        The first of `metric_names` is `entity_f1` if the labels are BIO labels.
        """
        super().__init__(settings, (), ("accuracy",))
        self._set_labels(labels)

    def learn_labels(self, data_dir: str) -> None:
        """See `base.Task`."""
        if not self.labels:
            skips = self.settings.on_bad_example == "skip"
            self.read(data_dir, base.TRAIN, examples_lib.Problems(skips))

    def has_split(self, data_dir: str, split: str) -> bool:
        """See `base.Task`."""
        return text_files.first_existing([self._path(data_dir, split)]) is not None

    def head_settings(self) -> dict[str, Any]:
        """See `base.Task`."""
        return {
            "num_classes": len(checks.require_labels(self.labels)),
            "dropout_rate": self.settings.classifier_dropout_rate,
        }

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.TokenExample]:
        """See `base.Task`; a sentence with a line that cannot be used is skipped."""
        advice = f"Name the file with --set task.{base.FILE_SETTINGS[split]}=NAME"
        path = text_files.require([self._path(data_dir, split)], advice)
        learns_labels = split == base.TRAIN and not self.labels
        if not learns_labels:
            checks.require_labels(self.labels)
        found: list[examples_lib.TokenExample] = []
        for first_line, columns in _sentences(path):
            has_words_only = all(len(cells) == 1 for cells in columns)
            labels = None
            if split not in self.test_splits or not has_words_only:
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
                f"{path}: the file must contain a sentence that can be used; it has "
                "none. Give another file"
            )
        if learns_labels:
            self._set_labels(sorted({v for e in found for v in e.labels or ()}))
            checks.require_two_labels(path, self.labels)
        return found

    def encode(
        self,
        examples: Sequence[examples_lib.TokenExample],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        """See `base.Task`; `per_token` has `token_label_ids` in training."""
        ids = {label: number for number, label in enumerate(self.labels)}
        return text_features.encode_words(
            [example.words for example in examples],
            [[ids[label] for label in _known(e)] for e in examples]
            if is_training
            else None,
            tokenizer,
            self.settings.max_seq_length,
        )

    def postprocess(
        self,
        examples: Sequence[examples_lib.TokenExample],
        features: features_lib.Features,
        model_outputs: Mapping[str, np.ndarray],
    ) -> predictions_lib.TokenLogits:
        """See `base.Task`; reads `logits` [N, S, C].

        A word that was truncated has the logit 1 for "O" and 0 for all other classes.
        """
        truncated = np.array([label == metrics.OUTSIDE for label in self.labels])
        return predictions_lib.TokenLogits(
            text_features.word_logits(
                features,
                [len(example.words) for example in examples],
                model_outputs["logits"],
                truncated.astype(np.float32),
            )
        )

    def compute_metrics(
        self,
        examples: Sequence[examples_lib.TokenExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """See `base.Task`; accuracy is per word."""
        true = [_known(example) for example in examples]
        predicted = self._predicted(predictions)
        found = {}
        if "entity_f1" in self.metric_names:
            found["entity_f1"] = metrics.entity_f1(true, predicted)
        found["accuracy"] = metrics.accuracy(
            [label for row in true for label in row],
            [label for row in predicted for label in row],
        )
        return found

    def answers(
        self,
        examples: Sequence[examples_lib.TokenExample],
        predictions: predictions_lib.Predictions,
    ) -> list[dict[str, Any]]:
        """See `base.Task`; prediction, label and probability are lists over the words.

        A sentence is correct if all its words are.
        """
        found = []
        values = _values(predictions)
        predicted = self._predicted(predictions)
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
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes `predictions-SPLIT.txt`: word, tab, label; empty lines between."""
        path = text_files.join(folder, f"predictions-{split}.txt")
        lines = []
        for example, labels in zip(examples, self._predicted(predictions), strict=True):
            pairs = zip(example.words, labels, strict=True)
            lines += [f"{word}\t{label}" for word, label in pairs]
            lines.append("")
        text_files.write_lines(path, lines)
        return [path]

    def _path(self, data_dir: str, split: str) -> str:
        name = getattr(self.settings, base.FILE_SETTINGS[split])
        return text_files.join(data_dir, name or f"{split}.txt")

    def _set_labels(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        if metrics.is_bio(self.labels):
            self.metric_names = ("entity_f1", "accuracy")
            return
        others = [label for label in self.labels if not metrics.is_bio([label])]
        others = [label for label in others if _SCHEME.match(label)]
        if others:
            self.notes = (
                "F1 of entities is not computed, and accuracy selects the checkpoint: "
                "the labels must be B-X, I-X and O (BIO) for it, and there is "
                f"{others[0]}",
            )

    def _predicted(self, predictions: predictions_lib.Predictions) -> list[list[str]]:
        return [
            [self.labels[number] for number in logits.argmax(-1)]
            for logits in _values(predictions)
        ]


def _sentences(path: str) -> list[tuple[int, list[list[str]]]]:
    """Returns the number of the first line of each sentence, and its lines' columns."""
    lines = [line.strip(" \t") for line in text_files.lines(path)]
    no_words = _DOCUMENT, _COMMENT
    words = [line for line in lines if line.strip() and not line.startswith(no_words)]
    separator = _TAB if all("\t" in line for line in words) else _SEPARATOR
    labels = {separator.split(line)[-1] for line in words}
    found: list[tuple[int, list[list[str]]]] = []
    is_open = False
    for number, line in enumerate(lines, 1):
        columns = separator.split(line)
        is_comment = line.startswith(_COMMENT) and columns[-1] not in labels
        if not line.strip() or line.startswith(_DOCUMENT):
            is_open = False
        elif is_open:
            found[-1][1].append(columns)
        elif not is_comment:
            found.append((number, [columns]))
            is_open = True
    return found


def _labels(
    path: str,
    first_line: int,
    columns: Sequence[Sequence[str]],
    known: Sequence[str],
    problems: examples_lib.Problems,
) -> tuple[str, ...] | None:
    """Returns the labels of a sentence, or None if one cannot be used.

    Args:
      path: of the file.
      first_line: of the sentence.
      columns: of its lines.
      known: the allowed labels; empty allows any.
      problems: receives the first line that cannot be used.
    """
    for number, cells in enumerate(columns, first_line):
        if len(cells) < 2:
            rule = "a line must have a word and a label"
            problems.add(f"{path}:{number}", rule, " ".join(cells))
            return None
        if known and cells[-1] not in known:
            rule = checks.unknown_label_rule(known)
            problems.add(f"{path}:{number}", rule, cells[-1])
            return None
    return tuple(cells[-1] for cells in columns)


def _known(example: examples_lib.TokenExample) -> tuple[str, ...]:
    if example.labels is None:
        raise ValueError(checks.unlabelled(example.origin))
    return example.labels


def _values(predictions: predictions_lib.Predictions) -> Sequence[np.ndarray]:
    if not isinstance(predictions, predictions_lib.TokenLogits):
        raise TypeError(
            f"predictions must be TokenLogits; received {type(predictions).__name__}"
        )
    return predictions.values
