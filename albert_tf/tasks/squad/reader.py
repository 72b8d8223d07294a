"""Reads the JSON of SQuAD 1.1 and 2.0, and reports questions that cannot be used."""

import re
from typing import Any

from albert_tf.core import files, short_repr, strict_json
from albert_tf.tasks import examples as examples_lib


class _Unusable(Exception):
    """A question that cannot be used; takes the arguments of `Problems.add`."""


def read(
    path: str,
    problems: examples_lib.Problems,
    has_null: bool,
    has_labels: bool,
    is_training: bool,
) -> list[examples_lib.SpanExample]:
    """Reads the questions of a file, in its order.

    Args:
      path: local or remote.
      problems: receives the questions that cannot be used.
      has_null: whether a question may have no answer: SQuAD 2.0.
      has_labels: whether to read answers; each question then needs one, or must be
        marked as impossible.
      is_training: whether the first answer must be at its offset. Metrics compare texts
        only, for which a wrong offset does not matter.

    Raises:
      ValueError: the file is missing, is not JSON, or its articles or paragraphs are
        malformed; names the path, and the line or the paragraph.
    """
    reader = _Reader(path, has_null, has_labels, is_training)
    examples = []
    for where, context, question in _questions(path):
        try:
            examples.append(reader.example(where, context, question))
        except _Unusable as unusable:
            problems.add(*unusable.args)
    return examples


def _questions(path: str):
    """Yields place, context and entry of each question."""
    articles = _member(path, _load(path), "data", list)
    for i, article in enumerate(articles, 1):
        of_article = f"{path}: article {i}"
        paragraphs = _member(of_article, article, "paragraphs", list)
        for j, paragraph in enumerate(paragraphs, 1):
            where = f"{of_article}, paragraph {j}"
            context = _member(where, paragraph, "context", str)
            for k, entry in enumerate(_member(where, paragraph, "qas", list), 1):
                yield f"{where}, question {k}", context, entry


def _load(path: str) -> Any:
    if not files.exists(path):
        raise ValueError(
            f"{path}: there is no such file; download it from SQuAD's page, or name "
            "another with --set task.train_file, task.dev_file or task.test_file"
        )
    try:
        return strict_json.load(path, max_bytes=strict_json.MAX_DATA_BYTES)
    except ValueError as error:
        raise ValueError(f"{error}. Download the file again") from error


def _member(where: str, holder: Any, key: str, kind: type) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        name = "a text" if kind is str else "a list"
        raise ValueError(
            f"{where}: must have {name} {key!r}, as the files of SQuAD do; received "
            f"{short_repr.shown(holder)}"
        )
    return value


class _Reader:
    """Creates examples; remembers their ids."""

    def __init__(self, path: str, has_null: bool, has_labels: bool, is_training: bool):
        self._path = path
        self._has_null = has_null
        self._has_labels = has_labels
        self._is_training = is_training
        self._ids: set[str] = set()

    def example(self, where: str, context: str, entry: Any) -> examples_lib.SpanExample:
        """Creates the example of one entry of `qas`; raises `_Unusable`."""
        name = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise _Unusable(where, "a question must have an id, a text", entry)
        origin = f"{self._path}: question {short_repr.cut(name)}"
        if name in self._ids:
            raise _Unusable(origin, "ids must be unique", name, "give it another id")
        self._ids.add(name)
        question = entry.get("question")
        if not _is_text(question):
            raise _Unusable(origin, "a question must not be empty", question)
        if not _is_text(context):
            raise _Unusable(origin, "a context must not be empty", context)
        answers: tuple[examples_lib.Answer, ...] = ()
        is_impossible = False
        if self._has_labels:
            is_impossible = self._is_impossible(origin, entry)
            answers = _answers(origin, entry)
            self._check_counts(origin, answers, is_impossible)
            if self._is_training and answers:
                answers = (_placed(origin, context, answers[0]), *answers[1:])
        return examples_lib.SpanExample(
            name, question, context, answers, is_impossible, origin
        )

    def _is_impossible(self, origin: str, entry: dict[str, Any]) -> bool:
        value = entry.get("is_impossible", False)  # SQuAD 1.1 has no such key
        if not isinstance(value, bool):
            raise _Unusable(origin, "is_impossible must be true or false", value)
        if value and not self._has_null:
            raise _Unusable(
                origin,
                "every question of SQuAD 1.1 must have an answer",
                {"is_impossible": True},
                "use SQuAD 2.0 with --set task.name=squad2, or skip such questions "
                "with --set task.on_bad_example=skip",
            )
        return value

    def _check_counts(self, origin: str, answers: tuple, is_impossible: bool) -> None:
        if is_impossible and answers:
            rule = "a question that is impossible must have no answers"
            raise _Unusable(origin, rule, answers)
        if not is_impossible and not answers:
            rule = "a question must have an answer"
            rule += ", or be marked with is_impossible" if self._has_null else ""
            raise _Unusable(origin, rule, [])


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _answers(origin: str, entry: dict[str, Any]) -> tuple[examples_lib.Answer, ...]:
    values = entry.get("answers")
    if not isinstance(values, list):
        raise _Unusable(origin, "a question must have a list of answers", values)
    answers = []
    for value in values:
        fields = value if isinstance(value, dict) else {}
        text, start = fields.get("text"), fields.get("answer_start")
        # Not isinstance: bool is a subclass of int.
        if not isinstance(text, str) or type(start) is not int:
            rule = "an answer must have a text and an integer answer_start"
            raise _Unusable(origin, rule, value)
        answers.append(examples_lib.Answer(text, start))
    return tuple(answers)


def _placed(
    origin: str, context: str, answer: examples_lib.Answer
) -> examples_lib.Answer:
    """Returns the answer as it is written in the context, with its offset.

    Differs from the original, which trains on the text at the offset, whatever it is.
    As in BERT, the answer is searched for in the words that it should cover, and all
    runs of white space are equal.
    """
    text, start = answer.text, answer.start
    if _is_text(text) and 0 <= start < len(context):
        if context.startswith(text, start):
            return answer
        begin, end = start, min(start + len(text), len(context))
        while begin > 0 and not context[begin - 1].isspace():
            begin -= 1
        while end < len(context) and not context[end].isspace():
            end += 1
        words = r"\s+".join(re.escape(word) for word in text.split())
        found = re.compile(words).search(context, begin, end)
        if found:
            return examples_lib.Answer(found[0], found.start())
    rule = "an answer must be at its offset in the context"
    there = context[start : start + len(text)] if start >= 0 else ""
    received = {"text": text, "answer_start": start, "there": there}
    raise _Unusable(origin, rule, received)
