r"""A small stand-in for Cloud Storage on loopback, which can be told to misbehave.

    unshare --user --map-root-user --mount --net \
        python -m tests.support.gcs_server --objects=FOLDER --plan=PLAN --report=FILE \
        --certificate=FILE -- COMMAND...

runs COMMAND where Google's host names lead to this server. FOLDER/BUCKET/NAME are its
objects before and after, PLAN is a JSON object with the fields of `Faults`, and FILE
tells what was asked for and which faults were injected. The exit code is COMMAND's.

The namespaces make that possible without touching the machine: a network in which port
443 of 127.0.0.1 is free and nothing else can be reached, and a hosts file of its own.
"""

import argparse
import collections
import fcntl
import functools
import http.server
import json
import os
import pathlib
import random
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from tests.support import gcs_storage

SLOW_SECONDS = 0.1

# What can go wrong with any request:
FAULTS = (
    "429",  # refused: too many requests
    "503",  # refused: not available
    "reset",  # the connection is reset before anything was done
    "lost",  # done, and the connection reset before the answer
    "cut",  # done, and the connection closed within the answer
    "slow",  # done, and answered in two halves with a pause
)
# And with one that brings an object's bytes:
HALF = gcs_storage.HALF  # the first half is kept, then 503
# What only rules can ask for:
# Also every other HTTP status, such as "401": refused.
KILL = "kill"  # ends COMMAND before anything was done, as kill -9 does
STALL = "stall"  # no answer for STALL_SECONDS
STALE = gcs_storage.STALE  # a listing from before the last object came or went
STALL_SECONDS = 4.0


class Faults:
    """Decides what happens to each request, and counts it.

    Of every 1 / `rate` requests about one meets a fault; kinds take turns, so that all
    of them occur. A rule is {"match": regular expression on "METHOD host/path?query",
    "fault": kind, "every": n, "times": m}: of the matches the n-th, 2 n-th and so on
    meet it, m of them at most. A rule with "seconds" is an outage: from its first match
    on, every request meets the fault for so long. `outages` are those that are not
    over, as rules for the next command.
    """

    def __init__(
        self,
        rate: float = 0.0,
        seed: int = 1,
        kinds: tuple[str, ...] = (*FAULTS, HALF),
        rules: tuple[dict, ...] = (),
    ):
        self._rate = rate
        self._random = random.Random(seed)
        self._kinds = tuple(kinds)
        self._rules = [{"every": 1, "times": 1, "seen": 0, **rule} for rule in rules]
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self.injected: collections.Counter[str] = collections.Counter()

    def draw(self, request: str, is_upload: bool) -> str | None:
        """The fault that a request meets, if any."""
        with self._lock:
            fault = self._of_rules(request, is_upload)
            if fault is None and self._random.random() < self._rate:
                fault = self._next_kind(is_upload)
            if fault is not None:
                self.injected[fault] += 1
            return fault

    def outages(self) -> list[dict]:
        """Rules for what is left of the outages that have begun."""
        now, found = time.monotonic(), []
        for rule in self._rules:
            left = rule["begun"] + rule["seconds"] - now if "begun" in rule else 0.0
            if left > 0:
                found.append({"match": "", "fault": rule["fault"], "seconds": left})
        return found

    def _of_rules(self, request: str, is_upload: bool) -> str | None:
        for rule in self._rules:
            if "seconds" in rule:
                if _is_within(rule, request):
                    return rule["fault"]
                continue
            fits = is_upload or rule["fault"] != HALF
            if fits and rule["times"] and re.search(rule["match"], request):
                rule["seen"] += 1
                if rule["seen"] % rule["every"] == 0:
                    rule["times"] -= 1
                    return rule["fault"]
        return None

    def _next_kind(self, is_upload: bool) -> str | None:
        if not any(kind != HALF or is_upload for kind in self._waiting):
            self._waiting += self._random.sample(self._kinds, len(self._kinds))
        for kind in self._waiting:
            if kind != HALF or is_upload:
                self._waiting.remove(kind)
                return kind
        return None


def _is_within(rule: dict, request: str) -> bool:
    """Whether the outage of a rule has begun, perhaps now, and is not over."""
    if "begun" not in rule and re.search(rule["match"], request):
        rule["begun"] = time.monotonic()
    return "begun" in rule and time.monotonic() - rule["begun"] < rule["seconds"]


