"""The directory of a run: its vocabulary must be the one that its records have."""

import hashlib
import json

import pytest

from albert_tf.checkpoints import run_dir
from albert_tf.data import schema
from albert_tf.finetuning import initialization
from albert_tf.interchange import native, portable, weight_map
from albert_tf.serving import load
from tests.support import small_task

RULE = "vocab.model is damaged or of another run: its SHA-256 is not the one in the"


def _write_manifest(folder, *vocabs: bytes) -> None:
    found = [{"vocab_sha256": hashlib.sha256(one).hexdigest()} for one in vocabs]
    if len(found) == 1:
        (folder / schema.MANIFEST_FILE).write_text(json.dumps(found[0]))
    else:
        named = {str(number): one for number, one in enumerate(found)}
        (folder / schema.MANIFESTS_FILE).write_text(json.dumps(named))


@pytest.mark.parametrize("vocabs", [(b"abc",), (b"abc", b"abc")])
def test_a_vocabulary_that_changed_is_named(tmp_path, vocabs):
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"abc")
    _write_manifest(tmp_path, *vocabs)
    run_dir.check_vocab(str(tmp_path))
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"abd")
    with pytest.raises(ValueError, match=f"^{tmp_path}/{RULE}"):
        run_dir.check_vocab(str(tmp_path))


def test_without_a_manifest_nothing_is_compared(tmp_path):
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"abc")
    run_dir.check_vocab(str(tmp_path))


def test_all_that_read_a_run_compare_its_vocabulary(tmp_path):
    run = small_task.write_pretrained(tmp_path / "run", "model.num_layers=1")
    _write_manifest(run, (run / schema.VOCAB_FILE).read_bytes())
    readers = (
        initialization.read_pretrained_run,
        load.read_run,
        lambda path: native.read(
            path, portable.ReadOptions(), weight_map.ConversionReport()
        ),
    )
    for read in readers:
        read(str(run))
    vocab = bytearray((run / schema.VOCAB_FILE).read_bytes())
    vocab[1000] ^= 1
    (run / schema.VOCAB_FILE).write_bytes(bytes(vocab))
    for read in readers:
        with pytest.raises(ValueError, match=RULE):
            read(str(run))
