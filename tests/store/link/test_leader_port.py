"""Claims that travel with a write: they are sent right after it, and get their replies before the writer does."""

from collections.abc import Collection
from typing import Any

import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.link.leader_port import LEADER_ELSEWHERE, ReportedSlots, TravellingClaim, Trigger
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.wake import JobsReady, WakeMessage, encode
from tests.store.link.test_client import world_behind
from tests.support.server import StoreServer
from tests.support.store import StoreWorld


class Leader:
    """A leader in this process that wants to read the running jobs after each write."""

    def __init__(self, world: StoreWorld) -> None:
        self.triggers: list[Trigger] = []
        self.names: list[set[str]] = []
        self.replies: list[Any] = []
        self.failures = 0
        self.words: list[str] = []
        self.call = ScriptCall(load("page"), (world.shard.keys.running,), ("", "", 1, 1, "", "", "", 0))
        world.leader.connect(self._wake, self._claim_with)

    def _wake(self, message: WakeMessage) -> None:
        self.words.append(encode(message))

    def _claim_with(self, trigger: Trigger, names: Collection[str]) -> TravellingClaim:
        self.triggers.append(trigger)
        self.names.append(set(names))
        return TravellingClaim([self.call], self.replies.extend, self._failed)

    def _failed(self) -> None:
        self.failures += 1


async def test_a_push_takes_the_claim_of_its_names_along_and_wakes_nobody(world: StoreWorld) -> None:
    leader = Leader(world)
    await world.enqueue("mail")
    assert (leader.triggers, leader.names) == ([JobsReady()], [{"mail"}])
    assert leader.replies == [("ok", [[]])]
    assert leader.words == []
    world.leader.disconnect()


async def test_jobs_that_wait_for_a_time_bring_no_claim(world: StoreWorld) -> None:
    leader = Leader(world)
    await world.enqueue(delay_ms=60_000)
    assert (leader.triggers, leader.replies) == ([], [])
    world.leader.disconnect()


async def test_a_push_that_needs_other_replicas_wakes_the_leader_instead(world: StoreWorld) -> None:
    leader = Leader(world)
    # Every write of this client needs a replica, and so would the claim; this push needs none.
    world.shard.client.quorum_replicas = 1
    await world.acceptance.enqueue([world.spec()], replicas=0)
    world.shard.client.quorum_replicas = 0
    assert leader.triggers == []
    assert leader.words == ["ready"]
    world.leader.disconnect()


async def test_the_end_of_an_attempt_takes_a_claim_for_its_slot_along(world: StoreWorld) -> None:
    worker_id, job = await world.running()
    leader = Leader(world)
    final = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
    assert await world.fail(worker_id, job, final)
    assert leader.triggers == [[ReportedSlots(worker_id, 1, has_answer=False)]]
    assert [word for word, _ in leader.replies] == ["ok"]
    assert "freed" not in "".join(leader.words)
    world.leader.disconnect()


async def test_a_claim_hears_that_its_round_trip_failed(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        leader = Leader(world)
        proxy.cut_next_request()
        with pytest.raises(Exception, match="the store"):
            await world.enqueue()
        assert (leader.failures, leader.replies) == (1, [])
        # An error from the store is a reply like any other.
        proxy.answer_next(b"-OOM command not allowed\r\n-OOM command not allowed\r\n")
        with pytest.raises(StoreUnavailableError):
            await world.enqueue()
        assert leader.failures == 1
        (refused,) = leader.replies
        assert isinstance(refused, StoreUnavailableError)
        world.leader.disconnect()


def test_a_process_that_never_leads_has_nothing_to_send_along() -> None:
    LEADER_ELSEWHERE.wake(JobsReady())
    assert LEADER_ELSEWHERE.claim_with(JobsReady(), ["mail"]) is None
    assert not LEADER_ELSEWHERE.is_here
