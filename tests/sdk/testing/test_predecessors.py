"""Jobs that wait for others in the test kit: what runs, what is skipped, and the inputs of handlers."""

from typing import Any

import pytest

from worker_sdk import (
    INJECTED,
    After,
    Batch,
    Context,
    Discard,
    JobSkipped,
    RefusedError,
    Tasks,
    chain,
    make_job,
)
from worker_sdk.testing import drain, inline, recording
from worker_sdk.testing.records import Run

pytestmark = pytest.mark.req("P9", "S9")

tasks = Tasks()
log: list[Any] = []
broken = {"fail": True}


@pytest.fixture(autouse=True)
def _empty() -> None:
    log.clear()
    broken["fail"] = True


@tasks.task("count", max_retry=0)
def count(number: int) -> int:
    log.append(number)
    return number


@tasks.task("total", max_retry=0, keep_result=True)
async def total(ctx: Context = INJECTED) -> int:
    return sum(ctx.inputs.results_of(count))


@tasks.task("shaky", max_retry=0)
def shaky() -> str:
    if broken["fail"]:
        raise ValueError("broken")
    return "mended"


@tasks.task("tidy", max_retry=0)
def tidy(ctx: Context = INJECTED) -> list[Any]:
    found = [(one.state, one.omitted, one.outcome and one.outcome.message) for one in ctx.inputs]
    log.append(found)
    return [list(one) for one in found]


@tasks.task("gone")
def gone() -> None:
    raise Discard


def ends(runs: list[Run]) -> list[tuple[str, str]]:
    return [(run.job["name"], run.state) for run in runs]


def test_a_job_runs_behind_those_for_which_it_waits_and_has_their_results() -> None:
    with recording() as jobs:
        first = count.using(delay=60).enqueue(1)
        second = count.enqueue(2)
        last = total.using(after=[first, second], priority=-9).enqueue()
        assert last.refresh().status == "awaiting_jobs"
        assert last.job is not None
        assert last.job["after"]["jobs"][1] == {"id": second.id, "state": "ready", "pending": True}
        runs = drain(jobs)
        assert last.get() == 3
        assert last.refresh().job is not None
        assert last.job["after"]["jobs"][0]["pending"] is False
        assert first.refresh().job is not None
        assert first.job is not None
        assert first.job["dependents"] == [{"id": last.id, "state": "succeeded"}]
    assert log == [2, 1]
    assert [run.job["name"] for run in runs] == ["count", "count", "total"]


def test_the_jobs_of_one_push_may_be_in_any_order_and_are_drained_behind_the_block_too() -> None:
    one, two = count.to_job(1), count.to_job(2)
    last = total.using(after=[one, two]).to_job()
    with recording() as jobs, Batch() as batch:
        assert batch.add([last, two, one]) == [last.id, two.id, one.id]
    assert [run.result for run in drain(jobs)] == [2, 1, 3]


def test_a_failure_skips_all_that_follow_and_names_the_first_cause() -> None:
    with recording() as jobs:
        first = shaky.enqueue()
        second = count.using(after=first).enqueue(1)
        third = count.using(after=second).enqueue(2)
        cleaned = tidy.using(after=After([first, third], when="finished")).enqueue()
        runs = drain(jobs, raises=False)
        assert ends(runs) == [
            ("shaky", "failed"),
            ("count", "skipped"),
            ("count", "skipped"),
            ("tidy", "succeeded"),
        ]
        assert runs[2].skipped_by == (first.id, "failed")
        with pytest.raises(JobSkipped, match=f"dependency, because job {first.id} failed") as skipped:
            third.get()
        assert (skipped.value.cause, skipped.value.skipped_by) == ("dependency", first.id)
        assert cleaned.refresh().status == "succeeded"
    assert log == [[("failed", None, "ValueError: broken"), ("skipped", "not_kept", None)]]


@pytest.mark.parametrize("how", ["cancel", "discard", "expire"])
def test_every_other_end_skips_too(how: str) -> None:
    with recording() as jobs:
        first = gone.enqueue() if how == "discard" else count.using(expires=60, delay=120).enqueue(1)
        second = count.using(after=first).enqueue(2)
        if how == "cancel":
            first.cancel()
            assert second.refresh().status == "skipped"
        drain(jobs)
        assert second.refresh().status == "skipped"
    assert log == []


def test_a_retry_revives_what_the_failure_skipped() -> None:
    with recording() as jobs:
        with Batch() as batch:
            first = shaky.using(batch=batch).enqueue()
            second = tidy.using(after=first).enqueue()
            third = tidy.using(after=second).enqueue()
        drain(jobs, raises=False)
        assert third.refresh().status == "skipped"
        broken["fail"] = False
        batch.retry()
        assert third.refresh().status == "awaiting_jobs"
        assert ends(drain(jobs)) == [("shaky", "succeeded"), ("tidy", "succeeded"), ("tidy", "succeeded")]
    assert log == [[("succeeded", None, None)], [("succeeded", None, None)]]


