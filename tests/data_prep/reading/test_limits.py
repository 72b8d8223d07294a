"""Bounds of the text that is read: what is cut, dropped, counted and named."""

import bz2
import gzip
import html
import json
import lzma
import subprocess
import sys
import unicodedata

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from albert_tf.core import config
from data_prep.reading import blocks, formats, limits, streams, wikitext_process

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ".zst": zstandard.compress,
}


def read(path, block_bytes=1 << 20, **text):
    """Line and lines of each document of a file, and what was counted."""
    settings = config.TextConfig(**text)
    group = blocks.Group(0, (str(path),))
    found, counts = [], {}
    for block in blocks.iter_blocks(group, settings, block_bytes):
        documents, counted = blocks.parse_block(block, settings)
        found += [(document.line, document.lines) for document in documents]
        for name, count in counted.items():
            counts[name] = counts.get(name, 0) + count
    return found, counts


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# Lines.


def test_a_long_line_is_cut_at_spaces(tmp_path, capsys):
    fits = "x" * 64
    long = f"{'x' * 10} {'y' * 60} tail"
    path = write(tmp_path / "a.txt", f"{fits}\n\n{fits}\n{long}\n\n{'z' * 130}\n")
    assert read(path, max_line_characters=64) == (
        [
            (1, (fits,)),
            (3, (fits, "x" * 10, "y" * 60, "tail")),
            (6, ("z" * 64, "z" * 64, "zz")),
        ],
        {"cut_lines": 2},
    )
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(
        f"{path}, line 3: a line of 76 characters is cut: it is longer than "
        "text.max_line_characters=64, "
    )
    assert lines[1].startswith(f"{path}, line 6: a line of 130 characters is cut")


def test_of_many_cut_lines_of_a_block_five_are_named(tmp_path, capsys):
    path = write(tmp_path / "a.txt", ("z" * 65 + "\n") * 8)
    assert read(path, max_line_characters=64)[1] == {"cut_lines": 8}
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[5] == f"{path}: more cut lines near here are only counted"


def test_a_run_of_over_a_thousand_marks_is_cut(tmp_path):
    """Normalization would sort it in a time that grows with its square."""
    marks = "\u0300\u0316" * 1250
    hidden = "\u0300\u200b" * 600  # cleaning removes every other one
    path = write(
        tmp_path / "a", f"a{marks}b\n\nc{marks[:1000]}d{marks[:1000]}\n\ne{hidden}"
    )
    assert read(path) == (
        [
            (1, (f"a{marks[:1000]}", marks[:1000], f"{marks[:500]}b")),
            (3, (f"c{marks[:1000]}d{marks[:1000]}",)),
            (5, (f"e{hidden[:1000]}", hidden[:200])),
        ],
        {"cut_lines": 2},
    )


def test_a_line_is_measured_when_decomposed_too(tmp_path):
    sign = "\ufdfa"  # becomes 18 characters
    path = write(tmp_path / "a", f"{sign * 10}\n\n{sign * 11}")
    assert read(path, max_line_characters=180) == (
        [(1, (sign * 10,)), (3, (sign * 10, sign))],
        {"cut_lines": 1},
    )


# Documents.


def test_a_document_that_grows_too_large_when_decomposed_is_dropped(tmp_path, capsys):
    sign = "\ufdfa"  # becomes 18 characters
    path = write(tmp_path / "a", f"{sign * 56}\n\n{sign * 30}\n{sign * 30}\n\nb")
    assert read(path, max_document_bytes=1024) == (
        [(1, (sign * 56,)), (6, ("b",))],
        {"huge_documents": 1},
    )
    assert capsys.readouterr().err.startswith(
        f"{path}, line 3: a document of more than 1,024 bytes, or characters when they "
        "are decomposed, is dropped; "
    )


LINE = "a" * 99 + "\n"


