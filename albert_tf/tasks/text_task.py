"""Base class for classification and regression of texts and pairs of texts."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from albert_tf.core import task_config
from albert_tf.tasks import base, checks, metrics, text_features
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

CLASSIFICATION, REGRESSION = "classification", "regression"

# By name; metrics of classification take the ids of classes.
METRICS: dict[str, Callable[[Sequence[Any], Sequence[Any]], float]] = {
    "accuracy": metrics.accuracy,
    "f1": metrics.f1,
    "macro_f1": metrics.macro_f1,
    "matthews": metrics.matthews,
    "pearson": metrics.pearson,
    "spearman": metrics.spearman,
}


class ExampleList:
    """Collects the examples of a file that can be used."""

    def __init__(self, problems: examples_lib.Problems, allows_empty: bool):
        """Creates an empty list.

        Args:
          problems: receives the examples that cannot be used.
          allows_empty: whether a text may be empty.
        """
        self._problems = problems
        self._allows_empty = allows_empty
        self._found: dict[str, examples_lib.TextExample] = {}

    def add(self, example: examples_lib.TextExample) -> None:
        """Adds an example whose texts are not empty and whose id is new."""
        texts = [example.text_a, *([] if example.text_b is None else [example.text_b])]
        first = self._found.get(example.id)
        if not self._allows_empty and not all(text.strip() for text in texts):
            self._problems.add(example.origin, "a text must not be empty", texts)
        elif first is not None:
            rule = "ids must be unique"
            advice = f"the first is at {first.origin}; give each row another id"
            self._problems.add(example.origin, rule, example.id, advice)
        else:
            self._found[example.id] = example

    def examples(self, path: str) -> list[examples_lib.TextExample]:
        """Returns the examples.

        Raises:
          ValueError: there are none.
        """
        if not self._found:
            raise ValueError(
                f"{path}: the file must contain an example that can be used; it has "
                "none. Give another file"
            )
        return list(self._found.values())


class TextTask(base.Task):
    """A class or a number for each text or pair; subclasses read and write files."""

    def __init__(
        self,
        settings: task_config.TaskConfig,
        kind: str,
        labels: Sequence[str],
        metric_names: Sequence[str],
        **splits: Sequence[str],
    ):
        """See `base.Task`; `kind` is CLASSIFICATION or REGRESSION."""
        super().__init__(settings, labels, metric_names, **splits)
        self.kind = kind

    @property
    @abc.abstractmethod
    def text_columns(self) -> tuple[str, ...]:
        """The column of the texts, or the two of pairs, in files with a header."""

    def head_settings(self) -> dict[str, Any]:
        """See `base.Task`."""
        dropout = {"dropout_rate": self.settings.classifier_dropout_rate}
        if self.kind == REGRESSION:
            return dropout
        return {"num_classes": len(checks.require_labels(self.labels)), **dropout}

    def encode(
        self,
        examples: Sequence[examples_lib.TextExample],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        """See `base.Task`; all examples are pairs, or none is.

        `per_row` has `label_ids` or, in regression, `targets` in training.
        """
        per_row: dict[str, np.ndarray] = {}
        if is_training and self.kind == REGRESSION:
            per_row["targets"] = np.array(self._true(examples), np.float32)
        elif is_training:
            per_row["label_ids"] = np.array(self._true(examples), np.int32)
        pairs = [e.text_b for e in examples if e.text_b is not None]
        return text_features.encode_texts(
            [example.text_a for example in examples],
            pairs or None,
            tokenizer,
            self.settings.max_seq_length,
            per_row,
        )

    def postprocess(
        self,
        examples: Sequence[examples_lib.TextExample],
        features: features_lib.Features,
        model_outputs: Mapping[str, np.ndarray],
    ) -> predictions_lib.Logits:
        """See `base.Task`; reads `logits` [N, C], or `predictions` [N]."""
        if self.kind == REGRESSION:
            values = model_outputs["predictions"][:, None]  # [N, 1]
        else:
            values = model_outputs["logits"]
        return predictions_lib.Logits(np.asarray(values, np.float32))

    def compute_metrics(
        self,
        examples: Sequence[examples_lib.TextExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """See `base.Task`."""
        true, predicted = self._true(examples), self._predicted(predictions)
        return {name: METRICS[name](true, predicted) for name in self.metric_names}

    def predicted_values(
        self, predictions: predictions_lib.Predictions
    ) -> list[str] | list[float]:
        """The most likely class of each example by name, or its number."""
        predicted = self._predicted(predictions)
        if self.kind == REGRESSION:
            return predicted
        return [self.labels[number] for number in predicted]

    def probabilities(self, predictions: predictions_lib.Predictions) -> np.ndarray:
        """The probabilities of the predicted classes, float [N]."""
        return special.softmax(checks.require_logits(predictions), axis=-1).max(-1)

    def answers(
        self,
        examples: Sequence[examples_lib.TextExample],
        predictions: predictions_lib.Predictions,
    ) -> list[dict[str, Any]]:
        """See `base.Task`; regression has no `is_correct` and no `probability`."""
        found = []
        for example, prediction in zip(
            examples, self.predicted_values(predictions), strict=True
        ):
            answer: dict[str, Any] = {"id": example.id, "text_a": example.text_a}
            if example.text_b is not None:
                answer["text_b"] = example.text_b
            answer["prediction"] = prediction
            if example.label is not None:
                answer["label"] = example.label
            found.append(answer)
        if self.kind == REGRESSION:
            return found
        for answer, probability in zip(
            found, self.probabilities(predictions), strict=True
        ):
            answer["probability"] = float(probability)
            if "label" in answer:
                answer["is_correct"] = answer["prediction"] == answer["label"]
        return found

    def read_label(
        self, text: str, origin: str, problems: examples_lib.Problems
    ) -> str | float | None:
        """Parses the label of an example; None if it cannot be used."""
        if self.kind == REGRESSION:
            number = checks.finite_number(text)
            if number is None:
                problems.add(origin, "the label must be a number", text)
            return number
        if text in self.labels:
            return text
        problems.add(origin, checks.unknown_label_rule(self.labels), text)
        return None

    def _true(self, examples: Sequence[examples_lib.TextExample]) -> list[Any]:
        """The ids of the examples' classes, or their numbers."""
        found = []
        for example in examples:
            if example.label is None:
                raise ValueError(checks.unlabelled(example.origin))
            found.append(example.label)
        if self.kind == REGRESSION:
            return found
        ids = {label: number for number, label in enumerate(self.labels)}
        return [ids[str(label)] for label in found]

    def _predicted(self, predictions: predictions_lib.Predictions) -> list[Any]:
        values = checks.require_logits(predictions)
        return (values[:, 0] if self.kind == REGRESSION else values.argmax(-1)).tolist()
