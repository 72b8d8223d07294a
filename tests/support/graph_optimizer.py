"""Tests without TensorFlow's optimizer of graphs, Grappler.

It takes a sixth of the time of a training of a few steps. What users train is compiled
by XLA instead. Its results can differ in the last bit from those of other graphs, so
runs that are compared bit by bit must agree on it.
"""

import sys


def turn_off() -> None:
    """Turns Grappler off in this process, if it has imported TensorFlow."""
    _set_disabled(True)


def turn_on() -> None:
    """Turns it on again, as users' processes have it."""
    _set_disabled(False)


def _set_disabled(is_disabled: bool) -> None:
    if tensorflow := sys.modules.get("tensorflow"):
        options = {"disable_meta_optimizer": is_disabled}
        tensorflow.config.optimizer.set_experimental_options(options)
