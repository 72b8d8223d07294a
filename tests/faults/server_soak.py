"""A server under a mixed load for long: answers, refusals, latencies and memory.

python -m tests.faults.server_soak --saved_model=DIR --seconds=600 --results=FILE

The server is `albert_tf.serve` with its default limits, in a process of its own. Each
client has an address of its own on the loopback, and waits a random time between an
answer and its next request. What it sends has the statuses that docs/serving.md states.
Any other status, an error that is not JSON, a broken connection, or a traceback in the
server's log is a failure.
"""

import argparse
import collections
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.web import settings as settings_lib
from tests.faults import soak

_JSON = {"Content-Type": "application/json"}
_TIMEOUT = 60.0
_SETTLED_SECONDS = 120.0
_WORDS = "the river runs through an old town near a small lake and was built in".split()
_NUM_ORDINARY = 4
_NUM_BURST = 80


class Load:
    """What is sent, and what came back.

    Attributes:
      port: of the server, on 127.0.0.1.
      end: of the load, on the monotonic clock.
    """

    def __init__(self, port: int, seconds: float):
        self.port = port
        self.end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._statuses: dict[str, collections.Counter[str]] = {}
        self._latencies: dict[str, list[float]] = {}
        self._unexpected: list[str] = []

    def goes_on(self) -> bool:
        """Whether the load has not ended."""
        return time.monotonic() < self.end

    def count(
        self, kind: str, status: int, allowed: tuple[int, ...], body: bytes, began=None
    ) -> None:
        """Counts an answer, and keeps its latency if it succeeded.

        Args:
          kind: of the client.
          status: of the answer.
          allowed: the statuses that the documentation states.
          body: of the answer.
          began: when the request was sent, on the monotonic clock.
        """
        seconds = time.monotonic() - began if began else 0.0
        problem = "" if status in allowed else f"status {status}"
        if status >= 400 and not _is_error(body):
            problem = f"an error of other form: {body[:200]!r}"
        with self._lock:
            self._statuses.setdefault(kind, collections.Counter())[str(status)] += 1
            if status == 200 and began:
                self._latencies.setdefault(kind, []).append(seconds)
            if problem:
                self._unexpected.append(f"{kind}: {problem}")

    def fail(self, line: str) -> None:
        """Keeps what should not have happened."""
        with self._lock:
            self._unexpected.append(line)

    def values(self, seconds: float) -> dict[str, Any]:
        """All counts, and quantiles of latencies in milliseconds."""
        answered = sum(
            counts[status] for counts in self._statuses.values() for status in counts
        )
        return {
            "statuses": {k: dict(sorted(v.items())) for k, v in self._statuses.items()},
            "requests_per_second": round(answered / seconds, 1),
            "latency_ms": {
                kind: _quantiles(values) for kind, values in self._latencies.items()
            },
            "num_unexpected": len(self._unexpected),
            "unexpected": self._unexpected[:20],
        }


def _is_error(body: bytes) -> bool:
    try:
        values = json.loads(body)
    except ValueError:
        return False
    return isinstance(values, dict) and list(values) == ["error"]


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(1000 * ordered[min(int(place * len(ordered)), len(ordered) - 1)], 1)
        for name, place in places.items()
    }


