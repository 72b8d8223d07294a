"""Progress bar over the input: bytes on disk, rate, and remaining time."""

import threading
from collections.abc import Iterable
from typing import Any

from albert_tf.core import files, progress_bar
from data_prep.reading import blocks


class InputProgress:
    """Progress bar over the bytes on disk of groups of files; a context manager.

    Bytes are counted when they are read, before decompression: the bar is exact within
    a compressed file, and ahead of the work by the blocks that wait for workers.
    """

    def __init__(self, name: str, groups: Iterable[blocks.Group]):
        self._lock = threading.Lock()
        paths = [path for group in groups for path in group.paths]
        self._bar = progress_bar.make(
            desc=name,
            total=sum(files.of_each(files.size, paths)),
            unit="B",
            unit_scale=True,
        )

    def __enter__(self) -> "InputProgress":
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def advance(self, num_bytes: int) -> None:
        """Adds bytes that were read; thread-safe."""
        with self._lock:
            self._bar.update(num_bytes)

    def show(self, **figures: Any) -> None:
        """Sets the figures shown after the bar."""
        with self._lock:
            self._bar.set_postfix(figures, refresh=False)
