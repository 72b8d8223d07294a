"""Records as text, their counts, and the page."""

import base64
import dataclasses
import html.parser
import json
import re

import numpy as np
import pytest
from scipy import stats

from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep import inspect_records
from data_prep.inspection import html as html_lib
from data_prep.inspection import run, text
from data_prep.inspection import sample as sample_lib
from data_prep.inspection import tables as tables_lib
from data_prep.records import reader
from data_prep.verification import manifest as manifest_lib
from tests.support import binaries, small_run

# the river runs through / a lake!; CLS is 2, SEP 3, MASK 4, ▁city 108, "." 9.
TOKENS = [2, 14, 212, 1098, 173, 3, 22, 882, 861, 3]
EXAMPLE = sample_lib.Example(
    number=7,
    place=reader.Place("train-00001-of-00003.tfrecord", 2),
    tokens=np.array(TOKENS, np.int32),
    # river becomes [MASK], runs is kept, lake becomes city, "!" becomes [MASK].
    input_ids=np.array([2, 14, 4, 1098, 173, 3, 22, 108, 4, 3], np.int32),
    is_word_start=np.array([0, 1, 1, 1, 1, 0, 1, 1, 1, 0], bool),
    positions=np.array([2, 3, 7, 8], np.int32),
    segment_a_length=6,
    label=1,
)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.Tokenizer.from_file(str(small_run.VOCAB))


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("static"))


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory):
    return small_run.write_records(
        tmp_path_factory.mktemp("dynamic"),
        "data.masking=dynamic",
        "data.pair_loss=none",
    )


def read(folder, max_records=10**6, num_examples=3, seed=0, split=schema.TRAIN):
    return run.read(str(folder), split, max_records, num_examples, seed)


def statistics(folder):
    manifest = manifest_lib.read_manifest(str(folder))
    return manifest.splits[schema.TRAIN].statistics


def table(tables, title):
    (found,) = [t for t in tables if t.title == title]
    return found


# Text.


def test_a_record_reads_as_text_with_marks(tokenizer, static):
    counts, _, _ = read(static)
    assert text.format_record(EXAMPLE, counts, tokenizer) == (
        "record 7 (train-00001-of-00003.tfrecord, 2): swapped; 10 tokens "
        "(A 4, B 3), 4 masked\n"
        "  A  the [MASK]→river [kept]→runs through\n"
        "  B  a [random city]→lake[MASK]→!"
    )


def test_a_record_without_masks_reads_plain_first(tokenizer, dynamic):
    counts, _, _ = read(dynamic)
    single = EXAMPLE._replace(
        tokens=np.array([*TOKENS[:5], 3], np.int32),
        input_ids=np.array([2, 14, 4, 1098, 173, 3], np.int32),
        positions=np.array([2], np.int32),
        label=-1,
    )
    assert text.format_record(single, counts, tokenizer) == (
        "record 7 (train-00001-of-00003.tfrecord, 2): 6 tokens, 1 masked\n"
        "  A  the river runs through\n"
        "  masked as the trainer may mask it:\n"
        "  A  the [MASK]→river runs through"
    )


def test_a_lone_space_is_seen_where_it_is_masked(tokenizer):
    meta = tokenizer.meta_symbol_id
    example = EXAMPLE._replace(
        tokens=np.array([2, meta, 9, meta, 9, 3], np.int32),
        input_ids=np.array([2, 4, 9, meta, 9, 3], np.int32),
        positions=np.array([1], np.int32),
    )
    (segment,) = sample_lib.parts(example, tokenizer)
    assert text.format_segment(segment) == "[MASK]→▁. ."


def test_a_table_has_its_numbers_to_the_right_and_a_note_below():
    shown = text.format_table(
        tables_lib.Table("T", ("", "count"), [("a", "1"), ("bcd", "2,000")], "N.")
    )
    assert shown == "T\n       count\n  a        1\n  bcd  2,000\n  N."
    plain = tables_lib.Table("T", ("", ""), [("a", "1")])
    assert text.format_table(plain) == "T\n  a  1"


# Counts.


