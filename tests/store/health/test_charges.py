"""Wrong charges are found and repaired."""

from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.ids import new_id
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.paths import parse_path
from jqmaster.store.health.repair import Repair
from jqmaster.store.link.client import StoreClient
from tests.support.constraints import ConstrainedWorld
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("D30")

TOKENS = Weight(parse_path("argument.tokens"), 1000, "tokens")


@pytest.mark.parametrize("key", [None, "argument.host"])
@pytest.mark.parametrize("harm", ["leaked", "missing", "sum", "window", "handed over"])
async def test_wrong_charges_are_put_right_and_what_waits_starts(
    world: StoreWorld, harm: str, key: str | None
) -> None:
    constraints = ConstrainedWorld(world)
    one = await constraints.limit(key=key, concurrency=10, rate=(100, 60_000), weight=TOKENS)
    jobs = await constraints.enqueue_many([{"tokens": 4, "host": "x"}] * 3)
    worker = await world.worker()
    running = await constraints.claim(worker)
    assert [job.job_id for job in running] == jobs[:2]
    k, redis = world.shard.keys, world.redis
    (gate,) = [name.decode() for name in await redis.hkeys(k.charge_sums)]
    assert gate.startswith(one.cid)
    assert (gate == gate_id(one.cid, None)) is (key is None)
    before = await world.contents()
    match harm:
        case "leaked":
            await redis.hset(k.charges(gate), jobs[2], b"t" * 16 + b"5000")
            await redis.hincrby(k.charge_sums, gate, 5000)
        case "missing":
            await redis.hdel(k.charges(gate), jobs[0])
        case "sum":
            await redis.hset(k.charge_sums, gate, 99_000)
        case "window":
            await redis.incrby(k.started(gate), 7)
        case _:
            await redis.hset(k.handed_over_charges, gate, 4000)
    (finding,) = await world.findings()
    assert (finding.rule, finding.key) == ("charge", k.charges(gate))
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    repaired = [found async for step in repair.steps() for found in step.repaired]
    assert [found.rule for found in repaired] == ["charge"]
    assert await world.findings() == []
    after = await world.contents()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    rows = {name.removeprefix(k.tag).split(":")[0] for name in changed}
    # The lane of the job that waits was opened, so that the next claim checks the gate again.
    assert rows <= {"audit", "closed", "waiters", "lane", "parked", "open", "open_groups"}
    assert await constraints.take(worker) == []


@pytest.mark.parametrize(("hosts", "count"), [(1, 2_500), (4, 900)])
async def test_many_charges_are_checked_and_repaired_in_pieces(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch, hosts: int, count: int
) -> None:
    constraints = ConstrainedWorld(world)
    one = await constraints.limit(key="argument.host", concurrency=10, weight=TOKENS)
    names = [f"h{n}" for n in range(hosts)]
    await constraints.enqueue_many([{"tokens": 4, "host": name} for name in names])
    worker = await world.worker()
    assert len(await constraints.claim(worker)) == hosts
    k, redis = world.shard.keys, world.redis
    for name in names:
        gate = gate_id(one.cid, key_value(name))
        await redis.hset(k.charges(gate), mapping={new_id(): b"t" * 16 + b"1000" for _ in range(count)})
        await redis.hincrby(k.charge_sums, gate, count * 1000)
    checked: list[int] = []
    run = StoreClient.run

    async def noted(self: StoreClient, script: str, keys: Any, args: Any) -> Any:
        answer = await run(self, script, keys, args)
        if script == "inspect_charges":
            checked.append(answer[1][0])
        return answer

    monkeypatch.setattr(StoreClient, "run", noted)
    findings = await world.findings()
    assert {finding.key for finding in findings} == {
        k.charges(gate_id(one.cid, key_value(name))) for name in names
    }
    assert sum(int(finding.detail.split()[0]) for finding in findings) == hosts * count
    assert len(checked) > 1
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    async for _ in repair.steps():
        pass
    assert await world.findings() == []
    sums = await redis.hgetall(k.charge_sums)
    assert set(sums.values()) == {b"4000"}
    assert len(sums) == hosts