def _send(
    load: Load, address: str, method: str, path: str, body=None, headers=_JSON
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(
        "127.0.0.1", load.port, _TIMEOUT, source_address=(address, 0)
    )
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


def _text(num_words: int, rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(num_words))


# ---- Clients: what each sends once ----


def _ordinary(load: Load, address: str, rng: random.Random) -> None:
    """A text or two: a mask, an embedding, or an order."""
    num_words = rng.choice([8, 8, 8, 90])
    name, body = rng.choice(
        [
            ("fill-mask", {"texts": [f"{_text(num_words, rng)} [MASK]."]}),
            ("embeddings", {"texts": [_text(num_words, rng)] * rng.choice([1, 2])}),
            (
                "sentence-order",
                {"pairs": [{"first": _text(8, rng), "second": _text(8, rng)}]},
            ),
        ]
    )
    began = time.monotonic()
    status, answer = _send(load, address, "POST", f"/v1/{name}", json.dumps(body))
    load.count("one text or two", status, (200,), answer, began)
    time.sleep(rng.expovariate(2.0))


def _many_texts(load: Load, address: str, rng: random.Random) -> None:
    """As many texts as a request may have."""
    texts = [_text(rng.choice([8, 40]), rng) for _ in range(settings_lib.MAX_TEXTS)]
    body, began = json.dumps({"texts": texts}), time.monotonic()
    status, answer = _send(load, address, "POST", "/v1/embeddings", body)
    load.count("32 texts", status, (200,), answer, began)
    time.sleep(rng.uniform(2.0, 4.0))


def _greedy(load: Load, address: str, rng: random.Random) -> None:
    """More requests in a second than an address may send."""
    for _ in range(_NUM_BURST):
        body, began = json.dumps({"texts": [_text(4, rng)]}), time.monotonic()
        status, answer = _send(load, address, "POST", "/v1/embeddings", body)
        load.count("bursts of 80", status, (200, 429), answer, began)
    time.sleep(rng.uniform(2.0, 6.0))


def _bad_requests() -> dict[str, tuple[int, str, str, bytes, dict[str, str]]]:
    """Mistakes by their names: status, method, path, body, headers."""
    path, good = "/v1/embeddings", b'{"texts": ["one"]}'
    many = json.dumps({"texts": ["one"] * (settings_lib.MAX_TEXTS + 1)}).encode()
    too_large = b" " * (settings_lib.ServerSettings.max_body_bytes + 1)
    other_page = {**_JSON, "Origin": "https://other.example"}
    return {
        "no JSON": (422, "POST", path, b'{"texts": ', _JSON),
        "deep JSON": (400, "POST", path, b"[" * 10_000, _JSON),
        "an unknown field": (422, "POST", path, good[:-1] + b', "a": 1}', _JSON),
        "too many texts": (422, "POST", path, many, _JSON),
        "a long body": (413, "POST", path, too_large, _JSON),
        "plain text": (422, "POST", path, good, {"Content-Type": "text/plain"}),
        "no such page": (404, "GET", "/none", b"", {}),
        "another method": (405, "GET", path, b"", {}),
        "another host": (403, "POST", path, good, {**_JSON, "Host": "other.example"}),
        "another page": (403, "POST", path, good, other_page),
    }


def _mistaken(load: Load, address: str, rng: random.Random) -> None:
    """A request with a mistake."""
    name, (expected, *request) = rng.choice(list(_bad_requests().items()))
    status, answer = _send(load, address, *request)
    load.count(f"mistake: {name}", status, (expected,), answer)
    time.sleep(rng.uniform(0.1, 0.5))


_HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
_LENGTH = b"Content-Type: application/json\r\nContent-Length: 18\r\n\r\n"


def _odd_connection(load: Load, address: str, rng: random.Random) -> None:
    """A connection that is silent in the middle, is left, or does not speak HTTP."""
    kind, sent, allowed = rng.choice(
        [
            ("headers that stop", _HEAD, (408,)),
            ("a body that stops", _HEAD + _LENGTH + b'{"tex', (408,)),
            ("no HTTP", rng.randbytes(40) + b"\r\n\r\n", (400,)),
            ("left before the answer", _HEAD + _LENGTH + b'{"texts": ["one"]}', ()),
        ]
    )
    source = (address, 0)
    with socket.create_connection(("127.0.0.1", load.port), _TIMEOUT, source) as one:
        one.sendall(sent)
        if not allowed:
            load.count(kind, 0, (0,), b"")
        else:
            received = b""
            while part := one.recv(65536):
                received += part
            head, _, body = received.partition(b"\r\n\r\n")
            status = int(head.split()[1]) if head else 0
            load.count(kind, status, allowed, body)
    time.sleep(rng.uniform(0.5, 1.5))


def _watching(load: Load, address: str, rng: random.Random) -> None:
    """Who asks for health, metrics and the page."""
    path = rng.choice(["/healthz", "/readyz", "/metrics", "/", "/docs"])
    status, answer = _send(load, address, "GET", path, None, {})
    load.count("health, metrics, pages", status, (200,), answer)
    time.sleep(rng.uniform(1.0, 3.0))


_CLIENTS: tuple[Callable[[Load, str, random.Random], None], ...] = (
    *[_ordinary] * _NUM_ORDINARY,
    _many_texts,
    _greedy,
    _mistaken,
    *[_odd_connection] * 3,
    _watching,
)


def _work(load: Load, number: int, seed: int) -> None:
    client, rng = _CLIENTS[number], random.Random(f"{seed}-{number}")
    while load.goes_on():
        try:
            client(load, f"127.0.1.{number + 1}", rng)
        except (OSError, ValueError, http.client.HTTPException) as error:
            load.fail(f"{client.__name__}: {error!r}")


# ---- The server ----


@contextlib.contextmanager
def _server(saved_model: str, log: pathlib.Path) -> Iterator[tuple[int, int]]:
    """The process of a server that is ready, and its port; it must end with 0."""
    command = [sys.executable, "-m", "albert_tf.serve", f"--saved_model={saved_model}"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--port=0"], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"ready at http://.*:(\d+)\n", process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        yield process.pid, int(found[1])
        process.send_signal(signal.SIGTERM)
        if code := process.wait(_TIMEOUT):
            raise RuntimeError(f"the server ended with {code}: {log.read_text()}")
    finally:
        process.kill()


def run(
    saved_model: str, seconds: float, seed: int, settled_seconds: float, interval: float
) -> dict[str, Any]:
    """Loads a server; returns what is written about it.

    Args:
      saved_model: directory of a model that was pre-trained.
      seconds: of the load.
      seed: draws it.
      settled_seconds: after which the slope of memory is measured.
      interval: between two samples of memory, in seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        with _server(saved_model, log) as (process, port):
            load = Load(port, seconds)
            threads = [
                threading.Thread(target=_work, args=(load, number, seed))
                for number in range(len(_CLIENTS))
            ]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            samples = []
            while load.goes_on():
                if (found := soak.sample(process)) is None:
                    load.fail("the server ended")
                    break
                samples.append(found)
                time.sleep(interval)
            for thread in threads:
                thread.join()
            values = load.values(time.monotonic() - began)
        lines = log.read_text().splitlines()
    tracebacks = [line for line in lines if "Traceback" in line]
    grown = soak.summary(samples, settled_seconds)
    grown = {k: v for k, v in grown.items() if k not in ("disk_kb", "num_checkpoints")}
    return {
        "date": datetime.date.today().isoformat(),
        "seed": seed,
        "seconds": round(seconds),
        "num_cores": os.cpu_count(),
        "num_clients": len(_CLIENTS),
        **values,
        "num_log_lines": len(lines),
        "num_tracebacks": len(tracebacks),
        "process": grown,
    }


def main() -> int:
    """Runs the load; the exit code is 1 if something unexpected came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saved_model", required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--settled_seconds", type=float, default=_SETTLED_SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--about", default="", help="which model ran, and where")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.seconds:.0f} s", flush=True)
    settled = min(options.settled_seconds, options.seconds / 2)
    values = run(
        *(options.saved_model, options.seconds, options.seed, settled),
        interval=min(10.0, options.seconds / 20),
    )
    soak.write(options.results, {"about": options.about, **values})
    print(json.dumps(values, indent=2))
    return 1 if values["num_unexpected"] or values["num_tracebacks"] else 0


if __name__ == "__main__":
    sys.exit(main())
