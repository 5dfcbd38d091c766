"""The one thread of a process that owns the write connection.

Links of all loops hand it operations; whatever waits is written in one transaction, and the answers go back
to each loop in one callback. The connection lives in the thread's frame only: a forked child never sees it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from pillion.errors import StoreAway
from pillion.store.sqlite.desk import Desk, Operation
from pillion.store.sqlite.faults import is_contended, mapped
from pillion.store.sqlite.group import Outcome, write_group
from pillion.store.sqlite.patience import patiently
from pillion.store.sqlite.signals import PAUSE_S, Signals

T = TypeVar("T")
log = logging.getLogger("pillion")

_GROUP_WEIGHT: Final = 2_000  # rows of one transaction, about: some 20 ms
_TAKE: Final = 512  # requests looked at in one go
_ATTEMPTS: Final = 5  # of getting the write lock, a second each; a beat has one
_PAUSE_S: Final = 1.0  # how long a fork waits for the thread to put the database away


class Request:
    """An operation on its way, and where its answer goes."""

    __slots__ = ("attempts", "future", "loop", "operation")

    def __init__(self, operation: Operation[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.operation = operation
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.attempts = 1 if operation.urgent else _ATTEMPTS  # left


class Pause:
    """Asks the thread to put the database away and wait: nothing of SQLite's may be open across a fork."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()


