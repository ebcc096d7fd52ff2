"""Values on their whole way through real masters and SDK workers: accepted values come back, and a value that only an
earlier release accepted fails alone."""

import struct
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest

from jqmaster.app import Master
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_at
from tests.support.master import MSGPACK, Api, forget, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher, Worker

pytestmark = real_time.MASTER

ACCEPTED = b"\xc4\x03abc"
BROKEN = b"\xc7\x02\x80ab"
SHARD = "undecodable"

NUMBERS = [
    *(bytes([tag]) for tag in (0x00, 0x7F, 0xE0, 0xFF, 0xC0, 0xC2, 0xC3)),
    *(struct.pack(">Bf", 0xCA, x) for x in (0.0, -0.0, float("inf"), float("nan"))),
    *(struct.pack(">Bd", 0xCB, x) for x in (1e308, 5e-324, -float("inf"), float("nan"))),
    *(
        bytes([tag]) + fill * size
        for tag, size in (
            (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8), (0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8),
        )
        for fill in (b"\x00", b"\x7f", b"\x80", b"\xff")
    ),
]  # fmt: skip
EXTENSIONS = [
    *(b"\xc7\x02" + bytes([code]) + b"ab" for code in range(128)),
    *(bytes([tag, 127]) + bytes(size) for tag, size in ((0xD4, 1), (0xD5, 2), (0xD6, 4), (0xD7, 8), (0xD8, 16))),
    b"\xc8\x00\x01\x00a", b"\xc9\x00\x00\x00\x01\x00a", b"\xc7\x00\x05",
]  # fmt: skip
INSTANTS = [
    b"\xd6\xff" + bytes(4), b"\xd6\xff" + b"\xff" * 4,
    *(b"\xd7\xff" + struct.pack(">Q", ns << 34 | s) for ns, s in ((0, 0), (999_999_999, 2**34 - 1))),
    *(b"\xc7\x0c\xff" + struct.pack(">Iq", ns, s)
      for ns, s in ((0, -1), (999_999_999, 253_402_300_799), (0, -62_135_596_800))),
]  # fmt: skip
OTHERS = [
    b"\xa0", b"\xd9\x03\xe2\x80\xa8", b"\xda\x00\x01\x00", b"\xdb\x00\x00\x00\x04\xf0\x9f\x98\x80", b"\xc4\x00",
    b"\xc5\x00\x01\xff", b"\xc6\x00\x00\x00\x01\x00",
    b"\x90", b"\x80", b"\xdc\x00\x00", b"\xdd\x00\x00\x00\x00", b"\xde\x00\x00", b"\xdf\x00\x00\x00\x00",
    b"\x91" * 31 + b"\xc0", b"\x81\xa4$bin\x05",
    b"\x81\xa4$bin\xa1x", b"\x81\xa4$ext\x92\x01\xa0", b"\x81\xa9__proto__\x80", b"\x81\xa0\xc4\x01\xff",
]  # fmt: skip
VALUES = NUMBERS + EXTENSIONS + INSTANTS + OTHERS


@pytest.fixture(params=[False, True], ids=["push", "pull"])
async def worker(request: pytest.FixtureRequest) -> Worker:
    """Return a worker that echoes; it is not started."""
    one = Worker("", grace_s=0.2, max_jobs=50, pull=request.param)
    one.handler("echo")(lambda argument: argument)
    return one


@pytest.fixture
async def shared(store_server: StoreServer) -> AsyncIterator[tuple[Master, Api]]:
    async with master_on(store_server.url, shard=SHARD) as found:
        yield found
    await forget(store_server.url, SHARD)


@pytest.mark.req("J3", "J9")
async def test_every_kind_of_value_comes_back_from_a_worker(
    shared: tuple[Master, Api], worker: Worker
) -> None:
    master, api = shared
    jobs = [b"\x83\xa4name\xa4echo\xabkeep_result\xc3\xa8argument" + value for value in VALUES]
    body = b"\x81\xa4jobs\xdc" + struct.pack(">H", len(jobs)) + b"".join(jobs)
    response = await api.http.post("/api/jobs/bulk", content=body, headers=MSGPACK)
    assert response.status_code == 201, response.content
    ids = msgpack.unpackb(response.content)["ids"]
    worker.master = master.server.url
    async with worker.running(), Pusher(master.server.url) as pusher:
        for job_id, value in zip(ids, VALUES, strict=True):
            result = await pusher.result(job_id, wait=20)
            assert result is not None
            assert (result.type, result.reason) == ("success", None), (value, result.message)
            assert repr(result.result) == repr(msgpack.unpackb(value, timestamp=3)), value


@pytest.mark.req("J9")
async def test_a_job_that_an_earlier_release_accepted_fails_and_all_others_run(
    store_server: StoreServer, shared: tuple[Master, Api], worker: Worker
) -> None:
    master, api = shared
    before = [await api.enqueue("echo", n) for n in range(5)]
    bad = await api.enqueue("echo", {"a": b"abc"}, keep_result=True, priority=-1)
    await break_argument(store_server.url, bad)
    worker.master = master.server.url
    async with worker.running():
        after = [await api.enqueue("echo", n) for n in range(5)]
        for job_id in before + after:
            await api.until_state(job_id, "succeeded")
        job: dict[str, Any] = await api.until_state(bad, "failed")
    assert (job["cause"], job["attempt"], job["failures"], job["losses"]) == ("undecodable", 1, 1, 0)
    assert job["attempts"][0]["message"] == "the job cannot be decoded: argument: code must be 0~127"
    assert (job["result"]["reason"], job["result"]["should_retry"]) == ("undecodable", False)
    found = (await api.call("GET", "/api/jobs?cause=undecodable"))[1]["jobs"]
    assert [one["id"] for one in found] == [bad]
    group = await wait_until(lambda: failures(api))
    assert (group["cause"], group["name"]) == ("undecodable", "echo")


async def failures(api: Api) -> dict[str, Any] | None:
    _, answer = await api.call("GET", "/api/failures")
    return answer["groups"][0] if answer["groups"] else None


async def break_argument(store_url: str, job_id: str) -> None:
    client = StoreClient(store_url, connections=2)
    key = Keys(SHARD).job(job_id)
    try:
        store = await admin_at(client, key)
        stored = await store.get(key)
        assert ACCEPTED in stored
        await store.set(key, stored.replace(ACCEPTED, BROKEN), keepttl=True)
    finally:
        await client.close()
