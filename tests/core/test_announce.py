"""What Pillion says is seen under a plain server, and goes where logging is configured otherwise."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, logging, sys
{configure}
from pillion import Jobs
jobs = Jobs("memory://", max_attempts=1)
@jobs.task(name="boom")
async def boom() -> None:
    raise ValueError("as it pleases")
async def main() -> None:
    async with jobs.worker():
        job = await boom.enqueue()
        try:
            await job.result(10)
        except Exception:
            pass
asyncio.run(main())
"""


def said(configure: str) -> list[str]:
    script = SCRIPT.format(configure=configure)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=True)
    return done.stderr.splitlines()


def test_without_any_configuration_each_line_says_its_level_and_whose_it_is() -> None:
    lines = said("")
    assert any(line.startswith("INFO:     pillion: process ") and "memory://" in line for line in lines)
    assert any(line.startswith("INFO:     pillion: draining") for line in lines)
    assert any(line.startswith("ERROR:    pillion: job ") and "ValueError: as it pleases" in line for line in lines)


def test_with_logging_configured_nothing_is_said_twice_or_elsewhere() -> None:
    lines = said("logging.basicConfig(level=logging.INFO, format='%(name)s|%(levelname)s|%(message)s')")
    assert not any(line.startswith(("INFO:  ", "ERROR:  ")) for line in lines)
    assert len([line for line in lines if line.startswith("pillion|ERROR|job ")]) == 1
    assert len([line for line in lines if line.startswith("pillion|INFO|draining")]) == 1


def test_a_level_of_the_users_own_is_honoured() -> None:
    assert not any("draining" in line for line in said("logging.getLogger('pillion').setLevel(logging.ERROR)"))
