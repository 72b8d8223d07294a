"""The server: its answers, alone and in batches, and its error messages."""

import concurrent.futures
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import fastapi
import pytest
import tensorflow as tf

from albert_tf import serve
from albert_tf.inference import signatures
from albert_tf.web import address, model, page, schemas
from albert_tf.web import server as server_lib
from tests.support import binaries, fine_tuned, small_serving, web_server

TEXTS = [
    "The river runs [MASK] a small lake, and number 3 is [MASK].",
    "His brother lies [MASK].",
]
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Counted:
    """A function that records its calls, and can be blocked."""

    def __init__(self, function):
        self._function = function
        self.sizes = []
        self.started = threading.Event()
        self.released = threading.Event()
        self.released.set()

    def __call__(self, items):
        self.sizes.append(len(items))
        self.started.set()
        assert self.released.wait(web_server.TIMEOUT)
        return self._function(items)


def upper(items):
    """A fake model: the length of each text."""
    return [
        {"text": text, "num_tokens": len(text), "pooled_output": [float(len(text))]}
        for (text,) in items
    ]


@pytest.fixture(scope="module")
def pretrained():
    functions = model.functions(small_serving.pretrained())
    with web_server.running(lambda: functions) as server:
        yield server


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved") / "model")
    small_serving.save(small_serving.pretrained(), path)
    return path


def test_a_model_of_pairs_takes_no_single_text():
    classify = model._of_pairs(lambda items: ["+".join(item) for item in items])
    first, alone, last = classify([("a", "b"), ("c",), ("d", "e")])
    assert (first, last) == ("a+b", "d+e")
    assert isinstance(alone, model.Unanswerable) and "must have a pair" in str(alone)
    assert isinstance(classify([("c",)])[0], model.Unanswerable)


def test_a_loaded_model_of_pairs_is_known_by_its_configuration(monkeypatch):
    asked = []
    monkeypatch.setattr(model.saved_model, "load", lambda path: path)
    monkeypatch.setattr(model.saved_model_dir, "takes_pairs", lambda path: path == "p")
    monkeypatch.setattr(model, "functions", lambda *given: asked.append(given) or {})
    for path in ("p", "q"):
        model.load(path)
    assert asked == [("p", True), ("q", False)]


def test_the_name_of_the_host_is_one_of_those_that_clients_may_use(
    saved_model, monkeypatch
):
    asked = []
    monkeypatch.setattr(server_lib, "serve", lambda *given: asked.append(given))
    flags = f"--saved_model={saved_model}", "--port=0", "--host=localhost"
    binaries.run(serve, *flags, "--allowed_hosts=a.example,b.example")
    asked[0][0].close()
    assert asked[0][-1] == ["localhost", "a.example", "b.example"]


def test_a_signal_before_the_server_listens_ends_it():
    server = server_lib.make(fastapi.FastAPI())
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit


@pytest.fixture
def blocked():
    """A function that is blocked until the test releases it."""
    made = Counted(upper)
    made.released.clear()
    yield made
    made.released.set()


def metric(server, line):
    """The value of a line of /metrics."""
    text = server.get("/metrics").body.decode()
    (value,) = re.findall(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)
    return float(value)


def wait_for(condition):
    deadline = time.monotonic() + web_server.TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- Answers ----


def test_masks_are_filled_as_the_signature_fills_them(pretrained):
    signature = small_serving.pretrained().signatures["fill_mask"]
    expected = signature(text=TEXTS, top_k=4)
    one, other = pretrained.ask("fill-mask", texts=TEXTS, top_k=4).answers
    assert [one["text"], other["text"]] == TEXTS
    assert [len(one["masks"]), len(other["masks"])] == [2, 1]
    for found, tokens, probabilities in zip(
        one["masks"] + other["masks"],
        expected["token"].numpy().tolist(),
        expected["probability"].numpy().tolist(),
        strict=True,
    ):
        assert [c["token"] for c in found] == [token.decode() for token in tokens]
        assert [c["probability"] for c in found] == pytest.approx(probabilities)
    # The number of candidates is each request's own.
    (few,) = pretrained.ask("fill-mask", texts=TEXTS[1:], top_k=1).answers
    assert few["masks"][0][0]["token"] == other["masks"][0][0]["token"]
    assert len(few["masks"][0]) == 1
    (default,) = pretrained.ask("fill-mask", texts=TEXTS[1:]).answers
    assert len(default["masks"][0]) == 5


