"""Buckets of objects in memory, and what Cloud Storage's JSON API answers about them.

It knows just what TensorFlow's client asks for: objects are read from HOSTS[1], and
everything else goes through HOSTS[0].
"""

import collections
import dataclasses
import json
import pathlib
import shutil
import threading
import time
import urllib.parse
from typing import Any

HOSTS = ("www.googleapis.com", "storage.googleapis.com")
TOKEN = "of-a-test"
# Faults that only the storage can make:
HALF = "half"  # of an object's bytes the first half is kept, then 503
STALE = "stale"  # a listing from before the last object came or went
# Objects are kept in pieces of this size while an upload is cut off in the middle, as
# Cloud Storage does with its 256 KiB.
UPLOAD_UNIT = 256


@dataclasses.dataclass(frozen=True)
class Object:
    """One version of an object."""

    data: bytes
    generation: int
    updated: float = dataclasses.field(default_factory=time.time)

    def metadata(self, name: str) -> dict[str, str]:
        """What the JSON API says of it."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.updated))
        return {
            "name": name,
            "size": str(len(self.data)),
            "generation": str(self.generation),
            "updated": f"{seconds}.{int(self.updated % 1 * 1000):03d}Z",
        }


@dataclasses.dataclass
class Upload:
    """A resumable upload on its way."""

    bucket: str
    name: str
    size: int
    data: bytes = b""
    is_done: bool = False


@dataclasses.dataclass
class Answer:
    """An HTTP answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class Refused(Exception):
    """A request that ends in an error answer."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.answer = Answer(status, json.dumps({"error": reason}).encode())


class Storage:
    """Buckets of objects in memory, and the requests that they answer."""

    def __init__(self, page_size: int = 1000):
        self._page_size = page_size
        self._buckets: dict[str, dict[str, Object]] = {}
        # Of each bucket, before the last object came or went.
        self._before: dict[str, dict[str, Object]] = {}
        self._uploads: dict[str, Upload] = {}
        self._num_versions = 0
        self._lock = threading.Lock()
        self.requests: collections.Counter[str] = collections.Counter()

    # ---- To and from folders ----

    def load(self, folder: pathlib.Path) -> None:
        """Takes every FOLDER/BUCKET/NAME."""
        for bucket in sorted(folder.iterdir()):
            self._buckets[bucket.name] = {}
            for path in sorted(bucket.rglob("*")):
                if path.is_file():
                    name = path.relative_to(bucket).as_posix()
                    self._put(bucket.name, name, path.read_bytes())

    def dump(self, folder: pathlib.Path) -> None:
        """Makes FOLDER hold these objects only; a name with "/" last is a folder."""
        shutil.rmtree(folder)
        for bucket, objects in self._buckets.items():
            (folder / bucket).mkdir(parents=True)
            for name, stored in objects.items():
                path = folder / bucket / name
                (path if name.endswith("/") else path.parent).mkdir(
                    parents=True, exist_ok=True
                )
                if not name.endswith("/"):
                    path.write_bytes(stored.data)

    # ---- Requests ----

    def answer(
        self,
        method: str,
        host: str,
        url: str,
        headers: Any,
        body: bytes,
        fault: str | None,
    ) -> Answer:
        """Does what a request asks for, with a fault of `HALF` or `STALE`, if any."""
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        path = [urllib.parse.unquote(part) for part in parts.path.split("/")[1:]]
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return Refused(401, "no token").answer
        try:
            with self._lock:
                if host == HOSTS[1]:
                    return self._read(path[0], "/".join(path[1:]), headers["Range"])
                if path[0] == "session":
                    return self._continue(path[1], headers, body, fault == HALF)
                if path[0] == "upload":
                    return self._begin(path[4], query, headers)
                return self._metadata(method, path[3], path[5:], query, fault == STALE)
        except Refused as refused:
            return refused.answer

    def _metadata(self, method, bucket, rest, query, is_stale) -> Answer:
        if method == "GET" and not rest:
            self.requests["list" if query.get("fields") else "bucket"] += 1
            objects = self._bucket(bucket)
            if is_stale:
                objects = self._before.get(bucket, objects)
            return _json(self._page(objects, query) if query.get("fields") else {})
        if method == "GET" and len(rest) == 1:
            self.requests["stat"] += 1
            return _json(self._object(bucket, rest[0]).metadata(rest[0]))
        if method == "DELETE" and len(rest) == 1:
            self.requests["delete"] += 1
            self._object(bucket, rest[0])
            self._before[bucket] = dict(self._bucket(bucket))
            del self._bucket(bucket)[rest[0]]
            return Answer()
        if method == "POST" and rest[1:3] == ["rewriteTo", "b"]:
            self.requests["rewrite"] += 1
            self._put(rest[3], rest[5], self._object(bucket, rest[0]).data)
            return _json({"done": True})
        raise Refused(501, f"{method} {bucket} {rest} is not known here")

    def _page(self, objects: dict[str, Object], query: dict[str, str]) -> dict:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found: dict[str, str] = {}  # what is listed, to the kind of the entry
        for name in objects:
            if name.startswith(prefix):
                head, slash, tail = name[len(prefix) :].partition(delimiter or "\0")
                if slash:
                    found[prefix + head + slash] = "prefixes"
                else:
                    found[name] = "items"
        names = sorted(name for name in found if name > query.get("pageToken", ""))
        size = min(self._page_size, int(query.get("maxResults", self._page_size)))
        page: dict[str, Any] = collections.defaultdict(list)
        for name in names[:size]:
            is_item = found[name] == "items"
            page[found[name]].append({"name": name} if is_item else name)
        if names[size:]:
            page["nextPageToken"] = names[size - 1]
        return page

    def _read(self, bucket: str, name: str, wanted: str | None) -> Answer:
        self.requests["read"] += 1
        data = self._object(bucket, name).data
        if wanted is None:
            return Answer(200, data)
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        if first >= len(data):
            raise Refused(416, "the range begins after the end")
        piece = data[first : last + 1]
        given = f"bytes {first}-{first + len(piece) - 1}/{len(data)}"
        return Answer(206, piece, {"Content-Range": given})

    def _begin(self, bucket: str, query: dict[str, str], headers) -> Answer:
        objects, name = self._bucket(bucket), query["name"]
        if query["uploadType"] == "media":  # only empty marks of folders come this way
            self.requests["mark"] += 1
            if query.get("ifGenerationMatch") == "0" and name in objects:
                raise Refused(412, f"{name} is there")
            self._put(bucket, name, b"")
            return Answer()
        self.requests["upload"] += 1
        key = str(len(self._uploads))
        size = int(headers["X-Upload-Content-Length"])
        self._uploads[key] = Upload(bucket, name, size)
        return Answer(headers={"Location": f"https://{HOSTS[0]}/session/{key}"})

    def _continue(self, key: str, headers, body: bytes, keep_half: bool) -> Answer:
        upload = self._uploads[key]
        wanted = headers["Content-Range"] or "bytes 0-0/0"
        place, _, total = wanted.removeprefix("bytes ").partition("/")
        if int(total) != upload.size:
            raise Refused(400, f"{wanted} of an upload of {upload.size} bytes")
        if place == "*":
            self.requests["ask"] += 1
        elif not upload.is_done:
            self.requests["put"] += 1
            if int(place.split("-")[0]) != len(upload.data):
                raise Refused(400, f"{wanted} after {len(upload.data)} bytes")
            if keep_half:
                kept = len(body) // 2 // UPLOAD_UNIT * UPLOAD_UNIT
                upload.data += body[:kept]
                raise Refused(503, "half of it was kept")
            upload.data += body
            if len(upload.data) == upload.size:
                upload.is_done = True
                self._put(upload.bucket, upload.name, upload.data)
        if upload.is_done:
            return Answer()
        kept = {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
        return Answer(308, b"", kept)

    def _bucket(self, bucket: str) -> dict[str, Object]:
        if bucket not in self._buckets:
            raise Refused(404, f"no bucket {bucket}")
        return self._buckets[bucket]

    def _object(self, bucket: str, name: str) -> Object:
        if name not in self._bucket(bucket):
            raise Refused(404, f"no object {name}")
        return self._bucket(bucket)[name]

    def _put(self, bucket: str, name: str, data: bytes) -> None:
        self._num_versions += 1
        if name not in self._bucket(bucket):
            self._before[bucket] = dict(self._bucket(bucket))
        self._bucket(bucket)[name] = Object(data, self._num_versions)


def _json(value: Any) -> Answer:
    return Answer(200, json.dumps(value).encode())
