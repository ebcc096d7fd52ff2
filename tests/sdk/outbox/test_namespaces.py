"""Rows for other namespaces: where they go, and that a namespace that is away holds up no other."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import rows_of, table
from worker_sdk import Tasks
from worker_sdk.outbox import AsyncRelay, Relay
from worker_sdk.outbox.rows import PAGE
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox
from worker_sdk.testing import recording

pytestmark = pytest.mark.req("D29", "S11")
tasks = Tasks()


@tasks.task("note")
def note(text: str) -> None: ...


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_sdk.outbox.base._MAX_WAIT_S", 0.05)


def by_namespace(master: FakeMaster) -> dict[str, list[Any]]:
    """Return the texts of a master's jobs in order of arrival."""
    found: dict[str, list[Any]] = {}
    for job_id, job in master.jobs.items():
        found.setdefault(master.namespaces[job_id], []).append(job["argument"]["text"])
    return found


def by_relay(engine: sa.Engine, master: FakeMaster) -> SqlAlchemyOutbox:
    return SqlAlchemyOutbox(engine, table=table, master=master.url, token=master.token, is_direct=False)


def write(outbox: SqlAlchemyOutbox, namespace: str | None, *texts: str) -> None:
    with Session(outbox.engine) as session, outbox.transaction(session):
        note.using(namespace=namespace).many([{"text": text} for text in texts])


def test_one_transaction_enqueues_into_several_namespaces(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session, outbox.transaction(session):
        note.enqueue("here")
        note.using(namespace="mail").enqueue("there")
        note.using(namespace="mail").many([{"text": "b"}, {"text": "c"}])
        note.using(namespace="default").enqueue("by name")
        assert master.jobs == {}
        with pytest.raises(ValueError, match="2 to 39 of the characters"):
            note.using(namespace="Mail").enqueue("x")
    assert by_namespace(master) == {"default": ["here", "by name"], "mail": ["there", "b", "c"]}
    assert rows_of(engine) == 0
    assert not any("to" in job for job in master.jobs.values())
    with Session(engine) as session:
        with outbox.writing(session):
            note.using(namespace="mail").enqueue("rolled back")
        session.rollback()
    assert rows_of(engine) == 0


def test_only_rows_for_another_namespace_need_a_new_relay(
    engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = by_relay(engine, master)
    write(outbox, None, "here")
    write(outbox, "mail", "there")
    with engine.connect() as connection:
        formats = connection.execute(sa.select(table.c.format).order_by(table.c.seq)).scalars().all()
    assert formats == [1, 2]
    with monkeypatch.context() as patch:
        # A former release reads rows of format 1.
        patch.setattr("worker_sdk.outbox.sqlalchemy_rows.FORMAT", 1)
        Relay(outbox).run_all()
        assert (by_namespace(master), outbox.stats().newer) == ({"default": ["here"]}, 1)
    Relay(outbox).run_all()
    assert by_namespace(master) == {"default": ["here"], "mail": ["there"]}


@pytest.mark.parametrize("away", ["mail", "default"])
def test_more_than_a_page_for_a_closed_namespace_holds_up_no_other(
    engine: sa.Engine, master: FakeMaster, away: str, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = by_relay(engine, master)
    former = None if away == "default" else away
    with Session(engine) as session, outbox.transaction(session):
        note.using(namespace=former).many([{"text": str(number)} for number in range(PAGE + 5)])
    for number in range(3):
        write(outbox, former, f"later {number}")
    write(outbox, "shop", "of another one")
    write(outbox, None if former else "mail", "here")
    master.closed = {away}
    relay = Relay(outbox)
    done = relay.run_all()
    served = {"shop": ["of another one"], "mail" if away == "default" else "default": ["here"]}
    assert by_namespace(master) == served
    assert (done.pushed, list(done.failures)) == (2, [former and f"namespace:{former}"])
    assert "namespace_closed" in str(done.failure)
    assert outbox.stats().waiting == PAGE + 8
    master.closed.clear()
    # Its leases have ended, so any relay may push them at once, in their order.
    assert Relay(outbox).run_all().pushed == PAGE + 8
    assert by_namespace(master)[away][-4:] == [str(PAGE + 4), "later 0", "later 1", "later 2"]
    assert rows_of(engine) == 0


def test_a_running_relay_tries_each_namespace_that_is_away_again(
    engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "worker_sdk.outbox")
    outbox = by_relay(engine, master)
    names = [f"away-{number}" for number in range(5)]
    master.closed = {*names}
    for name in names:
        write(outbox, name, name)
    write(outbox, "shop", "first")
    rounds = 0

    def look(stats: Any) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 8:
            assert by_namespace(master) == {"shop": ["first"]}
            master.closed = {"away-2"}
        if stats.waiting == 1 and rounds > 8:
            relay.stop()
        assert rounds < 500

    relay = Relay(outbox, poll_s=0.01, on_stats=look)
    relay.run()
    assert sorted(by_namespace(master)) == ["away-0", "away-1", "away-3", "away-4", "shop"]
    assert "jobs for namespace away-2 cannot be pushed, they wait" in caplog.text
    assert "a master accepts jobs for namespace away-3 again" in caplog.text


def test_a_failed_push_after_a_commit_leaves_only_its_namespace_to_the_relay(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    master.closed = {"mail"}
    write(outbox, "mail", "a")
    write(outbox, None, "b")
    assert by_namespace(master) == {"default": ["b"]}
    master.closed.clear()
    write(outbox, "mail", "c")
    assert "mail" not in by_namespace(master)
    Relay(outbox).run_all()
    assert by_namespace(master) == {"default": ["b"], "mail": ["a", "c"]}


async def test_sessions_of_asyncio(aoutbox: SqlAlchemyOutbox, master: FakeMaster) -> None:
    async with AsyncSession(aoutbox.engine) as session, aoutbox.atransaction(session):
        await note.aenqueue("here")
        await note.using(namespace="mail").aenqueue("there")
    assert by_namespace(master) == {"default": ["here"], "mail": ["there"]}
    master.closed = {"mail"}
    async with AsyncSession(aoutbox.engine) as session, aoutbox.atransaction(session):
        await note.using(namespace="mail").aenqueue("later")
        await note.using(namespace="shop").aenqueue("now")
    assert by_namespace(master)["shop"] == ["now"]
    master.closed.clear()
    assert (await AsyncRelay(aoutbox).run_all()).pushed == 1
    assert by_namespace(master)["mail"] == ["there", "later"]


def test_a_recorded_row_has_its_namespace(outbox: SqlAlchemyOutbox, engine: sa.Engine) -> None:
    with recording() as jobs:
        write(outbox, "mail", "a")
    assert [job["argument"] for job in jobs] == [{"text": "a"}]
    assert rows_of(engine) == 0