class Writer:
    """Runs operations for all loops of a process. ``open_desk`` and ``tend`` (after beats) are called on its thread."""

    def __init__(
        self,
        label: str,
        open_desk: Callable[[], Desk],
        tend: Callable[[Desk], None],
        signals: Signals,
        *,
        durable: bool,
        keeps_open: bool,
    ) -> None:
        self._label = label
        self._open_desk = open_desk
        self._tend = tend
        self._signals = signals
        self._durable = durable
        self._keeps_open = keeps_open  # closing would lose the data: a database in memory
        self._queue: SimpleQueue[Request | Pause | None] = SimpleQueue()
        self._closing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pillion-store", daemon=True)
        self._thread.start()

    # -- for the loops -------------------------------------------------------------------------------------

    def submit(self, operation: Operation[T]) -> asyncio.Future[T]:
        """Hand in `operation` from a running loop. Cancelling the future changes nothing but who listens."""
        if self._closing:
            raise self._closed()
        request = Request(operation, asyncio.get_running_loop())
        self._queue.put(request)
        if self._ended.is_set():  # the thread ended in between: nobody else will answer
            self._refuse_waiting()
        return request.future

    def stop(self) -> None:
        """Let the thread end after what waits now. Idempotent; does not wait."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)

    def ended(self) -> bool:
        """True once the database is closed."""
        return self._ended.is_set()

    def pause(self) -> Pause:
        """Wait (a second at most) until nothing of the database is open; set ``over`` to go on."""
        pause = Pause()
        if not self._ended.is_set() and threading.current_thread() is not self._thread:
            self._queue.put(pause)
            pause.reached.wait(_PAUSE_S)
        return pause

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        desk: Desk | None = None
        waiting: list[Request] = []
        try:
            while True:
                taken = self._take(block=not waiting)
                waiting.extend(item for item in taken if isinstance(item, Request))
                if any(item is None for item in taken):
                    self._closing = True
                if waiting:
                    desk, waiting = self._work(desk, waiting)
                for item in taken:
                    if isinstance(item, Pause):
                        desk = self._rest(desk, item)
                if self._closing and not waiting and self._queue.empty():
                    return
        finally:
            if desk is not None:
                desk.close()
            self._signals.finish()
            self._ended.set()
            # What broke off this thread left somebody waiting, perhaps; who has an answer already keeps it.
            self._answer((request, self._closed()) for request in waiting)
            self._refuse_waiting()

    def _take(self, block: bool) -> list[Request | Pause | None]:
        """What waits; at least one item if `block`. Meanwhile hints that are due go out."""
        items: list[Request | Pause | None] = []
        if block and self._signals.due:
            try:
                items.append(self._queue.get(timeout=PAUSE_S))
            except Empty:
                self._signals.flush()
        if block and not items:
            items.append(self._queue.get())
        try:
            while len(items) < _TAKE:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _work(self, desk: Desk | None, requests: list[Request]) -> tuple[Desk | None, list[Request]]:
        """Answer `requests`; the desk to go on with, and the requests that still wait for the write lock."""
        # Beats come once a second: often enough to see that the file was moved, or that the log grows.
        beats = any(request.operation.urgent for request in requests)
        try:
            # … and before a job is accepted: it must not go into a file that is gone.
            looks = beats or any(request.operation.durable for request in requests)
            if desk is not None and looks and desk.stale():
                log.warning(
                    "%s was removed, moved or replaced; a file of that name is used from now on, and what was only in "
                    "the old one is not seen any more",
                    self._label,
                )
                desk.close()
                desk = None
            desk = desk or self._open_desk()
        except Exception as error:
            self._answer((request, mapped(error, self._label)) for request in requests)
            return None, []
        peeked, writes = self._peek(desk, requests)
        self._answer(peeked)
        # Beats first. What must reach the disk goes last, so that nobody else waits for the disk.
        writes.sort(key=lambda request: (request.operation.durable and self._durable, not request.operation.urgent))
        late: list[Request] = []
        while writes:
            group = self._cut(writes)
            del writes[: len(group)]
            durable = self._durable and group[0].operation.durable
            try:
                outcomes = write_group(desk, group, durable)
            except Exception as error:
                if not is_contended(error):
                    outcomes = [(request, error) for request in group]
                else:
                    late += self._unlucky(group, error)
                    continue
            self._answer((request, self._mapped(outcome)) for request, outcome in outcomes)
            if desk.ready or desk.ended or desk.more:
                with suppress(OSError):  # a hint that cannot be sent is made up for by polling
                    self._signals.committed(ready=desk.ready, ended=desk.ended, more=desk.more)
                desk.ready = desk.ended = desk.more = False
        if beats and not desk.broken:
            with suppress(sqlite3.Error):  # the next beat tries again
                self._tend(desk)
        if desk.broken:
            desk.close()
            desk = None
        return desk, late

    def _peek(self, desk: Desk, requests: list[Request]) -> tuple[list[tuple[Request, Outcome]], list[Request]]:
        """Answer what needs no write lock; the answers, and the requests that do need it."""
        answers: list[tuple[Request, Outcome]] = []
        writes: list[Request] = []
        for request in requests:
            operation = request.operation
            if operation.peek is not None:
                try:
                    answer = patiently(partial(operation.peek, desk))
                except Exception as error:
                    desk.note(error)
                    answers.append((request, self._mapped(error)))
                    continue
                if answer is not None or operation.write is None:
                    answers.append((request, answer))
                    continue
            writes.append(request)
        return answers, writes

    def _cut(self, writes: list[Request]) -> list[Request]:
        """The next group: a bounded number of rows, and one durability."""
        durable, weight, count = writes[0].operation.durable, 0, 0
        for request in writes:
            weight += request.operation.weight
            if count and (weight > _GROUP_WEIGHT or (self._durable and request.operation.durable != durable)):
                break
            count += 1
        return writes[:count]

    def _unlucky(self, group: list[Request], error: Exception) -> list[Request]:
        """Those of `group` that may try for the lock once more; the others are told."""
        for request in group:
            request.attempts -= 1
        again = [request for request in group if request.attempts > 0]
        self._answer((request, self._mapped(error)) for request in group if request.attempts <= 0)
        return again

    def _rest(self, desk: Desk | None, pause: Pause) -> Desk | None:
        if desk is not None and not self._keeps_open:
            desk.close()
            desk = None
        pause.reached.set()
        pause.over.wait(2 * _PAUSE_S)
        return desk

    # -- answers -------------------------------------------------------------------------------------------

    def _mapped(self, outcome: Outcome) -> Outcome:
        return mapped(outcome, self._label) if isinstance(outcome, Exception) else outcome

    def _closed(self) -> StoreAway:
        return StoreAway(f"{self._label} is closed; open it again first")

    def _refuse_waiting(self) -> None:
        try:
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, Request):
                    self._answer([(item, self._closed())])
                elif item is not None:
                    item.reached.set()
        except Empty:
            pass

    def _answer(self, outcomes: Iterable[tuple[Request, Outcome]]) -> None:
        """Send answers to their loops, in one callback each."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
        for request, outcome in outcomes:
            loops.setdefault(request.loop, []).append((request.future, outcome))
        for loop, answers in loops.items():
            with suppress(RuntimeError):  # that loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(_deliver, answers)


def _deliver(answers: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue  # its caller was cancelled
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
