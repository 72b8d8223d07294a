"""The hosts of a TPU slice: who is who, and the servers; on loopback, without a TPU."""

import contextlib
import functools
import http.server
import socket
import subprocess
import sys
import threading
import time

import pytest

from albert_tf.devices import strategies, tpu_pod
from tests.support import process_end

ATTRIBUTES = {
    "agent-worker-number": "1",
    "worker-network-endpoints": "unknown:unknown:10.0.0.5,unknown:unknown:10.0.0.6",
}


@pytest.fixture
def host():
    """A stand-in for the metadata server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            prefix, _, name = self.path.rpartition("/")
            known = prefix == "/computeMetadata/v1/instance/attributes"
            known = known and self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200 if known and name in ATTRIBUTES else 404)
            self.end_headers()
            self.wfile.write(ATTRIBUTES.get(name, "").encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"):
        monkeypatch.delenv(name, raising=False)


def test_a_host_learns_its_number_and_the_addresses(host):
    assert tpu_pod.place(host) == (1, ["10.0.0.5", "10.0.0.6"])


def test_on_kubernetes_the_variables_of_its_engine_say_so(host, monkeypatch):
    monkeypatch.setenv("TPU_WORKER_ID", "2")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "run-0.run,run-1.run,run-2.run")
    assert tpu_pod.place(host) == (2, ["run-0.run", "run-1.run", "run-2.run"])
    # One alone says nothing of a slice.
    monkeypatch.delenv("TPU_WORKER_HOSTNAMES")
    assert tpu_pod.place(host) == (1, ["10.0.0.5", "10.0.0.6"])


def test_a_machine_that_is_no_tpu_vm_is_told(host):
    with pytest.raises(ValueError, match="--tpu=pod needs a TPU VM, .* has absent"):
        tpu_pod.metadata("absent", host)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(ValueError, match="--tpu=pod needs a TPU VM"):
            tpu_pod.metadata("agent-worker-number", nowhere)


def test_the_first_host_waits_until_all_listen(monkeypatch):
    said = []
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        monkeypatch.setattr(tpu_pod, "SERVER_PORT", late.getsockname()[1])
        with pytest.raises(
            TimeoutError, match="host 127.0.0.1 does not answer on port"
        ):
            tpu_pod.wait_for_servers(["127.0.0.1"], said.append, seconds=0.2)
        assert said[0] == "waiting for the TPU host 127.0.0.1"
        threading.Timer(0.3, late.listen).start()
        tpu_pod.wait_for_servers(["127.0.0.1"] * 2, said.append, seconds=20.0)


def test_a_server_may_load_the_library_that_its_parent_may_not(monkeypatch):
    monkeypatch.setenv("TPU_LOAD_LIBRARY", "0")
    server = tpu_pod.start_server(
        "import os, sys; sys.exit('TPU_LOAD_LIBRARY' in os.environ)"
    )
    assert server.wait(timeout=30) == 0


@contextlib.contextmanager
def _sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_another_host_serves_until_its_server_is_lost_or_all_end(monkeypatch):
    first = "127.0.0.1"
    monkeypatch.setattr(tpu_pod, "_LOOK_SECONDS", 0.1)
    with _sleeper() as server:
        threading.Timer(0.3, server.kill).start()
        tpu_pod.serve_until_lost(server, lambda: False, first)
    with socket.create_server((first, 0)) as listening:
        monkeypatch.setattr(tpu_pod, "SERVER_PORT", listening.getsockname()[1])
        with _sleeper() as server:
            # The first host saves, and then its server is gone.
            threading.Timer(1.0, listening.close).start()
            began = time.monotonic()
            tpu_pod.serve_until_lost(server, lambda: True, first)
            assert 1.0 <= time.monotonic() - began < 60.0  # less than the sleep
            assert server.poll() is not None
    monkeypatch.setattr(tpu_pod, "_GRACE_SECONDS", 1.0)
    with socket.create_server((first, 0)) as listening, _sleeper() as server:
        monkeypatch.setattr(tpu_pod, "SERVER_PORT", listening.getsockname()[1])
        began = time.monotonic()
        tpu_pod.serve_until_lost(server, lambda: True, first)
        assert time.monotonic() - began >= 1.0 and server.poll() is not None


def test_the_tpu_is_left_to_the_server(monkeypatch):
    monkeypatch.delenv("TPU_LOAD_LIBRARY", raising=False)
    with pytest.raises(ValueError, match="--tpu=pod needs TPU_LOAD_LIBRARY=0 in the"):
        strategies._serve_pod()


def test_a_host_that_is_late_is_a_lost_worker(monkeypatch):
    monkeypatch.setenv("TPU_LOAD_LIBRARY", "0")
    monkeypatch.setattr(tpu_pod, "place", lambda: (0, ["127.0.0.1"]))
    monkeypatch.setattr(tpu_pod, "start_server", lambda code: None)
    wait = functools.partial(tpu_pod.wait_for_servers, seconds=0.1)
    monkeypatch.setattr(tpu_pod, "wait_for_servers", wait)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setattr(tpu_pod, "SERVER_PORT", silent.getsockname()[1])
        with pytest.raises(strategies.WorkerLostError, match="does not answer"):
            strategies._serve_pod()


_PARENT = """
import subprocess, sys
command = [sys.executable, "-c", sys.argv[1]]
child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_with_its_parent():
    child = "import os; parent = os.getppid(); "
    child += "from albert_tf.devices import tpu_pod; tpu_pod.end_with(parent)"
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, child],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        pid = int(parent.stdout.readline())
        time.sleep(1.5)
        assert process_end.is_running(pid)
    finally:
        parent.kill()
        parent.communicate()
    process_end.wait_for_end(pid, 20)


_CLIENT = """
import os, sys
import tensorflow as tf
from albert_tf.devices import tpu_pod
tpu_pod.SERVER_PORT = int(sys.argv[1])
server = tpu_pod.start_server(
    "from albert_tf.devices import strategies, tpu_pod; "
    f"tpu_pod.SERVER_PORT = {sys.argv[1]}; strategies.serve_tpu({os.getpid()})"
)
try:
    tpu_pod.wait_for_servers(["127.0.0.1"], print, 60.0)
    tf.config.experimental_connect_to_host(f"127.0.0.1:{sys.argv[1]}", "tpu_worker")
    with tf.device("/job:tpu_worker/replica:0/task:0/device:CPU:0"):
        print("computed there:", float(tf.constant(1.5) * 2.0))
finally:
    server.kill()
    server.wait()
"""


@pytest.mark.slow
def test_a_program_computes_through_a_hosts_server():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = subprocess.run(
        [sys.executable, "-c", _CLIENT, str(port)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "computed there: 3.0" in result.stdout, result.stderr[-2000:]
