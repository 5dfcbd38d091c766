"""What the worker adds to an app: memory, start-up, idle CPU; and what its blocking jobs do to the app's requests."""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.place import Place
from bench.server import Client, Server

_WARM_S = 2.0
_STARTS = 5
_BLOCKING = 8


def footprint(place: Place, name: str, idle_s: float) -> dict[str, float]:
    """Of one server process; `name` is empty for the bare app. Start-ups alternate with the bare app's."""
    added: list[float] = []
    for _ in range(_STARTS + 1):
        bare = _start(place, "")
        added.append(_start(place, name) - bare)
    with place.folder() as folder, Server(name, folder) as server:
        server.up()
        time.sleep(_WARM_S)
        cpu, begun = server.cpu_s(), time.monotonic()
        time.sleep(idle_s)
        idle = (server.cpu_s() - cpu) / (time.monotonic() - begun)
        added = added[1:]  # the first pair warms the disk
        return {
            "rss_mb": server.rss_mb(),
            "start_added_s": statistics.median(added),
            "idle_cpu_percent": idle * 100,
        }


def _start(place: Place, name: str) -> float:
    with place.folder() as folder, Server(name, folder) as server:
        return server.up()


def pings(place: Place, name: str, window_s: float) -> dict[str, float]:
    """`/ping` while nothing happens and while eight async jobs block, in five alternating windows each."""
    with place.folder() as folder, Server(name, folder) as server:
        server.up()
        time.sleep(_WARM_S)
        return asyncio.run(_alternate(server.port, window_s))


async def _alternate(port: int, window_s: float) -> dict[str, float]:
    quiet: list[float] = []
    blocked: list[float] = []
    pinger, other = await Client.connect(port), await Client.connect(port)
    await _window(pinger, 0.5)
    for turn in range(5):
        quiet.append(await _window(pinger, window_s))
        path = f"/block/{turn * _BLOCKING}/{_BLOCKING}/{window_s / _BLOCKING}"
        storing = asyncio.ensure_future(other.request("POST", path))
        await asyncio.sleep(0.05)
        blocked.append(await _window(pinger, window_s * 0.9))
        await storing
        await asyncio.sleep(window_s * 0.3)
    await pinger.close()
    await other.close()
    return {
        "idle_p99_ms": statistics.median(quiet) * 1e3,
        "blocked_p99_ms": statistics.median(blocked) * 1e3,
        "ratio": statistics.median(blocked) / statistics.median(quiet),
    }


async def _window(client: Client, seconds: float) -> float:
    """The p99 of one request after the other, for so long."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        taken.append(await client.request("GET", "/ping"))
        await asyncio.sleep(0.002)
    taken.sort()
    return taken[min(len(taken) - 1, len(taken) * 99 // 100)]
