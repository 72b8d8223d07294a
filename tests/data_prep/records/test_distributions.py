"""The distributions of records, tested by counting over 100,000 of them.

Rules for each record are tested exactly. Distributions are tested at LEVEL, which was
chosen before any figure was known: this file has fewer than 100 such tests, so together
they fail a correct program in less than one case in a hundred. The seeds are fixed, so
a test that passes once always passes.

The last part compares with the output of the original: docs/data_original.md.
"""

import collections
import itertools
import json
import lzma
import random
import re
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import input_pipeline, masking, record_parser, schema
from albert_tf.data import manifest as manifest_lib
from albert_tf.tokenization import tokenizer as tokenizer_lib
from data_prep.pipeline import local_run
from data_prep.records import reader
from data_prep.text import sentences
from tests.support import small_run

LEVEL = 1e-4
ENOUGH = 100_000
SEQ_LENGTH = 64
MASK = 4
NGRAM_DISTRIBUTIONS = {
    "shorter": [6 / 11, 3 / 11, 2 / 11],
    "uniform": [1 / 3, 1 / 3, 1 / 3],
    "longer": [1 / 6, 2 / 6, 3 / 6],
}
# One-word sentences of a document: as many as fit in a record of 32 tokens.
NUM_WORDS = 29


class Records(NamedTuple):
    """The trainer's input, with the tokens before masking, and their words.

    Attributes:
      shown: int32 [B, S], masks applied.
      tokens: int32 [B, S], before masking.
      is_text: bool [B, S], neither special token nor padding.
      is_masked: bool [B, S].
      num_tokens: int64 [B], without padding.
      segment_a_length: int64 [B], from [CLS] to the first [SEP].
      labels: int64 [B], of the pairs; -1 without one.
      word_rows: int64 [W], the record of each word.
      word_lengths: int64 [W], its tokens.
      word_masked: int64 [W], how many of them are masked.
    """

    shown: np.ndarray
    tokens: np.ndarray
    is_text: np.ndarray
    is_masked: np.ndarray
    num_tokens: np.ndarray
    segment_a_length: np.ndarray
    labels: np.ndarray
    word_rows: np.ndarray
    word_lengths: np.ndarray
    word_masked: np.ndarray


def make_config(*overrides):
    return config_io.load(
        "",
        [
            "model.vocab_size=4000",
            f"data.max_seq_length={SEQ_LENGTH}",
            "data.heldout_rate=0",
            "train.batch_size=1000",
            *overrides,
        ],
    )


def make(corpus, folder, *overrides):
    """Makes the records of a corpus; returns the manifest."""
    return local_run.create_pretraining_data(
        str(corpus), str(small_run.VOCAB), str(folder), make_config(*overrides)
    )


def read(folder, *overrides):
    """One epoch of training batches, without the last partial batch."""
    config = make_config(*overrides)
    manifest = manifest_lib.read_manifest(str(folder))
    input_fn = input_pipeline.train_input_fn(str(folder), manifest, config)
    num_batches = manifest.splits[schema.TRAIN].num_records // config.train.batch_size
    batches = input_fn(tf.distribute.InputContext()).take(num_batches)
    columns: dict[str, list] = {}
    for batch in batches.as_numpy_iterator():
        for name, values in batch.items():
            columns.setdefault(name, []).append(values)
    return resolve({name: np.concatenate(of) for name, of in columns.items()})


def resolve(features):
    """Computes the fields of `Records`, without the product's code."""
    shown = features["input_ids"]
    num_records, seq_length = shown.shape
    num_tokens = features["input_mask"].sum(1)
    segment_a = num_tokens - features["segment_ids"].sum(1)
    rows, items = np.nonzero(features["masked_lm_weights"])
    places = features["masked_lm_positions"][rows, items]
    tokens = shown.copy()
    tokens[rows, places] = features["masked_lm_ids"][rows, items]
    is_masked = np.zeros(shown.shape, bool)
    is_masked[rows, places] = True
    assert is_masked.sum() == len(rows)  # no position twice

    place = np.arange(seq_length)
    ends = (place == segment_a[:, None] - 1) | (place == num_tokens[:, None] - 1)
    is_text = (place > 0) & (place < num_tokens[:, None]) & ~ends
    begins = (place == 1) | (place == segment_a[:, None])
    begins |= tokenizer().is_word_start[tokens]
    word = np.cumsum(begins[is_text]) - 1
    return Records(
        shown,
        tokens,
        is_text,
        is_masked,
        num_tokens,
        segment_a,
        features["next_sentence_labels"],
        np.nonzero(is_text & begins)[0],
        np.bincount(word),
        np.bincount(word, weights=is_masked[is_text]).astype(np.int64),
    )


