"""Jobs stored a second, by one process in which nothing else happens."""

from __future__ import annotations

from bench.place import Place
from bench.process import Child
from bench.systems import system


def enqueue(place: Place, name: str, way: str, jobs: int) -> dict[str, float]:
    """`way`: one (awaited one by one), fifty (at once, from one loop), bulk (one call, where there is one)."""
    task = "noop_async" if "async" in system(name).kinds else "noop_def"
    with place.folder() as folder:
        args = ["enqueue", name, folder, folder / "ledger", jobs, task, way]
        with Child("bench.child", args, folder / "log") as child:
            child.ready().go()
            answer: dict[str, float] = child.answer()
        found = system(name).count_stored(folder)
        assert found == jobs, f"{name} stored {found} of {jobs} jobs"
        return answer
