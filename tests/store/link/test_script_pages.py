"""One call runs a script for a page of shards, and each of them gets an answer of its own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.domain.operations.tally import NameCounts
from jqmaster.errors import (
    DamagedError,
    OutcomeUnknownError,
    StaleEpochError,
    StoreRefusedError,
    StoreUnavailableError,
)
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore, Renewed
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link import script_pages, scripts
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.pool import PackedCommands, StorePool
from jqmaster.store.link.script_modules import ScriptHeaderError
from jqmaster.store.link.script_pages import in_pages, page_call
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.operations.looks import LookStore
from tests.support.admin import admin_of
from tests.support.server import StoreServer

pytestmark = pytest.mark.req("D29", "S6")

ME = MasterRecord("m1", "node", 1, "http://m1", "0", 0)
SHARDS = 5


class Pages:
    """Shards that one client serves. `commands`: how many commands each round trip had."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.tag = f"paged-{new_id()}"
        self.shards = [Shard(client, Keys(f"{self.tag}-{number}")) for number in range(SHARDS)]
        self.commands: list[int] = []

    def beats(self) -> list[ScriptCall]:
        stores = [MasterStore(shard) for shard in self.shards]
        return [store.heartbeat(f"m{number}", store.encoded(ME)) for number, store in enumerate(stores)]

    async def renewals(self) -> list[ScriptCall]:
        """Return the calls that renew a lock in each shard, which is held."""
        calls = []
        for shard in self.shards:
            store, lead = LeadershipStore(shard), Leadership("9:n", "m1")
            await admin_of(self.client).set(shard.keys.leader, lead.holder)
            calls.append(store.renewal(lead, ttl_ms=90_000))
        return calls

    async def masters(self) -> list[list[str]]:
        """Return the IDs of the masters in each shard."""
        looks = [await MasterStore(shard).look() for shard in self.shards]
        return [[one.record.id for one in look.seen] for look in looks]


@pytest.fixture
async def pages(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pages]:
    client = StoreClient(lone_server.url)
    one = Pages(client)
    exchange = StorePool.exchange

    async def counting(self: StorePool, connection: Any, commands: Any, *, writes: bool) -> list[Any]:
        one.commands.append(len(commands))
        return await exchange(self, connection, commands, writes=writes)

    monkeypatch.setattr(StorePool, "exchange", counting)
    yield one
    redis = admin_of(client)
    for key in [key async for key in redis.scan_iter("*paged*")]:
        await redis.delete(key)
    await client.close()


async def test_each_shard_is_written_with_its_own_keys_and_arguments(pages: Pages) -> None:
    await pages.client.run_shards(pages.beats())
    # The first call has loaded the script.
    pages.commands.clear()
    before = pages.client.script_calls["beat_master"]
    replies = await pages.client.run_shards(pages.beats())
    assert pages.commands == [1]
    assert pages.client.script_calls["beat_master"] == before + SHARDS
    assert all(not isinstance(reply, Exception) and reply[0] == "ok" for reply in replies)
    assert await pages.masters() == [[f"m{number}"] for number in range(SHARDS)]


