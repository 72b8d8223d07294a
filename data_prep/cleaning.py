"""Cleans one document, or says why it must go; pure functions of text.

What cannot be seen goes: a removed character leaves nothing behind, except that one
which breaks a line leaves a space. Private-use characters stay: they stand for a sign
of some font, and to remove them would join what they part.
"""

import collections
import dataclasses
import difflib
import functools
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Literal, cast

from albert_tf import config
from data_prep import contamination

# Why characters are removed.
WHITESPACE = "whitespace"
UNICODE_NORMALIZATION = "unicode_normalization"
CONTROL_CHARACTERS = "control_characters"

# Why documents are dropped.
TOO_SHORT = "too_short"
LANGUAGE = "language"
CONTAMINATED = "contaminated"

# As much as the language is judged by: twice as much changes no verdict on articles,
# and takes twice the time.
_LANGUAGE_CHARACTERS = 1000

# Control characters (category Cc) without the tab, which is text; line and paragraph
# separators. All of these end a line for `str.splitlines`.
_LINE_BREAKS = r"\n\v\f\r\x1c-\x1f\x85\u2028\u2029"
# The other control characters; the soft hyphen; zero-width spaces, joiners and
# direction marks; embeddings and overrides of direction; the word joiner, invisible
# operators and isolates; the byte order mark; and surrogates, which UTF-8 cannot hold.
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
      lines: its lines, stripped, none of them empty; those of a dropped one too.
      dropped: TOO_SHORT, LANGUAGE or CONTAMINATED, or None if the document stays.
      removed: characters removed from the lines, by reason. Whitespace that a step
        leaves at the end of a line counts for that step; WHITESPACE is what stood there
        from the start. UNICODE_NORMALIZATION is below 0 where it made a text longer.
        The characters of the lines as they came are those of `lines` and these.
    """

    lines: tuple[str, ...]
    dropped: str | None
    removed: collections.Counter[str]


class Cleaner:
    """Cleans documents, one at a time; small, so it can be pickled.

    Args:
      text: what to do, and what to drop. With `text.keep_languages` the language
        identifier is loaded, once a process, for 0.6 s and 100 MB.
      contamination: the evaluation set that no document may overlap with, if any.

    Raises:
      ValueError: `text.keep_languages` has a code that the language identifier does not
        know, or the index was made for another `text.contamination_ngram`.
    """

    def __init__(
        self,
        text: config.TextConfig,
        contamination: contamination.Index | None = None,
    ):
        _check_languages(text.keep_languages)
        if contamination and contamination.ngram != text.contamination_ngram:
            raise ValueError(
                "the index of the evaluation set must have n-grams of "
                f"text.contamination_ngram={text.contamination_ngram} words; received "
                f"one of {contamination.ngram}. Make it anew with that length"
            )
        self._text = text
        self._contamination = contamination

    def clean(self, lines: tuple[str, ...]) -> Cleaned:
        """Cleans one document.

        The steps are Unicode normalization, control characters, and whitespace at the
        ends of lines; then the document is dropped if it is shorter than
        `text.min_document_characters` (or empty), if the first thousand characters are
        in none of `text.keep_languages`, or if it overlaps with the evaluation set, in
        this order. To clean twice is to clean once.

        Args:
          lines: the lines of the document, as they were read.
        """
        removed: collections.Counter[str] = collections.Counter()
        lines = _change(lines, str.strip, WHITESPACE, removed)
        if self._text.unicode_normalization != "none":
            lines = _change(lines, self._normalize, UNICODE_NORMALIZATION, removed)
        # No unwanted character is printable, and to ask for that is five times as fast.
        # What is not printable may still be wanted, such as the no-break space.
        if self._text.remove_control_characters and not all(
            map(str.isprintable, lines)
        ):
            lines = _change(lines, _remove_controls, CONTROL_CHARACTERS, removed)
            if removed[CONTROL_CHARACTERS] and (
                self._text.unicode_normalization != "none"
            ):
                # A letter and its accent may have met where a character went.
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
            language, _ = _identifier().classify(_beginning(lines))
            if language not in self._text.keep_languages:
                return LANGUAGE
        if self._contamination and self._contamination.matches(lines):
            return CONTAMINATED
        return None


def _change(
    lines: tuple[str, ...],
    change: Callable[[str], str],
    reason: str,
    removed: collections.Counter[str],
) -> tuple[str, ...]:
    """Changes and strips each line, leaves out empty ones, and counts what went."""
    changed = tuple([new for line in lines if (new := change(line).strip())])
    if changed != lines:
        removed[reason] += sum(map(len, lines)) - sum(map(len, changed))
    return changed


def _remove_controls(line: str) -> str:
    if line.isprintable() or not _UNWANTED.search(line):
        return line
    return _INVISIBLE_RUN.sub("", _LINE_BREAK.sub(" ", line))


def _beginning(lines: tuple[str, ...]) -> str:
    """The first lines, bounded so that long documents cost no more."""
    text = ""
    for line in lines:
        text += line[: _LANGUAGE_CHARACTERS - len(text)] + "\n"
        if len(text) >= _LANGUAGE_CHARACTERS:
            break
    return text


@functools.cache
def _identifier() -> Any:
    """The language identifier, which is imported and loaded only where it is used."""
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
                    f"Near ones: {', '.join(near)}"
                    if near
                    else f"It knows {', '.join(sorted(known))}"
                )
            )
