"""Rows of an outbox hold sealed jobs: the application's database does not show what masters may not see either."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import expire, gone, rows_of, table
from worker_sdk import Seal, Tasks
from worker_sdk.outbox import Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox
from worker_sdk.testing import WorkerHarness
from worker_sdk.wire import encode

pytestmark = pytest.mark.req("S7", "S14", "S11")

SECRET = "4111 1111 1111 1111"
PLAIN = SECRET.encode()
KEYS = {"2026b": Seal.new_key(), "2026a": Seal.new_key()}

tasks = Tasks(seal=Seal(keys=KEYS, clear=["tenant"]))


@tasks.task("card.charge", keep_result=True)
def charge(tenant: str, card: str) -> str:
    return f"{tenant} {card}"


def stored(engine: sa.Engine) -> list[bytes]:
    """Return all columns of each row, as one text."""
    with engine.connect() as connection:
        return [encode([str(one) if not isinstance(one, bytes) else one for one in row])
                for row in connection.execute(sa.select(table).order_by(table.c.seq))]  # fmt: skip


async def assert_all_open(master: FakeMaster, count: int) -> None:
    assert len(master.jobs) == count
    async with WorkerHarness(tasks) as harness:
        for job_id, job in master.jobs.items():
            argument = job["argument"]
            assert PLAIN not in encode(job)
            assert (argument["tenant"], argument["sealed_with"], job["tags"]) == (
                "acme",
                "2026b",
                ["sealed:2026b"],
            )
            ending = await harness.run("card.charge", argument, job_id=job_id)
            assert (ending.type, ending.result) == ("success", f"acme {SECRET}")


async def test_rows_hold_sealed_jobs_and_workers_open_what_was_pushed(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster
) -> None:
    with gone(master):
        with Session(engine) as session, outbox.transaction(session):
            charge.enqueue("acme", card=SECRET)
            charge.many([charge.to_job("acme", SECRET), {"tenant": "acme", "card": SECRET}])
            outbox.add(session, charge.to_job("acme", SECRET))
        rows = stored(engine)
        assert len(rows) == 4
        assert not any(PLAIN in row for row in rows)
        # Only the clear paths and the ID of the key are readable.
        assert all(b"acme" in row and b"2026b" in row for row in rows)
    expire(engine)
    while Relay(outbox).run_once() is not None:
        pass
    assert rows_of(engine) == 0
    await assert_all_open(master, 4)


async def test_a_repeat_after_a_crash_is_the_same_sealed_bytes(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gone(master), Session(engine) as session, outbox.transaction(session):
        charge.enqueue("acme", card=SECRET)
    expire(engine)

    def die(*_: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("worker_sdk.outbox.sqlalchemy_rows.SqlRows.remove", die)
        with pytest.raises(OSError, match="killed"):
            Relay(outbox).run_once()
    expire(engine)
    Relay(outbox).run_once()
    sent = [body for _, path, body in master.calls if path == "/api/jobs/bulk"]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    await assert_all_open(master, 1)


def test_a_refused_sealed_job_is_set_aside_without_its_argument_in_clear(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    with gone(master), Session(engine) as session, outbox.transaction(session):
        charge.enqueue("acme", card=SECRET)
    expire(engine)
    problem = {"title": "Invalid", "status": 422, "code": "invalid", "detail": "the request is not valid"}
    master.script("bulk", 422, {**problem, "errors": [{"loc": ["jobs", 0, "argument"], "msg": "is refused"}]})
    Relay(outbox).run_once()
    [row] = stored(engine)
    assert b"is refused" in row
    assert PLAIN not in row
    assert SECRET not in caplog.text
