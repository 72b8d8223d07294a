"""Batches of stages and of mixtures: which records they hold, and in which order."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.core import stages as stages_lib
from albert_tf.data import input_pipeline, schema, sources
from albert_tf.data import manifest as manifest_lib
from tests.support import numbered_records, small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Directories of dynamic records: two of 24 tokens, and one of 32."""
    folder = tmp_path_factory.mktemp("small")
    dynamic = ("data.masking=dynamic", "data.dupe_factor=1")
    small_run.write_records(folder / "24", *dynamic)
    small_run.write_records(folder / "other", "data.seed=7", *dynamic)
    small_run.write_records(folder / "32", "data.max_seq_length=32", *dynamic)
    return folder


def _config(*overrides):
    return small_run.small_config("data.masking=dynamic", *overrides)


TWO_STAGES = (
    "train.records=24/records",
    "train.num_steps=12",
    "train.stages=[{'num_steps': 5}, {'num_steps': 7, 'batch_size': 4,"
    " 'max_seq_length': 32, 'masked_lm_rate': 0.4, 'mask_token_rate': 0.5,"
    " 'random_token_rate': 0.5, 'records': '32/records'}]",
)


def _batches(run, first_step, num_batches, context=None):
    dataset = input_pipeline.run_input_fn(run, first_step)(
        context or tf.distribute.InputContext()
    )
    return list(dataset.take(num_batches).as_numpy_iterator())


def _assert_equal(found, expected):
    assert len(found) == len(expected) > 0
    for batch, other in zip(found, expected, strict=True):
        assert batch.keys() == other.keys()
        for name, values in batch.items():
            np.testing.assert_array_equal(values, other[name], err_msg=name)


def test_a_stage_reads_what_a_run_of_this_stage_alone_reads(folder):
    config = _config(*TWO_STAGES)
    run = sources.read(str(folder), config)
    short = _config("train.batch_size=8")
    long = _config(
        "data.max_seq_length=32",
        "train.batch_size=4",
        "data.masked_lm_rate=0.4",
        "data.mask_token_rate=0.5",
        "data.random_token_rate=0.5",
    )
    for first_step, plain, records, count in (
        (0, short, "24", 5),
        (5, long, "32", 7),
        (8, long, "32", 4),
    ):
        path = str(folder / records / "records")
        alone = input_pipeline.train_input_fn(
            path, manifest_lib.read_manifest(path), plain, first_step % 5
        )(tf.distribute.InputContext())
        found = _batches(run, first_step, count)
        _assert_equal(found, list(alone.take(count).as_numpy_iterator()))
        shape = (plain.train.batch_size, plain.data.max_seq_length)
        assert found[0]["input_ids"].shape == shape
    assert _batches(run, 5, 1)[0]["masked_lm_ids"].shape == (4, 13)


def test_a_stage_of_the_same_records_reads_on_where_the_earlier_one_stopped(
    tmp_path, folder
):
    """And draws no mask twice: its keys count the steps of both."""
    path = str(folder / "24" / "records")
    manifest = numbered_records.write(
        tmp_path, manifest_lib.read_manifest(path), [9, 11, 10]
    )
    config = _config(
        "train.num_steps=6",
        "train.stages=[{'num_steps': 2}, {'num_steps': 4, 'batch_size': 2}]",
    )
    run = [
        sources.StageRecords(stage, (sources.Source("", str(tmp_path), manifest),))
        for stage in stages_lib.split(config)
    ]
    drawn = [numbered_records.numbers(batch) for batch in _batches(run, 0, 2)]
    drawn += [numbered_records.numbers(batch) for batch in _batches(run, 2, 7)]
    assert [len(numbers) for numbers in drawn] == [8, 8] + [2] * 7
    assert sorted(np.concatenate(drawn)) == list(range(30))
    _assert_equal(_batches(run, 4, 2), _batches(run, 2, 4)[2:])
    # The first step of stage 2 is the third with these records.
    plain = sources.of_directory(str(tmp_path), manifest, _config("train.batch_size=2"))
    third = _batches([plain], 8, 1)[0]  # the same two records
    np.testing.assert_array_equal(
        numbered_records.numbers(third),
        numbered_records.numbers(_batches(run, 2, 1)[0]),
    )


def test_what_was_read_before_a_branch_does_not_count(tmp_path, folder):
    """A branch whose records are not those of the run that it continues."""
    path = str(folder / "24" / "records")
    manifest = numbered_records.write(
        tmp_path, manifest_lib.read_manifest(path), [9, 11, 10]
    )
    config = _config(
        "train.num_steps=9",
        "train.stages=[{'num_steps': 4}, {'num_steps': 5, 'batch_size': 2}]",
    )
    run = [
        sources.StageRecords(stage, (sources.Source("", str(tmp_path), manifest),))
        for stage in stages_lib.split(config)
    ]

    def drawn(first_step, count, begin):
        input_fn = input_pipeline.run_input_fn(run, first_step, begin)
        dataset = input_fn(tf.distribute.InputContext()).take(count)
        batches = dataset.as_numpy_iterator()
        return [numbered_records.numbers(batch).tolist() for batch in batches]

    # From step 3 on: one batch of 8, and then 11 of 2.
    whole = [*drawn(3, 1, 3), *drawn(4, 11, 3)]
    assert sorted(sum(whole, [])) == list(range(30))
    assert drawn(6, 3, 3) == whole[3:6]
    assert drawn(6, 2, 6) == drawn(4, 2, 4) != drawn(6, 2, 0)


# ---- Mixtures ----

MIXTURE = (
    "train.records=24/records=3,other/records=1",
    "train.num_steps=50",
    "train.batch_size=8",
)


