"""Memory and order of records for large input; the figures are in docs/data.md."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from albert_tf.data import schema
from data_prep.records import reader
from tests.support import small_run

# Prints the peak memory, in MB, of the process and of its largest worker. Its own is
# read from /proc: that of getrusage includes the parent that it was forked from.
_DRIVER = """
import json, re, resource, sys
from albert_tf.core import config_io
from data_prep.pipeline import local_run
local_run.create_pretraining_data(
    sys.argv[1], sys.argv[2], sys.argv[3],
    config_io.load("", json.loads(sys.argv[4])), num_workers=int(sys.argv[5]),
)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def peak_megabytes(corpus, output, num_workers=1, overrides=()):
    """The peak memory of the calling process and of the largest worker."""
    settings = json.dumps(["model.vocab_size=4000", *overrides])
    command = [sys.executable, "-c", _DRIVER, str(corpus), str(small_run.VOCAB)]
    result = subprocess.run(
        [*command, str(output), settings, str(num_workers)],
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(line) for line in result.stdout.split()]


def write_text(path, num_bytes, seed=0):
    """Documents of random words."""
    rng = np.random.default_rng(seed)
    words = np.array(
        ["the", "river", "of", "town", "house,", "bird", "small", "was", "under", "in"]
    )
    with open(path, "w") as file:
        while file.tell() < num_bytes:
            lines = rng.choice(words, (400, 12))
            file.write("\n".join(" ".join(line) + "." for line in lines) + "\n\n")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    write_text(small, 12 << 20)
    write_text(large, 72 << 20)
    settings = ("data.dupe_factor=2", "data.shard_megabytes=16")
    for num_workers in (1, 2):
        before = peak_megabytes(
            small, tmp_path / f"s{num_workers}", num_workers, settings
        )
        after = peak_megabytes(
            large, tmp_path / f"l{num_workers}", num_workers, settings
        )
        assert max(after) < 700
        assert max(after) < 1.35 * max(before)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["a document", "a line"])
def test_huge_documents_and_lines_are_read_in_bounded_memory(tmp_path, shape):
    size = (50 << 20) if shape == "a document" else (10 << 20)
    path = tmp_path / "huge.txt"
    write_text(path, size)
    text = path.read_text().replace("\n\n", "\n")
    path.write_text(text if shape == "a document" else text.replace("\n", " "))
    (tmp_path / "other.txt").write_text(
        "A short one.\nOf two lines.\n\nAnother.\nOne.\n"
    )
    (peak, _) = peak_megabytes(
        f"{tmp_path}/*.txt", tmp_path / "out", 1, ["data.heldout_rate=0"]
    )
    assert peak < 1500
    text = (tmp_path / "out" / schema.MANIFEST_FILE).read_text()
    manifest = schema.Manifest.from_json(text)
    assert manifest.documents["read"] == 3
    statistics = manifest.splits[schema.TRAIN].statistics
    assert statistics["tokens_in"] == statistics["tokens_used"]


def _write_huge(path, shape):
    """Text that would take gigabytes without the bounds of `text.max_…`."""
    if shape == "a line without a space":
        path.write_text("x" * (50 << 20))
    elif shape == "a document that grows":
        # NFKC makes 18 characters of each.
        path.write_text(("\ufdfa" * 100 + "\n") * 160_000)
    else:
        write_text(path, (50 if shape == "a line" else 150) << 20)
        separator = " " if shape == "a line" else "\n"
        text = path.read_text().replace("\n\n", "\n").replace("\n", separator)
        path.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "megabytes", "counts"),
    [
        ("a line", 1500, {"cut_lines": 1}),
        ("a line without a space", 1200, {"cut_lines": 1}),
        ("a document", 1200, {"cut_documents": 2}),
        ("a document that grows", 800, {"huge_documents": 1}),
    ],
)
def test_text_beyond_the_bounds_is_read_in_bounded_memory(
    tmp_path, shape, megabytes, counts
):
    _write_huge(tmp_path / "huge.txt", shape)
    (tmp_path / "other.txt").write_text("A short one.\nOf two lines.\n")
    settings = ("data.heldout_rate=0", "data.dupe_factor=1", "data.pair_loss=none")
    (peak, _) = peak_megabytes(
        f"{tmp_path}/*.txt",
        tmp_path / "out",
        1,
        [*settings, "text.unicode_normalization=NFKC"],
    )
    assert peak < megabytes
    text = (tmp_path / "out" / schema.MANIFEST_FILE).read_text()
    assert schema.Manifest.from_json(text).characters["input"] == counts


def test_records_of_a_document_are_not_adjacent(tmp_path):
    """All records are shuffled: neighbors share a document as often as by chance."""
    corpus = tmp_path / "corpus.txt"
    # Each document consists of one word, so that a record identifies its document.
    names = ["river", "town", "bird", "house", "small", "under", "light", "water"]
    corpus.write_text(
        "\n\n".join("\n".join([f"{name} {name} {name}."] * 300) for name in names)
    )
    peak_megabytes(
        corpus,
        tmp_path / "out",
        overrides=(
            "data.max_seq_length=32",
            "data.heldout_rate=0",
            "data.min_shards=3",
        ),
    )
    text = (tmp_path / "out" / schema.MANIFEST_FILE).read_text()
    manifest = schema.Manifest.from_json(text)
    documents = [
        int(np.bincount(reader.unmask(values)[1:]).argmax())
        for _, values in reader.iter_records(
            str(tmp_path / "out"), manifest, schema.TRAIN
        )
    ]
    assert len(documents) > 3000
    same = np.mean(np.array(documents[1:]) == np.array(documents[:-1]))
    shares = np.unique(documents, return_counts=True)[1] / len(documents)
    chance = float((shares**2).sum())
    low, high = stats.binom.interval(0.999, len(documents) - 1, chance)
    assert low <= same * (len(documents) - 1) <= high
