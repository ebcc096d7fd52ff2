"""Jobs with a uniqueness key on a test store."""

from typing import Any

from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.unique import OnConflict, Unique, UniqueScope, unique_digest
from tests.support.store import StoreWorld


def unique(
    key: str = "k",
    scope: str = "until_finished",
    on_conflict: str = "reject",
    *,
    ttl_ms: int = 0,
    name: str = "work",
) -> Unique:
    """Return the uniqueness of a job with that name."""
    digest = unique_digest(name, key, b"", lambda _: None)
    return Unique(digest, key, UniqueScope(scope), OnConflict(on_conflict), ttl_ms)


def debounced(key: str = "k", *, wait_ms: int, max_ms: int = 0) -> dict[str, Any]:
    """Return a debounced job's fields."""
    digest = unique_digest("work", key, b"", lambda _: None)
    return {"unique": Unique.debounce(digest, key, wait_ms=wait_ms, max_ms=max_ms), "delay_ms": wait_ms}


async def bring_to(world: StoreWorld, spec: JobSpec, state: str) -> None:
    """Enqueue the job and bring it to a state. `gone` means succeeded and removed."""
    await world.acceptance.enqueue([spec])
    if state == "scheduled":
        return
    if state == "canceled":
        await world.operator_actions.cancel(spec.id)
        return
    if state == "ready":
        return
    worker_id = await world.worker()
    (job,) = await world.claim(worker_id)
    assert job.job_id == spec.id
    if state == "offered":
        return
    await world.workers.renew(worker_id, [(job.job_id, job.token)], 0)
    if state == "running":
        return
    if state == "retrying":
        retrying = Decision(JobState.RETRYING, "failure", delay_ms=60_000, is_counted=True)
        assert await world.fail(worker_id, job, retrying)
        return
    if state == "failed":
        assert await world.fail(worker_id, job)
        return
    await world.settlements.settle_success(worker_id, [(job.job_id, job.token, b"")])
    if state == "gone":
        await world.operator_actions.delete(spec.id)
