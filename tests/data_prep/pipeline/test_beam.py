"""The Beam pipeline: it must write the bytes that the local run writes.

Beam has a separate environment below build/, which the first slow test makes and later
runs reuse.
"""

import gzip
import hashlib
import os
import pathlib
import random
import re
import subprocess
import sys
import types
from collections.abc import Mapping

import numpy as np
import pytest
from absl import flags

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import schema
from data_prep import beam_pipeline
from data_prep.pipeline import block_processor, local_run
from data_prep.pipeline import flags as pipeline_flags
from data_prep.reading import blocks as blocks_lib
from data_prep.reading import input_files
from data_prep.records import chunks, shards, shuffle
from tests.repository import project_files
from tests.support import binaries

ROOT = project_files.ROOT
# So small that a small corpus has several groups, blocks, parts and chunks.
SIZES = {
    (blocks_lib, "GROUP_BYTES"): 30_000,
    (block_processor, "_RECORD_BYTES_PER_BLOCK"): 24_000,
    (block_processor, "_TOKENS_AT_A_TIME"): 4_000,
    (chunks, "CHUNK_BYTES"): 3_000,
}
PLAIN = ("data.dupe_factor=2", "data.heldout_rate=0.1", "data.max_seq_length=64")
ALL_ELSE = (
    *PLAIN,
    "text.drop_exact_duplicates=true",
    "text.near_duplicate_threshold=0.7",
    "data.pair_loss=nsp",
    "data.masking=dynamic",
    "data.pack_sequences=2",
    "data.compression=gzip",
    "data.min_shards=3",
)
BOUNDED = (
    *PLAIN,
    "text.max_line_characters=80",
    "text.max_document_bytes=1024",
    "text.max_unpacked_ratio=1",
)
FEW_RECORDS = ("data.dupe_factor=1", "data.heldout_rate=0.9", "data.min_shards=64")
# So few that the shards of the training split are of several buckets, and so small that
# the blocks of `ALL_ELSE` are several runs.
BUCKETS = {
    (shuffle, "SHARDS_PER_BUCKET"): 2,
    (shuffle, "PIECE_BYTES"): 9_000,
}


# The binary, without Beam.


def test_without_beam_one_line_says_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(beam_pipeline.importlib.util, "find_spec", lambda _: None)
    line = binaries.error_of(
        capsys,
        beam_pipeline,
        f"--input={tmp_path}/none.txt",
        "--vocab_model=none",
        f"--output_dir={tmp_path}/out",
    )
    assert "Apache Beam, which is not installed" in line
    assert line.endswith("pip install -r requirements-beam.txt")
    assert not (tmp_path / "out").exists()


def test_without_a_vocabulary_the_command_that_trains_one_is_named(tmp_path):
    text, vocab = tmp_path / "text.txt", tmp_path / "absent.model"
    text.write_text("A text.")
    values = flags.FlagValues()
    beam_pipeline.define_flags(values)
    given = f"--input={text}", f"--vocab_model={vocab}", "--output_dir=new"
    beam_pipeline.parse_flags(["beam_pipeline", *given], values)
    with pytest.raises(ValueError) as refused:
        pipeline_flags.check_input_files(values)
    assert str(refused.value) == (
        f"--vocab_model must name a SentencePiece .model file; there is no {vocab}. "
        "Train one with `python -m data_prep.train_vocab`"
    )


def test_flags_that_are_not_defined_are_left_for_beam():
    values = flags.FlagValues()
    beam_pipeline.define_flags(values)
    line = (
        "--runner=FlinkRunner --input=a,b --num_workers=7 stray --vocab_model=v "
        "--output_dir=o --project=p --overwrite"
    )
    rest = beam_pipeline.parse_flags(["beam_pipeline", *line.split()], values)
    assert sorted(rest) == [
        "--num_workers=7",
        "--project=p",
        "--runner=FlinkRunner",
        "beam_pipeline",
        "stray",
    ]
    assert rest[0] == "beam_pipeline"
    assert values.input == ["a", "b"]
    assert values.overwrite


def test_a_shard_can_be_written_to_a_remote_path():
    content = np.arange(5, dtype=np.uint8)
    shard = shards.write_shard("ram://beam/x", "train-0", content, 1, "none")
    assert files.read_bytes("ram://beam/x") == bytes(range(5))
    assert (shard.name, shard.num_records, shard.num_bytes) == ("train-0", 1, 5)


