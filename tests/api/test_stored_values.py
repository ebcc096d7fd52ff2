"""A store that an earlier release filled may hold values that cannot be decoded: every view survives them."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_at
from tests.support.master import Api, forget, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from worker_sdk import Pusher

pytestmark = real_time.MASTER

# Two values of the same length: one is accepted, the other one only an earlier release accepted.
ACCEPTED = b"\xc4\x03abc"
BROKEN = b"\xc7\x02\x80ab"
JSON = {"Accept": "application/json"}


@pytest.fixture(params=[[], ["argument.a", "result.**.a", "error.a"]], ids=["shown", "redacted"])
async def ended(
    request: pytest.FixtureRequest, store_server: StoreServer
) -> AsyncIterator[tuple[Api, dict[str, Any]]]:
    """A master, and what each view shows of such a value in a failed and in a succeeded job."""
    shard = f"v{uuid.uuid4().hex[:10]}"
    async with master_on(store_server.url, redact_paths=request.param, shard=shard) as (_, api):
        async with worker_at(api) as worker:
            failed = await api.enqueue("work", b"abc", keep_result=True, max_retry=0)
            await worker.end(await worker.next_job(), "failure", error=b"abc")
            succeeded = await api.enqueue("work", b"abc", keep_result=True)
            await worker.end(await worker.next_job(), result=b"abc")
        await break_values(store_server.url, shard, failed, succeeded)
        shown = "[redacted]" if request.param else BROKEN
        yield api, {"failed": failed, "succeeded": succeeded, "shown": shown}
    await forget(store_server.url, shard)


async def break_values(store_url: str, shard: str, failed: str, succeeded: str) -> None:
    client, keys = StoreClient(store_url, connections=2), Keys(shard)
    try:
        store = await admin_at(client, keys.job(failed))
        for job_id in (failed, succeeded):
            for key in (keys.job(job_id), keys.result(job_id)):
                stored = await store.get(key)
                assert ACCEPTED in stored
                await store.set(key, stored.replace(ACCEPTED, BROKEN), keepttl=True)
        (entry,) = await store.lrange(keys.history(failed), 0, -1)
        # The history keeps the encoded error as binary.
        assert ACCEPTED in entry
        await store.lset(keys.history(failed), 0, entry.replace(ACCEPTED, BROKEN))
    finally:
        await client.close()


@pytest.mark.req("J3")
async def test_the_view_of_a_job_shows_it_as_binary_or_not_at_all(ended: tuple[Api, dict[str, Any]]) -> None:
    api, about = ended
    for state, field in (("failed", "error"), ("succeeded", "result")):
        job = await api.job(about[state])
        assert (job["argument"], job["result"][field]) == (about["shown"], about["shown"])
        if field == "error":
            assert job["attempts"][0]["error"] == about["shown"]
        response = await api.http.get(f"/api/jobs/{about[state]}", headers=JSON)
        assert response.status_code == 200
        json.loads(response.content)


@pytest.mark.req("J9")
async def test_its_pusher_gets_it_as_binary(ended: tuple[Api, dict[str, Any]]) -> None:
    """The pusher of a job may have its result: redaction applies to views."""
    api, about = ended
    async with Pusher(str(api.http.base_url).rstrip("/")) as pusher:
        failed, succeeded = await pusher.result(about["failed"]), await pusher.result(about["succeeded"])
        assert failed is not None
        assert succeeded is not None
        assert (failed.error, succeeded.result) == (BROKEN, BROKEN)
        assert (await pusher.status(about["failed"]))["argument"] == about["shown"]
    response = await api.http.get(f"/api/jobs/{about['succeeded']}/result", headers=JSON)
    assert response.json()["result"] == {"$bin": "xwKAYWI="}
