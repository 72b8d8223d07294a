"""Warm starts: the right rows move, the rest must fit, and what is new is said."""

import pathlib

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.checkpoints import checkpointer, warm_start
from albert_tf.core import config, config_io
from albert_tf.data import schema
from albert_tf.model import compute, pretraining_model, task_model
from albert_tf.optim import optimizers
from albert_tf.training import pretraining
from data_prep.vocab import trainer
from tests.support import small_run

SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
OLD_PIECES = [*SPECIAL, "▁", "a", "b", "▁the", "s", "▁old", "e"]  # 12
NEW_PIECES = ["<unk>", "<pad>", *SPECIAL[2:], "e", "▁", "▁new", "a", "x", "▁the"]  # 11
RESTART = "weights only: optimizer and step start from zero"


def _vocab(pieces: list[str]) -> bytes:
    """A SentencePiece model of just these pieces."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(small_run.VOCAB.read_bytes())
    del proto.pieces[:]
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    for score, piece in enumerate(pieces):
        kind = kinds.CONTROL if piece in SPECIAL else kinds.NORMAL
        kind = kinds.UNKNOWN if piece == "<unk>" else kind
        proto.pieces.add(piece=piece, score=-score, type=kind)
    proto.trainer_spec.unk_id = pieces.index("<unk>")
    proto.trainer_spec.pad_id = pieces.index("<pad>")
    proto.trainer_spec.vocab_size = len(pieces)
    return proto.SerializeToString()


OLD_VOCAB = _vocab(OLD_PIECES)


def _config(*overrides: str) -> config.Config:
    return small_run.small_config("model.vocab_size=12", *overrides)


def _model(*overrides: str, seed: int = 2) -> pretraining_model.PretrainingModel:
    return pretraining_model.build_pretraining_model(_config(*overrides).model, seed)


def _save(folder: pathlib.Path, *overrides: str, step: int = 6, vocab=OLD_VOCAB):
    """A run's folder with one checkpoint, whose model has values told apart."""
    model = _model(*overrides, seed=1)
    for number, variable in enumerate(model.variables):
        steps = np.arange(variable.shape.num_elements()).reshape(variable.shape)
        variable.assign(1000.0 * (number + 1) + steps)
    adam = optimizers.create(_config().optimizer, 10)
    adam.build(model.trainable_variables)
    adam.iterations.assign(step)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"model": model, "optimizer": adam}
    checkpointer.Checkpointer(str(folder), 2, parts, is_chief=True).save(
        step, wait=True
    )
    if vocab:
        (folder / schema.VOCAB_FILE).write_bytes(vocab)
        text = config_io.to_json(_config(*overrides))
        (folder / schema.CONFIG_FILE).write_text(text)
    return model


def _values(model) -> dict[str, np.ndarray]:
    return {variable.name: variable.numpy() for variable in model.variables}


def _assert_equal(model, expected: dict[str, np.ndarray]) -> None:
    found = _values(model)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def _error(model, path, vocab=OLD_VOCAB) -> str:
    """The error, which must leave the model as it was."""
    before = _values(model)
    with pytest.raises(ValueError) as raised:
        warm_start.restore_weights(model, str(path), vocab)
    _assert_equal(model, before)
    return str(raised.value)


# ---- The same model ----


@pytest.mark.parametrize(
    ("overrides", "num_variables"),
    [
        ((), 32),
        (("model.sharing=none",), 48),
        (("model.sharing=attention", "model.num_layers=3"), 44),
        (("model.num_groups=2", "model.num_layers=4"), 48),
        (("model.num_inner_groups=2",), 48),
        (("model.embedding_size=12", "model.vocab_size=12"), 30),
    ],
)
def test_every_variable_moves_however_it_is_shared(tmp_path, overrides, num_variables):
    old = _save(tmp_path, *overrides)
    new = _model(*overrides)
    lines = warm_start.restore_weights(new, str(tmp_path), OLD_VOCAB)
    path = tmp_path / "model.ckpt-6"
    assert lines == [
        f"warm start: {num_variables} variables restored from {path}",
        RESTART,
    ]
    assert len(new.variables) == num_variables
    _assert_equal(new, _values(old))


