"""The command albert-tf, without a command to run."""

import subprocess
import sys

import pytest

import albert_tf
from albert_tf.core import console


def test_a_wrong_command_is_told_the_nearest(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["albert-tf", "descibe"])
    with pytest.raises(SystemExit) as stopped:
        console.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "error: there is no command 'descibe'; the nearest is 'describe'. albert-tf "
        "--help lists them\n"
    )


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["albert-tf", "--version"])
    console.main()
    assert capsys.readouterr().out == f"albert-tf {albert_tf.__version__}\n"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("", "python -m albert_tf.average_checkpoints '--model_dir=my run'"),
        ("albert-tf", "albert-tf average-checkpoints '--model_dir=my run'"),
        (
            "python -m albert_tf",
            "python -m albert_tf average-checkpoints '--model_dir=my run'",
        ),
    ],
)
def test_a_command_names_others_in_the_form_in_which_it_was_called(
    monkeypatch, program, expected
):
    monkeypatch.setattr(console, "_program", program)
    module = "albert_tf.average_checkpoints"
    assert console.command_line(module, "--model_dir=my run") == expected


def test_the_package_is_run_as_the_command():
    for arguments, code, printed in (
        (["--help"], 0, "usage: python -m albert_tf COMMAND --flags\n"),
        (["--version"], 0, f"albert-tf {albert_tf.__version__}\n"),
        (["descibe"], 2, "error: there is no command 'descibe'; the nearest is "),
        (["describe", "--help"], 0, "Describes what a recipe costs: parameter"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "albert_tf", *arguments],
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        assert printed in done.stdout + done.stderr


def test_what_a_command_prints_at_its_end_has_the_form_of_its_call(tmp_path):
    """The whole way: `albert-tf train-vocab` names `albert-tf create-…` next."""
    text = tmp_path / "text.txt"
    text.write_text("Rivers carry water and sand to the sea.\n\n" * 40)
    flags = ["--vocab_size=30", f"--input={text}", f"--output={tmp_path}/vocab.model"]
    program = "from albert_tf.core import console; console.main()"
    for arguments, named in (
        (["-c", program, "train-vocab"], "albert-tf create-pretraining-data"),
        (
            ["-m", "data_prep.train_vocab"],
            "python -m data_prep.create_pretraining_data",
        ),
        (
            ["-m", "albert_tf", "train-vocab"],
            "python -m albert_tf create-pretraining-data",
        ),
    ):
        done = subprocess.run(
            [sys.executable, *arguments, *flags], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"Next: {named} --input=")
