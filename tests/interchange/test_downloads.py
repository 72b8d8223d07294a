"""Published weights: what is fetched, what is said before, and what is refused."""

import dataclasses
import hashlib
import io
import os
import pathlib
import tarfile

import huggingface_hub.constants
import kagglesdk.kaggle_env
import pytest
import safetensors.numpy

from albert_tf import convert
from albert_tf.core import config
from albert_tf.interchange import (
    archive_download,
    conversion,
    formats,
    hub_download,
    kaggle_download,
    native,
    portable,
    weight_map,
)
from tests.support import binaries, portable_models, small_run, weight_server

NAME = "albert/albert-base-v2"
COMMIT = weight_server.COMMIT
PRESET = "albert_base_en_uncased"
HANDLE = "keras/albert/albert_base_en_uncased"
OPTIONS = portable.ReadOptions()
# Nothing listens there, so that every connection is refused.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def model() -> portable.PortableModel:
    vocab = small_run.VOCAB.read_bytes()
    return dataclasses.replace(portable_models.draw(vocab_size=4000), vocab=vocab)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory) -> dict[str, pathlib.Path]:
    """The model in the formats that are fetched."""
    folders = {name: tmp_path_factory.mktemp(name) for name in formats.DOWNLOADED}
    for name, folder in folders.items():
        report = weight_map.ConversionReport()
        conversion.write(name, model, str(folder), config.Config(), report)
    return folders


@pytest.fixture
def server():
    with weight_server.running() as found:
        yield found


@pytest.fixture
def lead_to(monkeypatch, tmp_path):
    """Leads the clients to an address, with caches of their own."""
    caches = tmp_path / "caches"
    hub = huggingface_hub.constants
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(caches / "hub"))
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(caches / "kaggle"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    # No one's login is used.
    monkeypatch.setattr(hub, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setenv("HOME", str(tmp_path))

    def lead(address: str) -> pathlib.Path:
        monkeypatch.setattr(hub, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(hub, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setitem(
            kagglesdk.kaggle_env._env_to_endpoint,
            kagglesdk.kaggle_env.KaggleEnv.PROD,
            address,
        )
        archives = f"{address}/albert_models"
        monkeypatch.setattr(archive_download, "_ADDRESS", archives)
        return caches

    return lead


def _copy(folder: pathlib.Path, target: pathlib.Path, *names: str) -> pathlib.Path:
    target.mkdir()
    for name in names:
        (target / name).write_bytes((folder / name).read_bytes())
    return target


def _files(server) -> list[str]:
    """The names of the files of the Hub whose bytes were asked for."""
    found = [path for path in server.asked if path.startswith("GET /" + NAME)]
    return sorted(path.rpartition("/")[2] for path in found)


# ---- The Hugging Face Hub ----


@pytest.fixture
def on_the_hub(server, written, lead_to) -> weight_server.Server:
    """A server with the model, beside files that are not fetched."""
    folder = written["hf"]
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "README.md").write_text("# A model")
    server.models[NAME] = folder
    lead_to(server.address)
    return server


def test_what_is_fetched_is_said_before(on_the_hub, written):
    sizes = {path.name: path.stat().st_size for path in written["hf"].iterdir()}
    names = ["config.json", "spiece.model", "tokenizer_config.json"]
    names.append("model.safetensors")
    said = []

    def say(line: str) -> None:
        said.append((line, _files(on_the_hub)))

    folder = hub_download.fetch(NAME, "", say)
    total = sum(sizes[name] for name in names)
    expected = [
        f"fetching 4 files, {total:,} bytes, from {on_the_hub.address}/{NAME} at "
        f"commit {COMMIT}:",
        *(f"  {name}, {sizes[name]:,} bytes" for name in names),
    ]
    assert said[:-1] == [(line, []) for line in expected]
    assert said[-1] == (f"in {folder}", sorted(names))
    assert sorted(os.listdir(folder)) == sorted(names)
    assert folder.endswith(
        f"/caches/hub/models--albert--albert-base-v2/snapshots/{COMMIT}"
    )


@pytest.mark.parametrize("revision", ["", "main", COMMIT])
def test_what_is_in_the_cache_needs_no_network(on_the_hub, lead_to, revision):
    folder = hub_download.fetch(NAME, revision, print)
    lead_to(NOWHERE)
    said = []
    assert hub_download.fetch(NAME, revision, said.append) == folder
    whence = f"{NOWHERE}/{NAME} at commit {COMMIT}"
    assert said[0] == f"in the cache already, nothing is fetched: {whence}"


def test_without_a_network_one_line_says_what_to_do(lead_to, tmp_path, capsys):
    caches = lead_to(NOWHERE)
    error = binaries.error_of(
        capsys,
        convert,
        *(f"--from=hf:{NAME}", "--download", f"--to=run:{tmp_path}/new/run"),
    )
    assert error == (
        f"{NOWHERE} cannot be reached, and not all of {NAME} is in the cache "
        f"{caches}/hub. Check the network; or fetch it where there is one, by `hf "
        f"download {NAME} --local-dir=DIR`, and pass --from=hf:DIR without --download"
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("albert/albert-base-v9", "", "there is no model albert/albert-base-v9 at"),
        ("someone/gated", "", "is for those who accept its terms"),
        (NAME, "v9", "--revision must be a branch, tag or commit .* received 'v9'"),
        ("a/b/c", "", "must give OWNER/MODEL, .* received 'a/b/c'"),
    ],
)
def test_what_the_hub_does_not_give_is_named(on_the_hub, name, revision, message):
    on_the_hub.gated.add("someone/gated")
    with pytest.raises(ValueError, match=message):
        hub_download.fetch(name, revision, print)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "pytorch_model.bin",
            "It holds pytorch_model.bin, a pickle, which can run any",
        ),
        ("tf_model.h5", "It holds tf_model.h5, weights of TensorFlow: .*from_tf=True"),
        ("flax_model.msgpack", "weights of Flax: .*from_flax=True"),
        ("model-00001-of-00002.safetensors", "a part of the weights: copy model.saf"),
        ("notes.txt", "Give a model that has its weights as safetensors"),
    ],
)
def test_without_safetensors_nothing_is_fetched(on_the_hub, tmp_path, file, message):
    folder = _copy(on_the_hub.models[NAME], tmp_path / "other", "config.json")
    (folder / file).touch()
    on_the_hub.models[NAME] = folder
    with pytest.raises(ValueError, match=f"nothing was fetched. .*{message}"):
        hub_download.fetch(NAME, "", print)
    assert _files(on_the_hub) == []


