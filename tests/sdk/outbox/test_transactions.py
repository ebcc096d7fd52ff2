"""A job is pushed exactly if the enqueuing transaction commits: SQLAlchemy, on SQLite, PostgreSQL and MySQL."""

import resource
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import expire, gone, posts, pushed, rows_of
from tests.support import long
from worker_sdk import InvalidArgument, Middleware, Tasks, configure, make_job
from worker_sdk.outbox import Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox
from worker_sdk.testing import recording

pytestmark = pytest.mark.req("S11")

tasks = Tasks()


@tasks.task("note")
def note(text: str) -> None: ...


def count(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(posts)).scalar_one()


def save(session: Session, text: str) -> None:
    session.execute(sa.insert(posts).values(text=text))


def test_a_commit_pushes_the_jobs_in_order_and_removes_their_rows(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session, outbox.transaction(session):
        save(session, "a")
        first = note.enqueue("a")
        note.many([{"text": "b"}, {"text": "c"}])
        assert rows_before(session) == 3
        assert pushed(master) == []
    assert [one["text"] for one in pushed(master)] == ["a", "b", "c"]
    assert next(iter(master.jobs)) == first.id
    assert (rows_of(engine), count(engine)) == (0, 1)
    assert master.count("/api/jobs/bulk") == 1


def rows_before(session: Session) -> int:
    return session.execute(sa.text("SELECT count(*) FROM jqmaster_outbox")).scalar_one()


def test_an_exception_rolls_back_the_data_and_the_jobs(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    def fails(session: Session) -> None:
        with outbox.transaction(session):
            save(session, "a")
            note.enqueue("a")
            raise KeyError

    with Session(engine) as session:
        with pytest.raises(KeyError):
            fails(session)
        with outbox.transaction(session):
            note.enqueue("b")
    assert [one["text"] for one in pushed(master)] == ["b"]
    assert (rows_of(engine), count(engine)) == (0, 0)


def test_a_commit_that_fails_pushes_nothing(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the server has gone")

    with Session(engine) as session:
        monkeypatch.setattr(engine.dialect, "do_commit", refuse)
        with pytest.raises(OSError), outbox.transaction(session):
            note.enqueue("a")
    monkeypatch.undo()
    assert (pushed(master), rows_of(engine)) == ([], 0)


def test_a_commit_whose_answer_is_lost_is_pushed_by_the_relay(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_and_fail(connection: Any) -> None:
        connection.commit()
        raise OSError("the server has gone")

    def write() -> None:
        with Session(engine) as session, outbox.transaction(session):
            save(session, "a")
            note.enqueue("a")

    with monkeypatch.context() as patch:
        patch.setattr(engine.dialect, "do_commit", commit_and_fail)
        with pytest.raises(OSError):
            write()
    # The writer cannot know that its data is there; the job exists with the data.
    assert (pushed(master), rows_of(engine), count(engine)) == ([], 1, 1)
    expire(engine)
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == ([{"text": "a"}], 0)


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session, outbox.transaction(session):
        note.enqueue("before")
        savepoint = session.begin_nested()
        note.enqueue("inside")
        savepoint.rollback()
        with outbox.transaction(session):
            note.enqueue("inner")
        assert pushed(master) == []
        note.enqueue("after")
    assert [one["text"] for one in pushed(master)] == ["before", "inner", "after"]


def test_a_transaction_that_was_begun_before_decides(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session:
        save(session, "a")
        with outbox.transaction(session):
            note.enqueue("a")
        session.rollback()
        save(session, "b")
        with outbox.transaction(session):
            note.enqueue("b")
        session.commit()
    assert [one["text"] for one in pushed(master)] == ["b"]


def test_a_session_that_commits_by_itself_pushes_after_each_commit(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session, outbox.writing(session):
        note.enqueue("a")
        session.commit()
        assert [one["text"] for one in pushed(master)] == ["a"]
        note.enqueue("b")
        session.rollback()
        outbox.add(session, note.to_job("c"), ("raw", 1), make_job("raw", 2))
        session.commit()
    assert pushed(master) == [{"text": "a"}, {"text": "c"}, 1, 2]


def test_outside_of_the_block_jobs_go_to_the_master(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    configure(url=master.url, token=master.token)
    try:
        with Session(engine) as session, outbox.transaction(session):
            pass
        note.enqueue("now")
    finally:
        configure()
    assert master.count("/api/jobs") == 1


def test_a_call_that_does_not_fit_writes_nothing(outbox: SqlAlchemyOutbox, engine: sa.Engine) -> None:
    with pytest.raises(InvalidArgument), Session(engine) as session, outbox.transaction(session):
        note.enqueue(1)  # type: ignore[arg-type]
    assert rows_of(engine) == 0


def test_tasks_with_a_master_of_their_own_are_refused(outbox: SqlAlchemyOutbox, engine: sa.Engine) -> None:
    others = Tasks(master="http://127.0.0.1:1")

    @others.task("other")
    def other() -> None: ...

    refused = pytest.raises(TypeError, match="have their own master")
    with Session(engine) as session, outbox.transaction(session), refused:
        other.enqueue()


class Tenant(Middleware):
    def __init__(self) -> None:
        self.seen = 0

    def around_enqueue(self, job: dict[str, Any]) -> Any:
        self.seen += 1
        job["headers"] = {**job.get("headers", {}), "tenant": "t1"}
        yield


def test_middleware_surrounds_the_enqueue_once(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    tenant = Tenant()
    configure(middleware=[tenant])
    try:
        with Session(engine) as session, outbox.transaction(session):
            note.enqueue("a")
            note.many([{"text": "b"}])
    finally:
        configure()
    assert [job["headers"] for job in master.jobs.values()] == [{"tenant": "t1"}] * 2
    assert tenant.seen == 2


def test_a_delay_counts_from_the_enqueue_and_a_repeat_has_a_key(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with Session(engine) as session, outbox.transaction(session):
        note.using(delay=60).enqueue("a")
        note.using(key="mine").enqueue("b")
    first, second = master.jobs.values()
    assert "delay" not in first
    assert first["run_at"].endswith("Z")
    assert (first["key"], first["key_ttl"], second["key"]) == (first["id"], 86_400, "mine")


def test_a_recording_gets_the_jobs_of_committed_transactions(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    tenant = Tenant()
    configure(middleware=[tenant])
    try:
        with recording() as jobs, Session(engine) as session:
            with outbox.transaction(session):
                note.enqueue("a")
                assert jobs == []
            outbox.add(session, note.to_job("b"))
            session.rollback()
    finally:
        configure()
    assert jobs.only(note).arguments == {"text": "a"}
    assert (tenant.seen, master.calls, rows_of(engine)) == (2, [], 0)


@pytest.mark.sized
def test_tens_of_thousands_of_jobs_of_one_transaction_arrive_in_order_and_in_bounded_memory(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    count = long.size(50_000, 100_000) if engine.dialect.name == "sqlite" else long.size(5_000, 20_000)
    with Session(engine) as session, outbox.transaction(session):
        held_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ids = outbox.add_many(session, (("n", number) for number in range(count)))
        assert len(ids) == count
        # The IDs are returned, but the jobs (2 KiB each in Python) are not kept.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held_kib < 60 * 1024
    assert pushed(master) == list(range(count))
    assert max(master.chunks) <= 1_000
    assert rows_of(engine) == 0


def test_without_a_master_the_commit_holds_and_the_rows_wait(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    with gone(master), Session(engine) as session:
        with outbox.transaction(session):
            save(session, "a")
            note.enqueue("a")
        assert "they wait for the relay" in caplog.text
        assert (rows_of(engine), count(engine)) == (1, 1)
        # The next push is not even tried.
        with outbox.transaction(session):
            note.enqueue("b")
    assert outbox.stats().waiting == 2
    done = Relay(outbox).run_once()
    assert done is not None
    assert done.pushed == 2
    assert [one["text"] for one in pushed(master)] == ["a", "b"]
    assert Relay(outbox).run_once() is None