def test_blocks_keep_their_places(tmp_path):
    old = _save(tmp_path, "model.sharing=none", "model.num_layers=11")
    new = _model("model.sharing=none", "model.num_layers=11")
    warm_start.restore_weights(new, str(tmp_path), OLD_VOCAB)
    firsts = [
        float(block.feed_forward.intermediate.kernel[0, 0])
        for block in new.encoder.blocks
    ]
    assert firsts == sorted(set(firsts))  # "10" would come before "2" as text
    for there, here in zip(old.encoder.blocks, new.encoder.blocks, strict=True):
        np.testing.assert_array_equal(
            here.attention.key.kernel, there.attention.key.kernel
        )


def test_a_newer_checkpoint_a_prefix_and_a_folder_below_are_found(tmp_path):
    _save(tmp_path, step=3)
    newest = tmp_path / "model.ckpt-7"
    _save(tmp_path, step=7)
    _save(tmp_path / "best", step=5, vocab=None)  # its vocabulary is one level up
    for given, expected in (
        (tmp_path, newest),
        (f"{tmp_path}/", f"{tmp_path}/model.ckpt-7"),
        (tmp_path / "model.ckpt-3", tmp_path / "model.ckpt-3"),
        (tmp_path / "best", tmp_path / "best" / "model.ckpt-5"),
    ):
        lines = warm_start.restore_weights(_model(), str(given), OLD_VOCAB)
        assert lines == [f"warm start: 32 variables restored from {expected}", RESTART]


def test_a_relative_path_finds_the_vocabulary_above_it(tmp_path, monkeypatch):
    _save(tmp_path)
    _save(tmp_path / "best", step=5, vocab=None)
    monkeypatch.chdir(tmp_path / "best")
    lines = warm_start.restore_weights(_model(), "model.ckpt-5", OLD_VOCAB)
    assert lines == ["warm start: 32 variables restored from model.ckpt-5", RESTART]


@pytest.mark.slow
def test_after_a_real_run_the_model_computes_the_same(tmp_path):
    records = small_run.write_records(tmp_path)
    settings = small_run.small_config("train.num_steps=6", "train.jit_compile=off")
    run = tmp_path / "run"
    pretraining.train(settings, str(records), str(run))
    expected = pretraining_model.build_pretraining_model(settings.model, seed=7)
    checkpointer.restore_parts(checkpointer.newest_path(str(run)), model=expected)
    model = pretraining_model.build_pretraining_model(settings.model, seed=8)
    vocab = small_run.VOCAB.read_bytes()
    lines = warm_start.restore_weights(model, str(run), vocab)
    assert lines == [
        f"warm start: 32 variables restored from {run}/model.ckpt-6",
        RESTART,
    ]
    _assert_equal(model, _values(expected))
    features = {
        "input_ids": tf.constant([[2, 900, 77, 3, 4, 3]]),
        "input_mask": tf.ones([1, 6], tf.int32),
        "segment_ids": tf.constant([[0, 0, 0, 0, 1, 1]]),
        "masked_lm_positions": tf.constant([[2, 4]]),
    }
    np.testing.assert_array_equal(
        model(features).mlm.logits, expected(features).mlm.logits
    )


# ---- Positions ----


@pytest.mark.parametrize("strategy", [None, "mirrored"])
def test_further_positions_keep_their_drawn_rows(tmp_path, strategy):
    old = _save(tmp_path)
    if strategy:
        with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
            model = _model("model.max_positions=35")
    else:
        model = _model("model.max_positions=35")
    drawn = _values(model)
    lines = warm_start.restore_weights(model, str(tmp_path), OLD_VOCAB)
    assert lines[1:] == ["positions 32 to 34 are new", RESTART]
    table = model.encoder.embeddings.position_embeddings
    known = old.encoder.embeddings.position_embeddings
    np.testing.assert_array_equal(table.numpy()[:32], known.numpy())
    np.testing.assert_array_equal(table.numpy()[32:], drawn[table.name][32:])
    assert np.abs(table.numpy()[32:]).max() < 0.05  # drawn: the others are 1000 and up
    expected = {**_values(old), table.name: table.numpy()}
    _assert_equal(model, expected)


