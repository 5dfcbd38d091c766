"""Fixtures of the server tests, shared with `tests/chaos`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.harness import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder for one test; whatever it started is killed at the end."""
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture(scope="session")
def tell(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Say a measured figure; all are printed after the tests."""
    figures: list[str] = []
    yield figures.append
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if figures and reporter is not None:
        reporter.ensure_newline()
        for figure in figures:
            reporter.write_line(f"figure: {figure}")
