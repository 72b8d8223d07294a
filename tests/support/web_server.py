"""A real server on a free port of the loopback, and a client that knows no rules."""

import contextlib
import http.client
import json
import threading
from collections.abc import Collection
from typing import Any, NamedTuple

from albert_tf.inference import saved_model_dir
from albert_tf.web import address, middleware, protocol
from albert_tf.web import app as app_lib
from albert_tf.web import server as server_lib
from albert_tf.web import settings as settings_lib

JSON = {"Content-Type": "application/json"}
_DESCRIPTION = saved_model_dir.Description("model")
TIMEOUT = 300  # seconds, after which something hangs, however busy the machine


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def answers(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.body
        return self.json["answers"]


class Server:
    """Where the server is, and what it said of its model."""

    def __init__(self, port: int):
        self.port = port
        self.loaded = threading.Event()
        self.failure: BaseException | None = None
        self.engine: server_lib.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def on_loaded(self, failure: BaseException | None) -> None:
        self.failure = failure
        self.loaded.set()

    def send(
        self, method: str, path: str, body=None, headers=JSON, source="127.0.0.1"
    ) -> Reply:
        """Sends bytes as they are, from an address of the loopback."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, TIMEOUT, source_address=(source, 0)
        )
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def ask(self, endpoint: str, source="127.0.0.1", **body: Any) -> Reply:
        content = json.dumps(body)
        return self.send("POST", f"/v1/{endpoint}", content, source=source)


@contextlib.contextmanager
def running(
    load,
    *,
    waits_for_model: bool = True,
    allowed_hosts: Collection[str] = middleware.LOOPBACK_HOSTS,
    trusted_proxies: Collection[str] = (),
    connections: protocol.ConnectionLimits = protocol.DEFAULT,
    description: saved_model_dir.Description = _DESCRIPTION,
    **settings: Any,
):
    """A server in a thread of its own.

    Args:
      load: gives the functions by signature.
      waits_for_model: whether to come back only when the model is loaded.
      allowed_hosts: as `app.create` takes them.
      trusted_proxies: as `server.make` takes them.
      connections: their limits.
      description: of the model.
      **settings: what differs from the defaults; the rate is not limited.
    """
    settings = {"requests_per_second": 100_000, **settings}
    with address.listen("127.0.0.1", 0) as listening:
        server = Server(listening.getsockname()[1])
        app = app_lib.create(
            load,
            settings_lib.ServerSettings(**settings),
            server.on_loaded,
            allowed_hosts=allowed_hosts,
            description=description,
        )
        engine = server.engine = server_lib.make(
            app, tuple(trusted_proxies), connections
        )
        thread = threading.Thread(target=engine.run, args=([listening],), daemon=True)
        thread.start()
        try:
            assert not waits_for_model or server.loaded.wait(TIMEOUT)
            yield server
        finally:
            engine.should_exit = True
            thread.join(TIMEOUT)
            assert not thread.is_alive()
