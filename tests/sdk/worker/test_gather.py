"""Many jobs in one call: each keeps its own claim, timeout and end."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import (
    INJECTED,
    INPUT,
    Context,
    Defer,
    Depends,
    Discard,
    Fail,
    Gather,
    GatherContext,
    Middleware,
    Tasks,
    Worker,
)
from worker_sdk.testing import WorkerHarness, drain, inline

pytestmark = [pytest.mark.req("S7", "S14"), real_time.WORKER]

Kind = Callable[[list[Any], GatherContext], Any]


def task_of(tasks: Tasks, function: Kind, *, is_async: bool, **options: Any) -> Any:
    """Return a task that gathers, whose function is `def` or `async def`."""
    gather = Gather(options.pop("max", 100), options.pop("within_s", 0.05))

    def insert(rows: list[Any], ctx: GatherContext) -> Any:
        return function(rows, ctx)

    async def ainsert(rows: list[Any], ctx: GatherContext) -> Any:
        value = function(rows, ctx)
        return await value if asyncio.iscoroutine(value) else value

    made: Any = tasks.task("row.insert", gather=gather, **options)(ainsert if is_async else insert)
    return made


@pytest.fixture(params=[True, False], ids=["async", "def"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def dispatches(master: FakeMaster, values: Sequence[Any], **fields: Any) -> list[dict[str, Any]]:
    return [master.dispatch("row.insert", {"rows": value}, **fields) for value in values]


async def ends(master: FakeMaster, jobs: Sequence[dict[str, Any]]) -> list[Any]:
    return [await wait_until(lambda job=job: master.result(job["job_id"])) for job in jobs]


# --- at a master


async def test_jobs_that_are_held_together_run_in_one_call(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    calls: list[list[Any]] = []
    tasks = Tasks()

    def insert(rows: list[int], ctx: GatherContext) -> list[int]:
        calls.append(rows)
        return [row * 10 for row in rows]

    task_of(tasks, insert, is_async=is_async, max=3, within_s=30)
    worker.max_jobs = 8
    worker.run_tasks(tasks)
    await up()
    # Two pushes, one call: the first job waits for the others.
    jobs = dispatches(master, [1, 2, 3])
    await master.push(*jobs[:1])
    await master.push(*jobs[1:])
    assert [end["result"] for end in await ends(master, jobs)] == [10, 20, 30]
    assert calls == [[1, 2, 3]]


async def test_a_call_begins_at_once_if_nothing_can_be_added(
    master: FakeMaster,
    worker: Worker,
    up: Callable[[], Any],
    is_async: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[list[Any]] = []
    tasks = Tasks()
    task_of(tasks, lambda rows, ctx: calls.append(rows), is_async=is_async, max=5, within_s=60)
    worker.run_tasks(tasks)  # it holds 4
    await up()
    jobs = dispatches(master, range(4))
    await master.push(*jobs)
    assert {end["type"] for end in await ends(master, jobs)} == {"success"}
    assert [len(call) for call in calls] == [4]
    assert "gathers up to 5 jobs, but this worker holds only 4" in caplog.text


async def test_a_call_gets_no_more_than_max(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    calls: list[list[Any]] = []
    tasks = Tasks()
    task_of(tasks, lambda rows, ctx: calls.append(rows), is_async=is_async, max=2, within_s=0.05)
    worker.run_tasks(tasks)
    worker.max_jobs = 10
    await up()
    jobs = dispatches(master, range(5))
    await master.push(*jobs)
    await ends(master, jobs)
    assert sorted(map(len, calls)) == [1, 2, 2]


async def test_an_exception_fails_all_and_later_attempts_run_alone(
    master: FakeMaster,
    worker: Worker,
    up: Callable[[], Any],
    is_async: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[list[Any]] = []
    tasks = Tasks()

    def insert(rows: list[int], ctx: GatherContext) -> None:
        calls.append(rows)
        if 2 in rows:
            raise OSError("a bad row")

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2, 3])
    await master.push(*jobs)
    first = await ends(master, jobs)
    assert [(end["type"], end["message"], end["should_retry"]) for end in first] == [
        ("failure", "OSError: a bad row", True)
    ] * 3
    assert all("Traceback" in end["error"]["traceback"] for end in first)
    # The call is logged once, not once for each job.
    assert caplog.text.count("row.insert failed, for 3 jobs together") == 1
    assert caplog.text.count("Traceback") == 1
    again = dispatches(master, [1, 2, 3], attempt=2)
    await master.push(*again)
    assert [end["type"] for end in await ends(master, again)] == ["success", "failure", "success"]
    assert sorted(calls[1:]) == [[1], [2], [3]]


async def test_each_job_ends_as_its_place_in_the_sequence_says(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    told = [
        1,
        ValueError("odd"),
        Fail("for good"),
        Discard("nothing to do"),
        Defer(5),
        KeyError("gone"),
        None,
    ]

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        return [told[row] for row in rows]

    task_of(tasks, insert, is_async=is_async, discard_on=KeyError)
    worker.run_tasks(tasks)
    worker.max_jobs = 10
    await up()
    jobs = dispatches(master, range(len(told)))
    await master.push(*jobs)
    found = await ends(master, jobs)
    assert [end["type"] for end in found] == [
        "success", "failure", "failure", "discarded", "deferred", "discarded", "success",
    ]  # fmt: skip
    assert (found[0]["result"], found[6]["result"]) == (1, None)
    assert [end["should_retry"] for end in found[1:3]] == [True, False]


@pytest.mark.parametrize("value", [5, "text", [1], [1, 2, 3], {"a": 1}])
async def test_a_return_value_without_an_end_for_each_job_fails_all(value: Any, is_async: bool) -> None:
    tasks = Tasks()
    task = task_of(tasks, lambda rows, ctx: value, is_async=is_async)
    for ending in await WorkerHarness(tasks).run_together([task.to_job(n) for n in range(2)]):
        assert ending.type == "failure"
        assert ending.fields["message"].startswith("TypeError: row.insert returned")


async def test_an_argument_that_does_not_fit_fails_alone(is_async: bool) -> None:
    tasks = Tasks()
    seen: list[Any] = []

    @tasks.task("row.insert", gather=Gather(10))
    def insert(rows: list[int], ctx: GatherContext) -> list[int]:
        seen.append((rows, [job.job_id for job in ctx.jobs]))
        return rows

    jobs = [insert.to_job(n) for n in range(3)]
    jobs[1]["argument"] = {"rows": "a text"}
    endings = await WorkerHarness(tasks).run_together(jobs)
    assert [ending.type for ending in endings] == ["success", "failure", "success"]
    assert endings[1].fields["reason"] == "invalid_argument"
    assert seen == [([0, 2], [jobs[0].id, jobs[2].id])]
    seen.clear()
    for job in jobs:
        job["argument"] = {}
    endings = await WorkerHarness(tasks).run_together(jobs)
    assert ({ending.fields["reason"] for ending in endings}, seen) == ({"invalid_argument"}, [])


async def test_a_result_that_cannot_be_sent_fails_alone(is_async: bool) -> None:
    tasks = Tasks()
    task = task_of(
        tasks, lambda rows, ctx: [row if row else threading.Lock() for row in rows], is_async=is_async
    )
    endings = await WorkerHarness(tasks).run_together([task.to_job(n) for n in range(3)])
    assert [ending.type for ending in endings] == ["failure", "success", "success"]
    assert endings[0].fields["should_retry"] is False


async def test_the_timeout_of_one_job_ends_that_job_alone(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    may_end = threading.Event()
    signals: list[Any] = []

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        signals.extend([ctx.cancelled, *(job.cancelled for job in ctx.jobs)])
        if is_async:
            return asyncio.to_thread(may_end.wait, 10)
        may_end.wait(10)
        return None

    def whole(rows: list[int], ctx: GatherContext) -> Any:
        value = insert(rows, ctx)

        async def none() -> None:
            await value

        return none() if is_async else None

    task_of(tasks, whole, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    [short] = dispatches(master, [1], timeout=0.3)
    others = dispatches(master, [2, 3], timeout=30.0)
    await master.push(short, *others)
    [end] = await ends(master, [short])
    assert (end["type"], end["reason"]) == ("failure", "timeout")
    assert [bool(one) for one in signals] == [False, True, False, False]
    assert master.result(others[0]["job_id"]) is None
    may_end.set()
    assert [end["type"] for end in await ends(master, others)] == ["success"] * 2
    assert len(master.results[short["job_id"]]) == 1


async def test_a_canceled_job_is_canceled_and_the_others_succeed(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    contexts: list[GatherContext] = []

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        contexts.append(ctx)
        if not is_async:
            ctx.jobs[1].cancelled.wait(10)
            return rows

        async def wait() -> list[int]:
            await ctx.jobs[1].cancelled
            return rows

        return wait()

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2, 3])
    await master.push(*jobs)
    await wait_until(lambda: contexts)
    master.cancel.append({"job_id": jobs[1]["job_id"], "token": jobs[1]["token"]})
    assert [end["type"] for end in await ends(master, jobs)] == ["success", "canceled", "success"]


async def test_a_call_is_cancelled_when_all_of_its_jobs_are_to_stop(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    stopped: list[str] = []

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        if not is_async:
            stopped.append("signal" if ctx.cancelled.wait(10) else "never")
            return None

        async def wait() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.append("signal" if ctx.cancelled else "cancelled")
                raise

        return wait()

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2], timeout=0.3)
    await master.push(*jobs)
    assert [end["reason"] for end in await ends(master, jobs)] == ["timeout"] * 2
    await wait_until(lambda: stopped == ["signal"])
    await wait_until(lambda: worker._node is not None and worker._node.executor.free == 4)


async def test_a_worker_that_ends_hands_back_what_waits_and_what_does_not_end(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    began = threading.Event()

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        began.set()
        if not is_async:
            ctx.cancelled.wait(10)
            raise OSError

        return asyncio.sleep(60)

    task_of(tasks, insert, is_async=is_async, max=2, within_s=60)
    worker.run_tasks(tasks)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        jobs = dispatches(master, [1, 2, 3])
        await master.push(*jobs)
        await wait_until(began.is_set)
    assert [end["type"] for end in await ends(master, jobs)] == ["handed_back"] * 3


async def test_jobs_that_a_call_finished_while_it_was_told_to_stop_count(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    tasks = Tasks()
    began = threading.Event()

    def insert(rows: list[int], ctx: GatherContext) -> list[Any]:
        began.set()
        ctx.cancelled.wait(10)
        return [rows[0], ValueError("odd")]

    task_of(tasks, insert, is_async=False, max=2)
    worker.run_tasks(tasks)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        jobs = dispatches(master, [1, 2])
        await master.push(*jobs)
        await wait_until(began.is_set)
    assert [end["type"] for end in await ends(master, jobs)] == ["success", "handed_back"]


async def test_a_lost_job_reports_nothing_and_the_others_do(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    contexts: list[GatherContext] = []

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        contexts.append(ctx)
        if not is_async:
            ctx.jobs[0].cancelled.wait(10)
            return rows

        async def wait() -> list[int]:
            await ctx.jobs[0].cancelled
            return rows

        return wait()

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2])
    await master.push(*jobs)
    await wait_until(lambda: contexts)
    master.lost.add(jobs[0]["token"])
    [end] = await ends(master, jobs[1:])
    assert end["type"] == "success"
    assert master.result(jobs[0]["job_id"]) is None


async def test_a_job_that_is_stopped_while_it_waits_for_others_is_in_no_call(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    calls: list[list[Any]] = []
    tasks = Tasks()
    task_of(tasks, lambda rows, ctx: calls.append(rows), is_async=is_async, max=3, within_s=60)
    worker.run_tasks(tasks)
    await up()
    [first, second, third] = dispatches(master, [1, 2, 3])
    await master.push(first, second)
    master.cancel.append({"job_id": first["job_id"], "token": first["token"]})
    [end] = await ends(master, [first])
    assert end["type"] == "canceled"
    await master.push(third, *dispatches(master, [4]))
    await ends(master, [second, third])
    assert calls in ([[2, 3]], [[2, 3, 4]])


async def test_a_function_that_looks_late_sees_which_of_its_jobs_were_stopped(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    began, may_look = threading.Event(), threading.Event()
    seen: list[bool] = []

    def insert(rows: list[int], ctx: GatherContext) -> Any:
        def look() -> list[int]:
            began.set()
            may_look.wait(10)
            seen.extend(bool(job.cancelled) for job in ctx.jobs)
            return rows

        return asyncio.to_thread(look) if is_async else look()

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2, 3])
    await master.push(*jobs)
    await wait_until(began.is_set)
    master.cancel.append({"job_id": jobs[1]["job_id"], "token": jobs[1]["token"]})
    await wait_until(lambda: not master.cancel)
    runs = worker._node.executor.owed if worker._node else {}
    await wait_until(lambda: runs[jobs[1]["token"]].stopping)
    may_look.set()
    assert [end["type"] for end in await ends(master, jobs)] == ["success", "canceled", "success"]
    assert seen == [False, True, False]


async def test_jobs_whose_contexts_nobody_asks_for_cost_none(
    master: FakeMaster,
    worker: Worker,
    up: Callable[[], Any],
    is_async: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = Tasks()
    made: list[str] = []
    init = Context.__init__

    def counting(self: Context, job_id: str, *args: Any, **kwargs: Any) -> None:
        made.append(type(self).__name__)
        init(self, job_id, *args, **kwargs)

    monkeypatch.setattr(Context, "__init__", counting)
    task_of(tasks, lambda rows, ctx: None, is_async=is_async, max=20, within_s=30)
    worker.run_tasks(tasks)
    worker.max_jobs = 20
    await up()
    jobs = dispatches(master, range(20))
    await master.push(*jobs)
    assert {end["type"] for end in await ends(master, jobs)} == {"success"}
    assert made == ["Context", "CallContext"]


async def test_a_value_that_masters_cannot_get_ends_its_job_alone(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()
    results = [2**70, 1, None, {"a": [1.5, None]}]
    task_of(tasks, lambda rows, ctx: results, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, range(4))
    await master.push(*jobs)
    found = await ends(master, jobs)
    assert [end["type"] for end in found] == ["failure", "success", "success", "success"]
    assert found[0]["message"].startswith("the result cannot be sent: ")
    assert [end["result"] for end in found[1:]] == results[1:]


async def test_lines_of_a_call_are_kept_with_each_of_its_jobs(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    tasks = Tasks()

    def insert(rows: list[int], ctx: GatherContext) -> None:
        ctx.logger.info("by the call")
        logging.getLogger("library").warning("by a library")
        ctx.jobs[1].logger.info("by one job")
        ctx.progress(0.5, "half")

    task_of(tasks, insert, is_async=is_async)
    worker.run_tasks(tasks)
    await up()
    jobs = dispatches(master, [1, 2])
    await master.push(*jobs)
    await ends(master, jobs)

    def lines() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {job["job_id"]: [] for job in jobs}
        for method, path, body in list(master.calls):
            if method == "POST" and path.endswith("/logs"):
                job_id = ""
                for entry in body["entries"]:
                    # The entries of one job follow each other, and the first one names it.
                    job_id = entry.get("job_id", job_id)
                    found[job_id].append(entry["text"])
        return found

    expected = ["by the call", "library: by a library"]
    await wait_until(lambda: sum(map(len, lines().values())) == 5)
    assert lines() == {jobs[0]["job_id"]: expected, jobs[1]["job_id"]: [*expected, "by one job"]}


# --- what surrounds a call


async def test_middleware_and_dependencies_count_once_for_a_call(is_async: bool) -> None:
    tasks = Tasks()
    events: list[Any] = []

    class Around(Middleware):
        def around_job(self, ctx: Context) -> Iterator[None]:
            events.append(("enter", ctx.job_id, len(ctx.jobs) if isinstance(ctx, GatherContext) else 0))
            try:
                yield
            finally:
                events.append("leave")

    def session(ctx: Context) -> Iterator[str]:
        events.append("open")
        yield ctx.name
        events.append("close")

    def body(rows: list[int], db: str) -> list[str]:
        events.append("run")
        return [f"{db} {row}" for row in rows]

    if is_async:

        @tasks.task("row.insert", gather=Gather(10))
        async def ainsert(rows: list[int], ctx: GatherContext, *, db: str = Depends(session)) -> list[str]:
            return body(rows, db)

        task: Any = ainsert
    else:

        @tasks.task("row.insert", gather=Gather(10))
        def insert(rows: list[int], ctx: GatherContext, *, db: str = Depends(session)) -> list[str]:
            return body(rows, db)

        task = insert
    jobs = [task.to_job(n) for n in range(2)]
    endings = await WorkerHarness(Worker(tasks=tasks, middleware=[Around()])).run_together(jobs)
    assert [ending.result for ending in endings] == ["row.insert 0", "row.insert 1"]
    assert events == [("enter", jobs[0].id, 2), "open", "run", "close", "leave"]


async def test_a_call_enqueues_by_the_worker_and_each_job_has_its_own_once(is_async: bool) -> None:
    tasks = Tasks()

    @tasks.task("row.note")
    def note(row: int) -> None: ...

    @tasks.task("row.insert", gather=Gather(10))
    def insert(rows: list[int], ctx: GatherContext) -> None:
        for row, job in zip(rows, ctx.jobs, strict=True):
            note.enqueue(row)
            job.enqueue("row.note", {"row": row}, once=True)

    harness = WorkerHarness(tasks)
    jobs: list[Any] = [insert.to_job(n) for n in range(2)]
    await harness.run_together(jobs)
    first = [job["id"] for job in harness.enqueued]
    await harness.run_together(jobs, attempt=2)
    again = [job["id"] for job in harness.enqueued[4:]]
    assert len(set(first)) == 4
    assert (first[1::2] == again[1::2], first[::2] == again[::2]) == (True, False)


@pytest.mark.parametrize("call", ["save", "save_and_wait", "step", "emit", "iterate", "open_challenge"])
def test_actions_on_one_job_are_refused_in_a_call_for_many(call: str) -> None:
    tasks = Tasks()

    @tasks.task("row.insert", gather=Gather(10))
    def insert(rows: list[int], ctx: GatherContext) -> None:
        with pytest.raises(TypeError, match=r"ctx.jobs\[0\]"):
            getattr(ctx, call)(1)
        with pytest.raises(TypeError, match=r"ctx.jobs\[0\]"):
            ctx.enqueue("row.note", once=True)
        ctx.jobs[0].save(rows)

    [run] = drain([insert.to_job(1)])
    assert (run.state, run.checkpoint) == ("succeeded", [1])


# --- declaring them


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in ({"max": 1}, {"max": 1001}, {"max": 2, "within_s": -1}, {"max": 2, "within_s": 61}):
        with pytest.raises(ValueError, match="must be"):
            Gather(**wrong)


def plain(rows: int, ctx: GatherContext) -> None: ...
def without_context(rows: list[int]) -> None: ...
def other_context(rows: list[int], ctx: Context) -> None: ...
def two_lists(rows: list[int], more: list[int], ctx: GatherContext) -> None: ...
def with_default(ctx: GatherContext, rows: list[int] = INJECTED) -> None: ...
def with_input(ctx: GatherContext, rows: list[int] = INPUT) -> None: ...
def one_result(rows: list[int], ctx: GatherContext) -> int: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    "function",
    [plain, without_context, other_context, two_lists, with_default, with_input, one_result],
    ids=lambda one: one.__name__,
)
def test_a_function_that_cannot_run_many_jobs_is_refused(function: Any) -> None:
    tasks = Tasks()
    tasks.task("row.insert", gather=Gather(10))(function)
    with pytest.raises(TypeError, match=r"row\.insert"):
        Worker(tasks=tasks).assembly()


def test_isolated_and_gather_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="exclude each other"):
        Tasks().task("row.insert", gather=Gather(10), isolated=True)


def test_results_of_all_annotations_are_those_of_one_job() -> None:
    tasks = Tasks()

    @tasks.task("any", gather=Gather(10))
    def any_result(rows: list, ctx: GatherContext):  # type: ignore[no-untyped-def]
        return [str(row) for row in rows]

    @tasks.task("both", gather=Gather(10), keep_result=True)
    def both(rows: Sequence[int], ctx: GatherContext | None) -> Sequence[int | str | Exception] | None:
        return [row or "none" for row in rows]

    @tasks.task("errors", gather=Gather(10))
    def errors(rows: list[int], ctx: GatherContext) -> list[Exception]:
        return [Discard() for _ in rows]

    jobs: list[Any] = [any_result.to_job(1), both.to_job(0), errors.to_job(1)]
    assert [(run.state, run.result) for run in drain(jobs)] == [
        ("succeeded", "1"), ("succeeded", "none"), ("discarded", None),
    ]  # fmt: skip
    with inline():
        assert both.using().enqueue(5).get(timeout=0) == 5


def test_drained_jobs_are_gathered_as_a_worker_would() -> None:
    tasks = Tasks()
    calls: list[tuple[list[int], list[int]]] = []

    @tasks.task("row.insert", gather=Gather(3))
    def insert(rows: list[int], ctx: GatherContext) -> None:
        calls.append((rows, [job.attempt for job in ctx.jobs]))
        if 4 in rows and ctx.attempt < 3:
            raise OSError

    jobs: list[Any] = [insert.to_job(n) for n in range(5)]
    runs = drain([*jobs, insert.using(delay=60).to_job(9)])
    assert {run.state for run in runs} == {"succeeded"}
    assert calls == [
        ([0, 1, 2], [1, 1, 1]), ([3, 4], [1, 1]), ([3], [2]), ([4], [2]), ([4], [3]), ([9], [1]),
    ]  # fmt: skip


async def test_a_call_in_a_test_may_be_async_and_inline() -> None:
    tasks = Tasks()

    @tasks.task("row.insert", gather=Gather(3), keep_result=True)
    async def insert(rows: list[int], ctx: GatherContext) -> Sequence[int | Exception]:
        return [row + 1 if row else ValueError("zero") for row in rows]

    with inline(raises=False):
        assert await (await insert.aenqueue(1)).aget(timeout=0) == 2
        failed = await insert.using(max_retry=0).aenqueue(0)
        assert (await failed.arefresh()).status == "failed"


def test_they_show_what_they_are() -> None:
    tasks = Tasks()

    @tasks.task("row.insert", gather=Gather(3))
    def insert(rows: list[int], ctx: GatherContext) -> list[str]:
        return [repr(ctx)] * len(rows)

    assert [run.result for run in drain([insert.to_job(n) for n in range(2)])] == [
        "<GatherContext of 2 jobs of row.insert>"
    ] * 2
    assert insert([1], None) == ["None"]  # type: ignore[arg-type]
