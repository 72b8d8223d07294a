"""Duplicates, exact and near: against brute force, and whatever the memory."""

import collections
import itertools
import random
import sys
import tracemalloc

import datasketch
import numpy as np
import pytest

from data_prep.text import deduplication, ngram_hashing

FOX = ("The quick brown fox", "jumps over the lazy dog.")


def _blocks(array, sizes):
    """`load` for an array cut into blocks of the given sizes."""
    parts = np.split(array, np.cumsum(sizes)[:-1])
    assert [len(part) for part in parts] == list(sizes)
    return parts.__getitem__


def _words(rng, num_words):
    return [f"w{rng.randrange(10**6)}" for _ in range(num_words)]


def _jaccard(one, other):
    sets = [{tuple(w[i : i + 5]) for i in range(len(w) - 4)} for w in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def _changed(words, num_changes, start=5):
    """`words` with some of them replaced, at least 5 apart: 5 shingles for each."""
    words = list(words)
    for i in range(num_changes):
        place = start + i * (len(words) - 10) // num_changes
        words[place] = f"changed{start + i}"
    return words


def _signatures(documents):
    signatures = deduplication.Signatures()
    return np.stack([signatures.of((" ".join(words),)) for words in documents])


# Exact fingerprints.


@pytest.mark.parametrize(
    "same",
    [
        ("The quick brown fox jumps over the lazy dog.",),
        ("The  quick\tbrown", "", "fox jumps over\xa0the", " lazy dog. "),
        ("\u2028", "The quick brown fox jumps", "\u3000over the lazy\x85dog."),
    ],
)
def test_whitespace_and_line_breaks_make_no_other_fingerprint(same):
    assert deduplication.exact_fingerprint(same) == deduplication.exact_fingerprint(FOX)


@pytest.mark.parametrize(
    "other",
    [
        ("the quick brown fox jumps over the lazy dog.",),
        ("The quick brown fox jumps over the lazy dog",),
        ("Thequick brown fox jumps over the lazy dog.",),
        (),
        ("\ud800",),
    ],
)
def test_case_punctuation_and_words_make_another_fingerprint(other):
    assert deduplication.exact_fingerprint(other) != deduplication.exact_fingerprint(
        FOX
    )


def test_fingerprints_are_literal_and_fit_two_uint64():
    # XXH3's published value for no input: 99aa06d3014798d86001c324468d497f.
    high, low = deduplication.exact_fingerprint(())
    assert (high, low) == (0x99AA06D3014798D8, 0x6001C324468D497F)
    assert np.array([(high, low)], np.uint64).tolist() == [[high, low]]


def test_no_whitespace_but_the_space_is_printable():
    # What lets printable lines pass without being split.
    spaces = filter(str.isspace, map(chr, range(sys.maxunicode + 1)))
    assert [c for c in spaces if c.isprintable()] == [" "]


# Finding exact duplicates.


def test_the_first_of_equal_documents_stays():
    a, b, c, d = [1, 2], [1, 3], [2, 2], [1 << 63, 2]
    keys = np.array([a, b, a, c, b, a, d, a, d], np.uint64)
    found = deduplication.find_exact(_blocks(keys, (3, 0, 4, 2)), (3, 0, 4, 2))
    assert [drop.tolist() for drop in found] == [
        [False, False, True],
        [],
        [False, True, True, False],
        [True, True],
    ]


def test_no_documents_have_no_duplicates():
    assert deduplication.find_exact(lambda block: None, ()) == []
    assert deduplication.find_near(lambda block: None, (), 0.8) == []
    none = deduplication.find_exact(lambda block: None, (0, 0))
    assert [drop.shape for drop in none] == [(0,), (0,)]
    none = deduplication.find_near(lambda block: None, (0, 0), 0.8)
    assert [drop.shape for drop in none] == [(0,), (0,)]


@pytest.mark.parametrize("memory_bytes", [500, 3000, 10000, 1 << 28])
@pytest.mark.parametrize("sizes", [(400,), (1, 250, 0, 149), (100, 100, 100, 100)])
def test_exact_duplicates_are_those_of_brute_force(memory_bytes, sizes):
    rng = np.random.default_rng(7)
    distinct = rng.integers(0, 1 << 64, (150, 2), np.uint64)
    distinct[:20, 0] = distinct[0, 0]  # only the second half tells them apart
    keys = distinct[rng.integers(0, len(distinct), 400)]
    found = deduplication.find_exact(_blocks(keys, sizes), sizes, memory_bytes)
    seen = set()
    expected = []
    for key in map(tuple, keys.tolist()):
        expected.append(key in seen)
        seen.add(key)
    assert np.concatenate(found).tolist() == expected
    assert [len(drop) for drop in found] == list(sizes)


@pytest.mark.parametrize("memory_bytes", [0, -1])
def test_no_memory_is_refused(memory_bytes):
    with pytest.raises(ValueError, match="memory_bytes must be at least 1; received"):
        deduplication.find_exact(lambda block: None, (1,), memory_bytes)
    with pytest.raises(ValueError, match="memory_bytes must be at least 1; received"):
        deduplication.find_near(lambda block: None, (1,), 0.8, memory_bytes)


# Signatures.


def test_signatures_are_those_of_datasketch():
    library = datasketch.MinHash(num_perm=128, seed=1, hashfunc=int, scheme="affine32")
    for value in deduplication.shingle_hashes(FOX).tolist():
        library.update(value)
    signature = deduplication.Signatures().of(FOX)
    assert signature.dtype == np.uint32
    assert signature.shape == (128,)
    assert np.array_equal(signature, library.hashvalues)


def test_signatures_follow_the_seed_and_the_number_of_permutations():
    signature = deduplication.Signatures(num_perm=64, seed=9).of(FOX)
    assert signature.shape == (64,)
    assert np.array_equal(signature, deduplication.Signatures(64, 9).of(FOX))
    assert not np.array_equal(signature, deduplication.Signatures(64, 8).of(FOX))


@pytest.mark.parametrize(
    ("text", "num_shingles"),
    [("a b c d e f g", 3), ("a b c d e", 1), ("a b c d", 1), ("a", 1), ("...", 1)],
)
def test_a_document_of_few_words_is_one_shingle(text, num_shingles):
    hashes = deduplication.shingle_hashes((text,))
    assert hashes.dtype == np.uint32
    assert hashes.shape == (num_shingles,)


def test_short_documents_are_similar_only_if_they_are_equal():
    texts = ["a b", "a b c", "A, B", "...", "?!", "..."]
    signatures = [deduplication.Signatures().of((text,)) for text in texts]
    for (i, one), (j, other) in itertools.combinations(enumerate(signatures), 2):
        same = {i, j} in ({0, 2}, {3, 5})
        assert np.array_equal(one, other) is same


@pytest.mark.parametrize("num_changes", [2, 8, 17, 34])
def test_equal_entries_estimate_the_jaccard_similarity(num_changes):
    rng = random.Random(num_changes)
    shares, similarity = [], 0.0
    for _ in range(100):
        one = _words(rng, 404)
        other = _changed(one, num_changes)
        similarity = _jaccard(one, other)
        pair = _signatures([one, other])
        shares.append(np.mean(pair[0] == pair[1]))
    assert similarity == (400 - 5 * num_changes) / (400 + 5 * num_changes)
    # 12800 entries, each equal with this probability: 4.5 standard errors, which a
    # correct estimate leaves in 7 of a million runs.
    error = 4.5 * (similarity * (1 - similarity) / 12800) ** 0.5
    assert abs(np.mean(shares) - similarity) < error


# Finding near duplicates.


def test_a_near_duplicate_of_an_earlier_document_is_dropped():
    rng = random.Random(1)
    one, two, three = (_words(rng, 404) for _ in range(3))
    documents = [one, two, _changed(one, 2), three, one, _changed(two, 100)]
    load = _blocks(_signatures(documents), (2, 4))
    found = deduplication.find_near(load, (2, 4), threshold=0.8)
    assert [drop.tolist() for drop in found] == [
        [False, False],
        [True, False, True, False],
    ]


def test_blocks_without_documents_are_not_loaded():
    signatures = {1: _signatures([FOX, FOX])}
    found = deduplication.find_near(signatures.__getitem__, (0, 2, 0), threshold=0.8)
    assert [drop.tolist() for drop in found] == [[], [False, True], []]
    keys = {1: np.array([[5, 6], [5, 6]], np.uint64)}
    found = deduplication.find_exact(keys.__getitem__, (0, 2, 0))
    assert [drop.tolist() for drop in found] == [[], [False, True], []]


def test_a_dropped_document_still_has_others_dropped_for_it():
    one = _words(random.Random(2), 404)
    two = _changed(one, 6)
    three = _changed(two, 6, start=35)
    signatures = _signatures([one, two, three])
    shares = [np.mean(signatures[i] == signatures[j]) for i, j in ((0, 1), (1, 2))]
    assert min(shares) >= 0.8 > np.mean(signatures[0] == signatures[2])
    found = deduplication.find_near(lambda block: signatures, (3,), threshold=0.8)
    assert found[0].tolist() == [False, True, True]


def test_excluded_documents_have_no_others_dropped_for_them():
    signatures = _signatures([FOX, FOX, FOX])
    exclude = [np.array([True, False]), np.array([False])]
    load = _blocks(signatures, (2, 1))
    found = deduplication.find_near(load, (2, 1), 0.8, exclude=exclude)
    assert [drop.tolist() for drop in found] == [[False, False], [True]]


def _brute_force(signatures, threshold):
    """`find_near` as its docstring has it, one document after another."""
    num_bands, num_rows = deduplication.bands(threshold, signatures.shape[1])
    buckets = collections.defaultdict(list)
    drop = []
    for i, signature in enumerate(signatures):
        compared = set()
        for band in range(num_bands):
            rows = signature[band * num_rows : (band + 1) * num_rows]
            bucket = buckets[band, tuple(rows.tolist())]
            compared.update(bucket[:1], bucket[-7:])
            bucket.append(i)
        drop.append(
            any(np.mean(signature == signatures[j]) >= threshold for j in compared)
        )
    return drop


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95, 1.0])
def test_near_duplicates_are_those_of_brute_force(threshold):
    rng = random.Random(11)
    documents = [_words(rng, 104) for _ in range(80)]
    for num_changes in (0, 1, 2, 3, 5, 8, 12):
        documents += [_changed(rng.choice(documents), num_changes) for _ in range(15)]
    rng.shuffle(documents)
    signatures = _signatures(documents)
    sizes = (85, 0, 90, 10)
    found = deduplication.find_near(_blocks(signatures, sizes), sizes, threshold)
    drop = np.concatenate(found)
    assert drop.tolist() == _brute_force(signatures, threshold)
    assert 10 < drop.sum() < 105
    rest = deduplication.find_near(
        _blocks(signatures, sizes), sizes, threshold, exclude=found
    )
    expected = np.zeros(len(drop), bool)
    expected[~drop] = _brute_force(signatures[~drop], threshold)
    assert np.array_equal(np.concatenate(rest), expected)


