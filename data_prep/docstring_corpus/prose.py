"""English prose of docstrings: paragraphs and sentences."""

import re

import sentencex

from data_prep.docstring_corpus import markup

MAX_SENTENCE_WORDS = 120

# English has one of these every few words, code and lists of names have none.
FUNCTION_WORDS = frozenset(
    "a about after all also an and any are as at be because been before between both "
    "but by can could do does each either every for from given had has have how if in "
    "into is it its may might more must no not of on one only or other otherwise over "
    "own same should since so some such than that the their them then there these "
    "they this those through to under until up use used using was we were what when "
    "where whether which while who will with within without would you your".split()
)

NOT_TEXT = re.compile(r"\\[a-zA-Z]+|\S+@\w+\.\w+|\$\$|::=|%\(\w+\)s|\$\{|>>>|[{}]{2}")
WORD = re.compile(r"[\"'“‘(\[]*[^\W\d_]+(?:['’/-][^\W\d_]+)*[.,;:!?)\]\"'”’]*$")


def is_prose(text: str, min_words: int) -> bool:
    """Returns whether most tokens are words, and some of them function words."""
    tokens = text.split()
    words = [token for token in tokens if WORD.match(token)]
    if len(words) < max(min_words, 0.6 * len(tokens)) or NOT_TEXT.search(text):
        return False
    function_words = sum(
        word.strip("\"'“‘([.,;:!?)]”’").lower() in FUNCTION_WORDS for word in words
    )
    return 10 * function_words >= len(tokens)


def paragraphs(text: str) -> list[str]:
    """Returns the paragraphs of English in a docstring or documentation topic."""
    joined = markup.join_lines(markup.blank_markup(text))
    # Fewer than four words are a heading, or 'For example:' without its code.
    return [
        paragraph
        for paragraph in map(markup.strip_inline, joined)
        if is_prose(paragraph, min_words=4)
    ]


def sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, without formulas and lists."""
    parts: list[str] = []
    for part in sentencex.segment("en", paragraph):
        if parts and not parts[-1][-1:].isspace():
            parts[-1] += part  # the split was inside a word, such as tf.Tensor
        else:
            parts.append(part)
    return [
        part
        for part in map(str.strip, parts)
        if len(part.split()) <= MAX_SENTENCE_WORDS and is_prose(part, min_words=2)
    ]
