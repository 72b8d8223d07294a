"""Connections of slow and many clients, and errors of the protocol."""

import concurrent.futures
import contextlib
import http.client
import json
import resource
import signal
import socket
import threading
import time

import pytest

from albert_tf.web import protocol
from tests.support import web_server

OTHER_ADDRESS = "127.0.0.2"  # of the loopback too
BODY = b'{"texts": ["one"]}'
POST = (
    b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
)


def lengths(items):
    """A fake model: the length of each text."""
    return [
        {"text": text, "num_tokens": len(text), "pooled_output": [float(len(text))]}
        for (text,) in items
    ]


def running(function=lengths, **limits):
    limits = {"header_seconds": 0.4, "body_seconds": 0.4, **limits}
    return web_server.running(
        lambda: {"encode": function}, connections=protocol.ConnectionLimits(**limits)
    )


@contextlib.contextmanager
def connected(server, sent=b"", address="127.0.0.1"):
    """An open connection on which some bytes were sent."""
    with socket.create_connection(
        ("127.0.0.1", server.port), web_server.TIMEOUT, source_address=(address, 0)
    ) as connection:
        connection.sendall(sent)
        yield connection


def answer(connection) -> tuple[int, str]:
    """The status and the error of what comes back, to the end."""
    received = b""
    while part := connection.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: loc"])
def test_headers_that_do_not_come_end_the_connection(sent):
    with running() as server, connected(server, sent) as connection:
        status, error = answer(connection)
        assert (status, error) == (
            408,
            "the headers of a request must arrive within 0.4 s",
        )
        assert server.get("/healthz").status == 200


@pytest.mark.parametrize("sent", [POST, POST + BODY[:5]])
def test_a_body_that_does_not_come_ends_the_connection(sent):
    with running() as server, connected(server, sent) as connection:
        status, error = answer(connection)
        assert status == 408 and error.startswith("the body of a request must arrive")
        assert len(server.ask("embeddings", texts=["two"]).answers) == 1


def test_drops_do_not_extend_the_time_of_a_body():
    with running(body_seconds=1.0) as server, connected(server, POST) as connection:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in BODY * 100:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)
                if time.monotonic() - began > 5:
                    pytest.fail("it was read to its end")
        assert time.monotonic() - began < 5


def test_a_connection_may_rest_between_requests():
    with running() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, 60)
        with contextlib.closing(client):
            for _ in range(2):
                client.request("GET", "/healthz")
                assert client.getresponse().read() == b'{"status":"ok"}'
                time.sleep(0.6)
            client.request("POST", "/v1/embeddings", BODY, web_server.JSON)
            assert client.getresponse().status == 200


def test_a_slow_answer_is_no_slow_request():
    def slow(items):
        time.sleep(1.0)
        return lengths(items)

    with running(slow) as server:
        assert len(server.ask("embeddings", texts=["one"]).answers) == 1


def test_an_address_with_too_many_connections_is_told_so():
    with running(max_per_address=3, header_seconds=60.0) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(connected(server, b"G"))
            with connected(server, b"GET / HTTP/1.1\r\n") as more:
                status, error = answer(more)
            assert status == 429
            assert error.startswith("at most 3 connections may be open from one addr")
            with connected(server, POST + BODY, OTHER_ADDRESS) as other:
                assert other.recv(12) == b"HTTP/1.1 200"
        assert server.get("/healthz").status == 200


@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",)])
def test_a_trusted_proxy_has_many_connections(proxies):
    limits = protocol.ConnectionLimits(max_per_address=1, header_seconds=60.0)
    with web_server.running(
        lambda: {"encode": lengths}, trusted_proxies=proxies, connections=limits
    ) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3 if proxies else 1):
                stack.enter_context(connected(server, b"G"))
            with connected(server, POST + BODY) as more:
                expected = b"HTTP/1.1 200" if proxies else b"HTTP/1.1 429"
                assert more.recv(12) == expected


def test_too_many_connections_in_all_are_told_so():
    with running(max_connections=4, header_seconds=60.0) as server:
        with contextlib.ExitStack() as stack:
            for number in range(4):
                address = f"127.0.0.{number + 2}"
                stack.enter_context(connected(server, b"G", address))
            with connected(server, b"GET / HTTP/1.1\r\n") as more:
                status, error = answer(more)
                assert (status, error.partition(",")[0]) == (
                    503,
                    "4 connections are open",
                )