def test_a_record_is_counted_by_hand(static):
    manifest = manifest_lib.read_manifest(str(static))
    sample = sample_lib.Sample(manifest, np.full(25, 5))
    sample.add(EXAMPLE)
    # Three words in a row, of which the second has two tokens.
    row = EXAMPLE._replace(
        positions=np.array([1, 2, 3, 4], np.int32),
        is_word_start=np.array([0, 1, 1, 0, 1, 0, 1, 1, 1, 0], bool),
        label=0,
    )
    sample.add(row)
    assert sample.num_records == 2 and sample.num_full == 2
    assert sample.lengths[10] == 2 and sample.labels.tolist() == [1, 1, 0]
    assert sample.spans[:5].tolist() == [0, 0, 2, 1, 0]
    assert sample.kinds.tolist() == [2 + 1, 1 + 3, 1]
    assert sample.num_tokens == 20 and sample.num_masked == 8 and sample.budget == 10
    assert sample.tokens[14] == 2 and sample.masked[14] == 1
    assert sample.masked[1098] == 2 and sample.masked[861] == 1
    sample.add(row._replace(segment_a_length=10, label=schema.NO_LABEL))
    assert sample.labels.tolist() == [1, 1, 1]
    # A record without a label has no second segment, and so no boundaries.
    assert [column.tolist() for column in sample.boundaries] == [
        *([token] * 2 for token in (14, 173, 22, 861)),
        [4, 4],
        [3, 3],
        [1, 0],
    ]


def test_counts_of_all_records_are_those_of_the_manifest(static):
    counts, _, tokenizer = read(static)
    expected, sample = statistics(static), counts.sample
    assert sample.num_records == sum(expected["labels"].values())
    assert sample.labels.tolist() == [expected["labels"][k] for k in ("0", "1", "-1")]
    assert sample.num_tokens == expected["num_tokens"]
    assert sample.num_masked == expected["num_masked"]
    mask, keep, random = (expected["replacements"][k] for k in schema.REPLACEMENTS)
    assert sample.kinds[0] == mask and sample.kinds[1] >= keep
    assert sample.kinds.sum() == mask + keep + random
    words = sum(int(n) * c for n, c in expected["placed_ngram_lengths"].items())
    assert sample.spans @ np.arange(len(sample.spans)) == words


def test_dynamic_records_are_masked_with_the_drawn_lengths(dynamic):
    counts, examples, tokenizer = read(dynamic)
    sample = counts.sample
    assert counts.kinds.sum() == sample.num_masked > 0
    words = counts.placed @ np.arange(1, 4)
    assert sample.spans @ np.arange(len(sample.spans)) == words
    again, same, _ = read(dynamic)
    other, _, _ = read(dynamic, seed=1)
    assert np.array_equal(again.sample.masked, sample.masked)
    assert not np.array_equal(other.sample.masked, sample.masked)
    assert [e.number for e in same] == [e.number for e in examples]
    for example in examples:
        changed = np.flatnonzero(example.input_ids != example.tokens)
        assert set(changed) <= set(example.positions)


def test_a_sample_is_the_first_records_and_shows_some_of_them(static):
    counts, examples, _ = read(static, max_records=20, num_examples=4)
    assert counts.sample.num_records == 20
    assert len({e.number for e in examples}) == 4
    assert all(e.number < 20 and e.number == e.place.record for e in examples)
    assert {e.place.shard for e in examples} == {"train-00000-of-00003.tfrecord"}
    _, few, _ = read(static, max_records=2, num_examples=10)
    assert len(few) == 2


def test_heldout_records_can_be_read(static):
    counts, examples, _ = read(static, split=schema.HELDOUT)
    assert examples[0].place.shard.startswith("heldout-00000")


# Distributions.


@pytest.mark.parametrize("size", [2, 3, 5, 10])
def test_chi_square_is_scipys(size):
    rng = np.random.default_rng(size)
    law = np.full(size, 1 / size)
    for spread in (0.0, 0.02, 0.05):
        counts = rng.multinomial(2000, rng.dirichlet(np.full(size, 1e9)))
        counts[0] += int(2000 * spread / size)
        exact = stats.chisquare(counts, counts.sum() * law).pvalue
        found = tables_lib.chi_square_p(counts, law)
        assert found == pytest.approx(exact, rel=1e-9)


