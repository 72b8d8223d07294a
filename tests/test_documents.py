"""Readers of raw text."""

import bz2
import gzip
import lzma

import pytest

from data_prep import documents

TEXT = "\ufefffirst line\r\nsecond\rline \n\n \n\u00fcber\nlast without an end"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
    ],
)
def test_reads_documents_between_empty_lines(tmp_path, suffix, compress):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(compress(TEXT.encode()))
    assert list(documents.iter_documents(str(path))) == [
        documents.Document(str(path), 1, ("first line", "second\rline")),
        documents.Document(str(path), 5, ("über", "last without an end")),
    ]


def test_the_end_of_a_file_ends_a_document(tmp_path):
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "a.txt").write_text("one")
    found = documents.iter_documents(f"{tmp_path}/*.txt")
    assert [d.lines for d in found] == [("one",), ("two",)]


def test_expand_sorts_and_gives_each_file_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.txt").mkdir()
    pattern = f"{tmp_path}/*.md,{tmp_path}/*.txt, {tmp_path}/b.txt"
    expected = [f"{tmp_path}/{name}" for name in ("a.txt", "b.txt", "c.md")]
    assert documents.expand(pattern) == expected
    assert documents.expand(pattern.split(",")) == expected


def test_a_glob_without_a_file_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match=r"none\*\.txt' matches no file; give paths"):
        documents.expand(f"{tmp_path}/a.txt,{tmp_path}/none*.txt")
    with pytest.raises(ValueError, match="one glob or more"):
        documents.expand("")


def test_input_without_a_document_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    (tmp_path / "b.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="a.txt.*b.txt holds no document"):
        list(documents.iter_documents(f"{tmp_path}/*.txt"))


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("eins\nzwei\nfünf\n".encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"latin.txt, line 3: .*UTF-8.*0xfc at column 2.*iconv"
    ):
        list(documents.iter_lines(str(path)))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_a_damaged_compressed_file_is_named(tmp_path, suffix, compress):
    whole = compress(b"some text that is cut short\n" * 100)
    for name, data in (("cut", whole[:-9]), ("other", b"no compressed file at all")):
        path = tmp_path / f"{name}.txt{suffix}"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{name}.txt{suffix}: .*damaged"):
            list(documents.iter_lines(str(path)))


def test_long_files_are_read_over_buffer_ends(tmp_path):
    lines = [f"line {i} " + "x" * (i % 97) for i in range(30000)]  # 1.7 MB
    path = tmp_path / "long.txt"
    path.write_text("\n".join(lines))
    assert list(documents.iter_lines(str(path))) == [
        (i, line.strip()) for i, line in enumerate(lines, 1)
    ]


def test_splitter_line_takes_lines_as_they_are():
    lines = ("One. Two.", "Three")
    assert documents.split_sentences(lines, "line", "en") == ["One. Two.", "Three"]


def test_splitter_sentencex_cuts_lines_and_joins_none():
    lines = ("Dr. Smith came. He saw!  Did he win? ", "no end", "Next one.")
    assert documents.split_sentences(lines, "sentencex", "en") == [
        "Dr. Smith came.",
        "He saw!",
        "Did he win?",
        "no end",
        "Next one.",
    ]
