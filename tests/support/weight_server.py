"""A server on loopback for published weights: Hugging Face's Hub, Kaggle, archives."""

import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
from collections.abc import Iterator

# Nothing listens there, so that every connection is refused.
NOWHERE = "http://127.0.0.1:9"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
_HUB = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/?]+))?(?:\?.*)?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_KAGGLE = "/v1/models.ModelApiService/"


class Server(http.server.ThreadingHTTPServer):
    """Answers as the three hosts do.

    Attributes:
      models: directories of models on the Hub, by OWNER/MODEL, each of one commit.
      presets: directories of presets, by what Kaggle calls them.
      archives: bytes by path.
      gated: the models that take a login.
      asked: "METHOD PATH" of each request.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models: dict[str, pathlib.Path] = {}
        self.presets: dict[str, pathlib.Path] = {}
        self.archives: dict[str, bytes] = {}
        self.gated: set[str] = set()
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        """http://127.0.0.1:PORT."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Says nothing of clients that hang up."""


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """Yields a server that runs until the block ends."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self):  # noqa: N802  (http.server's name)
        self.do_GET()

    def do_GET(self):  # noqa: N802
        self.server.asked.append(f"{self.command} {self.path}")
        if match := _HUB.fullmatch(self.path):
            self._hub(*match.groups())
        elif match := _FILE.fullmatch(self.path):
            self._file(*match.groups())
        elif self.path in self.server.archives:
            self._send(self.server.archives[self.path])
        else:
            self._send(b"", 404)

    def do_POST(self):  # noqa: N802
        length = int(self.headers["Content-Length"])
        asked = json.loads(self.rfile.read(length))
        self.server.asked.append(f"POST {self.path} {asked.get('path', '')}".rstrip())
        handle = "/".join(
            str(asked[key])
            for key in ("ownerSlug", "modelSlug", "instanceSlug", "versionNumber")
        )
        folder = self.server.presets.get(handle)
        if folder is None:
            self._json({"code": 404, "message": "Not found"}, 404)
        elif self.path == f"{_KAGGLE}ListModelInstanceVersionFiles":
            found = [{"name": n, "size": s} for n, s in _sizes(folder).items()]
            self._json({"files": found, "nextPageToken": ""})
        else:
            self._send((folder / asked["path"]).read_bytes())

    def _hub(self, name: str, kind: str | None, revision: str | None) -> None:
        folder = self.server.models.get(name)
        if name in self.server.gated:
            self._refuse("GatedRepo", 403)
        elif folder is None:
            self._refuse("RepoNotFound", 401)
        elif revision not in (None, "main", COMMIT):
            self._refuse("RevisionNotFound", 404)
        elif kind == "tree":
            self._json(
                [
                    {"type": "file", "path": n, "size": s, "oid": "0" * 40}
                    for n, s in _sizes(folder).items()
                ]
            )
        else:
            files = [{"rfilename": n, "size": s} for n, s in _sizes(folder).items()]
            self._json({"id": name, "sha": COMMIT, "siblings": files})

    def _file(self, name: str, revision: str, file: str) -> None:
        content = (self.server.models[name] / file).read_bytes()
        etag = hashlib.sha256(content).hexdigest()
        self._send(content, headers={"ETag": f'"{etag}"', "X-Repo-Commit": revision})

    def _refuse(self, code: str, status: int) -> None:
        self._send(b"", status, {"X-Error-Code": code})

    def _json(self, values, status: int = 200) -> None:
        kind = {"Content-Type": "application/json"}
        self._send(json.dumps(values).encode(), status, kind)

    def _send(self, content: bytes, status: int = 200, headers=None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        """Says nothing."""


def _sizes(folder: pathlib.Path) -> dict[str, int]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): p.stat().st_size for p in paths}
