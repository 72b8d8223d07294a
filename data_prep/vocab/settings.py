"""Settings of a vocabulary."""

import dataclasses

from albert_tf.core import config


@dataclasses.dataclass(frozen=True)
class VocabSettings:
    """All that determines a vocabulary, except its text.

    Attributes:
      text: how files become clean lines.
      vocab_size: V, the number of pieces, special ones included.
      lower_case: whether to lower-case the text.
      character_coverage: fraction of the text's characters to cover; the rarest ones
        beyond it are unknown. 1 suits small alphabets, 0.9995 Chinese and Japanese.
      input_sentence_size: number of lines to train on; 0, or more than there are, takes
        all.
      heldout_lines: maximum number of lines to hold out, of one in a hundred; 0 holds
        out none.
      seed: seed of the sample and of the held-out lines.
    """

    text: config.TextConfig = config.TextConfig()
    vocab_size: int = config.ModelConfig.vocab_size
    lower_case: bool = config.DataConfig.lower_case
    character_coverage: float = 0.99995
    input_sentence_size: int = 10_000_000
    heldout_lines: int = 10_000
    seed: int = 0
