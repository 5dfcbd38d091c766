"""This worker's state as plain data, from memory and in constant time: for beats, health and the start line."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from pillion.worker.drain import GRACE

if TYPE_CHECKING:
    from pillion.worker.runtime import Runtime


def of(runtime: Runtime) -> dict[str, Any]:
    """Loops, lag, slots, last beat, drain. Ages in seconds; None: never."""
    now = time.monotonic()
    pulse = runtime.pulse
    return {
        "state": state(runtime),
        "running": len(runtime.running()),
        "slots": {kind: {"used": used, "of": runtime.slots.limits[kind]} for kind, used in _used(runtime)},
        "loops": [
            {
                "lag": round(pulse.watchdog.lag(loop), 3),
                "running": len(loop.running),
                "last_poll": _age(now, loop.last_answer),
                "alive": loop.alive,
                "trouble": loop.trouble,
            }
            for loop in runtime.loops
        ],
        "last_beat": _age(now, pulse.beat.last),
        "certificate": runtime.identity is not None and runtime.identity.certificate is not None,
        "outcomes": dict(runtime.done),
        "stalls": {name: round(seconds, 1) for name, seconds in pulse.watchdog.longest.items()},
        "last_stall": _age(now, pulse.watchdog.stalled_at),
        "upkeep": {duty.name: duty.restarts for duty in pulse.supervisor.duties.values() if duty.error},
        "uptime": round(time.time() - runtime.started_at, 1),
    }


def state(runtime: Runtime) -> str:
    """starting, running, draining or drained."""
    if runtime.drain.done.is_set():
        return "drained"
    if runtime.draining:
        return "draining"
    return "running" if runtime.identity is not None and not runtime.identity.dead else "starting"


def start_line(runtime: Runtime) -> str:
    """What runs here, and what differs from the defaults and why."""
    settings = runtime.settings
    parts = [
        f"process {os.getpid()} runs jobs of {runtime.process.store.label}",
        f"{settings.loops} job loop{'s' if settings.loops != 1 else ''}",
        f"{settings.concurrency} async and {settings.threads} def jobs at a time",
        f"drain limit {settings.drain_timeout:g} s (give the server {settings.drain_timeout + GRACE:g} s to stop)",
    ]
    changed = {name: source for name, source in settings.changed.items() if name != "url"}
    if changed:
        shown = (f"{name}={getattr(settings, name)!r} ({source})" for name, source in changed.items())
        parts.append("set: " + ", ".join(shown))
    if runtime.signals_note:
        parts.append(runtime.signals_note)
    return "; ".join(parts)


def _used(runtime: Runtime) -> list[tuple[Any, int]]:
    return [(kind, used) for kind, used in runtime.slots.used().items() if used or kind in runtime.kinds]


def _age(now: float, instant: float) -> float | None:
    return round(now - instant, 3) if instant else None
