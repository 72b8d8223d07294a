"""The matrix products of the exported program are those that `describe` counts."""

import math
import re

import pytest

from albert_tf.core import config_io, recipes
from albert_tf.model import costs
from albert_tf.optim import orthogonal
from albert_tf.planning import step_export

# The recipes of the paper differ in size alone, which is reduced so that they are built
# in a second.
NAMES = ("albert_base", "albert_xxlarge", "bert_base")
OWN_SIZE = ("demo", "small")
SMALLER = (
    "model.num_layers=2",
    "model.vocab_size=2000",
    "model.embedding_size=64",
    "model.hidden_size=128",
    "model.num_heads=4",
    "model.intermediate_size=512",
    "data.max_seq_length=64",
    "train.compute_dtype=bfloat16",
)
# `dot` contracts the last axis of its left side.
PRODUCT = re.compile(
    r"stablehlo\.dot(?:_general .*?contracting_dims = \[([\d, ]*)\] x|\s).*? : "
    r"\(tensor<([\dx]*)x\w+>, [^)]*\) -> tensor<([\dx]*)x\w+>"
)


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split("x")]


def _product_flops(program: str) -> int:
    """Two for each multiply-add of the program's matrix products."""
    total = 0
    for contracted, left, result in PRODUCT.findall(program):
        axes = [int(axis) for axis in contracted.split(",") if axis] or [-1]
        inner = math.prod(_sizes(left)[axis] for axis in axes)
        total += 2 * inner * math.prod(_sizes(result))
    return total


def test_a_product_is_counted_as_two_operations_each():
    line = (
        "%3 = stablehlo.dot_general %1, %2, batching_dims = [0] x [0], "
        "contracting_dims = [2] x [1] : (tensor<3x5x7xf32>, tensor<3x7x2xf32>) -> "
        "tensor<3x5x2xf32>"
    )
    assert _product_flops(line) == 2 * 3 * 5 * 7 * 2


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        *((name, ()) for name in (*NAMES, *OWN_SIZE)),
        ("albert_base", ("train.remat=attention",)),
        ("bert_base", ("train.remat=block",)),
        ("albert_base", ("data.pack_sequences=2",)),
    ],
)
def test_products_are_those_of_describe_within_2_percent(name, overrides):
    path = f"{recipes.FOLDER}/{name}.py"
    size = () if name in OWN_SIZE else SMALLER
    config = config_io.load(path, [*size, "train.batch_size=4", *overrides])
    trainer = step_export.make_trainer(config, 4)
    _, program = step_export.lower(trainer)
    assert program.count("stablehlo.dot") == len(PRODUCT.findall(program))
    # `describe` counts those of the model; Muon has some of its own.
    counted = costs.recipe_costs(config).step_flops.total
    for variable in trainer.model.trainable_variables:
        if trainer.optimizer.update_rule(variable).is_orthogonal:
            counted += orthogonal.count_flops(*variable.shape)
    assert _product_flops(program) == pytest.approx(counted, rel=0.02)
