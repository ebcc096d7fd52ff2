"""Three master processes and two stores: the leads of the namespaces are spread over the masters, and follow them."""

import contextlib
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from jqmaster.domain.namespaces.leads import most_leads, owners
from jqmaster.domain.namespaces.namespace import DEFAULT
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(180),
    pytest.mark.req("D29"),
    real_time.PROCESSES,
]
NAMES = {**dict.fromkeys(("cart", "mail", "shop", "stock"), "b"), "news": "default", "pay": "default"}


class Spread:
    """Masters of an installation with `NAMES`, and what its stores say of the leads."""

    def __init__(self, stores: dict[str, StoreServer], directory: Path) -> None:
        self.stores = stores
        self.shard = f"s{uuid.uuid4().hex[:10]}"
        self.masters: list[MasterProcess] = []
        for name in "xyz":
            (directory / name).mkdir()
            self.masters.append(
                MasterProcess(
                    directory / name,
                    stores["default"].url,
                    shard=self.shard,
                    stores__b__redis_url=stores["b"].url,
                    store_timeout_s=1.0,
                )
            )
        self.clients = {name: StoreClient(store.url, connections=2) for name, store in stores.items()}

    async def create(self) -> None:
        api = Api(self.masters[0].url)
        for name, store in NAMES.items():
            fields = {"store": store, "tag": f"{self.shard}-{name}"}
            status, answer = await api.call("PUT", f"/api/namespaces/{name}", fields)
            assert status in (200, 201), answer
        await api.http.aclose()

    async def leads(self, *stores: str) -> dict[str, Leadership | None]:
        """Return who leads each namespace in these stores."""
        places = {DEFAULT: ("default", self.shard)}
        places |= {name: (store, f"{self.shard}-{name}") for name, store in NAMES.items()}
        return {
            name: await LeadershipStore(Shard(self.clients[store], Keys(tag))).current()
            for name, (store, tag) in places.items()
            if store in (stores or self.stores)
        }

    async def id_of(self, master: MasterProcess) -> str:
        api = Api(master.url)
        try:
            return str((await api.call("GET", "/healthz"))[1]["id"])
        finally:
            await api.http.aclose()

    async def until_led_by(self, ids: Iterable[str], *stores: str, timeout_s: float = 30) -> None:
        """Wait until each namespace in these stores has a leader, and it is one of these masters."""

        async def are_led() -> bool:
            found = await self.leads(*stores)
            return all(one is not None and one.master_id in set(ids) for one in found.values())

        await wait_until(are_led, timeout_s=timeout_s, what="the namespaces are led")

    async def until_spread(self, ids: Iterable[str], timeout_s: float = 45) -> None:
        """Wait until each namespace is led by the one of these masters that should lead it."""
        wanted = owners([DEFAULT, *NAMES], list(ids))

        async def is_spread() -> bool:
            found = await self.leads()
            return {name: one and one.master_id for name, one in found.items()} == wanted

        await wait_until(is_spread, timeout_s=timeout_s, what="the leads are spread")


@pytest.fixture
async def spread(tmp_path: Path) -> AsyncIterator[Spread]:
    with contextlib.ExitStack() as stack:
        stores = {name: StoreServer() for name in ("default", "b")}
        for store in stores.values():
            stack.enter_context(started(store))
        one = Spread(stores, tmp_path)
        stack.enter_context(running(*one.masters))
        await one.create()
        yield one
        for client in one.clients.values():
            await client.close()


async def test_leads_are_spread_over_the_masters_and_follow_those_that_come_and_go(spread: Spread) -> None:
    ids = [await spread.id_of(master) for master in spread.masters]
    await spread.until_spread(ids)
    before = await spread.leads()
    counts = Counter(one.master_id for one in before.values() if one)
    assert max(counts.values()) <= most_leads(1 + len(NAMES), 3)

    # Without the store of the installation, the locks of each other store decide alone.
    spread.stores["default"].signal(signal.SIGSTOP)
    try:
        spread.masters[2].kill()
        await spread.until_led_by(ids[:2], "b", timeout_s=15)
        for name, now in (await spread.leads("b")).items():
            lead = before[name]
            assert lead
            assert now
            # Nobody else's lead is lost for a master that dies.
            assert now == lead if lead.master_id != ids[2] else now.number > lead.number
    finally:
        spread.stores["default"].signal(signal.SIGCONT)
    await spread.until_led_by(ids[:2], timeout_s=15)

    spread.masters[2].start()
    ids[2] = await spread.id_of(spread.masters[2])
    await spread.until_spread(ids)
