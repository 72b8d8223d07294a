"""Loads a model of albert_tf.export, and calls that of a pre-trained model.

Those of fine-tuned models are called by albert_tf.inference.signatures.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's op)

from albert_tf.inference import openvino_model, saved_model_dir
from albert_tf.tokenization import tokenizer


def load(path: str):
    """Loads the SavedModel in the directory `path`, or that of --form=openvino.

    Raises:
      ValueError: there is none, or OpenVINO cannot load it.
    """
    saved_model_dir.check(path)
    if openvino_model.is_openvino(path):
        return openvino_model.Model(path)
    return tf.saved_model.load(path)


def check_mask(text: str) -> None:
    """Raises ValueError if a text has no [MASK]."""
    if tokenizer.MASK not in text:
        raise ValueError(
            f"each text must hold {tokenizer.MASK}; received {text!r:.200}"
        )


def check_found(answer: dict[str, Any]) -> None:
    """Raises ValueError if the model did not see a [MASK] of an answer's text."""
    missing = answer["text"].count(tokenizer.MASK) - len(answer["masks"])
    if missing:
        raise ValueError(
            f"a text must not be longer than the model's sequence; {missing} "
            f"{tokenizer.MASK} are after its end in {answer['text']!r:.200}"
        )


def fill_masks(signature, texts: Sequence[str], top_k: int) -> list[dict[str, Any]]:
    """Returns candidates for each [MASK] that the model sees.

    Returns:
      For each text a dict of `text` and `masks`: for each mask a list of candidates
      with `token` ("▁" marks the beginning of a word) and `probability`, best first.
      Masks beyond the end of the model's input are missing at the end of the list.
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
    """Returns dicts of `first`, `second` and `probability` that this is their order."""
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
    """Returns dicts of `text`, `num_tokens` and `pooled_output`, H numbers."""
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
