"""Lines and exit codes of findings."""

import json

import pytest

from albert_tf.diagnostics import findings

OK, WARNING, FAILED = findings.Status
FINE = findings.Finding("cpu", OK, "2 cores")
LITTLE = findings.Finding("memory", WARNING, "1 GiB", "Raise\nthe limit")
LONG = findings.Finding("gpu", FAILED, "a long message...", "Reboot")
BROKEN = findings.Finding("versions", FAILED, "missing: numba", "pip install numba")
AWAY = findings.Finding("storage", FAILED, "gs://b: 503", is_outage=True)


def test_message_that_was_shortened_ends_as_a_sentence():
    assert findings.lines([LONG]) == ["FAILED   gpu       a long message. Reboot"]


def test_lines_printed_one_by_one_are_aligned():
    found = [FINE, LITTLE, BROKEN]
    expected = [
        "OK       cpu       2 cores",
        "warning  memory    1 GiB. Raise the limit",
        "FAILED   versions  missing: numba. pip install numba",
    ]
    assert findings.lines(found) == expected
    assert [line for one in found for line in findings.lines([one])] == expected


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([FINE, LITTLE], 0),
        ([FINE, BROKEN], 1),
        ([AWAY, FINE], 75),
        ([AWAY, BROKEN], 1),
    ],
)
def test_exit_code(found, code):
    assert findings.exit_code(found) == code
    assert json.loads(json.dumps(findings.to_json(found)))["exit_code"] == code


def test_last_line_names_the_failed_checks_once():
    found = [FINE, AWAY, BROKEN, AWAY, LITTLE]
    expected = "error: 3 of 5 findings FAILED: storage, versions"
    assert findings.summary(found) == expected
    assert findings.summary([FINE, LITTLE]) == "nothing failed; 1 warning"
    assert findings.summary([FINE]) == "nothing failed; 0 warnings"
