"""Calls the signature of a fine-tuned SavedModel, and formats its answers.

It needs none of the model's code: the signature determines the answers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

Fields = Sequence[str]
Answer = dict[str, Any]


class Form(NamedTuple):
    """Way to call one signature.

    fields: description of an example's fields.
    least: minimum number of fields.
    most: maximum number of fields; None means any number.
    ask: maps the signature and N examples to N answers that JSON can hold.
    show: formats an answer as text.
    """

    fields: str
    least: int
    most: int | None
    ask: Callable[[Any, Sequence[Fields]], list[Answer]]
    show: Callable[[Answer], str]


def check(form: Form, fields: Fields) -> None:
    """Raises ValueError if an example has too few fields or too many."""
    if len(fields) < form.least or (form.most and len(fields) > form.most):
        raise ValueError(
            f"an example must be {form.fields}, in a line, separated by tabs; "
            f"received {len(fields)} in {' | '.join(fields)!r:.200}"
        )


def classify(signature, examples: Sequence[Fields]) -> list[Answer]:
    """Returns classes or numbers of texts, or of pairs.

    Args:
      signature: of the SavedModel.
      examples: N times a text, or the two texts of a pair.

    Returns:
      N times `text`, `pair` if there is one, and either `label`, `probability` and
      `probabilities` by label, or `score`.
    """
    found = signature(
        text=tf.constant([fields[0] for fields in examples]),
        pair=tf.constant([_pair(fields) for fields in examples]),
    )
    answers: list[Answer] = []
    for number, fields in enumerate(examples):
        answer = {"text": fields[0]} | ({"pair": p} if (p := _pair(fields)) else {})
        if "score" in found:
            answers.append(answer | {"score": float(found["score"][number])})
            continue
        probabilities = found["probability"][number].numpy().tolist()
        answers.append(
            answer
            | {
                "label": found["label"][number].numpy().decode(),
                "probability": max(probabilities),
                "probabilities": dict(
                    zip(_decoded(found["labels"]), probabilities, strict=True)
                ),
            }
        )
    return answers


def tag(signature, examples: Sequence[Fields]) -> list[Answer]:
    """Returns labels of words.

    Args:
      signature: of the SavedModel.
      examples: N times a text.

    Returns:
      N times `text` and `words`, a list of `word`, `start`, `end`, `label` and
      `probability`.
    """
    found = signature(text=tf.constant([fields[0] for fields in examples]))
    answers: list[Answer] = [{"text": fields[0], "words": []} for fields in examples]
    for index, word, start, end, label, probability in zip(
        found["text_index"].numpy().tolist(),
        _decoded(found["word"]),
        found["start"].numpy().tolist(),
        found["end"].numpy().tolist(),
        _decoded(found["label"]),
        found["probability"].numpy().tolist(),
        strict=True,
    ):
        answers[index]["words"].append(
            {
                "word": word,
                "start": start,
                "end": end,
                "label": label,
                "probability": probability,
            }
        )
    return answers


def answer_questions(signature, examples: Sequence[Fields]) -> list[Answer]:
    """Returns answers in contexts.

    Args:
      signature: of the SavedModel.
      examples: N times a question and a context.

    Returns:
      N times `question`, `context`, `answer`, `start`, `end`, `probability`, and
      `null_odds` if the model can find no answer. Of an answer `probability` is that
      among the candidates; without one, that there is none, by the null odds.
    """
    questions, contexts = zip(*examples, strict=True)
    found = signature(question=tf.constant(questions), context=tf.constant(contexts))
    numbers = [
        name for name in ("start", "end", "probability", "null_odds") if name in found
    ]
    columns = [found[name].numpy().tolist() for name in numbers]
    answers = [
        {"question": question, "context": context, "answer": answer}
        | dict(zip(numbers, values, strict=True))
        for question, context, answer, *values in zip(
            questions, contexts, _decoded(found["answer"]), *columns, strict=True
        )
    ]
    for answer in answers:
        if not answer["answer"] and "null_odds" in answer:
            # The signature has that of the best span, which is not returned.
            answer["probability"] = 0.5 * (1.0 + math.tanh(0.5 * answer["null_odds"]))
    return answers


def choose(signature, examples: Sequence[Fields]) -> list[Answer]:
    """Returns the best options.

    Args:
      signature: of the SavedModel.
      examples: N times a context, a question, and two options or more.

    Returns:
      N times `context`, `question`, `options`, `choice` (counted from 0), `answer`, and
      `probabilities` of the options.
    """
    answers: list[Answer] = [{} for _ in examples]
    # In one call all questions have the same number of options.
    for size in sorted({len(fields) for fields in examples}):
        numbers = [n for n, fields in enumerate(examples) if len(fields) == size]
        contexts, questions, *options = zip(
            *(examples[n] for n in numbers), strict=True
        )
        found = signature(
            context=tf.constant(contexts),
            question=tf.constant(questions),
            options=tf.constant(list(zip(*options, strict=True))),
        )
        for row, number in enumerate(numbers):
            context, question, *choices = examples[number]
            choice = int(found["choice"][row])
            answers[number] = {
                "context": context,
                "question": question,
                "options": choices,
                "choice": choice,
                "answer": choices[choice],
                "probabilities": found["probability"][row].numpy().tolist(),
            }
    return answers


def _pair(fields: Fields) -> str:
    return fields[1] if len(fields) > 1 else ""


def _decoded(values: tf.Tensor) -> list[str]:
    return [value.decode() for value in values.numpy().tolist()]


def _show_class(answer: Answer) -> str:
    texts = " | ".join([answer["text"], *filter(None, [answer.get("pair")])])
    if "score" in answer:
        return f"{texts}\n  -> {answer['score']:.4f}"
    best = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{label} {probability:.3f}" for label, probability in best)
    return f"{texts}\n  -> {shown}"


def _show_tags(answer: Answer) -> str:
    lines = [answer["text"]]
    for word in answer["words"]:
        lines.append(f"  {word['label']} {word['probability']:.3f} {word['word']}")
    return "\n".join(lines)


def _show_answer(answer: Answer) -> str:
    given = answer["answer"] or "(no answer)"
    place = ""
    if answer["answer"]:
        place = f", characters {answer['start']} to {answer['end']}"
    odds = ""
    if "null_odds" in answer:
        odds = f", no answer has odds of {answer['null_odds']:.3f} nats"
    return (
        f"{answer['question']}\n"
        f"  -> {given} (probability {answer['probability']:.3f}{place}{odds})"
    )


def _show_choice(answer: Answer) -> str:
    lines = [answer["question"]]
    for number, option in enumerate(answer["options"]):
        mark = "->" if number == answer["choice"] else "  "
        lines.append(f"  {mark} {answer['probabilities'][number]:.3f} {option}")
    return "\n".join(lines)


FORMS = {
    "classify": Form("a text, or a pair of texts", 1, 2, classify, _show_class),
    "tag": Form("a text", 1, 1, tag, _show_tags),
    "answer": Form("a question and a context", 2, 2, answer_questions, _show_answer),
    "choose": Form(
        "a context, a question and two options or more", 4, None, choose, _show_choice
    ),
}
