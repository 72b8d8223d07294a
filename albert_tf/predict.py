"""Asks a SavedModel made by albert_tf.export, and prints readable answers.

python -m albert_tf.predict --saved_model=DIR "Paris is the [MASK] of France."
python -m albert_tf.predict --saved_model=DIR --signature=sentence_order FIRST SECOND
python -m albert_tf.predict --saved_model=DIR --signature=encode TEXT ...

Without texts they are read from standard input, one a line; for sentence_order the
two are separated by a tab.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's op)
from absl import flags

from albert_tf import binary

MASK = "[MASK]"
SIGNATURES = ("fill_mask", "sentence_order", "encode")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "saved_model", None, "Folder of the SavedModel.", flag_values=flag_values
    )
    flags.DEFINE_enum("signature", "fill_mask", SIGNATURES, "What to ask.", flag_values)
    flags.DEFINE_integer(
        "top_k", 5, "Candidates shown for each [MASK].", 1, flag_values=flag_values
    )
    flags.DEFINE_bool("json", False, "One JSON object a text.", flag_values)
    flags.mark_flags_as_required(["saved_model"], flag_values)


def load(path: str):
    """The SavedModel in the folder `path`.

    Raises:
      ValueError: there is none.
    """
    if not tf.saved_model.contains_saved_model(path):
        raise ValueError(
            f"--saved_model must be a SavedModel; {path} holds none. Make one with "
            "albert_tf.export"
        )
    return tf.saved_model.load(path)


def fill_masks(model, texts: Sequence[str], top_k: int) -> list[dict[str, Any]]:
    """Candidates for each [MASK].

    Returns:
      A dict a text: `text`, and `masks`, a list a mask of candidates with `token` (as
      read, "▁" for the begin of a word) and `probability`, best first.

    Raises:
      ValueError: a text has no [MASK], or one that lies beyond the longest input.
    """
    for text in texts:
        if MASK not in text:
            raise ValueError(f"each text must hold {MASK}; received {text!r}")
    found = model.signatures["fill_mask"](
        text=tf.constant(texts), top_k=tf.constant(top_k)
    )
    answers: list[dict[str, Any]] = [{"text": text, "masks": []} for text in texts]
    for index, tokens, probabilities in zip(
        found["text_index"].numpy(),
        found["token"].numpy(),
        found["probability"].numpy(),
        strict=True,
    ):
        answers[index]["masks"].append(
            [
                {"token": token.decode(), "probability": float(probability)}
                for token, probability in zip(tokens, probabilities, strict=True)
            ]
        )
    for answer in answers:
        missing = answer["text"].count(MASK) - len(answer["masks"])
        if missing:
            raise ValueError(
                f"a text must not be longer than the model's sequence; {missing} "
                f"{MASK} lie beyond its end in {answer['text']!r}"
            )
    return answers


def sentence_orders(model, pairs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Dicts of `first`, `second` and `probability` that they stand in this order."""
    found = model.signatures["sentence_order"](
        first=tf.constant([first for first, _ in pairs]),
        second=tf.constant([second for _, second in pairs]),
    )
    return [
        {"first": first, "second": second, "probability": float(probability)}
        for (first, second), probability in zip(
            pairs, found["probability"].numpy(), strict=True
        )
    ]


def encodings(model, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Dicts of `text`, `num_tokens` and `pooled_output`, a list of H numbers."""
    found = model.signatures["encode"](text=tf.constant(texts))
    return [
        {"text": text, "num_tokens": int(mask.sum()), "pooled_output": pooled.tolist()}
        for text, mask, pooled in zip(
            texts,
            found["input_mask"].numpy(),
            found["pooled_output"].numpy(),
            strict=True,
        )
    ]


def _word(candidate: dict[str, Any]) -> str:
    # A lone "▁" is a piece too: the begin of a word, and nothing else of it.
    return candidate["token"].replace("▁", "") or "▁"


def _filled_text(answer: dict[str, Any]) -> str:
    text = answer["text"]
    for candidates in answer["masks"]:
        text = text.replace(MASK, _word(candidates[0]), 1)
    return text


def _show_filled(answer: dict[str, Any]) -> str:
    lines = [answer["text"], f"  -> {_filled_text(answer)}"]
    for candidates in answer["masks"]:
        shown = (f"{_word(c)} {c['probability']:.3f}" for c in candidates)
        lines.append(f"     {', '.join(shown)}")
    return "\n".join(lines)


def _show_order(answer: dict[str, Any]) -> str:
    return (
        f"{answer['first']} | {answer['second']}\n"
        f"  -> in this order with probability {answer['probability']:.3f}"
    )


def _show_encoding(answer: dict[str, Any]) -> str:
    first = " ".join(f"{number:.4f}" for number in answer["pooled_output"][:8])
    return (
        f"{answer['text']}\n  -> {answer['num_tokens']} tokens, pooled output of "
        f"{len(answer['pooled_output'])} numbers: {first} ..."
    )


def _pairs(texts: Sequence[str], from_lines: bool) -> list[list[str]]:
    if from_lines:
        pairs = [text.split("\t") for text in texts]
    else:
        pairs = [list(texts[i : i + 2]) for i in range(0, len(texts), 2)]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"sentence_order takes texts by two; received {pair!r}")
    return pairs


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Answers for the texts of the command line or of standard input."""
    texts, from_lines = list(argv[1:]), len(argv) == 1
    show: Callable[[dict[str, Any]], str]
    with binary.user_errors():
        model = load(flag_values.saved_model)
        if from_lines:
            texts = [line.rstrip("\n") for line in sys.stdin if line.strip()]
        if not texts:
            raise ValueError(
                "there must be a text, as an argument or on standard input"
            )
        if flag_values.signature == "fill_mask":
            answers = fill_masks(model, texts, flag_values.top_k)
            show = _show_filled
        elif flag_values.signature == "sentence_order":
            answers = sentence_orders(model, _pairs(texts, from_lines))
            show = _show_order
        else:
            answers = encodings(model, texts)
            show = _show_encoding
    for answer in answers:
        as_json = flag_values.json
        print(json.dumps(answer, ensure_ascii=False) if as_json else show(answer))


if __name__ == "__main__":
    binary.run(main, define_flags)
