"""The exchange: settle and claim in one atomic step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pillion.errors import StoreData
from pillion.model import Claim, Exchanged, Settlement, Standing, Want
from pillion.store.sqlite.desk import Desk, json_text
from pillion.store.sqlite.settle import settle
from pillion.store.sqlite.statements import Value

# SQLite has no booleans: 0 and 1 are taken for them.
_claims = msgspec.json.Decoder(list[Claim], strict=False)


class _Look(NamedTuple):
    """What an exchange finds."""

    last: int | None  # number of the link's last exchange; None: it has no link
    standing: Standing
    due_in_us: int | None  # until the next scheduled job
    claims: list[Claim]  # what it may claim, as it will be claimed


class Exchange:
    """One numbered exchange of a link, as two functions over the desk."""

    __slots__ = ("_link", "_number", "_only", "_settled", "_wants", "_worker")

    def __init__(
        self,
        worker: str,
        link: int,
        number: int,
        settled: Sequence[Settlement],
        wants: Sequence[Want],
        only: Sequence[str] | None,
    ) -> None:
        self._worker = worker
        self._link = link
        self._number = number
        self._settled = settled
        self._wants = _merged(wants)
        self._only = None if only is None else json_text(list(only))

    def peek(self, desk: Desk) -> Exchanged | None:
        """Answer an exchange that settles nothing without writing, if it claims nothing either; None: it does."""
        look = self._look(desk)
        if look.last is not None and self._number <= look.last:
            return self._repeated(desk, look)
        if look.standing == "alive" and look.claims:
            return None
        return Exchanged(look.standing, [], [], look.due_in_us)

    def write(self, desk: Desk) -> Exchanged:
        """Settle, then claim."""
        advanced = desk.run("link_advance", (self._worker, self._link, self._number))
        if not advanced:
            # A condemned worker's link is gone; what it settles still counts while nobody has rescued the job.
            look = self._look(desk)
            if look.last is not None:
                return self._repeated(desk, look)
        refused = settle(desk, self._settled, self._worker, self._link, self._number) if self._settled else []
        look = self._look(desk)
        if look.standing != "alive":
            return Exchanged(look.standing, [], refused, look.due_in_us)
        if look.claims:
            seqs = json_text([claim.seq for claim in look.claims])
            desk.more = desk.more or _filled(self._wants, look.claims)
            desk.run("mark_running", (self._worker, self._link, self._number, desk.wall_us(), seqs))
        return Exchanged(look.standing, look.claims, refused, look.due_in_us)

    def _look(self, desk: Desk) -> _Look:
        """How the link and its worker stand, and what the wants may have now, in order: one statement."""
        values: list[Value] = [self._worker, self._link, desk.steady_us(), self._worker]
        if self._wants:
            values.append(self._number)
            for want in self._wants:
                values += (want.queue, want.kind, want.suspect)
                if self._only is not None:
                    values.append(self._only)
                values.append(want.slots)
            text = desk.sql.claimable(len(self._wants), self._only is not None)
            last, standing, due, claims = desk.row_text(text, values)
        else:
            last, standing, due = desk.row("link_standing", values)
            claims = None
        return _Look(
            last,
            "dead" if last is None or standing is None else standing,
            None if due is None else max(0, due - desk.wall_us()),
            [] if claims is None else _claims.decode(claims),
        )

    def _repeated(self, desk: Desk, look: _Look) -> Exchanged:
        """The answer to a number that is not above the link's last."""
        if look.last != self._number:
            raise StoreData(
                f"exchange {self._number} of link {self._worker}/{self._link} comes after {look.last}; "
                "numbers only grow"
            )
        return Exchanged(look.standing, held(desk, self._worker, self._link, self._number), [], look.due_in_us)


def _filled(wants: Sequence[Want], claims: Sequence[Claim]) -> bool:
    """True if some want got all that it asked for: there may be more of its sort, for others."""
    if len(wants) == 1:
        return len(claims) >= wants[0].slots
    sorts = Counter((claim.queue, claim.kind, claim.suspect) for claim in claims)
    return any(sorts[want.queue, want.kind, want.suspect] >= want.slots for want in wants)


def _merged(wants: Sequence[Want]) -> list[Want]:
    """`wants` with a slot at least, those of one sort as one: a job must not be claimed twice in a step."""
    found: dict[tuple[str, str, bool], Want] = {}
    for want in wants:
        if want.slots > 0:
            sort = (want.queue, want.kind, want.suspect)
            other = found.get(sort)
            slots = want.slots + (0 if other is None else other.slots)
            found[sort] = want if other is None else Want(want.queue, want.kind, want.suspect, slots)
    return list(found.values())


def held(desk: Desk, worker: str, link: int, ticket: int | None = None) -> list[Claim]:
    """What runs under a link; of one exchange if `ticket` is given."""
    return _claims.decode(desk.row("held", (worker, link, ticket))[0])
