"""Targets in the store."""

from dataclasses import replace

import pytest

from jqmaster.domain.targets.target import MAX_TARGETS, BodyForm, HttpTarget, SigningSecret
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.named_documents import new_etag
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.targets.documents import StoredTarget, decode_target, encode_target
from jqmaster.store.targets.targets import TargetStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M13")

SHOP = HttpTarget(
    "shop",
    ("shop.*",),
    url="http://shop.example/{name}",
    method="PUT",
    body=BodyForm.ENVELOPE,
    headers={"X-A": "1"},
    secret=SigningSecret("whsec_a", "whsec_b", 5),
    max_running=7,
    max_running_per_host=3,
    ok=(200, "3xx"),
    final=(404,),
    timeout_s=1.5,
    not_ready_for_s=60.0,
    allow_hosts=("shop.example",),
    description="the shop",
)
ENTRY = encode_entry(who="ada", action="target.put", target="shop", before=None, after=None)


def stored(target: HttpTarget = SHOP) -> StoredTarget:
    return StoredTarget(target, new_etag(), 1, 2, "ada")


def test_a_target_survives_encoding() -> None:
    one = stored()
    assert decode_target("shop", encode_target(one)) == one
    with pytest.raises(DamagedError, match="shop"):
        decode_target("shop", b"0" * 16 + b"\x80")


async def test_put_compares_the_etag_and_changes_the_version(world: StoreWorld) -> None:
    store, settings = TargetStore(world.shard), SettingsStore(world.shard)
    assert (await store.load()).version == 0
    first = stored()
    assert await store.put("shop", None, first, ENTRY)
    assert not await store.put("shop", None, first, ENTRY)
    loaded = await store.load()
    assert loaded.targets == {"shop": first}
    assert loaded.version == (await settings.versions()).targets > 0
    assert (await settings.versions()).settings == 0
    second = stored(replace(SHOP, max_running=9))
    assert await store.put("shop", first, second, ENTRY)
    assert not await store.put("shop", first, None, ENTRY)
    assert await store.get("shop") == second
    assert (await store.load()).version > loaded.version
    assert await store.put("shop", second, None, ENTRY)
    assert await store.get("shop") is None
    assert (await store.load()).targets == {}


async def test_there_are_not_too_many_targets(world: StoreWorld) -> None:
    store, keys = TargetStore(world.shard), world.shard.keys
    fields = [part for n in range(MAX_TARGETS) for part in (f"t{n}", encode_target(stored()))]
    await world.shard.client.command("HSET", keys.targets, *fields)
    with pytest.raises(ConflictError) as refused:
        await store.put("shop", None, stored(), ENTRY)
    assert refused.value.code == "too_many_targets"
    await world.shard.client.command("DEL", keys.targets)


async def test_a_damaged_target_is_left_out(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    store = TargetStore(world.shard)
    await store.put("shop", None, stored(), ENTRY)
    await world.shard.client.command("HSET", world.shard.keys.targets, "bad", b"x")
    assert list((await store.load()).targets) == ["shop"]
    assert "target bad" in caplog.text
    await world.shard.client.command("HDEL", world.shard.keys.targets, "bad")


async def test_masters_share_their_figures(world: StoreWorld) -> None:
    store = TargetStore(world.shard)
    await store.save_figures("m1", {})
    await store.save_figures("m1", {"shop": [1], "mail": [2]})
    await store.save_figures("m2", {"shop": [3]})
    await world.shard.client.command(
        "SET", world.shard.keys.target_figures("mail", "m2"), b"\xc1", "PX", 1000
    )
    assert await store.figures(["shop", "mail"], ["m1", "m2"]) == {"shop": [[1], [3]], "mail": [[2]]}
    assert await store.figures([], ["m1"]) == {}


async def test_names_with_jobs(world: StoreWorld) -> None:
    await world.enqueue("mail.send")
    assert await TargetStore(world.shard).names_with_jobs() == ["mail.send"]


async def test_the_worker_of_a_target_changes(world: StoreWorld) -> None:
    spec = WorkerSpec(None, ("a",), 5, "node", 1, {}, "1", "s" * 32, target="shop")
    worker_id = "0198c3f4-0000-7b8c-9d0e-000000000001"
    await world.workers.register(worker_id, spec)
    assert await world.workers.change_target_worker(worker_id, ["a", "b"], 3, "cannot be reached")
    worker = await world.workers.get(worker_id)
    assert worker is not None
    assert (worker.spec.names, worker.spec.max_jobs, worker.own_max_jobs) == (("a", "b"), 3, 3)
    assert worker.unreachable == "cannot be reached"
    assert worker.spec.is_built_in
    assert worker.spec.target == "shop"
    await world.workers.forget(worker_id)
    assert not await world.workers.change_target_worker(worker_id, ["a"], 3, "")
