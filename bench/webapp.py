"""A small FastAPI app with or without a system's worker inside: `uvicorn bench.webapp:create --factory`."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import FastAPI

from bench.handlers import handlers
from bench.ledger import Ledger
from bench.systems import system

JOBS = 100_000  # room in the ledger


def create() -> FastAPI:
    """The app; its environment names the system (none: a bare app) and the folder."""
    name, folder = os.environ["BENCH_SYSTEM"], Path(os.environ["BENCH_FOLDER"])
    if not name:
        app = FastAPI()
    else:
        under_test = system(name)(folder, handlers(Ledger(folder / "ledger", JOBS).marker()), app=True)
        app = FastAPI(lifespan=under_test.lifespan())

        @app.post("/block/{first}/{count}/{seconds}")
        async def block(first: int, count: int, seconds: float) -> None:
            for job in range(first, first + count):
                await under_test.enqueue("block", job, seconds)

    @app.get("/ping")
    async def ping() -> str:
        return "pong"

    return app
