from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from release.commands import run
from release.distributions import ALL, ROOT


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All distributions, each built as an sdist and the wheel from that, so that the sdist is proven complete."""
    out = tmp_path_factory.mktemp("dist")
    for distribution in ALL:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, distribution.folder)
    return out


@pytest.fixture(scope="session")
def install(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Install `pillion` with the given extras from the built wheels into a new environment; gives its Python."""

    def install(extras: str) -> Path:
        folder = tmp_path_factory.mktemp("clean")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        python = folder / "bin/python"
        (wheel,) = wheels.glob("pillion-*.whl")
        run(
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"),
            *("--constraint", ROOT / "constraints.txt", "--find-links", wheels, f"pillion{extras} @ {wheel.as_uri()}"),
        )
        return python

    return install
