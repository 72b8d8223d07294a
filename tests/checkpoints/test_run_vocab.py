"""The vocabulary of a run must be the one that was written with it."""

import hashlib
import json

import pytest

from albert_tf.api import models
from albert_tf.checkpoints import run_vocab
from albert_tf.data import schema
from albert_tf.finetuning import initialization, run_dir
from albert_tf.interchange import native, portable, weight_map
from albert_tf.serving import load
from tests.support import fine_tuned, small_run, small_task

RULE = "vocab.model is damaged or of another run: its SHA-256 is not the one in "


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
    run_vocab.check(str(tmp_path))
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"abd")
    with pytest.raises(ValueError, match=f"^{tmp_path}/{RULE}"):
        run_vocab.check(str(tmp_path))


def test_without_a_manifest_nothing_is_compared(tmp_path):
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"abc")
    run_vocab.check(str(tmp_path))


def test_a_sum_beside_it_is_that_of_sha256sum(tmp_path):
    run_vocab.write(str(tmp_path), b"abc")
    assert (tmp_path / "vocab.model").read_bytes() == b"abc"
    found = (tmp_path / "vocab.model.sha256").read_text()
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert found == f"{expected}  vocab.model\n"
    run_vocab.check(str(tmp_path))
    (tmp_path / "vocab.model").write_bytes(b"abd")
    with pytest.raises(ValueError, match=f"^{tmp_path}/{RULE}"):
        run_vocab.check(str(tmp_path))


def _converted(path):
    return native.read(path, portable.ReadOptions(), weight_map.ConversionReport())


def _refuse_a_changed_vocabulary(run, readers):
    vocab = bytearray((run / schema.VOCAB_FILE).read_bytes())
    for read in readers:
        read(str(run))
    vocab[1000] ^= 1
    (run / schema.VOCAB_FILE).write_bytes(bytes(vocab))
    for read in readers:
        with pytest.raises(ValueError, match=RULE):
            read(str(run))


def test_all_that_read_a_run_compare_its_vocabulary(tmp_path):
    run = small_task.write_pretrained(tmp_path / "run", "model.num_layers=1")
    _write_manifest(run, (run / schema.VOCAB_FILE).read_bytes())
    readers = (
        initialization.read_pretrained_run,
        load.read_run,
        models.load_tokenizer,
        _converted,
    )
    _refuse_a_changed_vocabulary(run, readers)


def test_a_converted_run_has_the_sum_of_its_vocabulary(tmp_path):
    source = small_task.write_pretrained(tmp_path / "run", "model.num_layers=1")
    model = _converted(str(source))
    (tmp_path / "converted").mkdir()
    recipe = small_run.small_config("model.num_layers=1")
    folder = str(tmp_path / "converted")
    native.write(model, folder, recipe, weight_map.ConversionReport())
    _refuse_a_changed_vocabulary(tmp_path / "converted", [load.read_run])


def test_a_fine_tuned_run_and_its_copy_have_the_sum_of_their_vocabulary(tmp_path):
    run = fine_tuned.write(tmp_path / "run", "regression")
    vocab = (run / schema.VOCAB_FILE).read_bytes()
    run_vocab.write(str(run), vocab)
    run_dir.copy(str(run), str(tmp_path / "copy"))
    _refuse_a_changed_vocabulary(tmp_path / "copy", [run_dir.read, load.read_run])
