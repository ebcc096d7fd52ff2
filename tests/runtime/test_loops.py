"""Loops are vital or side loops. One of the latter that fails is shown, and takes nothing along."""

import ast
import asyncio
import importlib
import pkgutil
from pathlib import Path

import pytest

import jqmaster.runtime
from jqmaster.app import Master, running_master
from jqmaster.errors import StaleEpochError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops, EntriesApart, LoopFailures, running
from jqmaster.runtime.duties.due_loop import DueLoop
from jqmaster.runtime.duties.notice_loop import NoticeLoop
from jqmaster.runtime.periodic_loop import LeaderLoop, PeriodicLoop, WokenLoop
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("M1")

ROOT = Path(__file__).parents[2]
# Without these a master cannot do its work. All others are side loops.
VITAL = {
    "ConstraintKeeper", "FailureDetector", "Heartbeats", "Promoter", "Quarantine", "Reaper", "ShardLook",
    "SharedLooks", "StoreHealth", "SubLeader", "Watchdog",
}  # fmt: skip
VITAL_FILES = {
    "jqmaster/embedded/supervisor.py", "jqmaster/runtime/duties/dispatcher.py",
    "jqmaster/runtime/leadership/leader.py", "jqmaster/runtime/leadership/membership.py",
    "jqmaster/runtime/leadership/renewals.py", "jqmaster/service/identity/directory.py",
    "jqmaster/service/operations/live_settings.py", "jqmaster/service/workers/polls.py",
    "jqmaster/store/link/listener.py",
}  # fmt: skip


def test_each_loop_says_whether_it_is_vital() -> None:
    for module in pkgutil.walk_packages(jqmaster.runtime.__path__, "jqmaster.runtime."):
        importlib.import_module(module.name)
    bases: set[type[PeriodicLoop]] = {PeriodicLoop, LeaderLoop, WokenLoop, DueLoop}
    loops = {
        cls
        for base in bases
        for cls in base.__subclasses__()
        if cls not in bases - {DueLoop} and cls.__module__.startswith("jqmaster.")
    }
    assert len(loops) > 20
    assert [cls.__name__ for cls in loops if "is_vital" not in vars(cls)] == []
    assert {cls.__name__ for cls in loops if cls.is_vital} == VITAL


