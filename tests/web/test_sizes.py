"""Estimated sizes: rows and tokens of each signature's items."""

import pytest

from albert_tf.core import config_io
from albert_tf.inference import saved_model_dir
from albert_tf.web import sizes

LENGTHS = sizes.Lengths(max_length=64, stride=16)


@pytest.mark.parametrize(
    ("signature", "item", "rows", "length"),
    [
        ("fill_mask", ("a" * 40, 7), 1, 12),
        ("encode", ("",), 1, 2),
        ("sentence_order", ("a" * 40, "b" * 80), 1, 32),
        # Truncated.
        ("classify", ("a" * 4000,), 1, 64),
        ("tag", ("a" * 40,), 1, 12),
        # 12 tokens; 64; 65, of which one is beyond; 64 + 17.
        ("answer", ("q" * 8, "c" * 32), 1, 12),
        ("answer", ("q" * 8, "c" * 240), 1, 64),
        ("answer", ("q" * 8, "c" * 244), 2, 64),
        ("answer", ("q" * 8, "c" * 308), 3, 64),
        # The longest option counts.
        ("choose", ("c" * 40, "q" * 40, "o", "o" * 20, "o" * 12), 3, 27),
    ],
)
def test_sizes_follow_from_characters(signature, item, rows, length):
    size = sizes.size_of(signature, LENGTHS)(item)
    assert size == (rows, length) and size.tokens == rows * length


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["data.max_seq_length=24"], (24, 128, False)),
        (
            ["task.name=squad1", "task.max_seq_length=48", "task.doc_stride=20"],
            (48, 20, False),
        ),
    ],
)
def test_lengths_are_those_of_the_exported_configuration(tmp_path, settings, expected):
    (tmp_path / "assets.extra").mkdir()
    text = config_io.to_json(config_io.load("", settings))
    (tmp_path / "assets.extra" / "config.json").write_text(text)
    assert sizes.read_lengths(str(tmp_path)) == expected
    assert sizes.read_lengths(str(tmp_path / "absent")) == sizes.Lengths()
    description = saved_model_dir.Description("a model", is_fixed_length=True)
    saved_model_dir.write_description(str(tmp_path), description)
    lengths = sizes.read_lengths(str(tmp_path))
    assert lengths == (*expected[:2], True)
    for signature in ("fill_mask", "encode", "classify", "answer", "choose"):
        size = sizes.size_of(signature, lengths)(("a", "b", "c"))
        assert size == (1, expected[0])
