"""A model that scores tokens: rows that are joined to one, and rows as they are."""

import numpy as np
import pytest

from albert_tf.core import config as config_lib
from albert_tf.model import compute as compute_lib
from albert_tf.model import pretraining_model
from albert_tf.probing import model_scorer

VOCAB_SIZE = 40
LONGEST = 12


def model_of(fuses: bool, **changes):
    """A small model whose weights, also the biases, are drawn from one seed."""
    sizes = {
        "embedding_size": 6,
        "hidden_size": 20,
        "num_layers": 3,
        "num_heads": 2,
        "intermediate_size": 28,
    }
    config = config_lib.ModelConfig(
        vocab_size=VOCAB_SIZE, max_positions=LONGEST, **{**sizes, **changes}
    )
    form = compute_lib.Compute("float32", fuses)
    model = pretraining_model.build_pretraining_model(config, 1, form)
    rng = np.random.default_rng(2)
    for variable in model.variables:
        variable.assign(
            rng.normal(float("gamma" in variable.name), 0.3, variable.shape)
        )
    return model


def batch(num_rows: int, length: int):
    """Rows of `length` tokens, two scored tokens in the first, one in each other."""
    rng = np.random.default_rng([num_rows, length])
    rows = np.array([0, *range(num_rows)], np.int32)
    return (
        rng.integers(0, VOCAB_SIZE, [num_rows, length], np.int32),
        rng.integers(1, length - 1, [num_rows], np.int32),
        rows,
        rng.integers(0, VOCAB_SIZE, rows.shape, np.int32),
    )


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_layers": 1}, {"sharing": "none", "num_heads": 4}],
    ids=str,
)
def test_joined_rows_have_the_scores_of_single_ones(changes):
    plain = model_scorer.make_score_tokens(model_of(False, **changes))
    joined = model_scorer.make_score_tokens(model_of(True, **changes), 30)
    # Full, with an incomplete sequence at the end, few rows, one row, and rows that
    # have more tokens than a batch.
    for num_rows, length in ((6, 5), (4, 7), (2, 4), (1, 3), (1, LONGEST), (9, 10)):
        arrays = batch(num_rows, length)
        found = joined(*arrays)
        np.testing.assert_allclose(found, plain(*arrays), atol=2e-5)
        # Neither neighbours nor padding matter.
        for row in range(num_rows):
            alone = (
                arrays[0][row : row + 1],
                arrays[1][row : row + 1],
                np.zeros(1, np.int32),
                arrays[3][row + 1 : row + 2],
            )
            assert plain(*alone)[0] == pytest.approx(found[row + 1], abs=2e-5)


def test_nothing_is_traced_again_for_another_length(monkeypatch):
    model = model_of(True)
    traced = []
    encode_at = model.encoder.encode_at

    def counted(*args, **kwargs):
        traced.append(args[0].shape.as_list())
        return encode_at(*args, **kwargs)

    monkeypatch.setattr(model.encoder, "encode_at", counted)
    score_tokens = model_scorer.make_score_tokens(model, 30)
    for num_rows, length in ((6, 5), (4, 7), (1, 3)):
        score_tokens(*batch(num_rows, length))
    assert traced == [[1, 30]]


def test_a_form_lets_oneDNN_fuse_what_xla_does_not():
    # "on" compiles a train step as a whole; sentences have too many lengths for that.
    for jit_compile in ("auto", "on"):
        fused = model_scorer.scoring_form("bfloat16", jit_compile)
        assert (fused.fuse_elementwise, fused.elementwise_dtype) == (True, "float32")
        assert not model_scorer.scoring_form("float32", jit_compile).fuse_elementwise
    plain = model_scorer.scoring_form("bfloat16", "off")
    assert (plain.fuse_elementwise, plain.elementwise_dtype) == (False, "bfloat16")
