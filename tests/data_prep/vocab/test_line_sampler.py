"""The sample of lines: exact, even, and the same for any number of workers."""

import numpy as np
import pytest

from albert_tf.core import config
from data_prep.reading import blocks
from data_prep.vocab import line_sampler
from data_prep.vocab import settings as settings_lib


def settings(size=0, heldout_size=0, seed=0, lower_case=True, **text):
    return settings_lib.VocabSettings(
        text=config.TextConfig(**text),
        lower_case=lower_case,
        input_sentence_size=size,
        heldout_lines=heldout_size,
        seed=seed,
    )


def sample(path, num_workers=1, **values):
    return line_sampler.sample_lines([str(path)], settings(**values), num_workers)


@pytest.fixture
def numbers(tmp_path):
    """Forty lines, 0 to 39."""
    path = tmp_path / "numbers.txt"
    path.write_text("\n".join(map(str, range(40))) + "\n\n\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Three files of 8,000 lines in all, in documents of ten lines."""
    paths = []
    for number, num_lines in enumerate((5000, 2990, 10)):
        paths.append(str(tmp_path / f"part-{number}.txt"))
        lines = [
            f"File {number}, line {line}." + "\n" * (line % 10 == 9)
            for line in range(num_lines)
        ]
        (tmp_path / f"part-{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    return paths


def test_without_a_size_all_lines_come_normalized_and_in_order(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Ünder  The\n\nBRIDGE\n\u0301\n", encoding="utf-8")
    found = sample(path)
    assert found.lines == ["under the", "bridge"]
    assert found.heldout_lines == [] and found.num_lines == 3
    assert sample(path, lower_case=False).lines == ["Under The", "BRIDGE"]
    assert sample(path, size=99).lines == ["under the", "bridge"]


def test_sample_is_exact_seeded_and_even(numbers):
    counts = [0] * 40
    for seed in range(600):
        taken = [int(text) for text in sample(numbers, size=10, seed=seed).lines]
        assert len(taken) == 10 and taken == sorted(set(taken))
        for number in taken:
            counts[number] += 1
    # 150 expected of each; 4.5 standard deviations (10.6) hold for all 40 of them
    # with a confidence of 99.97%.
    assert all(abs(count - 150) < 48 for count in counts)
    first, again = (sample(numbers, size=10, seed=1).lines for _ in range(2))
    assert first == again != sample(numbers, size=10, seed=2).lines


def test_the_same_for_any_number_of_workers(corpus, monkeypatch):
    monkeypatch.setattr(line_sampler, "_BLOCK_BYTES", 3000)
    monkeypatch.setattr(blocks, "GROUP_BYTES", 1000)  # each file is a group
    # Lines are pruned while more are coming.
    values = settings(size=150, heldout_size=20, seed=7)
    one = line_sampler.sample_lines(corpus, values, 1)
    assert len(one.lines) == 150 and len(one.heldout_lines) == 20
    assert one.num_lines == 8000
    for num_workers in (2, 7):
        assert line_sampler.sample_lines(corpus, values, num_workers) == one


def test_pruning_keeps_the_smallest_keys_in_the_order_of_the_input():
    sampler = line_sampler._Sampler(3, 0)
    generator = np.random.default_rng(3)
    keys = generator.permutation(9000).astype(np.uint64)  # [9000], distinct
    for block in (4, 0, 2, 1, 3, 5):
        rows = slice(1500 * block, 1500 * block + 1500)
        names = [str(number) for number in range(rows.start, rows.stop)]
        sampler.add(line_sampler._Found((0, block), names, keys[rows], {}, 1500))
        assert sampler._num_held <= 1500
    expected = sorted(np.argsort(keys)[:3])
    assert sampler.finish().lines == [str(number) for number in expected]
    assert sampler.highest_key == 2


def test_held_out_lines_are_in_the_sample_in_no_copy(tmp_path):
    path = tmp_path / "text.txt"
    lines = [f"line {number}" for number in range(5000)]
    path.write_text("\n".join(lines * 2), encoding="utf-8")
    found = sample(path, heldout_size=1000)
    heldout = set(found.heldout_lines)
    assert len(heldout) == len(found.heldout_lines)
    # 50 expected; five standard deviations (7).
    assert abs(len(heldout) - 50) < 35
    assert found.lines == [line for line in lines * 2 if line not in heldout]
    # Fewer to report on, and still none of the others is trained on.
    fewer = sample(path, heldout_size=5)
    assert len(fewer.heldout_lines) == 5 and set(fewer.heldout_lines) < heldout
    assert fewer.lines == found.lines
    other = sample(path, heldout_size=1000, seed=1)
    assert set(other.heldout_lines) != heldout


def test_only_what_cleaning_leaves_is_sampled(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("too short\n\nlong e\u200bnough to stay here\n", encoding="utf-8")
    found = sample(path, min_document_characters=12)
    assert found.lines == ["long enough to stay here"]


@pytest.mark.parametrize("num_workers", [1, 3])
def test_an_error_of_a_reader_ends_the_reading(corpus, monkeypatch, num_workers):
    monkeypatch.setattr(line_sampler, "_BLOCK_BYTES", 3000)
    with open(corpus[1], "ab") as file:
        file.write(b"\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"part-1\.txt.*UTF-8"):
        line_sampler.sample_lines(corpus, settings(size=5), num_workers)
