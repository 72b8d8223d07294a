"""Archives of ALBERT's authors: what is fetched, said before, and refused."""

import gzip
import hashlib
import io
import pathlib
import tarfile
import time

import pytest

from albert_tf.interchange import archive_download
from tests.support import published_models, weight_server

ARCHIVE = "albert_base_v2"
PATH = f"/albert_models/{ARCHIVE}.tar.gz"


def _archive(
    *members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT
) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=format) as opened:
        for member, content in members:
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _member(name: str, content: bytes = b"", **attributes):
    member = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(member, key, value)
    return member, content


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> pathlib.Path:
    return published_models.write("tf1", tmp_path_factory.mktemp("published"))


@pytest.fixture
def of_authors(published, lead_to):
    paths = sorted(published.iterdir())
    members = [_member(f"albert_base/{p.name}", p.read_bytes()) for p in paths]
    with weight_server.running() as server:
        lead_to(server.address)
        server.archives[PATH] = _archive(*members)
        yield server


def test_the_addresses_are_those_that_were_published():
    assert len(archive_download.NAMES) == 12
    assert f"{archive_download._ADDRESS}/{archive_download.NAMES[0]}.tar.gz" == (
        "https://storage.googleapis.com/albert_models/albert_base_v2.tar.gz"
    )


def test_an_archive_is_fetched_with_its_digest(of_authors, lead_to):
    content = of_authors.archives[PATH]
    digest = hashlib.sha256(content).hexdigest()
    said = []
    folder = archive_download.fetch(ARCHIVE, "", said.append)
    address = of_authors.address + PATH
    assert said[:3] == [
        f"fetching 1 file, {len(content):,} bytes, from {address}:",
        f"  {ARCHIVE}.tar.gz, {len(content):,} bytes",
        f"SHA-256 {digest}, which is unknown here: its authors published none to "
        f"compare it with. To require it, pass --revision={digest}",
    ]
    found = published_models.read("tf1", folder)
    assert found.vocab == published_models.MODEL.vocab
    assert set(found.weights) == set(published_models.MODEL.weights)
    # By its address, required, and from the cache.
    assert archive_download.fetch(address, digest.upper(), said.append) == folder
    assert of_authors.asked == [f"GET {PATH}"]
    assert said[-2] == f"SHA-256 {digest}, as --revision requires"


def test_another_archive_than_that_required_is_refused(of_authors, tmp_path):
    for _ in range(2):
        with pytest.raises(ValueError, match="must have the SHA-256 that --revision"):
            archive_download.fetch(ARCHIVE, "0" * 64, print)
    assert not (tmp_path / "caches").exists()
    archive_download.fetch(ARCHIVE, "", print)
    with pytest.raises(ValueError, match="which was fetched before, must have the SHA"):
        archive_download.fetch(ARCHIVE, "0" * 64, print)