class Handler(http.server.BaseHTTPRequestHandler):
    """One request over one connection, as TensorFlow's client sends them."""

    # With less, the client waits a second before it sends an upload's bytes.
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, *arguments, context, storage, faults, kill):
        self._context = context
        self._storage = storage
        self._faults = faults
        self._kill = kill
        super().__init__(*arguments)

    def setup(self):
        self.request = self._context.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self):
        try:
            super().handle()
        except OSError:  # the client went away
            self.close_connection = True

    def do_GET(self):  # noqa: N802  (http.server's name)
        host = self.headers["Host"]
        body = self._body()
        asked = f"{self.command} {host}{urllib.parse.unquote(self.path)}"
        fault = self._faults.draw(asked, is_upload=len(body) > 0)
        if fault == KILL:
            self._kill()
        if fault in (KILL, "reset"):
            self._reset()
            return
        if fault is not None and fault.isdigit():
            answer = gcs_storage.Refused(int(fault), "injected").answer
        else:
            answer = self._storage.answer(
                self.command, host, self.path, self.headers, body, fault
            )
        if fault == STALL:
            time.sleep(STALL_SECONDS)
        if fault == "lost":
            self._reset()
        else:
            self._send(answer, fault)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _body(self) -> bytes:
        # TensorFlow's client gives a length and sends chunks all the same.
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send(self, answer: gcs_storage.Answer, fault: str | None) -> None:
        body = answer.body
        # An answer without a body can be cut too: it promises one.
        length = max(len(body), 1) if fault == "cut" else len(body)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        if fault != "cut":
            self.wfile.write(body[len(body) // 2 :])
        self.close_connection = True

    def _reset(self) -> None:
        # With no time to linger, closing resets.
        self.request.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        os.close(self.request.detach())
        self.close_connection = True

    def log_message(self, *_):
        """Says nothing: the report has the counts."""


class Server(http.server.ThreadingHTTPServer):
    """Answers each connection in a thread of its own, the TLS handshake included."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Leaves connections that break to the client; shows any other error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


# ---- As a script ----


def make_certificate(folder: pathlib.Path) -> pathlib.Path:
    """Writes key and certificate of both hosts into one file, by openssl."""
    path = folder / "certificate.pem"
    names = ",".join(f"DNS:{host}" for host in gcs_storage.HOSTS)
    subprocess.run(
        f"openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
        f"-days 2 -subj /CN=test -addext subjectAltName={names} "
        f"-keyout {path} -out {path}.crt".split(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    path.write_bytes(path.read_bytes() + pathlib.Path(f"{path}.crt").read_bytes())
    return path


def enter_namespace() -> None:
    """Starts the namespace's loopback, and gives it a hosts file of its own."""
    get_flags, set_flags, is_up = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(control, get_flags, request))[1]
        fcntl.ioctl(control, set_flags, struct.pack("16sh22x", b"lo", flags | is_up))
    with tempfile.NamedTemporaryFile("w") as hosts:
        hosts.write(f"127.0.0.1 localhost {' '.join(gcs_storage.HOSTS)}\n")
        hosts.flush()
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)


def client_environment(certificate: pathlib.Path) -> dict[str, str]:
    """What TensorFlow's client needs to know, and no waiting between its attempts."""
    return {
        "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "0",
        **os.environ,
        "CURL_CA_BUNDLE": str(certificate),
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": gcs_storage.TOKEN,
    }


def main() -> int:
    """Serves while the command runs."""
    parser = argparse.ArgumentParser()
    for name in ("objects", "plan", "report", "certificate"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--page_size", type=int, default=1000)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    enter_namespace()
    storage = gcs_storage.Storage(options.page_size)
    storage.load(options.objects)
    faults = Faults(**json.loads(options.plan.read_text()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate)
    environment = client_environment(options.certificate)
    handler = functools.partial(
        Handler,
        context=context,
        storage=storage,
        faults=faults,
        kill=lambda: client.kill(),
    )
    with Server(("127.0.0.1", 443), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = subprocess.Popen(options.command, env=environment)
        try:
            code = client.wait()
        finally:
            client.kill()
        server.shutdown()
    storage.dump(options.objects)
    report = {
        "faults": faults.injected,
        "requests": storage.requests,
        "outages": faults.outages(),
    }
    options.report.write_text(json.dumps(report))
    return code if code >= 0 else 128 - code  # as a shell says it of a signal


if __name__ == "__main__":
    sys.exit(main())
