"""docs/job_lifecycle.md, the transition table and the store's behaviour agree."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgpack
import pytest

from jqmaster.domain.challenges.challenge import RequestId, new_request_id
from jqmaster.domain.jobs.job import HOLDS_SLOTS, TRANSITIONS, Cause, Job, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.predecessors import After
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.jobs.operator_actions import Changes, StateConflict
from tests.store.jobs.test_operator_actions import job_in
from tests.support.store import LEASE_MS, StoreWorld
from tests.support.unique import unique

DOCUMENT = Path(__file__).parents[2] / "docs" / "job_lifecycle.md"
EVENTS = sorted({event for _, event in TRANSITIONS})
ARROWS = {(source, event, target) for (source, event), targets in TRANSITIONS.items() for target in targets}


def name_of(state: JobState | None) -> str:
    return state.value if state else "[*]"


def diagram() -> str:
    order = [None, *JobState]
    arrows: dict[tuple[str, str], list[str]] = {}
    for source, event, target in sorted(ARROWS, key=lambda a: (order.index(a[0]), order.index(a[2]), a[1])):
        arrows.setdefault((name_of(source), name_of(target)), []).append(event)
    lines = [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"]) + "\n"


def table() -> str:
    lines = ["| from | event | to |", "|---|---|---|"]
    order = list(map(str, JobState))
    for (source, event), targets in TRANSITIONS.items():
        to = ", ".join(sorted(targets, key=order.index))
        lines.append(f"| {source or '(new)'} | {event} | {to} |")
    return "\n".join(lines) + "\n"


def test_the_document_shows_the_diagram_and_the_table() -> None:
    """Return the tables. To renew them, replace them with the output of `python -m tests.contract.test_lifecycle`."""
    text = DOCUMENT.read_text()
    assert diagram() in text
    assert table() in text


def test_the_diagram_says_what_the_table_says() -> None:
    drawn = re.findall(r"^    (\S+) --> (\S+): (.*)$", diagram(), re.MULTILINE)
    states: dict[str, JobState | None] = {name_of(s): s for s in (None, *JobState)}
    assert {(states[a], e, states[b]) for a, b, events in drawn for e in events.split(", ")} == ARROWS


@pytest.mark.req("M2", "M9")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", [None, *JobState], ids=name_of)
async def test_the_store_does_what_the_table_says_and_nothing_else(
    world: StoreWorld, state: JobState | None, event: str
) -> None:
    targets = TRANSITIONS.get((state, event), frozenset())
    for target in targets:
        job = await start(world, state, event)
        await ATTEMPTS[event](world, job, target)
        after = await world.get(job.id)
        assert after.state is target
        if target in HOLDS_SLOTS:
            await world.operator_actions.cancel(after.id)
        await world.operator_actions.delete(job.id)
    if not targets and state is not None and event != "enqueue":
        job = await start(world, state, event)
        for target in {t for s, e, t in ARROWS if e == event}:
            try:
                await ATTEMPTS[event](world, job, target)
            except StateConflict as conflict:
                refused_in: JobState | None = conflict.state
            else:
                refused_in = None
            assert refused_in in (None, state)
            assert await world.get(job.id) == job
        await world.assert_sound()


async def start(world: StoreWorld, state: JobState | None, event: str) -> Job:
    if event == "revive" and state is JobState.SKIPPED:
        job = await job_in(world, JobState.AWAITING_JOBS)
        await world.operator_actions.cancel(predecessor_of(job))
        await world.predecessors.release(predecessor_of(job), "0", world.epoch)
        return await world.get(job.id)
    if state is None:
        spec = world.spec()
        return await decoded(world, spec.id)
    rules = {"replace": unique(), "return_offers": unique(scope="until_start")}
    return await job_in(world, state, timeout_ms=600_000, unique=rules.get(event))


async def decoded(world: StoreWorld, job_id: str) -> Job:
    """Return a job that does not exist yet, as it will be, without storing it."""
    await world.enqueue(id=job_id)
    job = await world.get(job_id)
    await world.operator_actions.delete(job_id)
    return job


async def enqueue(world: StoreWorld, job: Job, target: JobState) -> None:
    spec = world.spec(id=job.id, delay_ms=5 if target is JobState.SCHEDULED else None)
    if target is JobState.AWAITING_JOBS:
        spec.after = After((await world.enqueue("predecessor"),))
    assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]


def predecessor_of(job: Job) -> str:
    return job.after.jobs[0] if job.after else job.id


async def end_well(world: StoreWorld) -> None:
    """Let the ready predecessors succeed."""
    worker = await world.worker("predecessor")
    done = [(one.job_id, one.token, b"") for one in await world.claim(worker, "predecessor")]
    await world.settlements.settle_success(worker, done)


async def wait_longer(world: StoreWorld, job: Job) -> None:
    """Give a job a future due time."""
    await world.redis.setrange(world.shard.keys.job(job.id), 16, (world.now_ms + 60_000).to_bytes(8, "big"))


async def release_dependents(world: StoreWorld, job: Job, target: JobState) -> None:
    if target is JobState.SCHEDULED and job.after:
        await wait_longer(world, job)
    if target is JobState.SKIPPED and job.after:
        await world.operator_actions.cancel(predecessor_of(job))
    elif job.after:
        await end_well(world)
    await world.predecessors.release(predecessor_of(job), "0", world.epoch)


async def revive(world: StoreWorld, job: Job, target: JobState) -> None:
    if job.cause is Cause.DEPENDENCY:
        await world.operator_actions.retry(await world.get(predecessor_of(job)))
        if target is not JobState.AWAITING_JOBS:
            await end_well(world)
        if target is JobState.SCHEDULED:
            await wait_longer(world, job)
    await world.predecessors.revive([job])


async def promote(world: StoreWorld, job: Job, target: JobState) -> None:
    world.pass_ms(60_000)
    for state in (JobState.SCHEDULED, JobState.RETRYING):
        await world.due.promote(world.epoch, state)


async def claim(world: StoreWorld, job: Job, target: JobState) -> None:
    if job.state is JobState.AWAITING_CALLBACK:
        packed = await world.redis.get(world.shard.keys.challenges(job.id))
        (challenge,) = msgpack.unpackb(packed, raw=True)
        await world.call_back(RequestId("", job.id, "", challenge[b"digest"]))
    await world.claim(await world.worker())


async def claim_alone(world: StoreWorld, job: Job, target: JobState) -> None:
    redis, suspects = world.redis, world.shard.keys.suspects
    await redis.sadd(suspects, job.id)
    await world.claims.claim_alone(world.epoch, await world.worker(), job.id)
    await redis.srem(suspects, job.id)


def decision(target: JobState) -> Decision:
    cause = {JobState.FAILED: Cause.ERROR, JobState.CANCELED: Cause.CANCELED}.get(target, Cause.NONE)
    return Decision(target, "ending", delay_ms=10, cause=cause)


async def answered(world: StoreWorld, job: Job) -> None:
    """Open a challenge for a running job, and answer it. If the attempt would begin anew, it waits for a worker."""
    if job.state is JobState.RUNNING:
        (worker, token) = job.worker_id, job.token
        request = new_request_id(job.id)
        await world.challenges.open(worker, token, request, wait_ms=1, expect=1, meta=None)
        await world.call_back(request)


async def await_callback(world: StoreWorld, job: Job, target: JobState) -> None:
    request = new_request_id(job.id)
    worker_id = job.worker_id or await world.worker()
    await world.challenges.open(worker_id, job.token, request, wait_ms=1, expect=1, meta=None)
    await world.challenges.await_callbacks(worker_id, [(job.id, job.token, request.digest)])


async def expire_challenge(world: StoreWorld, job: Job, target: JobState) -> None:
    world.pass_ms(60_000)
    await world.challenges.expire(world.epoch, [world.settlement(job, job.token, decision(target))])


async def return_offers(world: StoreWorld, job: Job, target: JobState) -> None:
    if target is JobState.AWAITING_CALLBACK:
        await answered(world, job)
    other = world.spec(unique=unique(scope="until_start"))
    if target is JobState.SKIPPED:
        outcome = await world.acceptance.enqueue([other])
    await world.leases.return_offers(world.epoch, job.worker_id, [(job.id, job.token)])
    if target is JobState.SKIPPED and outcome == [Accepted.NEW]:
        await world.operator_actions.delete(other.id)


async def settle(world: StoreWorld, job: Job, target: JobState) -> None:
    async def holder() -> str:
        return job.worker_id or await world.worker()

    if target is JobState.AWAITING_CALLBACK:
        await answered(world, job)
        target = JobState.READY
    if target is JobState.SUCCEEDED:
        await world.settlements.settle_success(await holder(), [(job.id, job.token, b"")])
    else:
        await world.settlements.settle(await holder(), [world.settlement(job, job.token, decision(target))])


async def reclaim(world: StoreWorld, job: Job, target: JobState) -> None:
    if target is JobState.AWAITING_CALLBACK:
        await answered(world, job)
        target = JobState.READY
    world.pass_ms(LEASE_MS)
    await world.leases.reclaim(world.epoch, [world.settlement(job, job.token, decision(target))])


async def expire(world: StoreWorld, job: Job, target: JobState) -> None:
    key = world.shard.keys.job(job.id)
    expiring = world.shard.keys.expiring
    await world.redis.zadd(expiring, {job.id: world.now_ms})
    await world.due.expire(world.epoch)
    # Its record says that it never expires.
    await world.redis.zrem(expiring, job.id)
    assert await world.redis.exists(key)


async def cancel(world: StoreWorld, job: Job, target: JobState) -> None:
    await world.operator_actions.cancel(job.id)


async def retry(world: StoreWorld, job: Job, target: JobState) -> None:
    await world.operator_actions.retry(job)


async def run_now(world: StoreWorld, job: Job, target: JobState) -> None:
    await world.operator_actions.run_now(job.id)


async def patch(world: StoreWorld, job: Job, target: JobState) -> None:
    run_at_ms = world.now_ms + (0 if target is JobState.READY else 5)
    await world.operator_actions.patch(job, Changes(run_at_ms=run_at_ms))


async def replace(world: StoreWorld, job: Job, target: JobState) -> None:
    rule = unique(on_conflict="replace")
    spec = world.spec(unique=rule, delay_ms=5 if target is JobState.SCHEDULED else None)
    await world.acceptance.enqueue([spec])


ATTEMPTS: dict[str, Callable[[StoreWorld, Job, JobState], Awaitable[None]]] = {
    "enqueue": enqueue, "promote": promote, "claim": claim, "return_offers": return_offers, "settle": settle,
    "reclaim": reclaim, "expire": expire, "cancel": cancel, "retry": retry, "run_now": run_now, "patch": patch,
    "claim_alone": claim_alone, "replace": replace, "await_callback": await_callback,
    "expire_challenge": expire_challenge, "release_dependents": release_dependents, "revive": revive,
}  # fmt: skip


def test_every_event_is_tried() -> None:
    assert set(ATTEMPTS) == set(EVENTS)


if __name__ == "__main__":
    print(diagram())
    print(table())
