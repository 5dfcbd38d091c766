"""How free slots are shared out over queues and kinds before an exchange asks for jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pillion.model import Claim, Kind, Settlement, Want

_MOST: Final = 100  # wants an exchange; with more queues than that, they take turns


def share(
    free: Mapping[Kind, int],
    queues: Sequence[str],
    room: Mapping[str, int],
    *,
    turn: int,
    suspect: bool,
) -> list[Want]:
    """Split `free` slots of each kind over `queues` so that the sum never exceeds what is free.

    `room` holds what per-queue limits leave (absent: no limit). Slots are split evenly; `turn` rotates who
    gets the remainder, so that one free slot visits every queue. `suspect` asks for one suspect instead of one
    ordinary job, from one (queue, kind) a turn.
    """
    wants: list[Want] = []
    count = len(queues)
    left = dict(room)
    for kind, slots in free.items():
        unshared = slots
        for position in range(count):
            queue = queues[(turn + position) % count]
            share_here = -(-unshared // (count - position))
            if queue in left:
                share_here = min(share_here, left[queue])
                left[queue] -= share_here
            if share_here > 0:
                wants.append(Want(queue, kind, False, share_here))
                unshared -= share_here
    if suspect and wants:
        place = turn % len(wants)
        chosen = wants[place]
        asked = Want(chosen.queue, chosen.kind, True, 1)
        if chosen.slots == 1:
            wants[place] = asked
        else:
            wants[place] = Want(chosen.queue, chosen.kind, False, chosen.slots - 1)
            wants.append(asked)
    return wants[:_MOST]


def more_expected(wants: Sequence[Want], claims: Sequence[Claim], settled: Sequence[Settlement]) -> bool:
    """Whether another exchange at once may bring more: a want was filled, or a settlement made a job ready."""
    if any(settlement.state == "queued" for settlement in settled):
        return True
    if not claims:
        return False
    counts: dict[tuple[str, Kind, bool], int] = {}
    for claim in claims:
        sort = (claim.queue, claim.kind, claim.suspect)
        counts[sort] = counts.get(sort, 0) + 1
    return any(counts.get((want.queue, want.kind, want.suspect), 0) >= want.slots for want in wants)
