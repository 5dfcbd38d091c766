from __future__ import annotations

import subprocess
from pathlib import Path


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run to the end and give its output; a failure shows all of it."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}"
    return done.stdout
