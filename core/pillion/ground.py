"""What a `Jobs` stands on: settings, clock, and what this process has open. Tests put another ground under it."""

from __future__ import annotations

import os
import threading

from pillion.clock import Clock
from pillion.process import Process
from pillion.settings import Settings
from pillion.store import open_store
from pillion.store.base import Store


class Ground:
    """Building it opens nothing. ``workers`` is False where entering a context starts no worker."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, workers: bool = True) -> None:
        self.settings = settings
        self.workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._process: Process | None = None

    def process(self) -> Process:
        """What is open in this process; a forked child gets its own."""
        process = self._process
        if process is None or process.pid != os.getpid():
            with self._lock:
                process = self._process
                if process is None or process.pid != os.getpid():
                    process = self._process = Process(self._store)
        return process

    def _store(self) -> Store:
        settings = self.settings
        return open_store(settings.url, namespace=settings.namespace, durability=settings.durability, clock=self._clock)
