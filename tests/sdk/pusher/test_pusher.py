"""Pushers: what they send and repeat, and how they interpret answers."""

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import (
    Context,
    NotFinished,
    Pusher,
    RefusedError,
    SyncPusher,
    UnavailableError,
    Worker,
    make_job,
)
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import Masters, MasterUnreachableError
from worker_sdk.pusher import unserved

pytestmark = real_time.WORKER

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class AnyPusher:
    """One interface for both pushers, so that each test covers both."""

    def __init__(self, kind: str, master: Any, **options: Any) -> None:
        self.is_async = kind == "async"
        self.pusher: Any = (Pusher if self.is_async else SyncPusher)(master, **options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.pusher, name)
        if self.is_async:
            return method
        return lambda *args, **options: asyncio.to_thread(method, *args, **options)

    async def close(self) -> None:
        await (self.pusher.aclose() if self.is_async else asyncio.to_thread(self.pusher.close))


@pytest.fixture(params=["async", "sync"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def pusher(master: FakeMaster, kind: str) -> AsyncIterator[AnyPusher]:
    one = AnyPusher(kind, master.url, token=master.token)
    yield one
    await one.close()


@pytest.mark.req("J1")
async def test_a_job_is_sent_with_what_was_given_and_no_more(master: FakeMaster, pusher: AnyPusher) -> None:
    job_id = await pusher.enqueue("mail.send", {"user": 7})
    assert ID.fullmatch(job_id)
    assert master.jobs[job_id] == {"id": job_id, "name": "mail.send", "argument": {"user": 7}}
    full = await pusher.enqueue(
        "x", b"\x00", priority=-5, max_retry=0, keep_result=True, timeout=timedelta(minutes=2), delay=1.5,
        id=job_id[:-1] + "0", tags=("a", "b"), headers={"trace": "1"}, retry={"base_s": 2},
        expires_at=datetime(2027, 1, 1, tzinfo=UTC), rerun_lost=True,
    )  # fmt: skip
    assert master.jobs[full] == {
        "id": full, "name": "x", "argument": b"\x00", "priority": -5, "max_retry": 0, "keep_result": True,
        "timeout": 120.0, "delay": 1.5, "tags": ["a", "b"], "headers": {"trace": "1"}, "retry": {"base_s": 2},
        "expires_at": "2027-01-01T00:00:00.000Z", "rerun_lost": True,
    }  # fmt: skip


async def test_an_older_master_gets_an_instant_instead_of_a_relative_expiry(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    problem = {"code": "invalid", "errors": [{"loc": ["expires_s"], "msg": "unknown field"}]}
    master.script("jobs", 422, problem)
    job_id = await pusher.enqueue("x", expires=timedelta(minutes=1))
    left = datetime.fromisoformat(master.jobs[job_id]["expires_at"]) - datetime.now(UTC)
    assert 30 < left.total_seconds() <= 60
    assert "expires_s" not in master.jobs[job_id]
    problem = {"code": "invalid", "errors": [{"loc": ["jobs", 1, "expires_s"], "msg": "unknown field"}]}
    master.script("bulk", 422, problem)
    plain, expiring = await pusher.enqueue_many([{"name": "a", "argument": 1}, {"name": "b", "expires": 60}])
    assert "expires_at" not in master.jobs[plain]
    assert "expires_at" in master.jobs[expiring]
    with pytest.raises(TypeError, match="give expires or expires_at, not both"):
        await pusher.enqueue("x", expires=1, expires_at=datetime.now(UTC))
    problem = {"code": "invalid", "errors": [{"loc": ["expires_s"], "msg": "unknown field"}]}
    master.script("batches", 422, problem)
    batch_id = str(uuid.uuid4())
    master.script("batches", 201, {"id": batch_id})
    await pusher.create_batch({"id": batch_id, "expires_s": 60})
    _, _, made = master.calls[-1]
    assert "expires_s" not in made
    assert 30 < (datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)).total_seconds() <= 60


@pytest.mark.req("M1", "S7")
async def test_a_job_with_a_key_has_the_id_of_the_first(master: FakeMaster, pusher: AnyPusher) -> None:
    first = await pusher.enqueue("feed.insert", 7, key="feed:42:7", key_ttl=timedelta(days=7))
    assert (master.jobs[first]["key"], master.jobs[first]["key_ttl"]) == ("feed:42:7", 604_800.0)
    assert await pusher.enqueue("feed.insert", 7, key="feed:42:7") == first
    jobs = [
        {"name": "feed.insert", "argument": 7, "key": "feed:42:7"},
        {"name": "feed.insert", "argument": 8},
        {"name": "feed.insert", "argument": 9, "key": "feed:42:9"},
    ]
    ids = await pusher.enqueue_many(jobs)
    assert ids[0] == first
    assert len({first, *ids}) == 3
    assert await pusher.enqueue_many([jobs[2], *jobs[:1]]) == [ids[2], first]


@pytest.mark.req("J18")
async def test_a_name_that_nobody_ever_served_is_logged_once(
    master: FakeMaster, pusher: AnyPusher, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    # A process logs each name once, and may run this test again.
    names = [f"{kind}.{word}.{uuid.uuid4().hex}" for word in ("wrok", "plian")]
    for listed in (names[0], ", ".join(names), names[1], "no name, , "):
        for _ in range(2):
            job = make_job(names[0])
            master.script("jobs", 201, {"id": job["id"]}, JQ_Unserved_Names=listed)
            await pusher.enqueue_job(job)
    logged = [record.getMessage() for record in caplog.records if record.name == unserved.__name__]
    assert logged == [
        f"no worker has ever served the name {name}: its jobs wait until a worker serves it. Is the name right?"
        for name in names
    ]


def test_an_instant_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        make_job("x", run_at=datetime(2026, 1, 1))
    job = make_job("x", run_at=datetime(2026, 1, 1, 1, tzinfo=UTC) + timedelta(hours=1))
    assert job["run_at"] == "2026-01-01T02:00:00.000Z"
    with pytest.raises(TypeError):
        make_job("x", priorty=1)  # type: ignore[call-arg]


@pytest.mark.req("M1")
@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 408])
async def test_a_repeat_bears_the_same_id(master: FakeMaster, pusher: AnyPusher, status: int) -> None:
    master.script("jobs", status, {"code": "outcome_unknown"})
    master.script("jobs", status, None)
    job_id = await pusher.enqueue("x", 1)
    assert [body["id"] for _, _, body in master.calls] == [job_id] * 3


async def test_a_lost_answer_is_repeated(master: FakeMaster, kind: str) -> None:
    pusher = AnyPusher(kind, master.url, token=master.token, timeout_s=0.2)
    delays_s = [0.5]
    master.hooks["jobs"] = lambda body: time.sleep(delays_s.pop()) if delays_s else None
    job_id = await pusher.enqueue("x")
    assert list(master.jobs) == [job_id]
    assert master.count("/api/jobs") >= 2
    await pusher.close()


@contextlib.asynccontextmanager
async def trickling(at_once: bytes, piece: bytes) -> AsyncIterator[str]:
    """Yield the address of a master whose answers never end."""
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())  # type: ignore[arg-type]
        try:
            writer.write(at_once)
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