def test_weights_in_several_files_are_fetched_with_their_index(on_the_hub, tmp_path):
    source = on_the_hub.models[NAME]
    folder = _copy(source, tmp_path / "parts", "config.json", "spiece.model")
    arrays = safetensors.numpy.load_file(source / "model.safetensors")
    names = {
        n: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, n in enumerate(arrays)
    }
    for part in set(names.values()):
        kept = {name: value for name, value in arrays.items() if names[name] == part}
        safetensors.numpy.save_file(kept, folder / part)
    weights = {f'"{name}": "{part}"' for name, part in names.items()}
    index = f'{{"weight_map": {{{", ".join(weights)}}}}}'
    (folder / "model.safetensors.index.json").write_text(index)
    (folder / "adapter.safetensors").touch()
    on_the_hub.models[NAME] = folder
    fetched = hub_download.fetch(NAME, "", print)
    assert len(os.listdir(fetched)) == 5
    report = weight_map.ConversionReport()
    found = conversion.READERS["hf"](fetched, OPTIONS, report)
    assert len(found.weights) > 20


def test_the_command_fetches_and_converts(on_the_hub, model, tmp_path, capsys):
    target = tmp_path / "run"
    source = f"--from=hf:{NAME}"
    binaries.run(convert, source, "--download", f"--to=run:{target}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fetching 4 files, ")
    assert any(line.startswith("from hf:") and COMMIT in line for line in lines)
    found = native.read(str(target), OPTIONS, weight_map.ConversionReport())
    for name, value in model.weights.items():
        assert found.weights[name].tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (
            f"hf:{NAME}",
            "--from must name a model; there is no albert/albert-base-v2. If it is the "
            "name of a model on the Hugging Face Hub, such as albert/albert-base-v2, "
            "add --download to fetch it",
        ),
        (
            f"keras:{PRESET}",
            f"--from must name a model; there is no {PRESET}. If it is the name of a "
            f"preset of KerasHub, such as {PRESET}, add --download to fetch it",
        ),
        (
            "tf1:https://storage.googleapis.com/albert_models/albert_base_v2.tar.gz",
            "--from must name a model; there is no https://storage.googleapis.com/"
            "albert_models/albert_base_v2.tar.gz. If it is the name or address of an "
            "archive of ALBERT's authors, such as albert_base_v2, add --download to "
            "fetch it",
        ),
        ("hf:/models/mine", "--from must name a model; there is no /models/mine"),
        ("run:mine", "--from must name a model; there is no mine"),
    ],
)
def test_a_name_that_is_no_directory_gets_advice(source, advice):
    with pytest.raises(ValueError) as info:
        formats.locate(source, "run:there")
    assert str(info.value) == advice


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--from=run:mine", "--download"], "fetches models of the formats hf, keras"),
        (["--from=hf:{here}", "--download"], "is here already. Omit --download to"),
        (["--from=hf:{here}", "--revision=main"], "pass --download too, or omit it"),
    ],
)
def test_flags_that_contradict_are_refused(tmp_path, capsys, flags, message):
    given = [flag.format(here=tmp_path) for flag in flags]
    target = f"--to=run:{tmp_path}/run"
    assert message in binaries.error_of(capsys, convert, *given, target)


