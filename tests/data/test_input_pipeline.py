"""Records become batches: what they hold, in which order, and what is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from albert_tf.core import row_shapes
from albert_tf.data import input_pipeline, record_parser, schema
from albert_tf.data import manifest as manifest_lib
from data_prep.records import example_proto, reader
from tests.support import numbered_records, small_run


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return small_run.write_records(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def manifest(data_dir):
    return manifest_lib.read_manifest(str(data_dir))


@pytest.fixture(scope="module")
def dynamic_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dynamic")
    return small_run.write_records(
        folder, "data.masking=dynamic", "data.dupe_factor=1", "data.compression=gzip"
    )


@pytest.fixture(scope="module")
def dynamic_manifest(dynamic_dir):
    return manifest_lib.read_manifest(str(dynamic_dir))


def _batches(data_dir, manifest, num_batches, first_step=0, context=None, overrides=()):
    data = manifest.data
    config = small_run.small_config(
        f"data.masking={data['masking']}",
        f"data.pair_loss={data['pair_loss']}",
        *overrides,
    )
    input_fn = input_pipeline.train_input_fn(
        str(data_dir), manifest, config, first_step
    )
    dataset = input_fn(context or tf.distribute.InputContext())
    return list(dataset.take(num_batches).as_numpy_iterator())


def _parse(serialized, manifest, keys=None):
    parser = record_parser.Parser(manifest, small_run.small_config().data)
    if keys is None:
        keys = np.zeros((len(serialized), 1), np.int64)
    return parser.parse(tf.constant(serialized), tf.constant(keys))


def test_a_batch_holds_what_the_records_hold(data_dir, manifest):
    path = str(data_dir / manifest.splits[schema.TRAIN].shards[0].name)
    serialized = list(tf.data.TFRecordDataset(path).take(5).as_numpy_iterator())
    batch = _parse(serialized, manifest)
    expected_shapes = schema.model_features(row_shapes.RowShape(24, 4))
    assert {k: (v.dtype.name, tuple(v.shape[1:])) for k, v in batch.items()} == (
        expected_shapes
    )
    for row, record in enumerate(serialized):
        values = reader.parse_record(record, "static", manifest.vocab_size)
        length, masked = len(values["input_ids"]), len(values["masked_lm_ids"])
        ours = {name: value[row].numpy() for name, value in batch.items()}
        np.testing.assert_array_equal(ours["input_ids"][:length], values["input_ids"])
        np.testing.assert_array_equal(ours["input_ids"][length:], 0)
        np.testing.assert_array_equal(ours["input_mask"], np.arange(24) < length)
        second = np.arange(24) >= values["segment_a_length"]
        np.testing.assert_array_equal(
            ours["segment_ids"], second & (np.arange(24) < length)
        )
        np.testing.assert_array_equal(
            ours["masked_lm_positions"][:masked], values["masked_lm_positions"]
        )
        np.testing.assert_array_equal(
            ours["masked_lm_ids"][:masked], values["masked_lm_ids"]
        )
        np.testing.assert_array_equal(ours["masked_lm_weights"], np.arange(4) < masked)
        assert ours["next_sentence_labels"] == values["next_sentence_labels"]


def test_no_function_of_a_dataset_is_converted(data_dir, manifest, monkeypatch):
    contexts = tf.__internal__.autograph.control_status_ctx
    parse, found = record_parser.Parser.parse, []

    def recorded(*arguments):
        found.append(contexts().status.name)
        return parse(*arguments)

    monkeypatch.setattr(record_parser.Parser, "parse", recorded)
    _batches(data_dir, manifest, 1)
    _held_out(data_dir, manifest)
    assert found == ["DISABLED"] * 2


def _rows(batches):
    return [row.tobytes() for batch in batches for row in batch["input_ids"]]


def test_an_epoch_reads_every_record_once_and_the_next_in_another_order(
    data_dir, manifest
):
    num_records = manifest.splits[schema.TRAIN].num_records
    rows = _rows(_batches(data_dir, manifest, 2 * num_records // 8))
    first, second = rows[:num_records], rows[num_records : 2 * num_records]
    assert len(set(first)) > 0.9 * num_records
    whole = _rows(_batches(data_dir, manifest, num_records // 8 + 1))[:num_records]
    assert sorted(first) == sorted(whole)
    assert first[: len(second)] != second
    assert len(set(second) - set(first)) == 0


def test_a_run_that_resumes_reads_what_it_would_have_read(data_dir, manifest):
    num_records = manifest.splits[schema.TRAIN].num_records
    for first_step in (1, 3, num_records // 8 + 2):
        whole = _rows(_batches(data_dir, manifest, first_step + 4))
        resumed = _rows(_batches(data_dir, manifest, 4, first_step))
        assert resumed == whole[8 * first_step :]


def test_hosts_read_different_shards_and_their_part_of_the_batch(data_dir, manifest):
    rows = []
    for host in range(2):
        context = tf.distribute.InputContext(2, host, 2)
        batches = _batches(data_dir, manifest, 4, context=context)
        assert batches[0]["input_ids"].shape == (4, 24)  # of 8
        rows.append(set(_rows(batches)))
    assert not rows[0] & rows[1]


@pytest.mark.parametrize(
    ("sizes", "num_streams", "num_hosts", "num_steps", "num_draws", "masking"),
    [
        ([16, 16, 16], 2, 2, 36, 6, "static"),
        ([16, 16, 16], 2, 1, 36, 6, "dynamic"),
        # 35 records in parts of two: each stream reads them twice in 35 steps.
        ([3, 20, 5, 7], 4, 2, 35, 8, "static"),
        ([5, 6, 4], 1, 1, 15, 8, "static"),
        ([2, 9, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1], 8, 2, 30, 8, "static"),
    ],
)
def test_every_record_is_drawn_equally_often_and_resuming_changes_no_draw(
    tmp_path, request, sizes, num_streams, num_hosts, num_steps, num_draws, masking
):
    fixture = "manifest" if masking == "static" else "dynamic_manifest"
    manifest = numbered_records.write(tmp_path, request.getfixturevalue(fixture), sizes)

    def draws(first_step, end):
        """The numbers of the records of each step, those of all hosts."""
        hosts = [
            _batches(
                tmp_path,
                manifest,
                end - first_step,
                first_step,
                tf.distribute.InputContext(num_hosts, host, num_hosts),
                [f"train.num_streams={num_streams}"],
            )
            for host in range(num_hosts)
        ]
        return [
            np.concatenate([numbered_records.numbers(batch) for batch in step])
            for step in zip(*hosts, strict=True)
        ]

    whole = draws(0, num_steps)
    counts = np.bincount(np.concatenate(whole))
    assert counts.tolist() == [num_draws] * sum(sizes)
    # At no time is a record ahead of another by more than what a border moves.
    halfway = np.bincount(np.concatenate(whole[: num_steps // 2]), minlength=sum(sizes))
    assert halfway.max() - halfway.min() <= 2
    first_step = num_steps // 2 + 1
    resumed = draws(first_step, num_steps)
    np.testing.assert_array_equal(resumed, whole[first_step:])


@pytest.mark.parametrize(
    ("num_hosts", "num_replicas", "override", "message"),
    [
        (4, 4, "train.seed=1", "3 shards are too few for 4 streams"),
        (2, 2, "train.num_streams=3", "multiple of the number of hosts; received 3"),
        (1, 3, "train.seed=1", "number of devices times .*; received 8 and 3"),
        (1, 4, "train.accumulation_steps=4", "accumulation_steps; received 8 and 16"),
        (1, 1, "train.num_streams=3", "multiple of the number of streams; received 8"),
    ],
)
def test_what_cannot_be_divided_is_an_error(
    data_dir, manifest, num_hosts, num_replicas, override, message
):
    context = tf.distribute.InputContext(num_hosts, 0, num_replicas)
    with pytest.raises(ValueError, match=message):
        _batches(data_dir, manifest, 1, context=context, overrides=[override])


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_hosts_and_devices_divide_the_same_batches(
    data_dir, manifest, dynamic_dir, dynamic_manifest, masking
):
    if masking == "dynamic":
        data_dir, manifest = dynamic_dir, dynamic_manifest
    streams = ["train.num_streams=2"]
    whole = _batches(data_dir, manifest, 5, first_step=31, overrides=streams)

    def rows_of(name, batches):
        return np.concatenate([batch[name] for batch in batches])

    for num_hosts, num_replicas in ((1, 2), (1, 4), (2, 2), (2, 4)):
        per_host = num_replicas // num_hosts
        by_host = [
            _batches(
                data_dir,
                manifest,
                5 * per_host,
                first_step=31,
                context=tf.distribute.InputContext(num_hosts, host, num_replicas),
                overrides=streams,
            )
            for host in range(num_hosts)
        ]
        for step, batch in enumerate(whole):
            parts = [
                part
                for batches in by_host
                for part in batches[step * per_host : (step + 1) * per_host]
            ]
            assert len(parts[0]["input_ids"]) == 8 // num_replicas
            for name, values in batch.items():
                np.testing.assert_array_equal(rows_of(name, parts), values)


def test_batches_have_static_shapes(data_dir, dynamic_dir):
    for folder in (data_dir, dynamic_dir):
        manifest = manifest_lib.read_manifest(str(folder))
        config = small_run.small_config(f"data.masking={manifest.data['masking']}")
        fns = [
            input_pipeline.train_input_fn(str(folder), manifest, config),
            input_pipeline.eval_input_fn(str(folder), manifest, config)[0],
        ]
        for input_fn, batch_size in zip(fns, (4, 16), strict=True):
            spec = input_fn(tf.distribute.InputContext(1, 0, 2)).element_spec
            spec.pop("example_weights", None)
            found = {k: (v.dtype.name, tuple(v.shape)) for k, v in spec.items()}
            assert found == {
                name: (dtype, (batch_size, *shape))
                for name, (dtype, shape) in schema.model_features(
                    row_shapes.RowShape(24, 4)
                ).items()
            }


def _held_out(data_dir, manifest, *overrides, context=None):
    """Held-out batches of one host, and how many all take together."""
    config = small_run.small_config(
        f"data.masking={manifest.data['masking']}", *overrides
    )
    input_fn, num_batches = input_pipeline.eval_input_fn(
        str(data_dir), manifest, config
    )
    dataset = input_fn(context or tf.distribute.InputContext())
    return list(dataset.as_numpy_iterator()), num_batches


def test_evaluation_reads_all_held_out_records_once_and_weighs_filling_zero(
    data_dir, manifest
):
    split = manifest.splits[schema.HELDOUT]
    batches, num_batches = _held_out(data_dir, manifest)
    assert len(batches) == num_batches == -(-split.num_records // 16)
    weights = np.concatenate([batch["example_weights"] for batch in batches])
    assert {batch["input_ids"].shape for batch in batches} == {(16, 24)}
    assert weights.sum() == split.num_records
    masked = sum(batch["masked_lm_weights"].sum() for batch in batches)
    assert masked == split.statistics["num_masked"]


@pytest.mark.parametrize("overrides", [(), ("train.eval_batches=3",)])
def test_replicas_take_every_batch_of_an_evaluation_once(
    dynamic_dir, dynamic_manifest, overrides
):
    whole, num_batches = _held_out(dynamic_dir, dynamic_manifest, *overrides)
    hosts = [
        _held_out(
            dynamic_dir,
            dynamic_manifest,
            *overrides,
            context=tf.distribute.InputContext(2, host, 4),
        )[0]
        for host in range(2)
    ]
    rounds = -(-num_batches // 4)
    assert [len(batches) for batches in hosts] == [2 * rounds, 2 * rounds]
    in_order = [
        hosts[host][2 * number + place]
        for number in range(rounds)
        for host in range(2)
        for place in range(2)
    ]
    for batch, expected in zip(in_order, whole, strict=False):
        for name, values in expected.items():
            np.testing.assert_array_equal(batch[name], values, err_msg=name)
    filling = in_order[num_batches:]
    assert filling and not any(b["example_weights"].any() for b in filling)
    assert not any(b["masked_lm_weights"].any() for b in filling)


def test_ids_beyond_two_bytes_are_read(manifest):
    large = dataclasses.replace(manifest, vocab_size=100_000)
    record = tf.train.Example()
    feature = record.features.feature
    ids = np.array([2, 70_000, 3, 80_000, 3], np.int32)
    feature["input_ids"].bytes_list.value.append(ids.tobytes())
    feature["masked_lm_ids"].bytes_list.value.append(ids[1:2].tobytes())
    feature["masked_lm_positions"].bytes_list.value.append(
        np.array([1], np.uint16).tobytes()
    )
    feature["segment_a_length"].int64_list.value.append(3)
    feature["next_sentence_labels"].int64_list.value.append(1)
    batch = _parse([record.SerializeToString()], large)
    assert batch["input_ids"][0, :5].numpy().tolist() == ids.tolist()
    assert batch["segment_ids"][0, :6].numpy().tolist() == [0, 0, 0, 1, 1, 0]
    assert batch["masked_lm_ids"][0].numpy().tolist() == [70_000, 0, 0, 0]


# ---- Records without masks ----


def test_each_epoch_masks_the_same_text_anew(dynamic_dir, dynamic_manifest):
    num_records = dynamic_manifest.splits[schema.TRAIN].num_records
    batches = _batches(dynamic_dir, dynamic_manifest, 3 * num_records // 8)
    texts = [row.tobytes() for b in batches for row in numbered_records.unmasked(b)]
    masks = [row.tobytes() for b in batches for row in b["masked_lm_positions"]]
    first, second = slice(0, num_records), slice(num_records, 2 * num_records)
    assert sorted(texts[first]) == sorted(texts[second])
    by_text = dict(zip(texts[first], masks[first], strict=True))
    changed = [
        by_text[text] != mask
        for text, mask in zip(texts[second], masks[second], strict=True)
    ]
    assert np.mean(changed) > 0.8
    shapes = {k: (v.dtype.name, v.shape[1:]) for k, v in batches[0].items()}
    assert shapes == schema.model_features(row_shapes.RowShape(24, 4))


@pytest.mark.parametrize("num_tokens", [0, 1, 25])
def test_a_record_of_another_length_is_not_masked(dynamic_manifest, num_tokens):
    buffer = np.empty(400, np.uint8)
    ids = np.full(num_tokens, 7, np.int32)
    end = example_proto.put_dynamic(buffer, 0, ids, ids > 0, 2, 0, 2)
    records = tf.data.Dataset.from_tensors([buffer[:end].tobytes()])
    parser = record_parser.Parser(dynamic_manifest, small_run.small_config().data)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"2 to 24 tokens; received {num_tokens}"
    ):
        list(records.map(lambda batch: parser.parse(batch, [[0]])))


def test_a_run_that_resumes_draws_the_same_masks(dynamic_dir, dynamic_manifest):
    whole = _rows(_batches(dynamic_dir, dynamic_manifest, 40))
    resumed = _rows(_batches(dynamic_dir, dynamic_manifest, 7, first_step=33))
    assert resumed == whole[8 * 33 :]


def test_evaluation_draws_the_same_masks_each_time(dynamic_dir, dynamic_manifest):
    first, second = (
        _rows(_held_out(dynamic_dir, dynamic_manifest)[0]) for _ in range(2)
    )
    assert first == second


def test_records_without_masks_leave_the_rate_to_the_trainer(
    dynamic_dir, dynamic_manifest
):
    config = small_run.small_config(
        "data.masking=dynamic", "data.masked_lm_rate=0.4", "data.max_ngram=1"
    )
    manifest_lib.check_manifest(str(dynamic_dir), dynamic_manifest, config)
    input_fn = input_pipeline.train_input_fn(str(dynamic_dir), dynamic_manifest, config)
    (batch,) = input_fn(tf.distribute.InputContext()).take(1).as_numpy_iterator()
    assert batch["masked_lm_ids"].shape == (8, 10)
    share = batch["masked_lm_weights"].sum() / batch["input_mask"].sum()
    assert 0.3 < share < 0.45


def _law_counts(batches):
    """Replacements by kind, masked tokens, and all tokens."""
    kinds, masked, tokens = np.zeros(3), 0, 0
    for batch in batches:
        weights = batch["masked_lm_weights"] > 0
        shown = np.take_along_axis(
            batch["input_ids"], batch["masked_lm_positions"], axis=1
        )[weights]
        labels = batch["masked_lm_ids"][weights]
        is_mask, is_kept = shown == 4, shown == labels
        kinds += [is_mask.sum(), is_kept.sum(), (~is_mask & ~is_kept).sum()]
        masked += weights.sum()
        tokens += batch["input_mask"].sum()
    return kinds, masked, tokens


def test_masks_drawn_in_training_follow_the_law_of_those_in_records(tmp_path):
    """The same text, masked in both ways; each count within its 99.9% interval."""
    settings = ("data.heldout_rate=0", "data.short_seq_rate=0")
    static_dir = small_run.write_records(
        tmp_path / "static", "data.dupe_factor=40", *settings
    )
    dynamic_dir = small_run.write_records(
        tmp_path / "dynamic", "data.dupe_factor=40", "data.masking=dynamic", *settings
    )
    counts, lengths = [], []
    for folder in (static_dir, dynamic_dir):
        manifest = manifest_lib.read_manifest(str(folder))
        num_batches = manifest.splits[schema.TRAIN].num_records // 8
        batches = _batches(folder, manifest, num_batches)
        kinds, masked, tokens = _law_counts(batches)
        counts.append([*kinds, tokens - masked])
        gaps = [
            np.diff(row[weights > 0])
            for b in batches
            for row, weights in zip(
                b["masked_lm_positions"], b["masked_lm_weights"], strict=True
            )
        ]
        # How masked tokens lie to one another tells the lengths of spans.
        lengths.append(
            np.bincount(np.minimum(np.concatenate(gaps), 8), minlength=9)[1:]
        )
    assert min(counts[0]) > 500
    assert stats.chi2_contingency(counts).pvalue > 0.001
    assert stats.chi2_contingency(lengths).pvalue > 0.001
