# pyright: strict
"""Correct uses of tasks: mypy strict and pyright strict find nothing here."""

from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from worker_sdk import (
    INJECTED,
    INPUT,
    INPUTS,
    After,
    Context,
    Depends,
    Flow,
    FlowHandles,
    Gather,
    GatherContext,
    JobHandle,
    JobProgress,
    Middleware,
    NoResultError,
    NotFinished,
    Task,
    Tasks,
    Worker,
    await_all,
    chain,
    chord,
    group,
    make_job,
    retry_on,
    wait_all,
)


@dataclass
class Thumbnail:
    width: int


tasks = Tasks()


@tasks.task("thumbnail.make", timeout=600, max_retry=8, retry_on=retry_on(OSError, wait=60))
async def make_thumbnail(photo_id: int, size: int = 320, *, ctx: Context = INJECTED) -> Thumbnail:
    return Thumbnail(photo_id * size * ctx.attempt)


@tasks.task("thumbnail.drop")
def drop_thumbnail(ctx: Context, photo_id: int, *, force: bool = False) -> str:
    return f"{ctx.job_id} {photo_id} {force}"


@tasks.task("thumbnail.sweep")
async def sweep(ctx: Context) -> None: ...


@tasks.task("thumbnail.count")
def count() -> int:
    return 1


@tasks.task("anything")
def anything(payload: Any, size: int) -> int:
    return size


class Session:
    """Return a value that a function passes to a task."""


def open_session() -> Iterator[Session]:
    yield Session()


async def open_async_session(number: int = Depends(lambda: 1)) -> AsyncIterator[Session]:
    yield Session()


async def load_limit(ctx: Context) -> int:
    return ctx.attempt


@tasks.task("thumbnail.store")
async def store(
    photo_id: int,
    session: Session = Depends(open_session),
    *,
    other: Session = Depends(open_async_session),
    limit: int = Depends(load_limit),
    made: Session = Depends(Session, scope="worker"),
    optional: Session | None = Depends(open_session),
) -> Session:
    return session


class Noted(Middleware):
    async def on_start(self) -> None: ...

    def on_stop(self) -> None: ...

    def around_job(self, ctx: Context) -> Iterator[None]:
        yield

    async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
        yield

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        yield


store.enqueue(42)
store.enqueue(photo_id=42)
surrounded = Worker(tasks=tasks, middleware=[Noted()])


@surrounded.handler("raw")
async def raw(argument: Any, ctx: Context, session: Session = Depends(open_session)) -> None: ...


assert_type(make_thumbnail.enqueue(42), JobHandle[Thumbnail])
assert_type(make_thumbnail.enqueue(photo_id=42, size=100).get(timeout=5), Thumbnail)
assert_type(make_thumbnail.using(priority=-5, delay=60, expires=3600).enqueue(42).get(), Thumbnail)
coroutine: Coroutine[Any, Any, Thumbnail] = make_thumbnail(42)
assert_type(drop_thumbnail.enqueue(42, force=True).get(), str)
assert_type(drop_thumbnail.to_job(photo_id=1).id, str)
assert_type(sweep.enqueue(), JobHandle[None])
assert_type(count(), int)
assert_type(count.enqueue().progress(), JobProgress | None)
anything.enqueue({"a": 1}, size=2)
assert_type(make_thumbnail.many(make_thumbnail.to_job(n) for n in range(3)), list[JobHandle[Thumbnail]])
assert_type(wait_all([count.enqueue()]), list[int])
assert_type(wait_all([count.enqueue()], return_exceptions=True), list[int | NoResultError | NotFinished])


def with_context(ctx: Context) -> str:
    return drop_thumbnail(ctx, 42, force=True)


def of_any_task(task: Task[[int], Thumbnail]) -> Thumbnail:
    return task.enqueue(1).get()


async def numbers() -> AsyncIterator[dict[str, int]]:
    yield {"photo_id": 1}


async def asynchronously() -> None:
    handle = await make_thumbnail.aenqueue(42)
    assert_type(await handle.aget(), Thumbnail)
    assert_type(await await_all(await make_thumbnail.amany(numbers())), list[Thumbnail])


@tasks.task("thumbnail.crop")
async def crop(thumbnail: Thumbnail = INPUT, *, width: int = 10) -> Thumbnail:
    return Thumbnail(min(thumbnail.width, width))


@tasks.task("album.publish")
def publish(album: int, thumbnails: list[Thumbnail] = INPUTS, *, ctx: Context = INJECTED) -> str:
    assert_type(ctx.inputs[0].result_of(make_thumbnail), Thumbnail)
    assert_type(ctx.inputs.results_of(count), list[int])
    assert_type([one.state for one in ctx.inputs], list[str | None])
    return f"{album}: {len(thumbnails)}"


crop.to_job(Thumbnail(3))
assert_type(chain(make_thumbnail.to_job(1), crop.to_job(width=5)), Flow[Thumbnail])
assert_type(chain(make_thumbnail.to_job(1), crop.to_job()).enqueue(), FlowHandles[Thumbnail])
thumbnails = group(make_thumbnail.to_job(n) for n in range(3))
assert_type(chain(thumbnails, publish.to_job(7)).enqueue().last.get(), str)
assert_type(chain(count.to_job(), chain(thumbnails, publish.to_job(7))).enqueue().last.get(), str)
assert_type(chord(thumbnails, publish.to_job(7)).enqueue().last.get(), str)
assert_type(chord([count.to_job(), make_job("raw")], publish.to_job(7), when="finished"), Flow[str])
flow = Flow()
begin = flow.add(make_thumbnail.to_job(1))
end = flow.add(publish.to_job(7), after=[begin, flow.add(group(count.to_job(), crop.to_job()))])
raw_job = flow.add(make_job("raw"), after=After([begin, end], when="finished"))
flow.after(end, raw_job)
handles = flow.enqueue()
assert_type(handles[begin].get(), Thumbnail)
assert_type(handles[end], JobHandle[str])
assert_type(handles[raw_job], JobHandle[Any])
assert_type(flow.add(chain(count.to_job()), after="id"), Flow[int])


worker = Worker(tasks=[tasks])
one = Worker(tasks=tasks)


@tasks.task("thumbnail.store", gather=Gather(max=500, within_s=0.5))
def store_thumbnails(all_of_them: list[Thumbnail], ctx: GatherContext) -> Sequence[int | Exception] | None:
    return [one.width + job.attempt for one, job in zip(all_of_them, ctx.jobs, strict=True)]


@tasks.task("thumbnail.count", gather=Gather(max=5))
async def count_thumbnails(names: list[str], ctx: GatherContext) -> Sequence[int | Exception]:
    return [ValueError(name) if name else 1 for name in names]


async def gathered(ctx: GatherContext) -> None:
    assert_type(store_thumbnails.enqueue(Thumbnail(1)), JobHandle[int])
    assert_type(await count_thumbnails.aenqueue("a"), JobHandle[int])
    assert_type(store_thumbnails.many([store_thumbnails.to_job(Thumbnail(2))]), list[JobHandle[int]])
    assert_type(store_thumbnails([Thumbnail(1)], ctx), Sequence[int | Exception] | None)


async def acharge(order: int, *, yen: int = 5) -> Thumbnail:
    return Thumbnail(order + yen)


def charge(order: int, *, yen: int = 5) -> Thumbnail:
    return Thumbnail(order + yen)


async def steps(ctx: Context) -> None:
    assert_type(await ctx.step("charge", acharge, 7, yen=3), Thumbnail)
    assert_type(ctx.step("charge", charge, 7, yen=3), Thumbnail)
