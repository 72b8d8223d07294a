"""Checkpoints of a run: weights, slots and step, saved and restored."""

import contextlib

import tensorflow as tf

from albert_tf import models, optimizer


class Checkpointer:
    """Saves and restores a model and its optimizer in `model_dir`.

    The optimizer's `iterations` is the step, and says where in the data the run was.
    """

    def __init__(
        self,
        model_dir: str,
        model: models.PretrainingModel,
        adam: optimizer.AdamW,
        keep: int,
    ):
        self._step = adam.iterations
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=adam)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint,
            model_dir,
            max_to_keep=keep,
            checkpoint_name="model.ckpt",
            step_counter=self._step,
        )

    def restore_latest(self) -> int:
        """Restores the newest checkpoint, if there is one, and returns its step.

        Raises:
          ValueError: the checkpoint is of another model or optimizer, or is damaged.
        """
        path = self._manager.latest_checkpoint
        if path is None:
            return 0
        with _named_errors(path):
            self._checkpoint.restore(path).assert_consumed()
        return int(self._step)

    def save(self) -> str:
        """Saves under the present step and returns the checkpoint's path."""
        return self._manager.save(checkpoint_number=self._step)


def restore_model(model_dir: str, model: models.PretrainingModel) -> str:
    """Restores the weights alone of the newest checkpoint, and returns its path.

    Raises:
      ValueError: there is no checkpoint, or it does not fit the model.
    """
    path = tf.train.latest_checkpoint(model_dir)
    if path is None:
        raise ValueError(
            f"--model_dir must hold a checkpoint; {model_dir} has none. Train one "
            "with albert_tf.pretrain"
        )
    checkpoint = tf.train.Checkpoint(model=model)
    with _named_errors(path):
        status = checkpoint.restore(path)
        status.assert_existing_objects_matched()
        status.expect_partial()  # the optimizer's slots are not wanted here
    return path


@contextlib.contextmanager
def _named_errors(path: str):
    """Turns what TensorFlow raises for a checkpoint that does not fit into one line."""
    try:
        yield
    except (AssertionError, ValueError, IndexError, tf.errors.OpError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"the checkpoint {path} cannot be restored into this model: {reason}. It "
            "is damaged or of another configuration; give another --model_dir, or the "
            "configuration in its config.json"
        ) from error
