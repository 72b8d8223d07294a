"""HTTP connections: what slow and many clients may hold, and errors as JSON.

uvicorn limits none of this: it waits for the headers and the body of a request as long
as a connection is open, and answers errors of the protocol as plain text.
"""

import asyncio
import collections
import dataclasses
import http
import json
import resource
from collections.abc import Collection

import h11
from uvicorn.protocols.http import h11_impl

_HEADERS, _BODY = "headers", "body"
# What of the two a client is sending, by its state.
_PHASES = {h11.IDLE: _HEADERS, h11.SEND_BODY: _BODY}


@dataclasses.dataclass(frozen=True)
class ConnectionLimits:
    """Limits of connections.

    Attributes:
      header_seconds: until the headers of a request have arrived.
      body_seconds: from then until its body has.
      write_seconds: for which a client may leave an answer unread.
      last_seconds: for a body or an answer, once the server is stopping.
      refusal_seconds: until a connection too many is answered, if it sends nothing.
      max_connections: in all; of twice as many, more are closed without an answer.
      max_per_address: of one address, but for the trusted proxies; the same.
      trusted_proxies: addresses of proxies.
    """

    header_seconds: float = 10.0
    body_seconds: float = 20.0
    write_seconds: float = 20.0
    last_seconds: float = 2.0
    refusal_seconds: float = 1.0
    max_connections: int = 1000
    max_per_address: int = 500
    trusted_proxies: Collection[str] = ()


DEFAULT = ConnectionLimits()
# Open files of the process that are no connections.
_OTHER_FILES = 128


def within_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Raises the process's limit of open files as far as needed and allowed.

    Returns:
      The limits, with as many connections as there may be files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Those that are refused are open for a moment too.
    needed = 2 * limits.max_connections + _OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = max((soft - _OTHER_FILES) // 2, 1)
    return dataclasses.replace(
        limits, max_connections=min(limits.max_connections, most)
    )


def make(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Returns the protocol of one server, as `uvicorn.Config` takes it."""
    counts: collections.Counter[str] = collections.Counter()

    class Protocol(BoundedProtocol):
        _limits, _counts = limits, counts

    return Protocol


class BoundedProtocol(h11_impl.H11Protocol):
    """A connection that ends when its client is too slow, or has too many."""

    _limits: ConnectionLimits
    _counts: collections.Counter[str]  # connections by address
    _address = ""
    _phase: str | None = None
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _refusal: tuple[int, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Counts the connection, and waits for headers."""
        super().connection_made(transport)
        limits = self._limits
        self._address = self.client[0] if self.client else ""
        self._counts[self._address] += 1
        is_proxy = self._address in limits.trusted_proxies
        own = 0 if is_proxy else self._counts[self._address]
        if (
            len(self.connections) > 2 * limits.max_connections
            or own > 2 * limits.max_per_address
        ):
            transport.abort()
            return
        if len(self.connections) > limits.max_connections:
            self._refusal = (
                503,
                f"{limits.max_connections} connections are open, and no more are "
                "taken. Try again later",
            )
        elif own > limits.max_per_address:
            self._refusal = (
                429,
                f"at most {limits.max_per_address} connections may be open from one "
                f"address; {self._address} has more. Close some, or use them again",
            )
        if self._refusal:
            self._timer = self.loop.call_later(
                limits.refusal_seconds, self._end, *self._refusal
            )
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._counts[self._address] -= 1
        if not self._counts[self._address]:
            del self._counts[self._address]
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes bytes of the client."""
        if self.transport.is_closing():
            return  # it was refused, and what it still sends is not read
        if self._refusal:
            self._end(*self._refusal)
            return
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        """Waits for the client to read what was sent."""
        super().pause_writing()
        self._start_write_timer(self._limits.write_seconds)

    def resume_writing(self) -> None:
        """Resumes sending once the client has read."""
        self._stop_write_timer()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._watch()

    def shutdown(self) -> None:
        """Answers what has arrived, and soon no more."""
        super().shutdown()
        if self._phase is _BODY:
            self._start_timer(self._limits.last_seconds)
        if self._write_timer is not None:
            self._start_write_timer(self._limits.last_seconds)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP."""
        self._end(400, f"the request must be HTTP/1.1: {msg}")

    def _watch(self) -> None:
        """Limits the time of what the client has to send now."""
        phase = _PHASES.get(self.conn.their_state)
        # Between two requests uvicorn's own limit holds.
        if self.timeout_keep_alive_task is not None or self.transport.is_closing():
            phase = None
        if phase is self._phase:
            return
        self._phase = phase
        self._stop_timer()
        if phase is not None:
            limits = self._limits
            is_body = phase is _BODY
            self._start_timer(limits.body_seconds if is_body else limits.header_seconds)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._expire, seconds)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_write_timer(self, seconds: float) -> None:
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _expire(self, seconds: float) -> None:
        self._end(
            408, f"the {self._phase} of a request must arrive within {seconds:g} s"
        )

    def _end(self, status: int, message: str) -> None:
        """Answers, and closes the connection."""
        self._stop_timer()
        body = json.dumps({"error": message}).encode()
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
            "content-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        # Not through the state of the connection, which an answer may be changing.
        self.transport.write(head.encode() + body)
        self.transport.close()
