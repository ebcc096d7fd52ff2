"""Flows: dependencies between steps, refusals before anything is sent, and the inputs of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from worker_sdk import (
    INJECTED,
    INPUT,
    INPUTS,
    After,
    Batch,
    Context,
    Flow,
    InvalidFlow,
    JobFailed,
    JobSkipped,
    TaskJob,
    Tasks,
    chain,
    chord,
    group,
    make_job,
    wait_all,
)
from worker_sdk.tasks.client import outbox_pushers
from worker_sdk.testing import WorkerHarness, drain, inline, recording
from worker_sdk.worker.worker import Worker

pytestmark = pytest.mark.req("P9")

tasks = Tasks()


@dataclass
class Photo:
    path: str
    size: int = 0


@tasks.task("photo.load", max_retry=0)
def load(path: str) -> Photo:
    if not path:
        raise FileNotFoundError
    return Photo(path)


@tasks.task("photo.resize", max_retry=0, keep_result=True)
async def resize(photo: Photo = INPUT, *, size: int = 100) -> Photo:
    return Photo(photo.path, size)


@tasks.task("photo.publish", keep_result=True, max_retry=0)
def publish(photos: list[Photo | None] = INPUTS, title: str = "", *, ctx: Context = INJECTED) -> list[str]:
    assert len(photos) == len(ctx.inputs) or title == "given"
    return [title, *(f"{one.path} {one.size}" if one else "none" for one in photos)]


def after(jobs: list[Any], job: Any) -> Any:
    """Return the IDs of the jobs that a job waits for, and its condition."""
    found = next(one for one in jobs if one["id"] == job["id"]).get("after")
    return found and (found["jobs"], found["when"])


# --- what waits for what


def test_the_steps_of_a_chain_wait_for_the_one_before() -> None:
    first, second, third = load.to_job("a"), resize.to_job(), resize.to_job(size=5)
    jobs = chain(first, second, third).to_jobs()
    assert [job["id"] for job in jobs] == [first.id, second.id, third.id]
    assert after(jobs, first) is None
    assert after(jobs, second) == ([first.id], "succeeded")
    assert after(jobs, third) == ([second.id], "succeeded")
    # The caller's jobs do not change.
    assert "after" not in second


def test_groups_in_a_chain_join_and_fan_out() -> None:
    first, last = load.to_job("a"), publish.to_job()
    parts = [resize.to_job(size=n) for n in range(3)]
    jobs = chain(first, group(parts), last).to_jobs()
    assert all(after(jobs, part) == ([first.id], "succeeded") for part in parts)
    assert after(jobs, last) == ([part.id for part in parts], "succeeded")
    assert len(group(*parts[:2], parts[2:], chain(load.to_job("b"), resize.to_job()))) == 5


def test_a_chord_is_a_group_and_what_follows() -> None:
    parts = [load.to_job(str(n)) for n in range(3)]
    last = publish.to_job()
    for header in (group(parts), parts):
        jobs = chord(header, last).to_jobs()
        assert after(jobs, last) == ([part.id for part in parts], "succeeded")
    assert after(chord(parts, last, when="finished").to_jobs(), last)[1] == "finished"
    assert after(chord([], last).to_jobs(), last) is None
    assert after(chain(group(), last).to_jobs(), last) is None


def test_flows_are_members_of_others() -> None:
    pairs = [(load.to_job(str(n)), resize.to_job()) for n in range(2)]
    flow = Flow()
    begin = flow.add(make_job("begin"))
    inner = flow.add(group(chain(*pair) for pair in pairs), after=begin)
    last = flow.add(publish.to_job(), after=inner)
    jobs = flow.to_jobs()
    for one, two in pairs:
        assert after(jobs, one) == ([begin["id"]], "succeeded")
        assert after(jobs, two) == ([one.id], "succeeded")
    assert after(jobs, last) == ([two.id for _, two in pairs], "succeeded")
    assert len(flow) == len(jobs) == 6


def test_jobs_may_be_added_in_any_order_and_wait_for_others_in_the_store() -> None:
    known = "0199a0c4-0000-7000-8000-000000000001"
    last = publish.using(after=known).to_job()
    first = load.to_job("a")
    flow = Flow()
    flow.add(last, after=[first])
    flow.add(first)
    flow.after(last, "0199a0c4-0000-7000-8000-000000000002")
    jobs = flow.to_jobs()
    assert [job["id"] for job in jobs] == [first.id, last.id]
    assert after(jobs, last) == ([known, first.id, "0199a0c4-0000-7000-8000-000000000002"], "succeeded")
    with recording():
        handle = load.enqueue("b")
        jobs = chain(first, publish.using(after=handle).to_job()).to_jobs()
        assert jobs[1]["after"]["jobs"] == [handle.id, first.id]


def test_a_member_may_run_in_any_case() -> None:
    flow = Flow()
    first = flow.add(load.to_job("a"))
    last = flow.add(publish.to_job(), after=After([first], when="finished"))
    assert after(flow.to_jobs(), last) == ([first.id], "finished")


# --- what is refused


def in_circle() -> Flow[Any]:
    flow = Flow()
    one, two, three = (flow.add(resize.to_job()) for _ in range(3))
    flow.add(publish.to_job(), after=three)
    flow.after(one, three)
    flow.after(two, one)
    flow.after(three, two)
    return flow


def of_itself() -> Flow[Any]:
    flow = Flow()
    one = flow.add(resize.to_job())
    flow.after(one, one)
    return flow


def of_a_stranger() -> Flow[Any]:
    flow = Flow()
    flow.add(resize.to_job(), after=load.to_job("a"))
    return flow


def of_strangers() -> Flow[Any]:
    flow = Flow()
    flow.add(resize.to_job(), after=chain(load.to_job("a"), resize.to_job()))
    return flow


def for_too_many() -> Flow[Any]:
    return chord([load.to_job("a") for _ in range(1_001)], publish.to_job())


def for_too_many_together() -> Flow[Any]:
    return chain(group(load.to_job("a") for _ in range(500)), group(publish.to_job() for _ in range(21)))


def with_two_conditions() -> Flow[Any]:
    flow = Flow()
    first = flow.add(load.to_job("a"))
    flow.add(publish.using(after=After(["x"], when="finished")).to_job(), after=first)
    return flow


def of_two_masters() -> Flow[Any]:
    other = Tasks(master="http://127.0.0.1:9")

    @other.task("other")
    def other_task() -> None: ...

    return chain(load.to_job("a"), other_task.to_job())


REFUSED: list[tuple[Callable[[], Flow[Any]], str]] = [
    (Flow, "a flow needs at least one job"),
    (
        in_circle,
        r"wait for one another: photo\.resize \(\S+\) → photo\.resize \(\S+\) → photo\.resize \(\S+\) → photo\.resize",
    ),
    (of_itself, r"wait for one another: (photo\.resize \(\S+\)) → \1$"),
    (of_a_stranger, r"photo\.load \(\S+\) is a predecessor, but not in the flow: add it"),
    (of_strangers, r"photo\.resize \(\S+\) is a predecessor, but not in the flow"),
    (for_too_many, r"photo\.publish \(\S+\) waits for 1,001 jobs; at most 1,000 are allowed"),
    (for_too_many_together, "may have 10,000 predecessors in total, but these have 10,500"),
    (lambda: group(load.to_job("a") for _ in range(10_001)), "at most 10,000 jobs, but this one has 10,001"),
    (with_two_conditions, r"photo\.publish \(\S+\) waits for some jobs to succeed and for others to finish"),
    (
        lambda: chain(load.to_job("a"), resize.using(unique={}).to_job()),
        r"photo\.resize \(\S+\) waits for other jobs, so it cannot have unique",
    ),
    (of_two_masters, "must all have the same master"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED, ids=[why[:30] for _, why in REFUSED])
def test_a_flow_that_cannot_run_is_refused_before_anything_is_sent(
    make: Callable[[], Flow[Any]], why: str
) -> None:
    with recording() as jobs:
        with pytest.raises(InvalidFlow, match=why):
            make().enqueue()
        assert list(jobs) == []


def test_a_long_cycle_is_told_in_short() -> None:
    flow = Flow()
    jobs = [flow.add(resize.to_job()) for _ in range(30)]
    for n in range(30):
        flow.after(jobs[n], jobs[n - 1])
    with pytest.raises(InvalidFlow, match=r"21 more$"):
        flow.to_jobs()


def test_mistakes_are_told_where_they_are_made() -> None:
    first = load.to_job("a")
    with pytest.raises(InvalidFlow, match=r"photo\.load \(\S+\) is a member of the flow already"):
        chain(first, resize.to_job(), first)
    with pytest.raises(InvalidFlow, match="step 2 of the chain has no jobs"):
        chain(first, group([]), publish.to_job())
    with pytest.raises(InvalidFlow, match="a job cannot wait for an empty flow"):
        Flow().add(first, after=group())
    flow = Flow()
    flow.add(first)
    last = flow.add(publish.to_job(), after=first)
    with pytest.raises(InvalidFlow, match="use one condition"):
        flow.after(last, After([first], when="finished"))
    wrong: Any = 7
    with pytest.raises(TypeError, match="a flow takes jobs that have an ID"):
        flow.after(last, wrong)
    with pytest.raises(TypeError, match="a flow takes jobs that have an ID"):
        flow.after(last, [{"name": "no ID"}])


def test_a_flow_is_no_matter_for_an_outbox() -> None:
    pushers: Any = object()
    mark = outbox_pushers.set(pushers)
    try:
        with pytest.raises(TypeError, match="in the transaction of an outbox"):
            chain(load.to_job("a")).enqueue()
    finally:
        outbox_pushers.reset(mark)


# --- what steps are given


async def test_each_step_has_the_results_of_the_one_before() -> None:
    flow = chain(
        load.to_job("a.jpg"),
        group(resize.to_job(size=n) for n in (1, 2)),
        publish.to_job(title="sizes"),
    )
    with recording() as jobs:
        handles = await flow.aenqueue()
        assert [handle.status for handle in handles] == ["ready"] + ["awaiting_jobs"] * 3
        drain(jobs)
        assert handles.last.get() == ["sizes", "a.jpg 1", "a.jpg 2"]
        assert [one.get() for one in handles][1:3] == [Photo("a.jpg", 1), Photo("a.jpg", 2)]
    with inline():
        assert flow.enqueue().last.get() == ["sizes", "a.jpg 1", "a.jpg 2"]
        assert (await flow.aenqueue()).last.get() == ["sizes", "a.jpg 1", "a.jpg 2"]


def test_handles_are_found_by_their_jobs() -> None:
    flow = Flow()
    first = flow.add(load.to_job("a"))
    raw = flow.add(make_job("photo.resize", {"size": 3}, keep_result=True), after=first)
    second = flow.add(resize.to_job(size=4), after=first)
    with inline(worker=Worker(tasks=tasks)):
        handles = flow.enqueue()
        assert handles[first].get() == Photo("a")
        assert handles[second.id].get() == Photo("a", 4)
        assert len(handles) == 3
        assert "3 jobs" in repr(handles)
        assert "3 jobs" in repr(flow)
        with pytest.raises(LookupError, match="ends with 2 jobs"):
            _ = handles.last
        with pytest.raises(KeyError):
            handles[load.to_job("b")]
    with recording():
        handle = flow.enqueue()[raw]
        assert (handle.id, handle.name) == (raw["id"], "photo.resize")


def test_a_flow_that_is_enqueued_again_is_the_same() -> None:
    flow = chain(load.to_job("a"), resize.to_job())
    with recording() as jobs:
        assert [one.id for one in flow.enqueue()] == [one.id for one in flow.enqueue()]
        assert len(jobs) == 2


def test_a_failure_skips_the_rest_of_a_chain() -> None:
    with inline(raises=False):
        handles = chain(load.to_job(""), resize.to_job(), publish.to_job()).enqueue()
        with pytest.raises(JobSkipped) as skipped:
            handles.last.get()
        assert skipped.value.skipped_by == next(iter(handles)).id


def test_a_callback_that_runs_in_any_case_gets_none_for_what_failed() -> None:
    flow = chord([load.to_job("a"), load.to_job("")], publish.to_job(), when="finished")
    with inline(raises=False):
        assert flow.enqueue().last.get() == ["", "a 0", "none"]


def test_a_value_that_the_call_gives_counts() -> None:
    with inline():
        assert chain(load.to_job("a"), resize.to_job(Photo("b"), size=1)).enqueue().last.get() == Photo(
            "b", 1
        )
        assert resize.enqueue(Photo("c"), size=2).get() == Photo("c", 2)
        assert publish.enqueue([], "given").get() == ["given"]
        assert publish.enqueue().get() == [""]


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        (
            lambda: chain(resize.to_job()),
            "photo: is missing: no value was given, and the job waited for no other",
        ),
        (
            lambda: chord([load.to_job("a"), load.to_job("b")], resize.to_job()),
            "photo: takes the result of one job, but this job waited for 2",
        ),
        (lambda: chain(publish.to_job(), resize.to_job()), "photo: Expected `dict`, got `list`"),
        (
            lambda: chord([publish.to_job()], publish.to_job()),
            r"photos\[0\]: Expected `dict | None`, got `list`",
        ),
        (
            lambda: chord([load.to_job("")], resize.to_job(), when="finished"),
            "photo: Expected `dict`, got `None`",
        ),
    ],
)
def test_results_that_do_not_fit_are_invalid_arguments(flow: Callable[[], Flow[Any]], why: str) -> None:
    with inline(raises=False):
        with pytest.raises(JobFailed, match=why) as failed:
            flow().enqueue().last.get()
        assert failed.value.cause == "invalid_argument"


async def test_workers_fill_the_parameters_of_either_kind() -> None:
    async with WorkerHarness(Worker(tasks=tasks)) as harness:
        first = await harness.run("photo.load", {"path": "a"})
        second = await harness.run("photo.resize", {"size": 3}, inputs=[first])
        assert second.result == {"path": "a", "size": 3}
        assert (await harness.run("photo.publish", inputs=[first, second])).result == ["", "a 0", "a 3"]
        assert (await harness.run("photo.resize")).fields["reason"] == "invalid_argument"


def test_the_contract_says_that_a_call_may_omit_them() -> None:
    contract = tasks.handler_of("photo.publish").contract
    assert callable(contract)
    schema = contract()["argument_schema"]
    assert "required" not in schema
    assert "default" not in schema["properties"]["photos"]
    assert schema["properties"]["title"]["default"] == ""
    assert (repr(INPUT), repr(INPUTS)) == ("INPUT", "INPUTS")


def test_the_members_of_a_flow_may_be_those_of_a_batch() -> None:
    parts: list[TaskJob[Photo]] = [load.to_job(str(n)) for n in range(2)]
    flow = chord(parts, publish.to_job())
    with recording() as jobs:
        with Batch() as batch:
            batch.add(flow.to_jobs())
        drain(jobs)
        assert batch.status()["counts"]["succeeded"] == 3
        assert wait_all([load.handle(part.id) for part in parts]) == [Photo("0"), Photo("1")]
