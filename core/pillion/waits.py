"""Who in this process waits for which job to end. Thread-safe; hints only make it faster than polling."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress

from pillion.errors import Draining


class Waits:
    """Futures by job id, over all loops of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, list[asyncio.Future[None]]] = {}
        self._drained = False

    def __bool__(self) -> bool:
        return bool(self._futures)

    def add(self, job_id: str) -> asyncio.Future[None]:
        """A future of the running loop that is done once the job may have ended."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._futures.setdefault(job_id, []).append(future)
            drained = self._drained
        if drained:  # the caller may find the job ended all the same; else it is not to wait
            future.set_exception(_draining())
            future.exception()
        return future

    def drop(self, job_id: str, future: asyncio.Future[None]) -> None:
        """Forget a future that `add` gave."""
        with self._lock:
            futures = self._futures.get(job_id, [])
            with suppress(ValueError):
                futures.remove(future)
            if not futures:
                self._futures.pop(job_id, None)

    def ended(self, job_ids: Iterable[str]) -> None:
        """These jobs ended. Cheap when nobody waits."""
        if not self._futures:
            return
        with self._lock:
            hit = [future for job_id in job_ids for future in self._futures.get(job_id, ())]
        for future in hit:
            _wake(future, None)

    def look_again(self) -> None:
        """Some job ended somewhere: every waiter reads its own."""
        with self._lock:
            hit = [future for futures in self._futures.values() for future in futures]
        for future in hit:
            _wake(future, None)

    def drain(self) -> None:
        """End all waits with `Draining`, those that begin later too, until `resume`."""
        with self._lock:
            self._drained = True
            hit = [future for futures in self._futures.values() for future in futures]
        for future in hit:
            _wake(future, _draining())

    def resume(self) -> None:
        """Waiting makes sense again: a worker starts in this process."""
        self._drained = False


def _draining() -> Draining:
    return Draining("this process is shutting down; the job goes on elsewhere: ask again later")


def _wake(future: asyncio.Future[None], error: Exception | None) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # the waiter's loop is closed
        future.get_loop().call_soon_threadsafe(settle)