@pytest.mark.parametrize("read_size", [1, 7, 1 << 20])
@pytest.mark.parametrize("block_bytes", [1, 500, 1 << 20])
def test_a_huge_document_is_cut_at_ends_of_lines(
    tmp_path, monkeypatch, capsys, read_size, block_bytes
):
    monkeypatch.setattr(streams, "READ_SIZE", read_size)
    path = write(tmp_path / "a", f"first\n\n{LINE * 25}\nlast\n")
    line = LINE.strip()
    assert read(path, block_bytes, max_document_bytes=1024) == (
        [
            (1, ("first",)),
            (3, (line,) * 10),
            (13, (line,) * 10),
            (23, (line,) * 5),
            (29, ("last",)),
        ],
        {"cut_documents": 2},
    )
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"{path}, line 3",
        f"{path}, line 13",
    ]
    assert "a document of more than 1,024 bytes is cut; check text.input" in lines[0]


def test_a_file_that_is_one_huge_document_is_cut(tmp_path):
    path = write(tmp_path / "a", LINE * 25)
    line = LINE.strip()
    found = read(path, input_format="file", max_document_bytes=1024)
    expected = [(1, (line,) * 10), (11, (line,) * 10), (21, (line,) * 5)]
    assert found == (expected, {"cut_documents": 2})


def test_a_huge_line_that_is_a_document_is_cut_between_characters(tmp_path):
    path = write(tmp_path / "a", "one\n" + "\u00e9" * 1000 + "\ntwo\n")
    assert read(path, input_format="lines", max_document_bytes=1025) == (
        [
            (1, ("one",)),
            (2, ("\u00e9" * 512,)),
            (2, ("\u00e9" * 488,)),
            (3, ("two",)),
        ],
        {"cut_documents": 1},
    )


def documents_of(path, input_format, texts):
    """Writes texts as documents of a format; returns the lines where they begin."""
    if input_format == "parquet":
        parquet.write_table(pa.table({"text": texts}), path)
        return [1, 2, 3]
    form = {
        "jsonl": lambda text: json.dumps({"text": text}),
        "wikiextractor": lambda text: f"<doc id=1>\n{text}\n</doc>",
        "mediawiki": lambda text: (
            f"<page>\n<revision><text>{text}</text></revision></page>"
        ),
    }[input_format]
    write(path, "\n".join(map(form, texts)) + "\n")
    return {"jsonl": [1, 2, 3], "wikiextractor": [2, 5, 8], "mediawiki": [1, 3, 5]}[
        input_format
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    "input_format", ["jsonl", "wikiextractor", "mediawiki", "parquet"]
)
def test_a_huge_document_that_has_no_useful_parts_is_dropped(
    tmp_path, monkeypatch, capsys, input_format, block_bytes, place
):
    texts = ["one", "two", "three"]
    texts[place] = "z" * 3000
    path = tmp_path / "a"
    lines = documents_of(path, input_format, texts)
    text = {"input_format": input_format, "max_document_bytes": 1024}
    found, counts = read(path, block_bytes, **text)
    assert [document for _, (document,) in found] == [
        word for word in ("one", "two", "three") if word in texts
    ]
    assert [line for line, _ in found] == [
        line for number, line in enumerate(lines) if number != place
    ]
    assert counts == {"huge_documents": 1}
    (said,) = capsys.readouterr().err.splitlines()
    assert "a document of more than 1,024 bytes" in said and "is dropped" in said
    if input_format in ("jsonl", "parquet"):
        unit = "row" if input_format == "parquet" else "line"
        assert said.startswith(f"{path}, {unit} {lines[place]}: ")
    group = blocks.Group(0, (str(path),))
    settings = config.TextConfig(**text)
    expected = list(blocks.iter_blocks(group, settings, block_bytes))
    for read_size in (1, 7, 300):
        monkeypatch.setattr(streams, "READ_SIZE", read_size)
        assert expected == list(blocks.iter_blocks(group, settings, block_bytes))


# Files that unpack to much more than their size.


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("read_size", [1000, 1 << 20])
def test_a_compressed_file_is_cut_where_it_unpacks_to_too_much(
    tmp_path, monkeypatch, capsys, suffix, read_size
):
    monkeypatch.setattr(streams, "READ_SIZE", read_size)
    line = "word " * 10
    path = write(tmp_path / f"a{suffix}", COMPRESS[suffix](f"{line}\n".encode() * 9000))
    text = {"input_format": "lines", "max_document_bytes": 1 << 16}
    found, counts = read(path, 20_000, max_unpacked_ratio=1, **text)
    # Each line has 51 bytes: 1,285 of them are the most that fit into 65,536 bytes.
    assert found == [(number, (line.strip(),)) for number in range(1, 1286)]
    assert counts == {"cut_files": 1}
    assert capsys.readouterr().err.startswith(
        f"{path}, line 1286: the file unpacks to more than 65,536 bytes, over "
        "text.max_unpacked_ratio times its size; the rest is dropped. "
    )
    ratio = 51 * 9000 // path.stat().st_size + 1
    found, counts = read(path, 20_000, max_unpacked_ratio=ratio, **text)
    assert (len(found), counts) == (9000, {})


