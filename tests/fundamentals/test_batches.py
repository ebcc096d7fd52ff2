"""Batches: jobs that belong together, and callbacks that start when they are over."""

import asyncio

import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import INJECTED, Batch, Context, Pusher, Tasks, Worker

pytestmark = [real_time.MASTER, pytest.mark.req("S7")]


class Album:
    """Tasks that record what they did."""

    def __init__(self, url: str) -> None:
        self.tasks = Tasks(master=url)
        self.seen: list[object] = []
        seen = self.seen

        @self.tasks.task("thumbnail", max_retry=0)
        async def thumbnail(photo: int) -> None:
            if photo < 0:
                raise ValueError("no such photo")
            seen.append(photo)

        @self.tasks.task("publish")
        async def publish(album: int, ctx: Context = INJECTED) -> None:
            seen.append((album, ctx.batch))

        @self.tasks.task("told")
        async def told(what: str) -> None:
            seen.append(what)

        self.thumbnail, self.publish, self.told = thumbnail, publish, told

    async def is_complete(self, batch: Batch) -> bool:
        return bool((await batch.astatus())["state"] == "complete")


async def test_a_task_starts_when_all_others_of_a_batch_have_succeeded(url: str) -> None:
    album = Album(url)
    async with Worker(url, tasks=[album.tasks]).running():
        async with Batch(on_success=album.publish.to_job(7), description="Album 7") as batch:
            for photo in range(3):
                await album.thumbnail.using(batch=batch).aenqueue(photo)
            await batch.aadd([album.thumbnail.to_job(3)])
        await wait_until(lambda: len(album.seen) == 5)
    assert sorted(album.seen[:4], key=str) == [0, 1, 2, 3]
    assert album.seen[4] == (7, batch.id)
    status = await batch.astatus()
    assert (status["state"], status["counts"]["total"], status["description"]) == ("complete", 4, "Album 7")
    await album.tasks.aclose()


async def test_threads_make_batches_too(url: str) -> None:
    album = Album(url)

    def fill() -> Batch:
        with Batch(on_complete=album.told.to_job("done"), tasks=album.tasks) as batch:
            batch.add([album.thumbnail.to_job(1)])
            album.thumbnail.using(batch=batch.id).enqueue(2)
        return batch

    async with Worker(url, tasks=[album.tasks]).running():
        batch = await asyncio.to_thread(fill)
        await wait_until(lambda: "done" in album.seen)
        assert (await asyncio.to_thread(batch.status))["counts"]["succeeded"] == 2
    await album.tasks.aclose()


async def test_an_exception_in_the_block_cancels_the_batch(url: str, pusher: Pusher) -> None:
    album = Album(url)
    batch = Batch(on_success=album.told.to_job("success"), on_complete=album.told.to_job("cleaned up"))
    job_ids: list[str] = []

    async def fill() -> None:
        async with batch:
            job_ids.extend(await batch.aadd([album.thumbnail.to_job(1)]))
            raise LookupError

    with pytest.raises(LookupError):
        await fill()

    async def is_canceled() -> bool:
        return bool((await pusher.status(job_ids[0]))["state"] == "canceled")

    await wait_until(is_canceled)
    async with Worker(url, tasks=[album.tasks]).running():
        await wait_until(lambda: album.seen == ["cleaned up"])
    await album.tasks.aclose()


async def test_failed_members_are_retried_together(url: str) -> None:
    album = Album(url)
    batch = Batch(on_failure=album.told.to_job("failed"), on_success=album.told.to_job("success"))
    async with Worker(url, tasks=[album.tasks]).running():
        async with batch:
            await batch.aadd([album.thumbnail.to_job(-1), album.thumbnail.to_job(1)])
        await wait_until(lambda: album.is_complete(batch))
        await wait_until(lambda: "failed" in album.seen)
        await batch.aretry()

        async def is_over() -> bool:
            return bool((await batch.astatus())["counts"]["failed"] == 1)

        await wait_until(is_over)
    assert "success" not in album.seen
    await album.tasks.aclose()


async def test_a_member_adds_further_ones(url: str) -> None:
    tasks, seen = Tasks(master=url), list[str]()

    @tasks.task("page")
    async def page(number: int, ctx: Context = INJECTED) -> None:
        seen.append(f"page {number}")
        if number < 3:
            await page.using(batch=ctx.batch).aenqueue(number + 1)

    @tasks.task("index")
    async def index() -> None:
        seen.append("index")

    async with Worker(url, tasks=[tasks]).running():
        async with Batch(on_complete=index.to_job()) as batch:
            await page.using(batch=batch).aenqueue(1)
        await wait_until(lambda: "index" in seen)
    assert seen == ["page 1", "page 2", "page 3", "index"]
    await tasks.aclose()
