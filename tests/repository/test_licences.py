"""The licences of all pinned packages are known, and let the product be used."""

import pytest

from tests.repository import licences, project_files


def test_every_pinned_package_has_an_acceptable_licence():
    installed = [name for name in licences.pinned() if licences.is_installed(name)]
    # Some are for other Pythons than this one.
    assert len(installed) > 0.9 * len(licences.pinned()) > 100
    found = {name: licences.licence_of(name) for name in installed}
    refused = {name: one for name, one in found.items() if not one}
    refused |= {n: one for n, one in found.items() if not licences.is_acceptable(one)}
    assert not refused


def test_packages_of_optional_tools_are_listed_too(capsys, tmp_path, monkeypatch):
    names = licences.locked()
    assert {"mkdocs", "apache-beam", "libtpu", *licences.pinned()} <= set(names)
    folder = tmp_path / "build/docs/venv/lib/python3.11/site-packages"
    made = folder / "mkdocs_material-9.1.dist-info"
    made.mkdir(parents=True)
    lines = "Metadata-Version: 2.1\nName: mkdocs-material\nVersion: 9.1\nLicense: MIT\n"
    (made / "METADATA").write_text(lines)
    monkeypatch.setattr(licences, "locked", lambda: ["mkdocs-material", "libtpu"])
    monkeypatch.setattr(project_files, "ROOT", tmp_path)
    monkeypatch.setattr(licences, "is_installed", lambda name: False)
    licences.main()
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["mkdocs-material", "9.1", "MIT"]
    assert second.split() == ["libtpu", "not", "installed"]


@pytest.mark.parametrize(
    ("licence", "is_acceptable"),
    [
        ("MIT", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0", False),
        ("Proprietary", False),
    ],
)
def test_a_licence_is_judged_by_each_of_its_parts(licence, is_acceptable):
    assert licences.is_acceptable(licence) == is_acceptable
