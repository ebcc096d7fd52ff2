"""Batches in the test kit: members run, and callbacks follow."""

import pytest

from worker_sdk import INJECTED, Batch, Context, RefusedError, Tasks, make_job
from worker_sdk.testing import drain, inline, recording

pytestmark = pytest.mark.req("S7", "S9")

tasks = Tasks()
log: list[object] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    log.clear()


@tasks.task("part", max_retry=0)
def part(number: int, ctx: Context = INJECTED) -> None:
    log.append((number, ctx.batch))
    if number < 0:
        raise ValueError("negative")


@tasks.task("told")
def told(what: str) -> None:
    log.append(what)


CALLBACKS = {f"on_{when}": told.to_job(when) for when in ("success", "complete", "failure")}


def test_drained_members_start_the_callbacks() -> None:
    with recording() as jobs:
        with Batch(on_success=told.to_job("success"), on_complete=told.to_job("complete")) as batch:
            part.using(batch=batch).enqueue(1)
            batch.add([part.to_job(2)])
        assert [job["batch"] for job in jobs.of(part)] == [batch.id, batch.id]
        assert batch.status()["counts"]["unfinished"] == 2
        drain(jobs)
        assert batch.status()["state"] == "complete"
    assert log[:2] == [(1, batch.id), (2, batch.id)]
    assert set(log[2:]) == {"success", "complete"}


def test_inline_members_run_at_once_and_callbacks_when_it_is_sealed() -> None:
    with inline(raises=False):
        with Batch(**CALLBACKS) as batch:  # type: ignore[arg-type]
            part.using(batch=batch).enqueue(1)
            part.using(batch=batch).enqueue(-1)
            assert log[2:] == ["failure"]
        assert log[3:] == ["complete"]


async def test_a_batch_that_is_canceled_by_an_exception_has_no_success() -> None:
    async def fill() -> None:
        async with Batch(**CALLBACKS) as batch:  # type: ignore[arg-type]
            await batch.aadd([part.to_job(1)])
            raise LookupError

    with recording() as jobs, pytest.raises(LookupError):
        await fill()
    assert [job.arguments for job in jobs.of("told")] == [{"what": "complete"}]


def test_impossible_batches_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot have unique"):
        Batch(on_success=make_job("told", unique={"key": "k"}))
    with recording():
        with pytest.raises(RefusedError, match="no batch"):
            Batch().seal()
        with Batch() as batch, pytest.raises(ValueError, match="cannot be added"):
            batch.add([part.using(batch="other").to_job(1)])
