"""Input files to groups, groups to blocks, blocks to documents."""

import bz2
import gzip
import json
import lzma
import random

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from albert_tf.core import config, files
from data_prep.reading import blocks as blocks_lib
from data_prep.reading import (
    input_files,
    parquet_chunks,
    streams,
    wikitext_process,
)

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
TEXT = "\ufefffirst line\r\nsecond\rline \n\n \n\u00fcber\nlast without an end"
DUMP = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="en">
  <siteinfo><sitename>Wikipedia</sitename></siteinfo>
  <page>
    <title>Tea &amp; milk</title>
    <ns>0</ns>
    <revision>
      <model>wikitext</model>
      <text bytes="9" xml:space="preserve">{{Infobox}}'''Tea''' is a [[drink|hot
drink]].&lt;ref&gt;A book&lt;/ref&gt;

== Notes ==
{{reflist}}
[[Category:Tea]]</text>
    </revision>
  </page>
  <page>
    <title>Teas</title>
    <ns>0</ns>
    <redirect title="Tea" />
    <revision><text>#REDIRECT [[Tea]]</text></revision>
  </page>
  <page>
    <title>Talk:Tea</title>
    <ns>1</ns>
    <revision><text>Nice.</text></revision>
  </page>
  <page>
    <title>Data</title>
    <ns>0</ns>
    <revision><model>json</model><text>{}</text></revision>
  </page>
  <page>
    <title>Empty</title>
    <ns>0</ns>
    <revision><text>{{soft redirect}}</text></revision>
  </page>
  <page>
    <title>Milk</title>
    <ns>0</ns>
    <revision><text>Milk is white.</text></revision>
  </page>
