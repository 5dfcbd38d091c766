"""The same app with a route that takes a job loop away, as a fault in the worker would."""

from __future__ import annotations

from servers_app import app, jobs

__all__ = ["app"]


@app.post("/break")
async def break_loop() -> dict[str, str]:
    runtime = jobs._lifecycle.runtime
    assert runtime is not None
    runtime.loops[0].abandon()
    return {"loop": "gone"}
