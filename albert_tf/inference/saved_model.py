"""Loads a model of albert_tf.export, and calls that of a pre-trained model.

Those of fine-tuned models are called by albert_tf.inference.signatures.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's op)

from albert_tf.core import checksums
from albert_tf.inference import openvino_model, saved_model_dir
from albert_tf.tokenization import tokenizer


def load(path: str):
    """Loads the SavedModel in the directory `path`, or that of --form=openvino.

    Raises:
      ValueError: there is none, a file is not the one that was exported, or OpenVINO
        cannot load it.
    """
    saved_model_dir.check(path)
    checksums.check(path)
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


def fill_all(signature, texts: Sequence[str], top_k: int) -> list[dict[str, Any]]:
    """Returns candidates for each [MASK], and the texts with the best ones.

    Returns:
      As `fill_masks`, and `filled` besides.

    Raises:
      ValueError: a text has no [MASK], or one beyond the end of the model's input.
    """
    for text in texts:
        check_mask(text)
    answers = []
    for answer in fill_masks(signature, texts, top_k):
        check_found(answer)
        filled = answer["text"]
        for candidates in answer["masks"]:
            filled = filled.replace(tokenizer.MASK, word_of(candidates[0]), 1)
        answers.append({"text": answer["text"], "filled": filled, **answer})
    return answers


def word_of(candidate: dict[str, Any]) -> str:
    """Returns the characters of a candidate of `fill_masks`."""
    # A lone "▁" is a piece too: the beginning of a word without its characters.
    return candidate["token"].replace("▁", "") or "▁"


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


class Embeddings(NamedTuple):
    """Embeddings of T texts.

    pooled: float32 [T, H], the output for [CLS], which was trained on sentence order.
    mean: float32 [T, H], the mean of the last layer over a text's tokens.
    num_tokens: int32 [T], special tokens included.
    """

    pooled: np.ndarray
    mean: np.ndarray
    num_tokens: np.ndarray


def embed(signature, texts: Sequence[str]) -> Embeddings:
    """Returns the embeddings of texts, of each kind."""
    found = signature(text=tf.constant(texts))
    mask = tf.cast(found["input_mask"], tf.float32)  # [T, S]
    counts = tf.reduce_sum(mask, 1)
    summed = tf.einsum("ts,tsh->th", mask, found["sequence_output"])
    return Embeddings(
        found["pooled_output"].numpy(),
        (summed / counts[:, None]).numpy(),
        counts.numpy().astype(np.int32),
    )


def encodings(signature, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Returns dicts of `text`, `num_tokens`, `pooled_output` and `mean_output`.

    The last two are H numbers each, as in `Embeddings`.
    """
    found = embed(signature, texts)
    return [
        {
            "text": text,
            "num_tokens": int(num_tokens),
            "pooled_output": pooled.tolist(),
            "mean_output": mean.tolist(),
        }
        for text, pooled, mean, num_tokens in zip(texts, *found, strict=True)
    ]
