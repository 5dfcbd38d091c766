"""The store that an ``sqlite://`` or ``memory://`` URL names."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

from pillion.clock import Clock
from pillion.errors import ConfigurationError, StoreAway
from pillion.store.base import Checkpoint
from pillion.store.sqlite import forks, schema
from pillion.store.sqlite.connection import connect, journal_mode
from pillion.store.sqlite.desk import Desk, Operation
from pillion.store.sqlite.host import host_folder
from pillion.store.sqlite.link import SqliteLink
from pillion.store.sqlite.log import cut_back
from pillion.store.sqlite.mounts import is_shared, kind_of, warnings
from pillion.store.sqlite.patience import patiently
from pillion.store.sqlite.signals import Signals
from pillion.store.sqlite.statements import Statements
from pillion.store.sqlite.url import parse
from pillion.store.sqlite.writer import Writer

T = TypeVar("T")

_NAMESPACE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
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
        self._judged: tuple[str | None, bool] = (None, False)  # the host's folder, and whether hosts share it
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._pid = 0
        self._closed = False
        self.offset_us = 0
        self.checkpoint: Checkpoint | None = None
        self.signals = self._new_signals()

    @property
    def notes(self) -> Sequence[str]:
        return [*self._target.notes, *self._notes.values()]

    @property
    def warnings(self) -> Sequence[str]:
        return [note for note in self.notes if note != self._notes.get("journal")]

    @property
    def label(self) -> str:
        return self._target.label

    @property
    def host_folder(self) -> str | None:
        path = self._target.path
        if path is None:
            return None
        try:
            folder = host_folder(path, self._namespace)
        except ConfigurationError as error:
            self._notes["host"] = f"Processes of this host do not see each other: {error}"
            return None
        if folder != self._judged[0]:  # asked several times a second; what kind of file system it is on does not change
            self._judged = (folder, is_shared(kind_of(folder)))
        return None if self._judged[1] else folder

    async def open(self) -> None:
        if self._closed:
            self._closed = False
            self.signals = self._new_signals()
        await self.submit(Operation(peek=lambda desk: True))

    async def link(self, worker: str | None = None, index: int = -1) -> SqliteLink:
        return SqliteLink(self, worker, index)

    async def aclose(self) -> None:
        self._closed = True
        with self._lock:
            writer, self._writer = self._writer, None
        self.signals.close()
        if writer is None or self._pid != os.getpid():
            return
        writer.stop()
        loop = asyncio.get_running_loop()
        until = loop.time() + _CLOSE_S
        while not writer.ended() and loop.time() < until:
            await asyncio.sleep(0.002)

    # -- for the links -------------------------------------------------------------------------------------

    def submit(self, operation: Operation[T]) -> asyncio.Future[T]:
        """Hand `operation` to this process's writer; a forked child gets one of its own."""
        writer = self._writer
        if writer is None or self._pid != os.getpid() or writer.ended():
            writer = self._start()
        return writer.submit(operation)

    # -- forks ---------------------------------------------------------------------------------------------

    def before_fork(self) -> Callable[[], None]:
        """Have the writer put the database away; returns what lets it go on."""
        writer = self._writer
        return writer.pause().over.set if writer is not None and self._pid == os.getpid() else _nothing

    def in_child(self) -> None:
        """Start afresh: the writer's thread and the sockets are the parent's."""
        self._lock = threading.Lock()
        self._writer = None
        self.signals.abandon()
        self.signals = self._new_signals()

    # -- the writer ----------------------------------------------------------------------------------------

    def _start(self) -> Writer:
        if self._closed:
            raise StoreAway(f"{self.label} is closed; open it again first")
        with self._lock:
            if self._writer is None or self._pid != os.getpid() or self._writer.ended():
                forks.watch(self)
                self._pid = os.getpid()
                self._writer = Writer(
                    self.label,
                    self._open_desk,
                    self._tend,
                    self.signals,
                    durable=self._durability == "full" and self._target.path is not None,
                    keeps_open=self._target.path is None,
                )
            return self._writer

    def _open_desk(self) -> Desk:
        """Open the database and its schema. On the writer's thread."""
        return patiently(self._try_open)

    def _try_open(self) -> Desk:
        path = self._target.path
        sql = Statements(self._namespace)
        connection = connect(path)
        try:
            schema.prepare(connection, sql, self.label)
            if path is not None:
                self._take_notes(path, journal_mode(connection))
        except BaseException:
            connection.close()
            raise
        return Desk(connection, sql, self._wall_us, self._steady_us, path)

    def _tend(self, desk: Desk) -> None:
        """Once a second, on the writer's thread."""
        if self._target.path is None:
            return
        note = cut_back(desk.connection, self._target.path)
        if note is None:
            self._notes.pop("log", None)
        else:
            self._notes["log"] = note

    def _take_notes(self, path: str, mode: str) -> None:
        """Sentences for the start line and health."""
        durable = "an accepted job survives a power loss"
        if self._durability == "relaxed":
            durable = "a power loss may take the last moments' jobs (durability is relaxed)"
        self._notes["journal"] = f"SQLite {sqlite3.sqlite_version}, journal mode {mode}; {durable}."
        if mode != "wal":
            self._notes["wal"] = (
                f"No write-ahead log (journal mode {mode}): the file system refused it. Writes are slow, and readers "
                "block them. Put the database on a local disk."
            )
        for number, text in enumerate(warnings(path)):
            self._notes[f"mount{number}"] = text

    def _new_signals(self) -> Signals:
        return Signals(lambda: self.host_folder, self._steady_us)

    def _wall_us(self) -> int:
        return self._clock.wall_us() + self.offset_us

    def _steady_us(self) -> int:
        return self._clock.steady_us() + self.offset_us


def _nothing() -> None:
    """Nothing was put away."""
