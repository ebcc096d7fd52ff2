"""Sealed jobs at a real master: flows, batches and retries work, and nothing readable is in the store."""

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from jqmaster.app import Master
from tests.api.jobs.test_job_actions import traces_of
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import INJECTED, INPUT, Batch, Context, JobFailed, Pusher, Seal, Tasks, Worker, chain

pytestmark = [real_time.MASTER, pytest.mark.req("S7", "S14")]

SECRET = "4111-1111-1111-1111-7f"
KEYS = {"2026b": Seal.new_key(), "2026a": Seal.new_key()}


class Cards:
    """Sealed tasks that record what they saw."""

    def __init__(self, url: str) -> None:
        self.tasks = Tasks(master=url, seal=Seal(keys=KEYS))
        self.seen: list[Any] = []
        seen = self.seen

        @self.tasks.task("card.load", keep_result=True)
        async def load(card: str) -> str:
            return card

        @self.tasks.task("card.use", keep_result=True)
        async def use(card: str = INPUT, ctx: Context = INJECTED) -> str:
            await ctx.step("remember", remember, card)
            await ctx.save({"card": card})
            seen.append(ctx.inputs[0].result if ctx.inputs else card)
            return card

        @self.tasks.task("card.refuse", max_retry=0, keep_result=True)
        async def refuse(card: str) -> None:
            raise ValueError(f"no such card: {card}")

        async def remember(card: str) -> str:
            return card

        self.load, self.use, self.refuse = load, use, refuse


async def traces(master: Master) -> list[str]:
    """Return the keys of the store in which the text is readable."""
    return await traces_of(admin_of(master.shard.services.link.client), master, SECRET)


async def test_the_results_of_a_flow_stay_sealed_on_the_way(master: Master, url: str, pusher: Pusher) -> None:
    cards = Cards(url)
    handles = await chain(cards.load.to_job(SECRET), cards.use.to_job()).aenqueue()
    assert await traces(master) == []
    async with Worker(url, tasks=[cards.tasks]).running():
        assert await handles.last.aget(timeout=20) == SECRET
    assert cards.seen == [SECRET]
    # Its argument, both results, the checkpoint and the step are still kept.
    assert await traces(master) == []
    shown = await pusher.status(handles.last.id)
    assert (shown["state"], SECRET in str(shown)) == ("succeeded", False)
    await cards.tasks.aclose()


async def test_members_and_callbacks_of_a_batch_are_sealed(master: Master, url: str) -> None:
    cards = Cards(url)
    async with Batch(on_success=cards.use.to_job(SECRET)) as batch:
        await batch.aadd([cards.load.to_job(SECRET)])
        await cards.load.using(batch=batch).aenqueue(SECRET)
    assert await traces(master) == []
    async with Worker(url, tasks=[cards.tasks]).running():
        await wait_until(lambda: cards.seen == [SECRET])
    assert await traces(master) == []
    await cards.tasks.aclose()


async def test_a_wrong_key_is_one_clear_failure_and_no_retry(url: str, api: Api) -> None:
    cards, strangers = Cards(url), Tasks(master=url, seal=Seal(keys={"2026b": Seal.new_key()}))
    strangers.task("card.load")(cards.load.function)
    handle = await cards.load.aenqueue(SECRET)
    async with Worker(url, tasks=[strangers]).running():
        with pytest.raises(JobFailed, match="cannot be opened with the key 2026b: another key has this ID"):
            await handle.aget(timeout=20)
    _, job = await api.call("GET", f"/api/jobs/{handle.id}")
    assert (job["state"], job["cause"], job["attempt"]) == ("failed", "undecodable", 1)
    # Operators have to know which key is missing.
    assert "the key 2026b" in str(job)
    # With the right key, people run it again.
    assert (await api.call("POST", f"/api/jobs/{handle.id}/retry"))[0] == 200
    async with Worker(url, tasks=[cards.tasks]).running():
        assert await cards.load.handle(handle.id).aget(timeout=20) == SECRET
    await asyncio.gather(cards.tasks.aclose(), strangers.aclose())


async def test_the_error_of_a_sealed_job_is_told_to_its_pusher_alone(master: Master, url: str) -> None:
    cards = Cards(url)
    handle = await cards.refuse.aenqueue(SECRET)
    async with Worker(url, tasks=[cards.tasks]).running():
        with pytest.raises(JobFailed, match=f"no such card: {SECRET}"):
            await handle.aget(timeout=20)
    assert await traces(master) == []
    await cards.tasks.aclose()


async def test_lists_searches_and_redaction_say_sealed(store_server: StoreServer) -> None:
    async with master_on(store_server.url, redact_paths=["argument.tenant", "argument.card"]) as (
        master,
        api,
    ):
        url = master.server.url
        cards = Cards(url)
        cards.tasks.seal = Seal(keys=KEYS, clear=["tenant"])

        @cards.tasks.task("card.of_tenant", max_retry=0)
        async def of_tenant(tenant: str, card: str) -> None:
            raise ValueError(f"no such card: {card}")

        handle = await of_tenant.aenqueue("acme", card=SECRET)
        shown = await api.job(handle.id)
        assert (shown["argument"]["sealed_with"], shown["argument"]["tenant"]) == ("2026b", "[redacted]")
        assert set(shown["argument"]) == {"sealed_with", "sealed", "tenant"}
        async with Worker(url, tasks=[cards.tasks]).running():
            await api.until_state(handle.id, "failed")
        by_argument = {"field": "argument.sealed_with", "op": "eq", "value": "2026b"}
        for query, count in (
            ({"tag": "sealed:2026b"}, 1),
            ({"text": "sealed with 2026b"}, 1),
            ({"matcher": json.dumps(by_argument)}, 1),
            ({"text": SECRET}, 0),
        ):
            _, found = await api.call("GET", f"/api/jobs?{urlencode(query)}")
            assert [one["id"] for one in found["jobs"]] == [handle.id] * count, query
        await cards.tasks.aclose()
