import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.errors import AddressRefusedError
from jqmaster.live_value import LiveValue
from jqmaster.net.egress import EgressGuard
from jqmaster.runtime.outbound.commands import CancelCommands
from jqmaster.runtime.outbound.worker_client import (
    MAX_ANSWER_BYTES,
    Delivered,
    MaybeDelivered,
    NotDelivered,
    Refused,
    Rejection,
    WorkerClient,
)
from jqmaster.store.codec import ClaimedRecord
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from tests.support import fake_worker as fake
from tests.support import real_time
from tests.support.egress import loopback_guard
from tests.support.ports import free_port
from tests.support.store import StoreWorld

pytestmark = real_time.SOCKETS


@pytest.fixture
async def serve() -> AsyncIterator[Callable]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(*script: fake.Behaviour, **options: object) -> fake.FakeWorker:
            return await stack.enter_async_context(fake.FakeWorker(*script, **options).serving())  # type: ignore[arg-type]

        yield start


def as_worker(endpoint: fake.FakeWorker, url: str | None = None) -> Worker:
    endpoint.id = endpoint.id or new_id()
    spec = WorkerSpec(url or endpoint.url, ("work",), 5, "n", 1, {}, "1", endpoint.secret)
    return Worker(endpoint.id, spec, 0, 0, False, False, 0)


def a_claim(argument: bytes = b"\xc0") -> Claim:
    return Claim(
        1, 1, 2, 3, [ClaimedJob(new_id(), "ab" * 16, 7, ClaimedRecord(1, 1000, "work", {}, argument))]
    )


async def push(client: WorkerClient, endpoint: fake.FakeWorker, claim: Claim | None = None) -> Any:
    return await client.push(as_worker(endpoint), 1, claim or a_claim())


async def test_acceptance_and_rejections_are_read(worker_client: WorkerClient, serve: Callable) -> None:
    claim = a_claim()
    job_id = claim.jobs[0].job_id
    endpoint = await serve(fake.accept, fake.reject("busy", 2.5), fake.reject("draining"))
    assert await push(worker_client, endpoint, claim) == Delivered()
    assert await push(worker_client, endpoint, claim) == Delivered([Rejection(job_id, "busy", 2.5)])
    assert await push(worker_client, endpoint, claim) == Delivered([Rejection(job_id, "draining", None)])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (-5, 0.0),
        (1e9, 60.0),
        (float("nan"), None),
        (float("inf"), None),
        ("soon", None),
        ([], None),
        ("7", 7.0),
    ],
)
async def test_a_retry_after_is_held_within_bounds(
    worker_client: WorkerClient, serve: Callable, value: Any, seconds: float | None
) -> None:
    endpoint = await serve(fake.reject("busy", value))
    (rejection,) = (await push(worker_client, endpoint)).rejections
    assert rejection.retry_after_s == seconds


@pytest.mark.parametrize(
    ("behaviour", "retry_after_s"),
    [
        (fake.status(401), None), (fake.status(404), None), (fake.status(503), None),
        (fake.status(503, Retry_After="7"), 7.0), (fake.status(429, Retry_After="9999"), 60.0),
        (fake.status(503, Retry_After="Fri, 31 Dec 2027 23:59:59 GMT"), None),
    ],
)  # fmt: skip
async def test_a_refusal_is_no_delivery(
    worker_client: WorkerClient, serve: Callable, behaviour: fake.Behaviour, retry_after_s: float | None
) -> None:
    result = await push(worker_client, await serve(behaviour))
    assert isinstance(result, NotDelivered)
    assert result.retry_after_s == retry_after_s


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_a_push_that_the_worker_cannot_read_is_told_apart_with_what_it_said(
    worker_client: WorkerClient, serve: Callable, code: int
) -> None:
    said = {"detail": "code must be 0~127\x1b[31m", "code": "unparsable"}
    endpoint = await serve(
        fake.status(code), fake.status(code, msgpack.packb(said)), fake.status(code, b"\xc1"),
        fake.status(code, msgpack.packb({"detail": 5})), fake.status(code, msgpack.packb({"detail": "x" * 9_000})),
    )  # fmt: skip
    assert await push(worker_client, endpoint) == Refused(f"status {code}")
    assert await push(worker_client, endpoint) == Refused(f"status {code} (code must be 0~127 [31m)")
    assert await push(worker_client, endpoint) == Refused(f"status {code}")
    assert await push(worker_client, endpoint) == Refused(f"status {code}")
    assert len((await push(worker_client, endpoint)).why) < 400


