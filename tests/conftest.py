"""Settings for every test; what only one folder needs stands in that folder's own conftest.

pytest-asyncio runs in auto mode (pyproject.toml): a plain `async def` test or fixture just works, each test on a loop
of its own. A test about loops, threads or shutdown is a plain `def` and calls `asyncio.run` itself.

Warnings are errors, a test may take 60 s (`@pytest.mark.timeout(…)` for more), and unknown markers are refused. Helpers
are imported from `tests/`, which is on the path: `from servers.harness import …`.
"""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PILLION_…` in the caller's environment must not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("PILLION_")]:
        monkeypatch.delenv(name)
