"""The outbox with asyncio: SQLAlchemy on aiosqlite, asyncpg and psycopg."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import gone, posts, pushed, table
from tests.support.waiting import wait_until
from worker_sdk import Tasks
from worker_sdk.outbox import AsyncRelay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

pytestmark = pytest.mark.req("S11")

tasks = Tasks()


@tasks.task("note")
def note(text: str) -> None: ...


async def rows_of(engine: Any, what: sa.Table = table) -> int:
    async with engine.connect() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(what))).scalar_one()


async def test_a_commit_pushes_the_jobs_in_order_and_removes_their_rows(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster
) -> None:
    async with AsyncSession(aengine) as session, aoutbox.atransaction(session):
        await session.execute(sa.insert(posts).values(text="a"))
        first = await note.aenqueue("a")
        await note.amany([{"text": "b"}, {"text": "c"}])
        assert pushed(master) == []
    assert [one["text"] for one in pushed(master)] == ["a", "b", "c"]
    assert next(iter(master.jobs)) == first.id
    assert (await rows_of(aengine), await rows_of(aengine, posts)) == (0, 1)


async def test_rollbacks_and_savepoints_take_their_jobs_along(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster
) -> None:
    async def fails(session: AsyncSession) -> None:
        async with aoutbox.atransaction(session):
            await note.aenqueue("lost")
            raise KeyError

    async with AsyncSession(aengine) as session:
        with pytest.raises(KeyError):
            await fails(session)
        async with aoutbox.atransaction(session):
            await note.aenqueue("a")
            savepoint = await session.begin_nested()
            await note.aenqueue("inside")
            await savepoint.rollback()
            async with aoutbox.atransaction(session):
                await note.aenqueue("b")
    assert [one["text"] for one in pushed(master)] == ["a", "b"]
    assert await rows_of(aengine) == 0


async def test_a_session_that_commits_by_itself_pushes_at_the_commit(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster
) -> None:
    async def jobs() -> Any:
        yield note.to_job("b")
        yield ("raw", 1)

    async with AsyncSession(aengine) as session:
        await aoutbox.aadd(session, note.to_job("a"))
        await aoutbox.aadd_many(session, jobs())
        await session.commit()
        assert pushed(master) == [{"text": "a"}, {"text": "b"}, 1]
        await aoutbox.aadd(session, note.to_job("c"))
        await session.rollback()
    assert len(pushed(master)) == 3


async def test_a_blocking_enqueue_is_refused_with_the_remedy(aoutbox: SqlAlchemyOutbox, aengine: Any) -> None:
    async with AsyncSession(aengine) as session, aoutbox.atransaction(session):
        with pytest.raises(TypeError, match="use aenqueue"):
            note.enqueue("a")


async def test_transactions_of_several_tasks_of_the_event_loop_do_not_mix(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster
) -> None:
    if aengine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    both_wrote = asyncio.Barrier(2)

    async def write(text: str, fails: bool) -> None:
        async with AsyncSession(aengine) as session, aoutbox.atransaction(session):
            await note.aenqueue(text)
            await both_wrote.wait()
            if fails:
                raise KeyError

    await asyncio.gather(write("a", False), write("b", True), return_exceptions=True)
    assert [one["text"] for one in pushed(master)] == ["a"]


async def test_a_relay_in_the_event_loop_pushes_what_was_left(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster
) -> None:
    seen: list[int] = []
    with gone(master):
        async with AsyncSession(aengine) as session, aoutbox.atransaction(session):
            await note.aenqueue("a")
    assert (await aoutbox.astats()).waiting == 1
    relay = AsyncRelay(aoutbox, poll_s=0.05, on_stats=lambda stats: seen.append(stats.waiting))
    task = asyncio.create_task(relay.run())
    await wait_until(lambda: pushed(master) and seen and seen[-1] == 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await rows_of(aengine) == 0
