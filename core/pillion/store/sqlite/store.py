"""The store that an ``sqlite://`` or ``memory://`` URL names."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from pillion.clock import Clock
from pillion.errors import ConfigurationError, StoreAway
from pillion.store.base import Checkpoint
from pillion.store.sqlite import forks, schema
from pillion.store.sqlite.connection import connect, journal_mode, wait_for_locks
from pillion.store.sqlite.desk import Desk, Operation
from pillion.store.sqlite.faults import is_contended
from pillion.store.sqlite.hints import Hub
from pillion.store.sqlite.host import host_folder
from pillion.store.sqlite.link import SqliteLink
from pillion.store.sqlite.statements import Statements
from pillion.store.sqlite.url import parse
from pillion.store.sqlite.writer import Writer

T = TypeVar("T")

_NAMESPACE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_OPEN_TRIES: Final = 80  # 11 ms apart on average: not much over a second
_CLOSE_S: Final = 2.0


class SqliteStore:
    """See `pillion.store.base.Store`. Building it opens nothing; the first use of a process does."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "",
        durability: Literal["full", "relaxed"] = "full",
        clock: Clock,
    ) -> None:
        if namespace and not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"namespace {namespace!r} must be letters, digits and underscores, at most 40, no digit first"
            )
        if durability not in ("full", "relaxed"):
            raise ConfigurationError(f"durability is 'full' or 'relaxed', not {durability!r}")
        self._target = parse(url)
        self._namespace = f"{namespace}_" if namespace else ""
        self._durability = durability
        self._clock = clock
        self._notes: dict[str, str] = {}
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._pid = 0
        self._closed = False
        self.offset_us = 0
        self.checkpoint: Checkpoint | None = None
        self.hub = Hub()

    @property
    def notes(self) -> Sequence[str]:
        return [*self._target.notes, *self._notes.values()]

    @property
    def label(self) -> str:
        return self._target.label

    @property
    def host_folder(self) -> str | None:
        return None if self._target.path is None else host_folder(self._target.path)

    async def open(self) -> None:
        self._closed = False
        await self.submit(Operation(peek=lambda desk: True))

    async def link(self, worker: str | None = None, index: int = -1) -> SqliteLink:
        return SqliteLink(self, worker, index)

    async def aclose(self) -> None:
        self._closed = True
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is None or self._pid != os.getpid():
            return
        forks.forget(writer)
        writer.stop()
        loop = asyncio.get_running_loop()
        until = loop.time() + _CLOSE_S
        while not writer.ended() and loop.time() < until:
            await asyncio.sleep(0.002)

    # -- for the links -------------------------------------------------------------------------------------

    def submit(self, operation: Operation[T]) -> asyncio.Future[T]:
        """Hand `operation` to this process's writer; a forked child gets one of its own."""
        writer = self._writer
        if writer is None or self._pid != os.getpid():
            writer = self._start()
        return writer.submit(operation)

    def set_idle(self, link: SqliteLink, idle: bool) -> None:
        """Note whether `link` would like to be woken for ready jobs."""

    def set_waiting(self, link: SqliteLink, waiting: bool) -> None:
        """Note whether somebody waits for results over `link`."""

    # -- the writer ----------------------------------------------------------------------------------------

    def _start(self) -> Writer:
        if self._closed:
            raise StoreAway(f"{self.label} is closed; open it again first")
        with self._lock:
            if self._writer is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._writer = Writer(
                    self.label,
                    self._open_desk,
                    self._signal,
                    durable=self._durability == "full" and self._target.path is not None,
                    keeps_open=self._target.path is None,
                )
                forks.remember(self._writer)
            return self._writer

    def _open_desk(self) -> Desk:
        """Open the database and its schema. On the writer's thread."""
        pause = threading.Event()
        for left in range(_OPEN_TRIES, -1, -1):
            try:
                return self._try_open()
            except Exception as error:
                # Switching to a write-ahead log does not wait for other starting processes; so all waiting is here.
                if not is_contended(error) or not left:
                    raise
                pause.wait(random.uniform(0.002, 0.02))
        raise AssertionError("the last try returns or raises")

    def _try_open(self) -> Desk:
        path = self._target.path
        sql = Statements(self._namespace)
        connection = connect(path)
        try:
            schema.prepare(connection, sql, self.label)
            if path is not None and (mode := journal_mode(connection)) != "wal":
                self._notes["journal"] = (
                    f"The journal mode is {mode!r}, since this file system refused a write-ahead log: "
                    "slow, and readers block writers. Move the database to a local disk."
                )
            wait_for_locks(connection)
        except BaseException:
            connection.close()
            raise
        return Desk(connection, sql, self._wall_us, self._steady_us, path)

    def _wall_us(self) -> int:
        return self._clock.wall_us() + self.offset_us

    def _steady_us(self) -> int:
        return self._clock.steady_us() + self.offset_us

    def _signal(self, ready: bool, ended: bool) -> None:
        """Send hints after a commit. On the writer's thread."""
        if ready:
            self.hub.publish("ready")
        if ended:
            self.hub.publish("ended")
