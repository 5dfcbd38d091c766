"""`make bench`, or `python -m bench`: measure, print one table, keep all runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.place import Place
from bench.plan import QUICK, Case, Scale, cases
from bench.table import render

_HERE = Path(__file__).resolve().parent


def main() -> None:
    """Parse, run, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round: does it run at all?")
    parser.add_argument("--rounds", type=int, help="runs of each system (3)")
    parser.add_argument("--jobs", type=int, help="jobs of a throughput run (30,000)")
    parser.add_argument("--only", default="", help="cases that start so, as in throughput.async,enqueue")
    parser.add_argument("--systems", default="", help="these alone, as in pillion,tinyjobs")
    parser.add_argument("--folder", type=Path, default=_HERE / "runs" / "tmp", help="where the databases live")
    parser.add_argument("--keep", type=Path, help="the file for all runs (bench/runs/<date>.json)")
    parser.add_argument("--show", type=Path, help="print the table of a kept file; measure nothing")
    given = parser.parse_args()
    if given.show:
        kept = json.loads(given.show.read_text())
        print(f"{machine.text(kept['about'])}\n\n{render(kept['runs'])}")
        return
    scale = QUICK if given.quick else Scale()
    chosen = {name: value for name in ("rounds", "jobs") if (value := getattr(given, name)) is not None}
    scale = replace(scale, **chosen)
    wanted = [case for case in cases(scale) if case.key.startswith(tuple(given.only.split(",")))]
    names = set(given.systems.split(",")) if given.systems else None
    place = Place(given.folder)
    about = machine.describe(given.folder)
    begun = datetime.now().astimezone()
    print(machine.text(about), flush=True)
    runs = measure(place, wanted, scale.rounds, names)
    place.remove()
    table = render(runs)
    print(f"\n{table}")
    keep = given.keep or _HERE / "runs" / f"{begun:%Y-%m-%d-%H%M}.json"
    keep.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        "begun": begun.isoformat(),
        "about": about,
        "scale": asdict(scale),
        "runs": runs,
        "table": table.splitlines(),
    }
    keep.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print(f"\nall runs: {keep}")


def measure(place: Place, wanted: Sequence[Case], rounds: int, names: set[str] | None) -> dict[str, Any]:
    """All runs: in each round every system once, the first one another each time."""
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for case in wanted:
        systems = [name for name in case.systems if names is None or name in names or not name]
        found = runs.setdefault(case.key, {name: [] for name in systems})
        for turn in range(min(rounds, case.rounds or rounds)):
            first = turn % max(len(systems), 1)
            for name in systems[first:] + systems[:first]:
                since = time.monotonic()
                figures = case.run(place, name, turn)
                found[name].append(figures)
                shown = " ".join(f"{key}={value:,.2f}" for key, value in figures.items())
                seconds = time.monotonic() - since
                print(f"{case.key:20} {name or 'no worker':16} {seconds:5.1f} s  {shown}", file=sys.stderr, flush=True)
    return runs


if __name__ == "__main__":
    main()
