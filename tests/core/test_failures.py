"""Which errors say that a storage is away, and which need a person."""

import errno

import pytest
import tensorflow as tf

from albert_tf.core import cli, failures

_ANSWERED = "Error executing an HTTP request: HTTP response code {} with body ''"
_NO_ADDRESS = (
    "Error executing an HTTP request: libcurl code 6 meaning 'Could not resolve "
    "hostname', error details: Could not resolve host: www.googleapis.com"
)


def _error(name: str, text: str) -> Exception:
    return getattr(tf.errors, name)(None, None, text)


def _caused(error: Exception) -> Exception:
    wrapped = ValueError("--model_dir must be a writable directory")
    wrapped.__cause__ = error
    return wrapped


OUTAGES = [
    _error("AbortedError", f"All 10 retry attempts failed. {_ANSWERED.format(503)}"),
    _error("UnavailableError", "no answer"),
    _error("DeadlineExceededError", "no answer"),
    _error("UnauthenticatedError", "expired"),
    _error("PermissionDeniedError", _ANSWERED.format(401)),
    _error("FailedPreconditionError", _NO_ADDRESS),
    # As tf.train.load_checkpoint raises it.
    ValueError(f"Unsuccessful TensorSliceReader constructor: {_NO_ADDRESS}"),
    OSError(errno.ESTALE, "stale file handle"),
    TimeoutError(errno.ETIMEDOUT, "timed out"),
]
MISTAKES = [
    _error("PermissionDeniedError", _ANSWERED.format(403)),
    _error("NotFoundError", _ANSWERED.format(404)),
    _error("FailedPreconditionError", "/tmp/x is not a directory"),
    _error("ResourceExhaustedError", "no space left on device"),
    _error("DataLossError", "corrupted record"),
    ValueError("train.batch_size must be at least 1; received 0"),
    OSError(errno.ENOSPC, "no space left on device"),
    OSError(errno.EIO, "input/output error"),
    PermissionError(errno.EACCES, "permission denied"),
    FloatingPointError("step 3 failed"),
]


def _code(error: Exception) -> int:
    with pytest.raises(SystemExit) as ended, cli.user_errors():
        raise error
    return ended.value.code


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_an_outage_ends_with_75_whatever_was_made_of_it(error, capsys):
    assert failures.is_outage(error) and failures.is_outage(_caused(error))
    assert _code(error) == _code(_caused(error)) == 75
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("error: ")
        assert line.endswith(
            "The storage cannot be reached; give the same command again later"
        )


@pytest.mark.parametrize("error", MISTAKES, ids=repr)
def test_what_needs_a_person_ends_with_1(error, capsys):
    assert not failures.is_outage(error) and not failures.is_outage(_caused(error))
    assert _code(error) == _code(_caused(error)) == 1
    assert "storage cannot be reached" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "no room"), True),
        (OSError(errno.EDQUOT, "no room"), True),
        (_error("ResourceExhaustedError", "a/b; No space left on device"), True),
        (OSError(errno.EIO, "No space left on device"), False),
        (_error("ResourceExhaustedError", "out of memory"), False),
        (None, False),
    ],
    ids=repr,
)
def test_a_full_disk_is_told_from_other_errors(error, is_full):
    assert failures.is_full_disk(error) is is_full


def test_a_line_does_not_name_operations_of_tensorflow():
    text = (
        "{{function_node __wrapped__SaveV2_dtypes_3_device_/job:localhost/task:0/device"
        ":CPU:0}} /disk/part.data;\nNo space left on device [Op:SaveV2]"
    )
    line = failures.one_line(_error("ResourceExhaustedError", text))
    assert line == "/disk/part.data; No space left on device"
