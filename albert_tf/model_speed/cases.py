"""What bench_model and bench_serve measure: the cases, and who takes part.

A case is one task at one size; a contestant is one way of computing it. FLOPs are those
of the matrix products that the task needs, the same for all who take part in it,
whatever else they compute: 3 times the forward pass for a training step.
"""

import dataclasses
from typing import Any

from albert_tf import config as config_lib
from albert_tf import model_costs

TRAINING, INFERENCE, SERVING = "training", "inference", "serving"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
DTYPES = (FLOAT32, BFLOAT16)
OWN = "albert_tf"

# With these, glibc keeps what a step frees, and the next step finds it mapped. PyTorch,
# which allocates each tensor by itself, is far faster so.
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
    encoder's forward pass, to the sequence output and the pooled one; serving is the
    same with the tokenizer, from strings. A timed turn has `num_calls` of them.
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
        shape = model_costs.BatchShape(
            self.batch_size, self.length, self.num_predictions
        )
        if self.task == TRAINING:
            return model_costs.step_flops(self.model, shape, "none").total
        forward = model_costs.forward_flops(self.model, shape)
        return forward.total - forward.masked_lm - forward.sentence_pair


CASES = (
    Case("training-base-16x128", TRAINING, _BASE, 16, 128),
    Case("training-base-4x512", TRAINING, _BASE, 4, 512),
    Case("training-small-32x128", TRAINING, _SMALL, 32, 128),
    Case("inference-base-16x128", INFERENCE, _BASE, 16, 128),
    Case("inference-base-4x512", INFERENCE, _BASE, 4, 512),
    Case("inference-small-32x128", INFERENCE, _SMALL, 32, 128),
    Case("inference-base-32x128", INFERENCE, _BASE, 32, 128),
    # One call is so short that the first ones of a turn find cold caches.
    Case("inference-base-1x128", INFERENCE, _BASE, 1, 128, num_calls=10),
)

# So small that nothing is learnt of speed; for tests.
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
# For the memory by depth.
MEMORY_CASES = tuple(
    Case(
        f"memory-{num_layers}-{batch_size}x{length}",
        TRAINING,
        dataclasses.replace(_BASE, num_layers=num_layers),
        batch_size,
        length,
    )
    for batch_size, length in ((16, 128), (4, 512))
    for num_layers in _DEPTHS
)


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way of computing the cases of some tasks, in one precision.

    Attributes:
      family: whose model it is.
      form: which of the family's ways it is; empty where there is but one.
      dtype: of the matrix products.
      module: has `build_step`, as `step_server` wants it.
      environment: the NAME of requirements-bench-NAME.txt, which it runs with; empty
        for the environment at hand.
      options: what `module` reads of it.
      tasks: those that it takes part in.
      variables: of its process's environment, besides those at hand.
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
        """Unique among all contestants."""
        return "-".join(filter(None, (self.family, self.form, self.dtype)))

    @property
    def is_peer(self) -> bool:
        """Whether it is not ours."""
        return self.family != OWN


def own_contestant(dtype: str, remat: str = "none") -> Contestant:
    """This project's model; `remat` is that of `train.remat`."""
    return Contestant(
        OWN, "", dtype, "albert_tf.model_speed.own_model", "", {"remat": remat}
    )


def _transformers(
    form: str, dtype: str, *tasks: str, weights: str = FLOAT32
) -> Contestant:
    options = {
        "compiled": form != "eager",
        "gathered": form in ("gathered", "pure"),
        "weights": weights,
    }
    module = "albert_tf.model_speed.torch_peer"
    return Contestant(
        "transformers", form, dtype, module, "torch", options, tasks, TUNED_MALLOC
    )


def _keras_hub(form: str, dtype: str) -> Contestant:
    module = "albert_tf.model_speed.keras_peer"
    options = {"jit_compile": form == "jit"}
    return Contestant("keras_hub", form, dtype, module, "keras", options)


CONTESTANTS = (
    own_contestant(FLOAT32),
    _transformers("eager", FLOAT32, TRAINING, INFERENCE),
    _transformers("compiled", FLOAT32, TRAINING, INFERENCE),
    _transformers("gathered", FLOAT32, TRAINING),
    _keras_hub("jit", FLOAT32),
    _keras_hub("graph", FLOAT32),
    own_contestant(BFLOAT16),
    _transformers("compiled", BFLOAT16, TRAINING, INFERENCE),
    _transformers("gathered", BFLOAT16, TRAINING),
    _transformers("pure", BFLOAT16, TRAINING, INFERENCE, weights=BFLOAT16),
    _keras_hub("jit", BFLOAT16),
    _keras_hub("graph", BFLOAT16),
)


def make_request(case: Case, contestant: Contestant) -> dict[str, Any]:
    """What `step_server` is told."""
    return {
        **dataclasses.asdict(case),
        "dtype": contestant.dtype,
        "options": contestant.options,
    }
