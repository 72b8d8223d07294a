"""A model in memory, which every format is read into and written from."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from albert_tf.core import config as config_lib

# The parts of a model. Most formats have only some of them.
ENCODER = "encoder"
POOLER = "pooler"
MASKED_LM = "masked_lm"
SENTENCE_ORDER = "sentence_order"
HEAD = "head"
_POOLER_PREFIX = "encoder/pooler/"


@dataclasses.dataclass(frozen=True)
class TaskHeadConfig:
    """Kind and settings of the head of a fine-tuned model.

    kind: a key of `task_model.HEADS`.
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
    """Moments of LAMB or AdamW, by the names of the weights.

    first, second: float32 arrays of the weights' shapes.
    """

    first: Mapping[str, np.ndarray]
    second: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class PortableModel:
    """A model with everything that a format may keep of it.

    config: sizes and activation.
    weights: by their names in native checkpoints, such as
      "encoder/blocks/0/attention/query/kernel". A sub-layer that blocks share is listed
      under the name of each of them.
    lower_case: whether the tokenizer lower-cases; None if the format does not say it.
    vocab: its SentencePiece model; None if the format had none.
    head: of a fine-tuned model; None for a pre-trained one.
    moments: of the optimizer, if the format had them.
    step: number of steps it was trained; 0 if it is unknown.
    """

    config: config_lib.ModelConfig
    weights: Mapping[str, np.ndarray]
    lower_case: bool | None = None
    vocab: bytes | None = None
    head: TaskHeadConfig | None = None
    moments: Moments | None = None
    step: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it has weights of, in the order of the network."""
        present = {part_of(name) for name in self.weights}
        order = (ENCODER, POOLER, MASKED_LM, SENTENCE_ORDER, HEAD)
        return tuple(part for part in order if part in present)

    def keeping(
        self, parts: Collection[str], head: TaskHeadConfig | None
    ) -> "PortableModel":
        """Returns the model with some of its parts, and perhaps without its head."""
        kept = {n: w for n, w in self.weights.items() if part_of(n) in parts}
        return dataclasses.replace(self, weights=kept, head=head)

    def vocab_for(self, what: str) -> bytes:
        """Returns the vocabulary for what cannot be without one.

        Raises:
          ValueError: the model has none.
        """
        if self.vocab is None:
            raise ValueError(
                f"{what} needs the vocabulary of its model, and none was found beside "
                "it: pass --vocab_model=FILE, the SentencePiece model that belongs to "
                "it. With another vocabulary the weights are of no use"
            )
        return self.vocab


def part_of(name: str) -> str:
    """The part that a weight belongs to."""
    if name.startswith(_POOLER_PREFIX):
        return POOLER
    return name.partition("/")[0]


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """Specified by the user, since a format may not say it.

    vocab_path: a SentencePiece model; empty means the one in the folder.
    kind: of the head, a key of `task_model.HEADS`; empty means that of the format.
    labels: names of the classes; empty means those of the format, or "0", "1", ...
    recipe: the other settings (text, data, optimizer, training) of the result.
    weights: which weights of a run, as in `checkpointer.weights_part`.
    """

    vocab_path: str = ""
    kind: str = ""
    labels: tuple[str, ...] = ()
    recipe: config_lib.Config = dataclasses.field(default_factory=config_lib.Config)
    weights: str = config_lib.WEIGHTS[0]

    def class_labels(self, num_classes: int, path: str, default: tuple[str, ...] = ()):
        """The names of the classes.

        Args:
          num_classes: number of classes of the head.
          path: of the model, for errors.
          default: the names that the format has; may be empty.

        Raises:
          ValueError: the user gave another number of names.
        """
        labels = self.labels or default or tuple(map(str, range(num_classes)))
        if len(labels) != num_classes:
            raise ValueError(
                f"--labels must name each class of the head of {path}, {num_classes} "
                f"in order; received {', '.join(labels)}"
            )
        return labels
