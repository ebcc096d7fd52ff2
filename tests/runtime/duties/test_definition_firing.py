"""The leader's duty that fires definitions: when it looks again, and that it ends with its leadership."""

import pytest

from jqmaster.errors import StaleEpochError, StoreUnavailableError
from jqmaster.runtime.duties.due_loop import POLL_S, DueLoop
from jqmaster.store.leadership.leadership import Leadership
from tests.support.clock import ManualClock
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import StoreWorld


def loop_on(definitions: Definitions, epoch: str, stale: list[str] | None = None) -> DueLoop:
    told = [] if stale is None else stale
    return DueLoop(
        "definitions",
        Leadership(epoch, "master-1"),
        definitions.firing.fire_due,
        ManualClock(),
        complaint="cannot fire definitions",
        on_stale=lambda: told.append("stale"),
    )


@pytest.mark.req("D7")
async def test_it_looks_again_when_the_next_instant_is_due(world: StoreWorld) -> None:
    definitions = Definitions(world)
    loop = loop_on(definitions, world.epoch)
    assert await loop._round() == POLL_S
    await definitions.put()
    assert await loop._round() == POLL_S
    world.pass_ms(MINUTE_MS - 250)
    assert await loop._round() == 0.25
    world.pass_ms(250)
    assert await loop._round() == 0
    assert len(await definitions.runs()) == 1
    assert await loop._round() == POLL_S


async def test_an_instant_that_cannot_be_written_is_tried_again(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = Definitions(world)
    loop = loop_on(definitions, world.epoch)
    await definitions.put()
    world.pass_ms(MINUTE_MS)

    async def fail(*given: object, **named: object) -> None:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(definitions.store, "fire", fail)
        with pytest.raises(StoreUnavailableError):
            await loop._round()
    await loop._round()
    assert await definitions.outcomes() == [(1, "fired", "")]


async def test_it_ends_with_its_leadership(world: StoreWorld) -> None:
    definitions, stale = Definitions(world), list[str]()
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    loop = loop_on(definitions, await world.reelect(), stale)
    with pytest.raises(StaleEpochError) as refused:
        await loop._round()
    assert loop._is_over(refused.value)
    assert stale == ["stale"]
    assert await definitions.runs() == []
