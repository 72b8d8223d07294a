"""The process of the server, and signals that stop it."""

import contextlib
import dataclasses
import signal
import socket
from collections.abc import Iterator, Sequence
from types import FrameType

import fastapi
import uvicorn

from albert_tf.inference import saved_model_dir
from albert_tf.web import address, middleware, model, protocol, sizes
from albert_tf.web import app as app_lib
from albert_tf.web import settings as settings_lib

# Time to answer the current requests when the server is stopped.
_GRACE_SECONDS = 30


class Server(uvicorn.Server):
    """uvicorn's server, which accepts no connection once it is told to stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops the server; uvicorn itself accepts for a moment longer."""
        super().handle_exit(sig, frame)
        # uvicorn sets them when it starts to listen, after it has taken the signals.
        for one in getattr(self, "servers", ()):
            one.get_loop().call_soon_threadsafe(one.close)


def make(
    app: fastapi.FastAPI,
    trusted_proxies: Sequence[str] = (),
    limits: protocol.ConnectionLimits = protocol.DEFAULT,
) -> Server:
    """Returns a server of an app, which `run(sockets=[...])` starts.

    Raises the process's limit of open files if its connections need more.

    Args:
      app: from `app.create`.
      trusted_proxies: addresses of proxies whose X-Forwarded-For names the client.
      limits: of connections; those of proxies are not counted by address.
    """
    limits = protocol.within_files(
        dataclasses.replace(limits, trusted_proxies=tuple(trusted_proxies))
    )
    return Server(
        uvicorn.Config(
            app,
            http=protocol.make(limits),
            ws="none",
            # uvicorn's configuration would turn off absl's logging.
            log_config=None,
            # It warns of requests that are no HTTP, which any client can send.
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
        )
    )


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the server, and do not kill the process.

    uvicorn handles these signals while it runs, and raises them again when all requests
    are answered; by then they have been handled.
    """

    def stop(*_) -> None:
        server.should_exit = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def serve(
    listening: socket.socket,
    saved_model: str,
    settings: settings_lib.ServerSettings,
    trusted_proxies: Sequence[str],
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Loads a model and answers requests until a signal stops the server.

    Args:
      listening: the socket, which is closed at the end.
      saved_model: folder of the SavedModel.
      settings: limits and batching.
      trusted_proxies: addresses of proxies whose X-Forwarded-For names the client.
      allowed_hosts: names that clients may use for the server, besides those of the
        loopback and the socket's address.

    Raises:
      ValueError: there is no SavedModel, or none with a known signature.
    """
    failures = []

    def on_loaded(failure: BaseException | None) -> None:
        if failure is not None:
            failures.append(failure)
            server.should_exit = True
        elif not server.should_exit:
            print(f"ready at {address.url_of(listening)}", flush=True)

    app = app_lib.create(
        lambda: model.load(saved_model),
        settings,
        on_loaded,
        sizes.read_lengths(saved_model),
        {*middleware.LOOPBACK_HOSTS, listening.getsockname()[0], *allowed_hosts},
        saved_model_dir.describe(saved_model),
    )
    server = make(app, trusted_proxies)
    with listening, _stopped_by_signals(server):
        server.run(sockets=[listening])
    for failure in failures:
        raise failure
