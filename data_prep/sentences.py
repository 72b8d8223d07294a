"""Lines to sentences."""

from collections.abc import Sequence

import sentencex

from albert_tf import config


def split_sentences(lines: Sequence[str], text: config.TextConfig) -> list[str]:
    """The sentences of a document, in order, without empty ones.

    Args:
      lines: the lines of the document.
      text: its `sentence_splitter` "line" takes each line as one sentence;
        "sentencex" splits each line with that library, so that no sentence reaches
        over a line's end, by the rules of `language`. For an ISO 639 code that it does
        not know, the library falls back to related languages and to English.
    """
    if text.sentence_splitter == "line":
        return [line for line in lines if line]
    sentences = (
        s.strip() for line in lines for s in sentencex.segment(text.language, line)
    )
    return [sentence for sentence in sentences if sentence]
