"""Processes are killed between BEGIN and the acknowledged push: the pushed jobs match the committed transactions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.outbox.conftest import expire
from tests.sdk.outbox.kills import jobs_of, kills
from tests.sdk.outbox.test_relay import crash_after_the_push
from tests.support import long, real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from worker_sdk.outbox import Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

pytestmark = [pytest.mark.req("S11"), real_time.PROCESSES, pytest.mark.system]

KILLS = long.size(12, 30)


@pytest.fixture
async def real(store_server: StoreServer) -> AsyncIterator[tuple[str, Api]]:
    """Yield a real master's address and a client."""
    async with master_on(store_server.url) as (master, api):
        yield master.server.url, api


@pytest.mark.sized
@pytest.mark.parametrize("driver", ["sqlite", "postgresql+psycopg", "mysql+pymysql"])
async def test_no_kill_loses_or_doubles_a_job(
    driver: str, address: Callable[[str], str], real: tuple[str, Api]
) -> None:
    url, api = real
    wanted, killed = await kills(url, address(driver), count=KILLS, seed=20)
    assert wanted
    assert killed.total() == KILLS
    assert sorted(await jobs_of(api)) == sorted(wanted)


async def test_a_repeat_makes_no_second_job_even_when_the_first_is_gone(
    engine: sa.Engine, real: tuple[str, Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, api = real
    outbox = SqlAlchemyOutbox(engine, master=url, is_direct=False)

    def write() -> list[str]:
        with Session(engine) as session, outbox.transaction(session):
            return outbox.add(session, ("n", 1))

    def repeat() -> Any:
        expire(engine)
        Relay(outbox).run_once()
        return outbox.stats().waiting

    (job_id,) = await asyncio.to_thread(write)
    await asyncio.to_thread(crash_after_the_push, outbox, monkeypatch)
    assert await jobs_of(api) == [job_id]
    assert (await api.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
    assert (await api.call("DELETE", f"/api/jobs/{job_id}"))[0] in (200, 204)
    assert await asyncio.to_thread(repeat) == 0
    assert await jobs_of(api) == []
    outbox.close()