@pytest.mark.parametrize("is_async", [False, True])
async def test_inline_jobs_run_in_their_order(is_async: bool) -> None:
    one, two = count.to_job(1), count.to_job(2)
    last = total.using(after=[one, two]).to_job()
    with inline() as jobs:
        with Batch() as batch:
            if is_async:
                await batch.aadd([last, two, one])
            else:
                batch.add([last, two, one])
        assert total.handle(last.id).get() == 3
        assert [job.id for job in jobs] == [two.id, one.id, last.id]
    assert log == [2, 1]


def test_inline_a_failure_skips_before_it_is_raised() -> None:
    first = shaky.to_job()
    second = count.using(after=first).to_job(1)
    with inline(), Batch() as batch:
        with pytest.raises(ValueError, match="broken"):
            batch.add([first, second])
        assert count.handle(second.id).refresh().status == "skipped"


def test_inline_a_job_may_enqueue_what_waits_for_itself() -> None:
    @tasks.task("parent")
    def parent(ctx: Context = INJECTED) -> str:
        tidy.using(after=ctx.job_id).enqueue()
        assert log == []
        return "done"

    with inline():
        parent.enqueue()
    assert log == [[("succeeded", None, None)]]


def test_results_are_there_as_a_master_has_them() -> None:
    with inline():
        unkept, kept = count.enqueue(1), count.using(keep_result=True).enqueue(2)
        given = tidy.using(after=[unkept, kept], keep_result=True).enqueue()
        assert given.get() == [["succeeded", "not_kept", None], ["succeeded", None, None]]

        @tasks.task("large", keep_result=True)
        def large(size: int) -> str:
            return "x" * size

        both = [large.enqueue(700_000), large.enqueue(700_000), large.enqueue(9)]
        assert [one for _, one, _ in tidy.using(after=both, keep_result=True).enqueue().get()] == [
            None,
            "too_large",
            None,
        ]


def test_a_result_that_is_missing_fails_the_job_for_good_unless_it_is_caught() -> None:
    with inline(raises=False):
        first = count.enqueue(1)
        last = total.using(after=first, max_retry=3).enqueue()
        assert last.refresh().job is not None
        assert last.job is not None
        assert last.job["attempt"] == 1
        assert last.job["attempts"][0]["message"] == f"the result of job {first.id} was not kept"


@pytest.mark.parametrize("kind", ["inline", "recording"])
def test_the_kit_refuses_jobs_that_a_master_refuses(kind: str) -> None:
    with inline(raises=False) if kind == "inline" else recording() as jobs:
        one, two = count.to_job(1), count.to_job(2)
        circle = [
            make_job("count", {"number": 3}),
            {**one, "after": {"jobs": [two.id], "when": "succeeded"}},
            {**two, "after": {"jobs": [one.id], "when": "succeeded"}},
        ]
        with Batch() as batch:
            with pytest.raises(RefusedError, match="2 jobs would wait for each other") as refused:
                batch.add(circle)
            assert [error["loc"] for error in refused.value.errors] == [
                ["jobs", 1, "after"],
                ["jobs", 2, "after"],
            ]
            with pytest.raises(RefusedError, match="no job has the ID") as refused:
                batch.add([make_job("count", {"number": 3}), count.using(after=one).to_job(2)])
            assert (refused.value.status, refused.value.code) == (422, "unknown_predecessor")
        assert list(jobs) == []
        failed = shaky.enqueue()
        if kind == "recording":
            drain(jobs, raises=False)
        with pytest.raises(RefusedError, match="is over and did not succeed") as refused:
            count.using(after=failed).enqueue(1)
        assert (refused.value.status, refused.value.code) == (409, "predecessor_over")
        count.using(after=After([failed], when="finished")).enqueue(1)


def test_a_job_whose_predecessor_does_not_end_stays_in_the_list() -> None:
    with recording() as jobs:
        first = count.enqueue(1)
        second = total.using(after=first).enqueue()
        alone = jobs.of(total)
        with pytest.raises(RefusedError, match="no job has the ID"):
            drain(alone)
        jobs.remove(jobs.only(count))
        assert drain(jobs) == []
        assert [job.id for job in jobs] == [second.id]


@pytest.mark.parametrize("kind", ["inline", "drain"])
def test_a_chain_may_be_longer_than_calls_may_be_nested(kind: str) -> None:
    first = count.to_job(-1)
    steps = [count.to_job(n) for n in range(1_500)]
    flow = chain(first, *steps)
    failing = chain(shaky.to_job(), *(count.to_job(n) for n in range(1_500)))
    if kind == "inline":
        with inline(raises=False):
            flow.enqueue()
            failing.enqueue()
    else:
        with recording() as jobs:
            flow.enqueue()
            failing.enqueue()
            runs = drain(jobs, raises=False)
            assert [run.state for run in runs].count("skipped") == 1_500
    assert log == list(range(-1, 1_500))


def test_an_idempotency_key_stands_for_the_job_that_it_led_to() -> None:
    with recording() as jobs:
        first = count.using(key="k").enqueue(1)
        again = count.using(key="k").to_job(1)
        with Batch() as batch:
            batch.add([again, total.using(after=again).to_job()])
        assert drain(jobs)[0].job.id == first.id
    assert log == [1]