@pytest.mark.parametrize("input_format", ["jsonl", "wikiextractor", "mediawiki"])
def test_the_document_in_which_a_file_is_cut_is_no_error(tmp_path, input_format):
    documents_of(tmp_path / "a", input_format, ["one", "word " * 50_000, "two"])
    path = write(tmp_path / "a.gz", gzip.compress((tmp_path / "a").read_bytes()))
    text = {"max_document_bytes": 1 << 16, "max_unpacked_ratio": 1}
    found, counts = read(path, 1, input_format=input_format, **text)
    assert [lines for _, lines in found] == [("one",)]
    assert counts == {"cut_files": 1}


def test_files_that_are_not_compressed_have_no_such_bound(tmp_path):
    path = write(tmp_path / "a.txt", "word\n\n" * 20_000)
    text = {"max_document_bytes": 1024, "max_unpacked_ratio": 1}
    found, counts = read(path, **text)
    assert (len(found), counts) == (20_000, {})


def test_a_parquet_file_is_cut_where_it_unpacks_to_too_much(tmp_path, capsys):
    path = tmp_path / "a.parquet"
    text = "word " * 200
    parquet.write_table(pa.table({"text": [text] * 200_000}), path)
    assert path.stat().st_size < 200_000
    settings = {"max_document_bytes": 1 << 20, "max_unpacked_ratio": 1}
    found, counts = read(path, 100_000, input_format="parquet", **settings)
    # A row counts for 1,008 bytes.
    assert [line for line, _ in found] == list(range(1, 1041))
    assert {lines for _, lines in found} == {(text.strip(),)}
    assert counts == {"cut_files": 1}
    assert capsys.readouterr().err.startswith(
        f"{path}, row 1041: the file unpacks to more than 1,048,576 bytes"
    )


def test_a_row_group_that_unpacks_to_too_much_is_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["x" * 100] * 20_100})
    options = {"use_dictionary": False, "compression": "zstd"}
    with parquet.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table[:100])
        writer.write_table(table[100:])
    settings = {"max_document_bytes": 1 << 16, "max_unpacked_ratio": 1}
    found, counts = read(path, input_format="parquet", **settings)
    assert (len(found), counts) == (100, {"cut_files": 1})


# Reads the files that are given, each with its format, and prints the peak memory in
# MB and what was found.
_DRIVER = """
import re, sys
from albert_tf.core import config
from data_prep.reading import blocks
for path, input_format in zip(sys.argv[1::2], sys.argv[2::2]):
    text = config.TextConfig(input_format=input_format)
    found = [
        blocks.parse_block(block, text)
        for block in blocks.iter_blocks(blocks.Group(0, (path,)), text, 8 << 20)
    ]
    sizes = sum(len(line) for d, _ in found for x in d for line in x.lines)
    peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
    print(int(peak) // 1024, sum(len(d) for d, _ in found), sizes)
"""