def pairs_of(records):
    """The records that have labels; the words are those of all records."""
    has_label = records.labels >= 0
    per_record = records._asdict()
    return records._replace(
        **{
            name: per_record[name][has_label]
            for name in per_record
            if not name.startswith("word_")
        }
    )


def tokenizer():
    return tokenizer_lib.Tokenizer.from_file(str(small_run.VOCAB))


def holds(counts, shares):
    """Returns whether counts follow shares, by a chi-square test."""
    expected = np.array(shares) * np.sum(counts) / np.sum(shares)
    assert expected.min() > 5
    return stats.chisquare(counts, expected).pvalue > LEVEL


def independent(*pair):
    """Returns whether two columns of small integers are independent."""
    table = np.zeros([int(column.max()) + 1 for column in pair], int)
    np.add.at(table, tuple(np.asarray(column, int) for column in pair), 1)
    table = table[table.any(1)][:, table.any(0)]
    return stats.chi2_contingency(table).pvalue > LEVEL


def quantile(values, num_bins=10):
    """The bin of each value; the bins are about equally full."""
    borders = np.unique(np.quantile(values, np.linspace(0, 1, num_bins + 1)[1:-1]))
    return np.searchsorted(borders, values, "right")


def is_half(count, total):
    low, high = stats.binom.interval(1 - LEVEL, total, 0.5)
    return low <= count <= high


