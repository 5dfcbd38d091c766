"""What several adapters' tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from pillion_fastapi import Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    """FastAPI's, on a database of its own."""
    return Jobs(f"sqlite:///{tmp_path}/jobs.db")
