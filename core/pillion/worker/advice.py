"""What the start warns of: slips that would show only much later, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pillion.model import Kind
from pillion.settings import Settings
from pillion.task import Task
from pillion.worker.crossing import loop_bound_globals

_NAMED: Final = 5  # tasks that a warning names


def warnings(
    settings: Settings, tasks: Sequence[Task[..., Any]], kind_of: Callable[[Task[..., Any]], Kind]
) -> list[str]:
    """Sentences for the log, usually none."""
    return [*settings.doubts, *_unserved(settings, tasks), *_crossings(tasks, kind_of)]


def _unserved(settings: Settings, tasks: Sequence[Task[..., Any]]) -> list[str]:
    names = [f"{task.name} ({task.queue!r})" for task in tasks if task.queue not in settings.queues]
    if not names:
        return []
    served = ", ".join(map(repr, settings.queues))
    warning = (
        f"this process serves only the queues {served}, not those of {', '.join(names[:_NAMED])}: unless another "
        "process does, name them in Jobs(queues=(…))"
    )
    return [warning]


def _crossings(tasks: Sequence[Task[..., Any]], kind_of: Callable[[Task[..., Any]], Kind]) -> list[str]:
    found = [
        f"{task.name} uses {', '.join(names)}"
        for task in tasks
        if kind_of(task) == "async" and (names := loop_bound_globals(task.fn))
    ]
    if not found:
        return []
    warning = (
        f"{'; '.join(found[:_NAMED])}: such objects belong to one event loop, and jobs run on their own. Make each a "
        '@jobs.resource, or run the task with loop="app"; one that routes use as well fails under load'
    )
    return [warning]
