"""Sentence splitting."""

from collections.abc import Sequence

import sentencex

from albert_tf.core import config


def split_sentences(lines: Sequence[str], text: config.TextConfig) -> list[str]:
    """Splits a document into its non-empty sentences, in order.

    Args:
      lines: the lines of the document.
      text: `sentence_splitter` "line" takes each line as one sentence; "sentencex"
        splits each line with that library, by the rules of `language`, so that no
        sentence continues over a line break. For an unknown ISO 639 code, the library
        falls back to related languages and to English.
    """
    if text.sentence_splitter == "line":
        return [line for line in lines if line]
    sentences = (
        s.strip() for line in lines for s in sentencex.segment(text.language, line)
    )
    return [sentence for sentence in sentences if sentence]
