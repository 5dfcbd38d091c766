"""Threads of our own making: daemons, so that none keeps an interpreter alive or is joined at exit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

log = logging.getLogger("pillion")
P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads:
    """Up to `limit` daemon threads that run callables first in, first out. They are started as needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def submit(self, work: Callable[[], object]) -> None:
        """Run `work` on a thread. What it raises is logged, never lost in silence.

        Raises `RuntimeError` if not a single thread can be started.
        """
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._limit:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system gives no more threads: those there are take turns
                    if not self._threads:
                        raise
                else:
                    self._threads.append(thread)
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                log.exception("unexpected error in thread %s", threading.current_thread().name)
            with self._lock:
                if self._work.qsize() < 1:
                    self._idle += 1
            del work

    def close(self, timeout: float) -> bool:
        """Let idle threads end; wait up to `timeout` seconds in all. False if some still run code."""
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join(timeout / max(len(threads), 1))
        return not any(thread.is_alive() for thread in threads)


class DaemonExecutor(ThreadPoolExecutor):
    """A loop's default executor (`to_thread`, `getaddrinfo`) on daemon threads.

    asyncio insists on a `ThreadPoolExecutor`, whose own threads are joined when the interpreter exits; none of
    them is ever started here.
    """

    def __init__(self, limit: int, name: str) -> None:
        super().__init__(max_workers=1)
        self._daemons = DaemonThreads(limit, name)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._daemons.submit(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end; never waits longer than a second."""
        self._daemons.close(1.0 if wait else 0.0)

    def __reduce__(self) -> Any:
        raise TypeError("an executor cannot be pickled")
