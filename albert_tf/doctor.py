"""Checks a machine before anything is run on it.

python -m albert_tf.doctor [--model_dir=RUN --data_dir=RECORDS] [--json=FILE]

prints one line for each finding: OK, warning or FAILED, what was found, and what to do
about it. The exit code is 0 if nothing FAILED, 75 if only a storage cannot be reached,
and 1 otherwise. It needs neither TensorFlow nor NumPy itself: each is imported in
processes of their own with a time limit, because either may crash or hang.
"""

import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, files
from albert_tf.diagnostics import checkup, findings


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "model_dir",
        "",
        "Run directory: a small file is written, read and removed.",
        flag_values,
    )
    flags.DEFINE_string(
        "data_dir", "", "Directory of records: one is read.", flag_values
    )
    cli.define_list(
        "checks",
        list(findings.CHECKS),
        "Checks to make, separated by commas.",
        flag_values,
    )
    flags.DEFINE_float(
        "timeout_seconds",
        120.0,
        "Limit of each import, product and access to a storage.",
        lower_bound=1.0,
        flag_values=flag_values,
    )
    flags.DEFINE_float(
        "min_free_gb",
        5.0,
        "Less free disk space than that is a warning.",
        lower_bound=0.0,
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "expect_gpus",
        0,
        "Fewer GPUs are a failure; by default any number will do.",
        0,
        flag_values=flag_values,
    )
    flags.DEFINE_boolean(
        "expect_tpu", False, "A machine without TPU is a failure.", flag_values
    )
    flags.DEFINE_boolean(
        "query_metadata",
        False,
        "Ask Google Cloud's metadata server for the TPU's type.",
        flag_values,
    )
    flags.DEFINE_string(
        "json", "", "Local file for all findings as values.", flag_values
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Prints the findings."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        options = _options(flag_values)
        found = []
        for finding in checkup.run(options):
            found.append(finding)
            print(*findings.lines([finding]), sep="\n", flush=True)
        if flag_values.json:
            files.write_json(flag_values.json, findings.to_json(found))
    code = findings.exit_code(found)
    print(findings.summary(found), file=sys.stderr if code else sys.stdout)
    if code:
        sys.exit(code)


def _options(flag_values: flags.FlagValues) -> checkup.Options:
    unknown = sorted({*flag_values.checks} - {*findings.CHECKS})
    if unknown or not flag_values.checks:
        raise ValueError(
            f"--checks must be some of {', '.join(findings.CHECKS)}; received "
            f"{', '.join(unknown) or 'none'}"
        )
    if {*flag_values.checks} == {"storage"} and not (
        flag_values.model_dir or flag_values.data_dir
    ):
        raise ValueError("--checks=storage needs --model_dir or --data_dir")
    if files.is_remote(flag_values.json):
        raise ValueError(f"--json must be a local file; received {flag_values.json}")
    return checkup.Options(
        checks=tuple(flag_values.checks),
        model_dir=flag_values.model_dir,
        data_dir=flag_values.data_dir,
        timeout_seconds=flag_values.timeout_seconds,
        min_free_gb=flag_values.min_free_gb,
        expected_gpus=flag_values.expect_gpus,
        expects_tpu=flag_values.expect_tpu,
        query_metadata=flag_values.query_metadata,
    )


if __name__ == "__main__":
    cli.run(main, define_flags)
