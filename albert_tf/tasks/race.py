"""RACE (Lai et al., 2017): questions on articles, with four options each.

File format: https://www.cs.cmu.edu/~glai1/data/race.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from albert_tf.core import files, task_config
from albert_tf.tasks import base, checks, metrics, text_features, text_files
from albert_tf.tasks import examples as examples_lib
from albert_tf.tasks import features as features_lib
from albert_tf.tasks import predictions as predictions_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib

_GROUPS = ("middle", "high")
_LETTERS = ("A", "B", "C", "D")
_BLANK = "_"
# Questions encoded at a time.
_CHUNK_SIZE = 2000


class RaceTask(base.Task):
    """Multiple choice: which of four options answers a question on an article.

    The data directory contains `train`, `dev` and `test`, or a directory `RACE` with
    these; each has `middle` and `high`, or one of them. They are read in this order,
    and their .txt files by number. A line of a file is an article with its questions;
    the id of a question is ARTICLE-NUMBER, counted from 0. Test files may have answers.
    """

    kind = "multiple_choice"

    def __init__(self, settings: task_config.TaskConfig):
        """Uses `max_seq_length` and `max_option_length` of the settings.

        Raises:
          ValueError: the settings name a file of a split.
        """
        for name in base.FILE_SETTINGS.values():
            if file := getattr(settings, name):
                raise ValueError(
                    f"task.{name} must be empty for the task race, whose splits are "
                    "directories of --data_dir: train, dev and test; received "
                    f"{file!r}"
                )
        super().__init__(settings, _LETTERS, ("accuracy",))

    def has_split(self, data_dir: str, split: str) -> bool:
        """See `base.Task`."""
        return bool(self._folders(data_dir, split))

    def head_settings(self) -> dict[str, Any]:
        """See `base.Task`."""
        return {"dropout_rate": self.settings.classifier_dropout_rate}

    def read(
        self, data_dir: str, split: str, problems: examples_lib.Problems
    ) -> list[examples_lib.ChoiceExample]:
        """See `base.Task`."""
        found: dict[str, examples_lib.ChoiceExample] = {}
        folders = self._folders(data_dir, split)
        for folder in folders:
            group = os.path.basename(folder)
            # Differs from the original, whose order depends on the file system.
            for name in text_files.names_in(folder, ".txt"):
                path = os.path.join(folder, name)
                for line, article in text_files.json_objects(path, problems):
                    _add_questions(
                        article,
                        f"{path}:{line}",
                        group,
                        split not in self.test_splits,
                        problems,
                        found,
                    )
        if not found:
            raise ValueError(
                f"{os.path.join(data_dir, split)}: there must be middle/*.txt or "
                f"high/*.txt with questions; found {len(folders)} such directories "
                "and no usable question. Pass the directory of RACE's download"
            )
        return list(found.values())

    def encode(
        self,
        examples: Sequence[examples_lib.ChoiceExample],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        """See `base.Task`; four rows a question, `[CLS] article [SEP] option [SEP]`.

        The option replaces the blank of the question, or follows the question. Their
        last `max_option_length` tokens are kept, and the end of the article is
        truncated. `per_row` has `label_ids` in training.
        """
        # In chunks: lists of all tokens would take eight times as many bytes.
        chunks = [
            examples[begin : begin + _CHUNK_SIZE]
            for begin in range(0, max(len(examples), 1), _CHUNK_SIZE)
        ]
        return features_lib.concatenate(
            [self._encode_chunk(chunk, tokenizer, is_training) for chunk in chunks],
            [len(chunk) for chunk in chunks],
        )

    def postprocess(
        self,
        examples: Sequence[examples_lib.ChoiceExample],
        features: features_lib.Features,
        model_outputs: Mapping[str, np.ndarray],
    ) -> predictions_lib.Logits:
        """See `base.Task`; reads `logits` [N, 4]."""
        return predictions_lib.Logits(np.asarray(model_outputs["logits"], np.float32))

    def compute_metrics(
        self,
        examples: Sequence[examples_lib.ChoiceExample],
        predictions: predictions_lib.Predictions,
    ) -> dict[str, float]:
        """See `base.Task`; also `accuracy_middle` and `accuracy_high`, if present."""
        true = [_known(example) for example in examples]
        predicted = checks.require_logits(predictions).argmax(-1).tolist()
        found = {"accuracy": metrics.accuracy(true, predicted)}
        for group in _GROUPS:
            members = [n for n, e in enumerate(examples) if e.group == group]
            if members:
                name = f"accuracy_{group}"
                found[name] = metrics.accuracy(
                    [true[n] for n in members], [predicted[n] for n in members]
                )
        return found

    def answers(
        self,
        examples: Sequence[examples_lib.ChoiceExample],
        predictions: predictions_lib.Predictions,
    ) -> list[dict[str, Any]]:
        """See `base.Task`; prediction and label are letters."""
        values = checks.require_logits(predictions)
        best = special.softmax(values, axis=-1).max(-1)
        found = []
        for example, choice, probability in zip(
            examples, values.argmax(-1), best, strict=True
        ):
            answer = {
                "id": example.id,
                "group": example.group,
                "context": example.context,
                "question": example.question,
                "options": list(example.options),
                "prediction": _LETTERS[choice],
                "probability": float(probability),
            }
            if example.label is not None:
                answer["label"] = _LETTERS[example.label]
                answer["is_correct"] = bool(choice == example.label)
            found.append(answer)
        return found

    def write_predictions(
        self,
        split: str,
        examples: Sequence[examples_lib.ChoiceExample],
        predictions: predictions_lib.Predictions,
        folder: str,
    ) -> list[str]:
        """Writes `RACE-SPLIT.tsv`: the id of each question, and a letter.

        RACE prescribes no format.
        """
        path = text_files.join(folder, f"RACE-{split}.tsv")
        choices = checks.require_logits(predictions).argmax(-1)
        lines = ["id\tprediction"]
        for example, choice in zip(examples, choices, strict=True):
            lines.append(f"{text_files.cell(example.id)}\t{_LETTERS[choice]}")
        text_files.write_lines(path, lines)
        return [path]

    def _encode_chunk(
        self,
        examples: Sequence[examples_lib.ChoiceExample],
        tokenizer: tokenizer_lib.Tokenizer,
        is_training: bool,
    ) -> features_lib.Features:
        articles = list(dict.fromkeys(example.context for example in examples))
        article_ids = dict(zip(articles, tokenizer.encode_batch(articles), strict=True))
        filled = [
            _fill(tokenizer.normalize(example.question), tokenizer.normalize(option))
            for example in examples
            for option in example.options
        ]
        most = self.settings.max_seq_length - text_features.PAIR_FRAME
        # Differs from the original, which stops at an option longer than the row: more
        # of its beginning is truncated.
        option_length = min(self.settings.max_option_length, most)
        second = [ids[-option_length:] for ids in tokenizer.encode_batch(filled)]
        owners = [n for n, e in enumerate(examples) for _ in e.options]
        first = [
            article_ids[examples[owner].context][: most - len(ids)]
            for owner, ids in zip(owners, second, strict=True)
        ]
        per_row = {}
        if is_training:
            labels = np.array([_known(example) for example in examples], np.int32)
            per_row["label_ids"] = labels[np.array(owners, np.int64)]
        return text_features.join_segments(first, second, owners, tokenizer, per_row)

    def _folders(self, data_dir: str, split: str) -> list[str]:
        """The existing directories of a split."""
        for above in (data_dir, os.path.join(data_dir, "RACE")):
            paths = [os.path.join(above, split, group) for group in _GROUPS]
            found = [path for path in paths if files.is_folder(path)]
            if found:
                return found
        return []


def _fill(question: str, option: str) -> str:
    """Replaces the blanks of a question with the option, or appends the option."""
    if _BLANK in question:
        return question.replace(_BLANK, option)
    return f"{question} {option}"


def _add_questions(
    article: dict[str, Any],
    origin: str,
    group: str,
    needs_answers: bool,
    problems: examples_lib.Problems,
    found: dict[str, examples_lib.ChoiceExample],
) -> None:
    """Adds the usable questions of an article to `found`, by their ids."""
    context, article_id = article.get("article"), article.get("id")
    columns: list[Any] = [article.get(key) for key in ("questions", "options")]
    answers = article.get("answers")
    if answers is None and not needs_answers and isinstance(columns[0], list):
        answers = [None] * len(columns[0])
    columns.append(answers)
    if (
        not isinstance(context, str)
        or not isinstance(article_id, str)
        or not all(isinstance(column, list) for column in columns)
        or len({len(column) for column in columns}) != 1
    ):
        rule = "an article must have id, article, and as many questions as options"
        if needs_answers:
            rule += " and answers"
        problems.add(origin, rule, article)
        return
    for number, (question, options, answer) in enumerate(zip(*columns, strict=True)):
        example_id, place = f"{article_id}-{number}", f"{origin}: question {number}"
        violation = _violation(context, question, options, answer, needs_answers)
        if violation is not None:
            problems.add(place, *violation)
        elif example_id in found:
            advice = f"the first is at {found[example_id].origin}; use unique ids"
            problems.add(place, "ids must be unique", example_id, advice)
        else:
            label = None if answer is None else _LETTERS.index(answer)
            found[example_id] = examples_lib.ChoiceExample(
                example_id, context, question, tuple(options), label, group, place
            )


def _violation(
    context: str, question: Any, options: Any, answer: Any, needs_answer: bool
) -> tuple[str, Any] | None:
    """The first rule that a question violates, and the value that does; or None."""
    if not isinstance(options, list) or len(options) != len(_LETTERS):
        return "a question must have four options", options
    texts = [question, *options]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return "question and options must be texts that are not empty", texts
    if not context.strip():
        return "an article must not be empty", context
    if answer not in _LETTERS and (answer is not None or needs_answer):
        return "an answer must be A, B, C or D", answer
    return None


def _known(example: examples_lib.ChoiceExample) -> int:
    if example.label is None:
        raise ValueError(checks.unlabelled(example.origin))
    return example.label
