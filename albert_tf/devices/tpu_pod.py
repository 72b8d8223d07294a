"""Hosts of a multi-host TPU slice: the number of this one, and the servers of all.

TensorFlow's program for a slice runs on worker 0, and a TensorFlow server on each host
executes what it sends. All hosts run the same command, which starts the server as a
separate process: the TPU library belongs to the process that loads it first.
docs/clusters.md says which parts of this were tried.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

SERVER_PORT = 8470
_VARIABLES = ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")
_METADATA_HOST = "http://metadata.google.internal"
_METADATA_SECONDS = 10.0
# How long the other workers at most wait for worker 0 to save, once a slice is to end:
# a little less than Kubernetes waits for the pods of `cluster.jobset`.
_GRACE_SECONDS = 570.0
_LOOK_SECONDS = 2.0
# A host that is busy or badly reached may miss one look.
_MOST_MISSED = 3


def metadata(name: str, host: str = _METADATA_HOST) -> str:
    """Returns an attribute of this machine from Google Cloud's metadata server.

    Raises:
      ValueError: there is no such server, or no such attribute.
    """
    request = urllib.request.Request(
        f"{host}/computeMetadata/v1/instance/attributes/{name}",
        headers={"Metadata-Flavor": "Google"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_SECONDS) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, TimeoutError) as error:
        raise ValueError(
            f"--tpu=pod needs a TPU VM, whose metadata has {name}; {error}"
        ) from error


def place(host: str = _METADATA_HOST) -> tuple[int, list[str]]:
    """Returns the number of this worker, and the addresses of all in order.

    Google Kubernetes Engine sets variables, and other TPU VMs have metadata.

    Raises:
      ValueError: there are neither.
    """
    worker, names = (os.environ.get(name, "") for name in _VARIABLES)
    if worker.isdecimal() and names:
        return int(worker), names.split(",")
    number = int(metadata("agent-worker-number", host))
    endpoints = metadata("worker-network-endpoints", host).split(",")
    return number, [endpoint.split(":")[2] for endpoint in endpoints]


def start_server(code: str) -> subprocess.Popen:
    """Starts this host's server as a process that may load the TPU library."""
    environment = dict(os.environ)
    environment.pop("TPU_LOAD_LIBRARY", None)
    return subprocess.Popen([sys.executable, "-c", code], env=environment)


def end_with(parent: int) -> None:
    """Ends this process once its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


def wait_for_servers(
    addresses: Sequence[str], say: Callable[[str], None], seconds: float = 600.0
) -> None:
    """Waits until a server listens on every host.

    Raises:
      TimeoutError: one does not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    for address in addresses:
        while not listens(address, SERVER_PORT):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the TPU host {address} does not answer on port {SERVER_PORT} "
                    f"after {seconds:.0f} s; is the same command running there?"
                )
            say(f"waiting for the TPU host {address}")
            time.sleep(min(5.0, seconds / 4))


def listens(address: str, port: int) -> bool:
    """Returns whether a port accepts a connection within five seconds."""
    try:
        socket.create_connection((address, port), timeout=5.0).close()
    except OSError:
        return False
    return True


def serve_until_lost(
    server: subprocess.Popen, is_ending: Callable[[], bool], first_host: str
) -> None:
    """Waits until the server of this host ends.

    If this process is asked to end, so is that of the first host, which saves through
    the servers of all: this one ends after that host's, or after `_GRACE_SECONDS`.

    Args:
      server: the result of `start_server`.
      is_ending: returns whether this process was asked to end.
      first_host: the address of worker 0.
    """
    while server.poll() is None and not is_ending():
        time.sleep(0.5)
    deadline, num_missed = time.monotonic() + _GRACE_SECONDS, 0
    while (
        server.poll() is None
        and time.monotonic() < deadline
        and num_missed < _MOST_MISSED
    ):
        num_missed = 0 if listens(first_host, SERVER_PORT) else num_missed + 1
        time.sleep(_LOOK_SECONDS)
    server.kill()
    server.wait()
