"""One event loop's way into the store for callers: enqueues gather into groups, each within its deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pillion import eager
from pillion.errors import EnqueueUnknown, StoreAway, StoreContended, StoreData, StoreUnavailable
from pillion.model import Enqueued, NewJob
from pillion.store.base import Link

DEADLINE: Final = 5.0  # seconds an enqueue may take before it says which error it is
GROUP: Final = 1000  # jobs a store call; bounds a transaction
_FIRST_PAUSE: Final = 0.02  # seconds; doubles up to the last
_LAST_PAUSE: Final = 0.5


class _Call:
    """One caller's jobs, on their way."""

    __slots__ = ("answer", "expires", "flying", "jobs")

    def __init__(self, jobs: Sequence[NewJob], answer: asyncio.Future[list[Enqueued]], expires: float) -> None:
        self.jobs = jobs
        self.answer = answer
        self.expires = expires  # on the loop's clock
        self.flying = False  # handed to the store, no answer yet


class Client:
    """Enqueues of one loop. While one group is with the store, the next gathers."""

    def __init__(self, connect: Callable[[], Awaitable[Link]], loop: asyncio.AbstractEventLoop) -> None:
        self._connect = connect
        self._link: Link | None = None
        self._connecting = asyncio.Lock()
        self._loop = loop
        self._waiting: deque[_Call] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._gathering = False  # a group starts at the loop's next turn
        self._open: deque[_Call] = deque()  # not answered when last looked at, in the order of their deadlines
        self._expiry: asyncio.TimerHandle | None = None
        self._trouble = ""  # why nothing can be stored now

    async def link(self) -> Link:
        """This loop's link, made at first use. Raises the store's errors, `WrongSchema` among them."""
        if self._link is None:
            async with self._connecting:
                if self._link is None:
                    self._link = await self._connect()
        return self._link

    async def aclose(self) -> None:
        """Let what was sent be answered, for a second at most, then close the link."""
        if self._pump is not None:
            await asyncio.wait([self._pump], timeout=1.0)
        if self._pump is not None:  # what is not answered by now will not be here
            self._pump.cancel()
        for call in self._open:
            _fail(call, _late(call, ": this loop is closing"))
        self._open.clear()
        self._waiting.clear()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._link is not None:
            await self._link.aclose()
            self._link = None

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store `jobs`, all or none, within `DEADLINE`.

        Raises `StoreData` if the store refuses them, `StoreUnavailable` if they were surely not stored in time, and
        `EnqueueUnknown` if they were sent and not answered. Cancelling the caller never cancels what was sent.
        """
        call = _Call(jobs, self._loop.create_future(), self._loop.time() + DEADLINE)
        self._waiting.append(call)
        self._open.append(call)
        if self._pump is None and not self._gathering:
            self._gathering = True
            self._loop.call_soon(self._start)  # what else is enqueued in this turn comes along
        if self._expiry is None:
            self._expiry = self._loop.call_later(DEADLINE, self._expire)
        return await call.answer

    def _start(self) -> None:
        self._gathering = False
        pump = eager.start(self._send_groups(), self._loop)
        if not pump.done():
            self._pump = pump

    def _expire(self) -> None:
        """One timer for all calls: tell those whose time is over, wait for the next."""
        now = self._loop.time()
        while self._open and (self._open[0].answer.done() or self._open[0].expires <= now):
            call = self._open.popleft()
            if not call.answer.done():
                _fail(call, _late(call, self._trouble))
        self._expiry = self._loop.call_at(self._open[0].expires, self._expire) if self._open else None

    async def _send_groups(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while self._waiting:
                group = self._next_group()
                try:
                    await self._send(group)
                    pause, self._trouble = _FIRST_PAUSE, ""
                except (StoreAway, StoreContended) as error:
                    self._trouble = f": {error}"
                    # Not written: the same calls go first again. Expired ones leave at the next gathering.
                    self._waiting.extendleft(reversed(group))
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LAST_PAUSE)
        finally:
            self._pump = None

    def _next_group(self) -> list[_Call]:
        group: list[_Call] = []
        size = 0
        while self._waiting:
            call = self._waiting[0]
            if call.answer.done():  # expired, or its caller is gone before anything was sent
                self._waiting.popleft()
                continue
            if group and size + len(call.jobs) > GROUP:
                break
            group.append(self._waiting.popleft())
            size += len(call.jobs)
        return group

    async def _send(self, group: list[_Call]) -> None:
        if not group:
            return
        try:
            link = await self.link()
            for call in group:
                call.flying = True
            answers = await link.enqueue([job for call in group for job in call.jobs])
        except StoreData as error:
            for call in group:
                call.flying = False
            if len(group) == 1:
                _fail(group[0], error)
                return
            for call in group:  # only the culprit's caller sees it
                await self._send([call])
            return
        except (StoreAway, StoreContended):
            for call in group:
                call.flying = False
            raise
        except Exception as error:  # a wrong schema, say: every caller is told
            for call in group:
                _fail(call, error)
            return
        start = 0
        for call in group:
            end = start + len(call.jobs)
            call.flying = False
            if not call.answer.done():
                call.answer.set_result(answers[start:end])
            start = end
        while self._open and self._open[0].answer.done():
            self._open.popleft()


def _late(call: _Call, trouble: str) -> Exception:
    if call.flying:
        return EnqueueUnknown(
            f"the store did not answer within {DEADLINE:g} s; the job may or may not be stored: "
            "await error.job.ensure() to settle it"
        )
    return StoreUnavailable(f"nothing was stored: the store could not be used within {DEADLINE:g} s{trouble}")


def _fail(call: _Call, error: BaseException) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
