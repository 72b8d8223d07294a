"""Parts of a run's model that were never trained, so that nothing asks them.

A conversion notes those that the other format lacks, in a file of the run directory.
The pair head of a pre-training follows from its recipe.
"""

import os
from collections.abc import Collection

from albert_tf.core import config as config_lib
from albert_tf.core import files, strict_json

FILE = "untrained.json"
MASKED_LM, SENTENCE_ORDER, POOLER = "masked_lm", "sentence_order", "pooler"
PARTS = (POOLER, MASKED_LM, SENTENCE_ORDER)


def write(folder: str, parts: Collection[str]) -> None:
    """Notes the untrained parts of a new run.

    Args:
      folder: the run directory.
      parts: some of POOLER, MASKED_LM and SENTENCE_ORDER; without any, there is no
        file.
    """
    if parts:
        files.write_json(os.path.join(folder, FILE), {"untrained": sorted(parts)})


def forget(folder: str) -> None:
    """Removes the note of a run that is about to be trained, with all its parts."""
    path = os.path.join(folder, FILE)
    if files.exists(path):
        files.remove(path)


def of_run(model_dir: str, config: config_lib.Config) -> frozenset[str]:
    """Returns the parts of a run's model that were never trained.

    Args:
      model_dir: the directory of a pre-training.
      config: its configuration. Without `data.pair_loss=sop` nothing was learnt about
        the order of sentences.

    Raises:
      ValueError: the file is damaged.
    """
    found = set() if config.data.pair_loss == "sop" else {SENTENCE_ORDER}
    path = os.path.join(model_dir, FILE)
    if files.exists(path):
        parts = strict_json.load_object(path).get("untrained")
        if not isinstance(parts, list) or any(part not in PARTS for part in parts):
            raise ValueError(
                f"{path} must have a list untrained of some of {', '.join(PARTS)}; "
                "convert the model again"
            )
        found |= set(parts)
    return frozenset(found)
