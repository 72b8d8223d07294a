"""The progress bar over input: bytes on disk, their rate, and the time left."""

import threading
from collections.abc import Iterable
from typing import Any

import tqdm

from albert_tf import files
from data_prep import readers


class InputProgress:
    """A bar over the bytes on disk of groups of files; a context manager.

    They are counted as they are read, before they are decompressed, so the bar is exact
    within a compressed file, too, and ahead of the work by what waits for workers.
    """

    def __init__(self, name: str, groups: Iterable[readers.Group]):
        self._lock = threading.Lock()
        self._bar = tqdm.tqdm(
            desc=name,
            total=sum(files.size(path) for group in groups for path in group.paths),
            unit="B",
            unit_scale=True,
            mininterval=1.0,
        )

    def __enter__(self) -> "InputProgress":
        return self

    def __exit__(self, *_) -> None:
        self._bar.close()

    def advance(self, num_bytes: int) -> None:
        """Says that so many bytes more were read; any thread may call it."""
        with self._lock:
            self._bar.update(num_bytes)

    def show(self, **figures: Any) -> None:
        """Sets the figures that stand behind the bar."""
        with self._lock:
            self._bar.set_postfix(figures, refresh=False)
