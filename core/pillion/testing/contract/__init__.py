"""The store contract as tests: whoever writes a store runs them over it.

Needs pytest and pytest-asyncio (``asyncio_mode = "auto"``); this package itself imports neither. In your tests::

    import pytest
    from pillion.testing.contract import *  # the test classes
    from pillion.testing.contract import Rig

    pytest.register_assert_rewrite("pillion.testing.contract")   # in conftest.py, for readable failures

    @pytest.fixture
    async def rig(tmp_path):
        async with Rig(lambda: MyStore(f"mine://{tmp_path}")) as rig:
            yield rig

The function given to `Rig` builds a store, unopened. Each call stands for another process on the same data; a store
that cannot be shared is built once and returned again (``Rig(…, shared=False)`` does that). Tests move time through
``offset_us`` only, never sleep, and leave ids and task names behind in what they are given: use fresh data each time.
"""

from pillion.testing.contract.cancelling import TestCancel
from pillion.testing.contract.enqueueing import TestEnqueue, TestUniqueKeys
from pillion.testing.contract.exchanging import TestClaims, TestFence, TestNumbers, TestSettlements
from pillion.testing.contract.hinting import TestCheckpoints, TestHints
from pillion.testing.contract.leasing import TestBeat, TestMembership
from pillion.testing.contract.reading import TestReads
from pillion.testing.contract.rig import Rig, Seat
from pillion.testing.contract.sweeping import TestCondemn, TestRescue
from pillion.testing.contract.tending import TestPromote, TestPrune, TestTaskNames

__all__ = [
    "Rig",
    "Seat",
    "TestBeat",
    "TestCancel",
    "TestCheckpoints",
    "TestClaims",
    "TestCondemn",
    "TestEnqueue",
    "TestFence",
    "TestHints",
    "TestMembership",
    "TestNumbers",
    "TestPromote",
    "TestPrune",
    "TestReads",
    "TestRescue",
    "TestSettlements",
    "TestTaskNames",
    "TestUniqueKeys",
]
