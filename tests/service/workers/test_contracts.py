"""Checks that pushes match the contracts that workers reported for a name."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.workers.contract import Contract
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import InvalidError
from jqmaster.live_value import LiveValue
from jqmaster.service.workers import contracts
from jqmaster.service.workers.contracts import LIFE_S, LOG_EVERY_S, MIN_LIFE_S, ContractService
from jqmaster.service.workers.schema_judge import SchemaJudge
from jqmaster.service.workers.schemas import ArgumentSchema, BadSchemaError, as_json
from jqmaster.store.workers.contracts import ContractStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J18")

USER = {
    "type": "object", "properties": {"user_id": {"type": "integer"}, "mail": {"type": "string"}},
    "required": ["user_id"], "additionalProperties": False,
}  # fmt: skip


class HandClock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Fleet:
    """Workers that report contracts, and pushes that are checked against them."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = HandClock()
        self.service = ContractService(
            ContractStore(world.shard),
            world.workers,
            SchemaJudge(self.clock),
            self.clock,
            LiveValue(3_000),
        )

    async def worker(
        self, schema: Mapping[str, Any] | None, version: str = "1", *, tells: bool = True
    ) -> str:
        contracts = {"work": Contract(version, schema, {})} if tells else {}
        await self.service.declare(["work"], contracts)
        worker_id = new_id()
        digests = {name: contract.digest for name, contract in contracts.items()}
        spec = WorkerSpec(None, ("work",), 5, "node", 1, {}, f"app-{version}", "s" * 32, contracts=digests)
        await self.world.workers.register(worker_id, spec)
        return worker_id

    def spec(self, argument: Any, name: str = "work") -> JobSpec:
        return replace(self.world.spec(name), argument=msgpack.packb(argument, datetime=True))

    async def refused(self, *arguments: Any, name: str = "work") -> InvalidError | None:
        specs = [self.spec(argument, name) for argument in arguments]
        try:
            await self.service.check(specs, is_bulk=len(specs) > 1, refuses=True)
        except InvalidError as exc:
            return exc
        return None


@pytest.fixture
def fleet(world: StoreWorld) -> Fleet:
    return Fleet(world)


async def test_an_argument_that_does_not_fit_is_named_by_its_path(fleet: Fleet) -> None:
    await fleet.worker(USER)
    assert await fleet.refused({"user_id": 7}) is None
    problem = await fleet.refused({"user_id": "x", "bogus": 1})
    assert problem is not None
    assert problem.code == "invalid_argument"
    assert sorted(error.loc for error in problem.errors) == [("argument",), ("argument", "user_id")]
    problem = await fleet.refused({"user_id": 7}, {"user_id": None}, 5)
    assert problem is not None
    assert [error.loc for error in problem.errors] == [
        ("jobs", 1, "argument", "user_id"),
        ("jobs", 2, "argument"),
    ]


