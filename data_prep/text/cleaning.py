"""Cleans one document, or gives the reason to drop it; pure functions of text.

Invisible characters are removed; a line break becomes a space. Private-use characters
are kept: they are signs of some font, and removing them would join the words that they
separate.
"""

import collections
import dataclasses
import difflib
import functools
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Literal, cast

from albert_tf.core import config
from data_prep.text import contamination

# Why characters are removed.
WHITESPACE = "whitespace"
UNICODE_NORMALIZATION = "unicode_normalization"
CONTROL_CHARACTERS = "control_characters"

# Why documents are dropped.
TOO_SHORT = "too_short"
LANGUAGE = "language"
CONTAMINATED = "contaminated"

# The language is identified by this many characters: twice as many change no result on
# articles, and take twice the time.
_LANGUAGE_CHARACTERS = 1000

# Control characters (category Cc) that end a line for `str.splitlines`; line and
# paragraph separators.
_LINE_BREAKS = r"\n\v\f\r\x1c-\x1f\x85\u2028\u2029"
# The other control characters except the tab, which is text; the soft hyphen;
# zero-width spaces, joiners and direction marks; embeddings and overrides of direction;
# the word joiner, invisible operators and isolates; the byte order mark; and
# surrogates, which UTF-8 cannot encode.
_INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ud800-\udfff"
)
_LINE_BREAK = re.compile(f"[{_LINE_BREAKS}]")
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
_UNWANTED = re.compile(f"[{_LINE_BREAKS}{_INVISIBLE}]")


@dataclasses.dataclass(frozen=True)
class Cleaned:
    """A cleaned document.

    Attributes:
      lines: its lines, stripped and non-empty; those of a dropped document too.
      dropped: TOO_SHORT, LANGUAGE or CONTAMINATED, or None if the document is kept.
      removed: number of characters removed from the lines, by reason. Whitespace that a
        step leaves at the end of a line counts for that step; WHITESPACE is the
        whitespace of the original lines. UNICODE_NORMALIZATION is negative if it made
        the text longer. The characters of `lines` and these add up to the original's.
    """

    lines: tuple[str, ...]
    dropped: str | None
    removed: collections.Counter[str]


class Cleaner:
    """Cleans documents, one at a time; small and picklable.

    Args:
      text: how to clean, and what to drop. `text.keep_languages` loads the language
        identifier once per process, which takes 0.6 s and 100 MB.
      evaluation: n-grams of the evaluation set; documents with one of them are dropped.

    Raises:
      ValueError: `text.keep_languages` has a code that the language identifier does not
        know, or `evaluation` was built for another `text.contamination_ngram`.
    """

    def __init__(
        self,
        text: config.TextConfig,
        evaluation: contamination.Index | None = None,
    ):
        _check_languages(text.keep_languages)
        if evaluation and evaluation.ngram != text.contamination_ngram:
            raise ValueError(
                "the index of the evaluation set must have n-grams of "
                f"text.contamination_ngram={text.contamination_ngram} words; received "
                f"one of {evaluation.ngram}. Build it again with that length"
            )
        self._text = text
        self._evaluation = evaluation

    def clean(self, lines: tuple[str, ...]) -> Cleaned:
        """Cleans one document.

        The steps are Unicode normalization, control characters, and whitespace at the
        ends of lines; then the document is dropped if it is shorter than
        `text.min_document_characters` (or empty), if the first thousand characters are
        in none of `text.keep_languages`, or if it overlaps with the evaluation set, in
        this order. Cleaning is idempotent.

        Args:
          lines: the lines of the document, as they were read.
        """
        removed: collections.Counter[str] = collections.Counter()
        lines = _change(lines, str.strip, WHITESPACE, removed)
        if self._text.unicode_normalization != "none":
            lines = _change(lines, self._normalize, UNICODE_NORMALIZATION, removed)
        # No unwanted character is printable, and this test is five times as fast. Some
        # unprintable characters are wanted, such as the no-break space.
        if self._text.remove_control_characters and not all(
            map(str.isprintable, lines)
        ):
            lines = _change(lines, _remove_controls, CONTROL_CHARACTERS, removed)
            if removed[CONTROL_CHARACTERS] and (
                self._text.unicode_normalization != "none"
            ):
                # A removed character may have separated a letter from its accent.
                lines = _change(lines, self._normalize, UNICODE_NORMALIZATION, removed)
        return Cleaned(lines, self._reason_to_drop(lines), removed)

    def _normalize(self, line: str) -> str:
        if line.isascii():
            return line
        form = cast(Literal["NFC", "NFKC"], self._text.unicode_normalization)
        return unicodedata.normalize(form, line)

    def _reason_to_drop(self, lines: tuple[str, ...]) -> str | None:
        num_characters = sum(map(len, lines))
        if num_characters < max(1, self._text.min_document_characters):
            return TOO_SHORT
        if self._text.keep_languages:
            language, _ = _identifier().classify(_first_characters(lines))
            if language not in self._text.keep_languages:
                return LANGUAGE
        if self._evaluation and self._evaluation.matches(lines):
            return CONTAMINATED
        return None


def _change(
    lines: tuple[str, ...],
    change: Callable[[str], str],
    reason: str,
    removed: collections.Counter[str],
) -> tuple[str, ...]:
    """Changes and strips each line, omits empty ones, counts removed characters."""
    changed = tuple([new for line in lines if (new := change(line).strip())])
    if changed != lines:
        removed[reason] += sum(map(len, lines)) - sum(map(len, changed))
    return changed


def _remove_controls(line: str) -> str:
    if line.isprintable() or not _UNWANTED.search(line):
        return line
    return _INVISIBLE_RUN.sub("", _LINE_BREAK.sub(" ", line))


def _first_characters(lines: tuple[str, ...]) -> str:
    """Returns the beginning of the text, of at most `_LANGUAGE_CHARACTERS`."""
    text = ""
    for line in lines:
        text += line[: _LANGUAGE_CHARACTERS - len(text)] + "\n"
        if len(text) >= _LANGUAGE_CHARACTERS:
            break
    return text


@functools.cache
def _identifier() -> Any:
    """Returns the language identifier, imported and loaded at first use."""
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)


def _check_languages(codes: tuple[str, ...]) -> None:
    if not codes:
        return
    known = _identifier().labels
    for code in codes:
        if code not in known:
            near = difflib.get_close_matches(code.lower(), known, n=3, cutoff=0.4)
            raise ValueError(
                "text.keep_languages must hold codes that the language identifier "
                f"knows; received {code!r}. "
                + (
                    f"Similar ones: {', '.join(near)}"
                    if near
                    else f"It knows {', '.join(sorted(known))}"
                )
            )
