"""The numbered exchanges of one link. One is never cancelled; unanswered, it is repeated under its number."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from pillion import failure
from pillion.errors import StoreAway, StoreContended, StoreData
from pillion.model import Claim, Exchanged, Settlement, Want
from pillion.policy import transitions
from pillion.policy.retention import Retention
from pillion.store.base import Link

log = logging.getLogger("pillion")
_FIRST_PAUSE: Final = 0.02  # seconds before an unanswered exchange is repeated; doubles up to the last
_LAST_PAUSE: Final = 1.0
_NOTHING: Final = Exchanged("alive", [], [])


class Exchanges:
    """Counts up with every exchange of `link`; `only` gives the task names to claim, or None for any."""

    def __init__(
        self, link: Link, only: Callable[[], Sequence[str] | None], retention: Retention, number: int = 0
    ) -> None:
        self._link = link
        self._only = only
        self._retention = retention
        self.number = number  # of the last exchange under this link
        self.trouble: str | None = None  # why the last exchange was not answered
        self.interrupted = number > 0  # an answer may have been lost since somebody last looked
        self.last_answer = 0.0  # monotonic; 0: none yet

    async def exchange(self, settled: Sequence[Settlement], want: Sequence[Want]) -> Exchanged:
        """Settle and claim. What the store refuses as a group is handed in one by one, and nothing is claimed."""
        try:
            return await self._answered(settled, want)
        except StoreData:
            for settlement in settled:
                await self._alone(settlement)
            return _NOTHING

    async def held(self) -> list[Claim] | None:
        """What runs under this link; None if the store cannot tell now."""
        try:
            return await self._link.held()
        except (StoreAway, StoreContended):
            return None

    async def _answered(self, settled: Sequence[Settlement], want: Sequence[Want]) -> Exchanged:
        self.number += 1
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = await self._link.exchange(self.number, settled, want, self._only())
            except (StoreAway, StoreContended) as error:
                if self.trouble is None:
                    log.warning("the store cannot be used now (%s); outcomes are kept and handed in again", error)
                self.trouble = str(error)
                self.interrupted = True
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, _LAST_PAUSE)
            else:
                if self.trouble is not None:
                    log.warning("the store can be used again")
                    self.trouble = None
                self.last_answer = time.monotonic()
                return answer

    async def _alone(self, settlement: Settlement) -> None:
        """Hand in one outcome; a culprit goes in as failed, with a text that any store takes."""
        try:
            await self._answered([settlement], ())
        except StoreData as error:
            log.error("the store refused the outcome of a job (%s); it is recorded as failed", error)
            reason = failure.text("StoreData", "the store refused this job's outcome; see the log of its process")
            await self._answered([transitions.refused(settlement, reason, self._retention)], ())
