"""Wrong flags, and the commands that follow, as a command names them at its end."""

import types

import pytest
from absl import app, flags, logging

from albert_tf import pretrain, serve
from albert_tf.core import cli, command_line


def _answer(capsys, module: types.ModuleType, *arguments: str) -> str:
    """What a binary answers to a wrong command line, with absl's flags there too."""
    values = flags.FlagValues()
    app.define_help_flags()
    module.define_flags(values)
    for defining in (app, logging):
        for flag in flags.FLAGS.flags_by_module_dict()[defining.__name__]:
            flags.DEFINE_flag(flag, values, defining.__name__)
    with pytest.raises(SystemExit) as stopped:
        command_line.parse([module.__name__, *arguments], values)
    assert stopped.value.code == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "suggestion"),
    [
        ("--log_dirs=x", ""),  # absl's log_dir
        ("--verbosty=1", ""),
        ("--saved_modle=x", ". Did you mean: saved_model?"),
        ("--surely_unknown=1", ""),
    ],
)
def test_only_flags_of_the_command_itself_are_suggested(capsys, flag, suggestion):
    name = flag[2:].partition("=")[0]
    end = " --help lists the flags\n"
    expected = f"error: Unknown command line flag '{name}'{suggestion or '.'}{end}"
    assert _answer(capsys, serve, "--port=0", flag) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model_dir=my/run"], "--model_dir=my/run --output_dir=run_model"),
        (["--model_dir", "run"], "--model_dir=RUN --output_dir=RUN_model"),
    ],
)
def test_a_run_given_to_a_command_that_takes_an_export(capsys, arguments, words):
    assert _answer(capsys, serve, *arguments) == (
        "error: there is no flag --model_dir; this command takes an exported model, as "
        f"--saved_model. Export the run first: python -m albert_tf.export {words}\n"
    )
    # A command without either flag is told what it has.
    found = _answer(capsys, pretrain, "--model_dri=run")
    assert "Did you mean: model_dir?" in found


def test_a_setting_given_as_a_flag_is_answered_with_its_key(capsys):
    assert _answer(capsys, pretrain, "--batch_size=8").startswith(
        "error: there is no flag --batch_size. A setting is given as "
        "--set train.batch_size=8"
    )
    found = _answer(capsys, pretrain, "--learning_rate", "0.1")
    assert "--set optimizer.learning_rate=VALUE" in found
    found = _answer(capsys, pretrain, "--stages=[{'num_steps': 1}]")
    assert """--set 'train.stages=[{'"'"'num_steps'"'"': 1}]'""" in found
    # task.max_seq_length is another one.
    assert "--set" not in _answer(capsys, pretrain, "--max_seq_length=64")


def test_a_stage_of_another_binary_suggests_nothing(monkeypatch, capsys):
    monkeypatch.setenv("ALBERT_TF_STAGE", "1")
    assert cli.next_export("run") == cli.next_command("albert_tf.report") == ""
    cli.print_next("albert_tf.report", "run")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("model_dir", "words"),
    [
        ("stars", "--model_dir=stars --output_dir=stars_model"),
        ("a/run/", "--model_dir=a/run/ --output_dir=run_model"),
        ("gs://b/a/run", "--model_dir=gs://b/a/run --output_dir=run_model"),
        ("gs://b", "--model_dir=gs://b --output_dir=b_model"),
        ("my run", "'--model_dir=my run' '--output_dir=my run_model'"),
    ],
)
def test_an_export_has_the_name_of_its_run(model_dir, words):
    expected = f"Next: python -m albert_tf.export {words}"
    assert cli.next_export(model_dir) == expected


@pytest.mark.parametrize(
    "spelling", ["run", "run/", "./run", "other/../run", "link", "{0}/run"]
)
def test_a_run_is_not_overwritten_however_its_directory_is_named(
    tmp_path, monkeypatch, spelling
):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("run")
    with pytest.raises(ValueError, match="must be another directory"):
        cli.check_output_dir(spelling.format(tmp_path), ["other", "run"])
    cli.check_output_dir("run-again", ["other", "run"])
    with pytest.raises(ValueError, match="must be another directory"):
        cli.check_output_dir("gs://bucket/run/", ["gs://bucket/run"])
    cli.check_output_dir("gs://bucket/again", ["gs://bucket/run"])
