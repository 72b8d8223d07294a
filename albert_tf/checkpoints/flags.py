"""Flags that say how the model of a run is read; no TensorFlow."""

from absl import flags

from albert_tf.core import config as config_lib


def define_weights(flag_values: flags.FlagValues) -> None:
    """Defines --weights."""
    flags.DEFINE_enum(
        "weights",
        config_lib.WEIGHTS[0],
        config_lib.WEIGHTS,
        "Weights to read of a checkpoint. averaged: their average over the steps, if "
        "the run kept one (train.ema_decay), else the trained ones.",
        flag_values=flag_values,
    )


def define_license(flag_values: flags.FlagValues) -> None:
    """Defines --license."""
    flags.DEFINE_string(
        "license",
        "unknown",
        "License of the weights for the model card README.md, as model hubs name it, "
        "such as apache-2.0.",
        flag_values=flag_values,
    )


def define_compute_dtype(flag_values: flags.FlagValues) -> None:
    """Defines --compute_dtype, None by default."""
    flags.DEFINE_enum(
        "compute_dtype",
        None,
        config_lib.COMPUTE_DTYPES,
        "Dtype in which the blocks compute; by default that of the run.",
        flag_values=flag_values,
    )
