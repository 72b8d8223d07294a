"""Kinds of strategies, for flags; no TensorFlow."""

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