# ---- Corpora ----


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents of 1 to 60 sentences of 1 to 25 words of 1 to 4 pieces or so."""
    rng = np.random.default_rng(11)
    pieces = [p for p in tokenizer().pieces(range(4000)) if p.strip("▁").isalpha()]
    stems = [p[1:] for p in pieces if p.startswith("▁")]
    endings = [p for p in pieces if not p.startswith("▁")]
    words = np.array(
        [
            rng.choice(stems)
            + "".join(rng.choice(endings, rng.choice(3, p=[0.7, 0.2, 0.1])))
            for _ in range(3000)
        ]
    )
    documents = []
    for _ in range(1000):
        lengths = rng.integers(1, 26, rng.integers(1, 61))
        chosen = rng.choice(words, lengths.sum())
        sentences = np.split(chosen, np.cumsum(lengths)[:-1])
        documents.append("\n".join(" ".join(sentence) + "." for sentence in sentences))
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def static_dir(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    manifest = make(corpus, folder)
    assert manifest.splits[schema.TRAIN].num_records >= ENOUGH
    return folder


@pytest.fixture(scope="module")
def static(static_dir):
    return read(static_dir)


@pytest.fixture(scope="module")
def dynamic(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dynamic")
    make(corpus, folder, "data.masking=dynamic")
    return read(folder, "data.masking=dynamic")


@pytest.fixture(params=["static", "dynamic"])
def records(request):
    found = request.getfixturevalue(request.param)
    assert len(found.shown) > 0.99 * ENOUGH
    return found


# ---- Masks ----


def test_whole_words_are_masked_and_no_special_token(records):
    whole = (records.word_masked == 0) | (records.word_masked == records.word_lengths)
    assert whole.all()
    assert not records.is_masked[~records.is_text].any()
    assert (records.word_lengths > 1).mean() > 0.2


def test_each_record_is_masked_to_its_budget_but_for_words_that_do_not_fit(records):
    budgets = np.array([max(1, round(0.15 * n)) for n in range(SEQ_LENGTH + 1)])
    left = budgets[records.num_tokens] - records.is_masked.sum(1)
    assert left.min() >= 0
    is_free = records.word_masked == 0
    free_rows = records.word_rows[is_free]
    assert (records.word_lengths[is_free] > left[free_rows]).all()


def replacements(records):
    """Masked tokens, and their replacements."""
    return records.tokens[records.is_masked], records.shown[records.is_masked]


def test_eighty_ten_ten(records):
    labels, shown = replacements(records)
    counts = [(shown == MASK).sum(), (shown == labels).sum()]
    counts.append(len(shown) - sum(counts))
    # A random token sometimes equals the original.
    same = 0.1 / len(tokenizer().replacement_ids)
    assert holds(counts, [0.8, 0.1 + same, 0.1 - same])


def test_random_replacements_are_uniform_and_never_control_symbols(records):
    plain = tokenizer().replacement_ids
    labels, shown = replacements(records)
    is_random = (shown != MASK) & (shown != labels)
    assert np.isin(shown[is_random], plain).all()
    assert not np.isin([0, 1, 2, 3, 4], plain).any()
    # A random token that equals the original is not visible.
    seen = len(labels) - np.bincount(labels, minlength=4000)
    counts = np.bincount(shown[is_random], minlength=4000)[plain]
    assert holds(counts, seen[plain])
    # Each is drawn about 20 times; the probability that one never is, is below LEVEL.
    assert counts.all()


@pytest.mark.parametrize("law", NGRAM_DISTRIBUTIONS)
def test_lengths_of_ngrams_follow_each_distribution(corpus, tmp_path, law):
    manifest = make(corpus, tmp_path, f"data.ngram_distribution={law}")
    split = manifest.splits[schema.TRAIN]
    assert split.num_records >= ENOUGH
    drawn = list(split.statistics["drawn_ngram_lengths"].values())
    assert holds(drawn, NGRAM_DISTRIBUTIONS[law])


def mask_rows(row, segment_a_length, law, num_rows, num_predictions):
    """Masked positions of equal sequences of one-token words; [num_rows, P]."""
    found = []
    for first in range(0, num_rows, 10_000):
        keys = np.arange(first, first + 10_000, dtype=np.uint64)[:, None]
        _, positions, _, _ = masking.mask_batch(
            np.tile(row, (10_000, 1)),
            np.full(10_000, len(row), np.int32),
            np.full(10_000, segment_a_length, np.int32),
            np.zeros((10_000, -(-len(row) // 8)), np.uint8),
            False,
            law,
            keys,
            num_predictions,
        )
        found.append(positions)
    return np.concatenate(found)


@pytest.mark.parametrize("law", NGRAM_DISTRIBUTIONS)
def test_masked_spans_follow_the_distribution(law):
    """With room for three tokens, a first length of 3 fills it."""
    row = np.array([2, *[20] * 1000, 3], np.int32)
    rule = masking.make_params(3, law, 0.15, 3, 1002, MASK, np.array([7]), 0.8, 0.1)
    positions = mask_rows(row, 1002, rule, ENOUGH, 3)
    count = (positions[:, 2] - positions[:, 0] == 2).sum()
    # Or up to two later spans touch the first: each has four places or fewer for that.
    share = NGRAM_DISTRIBUTIONS[law][2]
    most = share + (1 - share) * 2 * 4 / 990
    assert stats.binom.ppf(LEVEL / 2, ENOUGH, share) <= count
    assert count <= stats.binom.ppf(1 - LEVEL / 2, ENOUGH, most)


def test_no_span_crosses_the_border_of_segments():
    """The last of A and the first of B meet no more often than words far apart."""
    row = np.array([2, *[20] * 20, 3, *[20] * 20, 3], np.int32)
    rule = masking.make_params(2, "longer", 0.15, 2, 43, MASK, np.array([7]), 0.8, 0.1)
    positions = mask_rows(row, 22, rule, 2 * ENOUGH, 2)
    across = (positions == [20, 22]).all(1).sum()
    # The same pair where the segments are swapped.
    apart = (positions == [1, 41]).all(1).sum()
    assert apart > 30
    assert is_half(across, across + apart)


def run_lengths(records):
    """The number of masked runs of 1, 2, … tokens in the records."""
    padded = np.pad(records.is_masked, ((0, 0), (1, 1))).astype(np.int8)
    steps = np.diff(padded.ravel())
    lengths = np.flatnonzero(steps == -1) - np.flatnonzero(steps == 1)
    return np.bincount(np.minimum(lengths, 12), minlength=13)[1:]


def test_static_and_dynamic_masks_follow_one_distribution(static, dynamic):
    """Two samples of the same text: runs, lengths of masked words, places, kinds."""

    def summaries(records):
        labels, shown = replacements(records)
        is_masked = records.word_masked > 0
        lengths = np.minimum(records.word_lengths[is_masked], 5)
        places = np.nonzero(records.is_masked)[1]
        kinds = np.where(shown == MASK, 0, np.where(shown == labels, 1, 2))
        return [
            run_lengths(records),
            np.bincount(lengths, minlength=6)[1:],
            np.bincount(places, minlength=SEQ_LENGTH)[1:-1],
            np.bincount(kinds, minlength=3),
        ]

    for pair in zip(summaries(static), summaries(dynamic), strict=True):
        table = np.array(pair)
        table = table[:, table.sum(0) > 10]
        assert stats.chi2_contingency(table).pvalue > LEVEL


# ---- Pairs ----


def test_half_are_swapped_whatever_the_length(records):
    records = pairs_of(records)
    assert is_half(records.labels.sum(), len(records.labels))
    assert independent(records.labels, quantile(records.num_tokens))
    assert independent(records.labels, records.is_masked.sum(1))


def lengths_say_nothing_of_the_label(records):
    records = pairs_of(records)
    length_a = records.segment_a_length - 2
    length_b = records.num_tokens - records.segment_a_length - 1
    return (
        independent(records.labels, np.sign(length_a - length_b) + 1)
        and independent(records.labels, quantile(length_a))
        and independent(records.labels, quantile(length_b))
    )


def test_labels_do_not_depend_on_which_segment_is_longer(one_word):
    labels = pairs_of(one_word).labels
    assert len(labels) >= ENOUGH
    assert is_half(labels.sum(), len(labels))
    assert lengths_say_nothing_of_the_label(one_word)


def test_labels_do_not_depend_on_which_segment_is_longer_if_sentences_vary(static):
    assert lengths_say_nothing_of_the_label(static)


def test_labels_do_not_depend_on_the_place_in_the_files(static_dir):
    manifest = manifest_lib.read_manifest(str(static_dir))
    found = reader.iter_records(str(static_dir), manifest, schema.TRAIN)
    labels, lengths = [], []
    has_label = (v for _, v in found if v["next_sentence_labels"] != schema.NO_LABEL)
    for values in itertools.islice(has_label, 20_000):
        labels.append(values["next_sentence_labels"])
        lengths.append(len(values["input_ids"]))
        assert len(values["masked_lm_ids"]) <= max(1, round(0.15 * lengths[-1]))
    assert is_half(sum(labels), len(labels))
    place = np.arange(len(labels)) * 8 // len(labels)
    assert independent(np.array(labels), place)
    assert independent(quantile(lengths), place)
    # Neighbours: (0, 0), (0, 1), (1, 0) and (1, 1) are equally frequent.
    assert independent(np.array(labels[1:]), np.array(labels[:-1]))


def test_labels_do_not_depend_on_the_place_in_a_packed_row(corpus, tmp_path):
    manifest = make(corpus, tmp_path, "data.pack_sequences=2")
    rows = [
        [values for _, values in row]
        for _, row in itertools.groupby(
            reader.iter_records(str(tmp_path), manifest, schema.TRAIN),
            key=lambda found: found[0],
        )
    ]
    assert len(rows) == manifest.splits[schema.TRAIN].num_records
    labels, lengths, places, sizes = np.array(
        [
            (values["next_sentence_labels"], len(values["input_ids"]), place, len(row))
            for row in rows
            for place, values in enumerate(row)
        ]
    ).T
    has_label = labels != schema.NO_LABEL
    # A long sequence is more often the first; that says nothing of its label.
    assert np.mean(lengths[places == 0]) > np.mean(lengths[places > 0]) + 5
    for hint in (places, sizes, quantile(lengths)):
        assert independent(labels[has_label], hint[has_label])
    # Nor do neighbours hint at one another.
    pairs = [
        (one["next_sentence_labels"], other["next_sentence_labels"])
        for row in rows
        for one, other in itertools.pairwise(row)
    ]
    both = np.array([pair for pair in pairs if schema.NO_LABEL not in pair])
    assert len(both) > 20_000 and independent(both[:, 0], both[:, 1])


def test_half_of_next_sentences_are_random_whatever_the_length_of_a(corpus, tmp_path):
    make(corpus, tmp_path, "data.pair_loss=nsp")
    found = pairs_of(read(tmp_path, "data.pair_loss=nsp"))
    assert len(found.labels) >= ENOUGH
    assert is_half(found.labels.sum(), len(found.labels))
    assert independent(found.labels, quantile(found.segment_a_length))


# ---- Lengths ----


@pytest.fixture(scope="module")
def one_word_dir(tmp_path_factory):
    """Records of 20,000 documents of `NUM_WORDS` sentences of one word, 10 copies."""
    folder = tmp_path_factory.mktemp("words")
    words = ["the", "of", "and", "in", "to", "was", "on", "that"]
    texts = ["\n".join([word] * NUM_WORDS) for word in words]
    documents = [text for text in texts for _ in range(2500)]
    (folder / "corpus.txt").write_text("\n\n".join(documents))
    settings = ("data.max_seq_length=32", "data.max_ngram=1", "data.min_shards=1")
    make(folder / "corpus.txt", folder / "out", *settings)
    return folder / "out"


@pytest.fixture(scope="module")
def one_word(one_word_dir):
    """All of those records, in the order of the file."""
    manifest = manifest_lib.read_manifest(str(one_word_dir))
    parser = record_parser.Parser(manifest, make_config().data)
    (shard,) = manifest.splits[schema.TRAIN].shards
    columns: dict[str, list] = {}
    for batch in tf.data.TFRecordDataset(str(one_word_dir / shard.name)).batch(5000):
        features = parser.parse(batch, tf.zeros([tf.size(batch), 1], tf.int64))
        for name, values in features.items():
            columns.setdefault(name, []).append(values.numpy())
    return resolve({name: np.concatenate(of) for name, of in columns.items()})


def test_a_tenth_of_copies_has_a_short_target_and_these_are_uniform(one_word):
    """Sentences of one token fill a target exactly, so the lengths show the targets."""
    counts = np.bincount(one_word.is_text.sum(1), minlength=NUM_WORDS + 1)
    targets = np.zeros(NUM_WORDS + 1, int)
    # A target gives the records that it fills, and one of the remaining tokens.
    for target in range(NUM_WORDS, 1, -1):
        num_filled, rest = divmod(NUM_WORDS, target)
        assert counts[target] >= 0 and counts[target] % num_filled == 0
        targets[target] = counts[target] // num_filled
        counts[rest] -= targets[target]
    assert targets.sum() == 200_000
    # One short target in 28 is the longest, too.
    short = 0.1 / (NUM_WORDS - 1)
    low, high = stats.binom.interval(1 - LEVEL, 200_000, 0.9 + short)
    assert low <= targets[NUM_WORDS] <= high
    assert holds(targets[2:], [short] * (NUM_WORDS - 2) + [0.9 + short])


def test_every_word_is_masked_as_often_as_any_other(one_word):
    """Of 29 words 5 are masked, each choice as likely as any other."""
    is_full = one_word.num_tokens == NUM_WORDS + 3
    is_masked = one_word.is_masked[is_full][one_word.is_text[is_full]]
    counts = is_masked.reshape(-1, NUM_WORDS).sum(0)
    num_records, num_masked = is_full.sum(), 5
    assert num_records > ENOUGH and counts.sum() == num_masked * num_records
    expected = num_masked * num_records / NUM_WORDS
    # Drawn without replacement, counts vary less than a chi-square test assumes.
    scale = (NUM_WORDS - 1) / (NUM_WORDS - num_masked)
    statistic = scale * ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, NUM_WORDS - 1) > LEVEL


def test_records_of_the_whole_corpus_are_in_random_order(one_word):
    """The place of a record is independent of the eighth of the corpus it is from."""
    words = one_word.tokens[:, 1]
    place = np.arange(len(words)) * 16 // len(words)
    assert len(np.unique(words)) == 8
    assert independent(quantile(words, 8), place)
    assert independent(quantile(words[1:], 8), quantile(words[:-1], 8))


# ---- The original's output ----

# Copies differ most by their few short targets, so figures are means over seeds.
SEEDS = (1, 2, 3, 4)
WORD = re.compile(r"[^\W\d_]+")


@pytest.fixture(scope="module")
def near_corpus(shared_data, tmp_path_factory):
    """Text as similar to the original's corpus as possible.

    That was 2.2 MB of Wikipedia's good and featured articles with "unk" for rare words,
    under the small vocabulary: there "unk" is the third of the pieces. Here the first
    18 kB of articles are taken, as long as the parts of such corpora are, and words
    that occur less than 50 times in 11 million characters are "unk". Then a word has as
    many pieces as in the original's, 1.23.
    """
    path = shared_data / "wikipedia_en_good_featured.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        text = file.read(11_000_000)
    counts = collections.Counter(WORD.findall(text))
    splitter = config_lib.TextConfig(sentence_splitter="sentencex")
    documents: list[str] = []
    num_bytes = 0
    for article in text.split("\n\n"):
        paragraphs = [p for p in article.split("\n")[1:] if len(p) >= 40]
        sizes = np.cumsum([0] + [len(p.encode()) for p in paragraphs])
        kept = [
            WORD.sub(lambda w: w[0] if counts[w[0]] >= 50 else "unk", paragraph)
            for paragraph, size in zip(paragraphs, sizes, strict=False)
            if size < 18_000
        ]
        documents.append("\n".join(sentences.split_sentences(kept, splitter)))
        num_bytes += len(documents[-1].encode())
        if num_bytes >= 2_198_333:
            break
    path = tmp_path_factory.mktemp("near") / "corpus.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def figures(lengths, length_a, labels, num_masked, ngrams, kinds, num_special):
    """The figures of `data_stats_d10.json`, by its names."""
    is_short = lengths < 134
    return {
        "instances": len(lengths),
        "ngram_words_dist": list(ngrams / np.sum(ngrams)),
        "mean_pieces_per_span": num_masked.sum() / np.sum(ngrams),
        "labels": np.sum(np.array(labels) >= 0),
        "sop_label1_frac": np.mean([label for label in labels if label >= 0]),
        "len_mean": lengths.mean(),
        "padding_frac": 1 - lengths.mean() / 512,
        "full512_frac": np.mean(lengths == 512),
        "len<256": np.mean(lengths < 256),
        "len<512": np.mean(lengths < 512),
        "len_quantiles": list(np.quantile(lengths, [0, 0.05, 0.1, 0.25, 0.5, 0.75, 1])),
        "masked_of_real_tokens": num_masked.sum() / lengths.sum(),
        "pred_per_seq_mean": num_masked.mean(),
        "pred==20": np.mean(num_masked == 20),
        "seqs_len<134": is_short.mean(),
        "masked_frac_in_short": num_masked[is_short].sum() / lengths[is_short].sum(),
        "mask/keep/random": list(np.array(kinds) / np.sum(kinds)),
        "random_is_special": num_special,
        "seg0_len_mean": np.mean(length_a),
    }


def our_figures(corpus, folder, seed):
    """The figures of the recipe's records."""
    config = config_io.load(
        "configs/data_original.py", ["model.vocab_size=4000", f"data.seed={seed}"]
    )
    manifest = local_run.create_pretraining_data(
        str(corpus), str(small_run.VOCAB), str(folder), config
    )
    parser = record_parser.Parser(manifest, config.data)
    split = manifest.splits[schema.TRAIN]
    paths = [str(folder / shard.name) for shard in split.shards]
    batches = tf.data.TFRecordDataset(paths).batch(4000)
    parsed = [parser.parse(b, tf.zeros([tf.size(b), 1], tf.int64)) for b in batches]
    records = resolve(
        {name: np.concatenate([b[name] for b in parsed]) for name in parsed[0]}
    )
    labels, shown = replacements(records)
    return figures(
        records.num_tokens,
        records.segment_a_length,
        records.labels,
        records.is_masked.sum(1),
        list(split.statistics["placed_ngram_lengths"].values()),
        list(split.statistics["replacements"].values()),
        ((shown != labels) & (shown < 4)).sum(),
    )


