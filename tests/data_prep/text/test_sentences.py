"""Lines to sentences."""

from albert_tf.core import config
from data_prep.text import sentences


def test_splitter_line_takes_lines_as_they_are():
    text = config.TextConfig(sentence_splitter="line")
    lines = ("One. Two.", "", "Three")
    assert sentences.split_sentences(lines, text) == ["One. Two.", "Three"]


def test_splitter_sentencex_cuts_lines_and_joins_none():
    text = config.TextConfig(sentence_splitter="sentencex", language="en")
    lines = ("Dr. Smith came. He saw!  Did he win? ", "no end", "Next one.")
    assert sentences.split_sentences(lines, text) == [
        "Dr. Smith came.",
        "He saw!",
        "Did he win?",
        "no end",
        "Next one.",
    ]


def test_splitter_sentencex_takes_the_rules_of_the_language():
    lines = ("これは文です。次の文です。",)
    text = config.TextConfig(sentence_splitter="sentencex", language="ja")
    assert sentences.split_sentences(lines, text) == ["これは文です。", "次の文です。"]
