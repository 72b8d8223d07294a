"""The pages of docs/reference are as rendered from the code."""

import ast

import pytest
from absl import flags

import albert_tf
from albert_tf.core import settings_help
from tests.repository import (
    api_reference,
    binary_flags,
    commands_reference,
    documented_commands,
    project_files,
    reference,
    settings_reference,
)


def test_pages_are_as_rendered():
    found = reference.differences(project_files.ROOT)
    assert not found, "\n" + "\n".join(found)


def test_every_setting_has_a_row_with_its_meaning():
    page = (project_files.ROOT / "docs/reference/settings.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    meaning = {cells[1].strip(" `"): cells[-2].strip() for cells in rows}
    names = {
        name.removeprefix("train.stages.N.")
        for name in documented_commands.types_of_settings()
    }
    assert len(names) > 90
    assert names <= meaning.keys()
    assert all(meaning[name] for name in names)


def test_meaning_is_the_sentences_that_name_a_setting_and_what_continues_them():
    docstring = """Summary with `b`.

    Of `a`. It continues, e.g. like
    this: 0.5. Both `b` and `a`
    are here. Ends here.

    `c` is alone.
    """
    assert settings_help.described_in(docstring, {"a", "b", "c"}) == {
        "a": "Of `a`. It continues, e.g. like this: 0.5. Both `b` and `a` are here.",
        "b": "Both `b` and `a` are here. Ends here.",
        "c": "`c` is alone.",
    }


def test_setting_without_meaning_is_named():
    with pytest.raises(ValueError, match="not described: a, c"):
        settings_help.described_in("Of `a`.\n\nOf `b`.", {"a", "b", "c"})


def test_a_long_sentence_stands_once_in_a_section_and_is_referred_to():
    long = f"`a` and `b` decide {'much of ' * 6}it, e.g. 0.5."
    meanings = {
        "a": long,
        "b": f"{long} 0 is off.",
        "c": f"{long} Of `c`. 0 is off.",
    }
    assert settings_reference.without_repetition(meanings, "data.") == {
        "a": long,
        "b": "See `data.a`. 0 is off.",
        "c": "See `data.a`. Of `c`. 0 is off.",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (1e-5, "1e-05"), (("a", "b"), "a,b"), ({"a": 2.0}, "a=2.0")],
)
def test_values_are_shown_as_they_are_set(value, shown):
    assert settings_help.shown(value) == shown


def _rows(define) -> list[str]:
    values = flags.FlagValues()
    define(values)
    return [commands_reference.row(values[name]) for name in values]


def test_row_of_a_flag_has_default_values_and_meaning():
    def define(values: flags.FlagValues) -> None:
        flags.DEFINE_integer("a", 3, "Of\n  a|b.", 1, 2**63 - 1, flag_values=values)
        flags.DEFINE_enum("b", "", ["", "x", "y"], "Of b.", flag_values=values)
        flags.DEFINE_multi_string("c", [], "Of c.", values)
        flags.DEFINE_list("d", ["x", "y"], "Of d.", values)
        flags.DEFINE_bool("e", False, "Of e.", values)
        flags.DEFINE_string("f", None, "Of f.", values)
        flags.DEFINE_list("g", ["sixteen letters.", "sixteen letters,"], "G.", values)
        flags.mark_flag_as_required("f", values)

    assert _rows(define) == [
        "| `--a` | `3` | integer, at least 1, at most 2^63 - 1 | Of a\\|b. |",
        "| `--b` | none | `x`, `y` | Of b. |",
        "| `--c` | none | text, repeatable | Of c. |",
        "| `--d` | `x,y` | texts separated by commas | Of d. |",
        "| `--e` | `false` | true or false | Of e. |",
        "| `--f` | required | text | Of f. |",
        "| `--g` | `sixteen letters.`, `sixteen letters,` | "
        "texts separated by commas | G. |",
    ]


def test_defaults_are_the_same_on_every_machine():
    def define(values: flags.FlagValues) -> None:
        number = binary_flags.NUM_CPUS
        flags.DEFINE_integer("a", number, "A.", flag_values=values)
        path = str(project_files.ROOT / "configs" / "x.py")
        flags.DEFINE_string("b", path, "B.", values)
        flags.DEFINE_string("c", str(project_files.ROOT), "C.", values)

    assert _rows(define) == [
        "| `--a` | number of CPUs | integer | A. |",
        "| `--b` | `configs/x.py` | text | B. |",
        "| `--c` | the checkout | text | C. |",
    ]


def test_every_name_of_the_package_has_a_section_with_what_it_takes():
    page = (project_files.ROOT / "docs/reference/api.md").read_text()
    sections = dict(
        section.split("\n", 1) for section in f"\n{page}".split("\n## albert_tf.")[1:]
    )
    assert sections.keys() >= albert_tf._MODULES.keys()
    assert "path: str | os.PathLike[str]," in sections["load"]
    assert "Raises:" in sections["load"]
    assert "describe: Callable[[Metrics], str] = str" in sections["Evaluation"]
    assert "### Model.fill_mask" in sections["Model"]
    assert "._" not in page and "(self" not in page


def test_a_signature_has_types_without_modules_of_the_project_and_its_defaults():
    (found,) = ast.parse(
        """
def f(self, a: own.A | np.B, *b, c: Any=2, d: str=settings.PLL, **e) -> 'own.F':
    \"\"\"Does.

    Args:
      a: of one
        and two.
      *b: others.

    Returns:
      Text: and more.
    \"\"\"
"""
    ).body
    line = api_reference.signature(found, "m.f", {"own", "settings"})
    call = 'm.f(a: A | np.B, *b, c=2, d: str = "pll", **e) -> F'
    assert line == f"```python\n{call}\n```\n"
    assert api_reference.docstring(found) == [
        "Does.\n",
        "Args:\n",
        "- `a`: of one\n  and two.\n- `*b`: others.\n",
        "Returns:\n",
        "Text: and more.\n",
    ]
