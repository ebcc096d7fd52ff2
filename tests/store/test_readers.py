"""Readers that run no script, on a store in this process: quick tests with damaged, missing and empty keys."""

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import CONTINUED, Cause, JobSpec, JobState
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.jobs.records import HEAD_READ, RecordStore
from jqmaster.store.link.pages import RECORDS_PER_READ
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.operations.settings import SettingsStore
from tests.store.test_codec import record_of
from tests.support.fake_store import FakeStoreClient, fake_shard

HEAD = (1, 0, 0, 0, 1_000, 0, 0, 0, 0, b"", b"")


def spec(argument: object = None, **fields: object) -> JobSpec:
    return JobSpec(id=new_id(), name="mail.send", argument=msgpack.packb(argument), **fields)  # type: ignore[arg-type]


async def put(client: FakeStoreClient, job: JobSpec, state: JobState = JobState.READY) -> str:
    await client.write("SET", f"{{jq}}:job:{job.id}", record_of(job, HEAD, state, Cause.NONE))
    return job.id


@pytest.mark.req("M2")
@pytest.mark.parametrize("state", JobState)
async def test_a_record_is_read_in_each_state(state: JobState) -> None:
    client, shard = fake_shard()
    pushed = spec({"to": "ada"}, priority=-3, max_retry=7, tags=("a", "ü"), headers={"k": "v"})
    job = await RecordStore(shard).get(await put(client, pushed, state))
    assert job is not None
    assert (job.state, job.name, job.priority, job.max_retry) == (state, "mail.send", -3, 7)
    assert (job.tags, job.headers, job.argument) == (pushed.tags, pushed.headers, pushed.argument)


async def test_a_job_that_is_not_there_is_none() -> None:
    _, shard = fake_shard()
    records = RecordStore(shard)
    assert await records.get(new_id()) is None
    assert await records.get_all([new_id()]) == {}
    assert await records.history(new_id()) == []
    assert await records.last_ends([new_id()]) == [None]


@pytest.mark.parametrize("record", [b"\xff", b"", bytes(200), b"\x03"])
async def test_a_record_that_cannot_be_read_hides_no_other(record: bytes) -> None:
    client, shard = fake_shard()
    good, bad = await put(client, spec(1)), new_id()
    await client.write("SET", shard.keys.job(bad), record)
    records = RecordStore(shard)
    assert list(await records.get_all([bad, good])) == [good]
    assert list(await records.get_without_argument([bad, good])) == [good]


async def test_a_key_of_a_wrong_type_hides_no_other_job_and_is_told_to_who_asks_for_it() -> None:
    client, shard = fake_shard()
    good, bad = await put(client, spec(1)), new_id()
    await client.write("LPUSH", shard.keys.job(bad), "x")
    records = RecordStore(shard)
    assert list(await records.get_all([bad, good])) == [good]
    with pytest.raises(DamagedError):
        await records.get(bad)


async def test_more_jobs_than_one_read_takes_come_in_order() -> None:
    client, shard = fake_shard()
    ids = [await put(client, spec(n)) for n in range(RECORDS_PER_READ + 3)]
    assert list(await RecordStore(shard).get_all(ids)) == ids


async def test_headers_that_reach_behind_the_first_read_are_read_whole() -> None:
    client, shard = fake_shard()
    headers = {f"header-{n}": "x" * 100 for n in range(30)}
    job_id = await put(client, spec("y" * 5_000, headers=headers))
    found = await RecordStore(shard).get_without_argument([job_id])
    assert found[job_id].headers == headers
    assert len(found[job_id].argument) < 5_000
    assert len(codec.encode_new(spec("y" * 5_000, headers=headers))[2]) > HEAD_READ


async def test_counts_of_an_empty_store_are_zero_for_each_state() -> None:
    _, shard = fake_shard()
    inspector = Inspector(shard, RecordStore(shard))
    assert await inspector.counts() == dict.fromkeys(JobState, 0)
    assert await inspector.load() == (0, 0)
    assert await inspector.ready_counts(["mail.send"]) == {"mail.send": 0}
    assert await inspector.ready_counts([]) == {}


async def test_counts_are_those_of_the_indexes_and_of_the_names_that_are_ready() -> None:
    client, shard = fake_shard()
    keys = shard.keys
    await client.write("ZADD", keys.index(JobState.SCHEDULED), 5, "a", 6, "b")
    await client.write("ZADD", keys.index(JobState.RUNNING), 5, "c")
    await client.write("ZADD", keys.index(JobState.FAILED), 100, "d", 200, "e")
    await client.write("HSET", keys.ready_counts, "mail.send", 4, "report", 3)
    inspector = Inspector(shard, RecordStore(shard))
    counts = await inspector.counts()
    expected = {JobState.SCHEDULED: 2, JobState.RUNNING: 1, JobState.FAILED: 2, JobState.READY: 7}
    assert {state: count for state, count in counts.items() if count} == expected
    assert await inspector.load() == (7, 1)
    assert await inspector.ended_since(150) == 1
    assert await inspector.names_ready(10) == {"mail.send": 4, "report": 3}


async def test_settings_and_history_of_an_empty_store_are_empty() -> None:
    _, shard = fake_shard()
    assert await SettingsStore(shard).versions() == (0, 0, 0)
    assert (await SettingsStore(shard).load()).values == {}
    history = HistoryStore(shard, master_id=new_id())
    assert await history.backlog() is None
    assert await history.names() == {}
    assert await history.failure_groups() == []


async def test_a_note_within_an_attempt_is_no_end_of_one() -> None:
    client, shard = fake_shard()
    records = RecordStore(shard)
    job = await records.get(await put(client, spec()))
    assert job is not None
    end = bytes(8) + codec.encode_attempt(job, "failure", "broken", None)
    note = bytes(8) + codec.encode_attempt(job, CONTINUED, "", None)
    await client.write("RPUSH", shard.keys.history(job.id), end, note, b"\xc1")
    assert await records.last_ends([job.id]) == [codec.decode_attempt(end)]
