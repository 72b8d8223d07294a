"""Versions of Python and of the installed packages against the project's pins."""

import dataclasses
import importlib.metadata
import pathlib
import re
import sys
from collections.abc import Mapping

from albert_tf.diagnostics import findings

# As in pyproject.toml.
PYTHONS = ((3, 11), (3, 12), (3, 13))
# The operations of tensorflow-text are compiled against one TensorFlow.
_FAMILY = ("tensorflow", "tensorflow-tpu", "tensorflow-text", "tf-keras")
# Named in the line if nothing is wrong.
_SHOWN = (*_FAMILY, "numpy", "sentencepiece")
_MOST_NAMES = 6

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_PIN = re.compile(r"^([\w.-]+)==([^\s;#]+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Observed:
    """Versions by normalized names.

    Attributes:
      python: its version.
      installed: all installed packages.
      required: the pins of what must be installed.
      constrained: the pins of what may be.
      source: the file of `required`, or "" if there is none.
    """

    python: tuple[int, int, int]
    installed: Mapping[str, str]
    required: Mapping[str, str]
    constrained: Mapping[str, str]
    source: str


def observe(root: pathlib.Path = _ROOT) -> Observed:
    """Reads what is installed, and the pins in the directory `root`.

    With TensorFlow's TPU build the pins are those of requirements-tpu.txt.
    """
    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        metadata = distribution.metadata
        # A package that was removed halfway has a directory without metadata.
        if "Name" in metadata and "Version" in metadata:
            installed.setdefault(_normal(metadata["Name"]), metadata["Version"])
    has_tpu_build = "tensorflow-tpu" in installed
    source = "requirements-tpu.txt" if has_tpu_build else "requirements.txt"
    required = _pins(root / source)
    return Observed(
        python=sys.version_info[:3],
        installed=installed,
        required=required,
        constrained=_pins(root / "constraints.txt"),
        source=source if required else "",
    )


def _pins(path: pathlib.Path) -> dict[str, str]:
    if not path.exists():
        return {}
    return {_normal(name): pin for name, pin in _PIN.findall(path.read_text())}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def judge(observed: Observed) -> list[findings.Finding]:
    """Missing packages fail, other versions than the pinned ones are warnings."""
    install = (
        "pip install --no-deps -r requirements-tpu.txt"
        if observed.source == "requirements-tpu.txt"
        else "pip install -r requirements.txt -c constraints.txt"
    )
    found = [_judge_python(observed.python), *_judge_family(observed.installed)]
    if not observed.source:
        # An installed package: the installer has held its ranges.
        text = f"no pins to compare with: {_versions(observed.installed)}"
        return [*found, _finding(findings.Status.OK, text)]
    missing = sorted({*observed.required} - {*observed.installed})
    if missing:
        found.append(
            _finding(
                findings.Status.FAILED,
                f"missing: {_some(missing)}",
                install,
                missing=missing,
            )
        )
    # The required ones first.
    pins = {**observed.required, **observed.constrained, **observed.required}
    other = {
        name: (observed.installed[name], pin)
        for name, pin in pins.items()
        if name in observed.installed and observed.installed[name] != pin
    }
    if other:
        shown = [f"{name} {has} (pinned: {pin})" for name, (has, pin) in other.items()]
        found.append(
            _finding(
                findings.Status.WARNING,
                f"not as pinned: {_some(shown)}",
                install,
                differing={
                    name: {"installed": has, "pinned": pin}
                    for name, (has, pin) in other.items()
                },
            )
        )
    if not missing and not other:
        num_pinned = sum(name in observed.installed for name in pins)
        found.append(
            _finding(
                findings.Status.OK,
                f"{num_pinned} packages as pinned: {_versions(observed.installed)}",
                installed={name: observed.installed.get(name) for name in pins},
            )
        )
    return found


def _versions(installed: Mapping[str, str]) -> str:
    shown = (f"{name} {installed[name]}" for name in _SHOWN if name in installed)
    return ", ".join(shown)


def _judge_python(version: tuple[int, int, int]) -> findings.Finding:
    text = ".".join(map(str, version))
    if version[:2] in PYTHONS:
        return _finding(findings.Status.OK, f"Python {text}", python=text)
    known = ", ".join(".".join(map(str, one)) for one in PYTHONS)
    return _finding(
        findings.Status.FAILED,
        f"Python {text}",
        f"Make the environment with one of Python {known}",
        python=text,
    )


def _judge_family(installed: Mapping[str, str]) -> list[findings.Finding]:
    if "tensorflow" in installed and "tensorflow-tpu" in installed:
        return [
            _finding(
                findings.Status.FAILED,
                "both tensorflow and tensorflow-tpu are installed, in the same files",
                "On a TPU VM make a new environment with pip install --no-deps -r "
                "requirements-tpu.txt; elsewhere without tensorflow-tpu",
            )
        ]
    family = {name: installed[name] for name in _FAMILY if name in installed}
    if len({tuple(version.split(".")[:2]) for version in family.values()}) < 2:
        return []
    shown = ", ".join(f"{name} {version}" for name, version in family.items())
    return [
        _finding(
            findings.Status.FAILED,
            f"these do not fit each other: {shown}",
            "Their first two numbers must be equal",
            family=family,
        )
    ]


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def _finding(
    status: findings.Status, found: str, remedy: str = "", **values
) -> findings.Finding:
    return findings.Finding("versions", status, found, remedy, values)