def test_embeddings_and_order_are_those_of_the_signatures(pretrained):
    serving = small_serving.pretrained()
    expected = serving.signatures["encode"](text=TEXTS)
    found = pretrained.ask("embeddings", texts=TEXTS).answers
    for answer, vector, mask in zip(
        found,
        expected["pooled_output"].numpy(),
        expected["input_mask"].numpy(),
        strict=True,
    ):
        assert answer["pooled_output"] == pytest.approx(vector.tolist(), abs=1e-5)
        assert answer["num_tokens"] == mask.sum()
        assert "mean_output" not in answer
    means = pretrained.ask("embeddings", texts=TEXTS, pooling="mean").answers
    for answer, rows, mask in zip(
        means,
        expected["sequence_output"].numpy(),
        expected["input_mask"].numpy(),
        strict=True,
    ):
        mean = rows[mask == 1].mean(0)
        assert answer["mean_output"] == pytest.approx(mean.tolist(), abs=1e-5)
        assert "pooled_output" not in answer
    expected = serving.signatures["sentence_order"](first=["a", "b"], second=["b", "c"])
    pairs = [{"first": "a", "second": "b"}, {"first": "b", "second": "c"}]
    found = pretrained.ask("sentence-order", pairs=pairs).answers
    assert [{"first": f["first"], "second": f["second"]} for f in found] == pairs
    assert [answer["probability"] for answer in found] == pytest.approx(
        expected["probability"].numpy().tolist(), abs=1e-5
    )


QUESTION = {"question": "What is near?", "context": "😀 The river runs through it."}
OPTIONS = {"options": ["a lake", "a train"]}
BODIES = {
    "classification": (
        "classify",
        {"examples": [{"text": "a lake", "pair": "b"}, {"text": "a"}]},
        [("a lake", "b"), ("a",)],
    ),
    "regression": ("classify", {"examples": [{"text": "a lake"}]}, [("a lake",)]),
    "token_classification": ("tag", {"texts": ["a lake", ""]}, [("a lake",), ("",)]),
    "span": (
        "answer",
        {"examples": [QUESTION]},
        [(QUESTION["question"], QUESTION["context"])],
    ),
    "answerable_span": (
        "answer",
        {"examples": [QUESTION]},
        [(QUESTION["question"], QUESTION["context"])],
    ),
    "multiple_choice": (
        "choose",
        {"examples": [QUESTION | OPTIONS]},
        [(QUESTION["context"], QUESTION["question"], *OPTIONS["options"])],
    ),
}


@pytest.mark.parametrize("kind", sorted(fine_tuned.KINDS))
def test_a_fine_tuned_model_has_its_task_and_no_other(kind):
    serving = small_serving.of_kind(kind)
    endpoint, body, items = BODIES[kind]
    ((name, signature),) = serving.signatures.items()
    expected = signatures.FORMS[name].ask(signature, items)
    with web_server.running(lambda: model.functions(serving)) as server:
        found = server.ask(endpoint, **body).answers
        described = server.get("/v1/model").json
        paths = server.get("/openapi.json").json["paths"]
        assert server.ask("fill-mask", texts=TEXTS).status == 404
    assert described.pop("model")["name"] == "model"
    assert described == {"status": "ready", "endpoints": [endpoint]}
    assert [path for path in paths if path.startswith("/v1/")] == [
        "/v1/model",
        f"/v1/{endpoint}",
    ]
    # Numbers went through JSON, which keeps them.
    assert found == json.loads(json.dumps(expected))


# ---- Batches ----


