"""Models of the Hugging Face Hub: what is fetched, said before, and refused."""

import os
import pathlib

import pytest
import safetensors.numpy

from albert_tf import convert
from albert_tf.interchange import formats, hub_download
from tests.support import binaries, published_models, weight_server

NAME = "albert/albert-base-v2"
COMMIT = weight_server.COMMIT


def _copy(folder: pathlib.Path, target: pathlib.Path, *names: str) -> pathlib.Path:
    target.mkdir()
    for name in names:
        (target / name).write_bytes((folder / name).read_bytes())
    return target


def _files(server) -> list[str]:
    """The names of the files of the Hub whose bytes were asked for."""
    found = [path for path in server.asked if path.startswith("GET /" + NAME)]
    return sorted(path.rpartition("/")[2] for path in found)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> pathlib.Path:
    return published_models.write("hf", tmp_path_factory.mktemp("published"))


@pytest.fixture
def on_the_hub(published, lead_to):
    """A server with the model, beside files that are not fetched."""
    (published / "pytorch_model.bin").write_bytes(b"a pickle")
    (published / "README.md").write_text("# A model")
    with weight_server.running() as server:
        lead_to(server.address)
        server.models[NAME] = published
        yield server


def test_what_is_fetched_is_said_before(on_the_hub, published):
    sizes = {path.name: path.stat().st_size for path in published.iterdir()}
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
    lead_to(weight_server.NOWHERE)
    said = []
    assert hub_download.fetch(NAME, revision, said.append) == folder
    whence = f"{weight_server.NOWHERE}/{NAME} at commit {COMMIT}"
    assert said[0] == f"in the cache already, nothing is fetched: {whence}"


def test_without_a_network_one_line_says_what_to_do(lead_to, tmp_path, capsys):
    caches = lead_to(weight_server.NOWHERE)
    error = binaries.error_of(
        capsys,
        convert,
        *(f"--from=hf:{NAME}", "--download", f"--to=run:{tmp_path}/new/run"),
    )
    assert error == (
        f"{weight_server.NOWHERE} cannot be reached, and not all of {NAME} is in the "
        f"cache {caches}/hub. Check the network; or fetch it where there is one, by "
        f"`hf download {NAME} --local-dir=DIR`, and pass --from=hf:DIR without "
        "--download"
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
    found = published_models.read("hf", fetched)
    assert len(found.weights) > 20


def test_the_command_fetches_and_converts(on_the_hub, tmp_path, capsys):
    target = tmp_path / "run"
    source = f"--from=hf:{NAME}"
    binaries.run(convert, source, "--download", f"--to=run:{target}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fetching 4 files, ")
    assert any(line.startswith("from hf:") and COMMIT in line for line in lines)
    found = published_models.read("run", str(target))
    for name, value in published_models.MODEL.weights.items():
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
            "keras:albert_base_en_uncased",
            "--from must name a model; there is no albert_base_en_uncased. If it is "
            "the name of a preset of KerasHub, such as albert_base_en_uncased, add "
            "--download to fetch it",
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