class OriginalsRules:
    """The original's rules of packing and masking, as its figures show them.

    Those that this project fixed: a chunk takes in the sentence that overflows, and is
    then truncated at random ends of the longer segment; a chunk of one sentence gets a
    second segment from a random document, and label 1; a length is drawn for each word
    that is tried; a random token is any token. `is_fixed` keeps the last only.
    """

    def __init__(self, corpus, seed, is_fixed=False):
        self._is_fixed = is_fixed
        text = corpus.read_text(encoding="utf-8")
        encode = tokenizer().encode_batch
        self._documents = [encode(d.split("\n")) for d in text.split("\n\n")]
        self._begins = tokenizer().is_word_start
        self._random = random.Random(seed)
        self._ngrams, self._kinds = np.zeros(3), np.zeros(3)
        self._num_special = 0

    def figures(self):
        pairs = [
            pair
            for _ in range(10)
            for number in range(len(self._documents))
            for pair in self._pack(number)
        ]
        num_masked = np.array([self._mask(a, b) for a, b, _ in pairs])
        return figures(
            np.array([len(a) + len(b) + 2 + bool(b) for a, b, _ in pairs]),
            [len(a) + 2 for a, _, _ in pairs],
            [label for _, _, label in pairs],
            num_masked,
            self._ngrams,
            self._kinds,
            self._num_special,
        )

    def _pack(self, number):
        draw = self._random
        target = draw.randint(2, 509) if draw.random() < 0.1 else 509
        document, place = self._documents[number], 0
        chunk: list[list[int]] = []
        while place < len(document):
            size = sum(len(s) for s in [*chunk, document[place]])
            is_left_out = self._is_fixed and chunk and size > 509
            if not is_left_out:
                chunk.append(document[place])
                place += 1
                if size < target and place < len(document):
                    continue
            if len(chunk) == 1 and self._is_fixed:
                a, b, label = list(chunk[0]), [], schema.NO_LABEL
            elif len(chunk) == 1:
                a, label = list(chunk[0]), 1
                b = self._borrow(number, target - len(a))
            else:
                cut, label = draw.randint(1, len(chunk) - 1), int(draw.random() < 0.5)
                parts = (chunk[:cut], chunk[cut:])[:: -1 if label else 1]
                a, b = (list(itertools.chain(*part)) for part in parts)
            while len(a) + len(b) > 509:
                del (a if len(a) > len(b) else b)[0 if draw.random() < 0.5 else -1]
            yield a, b, label
            chunk = []

    def _borrow(self, number, target):
        other = number
        while other == number:
            other = self._random.randrange(len(self._documents))
        document, tokens = self._documents[other], []
        for sentence in document[self._random.randrange(len(document)) :]:
            tokens += sentence
            if len(tokens) >= target:
                break
        return tokens

    def _mask(self, a, b):
        """Counts masked tokens; returns the number of tokens."""
        draw = self._random
        words: list[list[int]] = []
        for place, token in enumerate(a + b):
            if words and not self._begins[token]:
                words[-1].append(place)
            else:
                words.append([place])
        left = budget = min(20, max(1, round(0.15 * (len(a) + len(b) + 3))))
        held = 0
        masked: set[int] = set()
        for first in draw.sample(range(len(words)), len(words)):
            if not (self._is_fixed and held):
                (held,) = draw.choices((1, 2, 3), NGRAM_DISTRIBUTIONS["shorter"])
            longest = min(held, len(words) - first)
            spans = [words[first : first + n] for n in range(longest, 0, -1)]
            fitting = [s for s in spans if sum(map(len, s)) <= left]
            span = set(itertools.chain(*fitting[0])) if fitting else set()
            if not span or span & masked:
                continue
            masked |= span
            left -= len(span)
            held = 0
            self._ngrams[len(fitting[0]) - 1] += 1
            if not left:
                break
        for _ in range(budget - left):
            kind = draw.choices((0, 1, 2), (0.8, 0.1, 0.1))[0]
            self._kinds[kind] += 1
            self._num_special += kind == 2 and draw.randrange(4000) < 5
        return budget - left


