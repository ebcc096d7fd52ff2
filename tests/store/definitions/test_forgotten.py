"""Up to which instant the run records of a definition may have been removed."""

import pytest

from jqmaster.store.definitions.documents import forgotten_until_ms
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D7")


@pytest.mark.parametrize(
    ("memory", "first_ms", "handled_ms", "until_ms"),
    [
        (b"d 500 600", 600, 900, 500),
        (b"d 500 ", 700, 900, 500),
        # A former release removed records since.
        (b"d 500 600", 700, 900, 699),
        (b"d 500 600", None, 900, 900),
        # The memory is that of a definition of the same name that is gone.
        (b"other 500 600", 700, 900, 699),
        (None, 700, 900, 699),
        (None, None, 900, 900),
    ],
)
def test_the_store_knows_until_when_records_were_removed(
    memory: bytes | None, first_ms: int | None, handled_ms: int, until_ms: int
) -> None:
    assert forgotten_until_ms("d", memory, first_ms, handled_ms) == until_ms


async def test_records_are_read_by_their_instants_and_nothing_is_forgotten_at_first(
    world: StoreWorld,
) -> None:
    definitions = Definitions(world)
    known = await definitions.put()
    world.pass_ms(MINUTE_MS + 20)
    await definitions.fire()
    (run,) = await definitions.runs()
    store, name = definitions.store, known.stored.definition.name
    assert await store.recorded(name, run.due_at_ms, run.due_at_ms + 1) == [run]
    assert await store.recorded(name, run.due_at_ms + 1, run.due_at_ms + 2) == []
    assert await store.forgotten_until_ms(known) in (None, run.due_at_ms - 1)
