"""Loads a SavedModel of albert_tf.export, and asks that of a pre-trained model.

Those of fine-tuned models are asked by albert_tf.task_serving.asking.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's op)

from albert_tf import tokenization


def check(path: str) -> None:
    """Raises ValueError where the folder `path` holds no SavedModel."""
    if not tf.saved_model.contains_saved_model(path):
        raise ValueError(
            f"--saved_model must be a SavedModel; {path} holds none. Make one with "
            "albert_tf.export"
        )


def load(path: str):
    """The SavedModel in the folder `path`.

    Raises:
      ValueError: there is none.
    """
    check(path)
    return tf.saved_model.load(path)


def check_mask(text: str) -> None:
    """Raises ValueError where a text has no [MASK]."""
    if tokenization.MASK not in text:
        raise ValueError(
            f"each text must hold {tokenization.MASK}; received {text!r:.200}"
        )


def check_found(answer: dict[str, Any]) -> None:
    """Raises ValueError where a [MASK] of an answer's text was not seen."""
    missing = answer["text"].count(tokenization.MASK) - len(answer["masks"])
    if missing:
        raise ValueError(
            f"a text must not be longer than the model's sequence; {missing} "
            f"{tokenization.MASK} lie beyond its end in {answer['text']!r:.200}"
        )


def fill_masks(signature, texts: Sequence[str], top_k: int) -> list[dict[str, Any]]:
    """Candidates for each [MASK] that the model sees.

    Returns:
      A dict a text: `text`, and `masks`, a list a mask of candidates with `token` (as
      read, "▁" for the begin of a word) and `probability`, best first. Masks beyond
      the longest input are missing at the end of the list.
    """
    found = signature(text=tf.constant(texts), top_k=tf.constant(top_k))
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
    return answers


def sentence_orders(signature, pairs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Dicts of `first`, `second` and `probability` that they stand in this order."""
    found = signature(
        first=tf.constant([first for first, _ in pairs]),
        second=tf.constant([second for _, second in pairs]),
    )
    return [
        {"first": first, "second": second, "probability": float(probability)}
        for (first, second), probability in zip(
            pairs, found["probability"].numpy(), strict=True
        )
    ]


def encodings(signature, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Dicts of `text`, `num_tokens` and `pooled_output`, a list of H numbers."""
    found = signature(text=tf.constant(texts))
    return [
        {"text": text, "num_tokens": int(mask.sum()), "pooled_output": pooled.tolist()}
        for text, mask, pooled in zip(
            texts,
            found["input_mask"].numpy(),
            found["pooled_output"].numpy(),
            strict=True,
        )
    ]
