"""A model between two formats: weights by our names, and all that belongs to them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf import config as config_lib

# What a model may consist of. Formats have some of these, seldom all.
ENCODER = "encoder"
POOLER = "pooler"
MASKED_LM = "masked_lm"
SENTENCE_ORDER = "sentence_order"
HEAD = "head"
_POOLER_PREFIX = "encoder/pooler/"


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """The head of a fine-tuned model.

    kind: a key of `task_models.HEADS`.
    labels: names of the classes, in the order of their ids; empty without classes.
    dropout_rate: of the head.
    settings: further arguments of the head, such as `num_starts`.
    """

    kind: str
    labels: tuple[str, ...] = ()
    dropout_rate: float = 0.1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Moments:
    """What LAMB or AdamW carries along, by the names of the weights.

    first, second: float32 arrays of the weights' shapes.
    """

    first: Mapping[str, np.ndarray]
    second: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Portable:
    """A model in memory, as every format can be read into it.

    config: sizes and activation.
    weights: by the name that our checkpoints know them by, such as
      "encoder/blocks/0/attention/query/kernel". A sub-layer that blocks share stands
      under the name of each of them.
    lower_case: whether the tokenizer lower-cases.
    vocab: its SentencePiece model; None where the format had none.
    head: of a fine-tuned model; None for a pre-trained one.
    moments: of the optimizer, where the format had them.
    step: how many steps it was trained; 0 where that is not known.
    """

    config: config_lib.ModelConfig
    weights: Mapping[str, np.ndarray]
    lower_case: bool = True
    vocab: bytes | None = None
    head: TaskHead | None = None
    moments: Moments | None = None
    step: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts whose weights are there, in the order of the network."""
        present = {part_of(name) for name in self.weights}
        order = (ENCODER, POOLER, MASKED_LM, SENTENCE_ORDER, HEAD)
        return tuple(part for part in order if part in present)


def part_of(name: str) -> str:
    """The part that a weight belongs to."""
    if name.startswith(_POOLER_PREFIX):
        return POOLER
    return name.partition("/")[0]


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What a format may leave open, and the user may say.

    vocab_path: a SentencePiece model; empty means the one in the folder.
    kind: of the head, a key of `task_models.HEADS`; empty means what the format says.
    labels: names of the classes; empty means those of the format, or "0", "1", ...
    recipe: whose other settings (text, data, optimizer, training) the result takes.
    """

    vocab_path: str = ""
    kind: str = ""
    labels: tuple[str, ...] = ()
    recipe: config_lib.Config = dataclasses.field(default_factory=config_lib.Config)

    def class_labels(self, num_classes: int, default: tuple[str, ...] = ()):
        """As many names of classes as there are classes.

        Raises:
          ValueError: the user gave another number of them.
        """
        labels = self.labels or default or tuple(map(str, range(num_classes)))
        if len(labels) != num_classes:
            raise ValueError(
                f"--labels must name each class of the head, {num_classes} in order; "
                f"received {', '.join(labels)}"
            )
        return labels
