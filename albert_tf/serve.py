"""Serves a SavedModel made by albert_tf.export: a JSON API, and a page to try it.

python -m albert_tf.serve --saved_model=DIR
python -m albert_tf.serve --saved_model=DIR --port=8000 --host=127.0.0.1

What can be asked depends on the model: masks, sentence order and embeddings of a
pre-trained one, or the task of a fine-tuned one. / is the page, /docs tells the API.
It listens on this machine alone unless --host says otherwise, and ends on Ctrl-C or
SIGTERM when the requests at hand are answered. See docs/serving.md.
"""

import contextlib
import dataclasses
import signal
import socket
from collections.abc import Iterator, Sequence

import uvicorn
from absl import flags

from albert_tf import binary, saved_models
from albert_tf.web import app as app_lib
from albert_tf.web import model
from albert_tf.web import settings as settings_lib

# Requests at hand have so long to be answered when the server is asked to stop.
_GRACE_SECONDS = 30
# Connections beyond these are answered with 503 at once.
_MAX_CONNECTIONS = 1000


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string("saved_model", None, "Folder of the SavedModel.", flag_values)
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address to listen on; 0.0.0.0 is all.", flag_values
    )
    flags.DEFINE_integer(
        "port", 8000, "Port to listen on; 0 takes a free one.", 0, 65535, flag_values
    )
    flags.DEFINE_list(
        "trusted_proxies",
        [],
        "Addresses of proxies whose X-Forwarded-For says who asks.",
        flag_values,
    )
    default = settings_lib.Settings()
    for name, text in (
        ("max_body_bytes", "Bytes of a request; more is answered with 413."),
        ("requests_per_second", "Of one address; more are answered with 429."),
        ("max_batch_size", "Texts that go through the model at a time."),
        ("max_queue", "Texts that may wait; more are answered with 503."),
    ):
        flags.DEFINE_integer(
            name, getattr(default, name), text, 1, flag_values=flag_values
        )
    flags.DEFINE_float(
        "max_wait_ms",
        default.max_wait_ms,
        "How long a text waits for others, to go through the model with them.",
        0,
        flag_values=flag_values,
    )
    flags.mark_flags_as_required(["saved_model"], flag_values)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections: from now on they wait, and none is refused.

    Raises:
      ValueError: the address is not of this machine, or in use.
    """
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_MAX_CONNECTIONS,
        )
    except OSError as error:
        raise ValueError(
            "--host and --port must be an address of this machine that is free; "
            f"received {host} and {port}: {error.strerror or error}"
        ) from error


def url_of(listening: socket.socket) -> str:
    """Where a browser on this machine finds a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the server, and not the process before its time.

    uvicorn takes these signals while it runs, and sends them again when all requests
    are answered; by then they have done what they were sent for.
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


def serve(flag_values: flags.FlagValues) -> None:
    """Loads the model and answers until it is asked to stop.

    Raises:
      ValueError: a flag's value is wrong, or there is no model.
    """
    names = [field.name for field in dataclasses.fields(settings_lib.Settings)]
    settings = settings_lib.Settings(**{n: getattr(flag_values, n) for n in names})
    saved_models.check(flag_values.saved_model)
    listening = listen(flag_values.host, flag_values.port)
    failures = []

    def on_loaded(failure: BaseException | None) -> None:
        if failure is not None:
            failures.append(failure)
            server.should_exit = True
        elif not server.should_exit:
            print(f"ready at {url_of(listening)}", flush=True)

    app = app_lib.create(
        lambda: model.load(flag_values.saved_model), settings, on_loaded
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            # Its own would shut down absl's, through which all here is logged.
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            proxy_headers=bool(flag_values.trusted_proxies),
            forwarded_allow_ips=flag_values.trusted_proxies,
        )
    )
    with listening, _stopped_by_signals(server):
        server.run(sockets=[listening])
    for failure in failures:
        raise failure


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Serves what the flags say."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        serve(flag_values)


if __name__ == "__main__":
    binary.run(main, define_flags)
