"""Middleware around enqueue calls: it changes jobs, refuses them, and learns the outcome of the call."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.sdk.pusher.test_pusher import AnyPusher
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import (
    Context,
    EnqueueRefused,
    Middleware,
    Pusher,
    RefusedError,
    SyncPusher,
    Tasks,
    UnavailableError,
    Worker,
    configure,
    make_job,
)
from worker_sdk.tasks.client import process_pushers

pytestmark = real_time.WORKER


class Tenant(Middleware):
    """Gives each job a header, refuses negative arguments, and records the ends of calls."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        argument = job["argument"]
        if isinstance(argument, int) and argument < 0:
            raise PermissionError("quota used up")
        job["headers"] = {**job.get("headers", {}), "tenant": "acme"}
        try:
            yield
        except BaseException as exc:
            self.notes.append((argument, type(exc)))
            raise
        self.notes.append(argument)


@pytest.fixture(params=["async", "sync"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tenant() -> Tenant:
    return Tenant()


@pytest.fixture
async def pusher(master: FakeMaster, kind: str, tenant: Tenant) -> AsyncIterator[AnyPusher]:
    one = AnyPusher(kind, master.url, token=master.token, max_wait_s=0.3, middleware=[tenant])
    yield one
    await one.close()


@pytest.mark.req("S7")
async def test_middleware_changes_a_job_before_it_is_sent(
    master: FakeMaster, pusher: AnyPusher, tenant: Tenant
) -> None:
    job_id = await pusher.enqueue("x", 1, headers={"a": "b"})
    assert master.jobs[job_id]["headers"] == {"a": "b", "tenant": "acme"}
    ids = await pusher.enqueue_many([("x", 2), {"name": "x", "argument": 3}])
    assert [master.jobs[one]["headers"] for one in ids] == [{"tenant": "acme"}] * 2
    assert tenant.notes == [1, 2, 3]


async def test_the_map_of_the_caller_stays_as_it_was(master: FakeMaster, pusher: AnyPusher) -> None:
    headers = {"a": "b"}
    job = make_job("x", 1, headers=headers, tags=["one"])
    before = {**job, "headers": dict(headers), "tags": ["one"]}
    await pusher.enqueue_job(job)
    await pusher.enqueue_job(job)
    assert job == before
    assert len(master.jobs) == 1


@pytest.mark.req("S7")
async def test_a_refused_job_is_not_sent_and_the_caller_gets_the_exception(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    with pytest.raises(PermissionError, match="quota used up"):
        await pusher.enqueue("x", -1)
    assert master.calls == []


@pytest.mark.req("S7")
async def test_a_refusal_in_a_bulk_says_which_jobs_were_sent(
    master: FakeMaster, pusher: AnyPusher, tenant: Tenant
) -> None:
    with pytest.raises(EnqueueRefused, match="PermissionError: quota used up") as caught:
        await pusher.enqueue_many(("x", n if n != 1_500 else -1) for n in range(2_500))
    assert isinstance(caught.value.__cause__, PermissionError)
    assert list(caught.value.accepted_ids) == list(master.jobs)
    assert caught.value.unknown_ids == ()
    assert master.chunks == [1_000]
    # Jobs that waited for their chunk learn that it was not sent.
    assert tenant.notes[:1_000] == list(range(1_000))
    assert sorted(tenant.notes[1_000:]) == [(n, EnqueueRefused) for n in range(1_000, 1_500)]


async def test_a_refusal_in_the_first_chunk_means_that_nothing_was_sent(
    master: FakeMaster, pusher: AnyPusher
) -> None:
    with pytest.raises(EnqueueRefused) as caught:
        await pusher.enqueue_many([("x", 1), ("x", -1)])
    assert (caught.value.accepted_ids, master.calls) == ([], [])


async def test_arguments_that_do_not_fit_in_a_bulk_of_a_task_say_which_jobs_were_sent(
    master: FakeMaster,
) -> None:
    tasks = Tasks(master=master.url, token=master.token)

    @tasks.task("count")
    def count(number: int) -> None: ...

    calls: Iterator[Any] = ({"number": n if n != 1_200 else "x"} for n in range(1_300))
    with pytest.raises(TypeError) as caught:
        await count.amany(calls)
    assert caught.value.accepted_ids == list(master.jobs)  # type: ignore[attr-defined]
    assert len(master.jobs) == 1_000
    await tasks.aclose()


@pytest.mark.req("S7")
async def test_middleware_learns_that_a_call_failed(
    master: FakeMaster, pusher: AnyPusher, tenant: Tenant
) -> None:
    master.hooks["jobs"] = master.hooks["bulk"] = lambda body: (422, {"code": "invalid"}, {})
    with pytest.raises(RefusedError):
        await pusher.enqueue("x", 1)
    with pytest.raises(RefusedError):
        await pusher.enqueue_many([("x", 2), ("x", 3)])
    assert tenant.notes == [(1, RefusedError), (2, RefusedError), (3, RefusedError)]
    master.stop()
    with pytest.raises(UnavailableError):
        await pusher.enqueue("x", 4)
    assert tenant.notes[-1] == (4, UnavailableError)
    master.start()


class Odd(Middleware):
    """Acts according to `how`."""

    def __init__(self, how: str) -> None:
        self.how = how

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        if self.how == "never":
            return
        if self.how == "no id":
            del job["id"]
        try:
            yield
        except RefusedError:
            if self.how == "swallow":
                return
            raise
        if self.how == "twice":
            yield
        if self.how == "fail after":
            raise OSError("cannot log")


async def odd(master: FakeMaster, kind: str, how: str) -> str:
    pusher = AnyPusher(kind, master.url, token=master.token, middleware=[Odd(how)])
    try:
        return str(await pusher.enqueue("x"))
    finally:
        await pusher.close()


@pytest.mark.req("S7")
@pytest.mark.parametrize(("how", "text"), [("fail after", "cannot log"), ("twice", "yields more than once")])
async def test_an_exception_after_the_call_is_logged_because_the_job_is_enqueued(
    master: FakeMaster, kind: str, how: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await odd(master, kind, how) in master.jobs
    assert "Odd.around_enqueue: the code after its yield failed" in caplog.text
    assert text in caplog.text


@pytest.mark.req("S7")
async def test_middleware_that_misbehaves_before_the_call_sends_nothing(
    master: FakeMaster, kind: str
) -> None:
    with pytest.raises(RuntimeError, match=r"Odd\.around_enqueue yields nothing"):
        await odd(master, kind, "never")
    with pytest.raises(TypeError, match="removed the id or the name"):
        await odd(master, kind, "no id")
    assert master.calls == []
    with pytest.raises(TypeError, match="takes instances"):
        AnyPusher(kind, master.url, middleware=[Odd])


async def test_the_error_of_a_call_cannot_be_swallowed(master: FakeMaster, kind: str) -> None:
    master.hooks["jobs"] = lambda body: (422, {"code": "invalid"}, {})
    with pytest.raises(RefusedError):
        await odd(master, kind, "swallow")


async def test_a_cancellation_of_the_call_reaches_middleware(master: FakeMaster, tenant: Tenant) -> None:
    master.stop()
    async with Pusher(master.url, token=master.token, middleware=[tenant]) as pusher:
        pushing = asyncio.ensure_future(pusher.enqueue("x", 1))
        await asyncio.sleep(0)
        pushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pushing
    master.start()
    assert tenant.notes == [(1, asyncio.CancelledError)]


@pytest.mark.req("S7")
async def test_middleware_of_the_process_surrounds_tasks_and_pushers_that_are_given_none(
    master: FakeMaster, tenant: Tenant
) -> None:
    tasks = Tasks()

    @tasks.task("count")
    def count(number: int) -> None: ...

    own = Tasks(master=master.url, token=master.token)

    @own.task("own")
    def of_own(number: int) -> None: ...

    configure(url=master.url, token=master.token, middleware=[tenant])
    try:
        made = [await count.aenqueue(1), *await count.amany([{"number": 2}]), await of_own.aenqueue(3)]
        made.append(await asyncio.to_thread(count.enqueue, 4))
        assert [master.jobs[one.id]["headers"] for one in made] == [{"tenant": "acme"}] * 4
        with SyncPusher(middleware=[]) as plain:
            job_id = await asyncio.to_thread(plain.enqueue, "x")
        assert "headers" not in master.jobs[job_id]
    finally:
        await process_pushers.get().stop()
        configure()
        await own.aclose()


@pytest.mark.req("S7")
async def test_jobs_that_handlers_enqueue_pass_the_middleware_of_their_worker(
    master: FakeMaster, worker: Worker, tenant: Tenant
) -> None:
    tasks = Tasks()

    @tasks.task("child")
    def child(number: int) -> None: ...

    @tasks.task("parent")
    async def parent(ctx: Context) -> list[str]:
        ids = [await ctx.enqueue("raw", 1), (await child.aenqueue(2)).id]
        return [*ids, ctx.enqueue_sync("sync", 3)]

    worker.middleware = [tenant]
    worker.run_tasks(tasks)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("parent", {})
        await wait_until(lambda: master.result(job["job_id"]))
    result = master.result(job["job_id"])
    assert result is not None
    assert [master.jobs[one]["headers"] for one in result["result"]] == [{"tenant": "acme"}] * 3