TRICKLES = {
    "head": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "informational": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Type: application/msgpack\r\nContent-Length: 9999\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("part", TRICKLES)
async def test_an_answer_that_trickles_ends_with_the_time_of_the_call(kind: str, part: str) -> None:
    async with trickling(*TRICKLES[part]) as url:
        pusher = AnyPusher(kind, url, timeout_s=0.3, max_wait_s=0)
        began = time.monotonic()
        with pytest.raises(UnavailableError):
            await pusher.enqueue("x")
        assert time.monotonic() - began < 1.5
        await pusher.close()


@pytest.mark.parametrize("part", TRICKLES)
async def test_a_heartbeat_is_not_held_up_by_an_answer_that_trickles(part: str) -> None:
    """Several tries must fit into one lease."""
    async with trickling(*TRICKLES[part]) as url:
        client = BlockingClient(Masters(url), None)
        began = time.monotonic()
        with pytest.raises(MasterUnreachableError):
            await asyncio.to_thread(client.call, "POST", "/heartbeat", b"", timeout_s=0.3)
        assert time.monotonic() - began < 1.5


async def test_threads_share_a_pusher_and_its_connections(master: FakeMaster) -> None:
    with SyncPusher(master.url, token=master.token) as pusher:
        for _ in range(2):
            await asyncio.gather(*[asyncio.to_thread(pusher.enqueue, "x", n) for n in range(20)])
        assert len(master.jobs) == 40
        assert 1 <= len(pusher._idle) <= 20
    assert not pusher._idle


async def test_a_connection_that_was_closed_meanwhile_is_made_anew(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    await pusher.enqueue("x", 1)
    master.stop()
    master.start()
    began = time.monotonic()
    await pusher.enqueue("x", 2)
    assert len(master.jobs) == 2
    assert time.monotonic() - began < 2


async def test_retry_after_is_honoured(master: FakeMaster, pusher: AnyPusher) -> None:
    master.script("jobs", 429, {"code": "rate_limited"}, Retry_After="1")
    began = time.monotonic()
    await pusher.enqueue("x")
    assert 1.0 <= time.monotonic() - began < 3


async def test_patience_ends(master: FakeMaster, kind: str) -> None:
    pusher = AnyPusher(kind, master.url, token=master.token, max_wait_s=0.5)
    master.hooks["jobs"] = lambda body: (503, {"code": "outcome_unknown"}, {})
    with pytest.raises(UnavailableError, match="outcome_unknown") as caught:
        await pusher.enqueue("x", id="0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e")
    assert caught.value.job_ids == ["0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"]
    master.hooks["jobs"] = lambda body: (503, None, {"Retry-After": "50"})
    calls = len(master.calls)
    began = time.monotonic()
    with pytest.raises(UnavailableError):
        await pusher.enqueue("x")
    assert (len(master.calls) - calls, time.monotonic() - began < 1) == (1, True), "no wait that cannot help"
    await pusher.close()


async def test_a_refusal_is_not_repeated(master: FakeMaster, pusher: AnyPusher) -> None:
    problem = {
        "code": "invalid",
        "detail": "no",
        "errors": [{"loc": ["priority"], "msg": "must be an int32"}],
    }
    master.script("jobs", 422, problem)
    with pytest.raises(RefusedError, match="priority: must be an int32") as caught:
        await pusher.enqueue("x", priority=2**31)
    assert (caught.value.status, caught.value.code, len(master.calls)) == (422, "invalid", 1)
    master.script("jobs", 409, None)
    with pytest.raises(RefusedError, match="409"):
        await pusher.enqueue("x")


async def test_the_next_master_is_asked_at_once(master: FakeMaster, kind: str) -> None:
    gone = FakeMaster()
    gone.close()
    pusher = AnyPusher(kind, [gone.url, master.url], token=master.token)
    began = time.monotonic()
    for _ in range(3):
        await pusher.enqueue("x")
    assert time.monotonic() - began < 0.5
    assert len(master.jobs) == 3
    await pusher.close()


async def test_a_master_that_restarts_is_waited_for(master: FakeMaster, pusher: AnyPusher) -> None:
    await pusher.enqueue("x")
    master.stop()
    pushing = asyncio.ensure_future(pusher.enqueue("x", "after"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(pushing), 0.3)
    master.start()
    assert master.jobs[await asyncio.wait_for(pushing, 10)]["argument"] == "after"


@pytest.mark.req("S3")
async def test_many_jobs_stream_in_chunks(master: FakeMaster, pusher: AnyPusher) -> None:
    taken = 0

    def followers() -> Iterator[Any]:
        nonlocal taken
        for n in range(2_500):
            taken += 1
            assert taken - len(master.jobs) <= 1_001, "no more than a chunk is held"
            yield ("feed.insert", n) if n % 2 else {"name": "feed.insert", "argument": n, "priority": 1}

    ids = await pusher.enqueue_many(followers())
    assert master.chunks == [1000, 1000, 500]
    assert [master.jobs[job_id]["argument"] for job_id in ids] == list(range(2_500))
    assert len(set(ids)) == 2_500
    assert ids == sorted(ids)


async def test_chunks_are_bounded_in_bytes(master: FakeMaster, pusher: AnyPusher) -> None:
    await pusher.enqueue_many(("x", bytes(1_500_000)) for _ in range(5))
    assert master.chunks == [2, 2, 1]
    assert await pusher.enqueue_many([]) == []


@pytest.mark.req("M1")
async def test_the_error_tells_which_jobs_were_accepted_before_a_failure(
    master: FakeMaster, kind: str
) -> None:
    pusher = AnyPusher(kind, master.url, token=master.token, max_wait_s=0.3)

    async def fails(status: int, code: str) -> Any:
        master.hooks["bulk"] = lambda body: (status, {"code": code}, {}) if len(master.chunks) % 2 else None
        with pytest.raises((RefusedError, UnavailableError)) as caught:
            await pusher.enqueue_many(("x", n) for n in range(1_500))
        assert caught.value.accepted_ids == list(master.jobs)[-1_000:]
        master.chunks.clear()
        return caught.value

    refused = await fails(422, "invalid")
    assert (type(refused), refused.unknown_ids) == (RefusedError, [])
    busy = await fails(429, "rate_limited")
    assert (type(busy), busy.unknown_ids, len(busy.job_ids)) == (UnavailableError, [], 500)
    for status in (503, 504):
        unknown = await fails(status, "outcome_unknown")
        assert len(unknown.unknown_ids) == 500
        assert not set(unknown.unknown_ids) & set(unknown.accepted_ids)
    # A master says that these had no effect.
    for code in ("namespace_closed", "namespace_moving", "store_unavailable", "overloaded"):
        certain = await fails(503, code)
        assert (type(certain), certain.unknown_ids, len(certain.job_ids)) == (UnavailableError, [], 500)
    await pusher.close()


async def test_a_refusal_after_a_lost_answer_leaves_the_outcome_open(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    """The unanswered try may have been carried out, whatever the answer to a later one."""
    master.script("bulk", 503, {"code": "outcome_unknown"})
    master.script("bulk", 401, {"code": "unauthorized"})
    with pytest.raises(RefusedError) as caught:
        await pusher.enqueue_many([("x", 1), ("x", 2)])
    _, _, body = master.calls[0]
    assert caught.value.unknown_ids == [job["id"] for job in body["jobs"]]
    assert caught.value.accepted_ids == []


async def test_an_async_iterable_streams_as_well(master: FakeMaster) -> None:
    async def jobs() -> AsyncIterator[Any]:
        for n in range(1_001):
            yield ("x", n)

    async with Pusher(master.url, token=master.token) as pusher:
        assert len(await pusher.enqueue_many(jobs())) == 1_001
    assert master.chunks == [1000, 1]


async def test_a_refused_job_of_many_is_named_by_its_place(master: FakeMaster, pusher: AnyPusher) -> None:
    errors = [{"loc": ["jobs", 3, "name"], "msg": "bad"}]
    master.hooks["bulk"] = lambda body: (
        (422, {"code": "invalid", "errors": errors}, {}) if master.chunks else None
    )
    with pytest.raises(RefusedError) as caught:
        await pusher.enqueue_many(("x", n) for n in range(1_500))
    assert caught.value.errors[0]["loc"] == ["jobs", 1_003, "name"]


async def test_a_master_where_too_many_wait_is_asked_when_it_said(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    done = {"type": "success", "finished_at": "2026-11-21T04:30:00.123Z", "result": 1}
    master.script("result", 202, {"state": "running"}, **{"Retry-After": "1"})
    master.script("result", 200, done)
    began_s = time.monotonic()
    assert (await pusher.result("j", wait=20)) is not None
    assert time.monotonic() - began_s >= 1
    # It also does not wait longer than its caller.
    master.script("result", 202, {"state": "running"}, **{"Retry-After": "60"})
    master.script("result", 202, {"state": "running"}, **{"Retry-After": "60"})
    with pytest.raises(NotFinished):
        await pusher.result("j", wait=0.2)


@pytest.mark.req("J14")
async def test_results_are_waited_for_in_long_polls(master: FakeMaster, pusher: AnyPusher) -> None:
    done = {"type": "success", "finished_at": "2026-11-21T04:30:00.123Z", "result": {"n": 1}}
    master.script("result", 202, {"state": "running"})
    master.script("result", 202, {"state": "running"})
    master.script("result", 200, done)
    result = await pusher.result("j", wait=20)
    assert (result.is_success, result.result, result.finished_at) == (True, {"n": 1}, done["finished_at"])
    waits = [float(path.split("wait=")[1]) for _, path, _ in master.calls]
    assert all(5 < wait <= 8 for wait in waits), "each answer within the timeout of a call"
    failed = {
        "type": "failure", "finished_at": "2026-11-21T04:30:00.123Z", "reason": "timeout", "should_retry": True,
        "error": None, "message": "not finished within 1 s",
    }  # fmt: skip
    master.script("result", 200, failed)
    result = await pusher.result("j")
    assert (result.is_success, result.reason, result.message) == (False, "timeout", "not finished within 1 s")
    master.hooks["result"] = lambda body: (202, {"state": "ready"}, {})
    with pytest.raises(NotFinished, match="ready"):
        await pusher.result("j")


@pytest.mark.req("J14")
async def test_the_error_for_a_job_that_retries_has_its_last_error(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    known = {"state": "retrying", "last_error": "HTTP 503"}
    master.hooks["result"] = lambda body: (202, known, {})
    with pytest.raises(NotFinished) as raised:
        await pusher.result("j")
    assert (raised.value.state, raised.value.last_error) == ("retrying", "HTTP 503")
    assert str(raised.value) == "job j is retrying: its last attempt failed: HTTP 503"
    # The caller may not read errors, or the master is older than this field.
    for body in ({"state": "retrying", "last_error": None}, {"state": "retrying"}):
        master.hooks["result"] = lambda _, body=body: (202, body, {})
        with pytest.raises(NotFinished, match="`jqmaster job j` shows the error") as raised:
            await pusher.result("j")
        assert raised.value.last_error is None


async def test_a_dropped_result_is_none(master: FakeMaster, pusher: AnyPusher) -> None:
    original = master._answer

    def null(status: int, body: Any = None, headers: Any = None) -> Any:
        answer = original(status, body, headers)
        answer.body = b"\xc0"
        return answer

    master.script("result", 200, {})
    master._answer = null  # type: ignore[method-assign]
    assert await pusher.result("j") is None


@pytest.mark.req("M9")
async def test_status_and_cancel(master: FakeMaster, pusher: AnyPusher) -> None:
    assert (await pusher.status("j-1"))["state"] == "ready"
    assert (await pusher.cancel("j-1"))["id"] == "j-1"
    assert [(method, path) for method, path, _ in master.calls] == [
        ("GET", "/api/jobs/j-1"),
        ("POST", "/api/jobs/j-1/cancel"),
    ]


async def test_a_server_that_is_no_master_is_not_believed(master: FakeMaster, kind: str) -> None:
    pusher = AnyPusher(kind, master.url, token=master.token, max_wait_s=0.2)
    original = master._answer

    def html(status: int, body: Any = None, headers: Any = None) -> Any:
        return original(status, body, {"Content-Type": "text/html"})

    master._answer = html  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        await pusher.enqueue("x")
    await pusher.close()


async def test_a_pusher_in_a_storm_waits_with_as_few_calls_as_ever(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller told to come back keeps its place, so that the process's other callers do not ask meanwhile."""
    monkeypatch.setattr("worker_sdk.pusher.client.MAX_CALLS", 2)
    is_over = False
    master.hooks["jobs"] = lambda body: (
        None if is_over else (429, {"code": "overloaded"}, {"Retry-After": "1"})
    )
    async with Pusher(master.url, token=master.token) as pusher:
        calls = [asyncio.create_task(pusher.enqueue("a", n)) for n in range(20)]
        await wait_until(lambda: len(master.calls) >= 4, what="both were told, and came back")
        assert len({body["id"] for _, _, body in master.calls}) == 2
        is_over = True
        ids = await asyncio.gather(*calls)
    assert set(ids) == set(master.jobs)


# --- what a pusher was not told, and what it tells


async def test_the_first_repeat_is_logged_once_an_outage(
    master: FakeMaster, pusher: AnyPusher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "worker_sdk")
    for _ in range(2):
        master.script("jobs", 503, {"code": "store_unavailable", "detail": "no store"})
        master.script("jobs", 503, {"code": "store_unavailable", "detail": "no store"})
        await pusher.enqueue("x")
    assert [
        record.getMessage() for record in caplog.records if record.name == "worker_sdk.pusher.attempts"
    ] == [
        "no final answer from a master (503 store_unavailable no store); the call is repeated for up to 10 s more",
        "a master answers again",
    ] * 2


async def test_a_pusher_without_a_master_says_so_and_gives_up_after_ten_seconds(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    gone = FakeMaster()
    gone.close()
    assert AnyPusher(kind, gone.url).pusher._max_wait_s == 10
    pusher = AnyPusher(kind, gone.url, max_wait_s=0.5)
    with pytest.raises(UnavailableError, match="no final answer after"):
        await pusher.enqueue("x")
    (warning,) = [
        record.getMessage() for record in caplog.records if record.name == "worker_sdk.pusher.attempts"
    ]
    assert re.fullmatch(
        rf"no final answer from a master \({gone.url}: .*connection (refused|reset).*\); .* for up to [01] s more",
        warning,
    )


async def test_a_pusher_that_is_told_nothing_reads_the_variables(
    master: FakeMaster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = FakeMaster()
    gone.close()
    monkeypatch.setenv("JQMASTER_URL", f"{gone.url} {master.url}/")
    monkeypatch.setenv("JQMASTER_TOKEN", master.token)
    pusher = AnyPusher(kind, None)
    await pusher.enqueue("x", 1)
    await pusher.close()
    # An explicit value takes precedence.
    explicit = AnyPusher(kind, master.url, token="another", max_wait_s=0)
    with pytest.raises(RefusedError, match="401"):
        await explicit.enqueue("x", 2)
    await explicit.close()
    assert [job["argument"] for job in master.jobs.values()] == [1]
    assert master.faults == ["/api/jobs: no token"]
    master.faults.clear()


async def test_a_worker_that_is_told_nothing_reads_the_variables(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JQMASTER_URL", master.url)
    monkeypatch.setenv("JQMASTER_TOKEN", master.token)
    worker = Worker()

    @worker.handler("push")
    async def push(argument: Any, ctx: Context) -> str:
        return await ctx.enqueue("pushed")

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("push")
        await wait_until(lambda: master.result(job["job_id"]))
    assert list(master.jobs) == [master.results[job["job_id"]][0]["result"]]
    assert Worker("http://127.0.0.1:1", token="").token == ""


async def test_a_cut_connection_is_taken_for_tls_only_where_no_answer_ever_came(kind: str) -> None:
    is_cut = True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not is_cut:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pusher = AnyPusher(kind, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", max_wait_s=0)
    with pytest.raises(UnavailableError, match=r"is it https\?"):
        await pusher.enqueue("x")
    is_cut = False
    with pytest.raises(RefusedError):
        await pusher.enqueue("x")
    is_cut = True
    with pytest.raises(UnavailableError, match="it answered before, so it may have restarted") as told:
        await pusher.enqueue("x")
    assert "https" not in str(told.value)
    await pusher.close()
    server.close()