def _numbered_mixture(folder, records_dir, sizes, config):
    """A run of two sources, whose records are numbered from 0 and from 1000."""
    path = str(records_dir / "24" / "records")
    found = []
    for number, (shards, weight) in enumerate(zip(sizes, (3.0, 1.0), strict=True)):
        (folder / str(number)).mkdir()
        manifest = numbered_records.write(
            folder / str(number),
            manifest_lib.read_manifest(path),
            shards,
            first=1000 * number,
        )
        name = str(folder / str(number))
        found.append(sources.Source(name, name, manifest, weight))
    (stage,) = stages_lib.split(config)
    return [sources.StageRecords(stage, tuple(found))]


@pytest.mark.parametrize(("num_streams", "num_hosts"), [(1, 1), (4, 2)])
def test_sources_are_drawn_by_their_weights_and_each_record_equally_often(
    tmp_path, folder, num_streams, num_hosts
):
    """Fixed shares: no chance, so the counts hold exactly."""
    config = _config(*MIXTURE, f"train.num_streams={num_streams}")
    run = _numbered_mixture(tmp_path, folder, ([9, 11, 7, 9], [2, 3, 2, 1]), config)

    def steps_from(first_step, count):
        hosts = [
            _batches(
                run,
                first_step,
                count,
                tf.distribute.InputContext(num_hosts, h, num_hosts),
            )
            for h in range(num_hosts)
        ]
        return [
            np.concatenate([numbered_records.numbers(batch) for batch in step])
            for step in zip(*hosts, strict=True)
        ]

    whole = steps_from(0, 24)
    assert [(numbers >= 1000).sum() for numbers in whole] == [2] * 24
    # 144 draws of 36 records, and 48 of 8: the shorter source has had six epochs.
    first, second = (
        np.concatenate([n[(n >= 1000) == is_second] for n in whole])
        for is_second in (False, True)
    )
    assert np.bincount(first).tolist() == [4] * 36
    assert np.bincount(second - 1000).tolist() == [6] * 8
    for first_step in (11,):
        resumed = steps_from(first_step, 3)
        np.testing.assert_array_equal(resumed, whole[first_step : first_step + 3])


def test_hosts_and_devices_divide_the_same_batches_of_a_mixture(folder):
    config = _config(*MIXTURE, "train.num_streams=2")
    run = sources.read(str(folder), config)
    whole = _batches(run, 7, 3)
    for num_hosts, num_replicas in ((1, 2), (2, 4)):
        per_host = num_replicas // num_hosts
        by_host = [
            _batches(
                run,
                7,
                3 * per_host,
                tf.distribute.InputContext(num_hosts, host, num_replicas),
            )
            for host in range(num_hosts)
        ]
        found = []
        for step in range(3):
            parts = [
                part
                for batches in by_host
                for part in batches[step * per_host : (step + 1) * per_host]
            ]
            found.append(
                {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
            )
        _assert_equal(found, whole)


def test_a_mixture_of_one_directory_is_that_directory(folder):
    path = str(folder / "24" / "records")
    plain = sources.read(path, _config())
    named = sources.read(str(folder), _config("train.records=24/records=0.3"))
    _assert_equal(_batches(named, 3, 2), _batches(plain, 3, 2))


def test_frequencies_of_several_sources_count_by_held_out_records(folder):
    (records,) = sources.read(str(folder), _config(*MIXTURE))
    expected, count = 0.0, 0
    for name in ("24", "other"):
        manifest = manifest_lib.read_manifest(str(folder / name / "records"))
        num_records = manifest.splits[schema.HELDOUT].num_records
        expected += num_records * manifest.heldout_unigram_entropy
        count += num_records
    assert math.isclose(records.unigram_entropy, expected / count)
    assert [source.name for source in records.held_out()] == [
        "24/records",
        "other/records",
    ]


# ---- Errors ----


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            [*TWO_STAGES, "train.stages.2.records=absent"],
            r"train.stages.2.records must hold records and their manifest.json; .*"
            r"absent/manifest.json does not exist",
        ),
        (
            [*TWO_STAGES, "train.records=absent"],
            "train.records must hold records and their manifest.json",
        ),
        (
            [*TWO_STAGES, "train.stages.2.max_seq_length=20"],
            r"sequence length of the records in .*32/records is 32, but "
            r"train.stages.2.max_seq_length makes it 20",
        ),
        (
            ["train.records=24/records,32/records"],
            "sequence length of the records in .*32/records is 32, but data.max_seq",
        ),
        (["train.stages=[]"], "--data_dir must hold records and their manifest.json"),
    ],
)
def test_records_that_are_missing_or_differ_are_named(folder, overrides, message):
    with pytest.raises(ValueError, match=message):
        sources.read(str(folder), _config(*overrides))


def test_records_of_another_vocabulary_are_refused(folder, monkeypatch):
    read = manifest_lib.read_manifest

    def read_other(path, setting):
        manifest = read(path, setting)
        is_other = "other" in path
        return dataclasses.replace(manifest, vocab_sha256="1") if is_other else manifest

    monkeypatch.setattr(manifest_lib, "read_manifest", read_other)
    with pytest.raises(ValueError, match="same vocabulary; that of .*other/records"):
        sources.read(str(folder), _config(*MIXTURE))


def test_a_batch_of_a_later_stage_that_cannot_be_divided_is_an_error_at_once(folder):
    config = _config(*TWO_STAGES, "train.stages.2.batch_size=6")
    run = sources.read(str(folder), config)
    message = r"train.stages.2.batch_size must be a multiple .*train.stages.2.acc.* 4"
    with pytest.raises(ValueError, match=message):
        _batches(run, 0, 1, tf.distribute.InputContext(1, 0, 4))
