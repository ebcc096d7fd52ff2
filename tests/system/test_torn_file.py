"""A power cut in the middle of a write: the rest of the file holds every acknowledged write, and no partial ones."""

import contextlib
import random
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jqmaster.embedded import EmbeddedValkey
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.store import StoreWorld

pytestmark = [pytest.mark.system, real_time.PROCESSES]

# The number of random cuts, and of cuts just after the last acknowledged writes.
CUTS, LAST = 10, 2


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="jq-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextlib.asynccontextmanager
async def shard_on(data_dir: Path, keys: Keys) -> AsyncIterator[Shard]:
    """Use a master's own Valkey."""
    embedded = EmbeddedValkey(data_dir)
    await embedded.start()
    client = StoreClient(embedded.url, connections=2)
    # Its only user may do everything.
    vars(client)["admin"] = client.redis
    try:
        yield Shard(client, keys)
    finally:
        await client.close()
        await embedded.stop()


def file_of(data_dir: Path) -> Path:
    return data_dir / "appendonlydir" / "appendonly.aof.1.incr.aof"


@pytest.mark.req("M1")
async def test_a_file_cut_at_any_byte_has_all_that_was_acknowledged_before_and_no_half_of_what_followed(
    directory: Path,
) -> None:
    keys = Keys(f"t{uuid.uuid4().hex[:10]}")
    # (bytes in the file at acknowledgement, job, whether the job succeeded)
    acknowledged: list[tuple[int, str, bool]] = []
    async with shard_on(directory / "data", keys) as shard, StoreWorld.on(shard) as world:
        worker_id = await world.worker()

        def note(job_id: str, *, is_success: bool) -> None:
            size = file_of(directory / "data").stat().st_size
            acknowledged.append((size, job_id, is_success))

        for n in range(20):
            job_id = await world.enqueue(argument="x" * 200, keep_result=n % 2 == 0)
            note(job_id, is_success=False)
            (job,) = await world.claim(worker_id)
            assert await world.settlements.settle_success(worker_id, [(job_id, job.token, b"\xc0")]) == [True]
            note(job_id, is_success=True)

    whole = file_of(directory / "data").read_bytes()
    draw = random.Random(7)
    first, last = acknowledged[4][0], acknowledged[-1][0]
    cuts = [size for size, _, _ in acknowledged[-LAST:]]
    cuts += [draw.randrange(first, last) for _ in range(CUTS)]
    for cut in cuts:
        torn = directory / f"torn-{cut}"
        shutil.copytree(directory / "data", torn)
        file_of(torn).write_bytes(whole[:cut])
        await holds(torn, keys, [(job_id, end) for size, job_id, end in acknowledged if size <= cut])
        shutil.rmtree(torn)


async def holds(data_dir: Path, keys: Keys, acknowledged: list[tuple[str, bool]]) -> None:
    """Assert that the data loads, each acknowledged job and end exists, and all structures agree."""
    async with shard_on(data_dir, keys) as shard:
        world = StoreWorld(shard)
        for job_id, has_succeeded in acknowledged:
            state = await world.state(job_id)
            assert not has_succeeded or state == "succeeded", job_id
        await world.assert_sound()
