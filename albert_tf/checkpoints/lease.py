"""A lease of a run directory, for storage without locks.

A claim is a file `run.lease-NUMBER-TOKEN` in the directory: who, when it was renewed,
and whether it waits or holds. A process that finds no claim writes one that waits, and
lists the directory again. Of several that wait the first by name stays, and the others
remove theirs. A claim holds once a listing shows no other. So two never hold at once if
a listing shows every file that was written before it, as on gs:// and on a local disk:
of two processes that write claims, the one that lists last sees both.

A claim whose process has ended is ignored, and removed by the next holder:

- A process of this machine is looked up.
- Of another machine, a claim ends by its age if it is not renewed. It is also watched
  for some time, so that clocks that differ end no claim of a process that runs.

Such a process may run again, such as on a machine that was suspended. It then finds
that its claim was removed, or that one with a higher number holds.
"""

import contextlib
import dataclasses
import os
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.core import files, locks

STALE_SECONDS = 300.0
_POLL_SECONDS = 5.0
# A claim of old age is watched for so many periods of renewal.
_WATCHED_PERIODS = 3
_WAITS, _HOLDS = "waits", "holds"
_NAME = re.compile(r"run\.lease-(\d{6,})-[0-9a-f]{16}")


class Clock:
    """The clocks of this machine, in seconds."""

    def now(self) -> float:
        """Returns the time since 1970, which clocks of other machines also show."""
        return time.time()

    def elapsed(self) -> float:
        """Returns the time since some moment; never set back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


_CLOCK = Clock()


@dataclasses.dataclass(frozen=True)
class _Claim:
    """A claim: the name of its file, and the content."""

    name: str
    data: bytes

    @property
    def key(self) -> tuple[int, str]:
        """Its place in the order of claims."""
        return _number_of(self.name), self.name

    @property
    def holder(self) -> locks.Holder | None:
        return locks.Holder.from_bytes(self.data)

    def value(self, name: str) -> Any:
        """Returns an entry; None if the content is not whole."""
        return locks.values_of(self.data).get(name)


class _Sight(NamedTuple):
    """The content of a claim when it was first seen, by `Clock.elapsed`."""

    data: bytes
    at: float


def _number_of(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else 0


class Lease:
    """The lease of one process on a directory."""

    def __init__(self, folder: str, renew_seconds: float, clock: Clock = _CLOCK):
        """Takes the directory, which exists, and how often `check` will be called."""
        self._folder = folder.rstrip("/")
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._here = locks.Holder.here()
        self._name = ""
        self._seen: dict[str, _Sight] = {}

    def acquire(self, say: Callable[[str], None]) -> None:
        """Takes the lease; watches whether a claim of another machine is renewed.

        Args:
          say: reports that it waits.

        Raises:
          locks.HeldError: another process has the lease.
          tf.errors.OpError: the storage cannot be reached.
        """
        self._wait_until_free(say)
        left = self._names()
        number = max(map(_number_of, left), default=0) + 1
        self._name = f"run.lease-{number:06d}-{secrets.token_hex(8)}"
        self._write(_WAITS)
        # What appears from now on is of processes that start at the same time.
        while others := self._live_claims():
            for other in others:
                if other.value("state") == _HOLDS or other.key < self._own.key:
                    self.release()
                    raise locks.HeldError(other.holder)
            self._clock.sleep(_POLL_SECONDS / 5)
        try:
            self._renew()
        except locks.LostError as error:
            raise locks.HeldError(error.holder) from error
        for name in left:
            self._remove(name)

    def check(self) -> bool:
        """Renews the lease.

        Returns:
          Whether that was possible; False if the storage cannot be reached.

        Raises:
          locks.LostError: another process has taken the lease.
        """
        try:
            self._renew()
        except (OSError, tf.errors.OpError):
            return False
        return True

    def release(self) -> None:
        """Lets another process take the lease, if the storage can be reached."""
        with contextlib.suppress(OSError, tf.errors.OpError):
            self._remove(self._name)

    # ---- Own claim ----

    @property
    def _own(self) -> _Claim:
        return _Claim(self._name, b"")

    def _renew(self) -> None:
        claims = self._claims()
        later = [
            claim
            for claim in claims
            if claim.key > self._own.key and claim.value("state") == _HOLDS
        ]
        if later or self._name not in [claim.name for claim in claims]:
            self._remove(self._name)
            raise locks.LostError(later[0].holder if later else None)
        self._write(_HOLDS)

    def _write(self, state: str) -> None:
        # Of one size: TensorFlow's client caches the size of a file for seconds.
        content = self._here.to_bytes(
            folder=self._folder, state=state, renewed=int(self._clock.now())
        )
        files.write_bytes(self._path(self._name), content)

    # ---- Claims of others ----

    def _wait_until_free(self, say: Callable[[str], None]) -> None:
        has_said = False
        while others := self._live_claims():
            for other in others:
                if self._is_renewed(other):
                    raise locks.HeldError(other.holder)
            if not has_said:
                say(
                    f"{self._folder} is in use ({others[0].holder or 'by a process'}). "
                    f"Waiting up to {STALE_SECONDS:.0f} s to see whether that runs"
                )
                has_said = True
            self._clock.sleep(_POLL_SECONDS)

    def _live_claims(self) -> list[_Claim]:
        claims = [claim for claim in self._claims() if claim.name != self._name]
        return [claim for claim in claims if not self._is_gone(claim)]

    def _is_gone(self, claim: _Claim) -> bool:
        """Returns whether the process of a claim has ended, as far as can be seen."""
        # A copy of a directory has a claim whose process may not know of the copy.
        is_alive = None
        if claim.holder is not None and claim.value("folder") == self._folder:
            is_alive = claim.holder.is_alive()
        if is_alive is not None:
            return not is_alive
        elapsed = self._clock.elapsed()
        sight = self._seen.setdefault(claim.name, _Sight(claim.data, elapsed))
        watched = elapsed - sight.at
        renewed = claim.value("renewed")
        has_time = type(renewed) is int  # true is one too, for isinstance
        is_old = has_time and self._clock.now() - renewed >= STALE_SECONDS
        enough = _WATCHED_PERIODS * self._renew_seconds if is_old else STALE_SECONDS
        return claim.data == sight.data and watched >= enough

    def _is_renewed(self, claim: _Claim) -> bool:
        sight = self._seen.get(claim.name)
        return sight is None or claim.data != sight.data

    def _claims(self) -> list[_Claim]:
        claims = []
        for name in self._names():
            # A claim may be removed between listing and reading.
            with contextlib.suppress(FileNotFoundError, tf.errors.NotFoundError):
                claims.append(_Claim(name, files.read_bytes(self._path(name))))
        return claims

    def _names(self) -> list[str]:
        return [name for name in files.names(self._folder) if _NAME.fullmatch(name)]

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError, tf.errors.NotFoundError):
            files.remove(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
