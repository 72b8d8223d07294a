"""A linear model in the train step and loop of the product, quick to trace."""

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.core import config
from albert_tf.devices import strategies
from albert_tf.optim import averaging, optimizers
from albert_tf.training import loops, loss_scale, train_step

BATCH_SIZE = 8
KERNEL = np.array([[0.5], [-1.0], [2.0]])
SPARE = np.array([[3.0, -4.0]])
BIAS = np.array([0.25])


class Squares:
    """Half the mean squared error."""

    sum_names = ("squares", "num_tokens")
    lengths = ()

    def weights(self, features):
        """The number of examples."""
        return [tf.cast(tf.size(features["y"]), tf.float32)]

    def batch_sums(self, model, features, dropout_seed, example_weights=None):
        """Half the sum of squares."""
        del dropout_seed, example_weights
        x, kernel = (
            tf.cast(value, model.dtype_of_products)
            for value in (features["x"], model.kernel[:, 0])
        )
        errors = tf.cast(tf.linalg.matvec(x, kernel), tf.float32)
        errors += model.bias - features["y"]
        if "z" in features:
            errors += tf.reduce_sum(model.spare) * features["z"]
        return {"squares": tf.reduce_sum(errors**2) / 2, "num_tokens": tf.constant(1.0)}

    def mean(self, sums, weights):
        """The loss."""
        return sums["squares"] / weights[0]


class Linear(tf_keras.Model):
    """A linear model, and a spare variable that only the feature z uses."""

    def __init__(self, dtype_of_products="float32"):
        super().__init__(name="linear")
        self.dtype_of_products = dtype_of_products
        self.kernel = tf.Variable(KERNEL, name="kernel", dtype=tf.float32)
        self.spare = tf.Variable(SPARE, name="spare", dtype=tf.float32)
        self.bias = tf.Variable(BIAS, name="bias", dtype=tf.float32)


class Run:
    """Model, optimizer and loop, on some devices."""

    def __init__(
        self,
        settings: config.OptimizerConfig,
        num_steps: int,
        strategy=None,
        accumulation_steps: int = 1,
        max_skipped: int = 0,
        compiled: bool = False,
        ema_decay: float = 0.0,
        scale: loss_scale.LossScale | None = None,
        **settings_of_train,
    ):
        self.strategy = strategy or tf.distribute.get_strategy()
        with self.strategy.scope():
            self.model = Linear("float16" if scale else "float32")
            self.adam = optimizers.create(settings, num_steps, compiled)
            self.adam.build(self.model.trainable_variables)
            self.average = None
            if ema_decay:
                self.average = averaging.MovingAverage(self.model, ema_decay)
                self.adam.keep_average(self.average)
        run = config.TrainConfig(
            batch_size=BATCH_SIZE,
            accumulation_steps=accumulation_steps,
            jit_compile="off",
            **settings_of_train,
        )
        objective = Squares()
        step = train_step.make_train_step(
            self.model,
            self.adam,
            config.Config(optimizer=settings, train=run),
            objective,
        )
        self.state = loops.TrainState(objective)
        self._loop = loops.make_train_loop(
            self.strategy, step, self.state, loops.Signals(), max_skipped, scale
        )
        parts = {"model": self.model, "optimizer": self.adam, "loop": self.state}
        if self.average:
            parts["average"] = self.average.tree
        if scale:
            parts["loss_scale"] = scale
        self.checkpoint = tf.train.Checkpoint(**parts)

    def train(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Takes a step for each batch, and returns the variables by name.

        Args:
          features: x [steps, 8, 3], y [steps, 8], and maybe z [steps, 8].
        """
        outcome = self.run_loop(features)
        assert int(outcome["num_steps"]) == len(features["y"])
        return self.weights()

    def run_loop(self, features: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
        """The outcome of the loop over the same features."""
        flat = {
            name: values.astype(np.float32).reshape(-1, *values.shape[2:])
            for name, values in features.items()
        }
        size = BATCH_SIZE // self.strategy.num_replicas_in_sync
        dataset = tf.data.Dataset.from_tensor_slices(flat).batch(size, True)
        batches = strategies.distribute_dataset(self.strategy, lambda _: dataset)
        return self._loop(iter(batches), tf.constant(len(features["y"])))

    def weights(self) -> dict[str, np.ndarray]:
        """The model's variables by name."""
        return {
            variable.name.removesuffix(":0"): variable.numpy()
            for variable in self.model.trainable_variables
        }

    def averages(self) -> dict[str, np.ndarray]:
        """Their averages by the names of the variables."""
        with self.average.in_model():
            return self.weights()