# ---- KerasHub ----


@pytest.fixture
def on_kaggle(server, written, lead_to) -> weight_server.Server:
    (written["keras"] / "notes.txt").write_text("not of the preset")
    server.presets[f"{HANDLE}/5"] = written["keras"]
    lead_to(server.address)
    return server


def test_a_preset_is_fetched_and_stays_in_the_cache(on_kaggle, model, lead_to):
    said = []
    folder = kaggle_download.fetch(PRESET, "", said.append)
    source = on_kaggle.presets[f"{HANDLE}/5"]
    wanted = ["task.json", "task.weights.h5", "assets/tokenizer/vocabulary.spm"]
    wanted += ["model.weights.h5", "config.json"]
    sizes = {name: (source / name).stat().st_size for name in wanted}
    url = "https://kaggle.com/models/keras/albert/keras/albert_base_en_uncased/5"
    assert said == [
        f"fetching 5 files, {sum(sizes.values()):,} bytes, from {url}, version 5:",
        *(f"  {name}, {size:,} bytes" for name, size in sizes.items()),
        f"in {folder}",
    ]
    method = "POST /v1/models.ModelApiService/DownloadModelInstanceVersion"
    assert on_kaggle.asked[1:] == [f"{method} {name}" for name in wanted]
    found = conversion.READERS["keras"](folder, OPTIONS, weight_map.ConversionReport())
    name = "encoder/embeddings/word_embeddings"
    assert found.weights[name].tobytes() == model.weights[name].tobytes()
    assert found.vocab == model.vocab
    lead_to(NOWHERE)
    assert kaggle_download.fetch(PRESET, "", said.append) == folder
    assert said[-2] == f"in the cache already, nothing is fetched: {url}, version 5"


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("albert_tiny", "", "are albert_base_en_uncased, .* received 'albert_tiny'"),
        (PRESET, "main", "must be the number of its version .* received 'main'"),
        (PRESET, "4", "Kaggle does not give https://kaggle.com/.*/4: 404 Client Error"),
    ],
)
def test_what_kaggle_does_not_give_is_named(on_kaggle, name, revision, message):
    with pytest.raises(ValueError, match=message):
        kaggle_download.fetch(name, revision, print)


def test_without_a_network_a_preset_is_not_had(lead_to):
    lead_to(NOWHERE)
    with pytest.raises(ValueError, match="^Kaggle cannot be reached, and albert_base"):
        kaggle_download.fetch(PRESET, "", print)


def test_a_masked_lm_without_weights_of_its_head_is_a_backbone(written, tmp_path):
    source, folder = written["keras"], tmp_path / "preset"
    names = ("config.json", "task.json", "model.weights.h5")
    _copy(source, folder, *names)
    report = weight_map.ConversionReport()
    options = portable.ReadOptions(vocab_path=str(small_run.VOCAB))
    found = conversion.READERS["keras"](str(folder), options, report)
    assert found.parts == (portable.ENCODER, portable.POOLER)
    assert (
        "  AlbertMaskedLM has no weights of its own: the backbone alone" in report.lines
    )


# ---- Archives of ALBERT's authors ----

ARCHIVE = "albert_base_v2"
PATH = f"/albert_models/{ARCHIVE}.tar.gz"


def _archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for member, content in members:
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _member(name: str, content: bytes = b"", **attributes):
    member = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(member, key, value)
    return member, content


@pytest.fixture
def of_authors(server, written, lead_to) -> weight_server.Server:
    paths = sorted(path for path in written["tf1"].iterdir())
    members = [_member(f"albert_base/{p.name}", p.read_bytes()) for p in paths]
    server.archives[PATH] = _archive(*members)
    lead_to(server.address)
    return server


def test_the_addresses_are_those_that_were_published():
    assert len(archive_download.NAMES) == 12
    assert f"{archive_download._ADDRESS}/{archive_download.NAMES[0]}.tar.gz" == (
        "https://storage.googleapis.com/albert_models/albert_base_v2.tar.gz"
    )


def test_an_archive_is_fetched_with_its_digest(of_authors, model, lead_to):
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
    found = conversion.READERS["tf1"](folder, OPTIONS, weight_map.ConversionReport())
    assert found.vocab == model.vocab and set(found.weights) == set(model.weights)
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
        lead_to(NOWHERE)
    else:
        of_authors.archives.clear()
    with pytest.raises(ValueError, match="cannot be fetched .*pass --from=tf1:DIR"):
        archive_download.fetch(ARCHIVE, "", print)
