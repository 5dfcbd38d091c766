"""The first snippets that a user sees run as written, with annotations as objects and as text."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from starlette.testclient import TestClient

from adapters.asgi import WAIT, served
from adapters.scenarios.world import our_threads
from pillion_fastapi import Enqueue

SNIPPETS = Path(__file__).parent / "snippets"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a snippet anew, in an empty folder: the first one names a database there."""
    monkeypatch.chdir(tmp_path)

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("adapters.snippets")]:
            del sys.modules[name]

    forget()
    yield lambda name: importlib.import_module(f"adapters.snippets.{name}")
    forget()


@pytest.mark.parametrize("style", ["receipts", "receipts_future"])
def test_the_app_of_the_first_page(style: str, load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    module = load(style)
    assert not list(tmp_path.iterdir()), "importing opens no file"
    assert not our_threads(), "and starts no thread"
    with TestClient(module.app) as client:
        response = client.post("/orders/7/receipt")
        assert response.status_code == 202
        assert client.portal is not None
        job = client.portal.call(module.jobs.get, response.json()["job"])
        assert client.portal.call(job.result, WAIT) == "receipt for 7"
        assert client.get("/jobs/health").json()["status"] == "pass"
    assert (tmp_path / "jobs.db").exists()
    assert job.task == f"adapters.snippets.{style}.send_receipt"


def test_both_styles_are_the_same_text() -> None:
    plain = (SNIPPETS / "receipts.py").read_text("utf-8")
    future = (SNIPPETS / "receipts_future.py").read_text("utf-8")
    assert future.replace("from __future__ import annotations\n\n", "") == plain


async def test_anywhere(load: Callable[[str], ModuleType]) -> None:
    app = load("receipts").app
    async with served(app):
        jobs = await load("anywhere").anywhere(Enqueue(), range(5))
        assert len({job.id for job in jobs}) == 8


def test_anywhere_without_the_app(load: Callable[[str], ModuleType]) -> None:
    module = load("anywhere")
    assert asyncio.run(module.without_a_web_server()) == "receipt for 8"
    assert module.from_def_code().created
    assert asyncio.run(module.only_the_store())  # its end closes the client thread as well