def test_chi_square_at_its_ends():
    fit = np.array([50, 50])
    law = np.array([0.5, 0.5])
    assert tables_lib.chi_square_p(fit, law) == 1.0
    assert tables_lib.chi_square_p(fit * [1, 3], law) < 1e-5
    assert tables_lib.chi_square_p(np.array([9]), np.array([1.0])) == 1.0
    assert tables_lib.chi_square_p(np.zeros(2, int), law) == 1.0
    without_last = np.array([0.6, 0.4, 0.0])
    assert tables_lib.chi_square_p(np.array([60, 40, 1]), without_last) == 0.0
    assert tables_lib.chi_square_p(np.array([60, 40, 0]), without_last) == 1.0


@pytest.mark.parametrize(("count", "total"), [(0, 10), (3, 7), (500, 1000)])
def test_interval_is_wilsons(count, total):
    exact = stats.binomtest(count, total).proportion_ci(0.99, "wilson")
    found = tables_lib.interval_99(count, total)
    assert found == pytest.approx((exact.low, exact.high), abs=1e-6)


def test_tables_say_whether_the_counts_fit(static, tokenizer):
    counts, _, _ = read(static)
    fitting = counts._replace(
        drawn=np.array([600, 300, 200]),
        placed=np.array([650, 250, 100]),
        kinds=np.array([800, 100, 100]),
        labels=np.array([501, 499, 1000]),
    )
    tables = tables_lib.make_tables(fitting, tokenizer)
    spans = table(tables, "Words of one masked span")
    assert [row[:4] for row in spans.rows[:3]] == [
        ("1", "54.55%", "600 (54.55%)", "650 (65.00%)"),
        ("2", "27.27%", "300 (27.27%)", "250 (25.00%)"),
        ("3", "18.18%", "200 (18.18%)", "100 (10.00%)"),
    ]
    assert "The drawn lengths fit the expected distribution" in spans.note
    replaced = table(tables, "What replaced masked tokens")
    assert replaced.rows[0][:3] == ("[MASK]", "80.00%", "800 (80.00%)")
    assert "They fit the expected distribution" in replaced.note
    labels = table(tables, "Labels")
    assert labels.rows == [
        ("0: in order", "501 (25.05%)"),
        ("1: swapped", "499 (24.95%)"),
        ("-1: none", "1,000 (50.00%)"),
    ]
    assert "between 45.84% and 53.96%; one half is in this interval" in labels.note

    off = fitting._replace(
        drawn=np.array([600, 300, 300]),
        kinds=np.array([900, 50, 50]),
        labels=np.array([600, 400, 0]),
    )
    tables = tables_lib.make_tables(off, tokenizer)
    for title, words in (
        (
            "Words of one masked span",
            "The drawn lengths do NOT fit the expected distribution",
        ),
        ("What replaced masked tokens", "They do NOT fit the expected distribution"),
        ("Labels", "one half is NOT in this interval"),
    ):
        assert words in table(tables, title).note


def test_a_cue_that_reveals_labels_is_named(static, tokenizer):
    counts, _, _ = read(static)
    sample = sample_lib.Sample(counts.manifest, np.full(25, 5))
    for place in range(400):
        # "!" ends segment B if in order, segment A if swapped; [173, 3] are words.
        ends = (861, 173) if place % 3 else (173, 861)
        tokens = EXAMPLE.tokens.copy()
        tokens[[4, 8]] = ends
        sample.add(EXAMPLE._replace(tokens=tokens, label=int(place % 3 > 0)))
    tables = tables_lib.make_tables(counts._replace(sample=sample), tokenizer)
    found = table(tables, "Labels guessed from cues")
    assert found.rows[:2] == [
        ("closing punctuation", "100.00%", "yes"),
        ("last tokens", "100.00%", "yes"),
    ]
    assert (
        "of the 400 pairs" in found.note and "More than 60.00%, 4 stand" in found.note
    )