def test_positions_beyond_the_model_are_left_out(tmp_path):
    old = _save(tmp_path)
    model = _model("model.max_positions=24")
    lines = warm_start.restore_weights(model, str(tmp_path), OLD_VOCAB)
    assert lines[1:] == ["positions 24 to 31 of the checkpoint are omitted", RESTART]
    np.testing.assert_array_equal(
        model.encoder.embeddings.position_embeddings,
        old.encoder.embeddings.position_embeddings[:24],
    )


# ---- Another vocabulary ----


def test_rows_follow_their_pieces(tmp_path):
    old = _save(tmp_path)
    model = _model("model.vocab_size=11")
    words, bias = (
        model.encoder.embeddings.word_embeddings,
        model.masked_lm.output_bias,
    )
    bias.assign(-np.arange(11.0))
    drawn = _values(model)
    lines = warm_start.restore_weights(model, str(tmp_path), _vocab(NEW_PIECES))
    assert lines[1:] == [
        "another vocabulary: 9 pieces found, 2 new (such as ▁new x), 3 old ones "
        "dropped",
        RESTART,
    ]
    # By hand: the row of each new piece in the old table, None where it is new.
    sources = [1, 0, 2, 3, 4, 11, 5, None, 6, None, 8]
    for row, source in enumerate(sources):
        for table, there in (
            (words, old.encoder.embeddings.word_embeddings),
            (bias, old.masked_lm.output_bias),
        ):
            expected = drawn[table.name][row] if source is None else there[source]
            np.testing.assert_array_equal(table[row], expected)
    expected = {**_values(old), words.name: words.numpy(), bias.name: bias.numpy()}
    _assert_equal(model, expected)


def test_at_most_five_new_pieces_are_shown(tmp_path):
    _save(tmp_path)
    pieces = [*OLD_PIECES, *"pqrtuvw"]
    model = _model("model.vocab_size=19")
    lines = warm_start.restore_weights(model, str(tmp_path), _vocab(pieces))
    assert lines[1] == (
        "another vocabulary: 12 pieces found, 7 new (such as p q r t u), 0 old ones "
        "dropped"
    )


def test_other_bytes_with_the_same_pieces_move_every_row(tmp_path):
    old = _save(tmp_path)
    model = _model()
    proto = sentencepiece_model_pb2.ModelProto.FromString(OLD_VOCAB)
    proto.pieces[7].score = -99.0
    lines = warm_start.restore_weights(model, str(tmp_path), proto.SerializeToString())
    assert lines[1] == (
        "another vocabulary: 12 pieces found, 0 new, 0 old ones dropped"
    )
    _assert_equal(model, _values(old))


def test_two_trained_vocabularies_meet_at_their_pieces(tmp_path):
    small_run.write_corpus(tmp_path / "corpus.txt")
    new_vocab = trainer.train_vocab(
        (tmp_path / "corpus.txt").read_text().splitlines(), vocab_size=90
    )
    old_vocab = small_run.VOCAB.read_bytes()
    old = _save(tmp_path / "run", "model.vocab_size=4000", vocab=old_vocab)
    model = _model("model.vocab_size=90")
    drawn = _values(model)
    line = warm_start.restore_weights(model, str(tmp_path / "run"), new_vocab)[1]
    there, here = (
        sentencepiece.SentencePieceProcessor(model_proto=vocab)
        for vocab in (old_vocab, new_vocab)
    )
    words = model.encoder.embeddings.word_embeddings
    old_words = old.encoder.embeddings.word_embeddings.numpy()
    num_found = 0
    for row in range(90):
        source = there.piece_to_id(here.id_to_piece(row))
        known = there.id_to_piece(source) == here.id_to_piece(row)
        num_found += known
        expected = old_words[source] if known else drawn[words.name][row]
        np.testing.assert_array_equal(words[row], expected)
    assert 40 < num_found < 90
    assert here.piece_to_id("▁the") != there.piece_to_id("▁the")
    assert line.startswith(
        f"another vocabulary: {num_found} pieces found, {90 - num_found} new (such as "
    )
    assert line.endswith(f"), {4000 - num_found:,} old ones dropped")


