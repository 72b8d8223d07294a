"""Scores of sentences, whatever model gives the log-probabilities."""

import csv
import json
import threading

import numpy as np
import pytest

from albert_tf.probing import probe as probe_lib
from albert_tf.probing import published, scoring, suites
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import small_run

SENTENCES = ["The river runs.", "A train", "The old city", "the river runs."]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.Tokenizer.from_file(str(small_run.VOCAB))


class FakeModel:
    """Log-probabilities that depend on the whole row, the position and the token."""

    def __init__(self):
        self.shapes = []

    def __call__(self, input_ids, positions, target_rows, target_ids):
        self.shapes.append(input_ids.shape)
        return np.float32(
            [
                self.of(input_ids[row], positions[row], target)
                for row, target in zip(target_rows, target_ids, strict=True)
            ]
        )

    @staticmethod
    def of(ids, position, target):
        return -float(ids.sum() % 97 + 0.25 * position + target % 7)


def by_definition(tokenizer, sentence):
    ids = [tokenizer.cls_id, *tokenizer.encode(sentence), tokenizer.sep_id]
    total = 0.0
    for position in range(1, len(ids) - 1):
        row = np.array(ids)
        row[position] = tokenizer.mask_id
        total += FakeModel.of(row, position, ids[position])
    return total


@pytest.mark.parametrize("batches_at_once", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_a_score_is_the_sum_over_the_tokens(tokenizer, batch_tokens, batches_at_once):
    model = FakeModel()
    scorer = scoring.Scorer(model, tokenizer, 24, batch_tokens, batches_at_once)
    found = scoring.score(scorer, SENTENCES)
    assert found.values.tolist() == [by_definition(tokenizer, s) for s in SENTENCES]
    # The last differs from the first in case only, and costs nothing.
    lengths = {len(tokenizer.encode(s)): s for s in SENTENCES[:3]}
    assert found.num_rows == sum(lengths)
    assert found.num_tokens == sum(n * (n + 2) for n in lengths)
    assert sum(rows * length for rows, length in model.shapes) == found.num_tokens
    if batch_tokens == 20:
        assert all(shape[0] * shape[1] <= 20 for shape in model.shapes)


def test_batches_are_computed_side_by_side_and_an_error_in_one_is_raised(tokenizer):
    started = threading.Barrier(2, timeout=20)

    def score_tokens(input_ids, positions, target_rows, target_ids):
        started.wait()  # breaks if there is no second thread
        return np.float32(target_ids)

    scorer = scoring.Scorer(score_tokens, tokenizer, 24, 1, 2)
    sentences = SENTENCES[:2]
    ids = [tokenizer.encode(sentence) for sentence in sentences]
    assert sum(map(len, ids)) % 2 == 0
    assert scoring.score(scorer, sentences).values.tolist() == [*map(sum, ids)]

    def fail(*arrays):
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        scoring.score(scoring.Scorer(fail, tokenizer, 24, 1, 2), sentences)


def test_scores_that_are_not_numbers_are_not_taken_for_long_sentences(tokenizer):
    model = FakeModel()
    model.of = lambda ids, position, target: np.nan if target % 2 else -1.0
    with pytest.raises(ValueError, match="scores are not numbers"):
        scoring.score(scoring.Scorer(model, tokenizer, 24), SENTENCES)


def test_sentences_longer_than_the_model_have_no_score(tokenizer):
    length = len(tokenizer.encode(SENTENCES[0])) + 2
    scorer = scoring.Scorer(FakeModel(), tokenizer, length - 1)
    values = scoring.score(scorer, SENTENCES).values
    assert np.isnan(values).tolist() == [True, False, False, True]
    scorer = scoring.Scorer(FakeModel(), tokenizer, length)
    assert not np.isnan(scoring.score(scorer, SENTENCES).values).any()


def test_a_sentence_without_tokens_is_named(tokenizer):
    with pytest.raises(ValueError, match="must have a token; received .\u0301.,"):
        scoring.score(scoring.Scorer(FakeModel(), tokenizer, 9), ["A b", "\u0301"])


def test_a_probe_is_written_with_the_scores_of_each_pair(tokenizer, tmp_path):
    scorer = scoring.Scorer(FakeModel(), tokenizer, 7)
    pairs = [
        suites.Pair("one", "words", "A train", "A church"),
        suites.Pair("one", "words", "A train", "a train"),
        suites.Pair("two", "words", "The\tcity", " ".join(["river"] * 9)),
        suites.Pair("two", "words", "A lake", "A city"),
    ]
    probed = probe_lib.probe(scorer, pairs)
    compared = [published.Published("LSTM", {"one": 0.25, "two": 1.0, "more": 0.0})]
    values = probe_lib.to_dict(probed, compared, suite="mine", seconds=1.5)
    probe_lib.write(str(tmp_path / "out"), probed, values)

    scores = {s: by_definition(tokenizer, s) for p in pairs for s in (p.good, p.bad)}
    with open(tmp_path / "out" / "pairs.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["sentence_bad"] for row in rows] == [pair.bad for pair in pairs]
    assert rows[2]["sentence_good"] == "The\tcity"
    assert (rows[2]["score_good"], rows[2]["score_bad"]) == ("", "")
    for row in (rows[0], rows[1], rows[3]):
        assert float(row["score_good"]) == scores[row["sentence_good"]]
        assert float(row["score_bad"]) == scores[row["sentence_bad"]]

    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found == values
    first = float(scores["A train"] > scores["A church"])
    second = float(scores["A lake"] > scores["A city"])
    assert found["paradigms"]["one"]["accuracy"] == (first + 0.5) / 2
    assert found["paradigms"]["one"]["num_ties"] == 1
    assert found["paradigms"]["two"]["accuracy"] == second
    assert found["paradigms"]["two"]["example"] == ["The\tcity", pairs[2].bad]
    assert (found["num_pairs"], found["num_too_long"]) == (4, 1)
    assert found["published"]["LSTM"] == {
        "overall": 0.625,
        "phenomena": {"words": 0.625},
        "paradigms": {"one": 0.25, "two": 1.0},
    }
    lines = probe_lib.summary_lines(values)
    assert lines[0].split() == ["this", "model", "95%", "interval", "LSTM"]
    assert lines[-2].split()[0] == "overall" and lines[-2].endswith("62.5%")
    assert lines[-1].startswith("1 pair not counted: a sentence is longer than")
    assert f"than the {found['max_tokens']} tokens" in lines[-1]
    part = {**values, "pairs_per_paradigm": 2}
    assert probe_lib.summary_lines(part)[-1] == (
        "Only the first 2 pairs of each paradigm were probed; published figures are of "
        "all pairs."
    )
    alone = {**part, "published": {}}
    assert probe_lib.part_note(alone) == (
        "Only the first 2 pairs of each paradigm were probed."
    )
    assert probe_lib.part_note({**values, "pairs_per_paradigm": 0}) == ""


def test_a_probe_without_any_short_pair_is_refused(tokenizer):
    pairs = [suites.Pair("one", "words", "A train runs", "A train run")]
    with pytest.raises(ValueError, match="at most 1 tokens; all pairs are longer"):
        probe_lib.probe(scoring.Scorer(FakeModel(), tokenizer, 3), pairs)


def test_published_results_without_a_paradigm_are_refused():
    one = published.Published("GPT-2", {"a": 0.5})
    with pytest.raises(ValueError, match="GPT-2 must have each paradigm; they lack b"):
        one.means({"a": "x", "b": "x"})