def _measure(path, input_format):
    """Returns the peak of memory in MiB, documents, characters, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, str(path), input_format],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return *map(int, done.stdout.split()), done.stderr


def test_a_long_value_in_many_rows_is_in_memory_once(tmp_path):
    path = tmp_path / "a.parquet"
    value = pa.array(["x " * (4 << 20)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), value)
    parquet.write_table(
        pa.table({"text": column}),
        path,
        store_schema=False,
        dictionary_pagesize_limit=1 << 26,
        compression="zstd",
    )
    peak, num_documents, _, said = _measure(path, "parquet")
    # 16 GB in all, of which 64 MB may be read.
    assert num_documents == 7
    assert peak < 1000
    assert f"{path}, row 8: the file unpacks to more than 67,108,864" in said


def test_the_size_of_a_decomposed_line_is_measured_in_little_memory(tmp_path):
    # 21 MB that would be 126 million characters.
    path = write(tmp_path / "a.txt", "\ufdfa" * 7_000_000)
    peak, num_documents, size, _ = _measure(path, "text")
    assert (num_documents, size) == (0, 0)  # the document is too large
    assert peak < 400


@pytest.mark.parametrize("length", [1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("characters", ["\ufdfa", "e\u0301\u0323", "\uac01", "ab"])
def test_the_size_of_a_decomposed_line_is_exact(characters, length):
    line = (characters * length)[:length]
    expected = len(unicodedata.normalize("NFKD", line))
    assert limits._decomposed_size(line, 18 * length) == expected
    assert limits._decomposed_size(line, expected - 1) > expected - 1


def test_a_line_of_many_brackets_is_refused_unread(tmp_path):
    most = 1 << 20
    for count, is_read in ((most // 2, True), (most, False)):
        row = '{"text": "good", "more": [' + ",".join(["[]"] * count) + "]}"
        path = write(tmp_path / "a.jsonl", row)
        if is_read:
            assert read(path, input_format="jsonl")[0] == [(1, ("good",))]
        else:
            with pytest.raises(ValueError, match="line 1: must have at most 1,048,576"):
                read(path, input_format="jsonl")


@pytest.mark.parametrize("end", ['"', "", '\\"', "\\"])
def test_brackets_in_strings_take_no_memory(tmp_path, end):
    text = 'a[i] = {\\"b\\"}; ' * (1 << 19) + "{"
    path = write(tmp_path / "a.jsonl", f'{{"text": "{text}{end}' + "}" * (end == '"'))
    if end == '"':
        ((_, lines),) = read(path, input_format="jsonl")[0]
        assert lines[0].startswith('a[i] = {"b"};')
    else:
        with pytest.raises(ValueError, match="must be JSON"):
            read(path, input_format="jsonl")


# Markup.


def dump(*pages):
    parts = [
        f"<page><title>Page {number}</title>\n<revision><text>"
        f"{html.escape(page, quote=False)}</text></revision></page>\n"
        for number, page in enumerate(pages, 1)
    ]
    return f"<mediawiki>\n{''.join(parts)}</mediawiki>"


HOSTILE = {
    "references": "<ref>" * 60_000,
    "links": "[[a|" * 75_000,
    "attributes that stay open": "<i x='" * 50_000,
    "tables": "{|\n" * 100_000,
    "templates and tags": "{{a|<b>" * 40_000,
    "comments": "<!--" * 75_000,
    "comments in links": ("[[a|<!--" + "word and " * 40) * 330,
    "external links": "[http://a " * 30_000,
    "cells that one end closes": "<td>\n*" * 40_000 + "</b>",
    "ends without their sign": "<b>" * 30_000 + "</b " * 30_000,
    "quotes that stay open": '<i x="/>' * 40_000,
    "words in tags that stay open": ("<ref name=a " + "word " * 900) * 190,
    "links in elements that stay open": ("<div>" + "[[a|b]]" * 400) * 60,
    "equals signs of a heading": "==x" * 200_000,
    "list markers": ":" * 600_000,
    "rules": "----\n" * 300_000,
    "ends of another tag": "<pre>" * 30_000 + "</prefix>",
    "ends that are not complete": "<math></math " * 19_000,
    "attributes": "<a " + "b=c " * 500_000 + ">x</a>",
    "small tags": '<ref name="a"/>' * 200_000,
    "free links": "http://a " * 400_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_with_too_much_unclosed_markup_is_dropped(
    tmp_path, monkeypatch, capsys, name
):
    """Each would take minutes or gigabytes, or end the process."""
    parse, parsed = wikitext_process.to_plain_text, []

    def note(page, max_seconds):
        parsed.append(page)
        return parse(page, max_seconds)

    monkeypatch.setattr(wikitext_process, "to_plain_text", note)
    path = write(tmp_path / "a.xml", dump("Tea.", HOSTILE[name], "[[Milk]]."))
    found, counts = read(path, input_format="mediawiki")
    assert [lines for _, lines in found] == [("Page 1", "Tea."), ("Page 3", "Milk.")]
    assert parsed == ["Tea.", "[[Milk]]."]
    assert counts == {"complex_pages": 1}
    assert capsys.readouterr().err == (
        f"{path}, line 4: the page 'Page 2' is dropped: its markup is too much, or too "
        "little of it is closed, for text.max_markup_work=100000000\n"
    )


@pytest.mark.parametrize(
    ("page", "work"),
    [
        # 200 for each of [ { | &, 300 for a colon or a heading, 400 for <, and 500 for
        # a marker of a list or a rule, and 700 for an attribute, if all is closed.
        ("a - b", 0),
        ("a: b", 300),
        ("* a", 500),
        ("----", 500),
        ("<li>a", 400),
        ("<b>a</b>", 800),
        ("<pre>a</PRE >", 800),
        ('<b c="d" e>a</b>', 2200),
        ("{{a|b}}", 600),
        # And what is read again from what is not closed to the end of the page, the
        # line or the tag: 1 for each character, 40 in a tag, 1/40 in a comment that is
        # searched again, and that of the markup.
        ("[[a|[[b|", 3012),
        ("[http://a b\nc]", 1011),
        ("<!-- a", 406),
        ("<!--" + "a" * 76, 482),
        ("<!--a-->" + "<!--", 804),
        ("<nowiki>[[", 1212),
        ("<li>a</b>", 1205),
        ("<b [[x]]", 1920),
    ],
)
def test_work_of_markup(tmp_path, page, work):
    path = write(tmp_path / "a.xml", dump(page))
    text = {"input_format": "mediawiki"}
    assert "complex_pages" not in read(path, max_markup_work=max(1, work), **text)[1]
    if work > 1:
        assert read(path, max_markup_work=work - 1, **text)[1] == {"complex_pages": 1}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("{" * 4000 + "}" * 4000, "it is nested too deeply, or needs too much memory"),
        (
            "<pre>" * 20_000 + "</prefix>",
            "it took more than text.max_markup_seconds=1 of a processor",
        ),
    ],
)
def test_a_page_that_the_estimate_does_not_see_is_dropped(
    tmp_path, monkeypatch, capsys, page, reason
):
    monkeypatch.setattr(formats.markup_work, "exceeds", lambda *_: False)
    path = write(tmp_path / "a.xml", dump("Tea.", page, "[[Milk]]."))
    text = {"input_format": "mediawiki", "max_markup_seconds": 1}
    found, counts = read(path, **text)
    assert [lines for _, lines in found] == [("Page 1", "Tea."), ("Page 3", "Milk.")]
    assert counts == {"complex_pages": 1}
    expected = f"{path}, line 4: the page 'Page 2' is dropped: {reason}\n"
    assert capsys.readouterr().err == expected


def test_markup_that_is_closed_is_no_bound(tmp_path):
    article = (
        "'''Tea''' is [[drink|hot]].<ref name=\"a\">{{book|title=B}}</ref> {|\n|-\n"
        "| a || b\n|}\n== Notes ==\n* one &amp; two<br />\n<p>[http://a.b c]</p>\n"
    )
    path = write(tmp_path / "a.xml", dump(article * 1000))
    found, counts = read(path, input_format="mediawiki")
    assert (len(found), counts) == (1, {})
    assert len(found[0][1]) > 1000


def test_a_page_of_very_many_elements_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "_MAX_PAGE_TAGS", 10)
    pages = "<page><title>A</title>" + "<a/>" * 9 + "</page>"
    path = write(tmp_path / "a.xml", f"<mediawiki>{pages}</mediawiki>")
    found, counts = read(path, input_format="mediawiki")
    assert (found, counts) == ([], {"complex_pages": 1})


def test_many_beginnings_of_elements_take_linear_time(tmp_path):
    path = write(tmp_path / "a", "<doc " * 2_000_000 + "\n</doc>\n")
    with pytest.raises(ValueError, match="a, line 2: </doc> has no start"):
        read(path, input_format="wikiextractor")
    path = write(tmp_path / "b", "<doc a\n<doc\nb>\none</doc>\n")
    with pytest.raises(ValueError, match="b, line 1: there is text outside the <doc"):
        read(path, input_format="wikiextractor")
