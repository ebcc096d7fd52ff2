"""One worker works in several namespaces: it shares its slots between them, and one whose store is away does not hold
up the others."""

import asyncio
import contextlib
import signal
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Context, Gather, GatherContext, Tasks, Worker
from worker_sdk.worker import shared_slots

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]

PULLING = pytest.mark.parametrize("pull", [False, True], ids=["pushed", "pulling"])

# A machine that is busy for a second does not cost a job its lease.
CALM: dict[str, Any] = {"lease_ms": 3000, "worker_stale_s": 2.0, "leader_ttl_s": 3.0}


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Yield a master with the namespaces `shop` and `mail`, in two stores."""
    async with installed(store_server, other, tmp_path, **CALM) as one:
        await one.put("shop")
        await one.put("mail", "b")
        await one.until_served("shop", "mail")
        yield one


tasks = Tasks()


@tasks.task("apart", isolated=True)
def apart(text: str, ctx: Context) -> str:
    return ctx.enqueue("echo", text)


@tasks.task("together", gather=Gather(4, 0.3))
def together(names: list[str], ctx: GatherContext) -> list[list[str]]:
    return [names for _ in names]


class Held:
    """A worker whose jobs named `hold` run until they are released, or told to stop."""

    def __init__(self, url: str, **options: Any) -> None:
        self.worker = Worker(
            url, **{"namespaces": {"shop": 3, "mail": 1}, "max_jobs": 4, "grace_s": 0.5, **options}
        )
        self.running: dict[str, asyncio.Event] = {}
        self.worker.handler("hold")(self._hold)
        self.worker.handler("echo")(self._echo)

    async def _hold(self, argument: Any, ctx: Context) -> int:
        self.running[ctx.job_id] = asyncio.Event()
        try:
            await self.running[ctx.job_id].wait()
        finally:
            del self.running[ctx.job_id]
        return ctx.attempt

    async def _echo(self, argument: Any) -> Any:
        return argument

    def release(self, job_id: str) -> None:
        self.running[job_id].set()

    async def hold(self, api: Api, count: int) -> list[str]:
        """Enqueue jobs that hold slots, and wait until they run."""
        jobs = [await api.enqueue("hold", max_retry=0, keep_result=True, timeout=60) for _ in range(count)]
        await wait_until(lambda: all(job in self.running for job in jobs), what="the jobs run")
        return jobs

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator["Held"]:
        async with self.worker.running():
            await wait_until(lambda: set(self.worker.worker_ids) == {"shop", "mail"}, what="it is registered")
            yield self


async def slots_of(api: Api, worker_id: str) -> int:
    status, view = await api.call("GET", f"/api/workers/{worker_id}")
    assert status == 200
    return int(view["max_jobs"])


@PULLING
async def test_one_worker_runs_the_jobs_of_several_namespaces(
    installation: Installation, *, pull: bool
) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    held = Held(installation.url, pull=pull)
    worker = held.worker

    @worker.handler("follow")
    def follow(argument: Any, ctx: Context) -> Any:
        return ctx.enqueue("echo", argument, keep_result=True)

    @worker.handler("save")
    async def save(argument: Any, ctx: Context) -> Any:
        ctx.progress(0.5, "half")
        ctx.logger.info("of %s", argument)
        return await ctx.step("count", asyncio.sleep, 0, 7)

    async with held.up():
        assert len(set(worker.worker_ids.values())) == 2
        for api, name in ((shop, "shop"), (mail, "mail")):
            first = await api.until_state(await api.enqueue("follow", name, keep_result=True), "succeeded")
            status, result = await api.call("GET", f"/api/jobs/{first['id']}/result")
            assert status == 200
            # The job that a handler enqueues belongs to the namespace of its own job.
            await api.until_state(result["result"], "succeeded")
            saved = await api.until_state(await api.enqueue("save", name), "succeeded")
            assert saved["attempt"] == 1
        # Other workers and pushers see two workers, each in its namespace.
        for api, name in ((shop, "shop"), (mail, "mail")):
            status, listed = await api.call("GET", "/api/workers")
            assert [one["id"] for one in listed["workers"]] == [worker.worker_ids[name]]
            url = listed["workers"][0]["url"]
            assert url is None if pull else url == f"{worker.address}/ns/{name}"
    for api in (shop, mail):
        assert (await api.call("GET", "/api/workers"))[1]["workers"] == []


async def test_the_process_of_an_isolated_job_enqueues_into_its_namespace(installation: Installation) -> None:
    mail = installation.api("mail")
    async with Held(installation.url, tasks=tasks).up():
        job = await mail.enqueue("apart", {"text": "mail"}, keep_result=True)
        await mail.until_state(job, "succeeded", timeout_s=60)
        _, answer = await mail.call("GET", f"/api/jobs/{job}/result")
        await mail.until_state(answer["result"], "succeeded")


async def test_a_call_gathers_jobs_of_one_namespace_only(installation: Installation) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url, tasks=tasks, max_jobs=8).up():
        status, _ = await shop.call("POST", "/api/jobs/bulk", {"jobs": gathered("shop")})
        assert status == 201
        status, _ = await mail.call("POST", "/api/jobs/bulk", {"jobs": gathered("mail")})
        assert status == 201
        for api, name in ((shop, "shop"), (mail, "mail")):
            for job in gathered(name):
                await api.until_state(job["id"], "succeeded")
                status, answer = await api.call("GET", f"/api/jobs/{job['id']}/result")
                assert set(answer["result"]) == {name}


def gathered(name: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "together",
            "argument": {"names": name},
            "keep_result": True,
            "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}{n}")),
        }
        for n in range(4)
    ]


@PULLING
async def test_a_namespace_gets_its_share_from_one_that_uses_idle_slots(
    installation: Installation, *, pull: bool
) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url, pull=pull).up() as held:
        # The slots of the other namespace are lent while it leaves them idle.
        running = await held.hold(mail, 4)
        waiting = [await mail.enqueue("hold", max_retry=0, timeout=60) for _ in range(6)]
        wanted = [await shop.enqueue("hold", max_retry=0, keep_result=True, timeout=60) for _ in range(3)]
        await asyncio.sleep(0.5)  # the time for offers that are refused
        assert len(held.running) == 4
        # The first slots that become free are for the namespace that has less than its share, whoever else waits.
        for job in running[:3]:
            held.release(job)
        await wait_until(lambda: all(job in held.running for job in wanted), what="the share is given")
        assert not any(job in held.running for job in waiting)
        held.release(running[3])
        await wait_until(
            lambda: any(job in held.running for job in waiting), what="the other has its own share"
        )
        for job in wanted:
            held.release(job)
        # Refused offers have cost neither a retry nor a loss.
        for job in wanted:
            await shop.until_state(job, "succeeded")
        # Idle slots are lent again.
        await wait_until(lambda: sum(job in held.running for job in waiting) == 4, what="idle slots are lent")
        async with asyncio.timeout(15):
            while any([await mail.state(job) != "succeeded" for job in (*running, *waiting)]):
                for job in list(held.running):
                    held.release(job)


async def test_masters_learn_with_a_heartbeat_how_many_slots_a_namespace_may_use(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_slots, "WANTED_S", 60.0)
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url).up() as held:
        ids = held.worker.worker_ids

        async def offered() -> tuple[int, int]:
            return await slots_of(shop, ids["shop"]), await slots_of(mail, ids["mail"])

        assert await offered() == (4, 4)
        await held.hold(shop, 2)

        async def is_offered(expected: tuple[int, int]) -> bool:
            return await offered() == expected

        await wait_until(lambda: is_offered((4, 2)), what="used slots are not offered")
        await held.hold(mail, 2)
        await wait_until(lambda: is_offered((3, 2)), what="the share is always offered")
        await shop.enqueue("hold", timeout=60)
        await wait_until(lambda: is_offered((3, 1)), what="a wanted slot is not offered to the other")
        # An operator bounds what one namespace may use.
        status, _ = await shop.call("POST", f"/api/workers/{ids['shop']}/slots", {"max_jobs": 2})
        assert status == 200
        await wait_until(lambda: is_offered((2, 1)), what="the operator's number counts")
        status, view = await shop.call("GET", f"/api/workers/{ids['shop']}")
        assert view["own_max_jobs"] == 3
        for event in list(held.running.values()):
            event.set()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["hung", "killed"])
@PULLING
async def test_a_namespace_whose_store_is_away_does_not_hold_up_the_others(
    installation: Installation, other: StoreServer, number: signal.Signals, *, pull: bool
) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url, pull=pull).up() as held:
        (kept,) = await held.hold(mail, 1)
        shop_id = held.worker.worker_ids["shop"]
        other.signal(number)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + 4  # more than two leases
        while loop.time() < ends_s:
            started_s = loop.time()
            await shop.until_state(await shop.enqueue("echo", "x"), "succeeded", timeout_s=2)
            assert loop.time() - started_s < 2
            await asyncio.sleep(0.2)
        assert held.worker.worker_ids["shop"] == shop_id
        # The lease of the other job has ended without a renewal, so it was stopped.
        assert kept not in held.running
        other.kill()
        other.start()
        await installation.until_served("mail")
        await mail.until_state(await mail.enqueue("echo", "x"), "succeeded", timeout_s=20)


@PULLING
async def test_results_wait_for_their_namespace(
    installation: Installation, other: StoreServer, *, pull: bool
) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url, pull=pull).up() as held:
        (kept,) = await held.hold(mail, 1)
        other.signal(signal.SIGSTOP)
        held.release(kept)
        await wait_until(lambda: kept not in held.running)
        await shop.until_state(await shop.enqueue("echo"), "succeeded", timeout_s=5)
        other.signal(signal.SIGCONT)
        done = await mail.until_state(kept, "succeeded", timeout_s=20)
        assert done["attempt"] == 1


@PULLING
async def test_a_worker_that_ends_hands_its_jobs_back_in_every_namespace(
    installation: Installation, *, pull: bool
) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    may_end = threading.Event()
    held = Held(installation.url, pull=pull, grace_s=0.1)

    @held.worker.handler("deaf")
    def deaf(argument: Any) -> None:
        may_end.wait(30)

    async with held.up():
        jobs = [(api, (await held.hold(api, 1))[0]) for api in (shop, mail)]
        left = [(api, await api.enqueue("deaf", timeout=60)) for api in (shop, mail)]
        for api, job in left:
            await api.until_state(job, "running")
    for api, job in jobs:
        await api.until_state(job, "ready")
    # Each handler that does not stop keeps its own namespace's lease.
    await asyncio.sleep(2)
    for api, job in left:
        assert (await api.job(job))["attempt"] == 1
        assert await api.state(job) == "running"
    may_end.set()
    for api, job in left:
        await api.until_state(job, "succeeded")

        async def is_gone(api: Api = api) -> bool:
            return (await api.call("GET", "/api/workers"))[1]["workers"] == []

        await wait_until(is_gone, what="the worker is unregistered")


async def test_operators_command_a_worker_in_one_namespace(installation: Installation) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url).up() as held:
        (canceled,) = await held.hold(shop, 1)
        (kept,) = await held.hold(mail, 1)
        assert (await shop.call("POST", f"/api/jobs/{canceled}/cancel"))[0] == 200
        await wait_until(lambda: canceled not in held.running, what="the job is stopped")
        assert (await shop.call("POST", f"/api/workers/{held.worker.worker_ids['shop']}/drain"))[0] == 200
        await mail.until_state(await mail.enqueue("echo"), "succeeded")
        waits = await shop.enqueue("echo")
        assert (await mail.call("POST", f"/api/workers/{held.worker.worker_ids['mail']}/detach"))[0] == 200
        await wait_until(lambda: kept not in held.running, what="the detached worker stops its job")
        assert await shop.state(waits) == "ready"
        assert (await shop.call("POST", f"/api/workers/{held.worker.worker_ids['shop']}/resume"))[0] == 200
        await shop.until_state(waits, "succeeded")


async def test_the_same_id_may_run_in_two_namespaces_at_once(installation: Installation) -> None:
    shop, mail = installation.api("shop"), installation.api("mail")
    async with Held(installation.url).up() as held:
        (job_id,) = await held.hold(shop, 1)
        assert await mail.enqueue("echo", "mail", id=job_id) == job_id
        await mail.until_state(job_id, "succeeded")
        assert job_id in held.running
        held.release(job_id)
        await shop.until_state(job_id, "succeeded")


async def test_a_call_of_a_task_may_go_to_another_namespace(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JQMASTER_URL", installation.url)
    shop, mail = installation.api("shop"), installation.api("mail")
    away = Tasks()

    @away.task("echo.text", keep_result=True)
    async def echo(text: str) -> str:
        return text

    @away.task("hand.on", keep_result=True)
    async def hand_on(text: str) -> str:
        # Inside a job, the namespace is that of the job, unless the call names another.
        here = await echo.aenqueue(text)
        there = await echo.using(namespace="mail", priority=3).aenqueue(text)
        return f"{here.id} {there.id}"

    async with Held(installation.url, tasks=away).up():
        handle = await hand_on.using(namespace="shop").aenqueue("x")
        here, there = (await handle.aget(10)).split()
        await shop.until_state(here, "succeeded")
        assert (await mail.until_state(there, "succeeded"))["priority"] == 3
        assert (await shop.call("GET", f"/api/jobs/{there}"))[0] == 404
        handles = await echo.using(namespace="mail").amany([{"text": "a"}, {"text": "b"}])
        assert [await one.aget(10) for one in handles] == ["a", "b"]
        with pytest.raises(ValueError, match="2 to 39 of the characters"):
            await echo.using(namespace="Mail").aenqueue("x")
        with pytest.raises(TypeError, match="belongs to no namespace"):
            echo.using(namespace="mail").to_job("x")