# The pipeline itself.


@pytest.fixture(scope="module")
def beam_python() -> pathlib.Path:
    """The interpreter of the environment that requirements-beam.txt describes."""
    requirements = (ROOT / "requirements-beam.txt").read_bytes()
    version = "{}.{}".format(*sys.version_info)
    digest = hashlib.sha256(requirements).hexdigest()[:12]
    folder = ROOT / "build" / f"beam-{version}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements-beam.txt").write_bytes(requirements)
    # It pins all by itself; those of the repository do not fit Beam.
    (folder / "constraints.txt").write_bytes(b"")
    done = subprocess.run(
        [str(ROOT / ".ci" / "make_venv"), "venv", "requirements-beam.txt"],
        cwd=folder,
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = " ".join(done.stderr.split())
        if re.search("versions: none|onnection|timed out|name resolution", lines):
            pytest.skip("pip cannot fetch requirements-beam.txt: no network")
        pytest.fail(f"requirements-beam.txt cannot be installed: {lines}")
    return folder / "venv" / "bin" / "python"


def _corpus(folder: pathlib.Path) -> None:
    """Three files, one compressed, with documents that repeat others and nearly do."""
    rng = random.Random(3)
    words = (
        "the a of river town house bird old small was were found under over between "
        "light water, 1990 king's history music and in north south played called"
    ).split()
    documents = [
        [
            " ".join(rng.choices(words, k=rng.randint(2, 20))) + "."
            for _ in range(rng.randint(2, 20))
        ]
        for _ in range(150)
    ]
    documents += documents[10:20]
    documents += [[*lines, "One more."] for lines in documents[30:45]]
    rng.shuffle(documents)
    texts = ["\n\n".join(map("\n".join, documents[i::3])) + "\n" for i in range(3)]
    (folder / "a.txt").write_text(texts[0])
    (folder / "b.txt.gz").write_bytes(gzip.compress(texts[1].encode()))
    (folder / "c.txt").write_text(texts[2])


def _pipeline(
    python: pathlib.Path,
    *arguments: object,
    sizes: Mapping[tuple[types.ModuleType, str], int] | None = None,
) -> subprocess.CompletedProcess:
    """Runs the binary, with other constants or unchanged."""
    start = ["-m", "data_prep.beam_pipeline"]
    if sizes:
        lines = ["import runpy"]
        for (module, name), value in sizes.items():
            lines.append(f"import {module.__name__}")
            lines.append(f"{module.__name__}.{name} = {value}")
        run = "runpy.run_module('data_prep.beam_pipeline', run_name='__main__')"
        start = ["-c", "\n".join([*lines, run])]
    # Beam would download its own runner from GitHub, and works without it.
    fixed = ["--runner=DirectRunner", "--prism_location=none"]
    return subprocess.run(
        [str(python), *start, *fixed, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def _contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "buckets"),
    [
        (PLAIN, {}),
        (ALL_ELSE, {}),
        (BOUNDED, {}),
        (FEW_RECORDS, {}),
        (ALL_ELSE, BUCKETS),
        (FEW_RECORDS, BUCKETS),
    ],
    ids=[
        *("plain", "all_else", "bounded", "few_records"),
        *("all_else_in_buckets", "few_records_in_buckets"),
    ],
)
def test_every_byte_is_that_of_the_local_run(
    tmp_path, testdata, monkeypatch, beam_python, case, buckets
):
    _corpus(tmp_path)
    vocab_model = testdata / "tokenization" / "spm_small.model"
    settings = ["model.vocab_size=4000", *case]
    done = _pipeline(
        beam_python,
        f"--input={tmp_path}/*.txt,{tmp_path}/*.gz",
        f"--vocab_model={vocab_model}",
        f"--output_dir={tmp_path}/beam",
        *(f"--set={setting}" for setting in settings),
        sizes=SIZES | buckets,
    )
    assert done.returncode == 0, done.stderr
    for (module, name), value in SIZES.items():
        monkeypatch.setattr(module, name, value)
    manifest = local_run.create_pretraining_data(
        [f"{tmp_path}/*.txt", f"{tmp_path}/*.gz"],
        str(vocab_model),
        str(tmp_path / "local"),
        config_io.override(config_lib.Config(), settings),
    )
    assert len(blocks_lib.plan_groups(input_files.expand(f"{tmp_path}/*.*"))) > 1
    dropped = manifest.documents["dropped"]
    assert set(dropped) == (
        {"exact_duplicate", "near_duplicate"} if case is ALL_ELSE else set()
    )
    counts = manifest.characters["input"]
    expected = {"cut_lines", "cut_documents", "cut_files"} if case is BOUNDED else set()
    assert set(counts) == expected
    assert set(manifest.splits) == set(schema.SPLITS)
    if buckets:
        num_shards = len(manifest.splits[schema.TRAIN].shards)
        width = buckets[shuffle, "SHARDS_PER_BUCKET"]
        assert num_shards > width
        num_bytes = sum(one.num_bytes for one in manifest.splits[schema.TRAIN].shards)
        run_bytes = buckets[shuffle, "PIECE_BYTES"] * num_shards // width
        assert case is FEW_RECORDS or num_bytes > 2 * run_bytes  # several runs
    local, beam = _contents(tmp_path / "local"), _contents(tmp_path / "beam")
    assert (b"" in local.values()) == (case is FEW_RECORDS)  # shards without records
    assert sorted(beam) == sorted(local)
    assert {name for name in local if local[name] != beam[name]} == set()


@pytest.mark.slow
def test_bad_input_ends_in_one_line_and_records_are_replaced_on_demand(
    tmp_path, testdata, beam_python
):
    _corpus(tmp_path)
    arguments = [
        f"--vocab_model={testdata / 'tokenization' / 'spm_small.model'}",
        f"--output_dir={tmp_path}/out",
        "--set=model.vocab_size=4000",
        *(f"--set={setting}" for setting in PLAIN),
    ]
    good = f"--input={tmp_path}/a.txt"

    def error_of(*more):
        done = _pipeline(beam_python, *arguments, *more)
        assert done.returncode == 1, done.stderr
        return done.stderr.rstrip("\n").splitlines()[-1]

    (tmp_path / "latin").write_bytes(b"good text\n\nna\xefve text\n")
    (tmp_path / "word").write_bytes(b"the\n")
    assert "--runer is neither" in error_of(good, "--runer=DirectRunner")
    dask = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner"
    assert "--runner must not be Beam's DaskRunner" in error_of(good, dask)
    assert "received 'b.txt'. Quote globs" in error_of(good, "b.txt")
    assert "latin, line 3" in error_of(f"--input={tmp_path}/latin")
    (tmp_path / "rows.jsonl").write_text('{"text": "good text"}\n')
    assert "is named as jsonl, but" in error_of(f"--input={tmp_path}/rows.jsonl")
    assert "/word: no training record is a pair" in error_of(f"--input={tmp_path}/word")
    assert list((tmp_path / "out").iterdir()) == []

    first = _pipeline(beam_python, *arguments, good)
    assert "train: " in first.stdout and f"wrote {tmp_path}/out" in first.stdout
    before = _contents(tmp_path / "out")
    assert len(before) == 8 + 1 + 2  # train, held out, the vocabulary and the manifest
    assert "--overwrite" in error_of(good)
    assert _contents(tmp_path / "out") == before
    left = tmp_path / "out" / "train-00000-of-00008.tfrecord.0123"  # by a killed worker
    left.write_bytes(b"part")
    again = _pipeline(
        beam_python, *arguments, good, "--overwrite", "--set=data.min_shards=2"
    )
    assert again.returncode == 0, again.stderr
    after = _contents(tmp_path / "out")
    assert sorted(after) == [
        "heldout-00000-of-00001.tfrecord",
        "manifest.json",
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfrecord",
        "vocab.model",
    ]


@pytest.mark.slow
def test_what_goes_to_the_shards_has_one_type(beam_python):
    # Some runners cannot flatten collections of several types.
    code = """
from data_prep.pipeline import beam_steps as steps
for step in (steps._Choose(), steps._MergePiece(), steps._EveryShard()):
    print(step.get_type_hints().simple_output_type(""))
"""
    done = subprocess.run(
        [str(beam_python), "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    types = done.stdout.split()
    assert len(types) == 3 and len(set(types)) == 1
