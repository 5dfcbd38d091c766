"""What the tests of `pillion.testing` share: jobs that must never touch their real store, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pillion import Jobs


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(2.0)
    assert set(threading.enumerate()) <= before


@pytest.fixture
def real_store(tmp_path: Path) -> Iterator[Path]:
    """The file of the production store; no test may create it."""
    path = tmp_path / "production.db"
    yield path
    assert not path.exists()


@pytest.fixture
def jobs(real_store: Path) -> Jobs:
    return Jobs(f"sqlite:///{real_store}")