HOSTILE = {
    "a path outside": _member("../outside"),
    "a path that leaves later": _member("albert_base/../../outside"),
    "a symbolic link": _member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a link inside": _member("a", type=tarfile.SYMTYPE, linkname="b"),
    "a hard link": _member("a", type=tarfile.LNKTYPE, linkname="../outside"),
    "a device": _member("a", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a pipe": _member("a", type=tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_an_archive_with_anything_but_files_inside_is_refused(
    of_authors, tmp_path, name
):
    of_authors.archives[PATH] = _archive(_member("albert_base/a", b"a"), HOSTILE[name])
    with pytest.raises(
        ValueError, match="cannot be extracted: .*Nothing of it was kept"
    ):
        archive_download.fetch(ARCHIVE, "", print)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("damage", ["garbage", "cut off", "flipped", "too large"])
def test_a_damaged_archive_is_refused(of_authors, tmp_path, monkeypatch, damage):
    content = of_authors.archives[PATH]
    middle = len(content) // 2
    of_authors.archives[PATH] = {
        "garbage": b"<html>not found</html>",
        "cut off": content[:middle],
        "flipped": content[:middle] + bytes(64) + content[middle + 64 :],
        "too large": content,
    }[damage]
    if damage == "too large":
        monkeypatch.setattr(archive_download, "_MAX_BYTES", 1000)
    with pytest.raises(
        ValueError, match="cannot be extracted: .*Nothing of it was kept"
    ):
        archive_download.fetch(ARCHIVE, "", print)
    assert list(tmp_path.rglob("*")) == []


def _extract(tmp_path, content: bytes) -> pathlib.Path:
    tmp_path.mkdir(exist_ok=True)
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(content)
    archive_download._extract(str(packed), str(tmp_path / "folder"), "ADDRESS")
    return tmp_path / "folder"


def test_an_absolute_path_is_refused(tmp_path):
    outside = tmp_path / "outside"
    with pytest.raises(ValueError, match="outside' is outside of the archive"):
        _extract(tmp_path / "a", _archive(_member(str(outside), b"x")))
    assert not outside.exists()


def test_a_time_that_no_system_knows_is_not_set(tmp_path):
    made = time.time()
    # In 12 digits to the base of 8, and as a binary number.
    for number, seconds in enumerate((0o77777777777, 2**70)):
        content = _archive(_member("a", b"x", mtime=seconds), format=tarfile.GNU_FORMAT)
        folder = _extract(tmp_path / str(number), content)
        assert made - 5 < (folder / "a").stat().st_mtime < time.time() + 5


def _long_name_headers(count: int) -> bytes:
    """Headers, each of which tells the name of the next, and so on."""
    header = _member("a", type=tarfile.GNUTYPE_LONGNAME)[0].tobuf(tarfile.GNU_FORMAT)
    return gzip.compress(header * count)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_archive(_member("a" * 5000)), "File name too long"),
        (_archive(_member("a\0b\nc", pax_headers={"path": "a\0b\nc"})), "null byte"),
        (_long_name_headers(3000), "recursion"),
        (_archive(*[_member(f"{n}") for n in range(1001)]), "more than 1000 members"),
        (
            gzip.compress(gzip.decompress(_archive(_member("a"))) + bytes(50_000)),
            "too many bytes after its members",
        ),
    ],
    ids=["a long name", "a null byte", "long names", "many members", "zeros"],
)
def test_hostile_headers_are_named_in_a_short_line(
    tmp_path, monkeypatch, content, message
):
    monkeypatch.setattr(archive_download, "_MAX_BYTES", 40_000)
    with pytest.raises(ValueError, match=f"^ADDRESS cannot be .*{message}") as info:
        _extract(tmp_path, content)
    assert len(str(info.value)) < 400 and "\n" not in str(info.value)


def test_an_archive_without_a_checkpoint_is_refused(of_authors, tmp_path):
    of_authors.archives[PATH] = _archive(_member("notes.txt", b"nothing"))
    with pytest.raises(ValueError, match="must hold one albert_config.*; it holds 0"):
        archive_download.fetch(ARCHIVE, "", print)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "name",
    [
        "albert_tiny_v2",
        "https://example.org/albert_models/albert_base_v2.tar.gz",
        "http://storage.googleapis.com/albert_models/albert_base_v2.tar.gz",
        "../albert_base_v2",
    ],
)
def test_only_published_archives_are_fetched(name):
    with pytest.raises(
        ValueError, match="archives of ALBERT's authors are albert_base"
    ):
        archive_download.fetch(name, "", print)


@pytest.mark.parametrize("is_there", [True, False])
def test_an_archive_that_does_not_come_is_named(of_authors, lead_to, is_there):
    if is_there:
        lead_to(weight_server.NOWHERE)
    else:
        of_authors.archives.clear()
    with pytest.raises(ValueError, match="cannot be fetched .*pass --from=tf1:DIR"):
        archive_download.fetch(ARCHIVE, "", print)
