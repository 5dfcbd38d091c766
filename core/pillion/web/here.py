"""This process's facts, read from memory in constant time, from any thread."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import msgspec

from pillion.settings import Settings
from pillion.web.facts import Here, WorkerFacts
from pillion.worker import status
from pillion.worker.runtime import Runtime

_TRIES: Final = 5  # of reading what other threads change meanwhile


def look(settings: Settings, entered: bool, wanted: bool, runtime: Runtime | None) -> Here:
    """The facts of the process whose worker is `runtime`; None: it runs none, though one may be `wanted`."""
    if runtime is None:
        return Here(entered=entered, wanted=wanted, lease=settings.lease)
    pulse = runtime.pulse
    return Here(
        entered=entered,
        wanted=True,
        worker=_worker(runtime),
        joined=bool(runtime.own_ids),
        upkeep_alive=pulse.alive,
        wrong_schema=pulse.fatal is not None,
        away=pulse.away is not None,
        lease=settings.lease,
        certificate_wanted=settings.certificates and runtime.process.store.host_folder is not None,
    )


def _worker(runtime: Runtime) -> WorkerFacts:
    for _ in range(_TRIES):
        with suppress(RuntimeError):  # a dictionary grew while it was read
            told: dict[str, Any] = status.of(runtime)
            return msgspec.convert(told, WorkerFacts)
    return WorkerFacts()