async def test_a_name_that_nobody_ever_served_is_found(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    problem = await fleet.refused(None, name="nobody")
    assert problem is not None
    assert (problem.code, problem.errors[0].loc) == ("unserved_name", ("name",))
    await fleet.worker(None, tells=False)
    assert await fleet.refused({1.5: 2}) is None
    for _ in range(3):
        codes = await fleet.service.check([fleet.spec(1, "nobody")], is_bulk=False, refuses=False)
        assert codes == ["unserved_name"]
    assert caplog.text.count("nobody: unserved_name") == 1
    fleet.clock.now_s += LOG_EVERY_S
    await fleet.service.check([fleet.spec(1, "nobody")], is_bulk=False, refuses=False)
    assert caplog.text.count("nobody: unserved_name") == 2


async def test_a_report_names_the_rule_and_not_the_value(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.worker(USER)
    codes = await fleet.service.check([fleet.spec({"user_id": "secret"})], is_bulk=False, refuses=False)
    assert codes == ["invalid_argument"]
    assert "work: invalid_argument (argument.user_id: type)" in caplog.text
    assert "secret" not in caplog.text


async def test_while_releases_differ_an_argument_fits_one_of_them(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.worker(USER)
    assert "schemas_differ" not in caplog.text
    newer = await fleet.worker({"type": "string"}, "2")
    assert "work: schemas_differ" in caplog.text
    assert await fleet.refused("text") is None
    assert await fleet.refused({"user_id": 7}) is None
    assert await fleet.refused(5) is not None
    view = await fleet.service.view("work")
    assert [one["code"] for one in view["warnings"]] == ["schemas_differ"]
    assert [(one["version"], one["live_workers"], one["worker_versions"]) for one in view["contracts"]] == [
        ("2", 1, ["app-2"]), ("1", 1, ["app-1"]),
    ]  # fmt: skip
    # Only contracts of live workers count, as soon as the change is known.
    await fleet.world.workers.forget(newer)
    fleet.clock.now_s += LIFE_S
    assert await fleet.refused("text") is not None
    # A worker without a contract accepts anything.
    await fleet.worker(None, tells=False)
    assert (await fleet.service.view("work"))["warnings"][0]["code"] == "contract_untold"
    fleet.clock.now_s += LIFE_S
    assert await fleet.refused("text") is None


async def test_while_no_worker_lives_the_latest_contract_counts(fleet: Fleet) -> None:
    for schema, version in ((USER, "1"), ({"type": "string"}, "2")):
        worker_id = await fleet.worker(schema, version)
        fleet.world.pass_ms(10)
        await fleet.world.workers.forget(worker_id)
    assert await fleet.refused("text") is None
    assert await fleet.refused({"user_id": 7}) is not None
    view = await fleet.service.view("work")
    assert (view["is_served"], [one["code"] for one in view["warnings"]]) == (True, ["no_live_worker"])
    assert (await fleet.service.view("nobody"))["warnings"][0]["code"] == "unserved_name"


async def test_a_new_contract_of_another_master_is_believed_before_a_refusal(fleet: Fleet) -> None:
    await fleet.worker(USER)
    assert await fleet.refused({"user_id": 7}) is None
    other = Fleet(fleet.world)
    await other.worker({"type": "string"}, "2")
    fleet.clock.now_s += 1.0
    assert await fleet.refused("text") is None


@pytest.mark.parametrize(
    "schema",
    [{"type": "nix"}, {"$ref": "http://10.0.0.1/schema"}, {"$ref": "file:///etc/passwd"}, {"pattern": "("}],
)
async def test_a_value_that_is_no_schema_of_its_own_is_refused(fleet: Fleet, schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchemaError):
        ArgumentSchema(schema)
    with pytest.raises(InvalidError) as refusal:
        await fleet.worker(schema)
    assert refusal.value.errors[0].loc == ("contracts", "work", "argument_schema")


async def test_values_that_json_does_not_have(fleet: Fleet) -> None:
    at = msgpack.packb(msgpack.Timestamp(1_700_000_000))
    assert as_json(at) == "2023-11-14T22:13:20.000Z"
    assert as_json(msgpack.packb({"a": [b"\x00\xff", None, 1.5]})) == {"a": ["AP8=", None, 1.5]}
    assert as_json(msgpack.packb({1: {-2: 3}})) == {"1": {"-2": 3}}
    for odd in ({1.5: 2}, {1: 2, "1": 3}, msgpack.ExtType(5, b"x"), float("nan"), [float("inf")]):
        with pytest.raises((TypeError, ValueError)):
            as_json(msgpack.packb(odd))
    # The contract says nothing about these values.
    await fleet.worker(USER)
    assert await fleet.refused({1.5: 2}) is None


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date-time", "2026-03-01T10:00:00Z", "soon"),
        ("date", "2026-03-01", "2026-13-01"),
        ("time", "10:00:00", "10"),
        ("duration", "PT0.5S", "5 min"),
        ("uuid", "0190c0de-0000-7000-8000-000000000000", "0190c0de"),
        ("decimal", "1.50", "1,50"),
        ("byte", "AP8=", "AP8"),
        # Libraries disagree about these.
        ("email", "no mail address", None),
        ("uri", "no address", None),
    ],
)
async def test_formats_of_values_that_json_lacks_are_rules(kind: str, good: str, bad: str | None) -> None:
    schema = ArgumentSchema({"type": "string", "format": kind})
    assert schema.misfits(good) == []
    if bad is not None:
        assert [(misfit.keyword, misfit.message) for misfit in schema.misfits(bad)] == [
            ("format", f'"{bad}" is not a "{kind}"')
        ]


NONE_FITS = "is not valid under any of the schemas listed in the 'anyOf' keyword"


@pytest.mark.parametrize(
    ("argument", "misfits"),
    [
        ({"a": {"crop": {"w": "x"}}}, [(("a", "crop", "w"), '"x" is not of type "integer"')]),
        ({"a": {"crop": {}}}, [(("a", "crop"), '"w" is a required property')]),
        ({"a": {"crop": None}}, []),
        ({"a": {"crop": 5}}, [(("a", "crop"), f"5 {NONE_FITS}")]),
        ({"a": {"size": True}}, [(("a", "size"), f"true {NONE_FITS}")]),
    ],
)
async def test_the_error_names_the_alternative_that_was_meant(
    argument: Any, misfits: list[tuple[tuple[str, ...], str]]
) -> None:
    crop = {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}
    members = {
        "crop": {"anyOf": [crop, {"type": "null"}]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    }
    schema = ArgumentSchema(
        {"properties": {"a": {"anyOf": [{"type": "object", "properties": members}, {"type": "null"}]}}}
    )
    assert [(misfit.path, misfit.message) for misfit in schema.misfits(argument)] == misfits


# --- names that no worker ever served


class CountedReads(ContractStore):
    """Records which names are looked up."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(world.shard)
        self.read: list[str] = []

    async def unserved(self, names: Collection[str]) -> list[str]:
        self.read += names
        return await super().unserved(names)


async def test_a_name_that_was_served_is_looked_up_once_and_another_one_rarely(world: StoreWorld) -> None:
    store, clock = CountedReads(world), HandClock()
    service = ContractService(store, world.workers, SchemaJudge(clock), clock, LiveValue(3_000))
    await ContractStore(world.shard).declare(["work"], {})
    assert await service.unserved(["wrok", "work", "wrok"]) == ["wrok"]
    assert store.read == ["wrok", "work"]
    for _ in range(10):
        assert await service.unserved(["work"]) == []
        assert await service.unserved(["work", "wrok"]) == ["wrok"]
    assert store.read == ["wrok", "work"]
    # A worker registered at another master.
    await ContractStore(world.shard).declare(["wrok"], {})
    assert await service.unserved(["wrok"]) == ["wrok"]
    clock.now_s += MIN_LIFE_S
    assert await service.unserved(["wrok"]) == []
    assert store.read == ["wrok", "work", "wrok"]


async def test_one_push_looks_for_all_that_come_meanwhile(world: StoreWorld) -> None:
    store, clock = CountedReads(world), HandClock()
    service = ContractService(store, world.workers, SchemaJudge(clock), clock, LiveValue(3_000))
    assert await service.unserved(["wrok"]) == ["wrok"]
    clock.now_s += MIN_LIFE_S
    found = await asyncio.gather(*(service.unserved(["wrok"]) for _ in range(32)))
    assert found == [["wrok"]] * 32
    assert store.read == ["wrok", "wrok"]


async def test_a_name_is_served_as_soon_as_a_worker_tells_it_here(fleet: Fleet) -> None:
    assert await fleet.service.unserved(["work"]) == ["work"]
    await fleet.worker(None)
    assert await fleet.service.unserved(["work"]) == []


async def test_the_names_of_workers_that_told_none_are_served(fleet: Fleet, world: StoreWorld) -> None:
    spec = WorkerSpec(None, ("old",), 5, "node", 1, {}, "app-1", "s" * 32)
    await world.workers.register(new_id(), spec)
    assert await fleet.service.unserved(["old", "wrok"]) == ["wrok"]
    await world.workers.register(new_id(), replace(spec, names=("new",)))
    assert await fleet.service.unserved(["new"]) == ["new"]
    fleet.clock.now_s += LIFE_S
    assert await fleet.service.unserved(["new"]) == []


async def test_the_memory_of_names_is_bounded(
    fleet: Fleet, world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "MAX_SERVED", 3)
    for n in range(5):
        await ContractStore(world.shard).declare([f"served-{n}"], {})
        assert await fleet.service.unserved([f"served-{n}", f"wrong-{n}"]) == [f"wrong-{n}"]
    assert await fleet.service.unserved([f"served-{n}" for n in range(5)]) == []
    assert await fleet.service.unserved([f"wrong-{n}" for n in range(5)]) == [f"wrong-{n}" for n in range(5)]
