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
    ("called", "expected"),
    [
        (False, "python -m albert_tf.average_checkpoints '--model_dir=my run'"),
        (True, "albert-tf average-checkpoints '--model_dir=my run'"),
    ],
)
def test_a_command_names_others_in_the_form_in_which_it_was_called(
    monkeypatch, called, expected
):
    monkeypatch.setattr(console, "_called", called)
    module = "albert_tf.average_checkpoints"
    assert console.command_line(module, "--model_dir=my run") == expected


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
    ):
        done = subprocess.run(
            [sys.executable, *arguments, *flags], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"Next: {named} --input=")
