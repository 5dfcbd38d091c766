"""Drain starts at the signal: one watcher a process, shared by every worker in it, main thread only.

Servers call the lifespan's exit only after their connections have closed, which can be never. So the watcher
chains itself in front of whatever handler is there. The handler itself sets a flag and writes to a pipe; no lock,
no log. Over a callable handler the old one runs too (it may raise). Over the default action the bounded
drain runs to its end, then the default is restored and the signal raised again. An ignored signal stays ignored.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name))


_UNDER: Final = "pillion_previous"  # attribute of our handlers: the one they stand in front of


class Drainable(Protocol):
    """What the watcher calls, on its own thread."""

    def begin_drain(self, reason: str) -> None:
        """Start draining; returns soon."""
        ...

    def hurry_drain(self) -> None:
        """Wait for jobs no longer."""
        ...

    def await_drained(self) -> None:
        """Wait for the drain's end; bounded."""
        ...


class SignalWatcher:
    """The process's chained handlers, installed while at least one worker runs."""

    def __init__(self) -> None:
        self._workers: list[Drainable] = []
        self._chained: dict[int, tuple[Any, Callable[[int, FrameType | None], None]]] = {}
        self._pipe: tuple[int, int] | None = None
        self._pid = 0
        self._interrupted = False
        self._lock = threading.Lock()

    def add(self, worker: Drainable) -> str | None:
        """Drain `worker` at the next signal. None, or why signals cannot be seen here."""
        with self._lock:
            if self._pid != os.getpid():
                self._workers, self._chained, self._pipe = [], {}, None
            self._workers.append(worker)
            self._pid = os.getpid()
            if self._chained:
                return None
            if threading.current_thread() is not threading.main_thread():
                return "the app does not run on the main thread, so the drain starts when its lifespan ends"
            self._interrupted = False
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            for number in _SIGNALS:
                self._chain(number)
            threading.Thread(target=self._watch, args=(self._pipe[0],), name="pillion-signals", daemon=True).start()
            return None

    def remove(self, worker: Drainable) -> None:
        """Forget `worker`; with the last one the handlers go, if they are still ours."""
        with self._lock:
            with suppress(ValueError):
                self._workers.remove(worker)
            if self._workers or not self._chained:
                return
            if threading.current_thread() is threading.main_thread():
                for number, (previous, ours) in self._chained.items():
                    if signal.getsignal(number) is ours:  # else it stays as a pass-through
                        signal.signal(number, previous)
            self._chained = {}
            if self._pipe is not None:
                os.close(self._pipe[1])  # ends the watching thread, which closes the other end
                self._pipe = None

    def _chain(self, number: int) -> None:
        previous = signal.getsignal(number)
        # Ours, left by a parent before a fork or as a pass-through: what was under it counts.
        while hasattr(previous, _UNDER):
            previous = getattr(previous, _UNDER)
        if previous is None or previous == signal.SIG_IGN:
            return

        def handler(received: int, frame: FrameType | None) -> None:
            try:
                if callable(previous):
                    previous(received, frame)
            finally:
                pipe = self._pipe
                if pipe is not None and os.getpid() == self._pid:
                    with suppress(OSError):
                        os.write(pipe[1], bytes([received]))
                elif not callable(previous):  # a pass-through over the default action
                    signal.signal(received, signal.SIG_DFL)
                    os.kill(os.getpid(), received)

        setattr(handler, _UNDER, previous)
        signal.signal(number, handler)
        self._chained[number] = (previous, handler)

    def _watch(self, pipe: int) -> None:
        try:
            while data := os.read(pipe, 1):
                self._received(data[0])
        finally:
            os.close(pipe)

    def _received(self, number: int) -> None:
        workers = list(self._workers)
        # A second Ctrl-C: somebody waits at a terminal. (A SIGTERM after it is no second wish: parents pass one on.)
        impatient = number == signal.SIGINT and self._interrupted
        self._interrupted = self._interrupted or number == signal.SIGINT
        for worker in workers:
            worker.begin_drain(signal.Signals(number).name)
            if impatient:
                worker.hurry_drain()
        chained = self._chained.get(number)
        if chained is not None and not callable(chained[0]):
            for worker in workers:
                worker.await_drained()
            # `signal.signal` belongs to the main thread; the handler is told by the pipe's end to let the default act.
            self._pid = 0
            os.kill(os.getpid(), number)


WATCHER: Final = SignalWatcher()