def mean_of(runs):
    """The mean of each figure over runs, and for `-s` its least and largest."""
    means = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        means[name] = values.mean(0)
        row = [means[name], values.min(0), values.max(0)]
        print(f"{name:24}", *(np.round(v, 4).tolist() for v in row))
    return means


@pytest.fixture(scope="module")
def golden(testdata):
    path = testdata / "golden" / "data_stats_d10.json"
    found = json.loads(path.read_text())
    # It lists the lengths 1, 2, 3 by name.
    found["ngram_words_dist"] = list(found["ngram_words_dist"].values())
    return found


# Tolerance of the mean of a figure over seeds, from that of the original's one run.
# Of its 130,000 spans and 250,000 masked tokens, chance moves a share by 0.005 at most,
# and words of another text are a little longer or shorter.
MASK_TOLERANCES = {
    "ngram_words_dist": 0.006,
    "mask/keep/random": 0.004,
    "masked_frac_in_short": 0.001,
    "masked_of_real_tokens": 0.002,
}
# One copy in ten has a short target, and these 120 give a quarter of the records, so
# lengths vary much from seed to seed: these are three standard deviations of one run.
LENGTH_TOLERANCES = {
    "len_mean": 24,
    "seg0_len_mean": 12,
    "padding_frac": 0.047,
    "full512_frac": 0.04,
    "len<256": 0.06,
    "len<512": 0.04,
    "seqs_len<134": 0.07,
    "pred_per_seq_mean": 0.7,
    "pred==20": 0.07,
}
# The text's own: 0.05 pieces a word, and 1.57 words a span.
TEXT_TOLERANCES = {"mean_pieces_per_span": 0.08}


