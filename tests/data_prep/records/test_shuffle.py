"""The shuffle of records to shards in one step and in two: the same records."""

import collections

import numpy as np
import pytest

from albert_tf.data import schema
from data_prep.records import chunks, example_builder, shards, shuffle

RECORD_BYTES = 3
TRAIN, HELDOUT = schema.SPLITS


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Buckets of 3 shards, and pieces and chunks of a few records."""
    monkeypatch.setattr(shuffle, "SHARDS_PER_BUCKET", 3)
    monkeypatch.setattr(shuffle, "PIECE_BYTES", 40 * RECORD_BYTES)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 5 * RECORD_BYTES)


def block_of(rng, num_records, num_keys=1 << 20):
    """Random records of both splits, some with equal keys, sorted by key."""
    keys = rng.integers(0, num_keys, num_records).astype(np.uint64)
    keys *= np.uint64((1 << 63) // num_keys)
    keys[rng.random(num_records) < 0.4] |= example_builder.HELDOUT_BIT
    return example_builder.RecordBatch(
        rng.integers(0, 256, num_records * RECORD_BYTES).astype(np.uint8),
        np.arange(1, num_records + 1) * RECORD_BYTES,
        np.sort(keys),
        rng.integers(0, 5, num_records).astype(np.int32),
    )


def sizes_of(blocks):
    for place, block in blocks.items():
        tallies = collections.Counter()
        shards.count_part(block, tallies)
        yield place, shuffle.bytes_of(tallies)


def gather(elements, rng):
    """The values by key, in random order, as after a shuffle."""
    gathered = collections.defaultdict(list)
    for place in rng.permutation(len(elements)):
        key, value = elements[place]
        gathered[key].append(value)
    return gathered


def shuffled(blocks, marks, counts, rng):
    """The chunks of each shard, and the number of elements of the shuffle."""
    plan = shuffle.make_plan(counts, sizes_of(blocks))
    to_shards, to_pieces = list(shuffle.every_shard(plan)), []
    for place, block in blocks.items():
        for number, chunk in enumerate(chunks.cut(block, chunks.CHUNK_BYTES)):
            given = (plan, (*place, 0, number), chunk, marks[place])
            to_shards += shuffle.to_shards(*given)
            to_pieces += shuffle.to_pieces(*given)
    for key, selected in gather(to_pieces, rng).items():
        to_shards += shuffle.from_piece(key, selected)
    return gather(to_shards, rng), len(to_shards) + len(to_pieces)


# Few keys, so that many records of different blocks have equal ones.
@pytest.mark.parametrize("num_keys", [1 << 20, 20])
@pytest.mark.parametrize(
    "counts",
    [
        {TRAIN: 3, HELDOUT: 1},  # one step
        {TRAIN: 4, HELDOUT: 1},
        {TRAIN: 7, HELDOUT: 5},
        {TRAIN: 200, HELDOUT: 3},  # most shards have few records, or none
    ],
)
def test_shards_have_the_same_records_in_the_same_order(num_keys, counts):
    rng = np.random.default_rng(0)
    places = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (10, 0), (10, 2)]
    blocks = {
        place: block_of(rng, num_records, num_keys)
        for place, num_records in zip(places, range(10, 50, 5), strict=True)
    }
    marks = {place: np.array([0, 1, 0, 0, 2], np.uint8) for place in places}
    found, _ = shuffled(blocks, marks, counts, rng)
    assert len(found) == sum(counts.values())
    for (split, number, count), selected in found.items():
        assert count == counts[split]
        batch = shards.merge(chunks.in_order(dict(selected)))
        expected = shards.merge(
            shards.select(block, marks[place], split, number, count)
            for place, block in blocks.items()
        )
        for one, other in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert all(
            len(chunk) <= len(chunks.EMPTY) + 5 * (RECORD_BYTES + 20) + 8
            for _, chunk in selected
        )


def test_a_run_is_of_consecutive_blocks_of_enough_bytes_for_a_piece():
    # Of 6 shards a bucket takes half, so that 80 records of a run fill a piece.
    sizes = [
        ((group, number), {TRAIN: num_records * RECORD_BYTES, HELDOUT: 3})
        for group, number, num_records in (
            *[(2, 0, 30), (0, 1, 79), (0, 0, 1), (0, 2, 100)],
            *[(10, 0, 10), (1, 0, 0), (2, 1, 50)],
        )
    ]
    plan = shuffle.make_plan({TRAIN: 6, HELDOUT: 3}, sizes)
    assert plan.counts == {TRAIN: 6, HELDOUT: 3}
    assert plan.runs == {TRAIN: [(0, 0), (0, 2), (1, 0), (10, 0)]}


def test_up_to_a_bucket_of_shards_nothing_passes_twice():
    rng = np.random.default_rng(0)
    block = block_of(rng, 50)
    plan = shuffle.make_plan({TRAIN: 3, HELDOUT: 1}, sizes_of({(0, 0): block}))
    assert not list(shuffle.to_pieces(plan, (0, 0, 0, 0), block, None))
    assert len(list(shuffle.to_shards(plan, (0, 0, 0, 0), block, None))) == 4


def test_a_block_of_a_larger_corpus_gives_no_more_elements(monkeypatch):
    """As real ones: shards of 20 blocks, and pieces of half the size of a shard."""
    block_records, block_bytes = 200, 120 * RECORD_BYTES  # of the training split
    monkeypatch.setattr(chunks, "CHUNK_BYTES", block_records * RECORD_BYTES)
    monkeypatch.setattr(shuffle, "PIECE_BYTES", 20 * block_bytes // 2)

    def elements_of_a_block(num_blocks, shards_per_bucket):
        monkeypatch.setattr(shuffle, "SHARDS_PER_BUCKET", shards_per_bucket)
        rng = np.random.default_rng(0)
        blocks = {(n, 0): block_of(rng, block_records) for n in range(num_blocks)}
        counts = {TRAIN: num_blocks // 20}
        found, num_elements = shuffled(blocks, dict.fromkeys(blocks), counts, rng)
        assert len(found) == counts[TRAIN]
        return num_elements / num_blocks

    corpora = (160, 320, 640)  # of 8, 16 and 32 shards
    in_one_step = [elements_of_a_block(size, 1 << 30) for size in corpora]
    assert in_one_step == pytest.approx([8, 16, 31], abs=0.5)
    # A block gives one for each of 2 and 4 buckets, and a piece one for each shard.
    in_two_steps = [elements_of_a_block(size, 8) for size in corpora]
    assert in_two_steps == pytest.approx([8, 2 + 0.9, 4 + 0.9], abs=0.5)
