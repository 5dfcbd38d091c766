"""Fixtures of the server tests, shared with `tests/chaos`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.harness import Site

_figures: list[str] = []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder for one test; whatever it started is killed at the end."""
    site = Site(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", site.runtime)  # what the test enqueues itself wakes its servers
    yield site
    site.close()


@pytest.fixture
def tell() -> Callable[[str], None]:
    """Say a measured figure; all are printed after the tests."""
    return _figures.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures once, whichever folder's conftest comes first."""
    for figure in _figures:
        terminalreporter.write_line(f"figure: {figure}")
    _figures.clear()
