"""The cases that bench_model and bench_serve measure, and the implementations.

A case is one task at one size. FLOPs are those of the matrix products that the task
needs, the same for all implementations, whatever else they compute: 3 times the forward
pass for a training step.
"""

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.model import costs

TRAINING, INFERENCE, SERVING = "training", "inference", "serving"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
DTYPES = (FLOAT32, BFLOAT16)
ALBERT_TF = "albert_tf"

# With these, glibc keeps memory that a step frees mapped for the next step. PyTorch,
# which allocates each tensor separately, is far faster with them.
TUNED_MALLOC = {
    "MALLOC_TOP_PAD_": str(1 << 28),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 34),
}

_NUM_PREDICTIONS = 20
_BASE = config_lib.ModelConfig()
_SMALL = dataclasses.replace(
    _BASE, hidden_size=256, num_layers=6, num_heads=4, intermediate_size=1024
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task (`TRAINING`, `INFERENCE` or `SERVING`) at one size, without dropout.

    Training is a whole step: forward, backward, clipping and LAMB. Inference is the
    encoder's forward pass, to the sequence output and the pooled output; serving is the
    same with the tokenizer, from strings. Each round times `num_calls` of them.
    """

    name: str
    task: str
    model: config_lib.ModelConfig
    batch_size: int
    length: int
    num_predictions: int = _NUM_PREDICTIONS
    num_calls: int = 1

    @property
    def num_tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch_size * self.length

    @property
    def flops(self) -> int:
        """Floating-point operations of the matrix products of one call."""
        shape = costs.BatchShape(self.batch_size, self.length, self.num_predictions)
        if self.task == TRAINING:
            return costs.step_flops(self.model, shape, "none").total
        forward = costs.forward_flops(self.model, shape, everywhere=True)
        return forward.total - forward.masked_lm - forward.sentence_pair


CASES = (
    Case("training-base-16x128", TRAINING, _BASE, 16, 128),
    Case("training-base-4x512", TRAINING, _BASE, 4, 512),
    Case("training-small-32x128", TRAINING, _SMALL, 32, 128),
    Case("inference-base-16x128", INFERENCE, _BASE, 16, 128),
    Case("inference-base-4x512", INFERENCE, _BASE, 4, 512),
    Case("inference-small-32x128", INFERENCE, _SMALL, 32, 128),
    Case("inference-base-32x128", INFERENCE, _BASE, 32, 128),
    # One call is so short that the first calls of a round find cold caches.
    Case("inference-base-1x128", INFERENCE, _BASE, 1, 128, num_calls=10),
)

# Too small to compare speed; for tests.
TINY = Case(
    "training-tiny-3x16",
    TRAINING,
    config_lib.ModelConfig(
        vocab_size=50,
        embedding_size=6,
        hidden_size=8,
        num_layers=2,
        num_heads=2,
        intermediate_size=20,
        max_positions=16,
    ),
    batch_size=3,
    length=16,
    num_predictions=4,
    num_calls=2,
)

_DEPTHS = (6, 12, 24)
# For peak memory by depth.
MEMORY_CASES = tuple(
    Case(
        f"memory-{num_layers}-{batch_size}x{length}",
        TRAINING,
        dataclasses.replace(
            _BASE, num_layers=num_layers, max_positions=max(length, _BASE.max_positions)
        ),
        batch_size,
        length,
    )
    for batch_size, length in ((16, 128), (4, 512), (1, 2048))
    for num_layers in _DEPTHS
)
QUERIES_AT_ONCE = 128
# And by these settings of `train`.
MEMORY_FORMS: dict[str, dict[str, Any]] = {
    **{remat: {"remat": remat} for remat in config_lib.REMATS},
    "parts": {"queries_at_once": QUERIES_AT_ONCE},
    "block, parts": {"remat": "block", "queries_at_once": QUERIES_AT_ONCE},
}


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One way of computing the cases of some tasks, in one precision.

    Attributes:
      family: the library that the model belongs to.
      form: a variant within the family; empty where there is only one.
      dtype: of the matrix products.
      module: has `build_step`, as `step_server` describes it.
      environment: the NAME of requirements-bench-NAME.txt, which it runs with; empty
        for the current environment.
      options: read by `module`.
      tasks: those that it can compute.
      variables: environment variables of its process, in addition to the current ones.
    """

    family: str
    form: str
    dtype: str
    module: str
    environment: str
    options: dict[str, Any]
    tasks: tuple[str, ...] = (TRAINING, INFERENCE)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Unique among all implementations."""
        return "-".join(filter(None, (self.family, self.form, self.dtype)))

    @property
    def is_baseline(self) -> bool:
        """Returns whether it is another library's."""
        return self.family != ALBERT_TF


def albert_tf(dtype: str, **train: Any) -> Implementation:
    """This project's model, with these settings of `train`."""
    module = "albert_tf.benchmarks.albert_tf_training"
    return Implementation(ALBERT_TF, "", dtype, module, "", {"train": train})


def _transformers(
    form: str, dtype: str, *tasks: str, weights: str = FLOAT32
) -> Implementation:
    options = {
        "compiled": form != "eager",
        "gathered": form in ("gathered", "pure"),
        "weights": weights,
    }
    module = "albert_tf.benchmarks.transformers_training"
    return Implementation(
        "transformers", form, dtype, module, "torch", options, tasks, TUNED_MALLOC
    )


def _keras_hub(form: str, dtype: str) -> Implementation:
    module = "albert_tf.benchmarks.keras_hub_training"
    options = {"jit_compile": form == "jit"}
    return Implementation("keras_hub", form, dtype, module, "keras", options)


IMPLEMENTATIONS = (
    albert_tf(FLOAT32),
    _transformers("eager", FLOAT32, TRAINING, INFERENCE),
    _transformers("compiled", FLOAT32, TRAINING, INFERENCE),
    _transformers("gathered", FLOAT32, TRAINING),
    _keras_hub("jit", FLOAT32),
    _keras_hub("graph", FLOAT32),
    albert_tf(BFLOAT16),
    _transformers("compiled", BFLOAT16, TRAINING, INFERENCE),
    _transformers("gathered", BFLOAT16, TRAINING),
    _transformers("pure", BFLOAT16, TRAINING, INFERENCE, weights=BFLOAT16),
    _keras_hub("jit", BFLOAT16),
    _keras_hub("graph", BFLOAT16),
)


def make_request(case: Case, implementation: Implementation) -> dict[str, Any]:
    """The request that `step_server` takes."""
    return {
        **dataclasses.asdict(case),
        "dtype": implementation.dtype,
        "options": implementation.options,
    }


def choose(flag: str, patterns: Sequence[str], known: Sequence, hidden: Sequence = ()):
    """The elements of `known` that the globs match by name; without globs, all.

    Args:
      flag: the flag that gave the globs, for errors.
      patterns: globs.
      known: objects with a `name`.
      hidden: further ones, which only their full name selects.

    Raises:
      ValueError: a glob matches none.
    """
    names = [one.name for one in known]
    hidden_names = [one.name for one in hidden]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern) and pattern not in hidden_names:
            raise ValueError(
                f"--{flag} must match one of {', '.join(names)}; received {pattern!r}"
            )
    return [
        one
        for one in known
        if not patterns or any(fnmatch.fnmatch(one.name, glob) for glob in patterns)
    ] + [one for one in hidden if one.name in patterns]
