"""Additions of a later release stay in a record, and no script replaces another's version with its own."""

from typing import Any

import pytest

from jqmaster.domain.jobs.job import Cause, JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.store import codec
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M12")


def _extras(record: bytes) -> bytes:
    at = codec.HEAD_SIZE + 1 + record[codec.HEAD_SIZE] + 1
    return record[at : codec.head_length("j", record)]


async def test_a_field_of_a_later_release_stays_while_this_one_runs_the_job(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    added_extras = codec.added_extras

    def with_colour(spec: JobSpec) -> dict[str, Any]:
        return {**added_extras(spec), "colour": "red"}

    with monkeypatch.context() as patch:
        patch.setattr(codec, "added_extras", with_colour)
        job_id = await world.enqueue(tags=("t",), headers={"h": "v"})
    key = world.shard.keys.job(job_id)
    before = _extras(await world.redis.get(key))
    assert b"colour" in before
    worker_id = await world.worker()
    retrying = Decision(JobState.RETRYING, "failure", delay_ms=1_000, cause=Cause.ERROR, is_counted=True)
    for attempt in (1, 2):
        (job,) = await world.claim(worker_id)
        assert (job.job_id, job.record.attempt, job.record.headers) == (job_id, attempt, {"h": "v"})
        assert await world.fail(worker_id, job, retrying)
        await world.operator_actions.run_now(job_id)
    stored = await world.get(job_id)
    assert (stored.state, stored.tags, stored.failures) == (JobState.READY, ("t",), 2)
    assert _extras(await world.redis.get(key)) == before


async def test_repeats_leave_the_version_of_a_record_as_it_is(world: StoreWorld) -> None:
    spec = world.spec(tags=("t",))
    assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
    key = world.shard.keys.job(spec.id)
    await world.redis.setrange(key, 0, bytes((codec.VERSION + 1,)))
    async with world.unchanged():
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
        await world.operator_actions.run_now(spec.id)
    await world.redis.setrange(key, 0, bytes((codec.VERSION,)))
