"""Batches of rows: padding, segments, what no answer may be, and the order."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import config
from albert_tf.finetuning import batches
from albert_tf.tasks import features as features_lib

PAD = 9


def _rows(**more):
    ids = [[2, 5, 3, 7, 8, 3], [2, 6, 3], [2, 4, 4, 3, 1, 3]]
    return features_lib.build(ids, [3, 3, 4], [0, 1, 2], **more)


def test_rows_are_padded_to_the_longest_rounded_up():
    rows = _rows(per_row={"label_ids": np.array([1, 0, 1], np.int32)})
    batcher = batches.FeatureBatcher(rows, "classification", PAD, 512)
    assert (batcher.length, batcher.num_items) == (16, 3)
    batch = batcher.batch([2, 1])
    assert batch["input_ids"][:, :7].tolist() == [
        [2, 4, 4, 3, 1, 3, PAD],
        [2, 6, 3, PAD, PAD, PAD, PAD],
    ]
    assert batch["input_mask"].sum(1).tolist() == [6, 3]
    assert batch["segment_ids"][:, :7].tolist() == [
        [0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert batch["label_ids"].tolist() == [1, 0]
    assert batches.FeatureBatcher(rows, "classification", PAD, 7).length == 7


def test_answers_may_lie_in_the_second_text_or_at_cls_alone():
    batch = batches.FeatureBatcher(_rows(), "span", PAD, 512).batch([0, 1])
    assert batch["p_mask"][:, :8].tolist() == [
        [0, 1, 1, 0, 0, 1, 1, 1],
        [0, 1, 1, 1, 1, 1, 1, 1],
    ]


def test_labels_of_words_are_none_at_padding():
    rows = _rows(per_token={"token_label_ids": np.arange(15, dtype=np.int32)})
    batch = batches.FeatureBatcher(rows, "token_classification", PAD, 512).batch([1])
    assert batch["token_label_ids"][0, :5].tolist() == [6, 7, 8, -1, -1]


def test_choices_have_an_axis_of_their_own():
    rows = features_lib.build(
        [[2, n, 3] for n in range(10, 16)],
        [3] * 6,
        [0, 0, 0, 1, 1, 1],
        per_row={"label_ids": np.array([2, 2, 2, 1, 1, 1], np.int32)},
    )
    batcher = batches.FeatureBatcher(rows, "multiple_choice", PAD, 512)
    assert batcher.num_items == 2
    batch = batcher.batch([1, 0])
    assert batch["input_ids"].shape == (2, 3, 16)
    assert batch["input_ids"][:, :, 1].tolist() == [[13, 14, 15], [10, 11, 12]]
    assert batch["label_ids"].tolist() == [1, 2]


def test_batches_are_padded_to_the_length_that_they_name():
    rows = features_lib.build(
        [[n] * length for n, length in enumerate((5, 40, 16, 17, 33, 3))],
        [2] * 6,
        list(range(6)),
    )
    batcher = batches.FeatureBatcher(rows, "classification", PAD, 512, num_lengths=2)
    assert batcher.lengths == (16, 48)
    run = config.TrainConfig(batch_size=2, seed=6)
    context = tf.distribute.InputContext(1, 0, 1)
    dataset = batches.train_input_fn(batcher, run, 0)(context)
    found = {}
    for batch in dataset.take(3).as_numpy_iterator():
        assert batch["input_ids"].shape == (2, 48)
        found[tuple(sorted(batch["input_ids"][:, 0]))] = batch["length_index"].tolist()
    assert found == {(0, 5): [0, 0], (2, 3): [1, 1], (1, 4): [1, 1]}
    # 114 tokens in one batch of 2 * 16 and two of 2 * 48.
    assert batcher.padding(run) == pytest.approx(1 - 114 / 224)


def test_all_choices_of_an_example_fit_into_its_length():
    rows = features_lib.build(
        [[2] * length for length in (5, 30, 6, 7)],
        [2] * 4,
        [0, 0, 1, 1],
        per_row={"label_ids": np.array([1, 1, 0, 0], np.int32)},
    )
    batcher = batches.FeatureBatcher(rows, "multiple_choice", PAD, 512, num_lengths=2)
    assert batcher.lengths == (16, 32)
    assert [batcher.length_index(np.array([item])) for item in (0, 1)] == [1, 0]


def _items(first_step, num_steps, num_replicas=1, num_hosts=1):
    """The first ids of the rows of each global batch, read on all hosts."""
    rows = features_lib.build([[n, 3] for n in range(10)], [2] * 10, list(range(10)))
    batcher = batches.FeatureBatcher(rows, "classification", PAD, 512)
    run = config.TrainConfig(batch_size=4, seed=6)
    per_host = num_replicas // num_hosts
    parts = []
    for host in range(num_hosts):
        context = tf.distribute.InputContext(num_hosts, host, num_replicas)
        dataset = batches.train_input_fn(batcher, run, first_step)(context)
        taken = dataset.take(num_steps * per_host).as_numpy_iterator()
        ids = np.array([batch["input_ids"][:, 0] for batch in taken])
        parts.append(ids.reshape(num_steps, per_host, -1))
    return np.concatenate(parts, axis=1).reshape(num_steps, 4).tolist()


def test_each_pass_takes_every_item_once_in_an_order_of_its_own():
    taken = [item for batch in _items(0, 10) for item in batch]
    passes = [taken[first : first + 10] for first in (0, 10, 20, 30)]
    assert all(sorted(order) == list(range(10)) for order in passes)
    assert len({tuple(order) for order in passes}) == 4


def test_a_run_goes_on_where_another_stopped():
    assert _items(7, 3) == _items(0, 10)[7:]


@pytest.mark.parametrize(("num_replicas", "num_hosts"), [(2, 1), (4, 2)])
def test_devices_divide_the_same_batches(num_replicas, num_hosts):
    assert _items(1, 5, num_replicas, num_hosts) == _items(1, 5)


def test_batches_that_cannot_be_divided_are_refused():
    with pytest.raises(ValueError, match="received 4 and 3"):
        _items(0, 1, 3)


def test_evaluation_takes_each_item_once_and_fills_up_with_the_first():
    rows = features_lib.build([[n, 3] for n in range(7)], [2] * 7, list(range(7)))
    batcher = batches.FeatureBatcher(rows, "classification", PAD, 512)
    dataset = batches.eval_input_fn(batcher, 2)(tf.distribute.InputContext(1, 0, 2))
    ids = [b["input_ids"][:, 0].tolist() for b in dataset.as_numpy_iterator()]
    assert ids == [[0, 1], [2, 3], [4, 5], [6, 0]]
