"""Several masters on one store, as real processes: the leader is killed, stopped, ended and demoted under load."""

import asyncio
import contextlib
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.config import Settings
from tests.support import long, real_time
from tests.support.master import QUICK, Api, assert_sound
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

DEFAULTS = {name: Settings.model_fields[name].default for name in QUICK if name != "port"}


class Masters:
    """Masters of one shard by node name (`a`, `b`, `a2` on node `a`), and their clients."""

    def __init__(
        self, store_url: str, directory: Path, nodes: Sequence[str], settings: dict[str, Any]
    ) -> None:
        self.shard = f"s{uuid.uuid4().hex[:10]}"
        self._store_url = store_url
        self.processes: dict[str, MasterProcess] = {}
        self.apis: dict[str, Api] = {}
        for name in nodes:
            (directory / name).mkdir()
            self.processes[name] = MasterProcess(
                directory / name, store_url, shard=self.shard, node_id=name[0], **settings
            )
            self.apis[name] = Api(self.processes[name].url)

    def __getitem__(self, name: str) -> MasterProcess:
        return self.processes[name]

    async def seen_by(self, name: str) -> dict[str, str]:
        """Return the roles that this master reports. The result is empty if it does not answer."""
        try:
            status, answer = await self.apis[name].call("GET", "/api/masters")
        except httpx.TransportError:
            return {}
        names = {process.url: name for name, process in self.processes.items()}
        roles: dict[str, str] = {}
        for one in answer["masters"] if status == 200 else ():
            # Former masters at the same address may still be listed: a clock that was set back keeps them fresh.
            if roles.get(names[one["url"]]) != "leader":
                roles[names[one["url"]]] = one["role"]
        return roles

    async def id_of(self, name: str) -> str:
        _, answer = await self.apis[name].call("GET", "/healthz")
        return str(answer["id"])

    async def until_leads(self, name: str, *, as_seen_by: str, timeout_s: float = 45) -> float:
        """Wait until this master leads, and return when that was seen."""

        async def leads() -> bool:
            return (await self.seen_by(as_seen_by)).get(name) == "leader"

        await wait_until(leads, timeout_s=timeout_s, what=f"{name} leads")
        return asyncio.get_running_loop().time()

    async def until_another_leads(self, name: str, *, as_seen_by: str, timeout_s: float) -> str:
        """Return the new leader."""

        async def another() -> str | None:
            roles = await self.seen_by(as_seen_by)
            return next((one for one, role in roles.items() if role == "leader" and one != name), None)

        return await wait_until(another, timeout_s=timeout_s, what=f"another one than {name} leads")

    async def until_known(self) -> None:
        async def known() -> bool:
            found = [await self.seen_by(name) for name in self.processes]
            return all(set(one) == set(self.processes) and "leader" in one.values() for one in found)

        await wait_until(known, what="all know all")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start masters, the first of which leads. End with fsck."""
        with running(*self.processes.values()):
            try:
                await self.until_known()
                yield
            finally:
                for api in self.apis.values():
                    await api.http.aclose()
        await assert_sound(self._store_url, self.shard)


@contextlib.asynccontextmanager
async def masters_on(
    store: StoreServer, directory: Path, *nodes: str, settings: dict[str, Any] | None = None
) -> AsyncIterator[Masters]:
    """Start masters, the first of which leads."""
    masters = Masters(store.url, directory, nodes, settings or {})
    async with masters.running():
        yield masters


class Load:
    """Jobs pushed one at a time to one master, and a worker there that ends each at once."""

    def __init__(self, api: Api, worker: ScriptedWorker) -> None:
        self.api = api
        self.worker = worker
        self.is_over = False
        self.enqueued: list[str] = []
        self.taken: Counter[str] = Counter()
        self.taken_at_s: list[float] = []
        self.tasks: tuple[asyncio.Task[None], ...] = ()

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, api: Api) -> AsyncIterator["Load"]:
        """Push in this block, and finally wait until every job has ended."""
        async with worker_at(api, max_jobs=50) as worker:
            load = cls(api, worker)
            working = asyncio.create_task(load._work())
            pushing = asyncio.create_task(load._push())
            load.tasks = (working, pushing)
            try:
                await wait_until(lambda: load.taken, what="the work is under way")
                yield load
                # Let the push finish, to know what was accepted.
                load.is_over = True
                await pushing
                await wait_until(
                    lambda: len(load.taken) >= len(load.enqueued) or working.done(),
                    timeout_s=30,
                    what="every job was taken",
                )
                await load._all_succeeded()
            finally:
                for task in (pushing, working):
                    task.cancel()
                await asyncio.gather(pushing, working, return_exceptions=True)

    async def _push(self) -> None:
        while not self.is_over:
            self.enqueued.append(await self.api.enqueue("work"))
            await asyncio.sleep(0.02)

    async def _work(self) -> None:
        while True:
            job = await self.worker.offers.get()
            self.taken[job["job_id"]] += 1
            self.taken_at_s.append(asyncio.get_running_loop().time())
            await self.worker.end(job)

    async def _all_succeeded(self) -> None:
        async def over() -> bool:
            return (await self.api.counts())["succeeded"] == len(self.enqueued)

        await wait_until(over, timeout_s=30, what="every job succeeded")
        assert set(self.taken) == set(self.enqueued)

    def longest_gap_s(self) -> float:
        """Return the longest time between two jobs."""
        return max(after - before for before, after in self._pairs())

    def _pairs(self) -> Iterator[tuple[float, float]]:
        return zip(self.taken_at_s, self.taken_at_s[1:], strict=False)

    async def for_s(self, seconds: float) -> None:
        """Keep the work going for `seconds`."""
        deadline_s = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline_s:
            await self.goes_on()

    async def goes_on(self, timeout_s: float = 15) -> None:
        """Wait until a job enqueued from now on is taken."""
        begun, taken = len(self.enqueued), self.taken

        def has_gone_on() -> bool:
            for task in self.tasks:
                if task.done():
                    task.result()  # raises the error that ended it
            return any(job_id in taken for job_id in self.enqueued[begun + 2 :])

        await wait_until(has_gone_on, timeout_s=timeout_s, what="jobs are dispatched")


@pytest.mark.req("D1", "D3")
async def test_after_a_kill_of_the_leader_dispatch_resumes_within_five_seconds_under_the_defaults(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with masters_on(store_server, tmp_path, "a", "b", settings=DEFAULTS) as masters:
        async with worker_at(masters.apis["b"], max_jobs=50) as worker:
            load = Load(masters.apis["b"], worker)
            tasks = [asyncio.create_task(load._push()), asyncio.create_task(load._work())]
            await wait_until(lambda: len(load.taken) > 50, what="the work is under way")
            masters["a"].kill()
            await masters.until_leads("b", as_seen_by="b", timeout_s=5)
            await load.goes_on()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert load.longest_gap_s() < 5
        assert not worker.stale_epochs
        assert max(load.taken.values()) == 1


@pytest.mark.sized
@pytest.mark.req("D1", "D2", "D4", "D5")
async def test_a_leader_that_is_stopped_and_wakes_lets_nothing_stale_through(
    store_server: StoreServer, tmp_path: Path
) -> None:
    """Stop both in turn under load. Each time, the next leader is at work when the stopped one wakes. In `make test`,
    stop only the first."""
    ttl_s = 2.5
    async with masters_on(
        store_server, tmp_path, "a", "b", "a2", settings={"leader_ttl_s": ttl_s}
    ) as masters:
        # Client and worker use a third master, which is never the sub-leader.
        async with Load.at(masters.apis["a2"]) as load:
            for stopped, other in (("a", "b"), ("b", "a"))[: long.size(1, 2)]:
                await masters.until_leads(stopped, as_seen_by="a2")
                await load.goes_on()
                masters[stopped].signal(signal.SIGSTOP)
                await masters.until_leads(other, as_seen_by="a2")
                await load.goes_on()
                pushes = len(load.worker.epochs)
                masters[stopped].signal(signal.SIGCONT)

                async def follows(stopped: str = stopped, other: str = other) -> bool:
                    roles = await masters.seen_by(stopped)
                    return roles.get(stopped) in ("follower", "sub_leader") and roles.get(other) == "leader"

                await wait_until(follows, what=f"{stopped} follows {other}")
                # Wait longer than it has to leave the lead to others.
                await load.for_s(ttl_s)
                newest = load.worker.epochs[pushes - 1]
                assert set(load.worker.epochs[pushes:]) == {newest}, "another master led meanwhile"
        # A push that was about to go out when the master stopped leaves when it wakes. The master checks before each
        # further push.
        assert len(load.worker.stale_epochs) <= 2
        assert max(load.taken.values()) == 1, "a job was started twice"


@pytest.mark.req("D1", "D2", "D4", "D5")
async def test_a_leader_whose_loop_is_blocked_loses_the_lead_and_follows_when_it_wakes(
    store_server: StoreServer, tmp_path: Path
) -> None:
    """Its process and threads run and the kernel still accepts its connections. Only its event loop is stuck."""
    released = tmp_path / "released"
    block = (
        f"def block(*_):\n"
        f"    while not os.path.exists({str(released)!r}): time.sleep(0.05)\n"
        f"signal.signal(signal.SIGUSR1, block)"
    )
    serve = "sys.argv = ['jqmaster', 'serve']; runpy.run_module('jqmaster', run_name='__main__')"
    masters = Masters(
        store_server.url, tmp_path, ["a", "b", "a2"], {"leader_ttl_s": 1.5, "loop_watchdog_s": 0}
    )
    masters["a"]._arguments = ["-c", f"import os, runpy, signal, sys, time\n{block}\n{serve}"]
    async with masters.running():
        async with Load.at(masters.apis["a2"]) as load:
            await masters.until_leads("a", as_seen_by="a2")
            await load.goes_on()
            masters["a"].signal(signal.SIGUSR1)
            # If its lock expires before it is missed, anyone may take over.
            heir = await masters.until_another_leads("a", as_seen_by="a2", timeout_s=30)
            await load.goes_on()
            pushes = len(load.worker.epochs)
            released.touch()

            async def follows() -> bool:
                roles = await masters.seen_by("a")
                return roles.get("a") in ("follower", "sub_leader") and roles.get(heir) == "leader"

            await wait_until(follows, timeout_s=30, what="it follows")
            await load.for_s(1.5)
            assert len(set(load.worker.epochs[pushes - 1 :])) == 1, "another master led meanwhile"
        assert len(load.worker.stale_epochs) <= 1
        assert max(load.taken.values()) == 1, "a job was started twice"


@pytest.mark.req("D1", "D4")
async def test_an_orderly_end_of_the_leader_hands_over_within_a_second(
    store_server: StoreServer, tmp_path: Path
) -> None:
    """Under the defaults, a leaving master tells the others while it still answers requests."""
    async with masters_on(store_server, tmp_path, "a", "b", settings=DEFAULTS) as masters:
        later = await masters.apis["b"].enqueue("later", delay=3600, keep_result=True)
        long_poll = asyncio.create_task(masters.apis["a"].call("GET", f"/api/jobs/{later}/result?wait=4"))
        async with Load.at(masters.apis["b"]) as load:
            await load.goes_on()
            began_s = asyncio.get_running_loop().time()
            masters["a"].signal(signal.SIGTERM)
            handed_over_s = await masters.until_leads("b", as_seen_by="b", timeout_s=5) - began_s
            await load.goes_on()
        assert handed_over_s < 1
        assert load.longest_gap_s() < 1
        assert max(load.taken.values()) == 1
        assert (await long_poll)[0] == 202
        ending = masters["a"].popen
        assert ending
        # Do not send the signal twice: in its last moments, nothing would catch it.
        assert await asyncio.to_thread(ending.wait, 30) == 0
        assert await masters.seen_by("b") == {"b": "leader"}


@pytest.mark.req("D3", "D4")
async def test_a_demoted_leader_hands_over_to_another_node_within_a_second(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with masters_on(store_server, tmp_path, "a", "a2", "b", settings=DEFAULTS) as masters:
        async with Load.at(masters.apis["a"]) as load:
            # Wait long enough for the master to see that another node has one.
            await load.for_s(1)
            assert await masters.seen_by("a") == {"a": "leader", "a2": "follower", "b": "sub_leader"}
            status, _ = await masters.apis["a2"].call(
                "POST", f"/api/masters/{await masters.id_of('a')}/demote"
            )
            assert status == 202
            began_s = asyncio.get_running_loop().time()
            handed_over_s = await masters.until_leads("b", as_seen_by="a", timeout_s=5) - began_s
            await load.goes_on()
        assert handed_over_s < 1
        assert load.longest_gap_s() < 1
        assert max(load.taken.values()) == 1


@pytest.mark.req("D1")
async def test_a_lone_master_that_was_killed_leads_again_before_its_old_lock_runs_out(
    store_server: StoreServer, tmp_path: Path
) -> None:
    """The former master is silent in the store and does not answer at their common address, but the new one does."""
    # Long enough for a start on a busy machine and the following eight seconds of silence.
    settings = {**DEFAULTS, "leader_ttl_s": 20.0}
    async with masters_on(store_server, tmp_path, "a", settings=settings) as masters:
        before = await masters.id_of("a")
        masters["a"].kill()
        await asyncio.to_thread(masters["a"].start)

        async def leads() -> bool:
            _, answer = await masters.apis["a"].call("GET", "/api/masters")
            return any(one["role"] == "leader" and one["id"] != before for one in answer["masters"])

        await wait_until(leads, timeout_s=30)
        _, page = await masters.apis["a"].call("GET", f"/api/audit?target={before}")
        (entry,) = page["entries"]
        assert (entry["action"], entry["who"]) == ("master.take_over", f"master {await masters.id_of('a')}")
