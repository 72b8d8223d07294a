"""Presets of KerasHub: what is fetched, said before, and refused."""

import pathlib
import shutil

import pytest

from albert_tf.interchange import conversion, kaggle_download, portable, weight_map
from tests.support import published_models, weight_server

PRESET = "albert_base_en_uncased"
HANDLE = "keras/albert/albert_base_en_uncased"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> pathlib.Path:
    return published_models.write("keras", tmp_path_factory.mktemp("published"))


@pytest.fixture
def on_kaggle(published, lead_to):
    (published / "notes.txt").write_text("not of the preset")
    with weight_server.running() as server:
        lead_to(server.address)
        server.presets[f"{HANDLE}/5"] = published
        yield server


def test_a_preset_is_fetched_and_stays_in_the_cache(on_kaggle, lead_to):
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
    found, expected = published_models.read("keras", folder), published_models.MODEL
    name = "encoder/embeddings/word_embeddings"
    assert found.weights[name].tobytes() == expected.weights[name].tobytes()
    assert found.vocab == expected.vocab
    lead_to(weight_server.NOWHERE)
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
    lead_to(weight_server.NOWHERE)
    with pytest.raises(ValueError, match="^Kaggle cannot be reached, and albert_base"):
        kaggle_download.fetch(PRESET, "", print)


def test_a_masked_lm_without_weights_of_its_head_is_a_backbone(published, tmp_path):
    folder = tmp_path / "preset"
    shutil.copytree(published, folder, ignore=shutil.ignore_patterns("task.weights.h5"))
    report = weight_map.ConversionReport()
    found = conversion.READERS["keras"](str(folder), portable.ReadOptions(), report)
    assert found.parts == (portable.ENCODER, portable.POOLER)
    line = "  AlbertMaskedLM has no weights of its own: the backbone alone"
    assert line in report.lines
