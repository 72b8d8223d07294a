"""Heartbeats of loops, as the watchdog sees them."""

import contextlib

from albert_tf.training import watchdog


def record(monkeypatch, method: str) -> dict[object, int]:
    """Returns the last heartbeat within each context of the watchdog.

    Args:
      monkeypatch: of the test.
      method: of `Watchdog`; its first argument is the key.

    Returns:
      A dictionary that is filled: from the argument to the heartbeat.
    """
    found, watched = {}, getattr(watchdog.Watchdog, method)

    @contextlib.contextmanager
    def watch_and_record(watch, argument, *more):
        with watched(watch, argument, *more):
            yield
            found[argument] = int(watch._heartbeat)

    monkeypatch.setattr(watchdog.Watchdog, method, watch_and_record)
    return found
