"""Tasks: functions whose calls are jobs."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from tests.support import real_time
from worker_sdk import (
    INJECTED,
    Context,
    JobCanceled,
    JobDiscarded,
    JobFailed,
    JobSkipped,
    NotFinished,
    Pusher,
    RefusedError,
    ResultGone,
    ResultNotKept,
    Tasks,
    UnreadableResult,
    Worker,
    await_all,
    retry_on,
)

pytestmark = real_time.MASTER


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Box:
    left: int
    top: int = 0


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Photo(pydantic.BaseModel):
    photo_id: int
    taken_at: datetime | None = None
    boxes: list[Box] = []


isolated_tasks = Tasks()


@isolated_tasks.task("box.grow", isolated=True, keep_result=True)
def grow(box: Box, by: int = 1, *, ctx: Context = INJECTED) -> Box:
    """The function is at the top of a module, so that its process can import it."""
    assert ctx.name == "box.grow"
    return Box(box.left + by, box.top + by)


@asynccontextmanager
async def running(url: str, *tasks: Tasks) -> AsyncIterator[None]:
    """Run a worker for these tasks, which enqueue at the same master."""
    async with Worker(url, tasks=tasks).running():
        try:
            yield
        finally:
            for one in tasks:
                await one.aclose()


@pytest.mark.req("S8")
async def test_a_call_becomes_a_job_and_its_result_comes_back_as_the_annotation_says(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("thumbnail.make", keep_result=True)
    async def make_thumbnail(photo_id: int, size: int = 320, *, ctx: Context = INJECTED) -> Box:
        return Box(photo_id, size + ctx.attempt)

    async with running(url, tasks):
        handle = await make_thumbnail.aenqueue(42, size=100)
        assert await handle.aget(timeout=10) == Box(42, 101)
        assert handle.status == "succeeded"
        assert await handle.aget() == Box(42, 101)  # a master returns it once, the handle keeps it


VALUES: list[tuple[Any, Any]] = [
    (int, 2**63),
    (float, 1.5),
    (bool, True),
    (str, "日本語"),
    (bytes, b"\x00\xff"),
    (datetime, datetime(2026, 11, 21, 4, 30, 0, 123456, tzinfo=UTC)),
    (date, date(2026, 11, 21)),
    (timedelta, timedelta(days=2, milliseconds=5)),
    (UUID, UUID("00000000-0000-7000-8000-000000000001")),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Box, Box(1, 2)),
    (Point, Point(0.5)),
    (Photo, Photo(photo_id=1, taken_at=datetime(2026, 1, 1, tzinfo=UTC), boxes=[Box(1)])),
    (list[Photo], [Photo(photo_id=1)]),
    (dict[str, Box | None], {"a": Box(1), "b": None}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (int | str | None, "a"),
    (Annotated[int, pydantic.Field(gt=0)], 3),
    (Box | Photo, Photo(photo_id=7)),
    (Any, {"n": [1, None, b"x"]}),
]


@pytest.mark.req("J3")
@pytest.mark.req("S8")
async def test_values_of_every_kind_arrive_and_return_as_they_were(url: str) -> None:
    tasks = Tasks(master=url)
    seen: dict[str, Any] = {}

    def declare(number: int, kind: Any) -> Any:
        async def echo(value: Any, /) -> Any:
            seen[str(number)] = value
            return value

        echo.__annotations__ = {"value": kind, "return": kind}
        return tasks.task(f"echo.{number}", keep_result=True)(echo)

    declared = [declare(number, kind) for number, (kind, _) in enumerate(VALUES)]
    async with running(url, tasks):
        handles = [await task.aenqueue(value) for task, (_, value) in zip(declared, VALUES, strict=True)]
        results = await await_all(handles, timeout=20)
    assert results == [value for _, value in VALUES]
    assert [seen[str(n)] for n in range(len(VALUES))] == results
    assert [type(result) for result in results] == [type(value) for _, value in VALUES]


@pytest.mark.req("S8")
async def test_sync_async_and_isolated_functions_are_tasks_with_the_context_wherever_it_stands(
    url: str,
) -> None:
    tasks = Tasks(master=url)

    @tasks.task("first", keep_result=True)
    def first(ctx: Context, number: int) -> tuple[str, int]:
        return ctx.name, number

    @tasks.task("middle", keep_result=True)
    async def middle(number: int, ctx: Context = INJECTED, other: int = 1) -> tuple[str, int]:
        return ctx.name, number + other

    @tasks.task("only", keep_result=True)
    def only(ctx: Context, number: int, /) -> tuple[str, int]:
        return ctx.name, number

    @tasks.task("none", keep_result=True)
    def none() -> str:
        return threading.current_thread().name

    async with running(url, tasks, isolated_tasks), Pusher(url) as pusher:
        assert await (await first.aenqueue(1)).aget(10) == ("first", 1)
        assert await (await middle.aenqueue(1, other=2)).aget(10) == ("middle", 3)
        assert await (await only.aenqueue(4)).aget(10) == ("only", 4)
        assert (await (await none.aenqueue()).aget(10)).startswith("jq-handler")
        job = grow.to_job(Box(1), by=2)
        await pusher.enqueue_job(job)
        result = await pusher.result(job.id, wait=20)
        assert result
        assert grow.decode_result(result.result) == Box(3, 2)


@pytest.mark.req("S8")
@pytest.mark.parametrize(
    ("argument", "problems"),
    [
        ({"photo_id": "42"}, [["photo_id", "Expected `int`, got `str`"]]),
        ({}, [["photo_id", "is missing"]]),
        (None, [["photo_id", "is missing"]]),
        ("secret", [["argument", "Expected a map of parameters, got `str`"]]),
        ({"photo_id": 1, "old": 2}, [["old", "is not a parameter"]]),
        ({"photo_id": 1, "colour": "secret"}, [["colour", "Expected one of the allowed values, got `str`"]]),
        ({"photo_id": 1, "boxes": [{"left": "secret"}]}, [["boxes[0].left", "Expected `int`, got `str`"]]),
        (
            {"photo_id": None, "photo": {"photo_id": "secret"}},
            [
                ["photo.photo_id", "Input should be a valid integer, unable to parse string as an integer, got `str`"],
                ["photo_id", "Expected `int`, got `None`"],
            ],
        ),
    ],
)  # fmt: skip
async def test_an_argument_that_does_not_fit_fails_for_good_before_the_function_runs(
    url: str, pusher: Pusher, argument: Any, problems: list[Any]
) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load")
    async def load(
        photo_id: int, colour: Colour = Colour.RED, boxes: list[Box] | None = None, photo: Photo | None = None
    ) -> None:
        raise AssertionError("it ran")

    async with running(url, tasks):
        job_id = await pusher.enqueue("photo.load", argument, keep_result=True, max_retry=3)
        with pytest.raises(JobFailed) as raised:
            await load.handle(job_id).aget(10)
        view = await pusher.status(job_id)
    assert (raised.value.cause, raised.value.should_retry) == ("invalid_argument", False)
    assert [[one["path"], one["problem"]] for one in raised.value.error["problems"]] == problems
    assert "secret" not in raised.value.message
    assert (view["state"], view["cause"], view["attempt"]) == ("failed", "invalid_argument", 1)


async def test_jobs_from_before_a_parameter_was_added_run_with_its_default(url: str, pusher: Pusher) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load")
    async def load(photo_id: int, size: int = 7) -> int:
        return size

    async with running(url, tasks):
        job_id = await pusher.enqueue("photo.load", {"photo_id": 1}, keep_result=True)
        assert await load.handle(job_id).aget(10) == 7


async def test_jobs_of_the_old_name_of_a_task_run_while_its_function_also_has_that_name(
    url: str, pusher: Pusher
) -> None:
    old = await pusher.enqueue("photo.laod", {"photo_id": 1}, keep_result=True)
    tasks, former = Tasks(master=url), Tasks(master=url)

    @tasks.task("photo.load", keep_result=True)
    async def load(photo_id: int) -> int:
        return photo_id + 1

    async with running(url, tasks):
        assert await (await load.aenqueue(2)).aget(10) == 3
    # A worker that does not know the old name leaves its jobs alone.
    assert (await pusher.status(old))["state"] == "ready"
    former.task("photo.laod")(load.function)
    async with running(url, tasks, former):
        assert await load.handle(old).aget(10) == 2


async def test_an_argument_that_is_too_large_is_refused_and_named(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load")
    async def load(text: str) -> None: ...

    with pytest.raises(RefusedError) as raised:
        await load.aenqueue("x" * 300_000)
    assert (raised.value.status, raised.value.code) == (413, "argument_too_large")
    # The other jobs of the bulk are not enqueued, either.
    with pytest.raises(RefusedError, match="262144 bytes"):
        await load.amany([load.to_job("x"), load.to_job("x" * 300_000)])
    await tasks.aclose()


async def test_a_result_that_cannot_be_sent_fails_for_good(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load", keep_result=True)
    async def load() -> Any:
        return [object()]

    async with running(url, tasks):
        with pytest.raises(
            JobFailed, match=r"cannot be sent: result\[0\] is an object, which has no MessagePack form"
        ) as raised:
            await (await load.aenqueue()).aget(10)
    assert (raised.value.cause, raised.value.should_retry) == ("error", False)


async def test_a_result_that_does_not_fit_the_annotation_is_told_to_the_caller(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load", keep_result=True)
    async def load() -> int:
        return "seven"  # type: ignore[return-value]

    async with running(url, tasks):
        with pytest.raises(UnreadableResult, match="result: Expected `int`, got `str`"):
            await (await load.aenqueue()).aget(10)


@pytest.mark.req("S1")
async def test_an_exception_arrives_with_type_message_and_traceback(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load", max_retry=0, keep_result=True)
    async def load() -> None:
        raise LookupError("no photo 7")

    async with running(url, tasks):
        for options in ({}, {"keep_result": False}):
            handle = await load.using(**options).aenqueue()  # type: ignore[arg-type]
            with pytest.raises(JobFailed) as raised:
                await handle.aget(10)
            failed = raised.value
            assert (failed.job_id, failed.cause, failed.error_type) == (handle.id, "error", "LookupError")
            assert "LookupError: no photo 7" in failed.message
            assert 'raise LookupError("no photo 7")' in failed.traceback
            assert handle.status == "failed"


@pytest.mark.req("S2")
async def test_the_retry_policy_of_a_task_counts(url: str) -> None:
    tasks = Tasks(master=url)
    attempts = []

    @tasks.task(
        "photo.load",
        keep_result=True,
        retry={"base_s": 0.01, "jitter": False},
        retry_on=retry_on(LookupError, attempts=2),
    )
    def load(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise LookupError

    async with running(url, tasks):
        with pytest.raises(JobFailed) as raised:
            await (await load.aenqueue()).aget(20)
    assert attempts == [1, 2]
    assert raised.value.should_retry is False


@pytest.mark.req("S12")
async def test_a_discarded_job_is_told_to_its_caller(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load", discard_on=LookupError, keep_result=True)
    def load() -> None:
        raise LookupError("no photo 7")

    async with running(url, tasks):
        with pytest.raises(JobDiscarded, match="was discarded: LookupError: no photo 7"):
            await (await load.aenqueue()).aget(20)


@pytest.mark.req("J14")
async def test_each_reason_for_no_result_has_an_exception_of_its_own(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("photo.load")
    async def load() -> int:
        return 1

    async with running(url, tasks):
        with pytest.raises(ResultNotKept, match="enqueue the job with keep_result=True"):
            await (await load.aenqueue()).aget(10)
        kept = await load.using(keep_result=True).aenqueue()
        assert await kept.aget(10) == 1
        with pytest.raises(ResultGone, match="does not exist"):
            await load.handle("00000000-0000-7000-8000-000000000001").aget(10)
        with pytest.raises(ResultGone, match="does not exist"):
            await load.handle("00000000-0000-7000-8000-000000000001").arefresh()

        later = await load.using(delay=60).aenqueue()
        assert later.status == "scheduled"
        with pytest.raises(NotFinished) as raised:
            await later.aget(timeout=0)
        assert (raised.value.job_id, raised.value.state) == (later.id, "scheduled")
        await later.acancel()
        assert later.status == "canceled"
        with pytest.raises(JobCanceled):
            await later.aget(10)
        with pytest.raises(RefusedError):
            await kept.acancel()

        expired = await load.using(
            expires_at=datetime.now(UTC) + timedelta(seconds=0.2), delay=0.5
        ).aenqueue()
        with pytest.raises(JobSkipped) as skipped:
            await expired.aget(20)
        assert skipped.value.cause == "expired"
        assert (await expired.arefresh()).job
        assert expired.status == "skipped"


@pytest.mark.req("S3")
async def test_many_calls_go_in_bulk_and_are_read_as_they_are_sent(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("number.double", keep_result=True)
    async def double(number: int, *, factor: int = 2) -> int:
        return number * factor

    async def numbers() -> AsyncIterator[dict[str, int]]:
        for number in range(3):
            yield {"number": number}

    async with running(url, tasks):
        handles = await double.amany(double.to_job(number, factor=3) for number in range(1_500))
        assert await await_all(handles[-3:], timeout=30) == [4491, 4494, 4497]
        assert await await_all(await double.using(priority=1).amany(numbers()), timeout=10) == [0, 2, 4]

        def both() -> list[int]:
            handles = double.many([{"number": 4}, double.to_job(5)])
            return [handle.get(10) for handle in handles]

        assert await asyncio.to_thread(both) == [8, 10]


async def test_a_repeated_key_leads_to_the_first_job(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("feed.insert")
    async def insert(number: int) -> None: ...

    keyed = insert.using(key="feed:42:7")
    async with running(url, tasks):
        first = await keyed.aenqueue(7)
        assert (await keyed.aenqueue(7)).id == first.id
        assert [handle.id for handle in await keyed.amany([{"number": 7}])] == [first.id]


async def test_enqueue_blocks_a_thread_alone(url: str) -> None:
    tasks = Tasks(master=url)

    @tasks.task("number.double", keep_result=True)
    def double(number: int) -> int:
        return 2 * number

    def push() -> list[Any]:
        handle, later = double.enqueue(2), double.using(delay=60).enqueue(1)
        later.cancel()
        return [handle.get(timeout=10), handle.refresh().status, later.status]

    async with running(url, tasks):
        assert await asyncio.to_thread(push) == [4, "succeeded", "canceled"]


@pytest.mark.req("J16")
async def test_a_task_that_enqueues_uses_the_master_of_its_worker(url: str) -> None:
    tasks = Tasks()  # JQMASTER_URL is not set
    seen: list[Any] = []

    @tasks.task("child")
    async def child(number: int) -> None:
        seen.append(number)

    @tasks.task("async.parent", keep_result=True)
    async def async_parent() -> str:
        return (await child.aenqueue(1)).id

    @tasks.task("parent", keep_result=True)
    def parent() -> str:
        return child.enqueue(2).id

    async with running(url, tasks), Pusher(url) as pusher:
        for task in (async_parent, parent):
            job = task.to_job()
            await pusher.enqueue_job(job)
            result = await pusher.result(job.id, wait=10)
            assert result
            other = Tasks(master=url)
            with pytest.raises(ResultNotKept):
                await other.task("child")(child.function).handle(result.result).aget(10)
            await other.aclose()
    assert seen == [1, 2]
