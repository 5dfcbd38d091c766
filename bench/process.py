"""Starting, watching and ending the processes under test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A process of the harness's own. What it writes to stderr goes to `log` and is shown when it fails."""

    def __init__(self, module: str, args: Sequence[object], log: Path, env: dict[str, str] | None = None) -> None:
        self._log = log
        self._file = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, args)],
            cwd=_ROOT,
            env=os.environ | (env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._file,
            text=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ready(self) -> Self:
        """Wait until it has imported and built everything."""
        self._line()
        return self

    def go(self) -> None:
        """Let it do its part."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The JSON that a producer prints; it has ended afterwards."""
        text = self._line()
        self._process.wait(60)
        return json.loads(text)

    def finish(self, timeout: float = 300) -> None:
        """Wait for its own end. Raises if it failed."""
        code = self._process.wait(timeout)
        if code:
            raise self._failed(f"exit code {code}")

    def end(self, timeout: float = 15) -> None:
        """SIGTERM; SIGKILL when that does not help."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def check(self) -> None:
        """Raises if it has ended."""
        if self._process.poll() is not None:
            raise self._failed(f"ended early, exit code {self._process.returncode}")

    def rss_mb(self) -> float:
        """Resident memory, in MB (10^6)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * _PAGE / 1e6

    def cpu_s(self) -> float:
        """User and system time so far, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(10)
            raise self._failed("said nothing")
        return line

    def _failed(self, why: str) -> RuntimeError:
        return RuntimeError(f"{self._process.args!r}: {why}\n{self._log.read_text()[-2000:]}")

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._file):
            if pipe is not None:
                pipe.close()


def wait_until(holds: Callable[[], bool], seconds: float, *, every: float = 0.02, what: str = "") -> None:
    """Poll. Raises `TimeoutError` that says `what` did not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still waiting for {what}")
        time.sleep(every)
