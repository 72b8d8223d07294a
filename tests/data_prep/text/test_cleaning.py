"""Cleaning: which characters and which documents go, and that all are counted."""

import collections
import itertools
import random
import sys
import unicodedata
from multiprocessing import reduction

import pytest

from albert_tf.core import config
from data_prep.text import cleaning, contamination

ENGLISH = (
    "The ship left the harbour early in the morning.",
    "Nobody on the shore knew where it was going, or why.",
)
GERMAN = (
    "Das Schiff verließ den Hafen früh am Morgen.",
    "Niemand am Ufer wusste, wohin es fuhr und warum.",
)


def _clean(*lines, index=None, **text):
    return cleaning.Cleaner(config.TextConfig(**text), index).clean(lines)


def _removed(**num_characters):
    return collections.Counter(num_characters)


@pytest.mark.parametrize(
    ("line", "cleaned", "num_removed"),
    [
        ("plain text", "plain text", 0),
        ("tab\tstays", "tab\tstays", 0),
        ("no-break\xa0space stays", "no-break\xa0space stays", 0),
        ("private use \ue000 stays", "private use \ue000 stays", 0),
        ("be\x07ll and\x00 null", "bell and null", 2),
        (
            "line\u2028paragraph\u2029next\x85feed\r\nx",
            "line paragraph next feed  x",
            0,
        ),
        ("wi\u200bdth, \u202edirection\u202c, \ufeffmark", "width, direction, mark", 4),
        ("hy\xadphen, in\u2062visible, \u2067left", "hyphen, invisible, left", 3),
        ("half a pair \ud83d", "half a pair", 2),
    ],
)
def test_what_cannot_be_seen_is_removed_and_line_breaks_become_spaces(
    line, cleaned, num_removed
):
    result = _clean(line)
    assert result.lines == (cleaned,)
    assert result.removed == _removed(control_characters=num_removed)
    assert result.dropped is None


def test_each_control_character_but_the_tab_is_removed():
    controls = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")
    ]
    kept = [c for c in controls if c in "".join(_clean(f"a{c}b").lines)]
    assert kept == ["\t"]


def test_no_printable_character_is_removed():
    # What lets printable lines pass without a closer look.
    printable = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))
    assert cleaning._UNWANTED.search(printable) is None


def test_control_characters_stay_where_asked():
    result = _clean("be\x07ll", remove_control_characters=False)
    assert result.lines == ("be\x07ll",)
    assert not result.removed


@pytest.mark.parametrize(
    ("form", "line", "normalized", "num_removed"),
    [
        ("none", "cafe\u0301 \ufb01n", "cafe\u0301 \ufb01n", 0),
        ("NFC", "cafe\u0301 \ufb01n", "caf\xe9 \ufb01n", 1),
        ("NFKC", "cafe\u0301 \ufb01n", "caf\xe9 fin", 0),
        ("NFKC", "\xbd", "1\u20442", -2),
        # The diaeresis becomes a space and an accent; the space is then stripped.
        ("NFKC", "\xa8a", "\u0308a", 0),
    ],
)
def test_unicode_normalization_counts_by_how_much_a_text_shrank(
    form, line, normalized, num_removed
):
    result = _clean(line, unicode_normalization=form)
    assert result.lines == (normalized,)
    assert result.removed == _removed(unicode_normalization=num_removed)


def test_an_accent_that_meets_its_letter_is_normalized_too():
    result = _clean("caf\u200de\u200d\u0301", unicode_normalization="NFC")
    assert result.lines == ("caf\xe9",)
    assert result.removed == _removed(control_characters=2, unicode_normalization=1)


def test_whitespace_counts_for_the_step_that_laid_it_bare():
    result = _clean("  a ", "\u200b  b", " \u200b ", "", "c\x85")
    assert result.lines == ("a", "b", "c")
    assert result.removed == _removed(whitespace=3 + 2 + 1, control_characters=3 + 1)


def test_documents_are_dropped_below_the_least_number_of_characters():
    assert _clean("four", "and5x", min_document_characters=9).dropped is None
    assert _clean("four", "and5x", min_document_characters=10).dropped == "too_short"


@pytest.mark.parametrize("lines", [(), ("",), ("\u200b", " ")])
def test_documents_without_text_are_always_too_short(lines):
    assert _clean(*lines).dropped == cleaning.TOO_SHORT