def test_without_its_vocabulary_a_checkpoint_is_refused(tmp_path):
    _save(tmp_path / "above" / "run", vocab=None)
    assert _error(_model(), tmp_path / "above" / "run") == (
        "the vocabulary of a checkpoint must be beside it or one level up, because "
        f"it says which piece each row is; {tmp_path}/above/run/model.ckpt-6 has no "
        "vocab.model. Copy there the one that its records were made with"
    )


def test_a_vocabulary_of_another_size_than_its_table_is_refused(tmp_path):
    _save(tmp_path)
    (tmp_path / schema.VOCAB_FILE).write_bytes(_vocab(NEW_PIECES))
    assert _error(_model(), tmp_path) == (
        "a vocabulary must have as many pieces as its model has rows: "
        f"{tmp_path}/vocab.model has 11, the checkpoint {tmp_path}/model.ckpt-6 12. "
        "Give the one of that model"
    )
    (tmp_path / schema.VOCAB_FILE).write_bytes(OLD_VOCAB)
    assert _error(_model(), tmp_path, _vocab(NEW_PIECES)) == (
        "a vocabulary must have as many pieces as its model has rows: the new "
        "vocabulary has 11, model.vocab_size 12. Give the one of that model"
    )
    (tmp_path / schema.VOCAB_FILE).write_bytes(b"no model")
    assert _error(_model(), tmp_path).startswith(
        f"{tmp_path}/vocab.model: not a SentencePiece model"
    )


# ---- What does not fit ----


def test_another_hidden_size_is_named_with_five_shapes(tmp_path):
    _save(tmp_path)
    error = _error(_model("model.hidden_size=16"), tmp_path)
    place = "encoder/blocks/0/attention"
    assert error == (
        f"the checkpoint {tmp_path}/model.ckpt-6 does not fit the model: "
        f"{place}/key/bias is [12] there and [16] here; "
        f"{place}/key/kernel is [12, 12] there and [16, 16] here; "
        f"{place}/layer_norm/beta is [12] there and [16] here; "
        f"{place}/layer_norm/gamma is [12] there and [16] here; "
        f"{place}/output_projection/bias is [12] there and [16] here; and 16 more. "
        "Likely a setting differs: model.hidden_size. Give those of that run, or "
        "another checkpoint"
    )


@pytest.mark.parametrize(
    ("there", "here", "shapes", "settings"),
    [
        (
            "model.intermediate_size=20",
            "model.intermediate_size=22",
            "intermediate/kernel is [12, 20] there and [12, 22] here",
            "model.intermediate_size",
        ),
        (
            "model.embedding_size=10",
            "model.embedding_size=8",
            "position_embeddings is [32, 10] there and [32, 8] here",
            "model.embedding_size",
        ),
        (
            "model.embedding_size=10",
            "model.embedding_size=12",
            "encoder/embedding_projection/bias is [12] there and absent here",
            "model.embedding_size",
        ),
        (
            "model.type_vocab_size=2",
            "model.type_vocab_size=3",
            "token_type_embeddings is [2, 10] there and [3, 10] here",
            "model.type_vocab_size",
        ),
        (
            "model.sharing=all",
            "model.sharing=none",
            "encoder/blocks/1/attention/key/bias is absent there and [12] here",
            "model.sharing",
        ),
        (
            "model.sharing=none",
            "model.sharing=all",
            "encoder/blocks/1/attention/key/bias is [12] there and absent here",
            "model.sharing",
        ),
        (
            "model.sharing=attention",
            "model.sharing=none",
            "encoder/blocks/1/attention/key/bias is absent there and [12] here",
            "model.sharing",
        ),
        (
            "model.sharing=none",
            "model.sharing=feed_forward",
            "blocks/1/feed_forward/layer_norm/beta is [12] there and absent here",
            "model.sharing",
        ),
    ],
)
def test_what_differs_is_named(tmp_path, there, here, shapes, settings):
    _save(tmp_path, there)
    error = _error(_model(here), tmp_path)
    assert shapes in error
    assert f"Likely a setting differs: {settings}" in error


