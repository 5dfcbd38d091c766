"""The exchange: settle and claim in one atomic step."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pillion.errors import StoreData
from pillion.model import Claim, Exchanged, Settlement, Standing, Want
from pillion.store.sqlite.desk import Desk, json_text
from pillion.store.sqlite.settle import settle
from pillion.store.sqlite.statements import Value

# SQLite has no booleans: 0 and 1 are taken for them.
_claims = msgspec.json.Decoder(list[Claim], strict=False)


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
        self._wants = [want for want in wants if want.slots > 0]
        self._only = None if only is None else json_text(list(only))

    def peek(self, desk: Desk) -> Exchanged | None:
        """Answer an exchange that settles nothing without writing, if it claims nothing either; None: it may."""
        last, standing, due_in = self._look(desk)
        if last is not None and self._number <= last:
            return self._repeated(desk, last, standing, due_in)
        if standing == "alive" and self._claimable(desk):
            return None
        return Exchanged(standing, [], [], due_in)

    def write(self, desk: Desk) -> Exchanged:
        """Settle, then claim."""
        advanced = desk.run("link_advance", (self._worker, self._link, self._number))
        if not advanced:
            # A condemned worker's link is gone; what it settles still counts while nobody has rescued the job.
            last, standing, due_in = self._look(desk)
            if last is not None:
                return self._repeated(desk, last, standing, due_in)
        refused = settle(desk, self._settled, self._worker, self._link, self._number) if self._settled else []
        _, standing, due_in = self._look(desk)
        claims: list[Claim] = []
        if advanced and standing == "alive" and self._wants:
            claims = self._claimable(desk)
            if claims:
                seqs = json_text([claim.seq for claim in claims])
                desk.run("mark_running", (self._worker, self._link, self._number, desk.wall_us(), seqs))
        return Exchanged(standing, claims, refused, due_in)

    def _look(self, desk: Desk) -> tuple[int | None, Standing, int | None]:
        """The link's last number (None: it has no link), the worker's standing, the time until the next due job."""
        last, standing, due = desk.row("link_standing", (self._worker, self._link, desk.steady_us()))
        due_in = None if due is None else max(0, due - desk.wall_us())
        if last is None:
            return None, "dead", due_in
        return last, standing or "dead", due_in

    def _repeated(self, desk: Desk, last: int, standing: Standing, due_in: int | None) -> Exchanged:
        if self._number < last:
            raise StoreData(
                f"exchange {self._number} of link {self._worker}/{self._link} comes after {last}; numbers only grow"
            )
        return Exchanged(standing, held(desk, self._worker, self._link, last), [], due_in)

    def _claimable(self, desk: Desk) -> list[Claim]:
        """What the wants may have now, in order."""
        if not self._wants:
            return []
        values: list[Value] = [self._number]
        for want in self._wants:
            values += (want.queue, want.kind, want.suspect)
            if self._only is not None:
                values.append(self._only)
            values.append(want.slots)
        text = desk.sql.claimable(len(self._wants), self._only is not None)
        return _claims.decode(desk.row_text(text, values)[0])


def held(desk: Desk, worker: str, link: int, ticket: int | None = None) -> list[Claim]:
    """What runs under a link; of one exchange if `ticket` is given."""
    return _claims.decode(desk.row("held", (worker, link, ticket))[0])