@pytest.mark.parametrize(
    "value", [b"", b"\xc0", b"\x80", b"\x90", b"\xdd\xff\xff\xff\xff", b"\x91" * 5000 + b"\xc0"]
)
async def test_an_answer_without_sense_may_hide_a_delivery(
    worker_client: WorkerClient, serve: Callable, value: bytes
) -> None:
    assert isinstance(await push(worker_client, await serve(fake.garbage(value))), MaybeDelivered)


async def test_no_more_of_an_answer_is_read_than_its_cap(
    worker_client: WorkerClient, serve: Callable
) -> None:
    size = 64 << 20
    endpoint = await serve(fake.huge(size))
    assert isinstance(await push(worker_client, endpoint), MaybeDelivered)
    # The kernel's buffers held the bytes over the cap.
    assert endpoint.bytes_sent < MAX_ANSWER_BYTES + (16 << 20)


async def test_a_chunked_answer_counts_too(worker_client: WorkerClient, serve: Callable) -> None:
    async def endless(exchange: fake.Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                exchange.writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
                exchange.worker.bytes_sent += 65536
                await exchange.writer.drain()

    endpoint = await serve(endless)
    assert isinstance(await push(worker_client, endpoint), MaybeDelivered)
    assert endpoint.bytes_sent < MAX_ANSWER_BYTES + (16 << 20)


async def test_redirects_are_not_followed(worker_client: WorkerClient, serve: Callable) -> None:
    other = await serve()
    for code in (301, 302, 303, 307, 308):
        endpoint = await serve(fake.status(code, Location=f"{other.url}/jobs"))
        assert isinstance(await push(worker_client, endpoint), NotDelivered)
    assert (other.pushes, other.connections) == ([], 0)


async def test_nobody_there_is_no_delivery(worker_client: WorkerClient, serve: Callable) -> None:
    endpoint = await serve()
    endpoint.die()
    assert isinstance(await push(worker_client, endpoint), NotDelivered)


async def test_a_connection_that_never_comes_about_is_no_delivery(serve: Callable) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with contextlib.ExitStack() as stack:
            for _ in range(4):  # fills the backlog: the kernel drops further connections
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            client = WorkerClient(loopback_guard(), timeout_s=LiveValue(30))
            await client.start()
            endpoint = await serve()
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            result = await client.push(as_worker(endpoint, url), 1, a_claim())
            await client.stop()
    assert isinstance(result, NotDelivered)


async def test_an_address_that_is_refused_at_connect_is_no_delivery(serve: Callable) -> None:
    client = WorkerClient(EgressGuard([]), timeout_s=LiveValue(1))
    await client.start()
    endpoint = await serve()
    assert isinstance(await push(client, endpoint), NotDelivered)
    assert await client.cancel(as_worker(endpoint), 1, new_id(), "t") is False
    with pytest.raises(AddressRefusedError) as refused:
        await client.prove(endpoint.url, "n" * 16)
    assert refused.value.code == "address_refused"
    await client.stop()


async def test_a_large_push_arrives_whole(worker_client: WorkerClient, serve: Callable) -> None:
    endpoint = await serve()
    claim = a_claim(msgpack.packb(b"x" * (8 << 20)))
    assert isinstance(await push(worker_client, endpoint, claim), Delivered)
    assert endpoint.pushes[0].jobs[0]["argument"] == b"x" * (8 << 20)
    assert endpoint.pushes[0].is_signed


@pytest.mark.parametrize("prefix", ["", "/jq", "/a%2Fb", "/%7Euser", "/a;b=1/+c"])
async def test_the_path_is_signed_as_it_is_sent(
    worker_client: WorkerClient, serve: Callable, prefix: str
) -> None:
    endpoint = await serve(prefix=prefix)
    assert isinstance(await push(worker_client, endpoint), Delivered)
    assert (endpoint.pushes[0].path, endpoint.pushes[0].is_signed) == (f"{prefix}/jobs", True)


async def test_only_what_the_contract_names_leaves_the_master(
    worker_client: WorkerClient, serve: Callable
) -> None:
    """The call sends no bearer token and no cookie, and does not accept compressed answers."""

    async def sets_a_cookie(exchange: fake.Exchange) -> None:
        assert exchange.push
        body = msgpack.packb({"accepted": exchange.push.job_ids, "rejected": []})
        await exchange.send(200, body, Set_Cookie="a=b")

    endpoint = await serve(sets_a_cookie)
    await push(worker_client, endpoint)
    await push(worker_client, endpoint)
    headers = endpoint.pushes[1].headers
    assert headers["accept-encoding"] == "identity"
    assert set(headers) == {
        "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length", "x-jq-worker",
        "x-jq-timestamp",
        "x-jq-nonce", "x-jq-signature",
    }  # fmt: skip


async def test_connections_are_kept(worker_client: WorkerClient, serve: Callable) -> None:
    endpoint = await serve()
    for _ in range(5):
        await push(worker_client, endpoint)
    assert endpoint.connections == 1


# --- proof of address


async def test_prove_returns_the_proof_and_is_not_signed(
    worker_client: WorkerClient, serve: Callable
) -> None:
    endpoint = await serve(prefix="/x")
    assert await worker_client.prove(endpoint.url, "n" * 43) == endpoint.right_proof("n" * 43)
    ((nonce, headers),) = endpoint.challenges
    assert nonce == "n" * 43
    assert not [name for name in headers if name.startswith("x-jq") or name == "authorization"]


@pytest.mark.parametrize("proof", [None, 7, b"bytes", {"a": 1}])
async def test_a_given_proof_is_returned_unchanged(
    worker_client: WorkerClient, serve: Callable, proof: object
) -> None:
    endpoint = await serve()
    endpoint.proof = lambda nonce: proof
    assert await worker_client.prove(endpoint.url, "n" * 43) == proof


async def test_a_url_without_a_worker_proves_nothing(worker_client: WorkerClient, serve: Callable) -> None:
    endpoint = await serve(prefix="/there")
    for url in (endpoint.url.replace("/there", "/elsewhere"), f"http://127.0.0.1:{free_port()}"):
        with pytest.raises(AddressRefusedError):
            await worker_client.prove(url, "n" * 43)


# --- orders


@pytest.mark.req("M9", "D14")
async def test_a_cancel_order_is_signed_and_names_token_and_epoch(
    world: StoreWorld, worker_client: WorkerClient, serve: Callable
) -> None:
    endpoint = await serve(prefix="/jq")
    worker_id = await endpoint.join(world.workers)
    job_id = new_id()
    await CancelCommands(world.workers, world.leadership, worker_client)(worker_id, job_id, "ab" * 16)
    assert endpoint.cancels == [
        (job_id, {"token": "ab" * 16, "epoch": await world.leadership.newest_number()})
    ]


async def test_an_order_to_a_worker_that_is_gone_or_dead_is_no_error(
    world: StoreWorld, worker_client: WorkerClient, serve: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next heartbeat tells the worker anyway."""
    order = CancelCommands(world.workers, world.leadership, worker_client)
    await order(new_id(), new_id(), "ab" * 16)
    await order(await world.worker(), new_id(), "ab" * 16)
    dead = await serve()
    await dead.join(world.workers)
    dead.die()
    await order(dead.id, new_id(), "ab" * 16)
    monkeypatch.setattr(world.shard.client, "pipeline", _unavailable)
    await order(dead.id, new_id(), "ab" * 16)
    monkeypatch.undo()


async def test_a_call_ends_with_its_time(serve: Callable) -> None:
    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(0.2))
    await client.start()
    endpoint = await serve(fake.hang, fake.trickle)
    for _ in range(2):
        result = await asyncio.wait_for(push(client, endpoint), 10)
        assert isinstance(result, MaybeDelivered)
    await client.stop()


async def _unavailable(*args: object, **options: object) -> object:
    from jqmaster.errors import StoreUnavailableError

    raise StoreUnavailableError("away")
