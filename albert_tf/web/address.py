"""The address of the server: needs no TensorFlow, so it is taken at once."""

import errno
import socket

# Connections that wait to be accepted.
_BACKLOG = 1000


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: connections wait from now on, and none is refused.

    Raises:
      ValueError: the address is not of this machine, or in use.
    """
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"port {port} of {host} is in use; pass another --port"
            ) from error
        raise ValueError(
            "--host and --port must be an address of this machine that is free; "
            f"received {host} and {port}: {error.strerror or error}"
        ) from error


def url_of(listening: socket.socket) -> str:
    """The URL of a socket for browsers on this machine."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
