"""Relays: what they push, whose rows they leave alone, and how a refused job affects the others."""

import threading
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import expire, gone, pushed, rows_of, table
from tests.support.waiting import wait_until
from worker_sdk import Worker, make_job
from worker_sdk.errors import RefusedError
from worker_sdk.outbox import OutboxRelay, OutboxStats, Relay
from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox
from worker_sdk.outbox.sqlalchemy_rows import SqlRows
from worker_sdk.testing import WorkerHarness

pytestmark = pytest.mark.req("S11")

INVALID: dict[str, Any] = {"status": 422, "code": "invalid", "detail": "no"}


@pytest.fixture
def outbox(engine: sa.Engine, master: FakeMaster) -> SqlAlchemyOutbox:
    """Return an outbox that leaves all pushes to relays."""
    return SqlAlchemyOutbox(
        engine, table=table, master=master.url, token=master.token, is_direct=False, lease_s=30
    )


def write(outbox: SqlAlchemyOutbox, *numbers: int) -> None:
    with Session(outbox.engine) as session, outbox.transaction(session):
        outbox.add(session, *(("n", number) for number in numbers))


def crash_after_the_push(outbox: SqlAlchemyOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay dies when a master has the jobs but the rows still exist."""

    def die(*_: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("worker_sdk.outbox.sqlalchemy_rows.SqlRows.remove", die)
        with pytest.raises(OSError):
            Relay(outbox).run_once()


def test_a_repeat_after_a_crash_is_no_second_job(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(outbox, 1, 2)
    crash_after_the_push(outbox, monkeypatch)
    bodies = [body for _, _, body in master.calls]
    assert rows_of(engine) == 2
    # While its lease lasts, no other relay touches the rows.
    assert Relay(outbox).run_once() is None
    expire(engine)
    done = Relay(outbox).run_once()
    assert done is not None
    assert (done.pushed, pushed(master), rows_of(engine)) == (2, [1, 2], 0)
    assert [body for _, _, body in master.calls] == bodies * 2


@pytest.mark.parametrize("refuses", [False, True])
def test_a_relay_that_was_overtaken_leaves_the_rows_of_later_transactions(
    outbox: SqlAlchemyOutbox,
    engine: sa.Engine,
    master: FakeMaster,
    monkeypatch: pytest.MonkeyPatch,
    refuses: bool,
) -> None:
    table.drop(engine)
    # Releases before 0.4 created the table this way: SQLite reuses the last row's number after its removal.
    with monkeypatch.context() as patch:
        patch.setitem(table.dialect_options["sqlite"]._non_defaults, "autoincrement", False)
        table.create(engine)
    write(outbox, 1, 2)
    push = SyncOf.push

    def overtaken(self: SyncOf, jobs: Any, destination: str | None) -> None:
        monkeypatch.setattr(SyncOf, "push", push)
        expire(engine)
        Relay(outbox).run_once()
        write(outbox, 3, 4)
        if refuses:
            raise RefusedError(
                422, {**INVALID, "errors": [{"loc": ["jobs", n], "msg": "no"} for n in (0, 1)]}
            )
        push(self, jobs, destination)

    monkeypatch.setattr(SyncOf, "push", overtaken)
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == ([1, 2], 2)
    expire(engine)
    Relay(outbox).run_once()
    assert (pushed(master), outbox.stats().stuck, rows_of(engine)) == ([1, 2, 3, 4], 0, 0)


def test_new_tables_use_no_number_again(outbox: SqlAlchemyOutbox, engine: sa.Engine) -> None:
    def last() -> int:
        with engine.connect() as connection:
            return connection.execute(sa.select(sa.func.max(table.c.seq))).scalar_one()

    write(outbox, 1)
    before = last()
    Relay(outbox).run_once()
    write(outbox, 2)
    assert last() > before


def test_two_relays_share_the_transactions_and_keep_the_order_of_each(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    for first in range(0, 3_000, 600):
        write(outbox, *range(first, first + 600))
    relays = [Relay(outbox, poll_s=0.01) for _ in range(3)]
    threads = [threading.Thread(target=relay.run) for relay in relays]
    for thread in threads:
        thread.start()
    while rows_of(engine):
        threading.Event().wait(0.02)
    for relay in relays:
        relay.stop()
    for thread in threads:
        thread.join()
    assert sum(master.chunks) == 3_000
    came = pushed(master)
    for first in range(0, 3_000, 600):
        assert [one for one in came if first <= one < first + 600] == list(range(first, first + 600))


def test_relays_and_writers_do_not_wait_for_each_other(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    write(outbox, 1)
    others = sa.create_engine(engine.url)
    with Session(others) as session, outbox.transaction(session):
        outbox.add(session, ("n", 2))
        # An uncommitted row does not delay it.
        Relay(outbox).run_once()
        assert pushed(master) == [1]
    write(outbox, 3)
    with others.begin() as claiming:
        # An uncommitted claim of another relay does not, either.
        assert len(SqlRows(claiming, table).claim("other", 30_000, 1_000)) == 2
        write(outbox, 4)
        Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == ([1, 4], 2)
    others.dispose()


def test_a_leased_transaction_is_left_alone_until_its_lease_is_over(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    write(outbox, 1)
    write(outbox, 2)
    with engine.begin() as connection:
        first = connection.execute(sa.select(sa.func.min(table.c.seq))).scalar_one()
        connection.execute(
            sa.update(table).where(table.c.seq == first).values(token="other", lease_until_ms=2**53)
        )
    Relay(outbox).run_once()
    assert pushed(master) == [2]
    expire(engine)
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == ([2, 1], 0)


def test_a_wrong_clock_of_the_relay_changes_nothing(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(outbox, 1)
    with engine.begin() as connection:
        now_ms = connection.execute(sa.select(table.c.created_ms)).scalar_one()
        connection.execute(sa.update(table).values(lease_until_ms=now_ms + 60_000))
    monkeypatch.setattr("time.time", lambda: 1e11)
    assert Relay(outbox).run_once() is None
    assert outbox.stats().lag_s < 60


def test_a_refused_job_is_set_aside_and_told_and_the_others_go_on(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    write(outbox, 1, 2)
    write(outbox, 3)
    problem = {**INVALID, "errors": [{"loc": ["jobs", 1, "argument"], "msg": "not a map"}]}
    master.script("bulk", 422, problem)
    done = Relay(outbox).run_once()
    assert done is not None
    assert (done.pushed, done.set_aside, pushed(master)) == (2, 1, [1, 3])
    assert "is set aside" in caplog.text
    ((job_id, error),) = outbox.stuck()
    assert error == "422 invalid: argument: not a map"
    assert outbox.stats() == OutboxStats(waiting=0, lag_s=0.0, stuck=1, newer=0)
    assert Relay(outbox).run_once() is None
    assert outbox.retry_stuck() == 1
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == ([1, 3, 2], 0)
    assert job_id in master.jobs


def test_a_refusal_that_names_no_job_is_narrowed_down(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    write(outbox, *range(8))

    def refuse(body: Any) -> Any:
        if any(job["argument"] == 5 for job in body["jobs"]):
            return 413, {"status": 413, "code": "body_too_large", "detail": "too large", "errors": []}, {}
        return None

    master.hooks["bulk"] = refuse
    Relay(outbox).run_once()
    assert pushed(master) == [0, 1, 2, 3, 4, 6, 7]
    assert outbox.stats().stuck == 1


def test_a_job_whose_uniqueness_key_is_held_is_done_with(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    write(outbox, 1, 2)
    problem = {
        "status": 409, "code": "not_unique", "detail": "held", "job_id": "x",
        "errors": [{"loc": ["jobs", 0, "unique"], "msg": "job x holds the key"}],
    }  # fmt: skip
    master.script("bulk", 409, problem)
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine), outbox.stats().stuck) == ([2], 0, 0)


def test_a_full_backlog_holds_up_its_own_transactions_alone(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    write(outbox, 1, 2)
    write(outbox, 13, 14)
    write(outbox, 3)

    def refuse(body: Any) -> Any:
        if any(job["argument"] == 14 for job in body["jobs"]):
            problem = {"status": 429, "code": "backlog_full", "detail": "full", "errors": []}
            return 429, problem, {"Retry-After": "5"}
        return None

    master.hooks["bulk"] = refuse
    done = Relay(outbox).run_once()
    assert done is not None
    assert (done.pushed, done.put_off, pushed(master)) == (3, 1, [1, 2, 3])
    assert Relay(outbox).run_once() is None
    del master.hooks["bulk"]
    expire(engine)
    Relay(outbox).run_once()
    assert (pushed(master)[3:], rows_of(engine)) == ([13, 14], 0)


def test_a_wrong_token_sets_nothing_aside(engine: sa.Engine, master: FakeMaster) -> None:
    outbox = SqlAlchemyOutbox(engine, table=table, master=master.url, token="wrong", is_direct=False)
    write(outbox, 1)
    done = Relay(outbox).run_once()
    assert done is not None
    assert "401" in str(done.failure)
    assert (outbox.stats().waiting, outbox.stats().stuck) == (1, 0)
    master.faults.clear()


def test_rows_of_a_newer_release_are_left_alone_and_told(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    write(outbox, 1)
    with engine.begin() as connection:
        connection.execute(sa.update(table).values(format=99))
    write(outbox, 2)
    seen: list[OutboxStats] = []

    def note(stats: OutboxStats) -> None:
        seen.append(stats)
        relay.stop()

    relay = Relay(outbox, poll_s=0.01, on_stats=note)
    relay.run()
    assert (pushed(master), seen[0].newer, seen[0].waiting) == ([2], 1, 0)
    assert "a newer release wrote" in caplog.text


def test_an_outage_of_an_hour_is_outlived_in_order(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    with gone(master):
        for number in range(20):
            write(outbox, number)
        done = Relay(outbox).run_once()
        assert done is not None
        assert done.failure is not None
        with engine.begin() as connection:
            hour_ago_ms = {name: table.c[name] - 3_600_000 for name in ("created_ms", "lease_until_ms")}
            connection.execute(sa.update(table).values(**hour_ago_ms))
        assert outbox.stats().waiting == 20
        assert 3_600 <= outbox.stats().lag_s < 3_700
        relay = Relay(outbox, poll_s=0.01, on_stats=lambda _: relay.stop())
        relay.run()
        assert "for 36" in caplog.text
    Relay(outbox).run_once()
    assert (pushed(master), rows_of(engine)) == (list(range(20)), 0)
    # The keys that prevent second jobs on a repeat are as old as the push.
    assert {job["key_ttl"] for job in master.jobs.values()} == {86_400}


async def test_a_worker_relays_while_it_runs(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    worker = Worker(middleware=[OutboxRelay(outbox, poll_s=0.02)])

    @worker.handler("noop")
    def noop(argument: Any) -> None: ...

    write(outbox, 1)
    async with WorkerHarness(worker):
        await wait_until(lambda: rows_of(engine) == 0)
    assert pushed(master) == [1]
    write(outbox, 2)
    assert rows_of(engine) == 1


def test_the_job_of_a_row_is_what_was_enqueued(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    job = make_job("n", {"b": b"\x00", "list": [1, None, 2.5]}, tags=["t"], priority=-3)
    with Session(engine) as session, outbox.transaction(session):
        outbox.add(session, job)
    Relay(outbox).run_once()
    sent = master.jobs[job["id"]]
    assert {key: sent[key] for key in job} == job
