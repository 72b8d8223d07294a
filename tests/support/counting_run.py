"""A run with a fake loop, whose steps only count, and a fake evaluation."""

import dataclasses

import tensorflow as tf

from albert_tf.core import config
from albert_tf.training import pretraining, trainer
from tests.support import small_run

_TINY = small_run.small_config()


class Run:
    """A run whose steps only count, in a directory of its own."""

    def __init__(self, folder, held_out, stop_at=None, stop_in_evaluation=None, **more):
        self.held_out = held_out
        self.stop_at, self.stop_in_evaluation = stop_at, stop_in_evaluation
        self.profile_steps = more.pop("profile_steps", None)
        self.patience = more.pop("patience", 0)
        self.find_alarm = more.pop("find_alarm", lambda rows: None)
        settings = {"steps_per_loop": 3, "save_every_steps": 5, "eval_every_steps": 5}
        train = config.TrainConfig(num_steps=20, keep_checkpoints=1, **settings, **more)
        self.trainer = pretraining.make_trainer(
            dataclasses.replace(_TINY, train=train), str(folder)
        )
        self.trainer.make_loop = lambda: self.loop
        self.trainer.restore()
        self.restored = self.trainer.restored_step
        self.loops = []

    @property
    def step(self):
        return self.trainer.step

    def loop(self, batches, num_steps):
        steps = int(num_steps)
        stopped = self.stop_at is not None and self.step + steps >= self.stop_at
        if stopped:
            steps = self.stop_at - self.step
        self.loops.append(self.step + steps)
        scalars = {"bad_loss": 0.0, "bad_norm": 0.0, "input_seconds": 0.0}
        values = {**scalars, "failed": False, "stopped": stopped, "num_steps": steps}
        return {name: tf.constant(value) for name, value in values.items()}

    def evaluate(self):
        if self.step == self.stop_in_evaluation:
            return None
        return dict(self.held_out[self.step])

    def execute(self, check_held=lambda: None):
        return self.trainer.train(
            lambda step: lambda context: tf.data.Dataset.from_tensors({"step": [step]}),
            trainer.Evaluation(
                self.evaluate, patience=self.patience, find_alarm=self.find_alarm
            ),
            profile_steps=self.profile_steps,
            check_held=check_held,
        )
