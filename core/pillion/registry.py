"""The tasks of one `Jobs`, by name and alias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pillion.errors import ConfigurationError
from pillion.task import Task


class Registry(Mapping[str, Task[..., Any]]):
    """Names are unique: a job must never find another function than the one it was made for."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}

    def add(self, task: Task[..., Any]) -> None:
        """Register under its name and aliases. Raises `ConfigurationError` for a name that is taken."""
        for name in (task.name, *task.aliases):
            known = self._tasks.get(name)
            if known is not None:
                raise ConfigurationError(
                    f"two tasks are called {name!r}; give one of them another name with @jobs.task(name=…)"
                )
        for name in (task.name, *task.aliases):
            self._tasks[name] = task

    def tasks(self) -> list[Task[..., Any]]:
        """Every task once."""
        return list(dict.fromkeys(self._tasks.values()))

    def __getitem__(self, name: str) -> Task[..., Any]:
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)
