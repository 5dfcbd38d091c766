"""The store contract over SQLite: a file, and memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pillion.store import open_store
from pillion.testing.contract import *  # noqa: F403
from pillion.testing.contract import Rig


@pytest.fixture(params=["file", "namespace", "memory"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Stores on a file that each test has for itself."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    namespace = "shop" if request.param == "namespace" else ""
    async with Rig(lambda: open_store(url, namespace=namespace), shared=request.param != "memory") as made:
        yield made