def test_many_slow_connections_of_one_address_do_not_shut_others_out():
    limits = {"max_connections": 100, "max_per_address": 50, "header_seconds": 60.0}
    with running(**limits) as server, contextlib.ExitStack() as stack:
        for _ in range(99):
            stack.enter_context(connected(server, b"GET /", OTHER_ADDRESS))
        assert len(server.ask("embeddings", texts=["one"]).answers) == 1


def test_a_connection_too_many_that_sends_nothing_is_soon_closed():
    limits = {"max_per_address": 2, "header_seconds": 60.0, "refusal_seconds": 0.2}
    with running(**limits) as server:
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connected(server)) for _ in range(5)]
            # Of twice as many, a further one is closed without a word.
            with contextlib.suppress(ConnectionResetError):
                assert opened[4].recv(1) == b""
            assert [answer(one)[0] for one in opened[2:4]] == [429, 429]
            with connected(server, POST + BODY, OTHER_ADDRESS) as other:
                assert other.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("limit", "expected", "most"),
    [
        ((500, 4096), (2128, 4096), 1000),
        ((5000, 5000), (5000, 5000), 1000),
        ((256, 1024), (1024, 1024), 448),
        ((64, resource.RLIM_INFINITY), (2128, resource.RLIM_INFINITY), 1000),
    ],
)
def test_there_are_as_many_connections_as_files(monkeypatch, limit, expected, most):
    found = [limit]
    monkeypatch.setattr(protocol.resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(
        protocol.resource, "setrlimit", lambda _, value: found.append(value)
    )
    assert protocol.within_files(protocol.DEFAULT).max_connections == most
    assert found[-1] == expected


@pytest.mark.parametrize("stops", [False, True])
def test_clients_that_do_not_read_are_left(caplog, stops):
    """Their answers are more than what the sockets hold."""
    seconds = {"write_seconds": 60.0 if stops else 0.4, "last_seconds": 0.4}
    with running(**seconds) as server, contextlib.ExitStack() as stack:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(3000 * request)
        connections = server.engine.server_state.connections
        _wait_for(
            lambda: (
                len(connections) == 3
                and all(one._write_timer is not None for one in connections)
            )
        )
        if stops:
            server.engine.should_exit = True
        _wait_for(lambda: not connections)
    assert "Traceback" not in caplog.text and "CancelledError" not in caplog.text


def _wait_for(condition):
    deadline = time.monotonic() + web_server.TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"HELO\r\n\r\n", b"GET /\x00 HTTP/9\r\n\r\n"],
)
def test_what_is_not_http_is_answered_in_json(sent):
    with running() as server, connected(server, sent) as connection:
        status, error = answer(connection)
        assert status == 400 and error.startswith("the request must be HTTP/1.1")


def test_a_server_that_stops_accepts_no_more_and_answers_what_it_has():
    started, released = threading.Event(), threading.Event()

    def blocked(items):
        started.set()
        assert released.wait(web_server.TIMEOUT)
        return lengths(items)

    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        running(blocked) as server,
    ):
        # Warm-up: none, since the model is a fake one.
        asked = pool.submit(server.ask, "embeddings", texts=["one"])
        assert started.wait(web_server.TIMEOUT)
        server.engine.handle_exit(signal.SIGTERM, None)
        deadline = time.monotonic() + web_server.TIMEOUT
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", server.port)) != 0:
                    break
            time.sleep(0.01)
        else:
            pytest.fail("it still accepts connections")
        released.set()
        assert len(asked.result().answers) == 1


def test_slow_clients_do_not_delay_the_end_or_fill_the_log(caplog):
    with running(body_seconds=60.0, last_seconds=0.3) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(30):
                stack.enter_context(connected(server, POST + BODY[:5]))
            time.sleep(0.5)
            server.engine.handle_exit(signal.SIGTERM, None)
            time.sleep(1.5)
    assert not [r for r in caplog.records if r.levelname in ("ERROR", "CRITICAL")]
    assert "Traceback" not in caplog.text