def test_a_checkpoint_of_a_task_is_refused(tmp_path):
    task = task_model.TaskModel(
        _config().model,
        "classification",
        1,
        compute.DEFAULT,
        {"num_classes": 3, "dropout_rate": 0.0},
    )
    ids = tf.zeros([1, 2], tf.int32)
    task({"input_ids": ids, "input_mask": ids, "segment_ids": ids})
    tf.train.Checkpoint(model=task).write(str(tmp_path / "task"))
    error = _error(_model(), tmp_path / "task")
    assert "masked_lm/output_bias is absent there and [12] here" in error
    assert error.endswith(
        "It is of another kind of model; give one of albert_tf.pretrain"
    )


def test_another_number_of_heads_is_refused(tmp_path):
    _save(tmp_path)
    assert _error(_model("model.num_heads=3"), tmp_path) == (
        "model.num_heads must be that of the run whose weights are restored, 2 in "
        f"{tmp_path}/config.json; received 3"
    )


def test_settings_that_no_shape_shows_are_said(tmp_path):
    old = _save(tmp_path)
    model = _model("model.num_layers=5", "model.hidden_dropout_rate=0.1")
    lines = warm_start.restore_weights(model, str(tmp_path), OLD_VOCAB)
    assert lines[1:] == [
        "other settings: model.num_layers was 2 and is 5, model.hidden_dropout_rate "
        "was 0.0 and is 0.1",
        RESTART,
    ]
    _assert_equal(model, _values(old))


def test_an_absent_or_damaged_configuration_is_said(tmp_path):
    _save(tmp_path)
    (tmp_path / schema.CONFIG_FILE).write_bytes(b"\xff{")
    error = _error(_model(), tmp_path)
    assert error.startswith(f"{tmp_path}/config.json must be JSON; it is damaged")
    (tmp_path / schema.CONFIG_FILE).unlink()
    lines = warm_start.restore_weights(_model(), str(tmp_path), OLD_VOCAB)
    assert lines[1:] == [
        "no config.json beside the checkpoint: model.num_heads, and other settings "
        "that no shape shows, were not compared",
        RESTART,
    ]


# ---- Absent and damaged checkpoints ----


def test_an_absent_checkpoint_is_refused(tmp_path):
    rule = (
        "--init_checkpoint must be the directory of a run, or the prefix of a "
        "checkpoint such as RUN/model.ckpt-500; "
    )
    assert _error(_model(), tmp_path) == f"{rule}{tmp_path} holds no checkpoint"
    prefix = tmp_path / "model.ckpt-3"
    assert _error(_model(), prefix) == f"{rule}there is no {prefix}.index"
    (tmp_path / "model.ckpt-20.index").touch()
    assert _error(_model(), prefix).endswith(f". {tmp_path} holds model.ckpt-20")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 3]


def _change(data: bytes) -> bytes:
    place = min(100, len(data) // 2)
    return data[:place] + bytes([255 - data[place]]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("model.ckpt-6.index", _cut),
        ("model.ckpt-6.index", _change),
        ("model.ckpt-6.data-00000-of-00001", _cut),
        ("model.ckpt-6.data-00000-of-00001", None),
        ("checkpoint", _change),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path, file, harm):
    _save(tmp_path)
    path = tmp_path / file
    if harm:
        path.write_bytes(harm(path.read_bytes()))
    else:
        path.unlink()
    _assert_named_as_damaged(
        tmp_path, tmp_path if file == "checkpoint" else tmp_path / "model.ckpt-6"
    )


def test_one_wrong_byte_among_the_weights_is_noticed(tmp_path):
    kernel = _save(tmp_path).encoder.pooler.kernel.numpy().tobytes()
    path = tmp_path / "model.ckpt-6.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    assert data.count(kernel) == 1
    data[data.index(kernel) + 3] ^= 1
    path.write_bytes(data)
    _assert_named_as_damaged(tmp_path, tmp_path / "model.ckpt-6")


def _assert_named_as_damaged(folder, named) -> None:
    with pytest.raises(ValueError) as raised:
        warm_start.restore_weights(_model(), str(folder), OLD_VOCAB)
    error = str(raised.value)
    assert error.startswith(f"the checkpoint {named} cannot be read: ")
    assert error.endswith(
        "It is damaged, or parts of it are missing; give another one, or copy it again"
    )
