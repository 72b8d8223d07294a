"""A pre-training model in this process as a function that scores tokens."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model, token_scores
from albert_tf.probing import scoring

_ROWS, _NUMBERS = (tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None]))


def make_score_tokens(
    model: pretraining_model.PretrainingModel,
) -> scoring.ScoreTokens:
    """Returns a function that scores tokens, with the weights that `model` has now.

    The weights of its blocks are cast once. Shapes are not static: nothing is compiled
    for each length, and a batch has no padding.
    """
    replacements = pretraining_model.cast_blocks(model)
    table = model.encoder.embeddings.word_embeddings

    def encode_at(input_ids, input_mask, segment_ids, positions):
        weights = compute_lib.WeightCache(model.compute.dtype, replacements)
        return model.encoder.encode_at(
            input_ids, input_mask, segment_ids, positions, weights=weights
        )

    @tf.function(input_signature=[_ROWS, _ROWS, *[_NUMBERS] * 3], autograph=False)
    def run(*inputs):
        return token_scores.log_probabilities(
            encode_at,
            lambda hidden: model.masked_lm.scores_of(hidden, table).logits,
            *inputs,
        )

    return of_arrays(run)


def of_arrays(run: Callable) -> scoring.ScoreTokens:
    """Returns a function of arrays for one of tensors.

    Args:
      run: takes `input_ids`, `input_mask`, `positions`, `target_rows` and `target_ids`
        as `token_scores.log_probabilities` does, and returns what it returns.
    """

    def score_tokens(
        input_ids: np.ndarray,
        positions: np.ndarray,
        target_rows: np.ndarray,
        target_ids: np.ndarray,
    ) -> np.ndarray:
        mask = np.ones_like(input_ids)
        inputs = input_ids, mask, positions, target_rows, target_ids
        return run(*map(tf.constant, inputs)).numpy()

    return score_tokens