@pytest.mark.parametrize("sizes", [(240,), (0, 100, 1, 139, 0)])
@pytest.mark.parametrize("memory_bytes", [4000, 20000, 100000, 1 << 30])
def test_crowded_buckets_give_the_same_whatever_the_memory_and_the_blocks(
    sizes, memory_bytes
):
    # Entries of 0 or 1 fill buckets with many documents, few of them similar enough.
    rng = np.random.default_rng(12)
    signatures = rng.integers(0, 2, (240, 128), np.uint32)
    expected = _brute_force(signatures, 0.6)
    assert 10 < sum(expected) < 230
    load = _blocks(signatures, sizes)
    found = deduplication.find_near(load, sizes, 0.6, memory_bytes)
    assert np.concatenate(found).tolist() == expected


@pytest.mark.parametrize(("num_between", "dropped"), [(6, True), (7, False)])
def test_in_a_bucket_the_first_and_the_seven_before_are_compared(num_between, dropped):
    num_bands, num_rows = deduplication.bands(0.8)
    rng = np.random.default_rng(15)
    # All share one bucket and nothing else: of 128 entries the first band.
    signatures = rng.integers(0, 1 << 32, (num_between + 3, 128), np.uint32)
    signatures[:, :num_rows] = 1
    # The last is like the second, save for one entry in each of the other bands.
    signatures[-1] = signatures[1]
    signatures[-1, num_rows : num_bands * num_rows : num_rows] = 2
    found = deduplication.find_near(lambda block: signatures, (len(signatures),), 0.8)[
        0
    ]
    assert not found[:-1].any()
    assert found[-1] == dropped
    # The bucket's first is compared over any distance.
    without_first = signatures[1:]
    found = deduplication.find_near(
        lambda block: without_first, (len(without_first),), 0.8
    )[0]
    assert found[-1]


