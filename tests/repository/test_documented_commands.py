"""The commands in the documentation name binaries, flags and settings that exist."""

import pytest

from tests.repository import documented_commands, project_files

# At least so many commands are found, so that a parser which finds nothing fails.
NUM_COMMANDS = {
    "docs/reference/commands.md": 50,
    "docs/start.md": 5,
    "docs/training.md": 10,
}


def _pages() -> list[str]:
    paths = project_files.repository_files(project_files.ROOT)
    return [path for path in paths if path.endswith(".md")]


def _commands(path: str) -> list[documented_commands.Command]:
    return [*documented_commands.find((project_files.ROOT / path).read_text())]


@pytest.mark.parametrize("path", _pages())
def test_every_command_of_a_page_exists_with_its_flags_and_settings(path):
    found = [
        f"{path}:{command.line}: {fault}"
        for command in _commands(path)
        if (fault := documented_commands.fault(command, project_files.ROOT))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("path", "least"), NUM_COMMANDS.items())
def test_commands_are_found(path, least):
    assert len(_commands(path)) >= least


def test_each_use_case_leads_on_by_commands():
    pages = [path for path in _pages() if path.startswith("docs/use_cases/")]
    assert len(pages) >= 6
    for path in pages:
        assert len(_commands(path)) >= 2, path


# The parser, on synthetic pages.


def _only(text: str) -> documented_commands.Command:
    (command,) = documented_commands.find(text)
    return command


@pytest.mark.parametrize(
    ("text", "line", "arguments", "is_elided"),
    [
        (
            "A\n\n```sh\npython -m albert_tf.export --a=1 \\\n    --b='x y'\nls\n```\n",
            4,
            ("--a=1", "--b=x y"),
            False,
        ),
        ("A\n\n    $ x/python -m albert_tf.export A | less\n", 3, ("A",), False),
        ("```\npython -m albert_tf.export [--a=1 ...]\n```\n", 2, ("--a=1",), True),
        ("```\npython -m albert_tf.export $MORE --a\n```\n", 2, ("--a",), True),
        (
            "```\nX=1 python -m albert_tf.export --a=$n/$((8 / n))\n```\n",
            2,
            None,
            False,
        ),
        ("```\npython -m albert_tf.export --a    the a's\n```\n", 2, ("--a",), False),
        ("A\n`albert_tf.export\n--a` b\n", 2, ("--a",), True),
        ("Or `python -m albert_tf.export DIR`.\n", 1, ("DIR",), True),
    ],
)
def test_parser_reads_a_command_as_a_shell_does(text, line, arguments, is_elided):
    command = _only(text)
    assert command.module == "albert_tf.export"
    assert command.line == line
    assert command.arguments == (("--a=32/1",) if arguments is None else arguments)
    assert command.is_elided is is_elided


def test_prose_and_diagrams_are_no_commands():
    text = (
        "albert_tf.export --a\n\n```\n │ python -m albert_tf.export -> b\n```\n`--a`\n"
    )
    assert list(documented_commands.find(text)) == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("albert_tf.exprot --a", "no binary albert_tf.exprot"),
        ("albert_tf.export --model_dri=A --output_dir=B", "model_dri"),
        ("albert_tf.export --model_dir=A", "output_dir"),
        ("albert_tf.export --model_dir=A --output_dir=B --form=txt", "form"),
        ("albert_tf.export --model_dir=A --output_dir=B C", "received 'C'"),
        ("albert_tf.describe --config=configs/smal.py", "smal.py"),
        ("albert_tf.describe --set train.batchsize=8", "'train.batch_size'"),
        ("albert_tf.describe --set train.batch_size=x", "must be an integer"),
        ("albert_tf.describe --set train.stages.1.num_step=8", "num_steps"),
        (
            "albert_tf.describe --config=configs/small.py --set train.batch_size=0",
            "at least 1",
        ),
    ],
)
def test_what_is_wrong_with_a_command_is_named(arguments, fault):
    command = _only(f"```\npython -m {arguments}\n```\n")
    assert fault in (documented_commands.fault(command, project_files.ROOT) or "")


@pytest.mark.parametrize(
    "arguments",
    [
        "albert_tf.export --model_dir=A ...",
        "albert_tf.report RUN",
        "albert_tf.describe --config=configs/NAME.py --set train.batch_size=SIZE",
        "data_prep.beam_pipeline --input=a --vocab_model=b --output_dir=c --runner=d",
    ],
)
def test_a_right_command_has_no_fault(arguments):
    command = _only(f"```\npython -m {arguments}\n```\n")
    assert documented_commands.fault(command, project_files.ROOT) is None
