"""Every scenario under every framework."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.kits import KITS, Kit
from adapters.scenarios import enqueueing, health_answers, health_routes, lifespans, loops
from adapters.scenarios.world import SCENARIOS, Scenario, World, runs_on_a_loop

MODULES = (enqueueing, lifespans, loops, health_routes, health_answers)  # importing them fills the list


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
def test(kit: Kit, scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(kit, tmp_path, caplog)
    if runs_on_a_loop(scenario):
        asyncio.run(scenario(world))
    else:
        scenario(world)
