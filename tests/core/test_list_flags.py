"""Lists on the command line."""

import pytest
from absl import flags

from albert_tf.core import cli


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ([], ["x", "y"]),
        (["--paths=a"], ["a"]),
        (["--paths=a, b"], ["a", "b"]),
        (["--paths=a,b", "--other=1", "--paths", "c"], ["a", "b", "c"]),
        (["--paths="], []),
    ],
)
def test_values_come_from_one_flag_or_several(arguments, value):
    values = flags.FlagValues()
    cli.define_list("paths", ["x", "y"], "Paths.", values)
    cli.define_list("other", None, "Others.", values)
    values(["program", *arguments])
    assert values.paths == value
    assert values["paths"].default == ["x", "y"]
    assert values.other == (["1"] if "--other=1" in arguments else None)
