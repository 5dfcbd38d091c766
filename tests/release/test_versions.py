"""One version everywhere, and siblings that pin each other exactly."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

import pillion
from pillion._version import __version__
from release.distributions import ALL, CORE, ROOT, SIBLINGS, Distribution

each = pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.name)


def test_every_integration_is_a_distribution() -> None:
    folders = {path.name for path in (ROOT / "integrations").iterdir() if path.is_dir()}
    assert folders == {sibling.folder.name for sibling in SIBLINGS}
    assert {sibling.name for sibling in SIBLINGS} == {f"pillion-{folder}" for folder in folders}


def test_core_takes_its_version_from_the_code() -> None:
    assert CORE.metadata["dynamic"] == ["version"]
    assert pillion.__version__ == __version__


@pytest.mark.parametrize("distribution", SIBLINGS, ids=lambda d: d.name)
def test_siblings_have_the_same_version(distribution: Distribution) -> None:
    assert distribution.metadata["version"] == __version__


@each
def test_the_installed_version_is_not_stale(distribution: Distribution) -> None:
    assert version(distribution.name) == __version__


@each
def test_siblings_are_pinned_exactly(distribution: Distribution) -> None:
    pins = [Requirement(line) for line in distribution.requirements]
    ours = [pin for pin in pins if pin.name.startswith("pillion")]
    assert distribution is CORE or "pillion" in {pin.name for pin in ours}
    assert [str(pin.specifier) for pin in ours] == [f"=={__version__}"] * len(ours)


@each
def test_dependencies_have_a_floor(distribution: Distribution) -> None:
    pins = [Requirement(line) for line in distribution.requirements]
    assert [pin.name for pin in pins if not pin.specifier] == []


def test_each_integration_is_an_extra_of_core() -> None:
    extras = CORE.metadata["optional-dependencies"]
    for sibling in SIBLINGS:
        assert [Requirement(line).name for line in extras[sibling.folder.name]] == [sibling.name]


@each
def test_metadata_is_shared(distribution: Distribution) -> None:
    for key in ("requires-python", "license", "license-files", "authors"):
        assert distribution.metadata[key] == CORE.metadata[key]
    assert (distribution.folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (distribution.folder / "README.md").read_text().startswith(f"# {distribution.name}\n")


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0][0] == __version__
    for _, date in headings[1:]:
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date)


def test_no_folder_shadows_a_framework() -> None:
    folders = [ROOT, ROOT / "core", ROOT / "integrations", ROOT / "tests", *(ROOT / "tests").iterdir()]
    folders += [sibling.folder for sibling in SIBLINGS]
    assert [folder for folder in folders if (folder / "__init__.py").exists()] == []


def test_pins_of_the_tools_carry_no_addresses() -> None:
    for path in ROOT.glob("constraints*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", line)] == []
