"""The trainer that the benchmarks measure."""

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.training import pretraining, trainer

_NO_LIMIT = 2**31 - 2


def build(config: config_lib.Config) -> trainer.Trainer:
    """Returns the trainer of a recipe on all devices of this machine.

    It skips every bad step, so that all calls of its loop take the same time.
    """
    changes = [
        f"train.max_skipped_steps={_NO_LIMIT}",
        "train.keep_checkpoints=1",
        "train.stages=[]",
    ]
    return pretraining.make_trainer(config_io.override(config, changes))