</mediawiki>
"""


def read(paths, text, block_bytes=1 << 30):
    """All documents of files in one group, and what was counted, by block."""
    group = blocks_lib.Group(3, tuple(map(str, paths)))
    blocks = list(blocks_lib.iter_blocks(group, text, block_bytes))
    assert [block.group for block in blocks] == [3] * len(blocks)
    assert [block.number for block in blocks] == list(range(len(blocks)))
    parsed = [blocks_lib.parse_block(block, text) for block in blocks]
    documents = [document for found, _ in parsed for document in found]
    counts = {}
    for _, counted in parsed:
        for name, count in counted.items():
            counts[name] = counts.get(name, 0) + count
    return documents, counts


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def write_parquet(path, values, type_=None, **options):
    type_ = type_ or pa.string()
    array = values if isinstance(values, pa.Array) else pa.array(values, type_)
    ids = pa.array(range(len(array)))
    parquet.write_table(pa.table({"id": ids, "text": array}), path, **options)
    return path


# Files to groups.


def test_expand_sorts_and_gives_each_file_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        write(tmp_path / name, "x")
    (tmp_path / "folder.txt").mkdir()
    pattern = f"{tmp_path}/*.md,{tmp_path}/*.txt, {tmp_path}/b.txt"
    expected = [f"{tmp_path}/{name}" for name in ("a.txt", "b.txt", "c.md")]
    assert input_files.expand(pattern) == expected
    assert input_files.expand(pattern.split(",")) == expected


def test_two_stars_match_any_number_of_directories(tmp_path):
    expected = []
    for folder in (tmp_path, tmp_path / "x", tmp_path / "x" / "y"):
        folder.mkdir(exist_ok=True)
        expected.append(str(write(folder / "a.txt", "x")))
    assert input_files.expand(f"{tmp_path}/**/*.txt") == sorted(expected)
    with pytest.raises(ValueError, match=r"must not have \*\* in it"):
        input_files.expand("ram://corpus/**/*.txt")


def test_the_path_of_a_file_is_no_glob(tmp_path):
    path = str(write(tmp_path / "a[1].txt", "x"))
    write(tmp_path / "a1.txt", "x")
    assert input_files.expand(path) == [path]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.TGZ", "a.zip"])
def test_archives_are_refused(name):
    for check in (
        lambda: input_files.check_format([name], config.TextConfig()),
        lambda: input_files.check_evaluation_format([name]),
    ):
        with pytest.raises(ValueError, match=f"{name} is an archive by its name"):
            check()


def test_a_glob_without_a_file_is_named(tmp_path):
    write(tmp_path / "a.txt", "x")
    with pytest.raises(ValueError, match=r"none\*\.txt' matches no file; give paths"):
        input_files.expand(f"{tmp_path}/a.txt,{tmp_path}/none*.txt")
    with pytest.raises(ValueError, match="one glob or more"):
        input_files.expand("")


def test_groups_close_where_sizes_reach_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_lib, "GROUP_BYTES", 10)
    sizes = (4, 5, 1, 3, 0, 10, 2, 11, 9, 9)
    paths = [str(write(tmp_path / f"{i}", b"x" * s)) for i, s in enumerate(sizes)]
    found = blocks_lib.plan_groups(paths)
    assert [group.number for group in found] == [0, 1, 2, 3, 4, 5]
    assert [[paths.index(p) for p in group.paths] for group in found] == [
        [0, 1, 2],
        [3, 4],
        [5],
        [6],
        [7],
        [8, 9],
    ]
    assert blocks_lib.plan_groups([]) == []


# Groups to blocks.


def test_a_block_ends_at_the_first_document_end_that_fills_it(tmp_path):
    a = write(tmp_path / "a", "one\n\ntwo\n\nthree")
    b = write(tmp_path / "b", "four\n \t\r\nfive\nsix\n\n\n\nseven")
    group = blocks_lib.Group(0, (str(a), str(b)))
    blocks = list(blocks_lib.iter_blocks(group, config.TextConfig(), 6))
    assert [[(c.path, c.first_line, c.data) for c in b.chunks] for b in blocks] == [
        [(str(a), 1, b"one\n\ntwo\n\n")],
        [(str(a), 5, b"three"), (str(b), 1, b"four\n \t\r\n")],
        [(str(b), 3, b"five\nsix\n\n")],
        [(str(b), 6, b"\n\nseven")],
    ]
    assert [block.num_bytes for block in blocks] == [10, 14, 10, 7]


@pytest.mark.parametrize("input_format", ["text", "lines", "file", "jsonl"])
def test_files_without_text_give_no_blocks(tmp_path, input_format):
    a = write(tmp_path / "a", b"")
    b = write(tmp_path / "b", b" \n\t\r\n\n\n")
    group = blocks_lib.Group(0, (str(a), str(b)))
    text = config.TextConfig(input_format=input_format)
    for block_bytes in (1, 4, 1 << 20):
        assert list(blocks_lib.iter_blocks(group, text, block_bytes)) == []


def test_no_blocks_of_empty_markup_and_compressed_files(tmp_path):
    a = write(tmp_path / "a", b"")
    b = write(tmp_path / "b.gz", gzip.compress(b""))
    group = blocks_lib.Group(0, (str(a), str(b)))
    for input_format in ("wikiextractor", "mediawiki"):
        text = config.TextConfig(input_format=input_format)
        assert list(blocks_lib.iter_blocks(group, text, 100)) == []


def random_file(rng, input_format):
    """A small file that tries the rules of a format."""
    end = rng.choice(["\n", "\r\n", "\n\n"])
    words = ["tea", "ü", "a b", "\ufeff", "<doc", "x\ry", " ", "\u3000", "", "&amp;"]

    def lines(separator):
        return separator.join(rng.choices(words, k=rng.randrange(5)))

    count = rng.randrange(9)
    if input_format == "jsonl":
        parts = [json.dumps({"text": lines("\n")}) for _ in range(count)]
    elif input_format == "wikiextractor":
        body = [lines(end).replace("<doc", "doc").replace("\ufeff", "") for _ in words]
        parts = [f'<doc id="1" title="x">{end}{b}{end}</doc>' for b in body[:count]]
    elif input_format == "mediawiki":
        parts = [
            f"<page><title>{i}</title>{end}<revision><text>{lines(end)}</text>"
            "</revision></page>".replace("<doc", "")
            for i in range(count)
        ]
        parts = [part.replace("<doc", "") for part in parts]
        return "<mediawiki>\n" + end.join(parts) + end + "</mediawiki>"
    else:
        parts = [lines(rng.choice(["\n", "\n\n", "\r\n \t\r\n"])) for _ in range(count)]
    file = end.join(parts) + rng.choice(["", "\n", " \n \n"])
    return rng.choice(["", "\ufeff", "\n"]) + file


FORMATS = ("text", "lines", "file", "jsonl", "wikiextractor", "mediawiki")


@pytest.mark.parametrize("input_format", FORMATS)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_documents_do_not_depend_on_blocks(tmp_path, monkeypatch, input_format, suffix):
    rng = random.Random(f"{input_format}{suffix}")
    text = config.TextConfig(input_format=input_format, invalid_utf8="replace")
    num_documents, num_replaced = 0, 0
    for trial in range(12):
        paths = []
        for part in range(3):
            path = tmp_path / f"{trial}-{part}.x{suffix}"
            data = random_file(rng, input_format).encode().replace(b"a b", b"a\xf0\x9f")
            cut = rng.randrange(len(data) + 1)  # two frames or streams in one file
            compressed = COMPRESS[suffix](data[:cut])
            if suffix != ".lzma":
                compressed += COMPRESS[suffix](data[cut:])
            else:
                compressed = COMPRESS[suffix](data)
            paths.append(write(path, compressed))
        expected = read(paths, text)
        num_documents += len(expected[0])
        num_replaced += expected[1].get("replaced_bytes", 0)
        group = blocks_lib.Group(3, tuple(map(str, paths)))
        for block_bytes in (1, 2, 10, 37, 150):
            blocks = list(blocks_lib.iter_blocks(group, text, block_bytes))
            assert all(block.num_bytes >= block_bytes for block in blocks[:-1])
            assert read(paths, text, block_bytes) == expected
            for read_size in (1, 7):
                with monkeypatch.context() as patch:
                    patch.setattr(streams, "READ_SIZE", read_size)
                    assert blocks == list(
                        blocks_lib.iter_blocks(group, text, block_bytes)
                    )
    assert num_documents > 20
    assert num_replaced > 20


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_documents_of_parquet_do_not_depend_on_blocks(tmp_path, monkeypatch, type_):
    rng = random.Random(5)
    text = config.TextConfig(input_format="parquet")
    paths = []
    for part, num_rows in enumerate((50, 0, 31)):
        choices = [None, "", " \n", "one\ntwo", "x" * 30, "ü"]
        values = rng.choices(choices, k=num_rows)
        path = tmp_path / f"{part}.parquet"
        paths.append(write_parquet(path, values, type_, row_group_size=13))
    expected = read(paths, text)
    assert set(expected[1]) == {"null_documents", "empty_documents"}
    group = blocks_lib.Group(3, tuple(map(str, paths)))
    for block_bytes in (1, 10, 37, 500):
        blocks = list(blocks_lib.iter_blocks(group, text, block_bytes))
        assert read(paths, text, block_bytes) == expected
        for read_size in (1, 300):
            with monkeypatch.context() as patch:
                patch.setattr(streams, "READ_SIZE", read_size)
                assert blocks == list(blocks_lib.iter_blocks(group, text, block_bytes))
    assert len(list(blocks_lib.iter_blocks(group, text, 1))) > 20


@pytest.mark.parametrize("read_size", [1 << 12, 1 << 20])
def test_hard_files_take_linear_time(tmp_path, monkeypatch, read_size):
    monkeypatch.setattr(streams, "READ_SIZE", read_size)
    words = b"some words\r\n" * (50 << 20 // 12)
    line = b"x" * (10 << 20)
    spaces = b" " * (10 << 20)
    lines = b"\n" * (10 << 20)
    for data, expected in (
        (words, [words]),
        (line, [line]),
        (b"a\n" + spaces + b"b\n\nc", [b"a\n" + spaces + b"b\n\n", b"c"]),
        (
            b"a" * 9999 + b"\n" + spaces + b"\nb",
            [b"a" * 9999 + b"\n" + spaces + b"\n", b"b"],
        ),
        (b"a" + lines + b"b", [b"a", b"b"]),
    ):
        path = write(tmp_path / "a", data)
        group = blocks_lib.Group(0, (str(path),))
        blocks = blocks_lib.iter_blocks(group, config.TextConfig(), 10_000)
        found = [chunk.data.strip() for block in blocks for chunk in block.chunks]
        # Not compared as lists: pytest would explain at length how these differ.
        assert [len(data) for data in found] == [len(e.strip()) for e in expected]
        assert b"\0".join(found) == b"\0".join(e.strip() for e in expected)


def test_a_million_documents_of_one_line(tmp_path):
    text = config.TextConfig(input_format="lines")
    path = write(tmp_path / "a", "".join(f"{i}\n" for i in range(1_000_000)))
    group = blocks_lib.Group(0, (str(path),))
    blocks = list(blocks_lib.iter_blocks(group, text, 1 << 20))
    assert len(blocks) == 7
    documents, counts = blocks_lib.parse_block(blocks[-1], text)
    assert documents[-1] == blocks_lib.Document(str(path), 1_000_000, ("999999",))
    assert not counts


def test_remote_files_need_read_seek_and_tell_only(tmp_path, monkeypatch):
    class Remote:
        """A file as `tf.io.gfile.GFile` gives it."""

        def __init__(self, path, mode="rb"):
            file = open(path.removeprefix("gs://"), mode)
            self.read, self.seek, self.tell = file.read, file.seek, file.tell
            self.close = file.close

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

    monkeypatch.setattr(files, "open_file", Remote)
    for suffix, compress in COMPRESS.items():
        path = write(tmp_path / f"a{suffix}", compress(b"one\n\ntwo"))
        documents, _ = read([f"gs://{path}"], config.TextConfig())
        assert [d.lines for d in documents] == [("one",), ("two",)]
    path = write_parquet(tmp_path / "a.parquet", ["one", "two"])
    text = config.TextConfig(input_format="parquet")
    documents, _ = read([f"gs://{path}"], text)
    assert [d.lines for d in documents] == [("one",), ("two",)]


# Damage.


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
@pytest.mark.parametrize("damage", ["cut", "empty", "other", "flipped", "header"])
def test_a_damaged_compressed_file_is_named(tmp_path, suffix, damage):
    data = random.Random(1).randbytes(4000).hex().encode()
    whole = COMPRESS[suffix](data)
    middle = len(whole) // 2
    flipped = bytes(byte ^ 0xFF for byte in whole[middle : middle + 200])
    damaged = {
        "cut": whole[:-9],
        "empty": b"",
        "other": b"no compressed file at all",
        "flipped": whole[:middle] + flipped + whole[middle + 200 :],
        "header": whole[:3],
    }[damage]
    path = write(tmp_path / f"a.txt{suffix}", damaged)
    with pytest.raises(ValueError, match=f"a.txt{suffix}: .*damaged.*copy it again"):
        read([path], config.TextConfig())


def test_a_zstandard_file_cut_between_frames_and_in_the_second(tmp_path):
    first, second = zstandard.compress(b"one\n\n"), zstandard.compress(b"two " * 99)
    whole = write(tmp_path / "whole.zst", first + second)
    documents, _ = read([whole], config.TextConfig())
    assert [len(document.lines[0]) for document in documents] == [3, 395]
    cut = write(tmp_path / "cut.zst", first + second[:-1])
    with pytest.raises(ValueError, match=r"cut.zst: .*its last frame has no end"):
        read([cut], config.TextConfig())


@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_parquet_file_is_named(tmp_path, damage):
    path = write_parquet(tmp_path / "a.parquet", ["some text"] * 99)
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-9], "empty": b"", "other": b"text\n" * 9}[damage])
    with pytest.raises(ValueError, match=r"a.parquet: .*damaged.*copy it again"):
        read([path], config.TextConfig(input_format="parquet"))


def test_a_row_group_without_a_column_of_the_schema_is_damage(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["some text"])
    group = parquet.read_metadata(path).row_group(0)
    with pytest.raises(pa.ArrowInvalid, match="lacks a column"):
        parquet_chunks._column_of(group, "other")


def test_flipped_bits_of_parquet_are_named_in_one_line_or_read(tmp_path):
    """Of a dictionary, whose indices may then be out of its bounds, too.

    Not of the metadata at its end: there pyarrow may end the process itself.
    """
    texts = [f"text {number % 9}" for number in range(99)]
    path = write_parquet(tmp_path / "a.parquet", texts, write_page_checksum=False)
    whole, rng, num_named = path.read_bytes(), random.Random(4), 0
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.randrange(end)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            read([path], config.TextConfig(input_format="parquet"))
        except ValueError as error:
            assert type(error) is ValueError and "\n" not in str(error)
            assert str(error).startswith(f"{path}")
            num_named += 1
    assert num_named > 30


def test_a_file_that_is_not_there_is_no_damage(tmp_path):
    for input_format in ("text", "parquet"):
        with pytest.raises(FileNotFoundError):
            read([tmp_path / "none"], config.TextConfig(input_format=input_format))


# Bytes to text.


@pytest.mark.parametrize("suffix", COMPRESS)
def test_reads_documents_between_empty_lines(tmp_path, suffix):
    path = write(tmp_path / f"a.txt{suffix}", COMPRESS[suffix](TEXT.encode()))
    assert read([path], config.TextConfig()) == (
        [
            blocks_lib.Document(str(path), 1, ("first line", "second\rline")),
            blocks_lib.Document(str(path), 5, ("über", "last without an end")),
        ],
        {},
    )


def test_the_end_of_a_file_ends_a_document(tmp_path):
    a, b = write(tmp_path / "a", "one"), write(tmp_path / "b", "two\n")
    documents, _ = read([a, b], config.TextConfig())
    assert [d.lines for d in documents] == [("one",), ("two",)]


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    path = write(tmp_path / "latin.txt", "eins\n\nzwei\nfünf\n".encode("latin-1"))
    for block_bytes in (1, 1 << 20):
        with pytest.raises(
            ValueError,
            match=r"latin.txt, line 4, column 2: .*UTF-8.*0xfc.*iconv"
            r".*--set text.invalid_utf8=replace",
        ):
            read([path], config.TextConfig(), block_bytes)


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path):
    # A lone start, a start with one of its three followers, one that none has; U+FFFD
    # itself is valid.
    data = b"a\xc3b\n\n\xf0\x9f\x98c\n\n\xff\xff \xef\xbf\xbd"
    path = write(tmp_path / "a", data)
    text = config.TextConfig(invalid_utf8="replace")
    for block_bytes in (1, 1 << 20):
        documents, counts = read([path], text, block_bytes)
        assert [d.lines for d in documents] == [
            ("a\ufffdb",),
            ("\ufffdc",),
            ("\ufffd\ufffd \ufffd",),
        ]
        assert counts == {"replaced_bytes": 6}


def test_null_bytes_stay(tmp_path):
    path = write(tmp_path / "a", b"a\0b\n")
    documents, _ = read([path], config.TextConfig())
    assert documents == [blocks_lib.Document(str(path), 1, ("a\0b",))]


# Formats.


def test_format_lines_has_one_document_a_line(tmp_path):
    path = write(tmp_path / "a", "\ufeffone\r\n\n \u3000\ntwo")
    assert read([path], config.TextConfig(input_format="lines")) == (
        [
            blocks_lib.Document(str(path), 1, ("one",)),
            blocks_lib.Document(str(path), 4, ("two",)),
        ],
        {},
    )


def test_format_file_has_one_document_a_file(tmp_path):
    a, b = write(tmp_path / "a", "\n \none\n\ntwo\n"), write(tmp_path / "b", "\ufeff\n")
    for block_bytes in (1, 1 << 20):
        text = config.TextConfig(input_format="file")
        assert read([a, b], text, block_bytes) == (
            [blocks_lib.Document(str(a), 3, ("one", "two"))],
            {"empty_documents": 1},
        )


def test_format_jsonl_takes_the_field(tmp_path):
    rows = [{"id": 1, "body": "one\n\n two"}, {"body": " \n"}, {"body": "\ud83d\ude00"}]
    lines = [json.dumps(row) for row in rows]
    path = write(tmp_path / "a", "\r\n\n".join(lines))
    text = config.TextConfig(input_format="jsonl", field="body")
    assert read([path], text) == (
        [
            blocks_lib.Document(str(path), 1, ("one", "two")),
            blocks_lib.Document(str(path), 5, ("😀",)),
        ],
        {"empty_documents": 1},
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"text": "a"',
            "line 3 must be JSON; it is damaged .*fix or remove",
        ),
        ("[" * 100_000, "line 3 must be JSON; it is damaged .*recursion depth"),
        ('["text"]', "line 3: must be a JSON object; found '"),
        (
            '{"body": 1, "id": 2}',
            "line 3: field 'text' must be.*only .'body', 'id'.. Name",
        ),
        ('{"text": null}', "line 3: field 'text' must be a string; found None"),
        (r'{"text": "\ud800"}', "line 3, an escape .*UTF-8.*invalid_utf8=replace"),
    ],
)
def test_a_bad_line_of_jsonl_is_named(tmp_path, line, message):
    path = write(tmp_path / "a.jsonl", f'{{"text": "x"}}\n\n{line}\n')
    text = config.TextConfig(input_format="jsonl")
    for block_bytes in (1, 1 << 20):
        with pytest.raises(ValueError, match=f"a.jsonl, {message}"):
            read([path], text, block_bytes)


def test_half_a_surrogate_pair_in_jsonl_can_be_replaced(tmp_path):
    path = write(tmp_path / "a", r'{"text": "a\ud800b"}')
    text = config.TextConfig(input_format="jsonl", invalid_utf8="replace")
    documents, counts = read([path], text)
    assert documents[0].lines == ("a\ufffd\ufffd\ufffdb",)
    assert counts == {"replaced_bytes": 3}


def test_format_wikiextractor_takes_the_bodies(tmp_path):
    path = write(
        tmp_path / "wiki_00",
        '<doc id="1" url="https://x?curid=1" title="A "b"">\nA "b"\n\n'
        "1 &lt; 2 &amp;lt; 3\n\n</doc>\n"
        '<doc id="2" url="" title="Empty">\n\n</doc>\n<doc id="3">C</doc>\n',
    )
    text = config.TextConfig(input_format="wikiextractor")
    for block_bytes in (1, 1 << 20):
        assert read([path], text, block_bytes) == (
            [
                blocks_lib.Document(str(path), 2, ('A "b"', "1 < 2 &lt; 3")),
                blocks_lib.Document(str(path), 10, ("C",)),
            ],
            {"empty_documents": 1},
        )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("\nplain text\n", "line 2: there is text outside"),
        ("<doc id>\na\n</doc>\nb\n<doc id>c</doc>", "line 4: there is text outside"),
        ("<doc id>\na\n</doc>\n<doc id>\ncut", "line 4: <doc id> has no </doc>"),
        ("a\n</doc>\n", "line 2: </doc> has no start"),
    ],
)
def test_text_outside_of_elements_is_named(tmp_path, data, message):
    path = write(tmp_path / "wiki_00", data)
    text = config.TextConfig(input_format="wikiextractor")
    for block_bytes in (1, 1 << 20):
        with pytest.raises(ValueError, match=f"wiki_00, {message}"):
            read([path], text, block_bytes)


def test_format_mediawiki_takes_articles(tmp_path):
    path = write(tmp_path / "dump.xml.bz2", bz2.compress(DUMP.encode()))
    text = config.TextConfig(input_format="mediawiki")
    for block_bytes in (1, 200, 1 << 20):
        documents, counts = read([path], text, block_bytes)
        assert documents == [
            blocks_lib.Document(str(path), 3, ("Tea & milk", "Tea is a hot", "drink.")),
            blocks_lib.Document(str(path), 37, ("Milk", "Milk is white.")),
        ]
        assert counts == {
            "redirects": 1,
            "other_namespaces": 1,
            "other_content_models": 1,
            "empty_documents": 1,
        }


def test_a_dump_may_stand_on_one_line(tmp_path):
    page = "<page><title>{}</title><revision><text>b</text></revision></page>"
    pages = page.format("A") + page.format("B")
    path = write(tmp_path / "a.xml", f"<mediawiki>{pages}</mediawiki>")
    text = config.TextConfig(input_format="mediawiki")
    for block_bytes in (1, 1 << 20):
        documents, _ = read([path], text, block_bytes)
        assert [d.lines for d in documents] == [("A", "b"), ("B", "b")]


def test_a_page_that_the_parser_fails_at_is_counted(tmp_path, monkeypatch):
    def fail(page, max_seconds):
        raise wikitext_process.Unparsable

    monkeypatch.setattr(wikitext_process, "to_plain_text", fail)
    path = write(tmp_path / "a.xml", DUMP)
    documents, counts = read([path], config.TextConfig(input_format="mediawiki"))
    assert not documents
    assert counts["unparsable_pages"] == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("plain text", ": must be a MediaWiki XML dump"),
        ("<page>\n<page>\n</page>\n", ", line 3: a <page> must be valid XML; .* at"),
        ("<page>\n<ns>1</ns></page>\n<page>\n<title>", ", line 3: <page> has no"),
    ],
)
def test_a_bad_dump_is_named(tmp_path, data, message):
    path = write(tmp_path / "a.xml", data)
    text = config.TextConfig(input_format="mediawiki")
    for block_bytes in (1, 1 << 20):
        with pytest.raises(ValueError, match=f"a.xml{message}"):
            read([path], text, block_bytes)


@pytest.mark.parametrize(
    ("wikitext", "plain"),
    [
        ("'''Bold''' and ''italic'', [[a|b]]s [[c]]s", "Bold and italic, bs cs"),
        ("a<!-- x --> b<ref>y</ref> c<ref name=z /> {{d|{{e}}}}.", "a b c ."),
        ("x\n{| class=y\n|-\n| a\n{|\n| b\n|}\n|}\nz", "x\n\nz"),
        ("[[File:A.jpg|thumb|A [[b]] c]][[Datei:x.SVG]][[Kategorie:D|e]]f", "f"),
        ("[[:Category:D]] [[Star Trek: Voyager]]", "Category:D Star Trek: Voyager"),
        ("[http://a.org b] [http://c.org] http://d.org", "b  http://d.org"),
        ("a<br>b &amp; &nbsp;<math>x^2</math>c", "a\n\nb & \xa0c"),
        ("a ({{IPA|b}}) f() __NOTOC__", "a  f() "),
        ("&#xD800;a", "a"),
        (
            "== A ==\n=== B ===\nb\n== C ==\n=== D ===\n{{e}}\n== F ==\nf\n== G ==\n",
            "\n\n A \n\n B \n\nb\n\n\n\n\n F \n\nf\n\n",
        ),
    ],
)
def test_wikitext_to_plain_text(wikitext, plain):
    assert wikitext_process.to_plain_text(wikitext, 10) == plain


def test_format_parquet_takes_the_column(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [None, "one\n\ntwo", " \n", "ü"])
    text = config.TextConfig(input_format="parquet")
    assert read([path], text) == (
        [
            blocks_lib.Document(str(path), 2, ("one", "two")),
            blocks_lib.Document(str(path), 4, ("ü",)),
        ],
        {"null_documents": 1, "empty_documents": 1},
    )


def test_row_groups_without_rows_are_nothing(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["one", "two"]})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
            writer.write_table(part)
    text = config.TextConfig(input_format="parquet")
    for block_bytes in (1, 5, 1 << 20):
        documents, _ = read([path], text, block_bytes)
        assert [(d.line, d.lines) for d in documents] == [(1, ("one",)), (2, ("two",))]


def test_a_wrong_column_of_parquet_is_named(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["one"])
    text = config.TextConfig(input_format="parquet", field="body")
    with pytest.raises(ValueError, match=r"a.parquet: has no .*'body', but id, text;"):
        read([path], text)
    text = config.TextConfig(input_format="parquet", field="id")
    with pytest.raises(ValueError, match=r"a.parquet: column 'id' .*it is int64"):
        read([path], text)


def test_rows_that_are_not_utf8_are_named_or_replaced(tmp_path):
    values = pa.array([b"one", b"x\xffy"], pa.binary())
    array = pa.StringArray.from_buffers(2, *values.buffers()[1:])
    path = write_parquet(tmp_path / "a.parquet", array)
    text = config.TextConfig(input_format="parquet")
    for block_bytes in (1, 1 << 20):
        with pytest.raises(ValueError, match=r"a.parquet, row 2, byte 2: .*0xff"):
            read([path], text, block_bytes)
    text = config.TextConfig(input_format="parquet", invalid_utf8="replace")
    documents, counts = read([path], text)
    assert documents[1].lines == ("x\ufffdy",)
    assert counts == {"replaced_bytes": 1}


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst", ".parquet"])
def test_all_bytes_on_disk_are_counted_as_they_are_read(tmp_path, suffix):
    text = config.TextConfig(input_format="parquet" if suffix == ".parquet" else "text")
    path = tmp_path / f"a{suffix}"
    documents = [f"Number {n}.\n" * 50 for n in range(2000)]
    if suffix == ".parquet":
        write_parquet(path, documents, pa.string(), row_group_size=500)
    else:
        write(path, COMPRESS.get(suffix, bytes)("\n".join(documents).encode()))
    counted = []
    group = blocks_lib.Group(0, (str(path),))
    num_blocks = sum(
        1 for _ in blocks_lib.iter_blocks(group, text, 100_000, counted.append)
    )
    assert num_blocks > 5
    assert sum(counted) == path.stat().st_size