def test_each_component_with_loops_of_its_own_says_whether_it_is_vital() -> None:
    said: dict[str, set[bool]] = {}
    for path in sorted((ROOT / "jqmaster").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BackgroundLoops":
                (value,) = [word.value for word in node.keywords if word.arg == "is_vital"]
                if isinstance(value, ast.Constant):
                    said.setdefault(path.relative_to(ROOT).as_posix(), set()).add(bool(value.value))
    assert {file for file, values in said.items() if values == {True}} == VITAL_FILES
    assert len(said) >= 10


class Failing:
    """A component whose loop fails until `works` is set."""

    def __init__(self, *, is_vital: bool) -> None:
        self.loops = BackgroundLoops("failing", is_vital=is_vital)
        self.works = False

    async def start(self) -> None:
        self.loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self.loops.stop()

    async def _run(self) -> None:
        if not self.works:
            raise KeyError("an entry")
        self.loops.worked("rounds")
        await asyncio.Event().wait()


@pytest.mark.parametrize("is_vital", [False, True])
async def test_a_side_loop_is_tried_again_less_and_less_often(
    is_vital: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_s: list[float] = []
    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses_s.append(seconds)
        await pause(0 if len(pauses_s) < 9 else 3600)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    failures = LoopFailures(ManualClock())
    async with running([Failing(is_vital=is_vital)], failures=failures):
        while len(pauses_s) < 9:
            await pause(0)
        assert (failures.longest() is not None) == is_vital
        assert (failures.side_faults() != {}) == (not is_vital)
    assert pauses_s == ([1.0] * 9 if is_vital else [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0])
    # Loops that were stopped fail no more.
    assert (failures.longest(), failures.side_faults()) == (None, {})


async def test_a_loop_that_works_again_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, component = LoopFailures(ManualClock()), Failing(is_vital=False)
    component.loops._restart_after_s = 0.0
    async with running([component], failures=failures):
        await wait_until(lambda: failures.side_faults() != {})
        component.works = True
        await wait_until(lambda: failures.side_faults() == {})


def test_one_bad_entry_fails_alone_and_what_the_store_raises_concerns_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart, done = EntriesApart("definitions"), list[str]()
    for _ in range(3):
        for entry in ("a", "bad", "b"):
            with apart.alone(entry):
                if entry == "bad":
                    raise KeyError(entry)
                done.append(entry)
    assert done == ["a", "b"] * 3
    assert caplog.text.count("definitions: bad fails; the others go on") == 1
    with apart.alone("bad"):
        pass
    assert "definitions: bad works again" in caplog.text
    for error in (StoreUnavailableError("away"), StaleEpochError(), asyncio.CancelledError()):
        with pytest.raises(type(error)), apart.alone("a"):
            raise error


def test_failures_of_a_store_count_for_the_shards_on_it_and_those_of_a_shard_for_no_other() -> None:
    clock = ManualClock()
    store = LoopFailures(clock)
    shop, mail = (LoopFailures(clock, beneath=store) for _ in range(2))
    shop.add("reaper.rounds", RuntimeError("it broke"), is_vital=True)
    assert shop.longest() == (0.0, "reaper.rounds", "RuntimeError: it broke", False)
    assert mail.longest() is None
    store.add("store_health.rounds", RuntimeError("no report"), is_vital=True)
    assert mail.longest() == (0.0, "store_health.rounds", "RuntimeError: no report", False)


@pytest.fixture
def failing_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the notices of masters that start later fail in each round."""

    async def fail(self: NoticeLoop) -> float:
        raise KeyError("an unlisted condition")

    monkeypatch.setattr(NoticeLoop, "_round", fail)


async def begin_notices(api: Api) -> None:
    """Make a notice: without one, the loop has no rounds."""
    notice = {"when": "job_failed", "to": [{"slack": "https://hooks.shop.example/failed"}]}
    assert (await api.call("PUT", "/api/notices/failed", notice))[0] == 201


@real_time.MASTER
async def test_a_duty_that_fails_is_shown_and_the_master_stays_ready(
    failing_notices: None, api: Api, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    resets: list[int] = []
    monkeypatch.setattr(type(master.shard.services.store.client), "reset", lambda self: resets.append(1))

    async def is_shown() -> bool:
        _, ready = await api.call("GET", "/readyz")
        return bool(ready["duty_faults"])

    await begin_notices(api)
    await wait_until(is_shown, what="the duty is shown")
    status, ready = await api.call("GET", "/readyz")
    assert (status, ready["status"], ready["faults"]) == (200, "ready", [])
    assert "notices.rounds fails (KeyError: 'an unlisted condition')" in ready["duty_faults"][0]

    async def told() -> list[str]:
        return list((await api.call("GET", "/api/stats"))[1]["duty_faults"])

    assert (await wait_until(told, what="statistics tell of it"))[0].startswith("notices.rounds fails")
    metrics = (await api.http.get("/metrics")).text
    assert 'jqmaster_duty_faults{duty="notices.rounds"} 1' in metrics
    assert resets == []


@real_time.MASTER
async def test_a_duty_that_fails_at_the_leader_is_shown_by_the_other_masters(
    failing_notices: None, store_server: StoreServer
) -> None:
    # The lead stays where it is, even if the machine stands still.
    async with master_on(store_server.url, leader_ttl_s=30.0) as (leader, _):
        settings = leader.settings.model_copy()
        async with running_master(settings) as follower:
            api = Api(follower.server.url)
            try:

                async def told() -> list[str]:
                    return list((await api.call("GET", "/api/stats"))[1]["duty_faults"])

                await begin_notices(api)
                (fault,) = await wait_until(told, what="the follower tells of the leader's duty")
                _, ready = await api.call("GET", "/readyz")
                metrics = (await api.http.get("/metrics")).text
            finally:
                await api.http.aclose()
            assert follower.shard.leader.leadership is None
    assert fault.startswith("notices.rounds fails (KeyError: 'an unlisted condition')")
    assert fault.endswith(f"(at the leader, master {leader.id})")
    assert (ready["status"], ready["leader"], ready["duty_faults"]) == ("ready", False, [fault])
    assert 'jqmaster_duty_faults{duty="notices.rounds"} 1' in metrics