def test_200_requests_at_once_share_batches_and_get_their_own_answers():
    functions = model.functions(small_serving.pretrained())
    fill = Counted(functions["fill_mask"])
    texts = [f"number {n} is [MASK]" + " of the lake" * (n % 5) for n in range(200)]
    with web_server.running(lambda: {"fill_mask": fill}) as server:
        single = [server.ask("fill-mask", texts=[text]).answers[0] for text in texts]
        assert fill.sizes == [1] * 200
        fill.sizes.clear()
        fill.started.clear()
        fill.released.clear()
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            asked = [pool.submit(server.ask, "fill-mask", texts=[t]) for t in texts]
            assert fill.started.wait(web_server.TIMEOUT)
            line = 'albert_queue_length{endpoint="fill-mask"}'
            wait_for(lambda: metric(server, line) == 200 - fill.sizes[0])
            fill.released.set()
            batched = [one.result().answers[0] for one in asked]
    assert sum(fill.sizes) == 200
    # The others wait, so that most batches are full; in the last ones are those that
    # are far shorter or longer than others.
    assert fill.sizes.count(32) >= 5 and len(fill.sizes) <= 9
    for one, other in zip(single, batched, strict=True):
        assert one["text"] == other["text"]
        for alone, together in zip(one["masks"][0], other["masks"][0], strict=True):
            assert alone["probability"] == pytest.approx(
                together["probability"], abs=1e-5
            )


def test_a_text_that_cannot_be_answered_affects_no_other():
    functions = model.functions(small_serving.pretrained())
    fill = Counted(functions["fill_mask"])
    # Of like numbers of characters, so that they share a batch.
    bodies = [
        ["The river runs [MASK] a small lake near it."],
        ["a " * 30 + "[MASK]"],
        ["A train [MASK] the county and the old town."],
    ]
    with web_server.running(
        lambda: {"fill_mask": fill}, max_batch_size=3, max_wait_ms=60_000
    ) as server:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            good, bad, better = pool.map(
                lambda texts: server.ask("fill-mask", texts=texts), bodies
            )
    assert fill.sizes == [3]
    assert good.answers[0]["masks"] and better.answers[0]["masks"]
    assert bad.status == 422
    assert "1 [MASK] are after its end" in bad.json["error"]


def test_a_fault_of_the_model_is_500_for_its_request_alone():
    def run(items):
        if ("bad",) in items:
            raise ZeroDivisionError("a secret of the log")
        return upper(items)

    with web_server.running(lambda: {"encode": run}) as server:
        reply = server.ask("embeddings", texts=["bad"])
        assert reply.status == 500
        assert "its log says why" in reply.json["error"]
        assert "secret" not in reply.body.decode()
        assert server.ask("embeddings", texts=["good"]).answers[0]["num_tokens"] == 4
        line = 'albert_requests_total{endpoint="/v1/embeddings",status="500"}'
        assert metric(server, line) == 1


# ---- Bad input ----


def body(**values):
    return json.dumps(values).encode()


MASKED = body(texts=["[MASK]"])


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (None, 422, "there must be a body"),
        (b"", 422, "there must be a body"),
        (b'{"texts": ', 422, "the body must be JSON; Expecting value at character 10"),
        (b"\xff\xfe{", 400, "the body must be JSON in UTF-8"),
        (b'{"texts": ["\xff [MASK]"]}', 400, "the body must be JSON in UTF-8"),
        (b"[" * 100_000, 400, "the body must be JSON"),
        (b"[]", 422, "the body must be a JSON object; received []"),
        (b"null", 422, "the body must be a JSON object; received None"),
        (b"{}", 422, "texts must be given"),
        (body(texts="a [MASK]"), 422, "texts: Input should be a valid list"),
        (body(texts=[]), 422, "texts: List should have at least 1 item"),
        (body(texts=["[MASK]"] * 33), 422, "texts: List should have at most 32 items"),
        (body(texts=[1]), 422, "texts[0]: Input should be a valid string; received 1"),
        (body(texts=[1] * 9), 422, "; and 6 more"),
        (body(texts=["[MASK]", "a"]), 422, "texts[1]: each text must hold [MASK]; rec"),
        (body(texts=["[MASK]" * 21]), 422, "at most 20 [MASK]; received 21"),
        (
            body(texts=["x" * 20_001]),
            422,
            "texts[0]: String should have at most 20000 characters; received 'xxx",
        ),
        (body(texts=["\ud800 [MASK]"]), 422, "texts[0]: Input should be a valid str"),
        (body(texts=["[MASK]"], top_k=0), 422, "top_k: Input should be greater than"),
        (body(texts=["[MASK]"], top_k=101), 422, "top_k: Input should be less than"),
        (body(texts=["[MASK]"], top_k="5"), 422, "top_k: Input should be a valid int"),
        (body(texts=["[MASK]"], top_k=True), 422, "top_k: Input should be a valid int"),
        (body(texts=["[MASK]"], topk=5), 422, "topk is unknown"),
        (body(texts=["x" * 1_000_000]), 413, "at most 524288 bytes"),
        (b" " * 30_000_000, 413, "at most 524288 bytes"),
    ],
)
def test_bad_bodies_are_answered_in_words(pretrained, sent, status, message):
    reply = pretrained.send("POST", "/v1/fill-mask", sent)
    assert reply.status == status
    assert list(reply.json) == ["error"]
    assert message in reply.json["error"]
    assert len(reply.body) < 1000
    assert pretrained.send("POST", "/v1/fill-mask", MASKED).status == 200


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("classification", 'examples[0] must be an object such as {"text": "…"}'),
        ("span", 'such as {"question": "…", "context": "…"}; received \'a lake\''),
        ("multiple_choice", '"context": "…", "options": ["…", "…"]}; received'),
    ],
)
def test_a_text_in_place_of_an_object_is_told_its_fields(kind, message):
    name = BODIES[kind][0]
    signature = next(one for one in schemas.ENDPOINTS if one.name == name).signature
    with web_server.running(lambda: {signature: upper}) as server:
        reply = server.send("POST", f"/v1/{name}", body(examples=["a lake"]))
    assert reply.status == 422
    assert message in reply.json["error"]


