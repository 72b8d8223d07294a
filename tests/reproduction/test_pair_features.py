"""Pairs and features of `pair_features`, on a text that is made for them."""

import itertools
import math
import random

import pytest

from tests.reproduction import pair_features


def _topics(num_documents, chance):
    """Documents that change their topic every third sentence, by rare words."""
    documents = []
    for _ in range(num_documents):
        sentences = []
        for _ in range(20):
            words = [f"w{chance.randrange(10_000)}" for _ in range(3)]
            sentences += [
                ["the", chance.choice(words), "is", "it", chance.choice(words), "."]
                for _ in range(3)
            ]
        documents.append(sentences)
    return pair_features.Text(documents)


def test_segments_are_whole_sentences_one_after_the_other():
    text = _topics(3, random.Random(1))
    pairs = text.pairs(36, random.Random(1))
    whole = [[*itertools.chain(*document)] for document in text.documents]
    for pair in pairs:
        joined = pair.first + pair.second
        assert 0 < len(pair.first) < len(joined) <= 36
        assert pair.first[-1] == pair.second[-1] == "."
        assert any(
            joined == words[start : start + len(joined)]
            for words in whole
            for start in range(len(words))
        )


def test_labels_are_true():
    pairs = [pair_features.Pair([f"a{i}"], [f"b{i}"]) for i in range(200)]
    known = set(map(str, pairs))
    for pair, label in pair_features.ordered(pairs, random.Random(1)):
        assert (str(pair) in known) == bool(label)
    made = pair_features.followed(pairs, random.Random(1))
    assert [pair.first for pair, _ in made] == [pair.first for pair in pairs]
    # Another pair's second segment is, once in 200, its own.
    false = [str(pair) in known for pair, label in made if not label]
    assert all(str(pair) in known for pair, label in made if label)
    assert len(false) > 50 and sum(false) <= 3


def test_rare_words_at_the_cut_are_what_order_teaches_about_next_sentences():
    found = pair_features.measure(_topics(150, random.Random(1)), 72, 1)
    assert found["heldout_pairs"] == pytest.approx(0.15 * found["pairs"] / 0.85, abs=1)
    # Both tasks are easy where a topic spans the cut, which is in two thirds.
    assert found["nsp on nsp"] > 75 and found["sop on sop"] > 75
    assert found["sop ranks nsp"] > 65


def test_shared_words_are_told_apart_by_their_places(monkeypatch):
    monkeypatch.setattr(pair_features, "NUM_COMMON", 0)
    one, two = ([f"{name}{i}" for i in range(50)] for name in "ab")
    at_cut = pair_features.Pair([*one, "rare"], ["rare", *two])
    at_ends = pair_features.Pair(["rare", *one], [*two, "rare"])
    text = pair_features.Text([[*at_cut], [["other"]]])
    rarity, count = math.log(2), len(pair_features.NEAR)
    near = slice(0, 2 * count)
    assert text.features(at_cut)[near] == pytest.approx([rarity, 0] * count)
    assert text.features(at_ends)[near] == pytest.approx([0, rarity] * count)


def test_a_text_has_paragraphs_and_documents(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One is here. Two\nThree!\n\nFour of it.\n", encoding="utf-8")
    assert pair_features.read(path).documents == [
        [["one", "is", "here", "."], ["two"], ["three", "!"]],
        [["four", "of", "it", "."]],
    ]