def test_bands_are_datasketchs_and_serve_to_the_threshold_of_1():
    assert deduplication.bands(0.5) == (25, 5)
    assert deduplication.bands(0.8) == (11, 11)
    assert deduplication.bands(0.95) == deduplication.bands(1.0) == (4, 32)
    for threshold in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        num_bands, num_rows = deduplication.bands(threshold)
        assert 1 - (1 - (threshold + 0.05) ** num_rows) ** num_bands > 0.7


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.01, 80.0])
def test_thresholds_out_of_range_are_refused(threshold):
    with pytest.raises(ValueError, match="above 0 and at most 1; received"):
        deduplication.bands(threshold)


def test_similar_pairs_are_nearly_always_found_and_dissimilar_ones_never():
    rng = random.Random(13)
    for num_changes, similarity in ((2, 0.951), (34, 0.404)):
        documents = []
        for _ in range(300):
            documents += [one := _words(rng, 404), _changed(one, num_changes)]
        assert round(_jaccard(*documents[:2]), 3) == similarity
        signatures = _signatures(documents)
        found = deduplication.find_near(lambda block, s=signatures: s, (600,), 0.8)[0]
        assert not found[::2].any()
        # 11 bands of 11 rows miss a pair of 0.951 with probability 8e-5, so more than
        # 2 of 300 in 2 of a million runs; and of 128 entries that are equal with
        # probability 0.404, 103 are so with probability 1e-19.
        num_found = found[1::2].sum()
        assert num_found >= 298 if similarity > 0.8 else num_found == 0


# Memory.


def _peak(function, *args):
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_what_is_given_and_a_byte_a_document():
    rng = np.random.default_rng(14)
    sizes = (1000,) * 40
    given, block = 1 << 19, 200 * 1000
    keys = rng.integers(0, 1 << 64, (40000, 2), np.uint64)
    keys[rng.random(40000) < 0.5] = 7  # one text is half of the corpus
    peak = _peak(deduplication.find_exact, _blocks(keys, sizes), sizes, given)
    assert peak < given + block + 40000
    signatures = rng.integers(0, 1 << 32, (40000, 128), np.uint32)
    signatures[20000:] = signatures[:20000]
    peak = _peak(deduplication.find_near, _blocks(signatures, sizes), sizes, 0.8, given)
    assert peak < given + block + 40000


def test_words_are_those_of_the_contamination_index():
    words = ngram_hashing.word_hashes(FOX)
    hashes = ngram_hashing.ngram_hashes(words, 5) >> np.uint64(32)
    assert np.array_equal(deduplication.shingle_hashes(FOX), hashes)
