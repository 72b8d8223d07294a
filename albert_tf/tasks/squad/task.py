"""SQuAD 1.1 and 2.0: questions answered by a span of a context, or unanswerable.

Source: Rajpurkar et al., 2016 and 2018; Lan et al., "ALBERT" (arXiv 1909.11942),
section 4.1, and its authors' code.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.core import files, task_config
from albert_tf.tasks import base, text_files
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tasks.squad import answers as answers_lib
from albert_tf.tasks.squad import metrics, reader, windows
from albert_tf.tokenization import tokenizer as tokenizer_lib

# The official names of the files.
FILES = {
    "squad1": {"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    "squad2": {"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
}
METRICS = {
    "squad1": ("f1", "exact_match"),
    "squad2": ("f1", "exact_match", "best_f1", "best_exact_match"),
}


class SquadTask(base.Task):
    """SQuAD 1.1 (`settings.name` "squad1") or 2.0 ("squad2").

    There is a split "test" if `settings.test_file` names its file.

    Attributes:
      has_null: whether a question may have no answer: SQuAD 2.0.
      null_odds_threshold: float, nats. In SQuAD 2.0 a question with null odds above it
        gets no answer. 0 (both equally likely) until `calibrate` finds a better one on
        labelled examples.
    """

    def __init__(self, settings: task_config.TaskConfig):
        """Creates the task.

        Args:
          settings: the section `task` of the configuration.

        Raises:
          ValueError: the name is another task's, or `max_seq_length` is too small for a
            question of `max_query_length` and a context.
        """
        if settings.name not in FILES:
            raise ValueError(
                f"task.name must be one of {', '.join(FILES)} for question answering; "
                f"received {settings.name!r}"
            )
        least = settings.max_query_length + windows.NUM_SPECIAL + 1
        if settings.max_seq_length < least:
            raise ValueError(
                "task.max_seq_length must leave room for the context beside a question "
                f"of task.max_query_length tokens, so be at least {least}; received "
                f"{settings.max_seq_length}. Increase it, or reduce max_query_length"
            )
        super().__init__(
            settings,
            labels=(),
            metric_names=METRICS[settings.name],
            test_splits=("test",) if settings.test_file else (),
        )
        self.has_null = settings.name == "squad2"
        self.kind = "answerable_span" if self.has_null else "span"
        self.null_odds_threshold = 0.0

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.SpanExample]:
        """Reads the questions of a split; see `base.Task.read`."""
        return reader.read(
            self._path(data_dir, split),
            problems,
            has_null=self.has_null,
            has_labels=split not in self.test_splits,
            is_training=split == base.TRAIN,
        )

    def has_split(self, data_dir: str, split: str) -> bool:
        """Returns whether the file of a split exists."""
        known = (base.TRAIN, *self.dev_splits, *self.test_splits)
        return split in known and files.exists(self._path(data_dir, split))

    def _path(self, data_dir: str, split: str) -> str:
        named = getattr(self.settings, base.FILE_SETTINGS[split])
        return text_files.join(data_dir, named or FILES[self.settings.name][split])

    def head_settings(self) -> dict[str, Any]:
        """Arguments of the head: none in SQuAD 1.1; beam sizes and dropout in 2.0."""
        if not self.has_null:
            return {}
        return {
            "num_starts": self.settings.num_starts,
            "num_ends": self.settings.num_ends,
            "dropout_rate": self.settings.classifier_dropout_rate,
        }

    def encode(
        self,
        examples: Sequence[examples_lib.SpanExample],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        """Encodes a row for each window of each question; see `windows.encode`."""
        return windows.encode(examples, tokenizer, self.settings, is_training)

    def postprocess(
        self,
        examples: Sequence[examples_lib.SpanExample],
        features: features_lib.Features,
        model_outputs: Mapping[str, np.ndarray],
    ) -> predictions_lib.AnswerSpans:
        """Finds the best answers to each question; see `squad.answers`."""
        find = answers_lib.from_beams if self.has_null else answers_lib.from_logits
        return find(examples, features, model_outputs, self.settings)

    def compute_metrics(
        self,
        examples: Sequence[examples_lib.SpanExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """See `metrics.mean_scores`.

        Differs from the original: the metrics are of the predictions as written. The
        original's metrics count questions with null odds above 1 as unanswered, unlike
        its predictions.

        Args:
          examples: N with labels, at least one.
          predictions: `AnswerSpans`, from `postprocess`.

        Returns:
          Those of `metrics.mean_scores`; in SQuAD 2.0 also `best_f1` and
          `best_exact_match`, each with the best threshold for these examples.
        """
        predicted = self.predicted_answers(predictions)
        scores = metrics.mean_scores(examples, predicted, self.has_null)
        if not self.has_null:
            return scores
        (best_exact, _), (best_f1, _) = self._best(examples, predictions)
        return scores | {"best_f1": best_f1, "best_exact_match": best_exact}

    def calibrate(
        self,
        examples: Sequence[examples_lib.SpanExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """Sets `null_odds_threshold` to the value with the best F1 on these examples.

        Args:
          examples: N with labels, at least one.
          predictions: `AnswerSpans`, from `postprocess`.

        Returns:
          `null_odds_threshold`, nats; nothing in SQuAD 1.1.
        """
        if not self.has_null:
            return {}
        self.null_odds_threshold = self._best(examples, predictions)[1][1]
        return {"null_odds_threshold": self.null_odds_threshold}

    def use_calibration(self, values: Mapping[str, float]) -> None:
        """Sets `null_odds_threshold`, if it is among the values."""
        self.null_odds_threshold = values.get(
            "null_odds_threshold", self.null_odds_threshold
        )

    def _best(
        self,
        examples: Sequence[examples_lib.SpanExample],
        predictions: predictions_lib.Predictions,
    ) -> list[tuple[float, float]]:
        """The best score and its threshold, for exact match and for F1."""
        spans = _spans(predictions)
        answered = [candidates[0].text for candidates in spans.n_best]
        with_answers = metrics.score_questions(examples, answered, True)
        without = metrics.score_questions(examples, [""] * len(examples), True)
        odds = np.array(spans.null_odds, np.float64)
        return [
            metrics.best_threshold(scores, null_scores, odds)
            for scores, null_scores in zip(with_answers, without, strict=True)
        ]

    def predicted_answers(self, predictions: predictions_lib.Predictions) -> list[str]:
        """The answer to each question, as in the context; empty for no answer.

        Args:
          predictions: `AnswerSpans`, from `postprocess`.
        """
        return [candidate.text for candidate in self._chosen(predictions)]

    def _chosen(
        self, predictions: predictions_lib.Predictions
    ) -> list[predictions_lib.Candidate]:
        """The best candidate of each question, or one without text."""
        spans = _spans(predictions)
        best = [candidates[0] for candidates in spans.n_best]
        if spans.null_odds is None:
            return best
        # Differs from the original: a question with odds equal to the threshold is
        # answered, as in the search for the threshold.
        return [
            _no_answer(odds) if odds > self.null_odds_threshold else candidate
            for candidate, odds in zip(best, spans.null_odds, strict=True)
        ]

    def answers(
        self,
        examples: Sequence[examples_lib.SpanExample],
        predictions: predictions_lib.Predictions,
    ) -> list[dict[str, Any]]:
        """Describes each question and its answer as a JSON object.

        Args:
          examples: N, with or without labels.
          predictions: `AnswerSpans`, from `postprocess`.

        Returns:
          Objects with `id`, `question`, `context`, `prediction` (empty for no answer),
          `start` and `end` (exclusive) in the context, both -1 for no answer, and
          `probability`: among the candidates, or that of no answer by the null odds.
          With labels also `answers`, a list of `text` and `start`, `is_correct` (exact
          match) and `f1`; in SQuAD 2.0 `null_odds`, nats.
        """
        spans = _spans(predictions)
        found = []
        chosen = self._chosen(predictions)
        for number, (example, best) in enumerate(zip(examples, chosen, strict=True)):
            entry: dict[str, Any] = {
                "id": example.id,
                "question": example.question,
                "context": example.context,
                "prediction": best.text,
                "start": best.start,
                "end": best.end,
                "probability": best.probability,
            }
            if example.answers or example.is_impossible:
                entry["answers"] = [
                    {"text": answer.text, "start": answer.start}
                    for answer in example.answers
                ]
                exact, f1 = metrics.score_question(
                    best.text, [a.text for a in example.answers], self.has_null
                )
                entry["is_correct"], entry["f1"] = bool(exact), f1
            if spans.null_odds is not None:
                entry["null_odds"] = spans.null_odds[number]
            found.append(entry)
        return found

    def write_predictions(
        self,
        split: str,
        examples: Sequence[examples_lib.SpanExample],
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes the files that the official scripts and leaderboards accept.

        Args:
          split: not part of the file names: write each split to its own directory.
          examples: of the split.
          predictions: `AnswerSpans`, from `postprocess`.
          folder: local or remote; is created.

        Returns:
          The paths of `predictions.json`, answers by id, empty if the null odds are
          above `null_odds_threshold`; of `nbest_predictions.json`, the candidates with
          their scores; and in SQuAD 2.0 of `null_odds.json`, in nats by id.
        """
        spans = _spans(predictions)
        ids = [example.id for example in examples]
        written: dict[str, Sequence[Any]] = {
            "predictions": self.predicted_answers(predictions),
            "nbest_predictions": [
                [_nbest_entry(candidate) for candidate in candidates]
                for candidates in spans.n_best
            ],
        }
        if spans.null_odds is not None:
            written["null_odds"] = spans.null_odds
        files.make_folder(folder)
        paths = []
        for name, values in written.items():
            paths.append(os.path.join(folder, f"{name}.json"))
            content = json.dumps(dict(zip(ids, values, strict=True)), indent=1)
            files.write_bytes(paths[-1], f"{content}\n".encode())
        return paths


def _spans(predictions: predictions_lib.Predictions) -> predictions_lib.AnswerSpans:
    if not isinstance(predictions, predictions_lib.AnswerSpans):
        raise ValueError(
            "predictions for question answering must be AnswerSpans, from postprocess; "
            f"received {type(predictions).__name__}. Pass those of the same task"
        )
    return predictions


def _no_answer(null_odds: float) -> predictions_lib.Candidate:
    # A sigmoid, written with tanh because that cannot overflow.
    probability = 0.5 * (1.0 + math.tanh(0.5 * null_odds))
    return predictions_lib.Candidate("", -1, -1, probability, 0.0, 0.0)


def _nbest_entry(candidate: predictions_lib.Candidate) -> dict[str, Any]:
    """The original's names, also for SQuAD 1.1, whose scores are logits."""
    return {
        "text": candidate.text,
        "probability": candidate.probability,
        "start_log_prob": candidate.start_score,
        "end_log_prob": candidate.end_score,
    }
