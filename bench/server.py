"""uvicorn with the app of webapp.py as a child, and a client for it."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Self

from bench.process import Child


class Server(Child):
    """One uvicorn process."""

    def __init__(self, name: str, folder: Path) -> None:
        self.port = _free_port()
        self.started = time.monotonic()
        args = ["bench.webapp:create", "--factory", "--port", self.port, "--loop", "uvloop", "--http", "httptools"]
        env = {"BENCH_SYSTEM": name, "BENCH_FOLDER": str(folder)}
        super().__init__("uvicorn", [*args, "--no-access-log", "--log-level", "warning"], folder / "log", env)

    def up(self) -> float:
        """Seconds from its start to the first answer."""
        while time.monotonic() < self.started + 30:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.sendall(b"GET /ping HTTP/1.1\r\nhost: bench\r\n\r\n")
                    if connection.recv(1000).startswith(b"HTTP/1.1 200"):
                        return time.monotonic() - self.started
            except OSError:
                self.check()
            time.sleep(0.005)
        raise TimeoutError("the server does not answer")


class Client:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Connect to a server of this host."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def request(self, method: str, path: str) -> float:
        """Seconds until the answer is complete. Raises unless it is a 200."""
        begun = time.perf_counter()
        self._writer.write(f"{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: 0\r\n\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
        await self._reader.readexactly(int(length.partition(":")[2]))
        if " 200 " not in head:
            raise RuntimeError(f"{method} {path}: {head}")
        return time.perf_counter() - begun

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
