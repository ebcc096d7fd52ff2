"""Nothing is late on a quiet shard: messages and known instants begin the duties, and looks find the rest."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from jqmaster.app import Master
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.domain.operations.tally import Tally
from jqmaster.runtime.duties import shard_look
from jqmaster.runtime.leadership.local_leader import LocalLeader
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.master import PATIENT, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("S6"), real_time.MASTER]

NEVER_S = 3600.0


@pytest.fixture
def longest_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The longest pause between two looks: by default so long that no look helps."""
    seconds: float = getattr(request, "param", NEVER_S)
    monkeypatch.setattr(shard_look, "QUIET_S", seconds)
    return seconds


@pytest.fixture
async def quiet(longest_s: float, store_server: StoreServer) -> AsyncIterator[tuple[Master, Api]]:
    async with master_on(store_server.url, **PATIENT) as (master, api):
        duties = master.shard.duties
        assert duties

        def is_quiet() -> bool:
            pausing = duties.look._pausing
            if longest_s == NEVER_S:
                # As if the shard had been quiet for long.
                duties.look._quiet_s = NEVER_S
            if pausing is None or not duties.look.is_quiet:
                return False
            left_s = (pausing.when() or 0.0) - asyncio.get_running_loop().time()
            # The length of leases limits the pause.
            return longest_s < NEVER_S or left_s > 15.0

        await wait_until(is_quiet, what="the shard is quiet")
        yield master, api


async def push_untold(master: Master, *, delay_ms: int) -> str:
    """Push a delayed job without a message to the leader, as if it was lost."""
    link, silent = master.shard.services.link, LocalLeader()
    silent.connect(lambda _: None)
    store = EnqueueStore(Shard(link.client, link.keys, leader=silent, mark=link.mark), Tally())
    spec = JobSpec(id=new_id(), name="work", argument=b"\xc0", delay_ms=delay_ms)
    assert await store.enqueue([spec]) == [Accepted.NEW]
    return spec.id


async def ready_after_s(api: Api, job_id: str, since_s: float, *, within_s: float) -> float:
    async def is_ready() -> bool:
        return await api.state(job_id) == JobState.READY

    await wait_until(is_ready, timeout_s=within_s, what="the job is ready")
    return time.monotonic() - since_s


@pytest.mark.parametrize("delay_s", [0.3, shard_look.QUIET_S - 1])
async def test_a_delayed_job_becomes_ready_in_time_while_looks_sleep(
    quiet: tuple[Master, Api], delay_s: float
) -> None:
    master, api = quiet
    assert master.shard.duties
    began_s = time.monotonic()
    job_id = await api.enqueue("work", delay=delay_s)
    # The push ended the quiet.
    assert not master.shard.duties.look.is_quiet
    await ready_after_s(api, job_id, began_s, within_s=delay_s + 4.0)


@pytest.mark.parametrize("longest_s", [2.0], indirect=True)
async def test_a_job_whose_message_was_lost_becomes_ready_with_the_next_look(
    quiet: tuple[Master, Api],
) -> None:
    master, api = quiet
    began_s = time.monotonic()
    job_id = await push_untold(master, delay_ms=50)
    await ready_after_s(api, job_id, began_s, within_s=8.0)


@pytest.mark.parametrize("longest_s", [2.0], indirect=True)
async def test_a_look_tells_the_instant_at_which_an_untold_job_is_due(quiet: tuple[Master, Api]) -> None:
    master, api = quiet
    duties = master.shard.duties
    assert duties
    job_id = await push_untold(master, delay_ms=60_000)

    def knows() -> bool:
        until_s = duties.promoter.next_round_s
        return until_s is not None and until_s - duties.promoter._began_pause_s < 61

    await wait_until(knows, what="the promoter knows the instant")
    assert await api.state(job_id) == JobState.SCHEDULED


async def test_a_pause_with_an_end_ends_in_time_while_looks_sleep(quiet: tuple[Master, Api]) -> None:
    """The leader's copy of the constraints may be newer than its last round of removing those that are over."""
    _, api = quiet
    for _ in range(2):
        status, one = await api.call("POST", "/api/pauses", {"job_name": "mail", "duration_s": 2.0})
        assert status == 201

        async def is_gone(name: str = one["name"]) -> bool:
            return (await api.call("GET", f"/api/constraints/{name}"))[0] == 404

        await wait_until(is_gone, timeout_s=5.0, what="the pause has ended")


async def test_after_a_lost_connection_for_messages_every_duty_looks_at_once(
    quiet: tuple[Master, Api],
) -> None:
    master, api = quiet
    began_s = time.monotonic()
    await admin_of(master.shard.services.link.client).client_kill_filter(_type="pubsub")
    job_id = await push_untold(master, delay_ms=50)
    await ready_after_s(api, job_id, began_s, within_s=10.0)


async def test_the_progress_of_a_quiet_leader_is_no_stall(quiet: tuple[Master, Api]) -> None:
    master, _ = quiet
    stall = await master.shard.progress.stall()
    assert stall.seconds < 5.0
