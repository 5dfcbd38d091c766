"""Folders of a run: a fresh one for each measurement, and databases that were filled once and are copied."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import Child
from bench.systems import system


class Place:
    """Everything in a folder of its own under `parent`."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        self._root = Path(tempfile.mkdtemp(prefix="bench-", dir=parent)).resolve()
        self._count = 0
        # Packages from this tree start from bytecode, as installed ones do.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(self._root / "bytecode")

    @contextmanager
    def folder(self, seed: Path | None = None) -> Iterator[Path]:
        """A folder of its own, a copy of `seed` if given; gone afterwards, unless something failed."""
        self._count += 1
        path = self._root / f"{self._count:03}"
        if seed is None:
            path.mkdir()
        else:
            shutil.copytree(seed, path)
        os.sync()
        yield path
        shutil.rmtree(path)

    def filled(self, name: str, task: str, jobs: int) -> Path:
        """A folder with a database in which `jobs` jobs wait; filled at first use."""
        path = self._root / f"seed-{name.replace(':', '-')}-{task}-{jobs}"
        if not path.exists():
            path.mkdir()
            with Child("bench.child", ["fill", name, path, path / "ledger", jobs, task], path / "log") as child:
                child.ready().go()
                child.finish()
            (path / "ledger").unlink()
            found = system(name).count_stored(path)
            assert found == jobs, f"{name} stored {found} of {jobs} jobs"
        return path

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._root, ignore_errors=True)
