"""Middleware: counts requests, and refuses those that are misdirected or too much."""

import math
import re
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

import limits
from starlette import datastructures, exceptions, responses

from albert_tf.web import metrics, request_times

# As ASGI defines them.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API_PREFIX = "/v1/"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
ALL_HOSTS = "*"
# By what a browser sends, and no more: no user, no path.
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\\\s]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://" + _HOST.pattern)
_HEALTH_PATHS = ("/healthz", "/readyz")
# All unknown paths share one label; a label for each would exhaust the memory.
OTHER = "other"


class RequestMetrics:
    """Counts each request by path and status, and measures its time."""

    def __init__(self, app: App, counted: metrics.Metrics, paths: Collection[str]):
        self._app = app
        self._counted = counted
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500  # unless an answer is started

        async def send_and_record(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        finally:
            path = scope["path"] if scope["path"] in self._paths else OTHER
            self._counted.count_request(path, status, time.perf_counter() - started)


class HostCheck:
    """Refuses requests that are for another host, or come from a page of one.

    A page elsewhere can let its own name point to this machine, and then a browser here
    sends requests for that name (DNS rebinding). Health is told to everyone.
    """

    def __init__(self, app: App, allowed_hosts: Collection[str]):
        """Takes names and addresses, without port; `ALL_HOSTS` allows every one."""
        self._app = app
        self._allowed = {host.lower() for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with 403."""
        checked = scope["type"] == "http" and scope["path"] not in _HEALTH_PATHS
        if checked and ALL_HOSTS not in self._allowed:
            headers = datastructures.Headers(scope=scope)
            hosts = headers.getlist("host") or [""]
            found = [("Host", _name(_HOST, host)) for host in hosts]
            found += [
                ("Origin", _name(_ORIGIN, origin))
                for origin in headers.getlist("origin")
            ]
            for header, name in found:
                if name not in self._allowed:
                    await self._refusal(header, name)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _refusal(self, header: str, name: str) -> responses.Response:
        message = (
            f"the header {header} must name this server, one of "
            f"{', '.join(sorted(self._allowed))}; received {name!r:.100}. The server's "
            "--allowed_hosts adds names"
        )
        return responses.JSONResponse({"error": message}, 403)


def _name(form: re.Pattern[str], value: str) -> str:
    """The host of a header, in lower case and without port; empty if it has none."""
    match = form.fullmatch(value)
    return match["name"].strip("[]").lower() if match else ""


class SizeLimit:
    """Refuses a body that is too large with 413, before it is read or parsed.

    The framework has such a limit too, but answers in another format.
    """

    def __init__(self, app: App, max_body_bytes: int):
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = datastructures.Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._max_body_bytes:
            message = too_large(self._max_body_bytes)
            refusal = responses.JSONResponse({"error": message}, 413)
            await refusal(scope, receive, send)
            return
        size = 0

        async def receive_and_count() -> MutableMapping[str, Any]:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body_bytes:
                raise exceptions.HTTPException(413)  # web.errors answers it
            return message

        await self._app(scope, receive_and_count, send)


def too_large(max_body_bytes: int) -> str:
    """The message for a body that is too large."""
    return (
        f"a body may have at most {max_body_bytes} bytes; received more. Send the "
        "texts in several requests"
    )


class RateLimit:
    """Refuses API requests of an address that sends too many, with 429."""

    def __init__(self, app: App, requests_per_second: int):
        self._app = app
        self._limit = limits.RateLimitItemPerSecond(requests_per_second)
        self._limiter = limits.strategies.MovingWindowRateLimiter(
            request_times.MonotonicStorage()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with 429."""
        if scope["type"] == "http" and scope["path"].startswith(API_PREFIX):
            # A Unix socket has no address, so that all clients share one limit.
            address = (scope.get("client") or ("",))[0]
            if not self._limiter.hit(self._limit, address):
                await self._refusal(address)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, address: str) -> responses.Response:
        reset = self._limiter.get_window_stats(self._limit, address).reset_time
        wait = max(1, math.ceil(reset - time.monotonic()))
        message = (
            f"at most {self._limit.amount} requests a second may come from one "
            f"address; received more from {address}. Try again after {wait} s, or send "
            "several texts in one request"
        )
        return responses.JSONResponse(
            {"error": message}, 429, headers={"Retry-After": str(wait)}
        )
