"""Nothing but the text tells the label of a pair: boundaries and lengths say no more.

A classifier that sees one cue alone (`data_prep/inspection/cues.py`) guesses at most
half of the labels and four standard errors. There are fewer than 100 such figures, so a
correct program exceeds that less than once in 300 times, and the seeds are fixed.
Allowances for what real text says of its order are stated where they apply.
"""

import lzma

import numpy as np
import pytest

from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.inspection import cues
from data_prep.pipeline import block_processor
from data_prep.reading import blocks
from data_prep.records import reader
from tests.support import small_run

REAL_TEXT = (
    ("wikipedia_en_good_featured", "sentencex", 64),
    ("wikipedia_en_good_featured", "sentencex", 512),
    ("wikipedia_en_good_featured", "line", 512),
    ("wikipedia_en_random", "sentencex", 128),
)
# What real text without titles says of its order: an article begins with other words
# than it continues with, and may end with a list. docs/data_original.md has the figures
# of more text.
FAIR = {"first tokens": 0.05}
SMALL_ALLOWANCE = 0.01


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.Tokenizer.from_file(str(small_run.VOCAB))


def records_of(path, tokenizer, *overrides):
    """The parsed records of a text, two copies."""
    config = config_io.load(
        "", ["model.vocab_size=4000", "data.dupe_factor=2", *overrides]
    )
    processor = block_processor.BlockProcessor(
        block_processor.PipelineSettings(
            config.text, config.data, tokenizer.model_proto, tokenizer.vocab_size
        )
    )
    size = block_processor.block_bytes(config.data)
    for group in blocks.plan_groups([str(path)]):
        for block in blocks.iter_blocks(group, config.text, size):
            for batch in processor.process(block)[1]:
                data, start = batch.data.tobytes(), 0
                for end in batch.ends.tolist():
                    yield reader.parse_record(
                        data[start:end], config.data.masking, tokenizer.vocab_size
                    )
                    start = end


def boundaries(records):
    """The boundaries of the pairs, and the number of records without a label."""
    rows, num_single = [], 0
    for values in records:
        tokens, segment = reader.unmask(values), values["segment_a_length"]
        label = values["next_sentence_labels"]
        if label == schema.NO_LABEL:
            num_single += 1
            continue
        ends = tokens[[1, segment - 2, segment, -2]].tolist()
        rows.append((*ends, segment - 2, len(tokens) - segment - 1, label))
    return cues.Boundaries.of_rows(rows), num_single


def excesses(pairs, tokenizer):
    """By how much the guesses from each cue exceed chance and four standard errors."""
    most = 0.5 + 4 * cues.standard_error(len(pairs.labels))
    return {k: r - most for k, r in cues.guess_rates(pairs, tokenizer).items()}


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    """Sentences of 3 to 40 words, whose first and last tokens are not within others."""
    rng = np.random.default_rng(3)
    pieces = [p[1:] for p in tokenizer.pieces(range(4000)) if p[:1] == "▁"]
    words = np.array([p for p in pieces if p.isalpha() and p.islower()])
    documents = [
        "\n".join(
            f"{rng.choice(['The', 'A', 'It'])} {' '.join(rng.choice(words, size))}"
            f"{rng.choice(['.', '?', '!'])}"
            for size in rng.integers(2, 40, rng.integers(1, 30))
        )
        for _ in range(2000)
    ]
    path = tmp_path_factory.mktemp("cues") / "corpus.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "settings",
    [
        ("data.max_seq_length=32",),
        ("data.max_seq_length=64",),
        ("data.max_seq_length=64", "data.masking=dynamic"),
        ("data.max_seq_length=128", "data.short_seq_rate=1"),
    ],
    ids=lambda settings: " ".join(settings),
)
def test_no_cue_reveals_the_order_of_independent_sentences(corpus, tokenizer, settings):
    pairs, num_single = boundaries(records_of(corpus, tokenizer, *settings))
    assert len(pairs.labels) > 5000 and num_single > 1000
    found = excesses(pairs, tokenizer)
    assert max(found.values()) <= 0, found
    errors = abs(pairs.labels.mean() - 0.5) / cues.standard_error(len(pairs.labels))
    assert errors < 4


@pytest.fixture(scope="module")
def real_text(shared_data, tmp_path_factory):
    """The first articles of two corpora by name, without their titles."""
    folder = tmp_path_factory.mktemp("real")
    for name in {name for name, _, _ in REAL_TEXT}:
        path = shared_data / f"{name}.txt.xz"
        with lzma.open(path, "rt", encoding="utf-8") as file:
            articles = file.read(3_000_000).split("\n\n")[:-1]
        texts = [article.partition("\n")[2] for article in articles]
        (folder / name).write_text("\n\n".join(filter(None, texts)), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("name", "splitter", "length"), REAL_TEXT)
def test_no_cue_but_the_text_reveals_the_order_of_real_text(
    real_text, tokenizer, name, splitter, length
):
    settings = (f"text.sentence_splitter={splitter}", f"data.max_seq_length={length}")
    pairs, _ = boundaries(records_of(real_text / name, tokenizer, *settings))
    found = excesses(pairs, tokenizer)
    unfair = {k: e for k, e in found.items() if e > FAIR.get(k, SMALL_ALLOWANCE)}
    assert not unfair, found


def test_next_sentence_labels_are_not_revealed_by_where_segments_end(corpus, tokenizer):
    settings = ("data.max_seq_length=64", "data.pair_loss=nsp")
    pairs, num_single = boundaries(records_of(corpus, tokenizer, *settings))
    assert len(pairs.labels) > 5000 and num_single > 1000
    found = excesses(pairs, tokenizer)
    # A random segment is only about as long as the one that it replaces; in real text,
    # whose documents differ more, that reveals more (docs/data_original.md).
    lengths = found.pop("both lengths"), found.pop("which segment is longer")
    assert max(lengths) <= SMALL_ALLOWANCE, lengths
    assert max(found.values()) <= 0, found
    errors = abs(pairs.labels.mean() - 0.5) / cues.standard_error(len(pairs.labels))
    assert errors < 4


def test_a_cue_is_found_where_there_is_one(tokenizer):
    """Labels that the last token of segment A decides in three of four pairs."""
    rng = np.random.default_rng(0)
    rows = rng.integers(10, 4000, (4000, 7))
    rows[:, -1] = rng.integers(0, 2, 4000)
    period, word = tokenizer.encode("town.")[-1], tokenizer.encode("town")[0]
    ends = np.where(rng.random(4000) < 0.75, rows[:, -1], 1 - rows[:, -1])
    rows[:, 1] = np.where(ends, period, word)
    found = excesses(cues.Boundaries.of_rows(rows), tokenizer)
    assert {name for name, e in found.items() if e > 0} == {
        "closing punctuation",
        "last tokens",
    }
    most = 0.5 + 4 * cues.standard_error(4000)
    assert found["last tokens"] + most == pytest.approx(0.75, abs=0.03)