def test_ledgers_name_what_was_dropped_and_why(static, tokenizer):
    counts, _, _ = read(static)
    documents = {"read": 80, "dropped": {"too_short": 15, "language": 5}, "kept": 60}
    manifest = dataclasses.replace(counts.manifest, documents=documents)
    tables = tables_lib.make_tables(counts._replace(manifest=manifest), tokenizer)
    assert table(tables, "Documents, of all splits").rows == [
        ("read", "80", "100.00%"),
        ("dropped", "20", "25.00%"),
        ("  too short", "15", "18.75%"),
        ("  language", "5", "6.25%"),
        ("kept", "60", "75.00%"),
    ]


def test_there_are_no_labels_without_a_pair_loss(dynamic):
    counts, _, tokenizer = read(dynamic)
    titles = [t.title for t in tables_lib.make_tables(counts, tokenizer)]
    assert "Labels" not in titles and len(titles) == 8


# The page.


class Page(html.parser.HTMLParser):
    """Open tags, sources of loaded content, and text."""

    def __init__(self, content):
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(content)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)
        self.sources += [v for k, v in attrs if k in ("src", "srcset", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page_is_self_contained_and_has_the_expected_shares(static, tmp_path, capsys):
    path = tmp_path / "page.html"
    binaries.run(inspect_records, static, "--num_records=1", f"--html={path}")
    out = capsys.readouterr().out
    assert out.endswith(f"wrote {path}\n") and out.count("record ") >= 1
    assert out.startswith("record ") and "54.55%" in out
    content = path.read_text(encoding="utf-8")
    page = Page(content)
    assert len(page.sources) == 8  # four pictures in two schemes
    for source in page.sources:
        kind, _, data = source.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG")
    assert "prefers-color-scheme: dark" in content
    for number in ("54.55%", "27.27%", "18.18%", "80.00%"):
        assert number in page.text
    drawn = statistics(static)["drawn_ngram_lengths"]
    for count in drawn.values():
        assert f"{count:,} (" in page.text
    assert len(re.findall('<div class="record">', content)) == 10


def test_page_escapes_the_text_and_marks_in_color(static, tokenizer):
    counts, _, _ = read(static)
    segment = [
        sample_lib.Part("<b>", "x", "", False),
        sample_lib.Part("river", "", "mask", True),
        sample_lib.Part("runs", "runs", "keep", True),
        sample_lib.Part("lake", "<i>", "random", False),
    ]
    shown = html_lib.ShownExample("one & only", [segment])
    content = html_lib.make_page("a<b", counts, [], [shown])
    page = Page(content)
    assert "a<b" in page.text and "one & only" in page.text
    assert "<b> [MASK]→river kept→runs<i>→lake" in page.text
    for kind in ("mask", "keep", "random"):
        assert f'<mark class="{kind}">' in content


def test_page_of_records_without_pairs_and_masks(dynamic, tmp_path):
    path = tmp_path / "page.html"
    binaries.run(inspect_records, dynamic, f"--html={path}")
    page = Page(path.read_text(encoding="utf-8"))
    assert len(page.sources) == 6
    assert "one way in which the trainer may mask them" in page.text


# Errors.


def test_mistakes_end_with_one_line(static, tmp_path, capsys):
    def error_of(*arguments):
        return binaries.error_of(capsys, inspect_records, *arguments)

    assert (
        error_of() == "one argument is needed, the directory of the records; received 0"
    )
    assert "no such directory" in error_of(tmp_path / "none")
    folder = tmp_path / "records"
    folder.mkdir()
    values = json.loads((static / schema.MANIFEST_FILE).read_text())

    def write():
        (folder / schema.MANIFEST_FILE).write_text(json.dumps(values))

    write()
    assert "vocab.model: cannot read the vocabulary" in error_of(folder)
    (folder / schema.VOCAB_FILE).write_bytes(small_run.VOCAB.read_bytes() + b"\x5a\x00")
    assert "is not the vocabulary that the records were made" in error_of(folder)
    del values["splits"][schema.HELDOUT]
    write()
    error = error_of(folder, "--split=heldout")
    assert error.startswith("--split must be one of train, which ")
    del values["documents"]["kept"]
    write()
    assert "documents.kept must be a number" in error_of(folder)
