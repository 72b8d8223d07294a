"""Embeddings in bulk: in order, in batches of like length, whole or not at all."""

import numpy as np
import pytest
from pyarrow import parquet

from albert_tf.inference import embeddings


class Recorder:
    """Encodes a text as its length and its first character; keeps its batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, texts):
        self.batches.append(list(texts))
        rows = [[len(text), ord(text[0]), 0.5] for text in texts]
        counts = np.array([len(text) for text in texts], np.int32)
        return embeddings.Encoded(np.array(rows, np.float32), counts)


TEXTS = ["aa", "bbbbb", "c", "dddd", "eee", "ffffff", "g"]
EMBEDDING = [[len(text), ord(text[0]), 0.5] for text in TEXTS]


def test_parquet_holds_a_row_a_text_in_their_order(tmp_path):
    path = tmp_path / "out.parquet"
    assert embeddings.write(Recorder(), TEXTS, str(path), 3) == 7
    table = parquet.read_table(path)
    assert table.column("text").to_pylist() == TEXTS
    assert table.column("num_tokens").to_pylist() == [2, 5, 1, 4, 3, 6, 1]
    assert table.column("embedding").to_pylist() == EMBEDDING
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]


def test_npz_holds_the_same(tmp_path):
    path = tmp_path / "out.npz"
    assert embeddings.write(Recorder(), iter(TEXTS), str(path), 3) == 7
    arrays = np.load(path, allow_pickle=False)
    np.testing.assert_array_equal(arrays["embedding"], np.float32(EMBEDDING))
    assert arrays["num_tokens"].tolist() == [2, 5, 1, 4, 3, 6, 1]
    assert arrays["embedding"].dtype == np.float32


def test_batches_are_of_like_length_the_longest_first(tmp_path):
    encode = Recorder()
    embeddings.write(encode, TEXTS, str(tmp_path / "out.npz"), 3)
    assert encode.batches == [
        ["ffffff", "bbbbb", "dddd"],
        ["eee", "aa", "c"],
        ["g"],
    ]


def test_windows_follow_one_another(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "WINDOW", 4)
    encode = Recorder()
    path = tmp_path / "out.parquet"
    embeddings.write(encode, TEXTS, str(path), 3)
    assert encode.batches[0] == ["bbbbb", "dddd", "aa"]
    assert encode.batches[2] == ["ffffff", "eee", "g"]
    assert parquet.ParquetFile(path).num_row_groups == 2
    assert parquet.read_table(path).column("embedding").to_pylist() == EMBEDDING


@pytest.mark.parametrize("ending", (".parquet", ".npz"))
def test_without_texts_nothing_is_written(tmp_path, ending):
    with pytest.raises(ValueError, match="there must be a text"):
        embeddings.write(Recorder(), [], str(tmp_path / f"out{ending}"), 3)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_no_file_under_the_name(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "WINDOW", 4)
    path = tmp_path / "out.parquet"

    def texts():
        yield from TEXTS
        raise ValueError("line 8: lines must be UTF-8")

    with pytest.raises(ValueError, match="line 8"):
        embeddings.write(Recorder(), texts(), str(path), 3)
    assert not path.exists()
