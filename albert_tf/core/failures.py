"""Tells a storage that cannot be reached from a mistake of the user."""

import errno
import os
import re
import sys

# Names of classes in tf.errors. AbortedError is raised after the last retry.
_TENSORFLOW_ERRORS = (
    "AbortedError",
    "DeadlineExceededError",
    "UnauthenticatedError",
    "UnavailableError",
)
# TensorFlow's client of Cloud Storage has no class for these, and checkpoint readers
# raise its text as a ValueError: the last retry failed; the name of a host has no
# address (libcurl 6); the login has expired (401). 403 and 404 need a person.
_CLIENT_TEXT = re.compile(
    r"retry attempts failed|libcurl code 6 |HTTP response code 401 "
)
# Where in a graph an error was raised says nothing to a user.
_OPERATION = re.compile(r"\{\{[a-z_]+ [^{}]*\}\}|\[Op:\w+\]")
# Of network file systems. A full or damaged local disk needs a person.
_ERROR_NUMBERS = frozenset(
    [
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    ]
)


def is_outage(error: BaseException | None) -> bool:
    """Returns whether an error, or its cause, says that a storage cannot be reached.

    The same command may then succeed later.
    """
    while error is not None:
        if _says_outage(error):
            return True
        error = error.__cause__
    return False


def is_full_disk(error: BaseException | None) -> bool:
    """Returns whether an error says that there is no room for a file.

    TensorFlow's errors have no number, but the text of the system.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return os.strerror(errno.ENOSPC).lower() in str(error).lower()


def one_line(error: BaseException) -> str:
    """Returns the message of an error as one line, without TensorFlow's operations."""
    return " ".join(_OPERATION.sub("", str(error)).split())


def _says_outage(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _ERROR_NUMBERS:
        return True
    # If TensorFlow was not imported, none of its errors can have been raised.
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return False
    classes = tuple(getattr(tensorflow.errors, name) for name in _TENSORFLOW_ERRORS)
    return isinstance(error, classes) or bool(_CLIENT_TEXT.search(str(error)))
