"""A master whose disk fills up: accepted jobs are not lost or stored by half, and work resumes once there is room."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jqmaster.app import running_master
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import QUICK, Api, assert_sound
from tests.support.waiting import wait_until
from tests.system.test_embedded import fill, small_disk

pytestmark = real_time.PROCESSES


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="jq-", dir="/tmp")) / "data"
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.mark.req("M1")
@pytest.mark.timeout(120)
async def test_a_master_on_a_full_disk_refuses_loses_nothing_and_goes_on(data_dir: Path) -> None:
    with small_disk(data_dir):
        async with running_master(
            Settings(**{**QUICK, "data_dir": data_dir, "store_timeout_s": 1})
        ) as master:
            api = Api(master.server.url)
            try:
                await pushes_through_a_full_disk(api, data_dir)
                assert master.shard.services.store.embedded
                await assert_sound(master.shard.services.store.embedded.url, "jq")
            finally:
                await api.http.aclose()


async def pushes_through_a_full_disk(api: Api, data_dir: Path) -> None:
    accepted, unsure = [await api.enqueue("later", "x" * 1000, delay=3600) for _ in range(20)], []
    filler = data_dir / "filler"
    fill(filler)

    async def push() -> int:
        job_id = new_id()
        status, answer = await api.call(
            "POST", "/api/jobs", {"name": "later", "id": job_id, "argument": "x" * 100_000, "delay": 3600}
        )
        if status == 201:
            accepted.append(job_id)
        else:
            assert status == 503
            assert answer["code"] in ("outcome_unknown", "store_unavailable", "store_full", "store_unfit")
            unsure.append(job_id)
        return status

    async def is_refused() -> bool:
        return await push() == 503

    await wait_until(is_refused, timeout_s=20)
    assert set(await asyncio.gather(*(push() for _ in range(10)))) == {503}
    assert (await api.http.get("/readyz")).status_code == 503
    filler.unlink()

    async def is_ready() -> bool:
        return (await api.http.get("/readyz")).status_code == 200

    await wait_until(is_ready, timeout_s=40)
    for job_id in unsure:
        status, answer = await api.call(
            "POST", "/api/jobs", {"name": "later", "id": job_id, "argument": "x" * 100_000, "delay": 3600}
        )
        assert status in (200, 201), answer
    assert (await api.counts())["scheduled"] == len(accepted) + len(unsure)
    for job_id in accepted:
        assert await api.state(job_id) == "scheduled"