def test_documents_in_other_languages_are_dropped():
    assert _clean(*ENGLISH, keep_languages=("en",)).dropped is None
    assert _clean(*GERMAN, keep_languages=("en",)).dropped == cleaning.LANGUAGE
    assert _clean(*GERMAN, keep_languages=("en", "de")).dropped is None


def test_the_language_is_that_of_the_first_thousand_characters():
    begins_english = ENGLISH * 12 + GERMAN * 100
    assert sum(map(len, ENGLISH * 12)) > 1000
    assert _clean(*begins_english, keep_languages=("en",)).dropped is None
    one_line = " ".join(begins_english)
    assert _clean(one_line, keep_languages=("en",)).dropped is None
    assert _clean(one_line, keep_languages=("de",)).dropped == cleaning.LANGUAGE


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("EN", "Similar ones: en"),
        ("deu", "Similar ones: eu, de"),
        ("??", "It knows ace, af"),
    ],
)
def test_unknown_languages_are_refused_and_near_ones_named(code, remedy):
    with pytest.raises(ValueError, match=rf"keep_languages .*{remedy}"):
        cleaning.Cleaner(config.TextConfig(keep_languages=("fr", code)))


def test_documents_that_overlap_with_the_evaluation_set_are_dropped():
    index = contamination.Index.from_texts(ENGLISH, 5)
    text = {"index": index, "contamination_ngram": 5}
    cut_by_controls = ("So: nobody\u2028on the\u200b SHORE knew",)
    assert _clean(*cut_by_controls, **text).dropped == cleaning.CONTAMINATED
    assert _clean("nobody on the shore, knowing", **text).dropped is None


def test_the_first_reason_to_drop_is_the_one_given():
    index = contamination.Index.from_texts(GERMAN, 5)
    text = {"index": index, "contamination_ngram": 5}
    assert _clean(*GERMAN, **text).dropped == "contaminated"
    assert _clean(*GERMAN, keep_languages=("en",), **text).dropped == "language"
    short = {"min_document_characters": 1000, "keep_languages": ("en",)}
    assert _clean(*GERMAN, **short, **text).dropped == "too_short"


def test_dropped_documents_keep_their_cleaned_lines():
    result = _clean("a\x00", min_document_characters=5)
    assert result.lines == ("a",)
    assert result.removed == _removed(control_characters=1)


def test_an_index_of_another_length_is_refused():
    index = contamination.Index.from_texts(ENGLISH, 5)
    with pytest.raises(ValueError, match="contamination_ngram=13 words; .* of 5"):
        cleaning.Cleaner(config.TextConfig(), index)


def test_a_cleaner_can_be_sent_to_another_process():
    index = contamination.Index.from_texts(GERMAN, 5)
    text = config.TextConfig(keep_languages=("en",), contamination_ngram=5)
    cleaner = cleaning.Cleaner(text, index)
    sent = reduction.ForkingPickler.loads(reduction.ForkingPickler.dumps(cleaner))
    for lines in (ENGLISH, GERMAN):
        assert sent.clean(lines) == cleaner.clean(lines)


def _random_documents(num_documents):
    alphabet = (
        "abcxyz.,  \t\xa0\u3000\n\r\x00\x1c\x85\xad\xa8\xbd\xe9e\u0301\u0323\u0308"
        "\u200b\u200d\u2028\u202e\u2060\ufeff\ufb01\uac00\u1100\u1161\ue000\ud800"
        "\U0001f600\uffa0\ufdfa"
    )
    rng = random.Random(5)
    for _ in range(num_documents):
        yield tuple(
            "".join(rng.choices(alphabet, k=rng.randrange(9)))
            for _ in range(rng.randrange(5))
        )


@pytest.mark.parametrize(
    ("form", "remove"),
    list(itertools.product(config.UNICODE_NORMALIZATIONS, (False, True))),
)
def test_every_character_is_kept_or_counted_and_cleaning_twice_is_cleaning_once(
    form, remove
):
    cleaner = cleaning.Cleaner(
        config.TextConfig(unicode_normalization=form, remove_control_characters=remove)
    )
    for lines in _random_documents(5000):
        result = cleaner.clean(lines)
        kept = sum(map(len, result.lines))
        assert sum(map(len, lines)) == kept + sum(result.removed.values())
        assert all(line and line == line.strip() for line in result.lines)
        if remove:
            assert not any(map(cleaning._UNWANTED.search, result.lines))
        if form != "none":
            assert all(unicodedata.is_normalized(form, line) for line in result.lines)
        again = cleaner.clean(result.lines)
        assert again.lines == result.lines
        assert not any(again.removed.values())