def test_a_body_of_unknown_size_is_cut_off_too(pretrained):
    def parts():
        yield from [b" " * 60_000] * 50

    reply = pretrained.send("POST", "/v1/fill-mask", parts())
    assert reply.status == 413
    assert "at most 524288 bytes" in reply.json["error"]


def test_only_what_is_called_json_is_read(pretrained):
    # Pages of other sites may send text/plain without a preflight request, not JSON.
    for headers in ({}, {"Content-Type": "text/plain"}):
        reply = pretrained.send("POST", "/v1/fill-mask", MASKED, headers)
        assert reply.status == 422
        assert "Content-Type must be application/json" in reply.json["error"]


def test_pages_that_are_not_there_and_wrong_methods(pretrained):
    assert pretrained.get("/nothing").status == 404
    assert "no such page" in pretrained.get("/nothing").json["error"]
    assert pretrained.get("/v1/fill-mask").status == 405
    assert pretrained.send("POST", "/v1/tag", MASKED).status == 404


@pytest.mark.parametrize("text", ["a\0b [MASK]\0", "😀 [MASK] \u202e", "[MASK]" * 20])
def test_odd_texts_are_texts(pretrained, text):
    (answer,) = pretrained.ask("fill-mask", texts=[text]).answers
    assert answer["text"] == text
    assert len(answer["masks"]) == text.count("[MASK]")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "LocalHost:99"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:8000"}, 403),
        ({"Host": "localhost@evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "evil.example@localhost"}, 403),
        ({"Host": "localhost/evil.example"}, 403),
        ({"Host": "localhost:port"}, 403),
        ({"Origin": "http://evil.example@localhost"}, 403),
        ({"Origin": "http://localhost, http://evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_requests_for_other_hosts_and_from_other_pages_are_refused(
    pretrained, headers, status
):
    headers = {**web_server.JSON, **headers}
    reply = pretrained.send("POST", "/v1/fill-mask", MASKED, headers)
    assert reply.status == status
    if status == 403:
        assert "must name this server, one of 127.0.0.1, " in reply.json["error"]
    # Probes of a cluster use the address of the machine.
    assert pretrained.send("GET", "/healthz", None, headers).status == 200


@pytest.mark.parametrize("header", ["Host", "Origin"])
def test_every_one_of_repeated_headers_is_checked(pretrained, header):
    prefix = "http://" if header == "Origin" else ""
    request = [
        *("GET /v1/model HTTP/1.1", "Host: localhost", "Connection: close"),
        *(f"{header}: {prefix}{name}" for name in ("localhost", "evil.example")),
    ]
    address = ("127.0.0.1", pretrained.port)
    with socket.create_connection(address, web_server.TIMEOUT) as client:
        client.sendall("\r\n".join((*request, "", "")).encode())
        answer = client.makefile("rb").readline()
    # Two Host headers are no HTTP.
    assert answer.split()[1] == (b"403" if header == "Origin" else b"400")


def test_more_hosts_can_be_allowed():
    for allowed, name in (("model.example", "Model.example"), ("*", "any.example")):
        with web_server.running(
            lambda: {"encode": upper}, allowed_hosts=[allowed]
        ) as server:
            headers = {**web_server.JSON, "Host": name}
            reply = server.send("POST", "/v1/embeddings", body(texts=["a"]), headers)
            assert reply.status == 200


# ---- Limits ----


def test_an_address_that_sends_too_many_requests_is_told_when_to_retry():
    with web_server.running(lambda: {"encode": upper}, requests_per_second=3) as server:
        replies = [server.ask("embeddings", texts=["a"]) for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert replies[3].headers["Retry-After"] == "1"
        assert "at most 3" in replies[3].json["error"]
        # Monitoring is not limited.
        assert [server.get("/healthz").status for _ in range(9)] == [200] * 9
        time.sleep(1.1)
        assert server.ask("embeddings", texts=["a"]).status == 200


@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",)])
def test_requests_are_counted_by_the_client_that_a_trusted_proxy_names(proxies):
    def ask(client: str) -> int:
        headers = {**web_server.JSON, "X-Forwarded-For": client}
        content = body(texts=["a"])
        return server.send("POST", "/v1/embeddings", content, headers).status

    with web_server.running(
        lambda: {"encode": upper}, requests_per_second=2, trusted_proxies=proxies
    ) as server:
        found = [ask(client) for client in ["10.0.0.1"] * 3 + ["10.0.0.2"] * 2]
    # Of others the header is not believed.
    assert found == [200, 200, 429, *([200, 200] if proxies else [429, 429])]


def test_an_address_with_many_texts_does_not_delay_another(blocked):
    order = []

    def note(items):
        order.extend(text for (text,) in items)
        return blocked(items)

    with web_server.running(
        lambda: {"encode": note}, max_batch_size=1, max_wait_ms=0
    ) as server:
        line = 'albert_queue_length{endpoint="embeddings"}'
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(server.ask, "embeddings", texts=["first"])]
            assert blocked.started.wait(web_server.TIMEOUT)
            many = [f"many {n}" for n in range(20)]
            asked.append(pool.submit(server.ask, "embeddings", texts=many))
            wait_for(lambda: metric(server, line) == 20)
            other = {"source": "127.0.0.2", "texts": ["other"]}
            asked.append(pool.submit(server.ask, "embeddings", **other))
            wait_for(lambda: metric(server, line) == 21)
            blocked.released.set()
            assert [len(one.result().answers) for one in asked] == [1, 20, 1]
    assert order.index("other") <= 2


def test_a_clock_that_is_set_back_refuses_nobody(monkeypatch):
    with web_server.running(lambda: {"encode": upper}, requests_per_second=3) as server:
        for _ in range(2):
            assert server.ask("embeddings", texts=["a"]).status == 200
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() - 3 * 3600)
        time.sleep(1.1)
        replies = [server.ask("embeddings", texts=["a"]) for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert replies[3].headers["Retry-After"] == "1"


def test_a_full_queue_is_503_and_those_in_it_are_answered(blocked):
    with web_server.running(
        lambda: {"encode": blocked},
        max_queue_tokens=64,
        max_batch_size=1,
        max_wait_ms=0,
    ) as server:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(server.ask, "embeddings", texts=["a"])
            assert blocked.started.wait(web_server.TIMEOUT)
            waiting = pool.submit(server.ask, "embeddings", texts=["b"] * 32)
            line = 'albert_queue_length{endpoint="embeddings"}'
            wait_for(lambda: metric(server, line) == 32)
            assert metric(server, 'albert_queue_tokens{endpoint="embeddings"}') == 64
            refused = server.ask("embeddings", texts=["c"])
            assert refused.status == 503
            assert refused.headers["Retry-After"] == "1"
            assert "about 64 tokens may wait, and 64 do" in refused.json["error"]
            blocked.released.set()
            assert len(first.result().answers) == 1
            assert len(waiting.result().answers) == 32
        assert server.ask("embeddings", texts=["c"]).status == 200


def test_a_request_that_takes_too_long_is_refused_and_the_rest_of_it_not_computed(
    blocked,
):
    with web_server.running(
        lambda: {"encode": blocked}, max_batch_size=1, max_wait_ms=0, timeout_ms=500
    ) as server:
        reply = server.ask("embeddings", texts=["a", "b", "c"])
        assert reply.status == 503
        assert reply.headers["Retry-After"] == "1"
        assert "a request may take 0.5 s" in reply.json["error"]
        blocked.released.set()
        assert server.ask("embeddings", texts=["d"]).status == 200
    assert blocked.sizes == [1, 1]


def test_what_no_client_waits_for_is_not_computed(blocked):
    with web_server.running(
        lambda: {"encode": blocked}, max_batch_size=1, max_wait_ms=0
    ) as server:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(server.ask, "embeddings", texts=["a"])
            assert blocked.started.wait(web_server.TIMEOUT)
            sent = body(texts=["b", "c"])
            head = (
                "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: application/json\r\n"
                f"Content-Length: {len(sent)}\r\n\r\n"
            )
            with socket.create_connection(("127.0.0.1", server.port)) as leaving:
                leaving.sendall(head.encode() + sent)
                line = 'albert_queue_length{endpoint="embeddings"}'
                wait_for(lambda: metric(server, line) == 2)
            wait_for(lambda: metric(server, line) == 0)
            blocked.released.set()
            assert first.result().status == 200
        assert server.ask("embeddings", texts=["d"]).status == 200
        line = 'albert_requests_total{endpoint="/v1/embeddings",status="499"}'
        assert metric(server, line) == 1
    # "a" and "d" alone.
    assert blocked.sizes == [1, 1]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--timeout_ms=0.5", "--timeout_ms must be 1 or more"),
        ("--host=192.0.2.1", "--host and --port must be an address of this machine"),
        ("--saved_model=/nowhere", "there is no directory /nowhere"),
    ],
)
def test_wrong_flags_are_refused_in_a_line(saved_model, capsys, flag, message):
    error = binaries.error_of(
        capsys, serve, f"--saved_model={saved_model}", "--port=0", flag
    )
    assert message in error


def test_a_saved_model_of_something_else_is_refused_in_a_line(tmp_path, capsys):
    other = tf.Module()
    other.double = tf.function(
        lambda number: {"doubled": number * 2}, [tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(other, str(tmp_path), signatures={"double": other.double})
    handlers = [signal.getsignal(number) for number in SIGNALS]
    error = binaries.error_of(capsys, serve, f"--saved_model={tmp_path}", "--port=0")
    assert "must have one of the signatures fill_mask, " in error
    assert "it has double. Make one with `python -m albert_tf.export`" in error
    assert handlers == [signal.getsignal(number) for number in SIGNALS]


# ---- Pages, health and metrics ----


def test_the_model_may_load_while_the_server_runs():
    may_load = threading.Event()

    def load():
        assert may_load.wait(web_server.TIMEOUT)
        return {"encode": upper}

    with web_server.running(load, waits_for_model=False) as server:
        try:
            assert server.get("/healthz").json == {"status": "ok"}
            assert server.get("/readyz").status == 503
            early = server.ask("embeddings", texts=["a"])
            assert (early.status, early.headers["Retry-After"]) == (503, "1")
            assert "not loaded" in early.json["error"]
            assert server.get("/v1/model").json["endpoints"] == []
            assert server.get("/").status == server.get("/docs").status == 200
        finally:
            may_load.set()
        assert server.loaded.wait(web_server.TIMEOUT)
        assert server.failure is None
        assert server.get("/readyz").json == {"status": "ready"}
        assert server.ask("embeddings", texts=["abc"]).answers == [
            {"text": "abc", "num_tokens": 3, "pooled_output": [3.0]}
        ]


def test_a_model_that_cannot_be_loaded_is_reported():
    def load():
        raise ValueError("no such model")

    with web_server.running(load) as server:
        assert str(server.failure) == "no such model"
        assert server.get("/readyz").status == 503


def test_metrics_count_requests_batches_and_unknown_paths():
    with web_server.running(lambda: {"encode": upper}) as server:
        server.ask("embeddings", texts=["a", "b", "c"])
        server.ask("embeddings", texts=[])
        for number in range(3):
            server.get(f"/nothing{number}")
        assert (
            metric(server, 'albert_requests_total{endpoint="other",status="404"}') == 3
        )
        requests = 'albert_requests_total{endpoint="/v1/embeddings",status="%d"}'
        assert metric(server, requests % 200) == 1
        assert metric(server, requests % 422) == 1
        for line, value in (
            ('albert_batch_size_sum{endpoint="embeddings"}', 3),
            ('albert_batch_size_count{endpoint="embeddings"}', 1),
            ('albert_request_seconds_count{endpoint="/v1/embeddings"}', 2),
            ('albert_queue_length{endpoint="embeddings"}', 0),
            ('albert_queue_tokens{endpoint="embeddings"}', 0),
        ):
            assert metric(server, line) == value
        kind = server.get("/metrics").headers["Content-Type"]
        assert kind.startswith("text/plain")


def test_pages_ask_nothing_of_other_servers(pretrained):
    for path in ("/", "/docs"):
        reply = pretrained.get(path)
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        html = reply.body.decode()
        assert not re.findall(r"(?:https?:)?//[a-z]", html.replace("//  ", ""))
    docs = pretrained.get("/docs").body.decode()
    for word in ("POST /v1/fill-mask", "at most 20000 characters", "FillMaskRequest"):
        assert word in docs
    assert (
        "script-src 'none'"
        in pretrained.get("/docs").headers["Content-Security-Policy"]
    )
    assert "script-src 'sha256-" in page.policy(page.HTML)


def test_the_examples_of_the_api_are_answered(pretrained):
    described = pretrained.get("/openapi.json").json["components"]["schemas"]
    for endpoint in schemas.ENDPOINTS[:3]:
        (example,) = described[endpoint.request.__name__]["examples"]
        assert pretrained.ask(endpoint.name, **example).status == 200


# ---- The binary ----


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_the_binary_finishes_requests_and_ends(saved_model, number):
    command = [sys.executable, "-m", "albert_tf.serve", f"--saved_model={saved_model}"]
    process = subprocess.Popen(
        [
            *(*command, "--port=0", "--max_wait_ms=2000", "--requests_per_second=1"),
            *("--trusted_proxies=127.0.0.1", "--allowed_hosts=models.example"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert re.fullmatch(r"ready at http://127\.0\.0\.1:\d+\n", line), line
        server = web_server.Server(int(line.rsplit(":", 1)[1]))
        assert server.get("/readyz").status == 200
        for host, status in (("models.example", 200), ("other.example", 403)):
            found = server.send("GET", "/docs", headers={"Host": host}).status
            assert found == status
        for status in (422, 429):
            headers = {**web_server.JSON, "X-Forwarded-For": "10.0.0.9"}
            reply = server.send("POST", "/v1/fill-mask", "{}", headers)
            assert reply.status == status
        assert "received more from 10.0.0.9" in reply.json["error"]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            # It waits two seconds for others, and is current meanwhile.
            asked = pool.submit(server.ask, "fill-mask", texts=TEXTS)
            queue = 'albert_queue_length{endpoint="fill-mask"}'
            wait_for(lambda: metric(server, queue) == 2)
            process.send_signal(number)
            assert len(asked.result().answers) == 2
        output, error = process.communicate(timeout=web_server.TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 0
    assert output == ""
    lines = error.splitlines()
    assert not [one for one in lines if "Traceback" in one or "Error" in one], error
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_port_in_use_is_refused_before_tensorflow_is_imported(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    program = (
        "import sys; from albert_tf import serve; from tests.support import binaries\n"
        "try: binaries.run(serve, *sys.argv[1:])\n"
        "finally: print('tensorflow' in sys.modules)"
    )
    with address.listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address.url_of(listening) == f"http://127.0.0.1:{port}"
        given = [f"--saved_model={tmp_path}", f"--port={port}"]
        done = subprocess.run(
            [sys.executable, "-c", program, *given], capture_output=True, text=True
        )
    assert done.stdout == "False\n"
    assert done.stderr == (
        f"error: port {port} of 127.0.0.1 is in use; pass another --port\n"
    )