async def test_joined_calls_that_are_made_again_are_packed_once(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[int] = []
    pack = PackedCommands.__init__

    def counting(self: PackedCommands, commands: Any) -> None:
        pack(self, commands)
        packed.append(len(self))

    monkeypatch.setattr(PackedCommands, "__init__", counting)
    renewals = await pages.renewals()
    for _ in range(3):
        assert await pages.client.run_joined(list(renewals)) == [(slice(SHARDS), [[Renewed.OK] * SHARDS])]
        # The script is gone.
        await admin_of(pages.client).script_flush()
    assert packed == [1]
    # Another call takes the place of one.
    await admin_of(pages.client).set(pages.shards[4].keys.leader, "9:other:m2")
    renewals[4] = LeadershipStore(pages.shards[4]).renewal(Leadership("9:other", "m2"), ttl_ms=90_000)
    renewals[0] = replace(renewals[0])
    assert await pages.client.run_joined(renewals) == [(slice(SHARDS), [[Renewed.OK] * SHARDS])]
    assert packed == [1, 1]


async def test_a_call_of_one_shard_among_joined_calls_that_changed_is_not_mistaken(pages: Pages) -> None:
    renewals = await pages.renewals()
    await pages.client.run_joined(renewals)
    stranger = LeadershipStore(pages.shards[4]).renewal(Leadership("9:other", "m1"), ttl_ms=90_000)
    ((_, data),) = await pages.client.run_joined([*renewals[:4], stranger])
    assert data == [[Renewed.OK] * 4 + [Renewed.LOST]]


async def test_only_so_many_joined_calls_are_kept(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_pages, "MAX_JOINED", 3)
    joined = script_pages.JoinedCalls()
    all_calls = [[replace(call) for call in await pages.renewals()] for _ in range(4)]
    first = joined.of(all_calls[0])
    assert joined.of(all_calls[0]) is first
    for calls in all_calls[1:]:
        joined.of(calls)
    assert joined.of(all_calls[0]) is not first, "it was forgotten"


async def test_a_joined_call_that_is_refused_for_one_shard_is_made_for_each(
    pages: Pages, lone_server: StoreServer
) -> None:
    """As by an access list that lacks the keys of one namespace."""
    redis, renewals = admin_of(pages.client), await pages.renewals()
    allowed = [f"%RW~{{{pages.tag}-{number}}}:*" for number in range(SHARDS) if number != 2]
    await redis.execute_command("ACL", "SETUSER", "some", "on", ">secret", "+@all", *allowed)
    some = StoreClient(f"unix://some:secret@{lone_server.socket}")
    try:
        answers = await some.run_joined(renewals)
        assert [part for part, _ in answers] == [slice(n, n + 1) for n in range(SHARDS)]
        assert [data for _, data in answers if isinstance(data, list)] == [[[Renewed.OK]]] * (SHARDS - 1)
        assert isinstance(answers[2][1], StoreRefusedError)
    finally:
        await some.close()
        await redis.execute_command("ACL", "DELUSER", "some")


async def test_joined_calls_are_unconfirmed_together_if_too_few_replicas_have_them(pages: Pages) -> None:
    renewals = await pages.renewals()
    pages.client.quorum_replicas, pages.client._timeout_s = 1, 0.1
    ((part, error),) = await pages.client.run_joined(renewals)
    assert (part, type(error)) == (slice(SHARDS), OutcomeUnknownError)


async def test_a_page_has_one_time_and_a_shard_with_a_time_of_its_own_keeps_it(pages: Pages) -> None:
    calls = pages.beats()
    calls[3] = replace(calls[3], args=(1_700_000_000_000, *calls[3].args[1:]))
    times = [data[1] for _, data in await pages.client.run_shards(calls)]
    assert times[3] == 1_700_000_000_000
    seconds, _ = await pages.client.command("TIME")
    assert len({*times[:3], *times[4:]}) == 1
    assert times[0] == pytest.approx(1000 * int(seconds), abs=60_000)


async def test_an_error_concerns_one_shard_and_the_others_are_written(pages: Pages) -> None:
    await admin_of(pages.client).set(pages.shards[2].keys.masters, "damaged")
    replies = await pages.client.run_shards(pages.beats())
    assert [type(reply) for reply in replies] == [tuple, tuple, DamagedError, tuple, tuple]
    await admin_of(pages.client).delete(pages.shards[2].keys.masters)
    assert [bool(found) for found in await pages.masters()] == [True, True, False, True, True]


async def test_each_leader_is_fenced_by_its_own_epoch(pages: Pages) -> None:
    leads = [await LeadershipStore(shard).elect("m1", "n", ttl_ms=60_000) for shard in pages.shards]
    epochs = [lead.epoch for lead in leads if lead]
    epochs[3] = "1:other"
    looks = [LookStore(shard).call(epoch) for shard, epoch in zip(pages.shards, epochs, strict=True)]
    replies = await pages.client.run_shards(looks)
    assert [type(reply) for reply in replies] == [tuple, tuple, tuple, StaleEpochError, tuple]
    await admin_of(pages.client).set(pages.shards[1].keys.leader, "9:other:m2")
    renewals = [
        LeadershipStore(shard).renewal(lead, ttl_ms=90_000)
        for shard, lead in zip(pages.shards, leads, strict=True)
        if lead
    ]
    ((_, data),) = await pages.client.run_joined(renewals)
    assert data == [[Renewed.OK, Renewed.LOST, Renewed.OK, Renewed.OK, Renewed.OK]]
    lives_ms = [await admin_of(pages.client).pttl(shard.keys.leader) for shard in pages.shards]
    assert [ms > 60_000 for ms in lives_ms] == [True, False, True, True, True]


async def test_a_page_that_is_refused_for_one_shard_goes_on_for_the_others(
    pages: Pages, lone_server: StoreServer
) -> None:
    """As by an access list that lacks the keys of one namespace."""
    redis = admin_of(pages.client)
    allowed = [f"%RW~{{{pages.tag}-{number}}}:*" for number in range(SHARDS) if number != 2]
    await redis.execute_command("ACL", "SETUSER", "some", "on", ">secret", "+@all", *allowed)
    some = StoreClient(f"unix://some:secret@{lone_server.socket}")
    try:
        replies = await some.run_shards(pages.beats())
        assert [type(reply) for reply in replies] == [tuple, tuple, StoreRefusedError, tuple, tuple]
        assert "NOPERM" in str(replies[2])
    finally:
        await some.close()
        await redis.execute_command("ACL", "DELUSER", "some")


async def test_calls_that_were_done_are_told_so_if_a_later_round_trip_fails(
    pages: Pages, lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second page is refused as a whole, and the store is away when its calls are sent one by one."""
    redis = admin_of(pages.client)
    leads = [await LeadershipStore(shard).elect("m1", "n", ttl_ms=60_000) for shard in pages.shards]
    looks = [
        LookStore(shard).call(lead.epoch) for shard, lead in zip(pages.shards, leads, strict=True) if lead
    ]
    allowed = [f"%RW~{{{pages.tag}-{number}}}:*" for number in range(SHARDS) if number != 2]
    await redis.execute_command("ACL", "SETUSER", "some", "on", ">secret", "+@all", *allowed)
    some = StoreClient(f"unix://some:secret@{lone_server.socket}")
    try:
        calls = [*pages.beats()[3:], *looks]
        await some.run_shards(calls)
        ask, trips = some._pool.ask, 0

        async def away(commands: Any, *, writes: bool) -> list[Any]:
            nonlocal trips
            trips += 1
            if trips > 1:
                raise StoreUnavailableError("the store is away")
            return await ask(commands, writes=writes)

        monkeypatch.setattr(some._pool, "ask", away)
        replies = await some.run_shards(calls)
        assert [type(reply) for reply in replies] == [tuple, tuple, *[StoreUnavailableError] * SHARDS]
        assert await pages.masters() == [[], [], [], ["m3"], ["m4"]]
    finally:
        await some.close()
        await redis.execute_command("ACL", "DELUSER", "some")


async def test_calls_that_were_done_are_told_so_if_other_scripts_cannot_be_loaded(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, look = pages.beats()[0], LookStore(pages.shards[0]).call("1:n")
    await pages.client.run_shards([beat])
    missing = replace(look, script=replace(look.script, sha="0" * 40))
    ask = pages.client._pool.ask

    async def away(commands: Any, *, writes: bool) -> list[Any]:
        if commands[0][0] == "EVAL":
            raise StoreUnavailableError("the store is away")
        return await ask(commands, writes=writes)

    with monkeypatch.context() as patch:
        patch.setattr(pages.client._pool, "ask", away)
        for run in (pages.client.run_shards, pages.client.run_each):
            done, failed = await run([beat, missing])
            assert (type(done), type(failed)) == (tuple, StoreUnavailableError)
        with pytest.raises(OutcomeUnknownError):
            await pages.client.run_all([beat, missing])
        with pytest.raises(StoreUnavailableError):
            await pages.client.run_each([missing])
    # If too few replicas confirm, only what was written is unknown.
    pages.client.quorum_replicas, pages.client._timeout_s = 1, 0.1
    written, read = await pages.client.run_each([beat, look])
    assert (type(written), type(read)) == (OutcomeUnknownError, StaleEpochError)
    with pytest.raises(OutcomeUnknownError):
        await pages.client.run_all([beat])


async def test_a_write_and_its_claims_fail_together_if_a_script_cannot_be_loaded(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, look = pages.beats()[0], LookStore(pages.shards[0]).call("1:n")
    await pages.client.run_shards([beat, look])
    told: list[str] = []
    missing = replace(look, script=replace(look.script, sha="0" * 40))
    travelling = TravellingClaim(
        [look],
        lambda _: told.append("replies"),
        lambda: told.append("failure"),
        on_overtaken=lambda: told.append("late"),
    )
    # The claim ran before the call in front of it, whose script had to be loaded.
    with pytest.raises(StaleEpochError):
        await pages.client.run_all([beat, missing], claim=travelling)
    assert told == ["replies", "late"]
    ask = pages.client._pool.ask

    async def away(commands: Any, *, writes: bool) -> list[Any]:
        if commands[0][0] == "EVAL":
            raise StoreUnavailableError("the store is away")
        return await ask(commands, writes=writes)

    monkeypatch.setattr(pages.client._pool, "ask", away)
    for calls, error in (([beat], OutcomeUnknownError), ([look], StoreUnavailableError)):
        told.clear()
        with pytest.raises(error):
            await pages.client.run_all(calls, claim=replace(travelling, calls=[missing]))
        assert told == ["failure"]


async def test_calls_of_different_scripts_keep_their_order(pages: Pages) -> None:
    looks = [LookStore(shard).call("1:n") for shard in pages.shards]
    beats = pages.beats()
    calls = [beats[0], beats[1], looks[0], beats[2], looks[1], looks[2]]
    assert [[call.script.name for call in page] for page in in_pages(calls)] == [
        ["beat_master", "beat_master"],
        ["look_at_shard"],
        ["beat_master"],
        ["look_at_shard", "look_at_shard"],
    ]
    replies = await pages.client.run_shards(calls)
    assert [type(reply) for reply in replies] == [
        tuple,
        tuple,
        StaleEpochError,
        tuple,
        StaleEpochError,
        StaleEpochError,
    ]


async def test_a_script_that_takes_groups_of_arguments_runs_in_a_page(pages: Pages) -> None:
    """The history of each shard gets the counts of some names."""
    counts = [("mail", NameCounts(pushed=2)), ("shop", NameCounts(pushed=3))]
    stores = [HistoryStore(shard, master_id="m1") for shard in pages.shards]
    pages.client.together.shards = SHARDS
    assert await asyncio.gather(*(store.add_counts(1, counts) for store in stores)) == [True] * SHARDS
    assert pages.commands[0] == 1
    assert await asyncio.gather(*(store.add_counts(1, counts) for store in stores)) == [False] * SHARDS
    call = replace(pages.beats()[0], keys=["one"])
    with pytest.raises(ScriptHeaderError):
        await pages.client.run_shards([call, call])


async def test_the_store_accepts_each_script_for_a_page(pages: Pages) -> None:
    redis = admin_of(pages.client)
    for name in scripts.names():
        script = scripts.load(name)
        call = ScriptCall(script, [""] * len(script.keys), [""] * len(script.args))
        text = page_call([call, call]).script.text(is_guarded=False)
        assert await redis.script_load(text) == page_call([call, call]).script.sha, name
