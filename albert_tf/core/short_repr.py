"""Values in messages, shortened whatever they are."""

import itertools
import math
import reprlib
from typing import Any

_MAX_CHARACTERS = 200
_MAX_NAME = 60


class _Repr(reprlib.Repr):
    """Keeps the order of names, and shows integers that Python refuses to print."""

    def repr_dict(self, x: Any, level: int) -> str:
        if level <= 0 and x:
            return "{...}"
        shown = [
            f"{self.repr1(name, level - 1)}: {self.repr1(value, level - 1)}"
            for name, value in itertools.islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(shown + ['...'] * (len(x) > self.maxdict))}}}"

    def repr_int(self, x: int, level: int) -> str:
        # repr() of thousands of digits is a ValueError.
        num_digits = int((x.bit_length() - 1) * math.log10(2)) + 1
        if num_digits > self.maxlong:
            return f"an integer of some {num_digits:,} digits"
        return repr(x)


_REPR = _Repr()
_REPR.maxlevel = 4
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = 10
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlong = 40


def cut(text: str) -> str:
    """Returns a text, such as a name in a file, without what exceeds 60 characters."""
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 3]}..."


def shown(value: object) -> str:
    """Returns `repr(value)`, shortened to 200 characters at most.

    The time it takes and the depth it goes to have bounds too.
    """
    text = _REPR.repr(value)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[: _MAX_CHARACTERS - 3]}..."