def assert_near(found, expected, tolerances):
    for name, tolerance in tolerances.items():
        error = np.abs(np.array(found[name]) - np.array(expected[name])).max()
        assert error <= tolerance, (name, found[name], expected[name])


@pytest.fixture(scope="module")
def ours(near_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    return mean_of([our_figures(near_corpus, folder / str(s), s) for s in SEEDS])


@pytest.mark.slow
def test_the_originals_rules_give_its_figures(near_corpus, golden):
    """Confirms the assumed rules and text."""
    found = mean_of([OriginalsRules(near_corpus, seed).figures() for seed in SEEDS])
    tolerances = MASK_TOLERANCES | LENGTH_TOLERANCES | TEXT_TOLERANCES
    assert_near(found, golden, tolerances | {"sop_label1_frac": 0.04})
    # Of 25,000 random tokens 5 in 4,000 are special.
    low, high = stats.poisson.interval(1 - LEVEL, 25_000 * 5 / 4000)
    assert low <= golden["random_is_special"] <= high


@pytest.mark.slow
def test_the_recipe_gives_the_originals_figures_except_for_fixes(ours, golden):
    assert_near(ours, golden, MASK_TOLERANCES | TEXT_TOLERANCES)
    # The fixes: random tokens, labels, truncation.
    assert ours["random_is_special"] == 0 < golden["random_is_special"]
    num_labels = round(ours["labels"] * len(SEEDS))
    assert is_half(ours["sop_label1_frac"] * num_labels, num_labels)
    assert not is_half(
        golden["sop_label1_frac"] * golden["instances"], golden["instances"]
    )
    assert ours["full512_frac"] < 0.05 < golden["full512_frac"]


@pytest.mark.slow
def test_the_originals_rules_with_three_fixes_give_our_figures(near_corpus, ours):
    """No other difference explains the original's lengths and ours."""
    runs = [OriginalsRules(near_corpus, s, is_fixed=True).figures() for s in SEEDS]
    # The mean of four runs varies half as much as one run.
    lengths = {name: 0.7 * most for name, most in LENGTH_TOLERANCES.items()}
    lengths |= {"full512_frac": 0.005, "len<512": 0.005}
    masks = MASK_TOLERANCES | {"ngram_words_dist": 0.003}
    assert_near(mean_of(runs), ours, masks | lengths | {"mean_pieces_per_span": 0.01})
