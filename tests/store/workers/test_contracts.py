"""tell_contracts.lua: which names were served, and what workers reported about them."""

import pytest

from jqmaster.domain.workers.contract import Contract
from jqmaster.store.workers import contracts
from jqmaster.store.workers.contracts import LIFE_MS, ContractStore
from tests.support.store import StoreWorld

FIRST = Contract("1", {"type": "object"}, {})
SECOND = Contract("2", None, {"timeout": 5})


@pytest.mark.req("J18")
async def test_contracts_are_told_by_name_and_the_latest_comes_first(world: StoreWorld) -> None:
    store = ContractStore(world.shard)
    assert await store.of("work") == ([], False)
    await store.declare(["work", "plain"], {"work": FIRST})
    began_ms = world.now_ms
    world.pass_ms(5)
    await store.declare(["work"], {"work": SECOND})
    told, is_served = await store.of("work")
    assert is_served
    assert [(one.contract, one.reported_at_ms, one.digest) for one in told] == [
        (SECOND, began_ms + 5, SECOND.digest), (FIRST, began_ms, FIRST.digest),
    ]  # fmt: skip
    assert await store.of("plain") == ([], True)
    world.pass_ms(5)
    await store.declare(["work"], {"work": FIRST})
    assert [one.contract for one in (await store.of("work"))[0]] == [FIRST, SECOND]
    assert 0 < await world.redis.pttl(world.shard.keys.contracts("work")) <= LIFE_MS


@pytest.mark.req("J18")
async def test_names_and_contracts_are_bounded(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "MAX_NAMES", 3)
    monkeypatch.setattr(contracts, "MAX_CONTRACTS", 2)
    store = ContractStore(world.shard)
    for n in range(4):
        world.pass_ms(1)
        await store.declare([f"name-{n}", "work"], {"work": Contract(str(n), None, {})})
    assert [one.contract.version for one in (await store.of("work"))[0]] == ["3", "2"]
    assert [(await store.of(f"name-{n}"))[1] for n in range(4)] == [False, False, True, True]
    # These are more names than one call takes.
    await store.declare([f"many-{n}" for n in range(250)], {})
    assert await world.redis.zcard(world.shard.keys.served_names) == 3


@pytest.mark.req("J18")
async def test_names_that_were_never_served_are_told_unless_some_are_forgotten(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ContractStore(world.shard)
    assert await store.unserved(["work", "wrok"]) == ["work", "wrok"]
    await store.declare(["work"], {})
    assert await store.unserved(["work", "wrok"]) == ["wrok"]
    # These are more names than one read takes.
    many = [f"many-{n}" for n in range(2_500)]
    assert await store.unserved([*many, "work"]) == many
    assert await store.unserved([]) == []
    monkeypatch.setattr(contracts, "MAX_NAMES", 2)
    await store.declare(["second"], {})
    assert await store.unserved(["wrok"]) == []


async def test_a_contract_that_cannot_be_read_is_left_out(world: StoreWorld) -> None:
    store = ContractStore(world.shard)
    await store.declare(["work"], {"work": FIRST})
    key = world.shard.keys.contracts("work")
    for n, garbage in enumerate((b"", b"12345678{", b"12345678{}", b"12345678[]")):
        await world.redis.hset(key, f"bad-{n}", garbage)
    assert [one.contract for one in (await store.of("work"))[0]] == [FIRST]


def test_equal_contracts_have_equal_digests() -> None:
    one = Contract("1", {"type": "object", "title": "é"}, {"a": 1, "b": 2})
    same = Contract("1", {"title": "é", "type": "object"}, {"b": 2, "a": 1})
    assert one.digest == same.digest != SECOND.digest
    assert Contract.of_text(one.text()) == same


@pytest.mark.req("J18")
async def test_removing_the_contracts_of_a_name_leaves_what_else_is_known(world: StoreWorld) -> None:
    store = ContractStore(world.shard)
    await store.declare(["work", "plain"], {"work": FIRST, "plain": SECOND})
    assert await store.remove("work", b"entry")
    assert await store.of("work") == ([], True)
    assert len((await store.of("plain"))[0]) == 1
    assert await world.redis.xlen(world.shard.keys.audit) == 1
    async with world.unchanged():
        assert not await store.remove("work", b"entry")
