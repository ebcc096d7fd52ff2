"""The lists of gates under which slots are stored."""

from collections.abc import AsyncIterator
from typing import Final

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import scanned

_PAGE: Final = 200


async def slot_gate_pages(client: StoreClient, keys: Keys) -> AsyncIterator[list[str]]:
    """Yield pages of the names under which slots are stored, as in slots:{gates}. A name is a list of unkeyed gates or
    a single keyed gate. A page may be empty.

    Reads the indexes. A keyed gate stays in them while any of its jobs runs.
    """
    async for found in scanned(client, "SSCAN", keys.slot_lists, count=_PAGE):
        yield [raw.decode() for raw in found]
    for cid in sorted(await client.command("SMEMBERS", keys.counted)):
        async for flat in scanned(client, "HSCAN", keys.gates(cid.decode()), count=_PAGE):
            gates = [raw.decode() for raw in flat[::2]]
            has_slots = await client.pipeline([("EXISTS", keys.slots(gate)) for gate in gates])
            yield [gate for gate, is_there in zip(gates, has_slots, strict=True) if is_there]
