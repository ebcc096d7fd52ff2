"""Operators create, change, close, open and delete namespaces."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.ids import new_id
from jqmaster.domain.namespaces.move import MoveProgress, MoveSize, MoveTerms
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    JqmasterError,
    NotFoundError,
    PreconditionFailedError,
    StoreUnavailableError,
    StoreUnfitError,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.named_objects import Precondition
from jqmaster.service.namespaces.editor import NamespaceEditor
from jqmaster.service.namespaces.overview import MAX_ASKED, NamespaceOverview
from jqmaster.service.namespaces.places import StorePlace
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.moves import MoveEnd, MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.admin import admin_of, forget_keys
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D29")
FIELDS: dict[str, Any] = {"title": "", "store": None, "tag": None, "quotas": None}
ME = "user:ada"


class OneStore:
    """Places: one store, on which each shard of the test is. In the store b, tags have a suffix. `away`: stores that
    cannot be reached."""

    names = ("default", "b")

    def __init__(self, server: StoreServer) -> None:
        self.server = server
        self.away: dict[str, JqmasterError] = {}
        self.clients: list[StoreClient] = []
        self.shards: list[Shard] = []

    async def stores(self) -> Sequence[StorePlace]:
        return [StorePlace(name, "single", "valkey", {}) for name in self.names]

    async def shard_of(self, namespace: Namespace) -> Shard:
        if fault := self.away.get(namespace.store):
            raise fault
        client = StoreClient(self.server.url, connections=2)
        self.clients.append(client)
        self.shards.append(Shard(client, Keys(namespace.tag + ("-b" if namespace.store == "b" else ""))))
        return self.shards[-1]


class EditorWorld:
    def __init__(self, world: StoreWorld, places: OneStore, data_dir: Path) -> None:
        self.world = world
        self.places = places
        shard = world.shard.keys.tag.strip("{}:")
        self.store = NamespaceStore(world.shard)
        self.masters = MasterStore(world.shard)
        copy = RegistryCopy(data_dir, "redis://here", shard)
        self.registry = NamespaceRegistry(self.store, copy, SystemClock(), shard=shard)
        self.moves = MoveStore(world.shard)
        self.overview = NamespaceOverview(self.registry, places, self.moves, SystemClock())
        self.editor = NamespaceEditor(
            self.store,
            self.registry,
            self.masters,
            places,
            self.moves,
            shard=shard,
            pace=LiveValue(Pace(5.0)),
            max_namespaces=lambda: 3,
        )

    async def put(self, name: str, *, demands: Precondition | None = None, **fields: Any) -> bool:
        return await self.editor.put(name, FIELDS | fields, who=ME, demands=demands or Precondition())

    async def audited(self) -> list[tuple[str, str, str]]:
        page = await AuditStore(self.world.shard).page(cursor=None, limit=50)
        return [(one.who, one.action, one.target) for one in reversed(page.entries)]


@pytest.fixture
async def one(world: StoreWorld, store_server: StoreServer, tmp_path: Path) -> AsyncIterator[EditorWorld]:
    places = OneStore(store_server)
    yield EditorWorld(world, places, tmp_path)
    for shard in places.shards:
        await forget_keys(shard)
    for client in places.clients:
        await client.close()


def tag() -> str:
    """Return a tag of this test alone, because all share a server."""
    return f"t{uuid.uuid4().hex[:10]}"


async def test_a_namespace_lives_and_ends(one: EditorWorld) -> None:
    mine = tag()
    assert await one.put("shop", tag=mine, title="The shop")
    shop = await one.editor.get("shop")
    assert shop == Namespace("shop", mine, "default", "open", "The shop", version=shop.version)
    assert one.registry.current["shop"] == shop
    # Sent back as it was shown, it changes nothing.
    assert not await one.put("shop", title="The shop", tag=mine, store="default")
    assert not await one.put("shop", title="The shop")
    assert await one.editor.get("shop") == shop
    assert not await one.put("shop", title="New")
    await one.editor.close("shop", ME)
    await one.editor.close("shop", ME)
    assert one.registry.current["shop"].state == "closed"
    await one.editor.open("shop", ME)
    with pytest.raises(ConflictError, match="namespace shop is open: close it first") as refused:
        await one.editor.delete("shop", who=ME)
    assert refused.value.code == "namespace_open"
    await one.editor.close("shop", ME)
    await one.editor.delete("shop", who=ME)
    assert list(one.registry.current) == ["default"]
    with pytest.raises(NotFoundError, match="no namespace shop"):
        await one.editor.get("shop")
    words = ["put", "put", "close", "open", "close", "delete"]
    assert await one.audited() == [(ME, f"namespace.{word}", "shop") for word in words]


async def test_the_default_namespace_is_there_and_stays(one: EditorWorld) -> None:
    default = await one.editor.get("default")
    assert (default.store, default.state, default.version) == ("default", "open", 0)
    assert not await one.put("default")
    assert not await one.put("default", title="Ours", tag=default.tag, store="default")
    assert (await one.editor.get("default")).title == "Ours"
    for act in (one.editor.close("default", ME), one.editor.delete("default", who=ME)):
        with pytest.raises(
            ConflictError, match="the namespace default is the installation itself"
        ) as refused:
            await act
        assert refused.value.code == "default_namespace"
    with pytest.raises(InvalidError) as invalid:
        await one.put("default", tag="other")
    assert invalid.value.errors[0].loc == ("tag",)


async def test_its_place_is_fixed(one: EditorWorld) -> None:
    await one.put("shop", tag=tag())
    others: list[dict[str, Any]] = [{"tag": "other"}, {"store": "b"}]
    for changes in others:
        with pytest.raises(InvalidError) as invalid:
            await one.put("shop", **changes)
        assert "this request moves no data" in invalid.value.errors[0].msg


async def test_preconditions_hold(one: EditorWorld) -> None:
    only_new = Precondition(none_match=frozenset({"*"}))
    assert await one.put("shop", tag=tag(), demands=only_new)
    with pytest.raises(PreconditionFailedError, match="namespace shop exists") as refused:
        await one.put("shop", demands=only_new)
    assert refused.value.code == "namespace_exists"
    version = (await one.editor.get("shop")).version
    assert not await one.put("shop", title="a", demands=Precondition(match=frozenset({str(version)})))
    stale = Precondition(match=frozenset({str(version)}))
    with pytest.raises(PreconditionFailedError, match="changed by somebody else"):
        await one.put("shop", title="b", demands=stale)
    with pytest.raises(PreconditionFailedError, match="changed by somebody else"):
        await one.editor.delete("shop", who=ME, demands=stale)
    with pytest.raises(PreconditionFailedError, match="does not exist"):
        await one.put("mail", demands=stale)


async def test_a_faulty_name_and_an_unknown_store_are_refused(one: EditorWorld) -> None:
    for name, text in (("Shop", "such as shop"), ("new", "must not be one of"), ("x", "2 to 39")):
        with pytest.raises(InvalidError) as invalid:
            await one.put(name)
        assert invalid.value.errors[0].loc == ("name",)
        assert text in invalid.value.errors[0].msg
    with pytest.raises(InvalidError) as invalid:
        await one.put("shop", store="c")
    assert "is not one of the configured stores, default, b" in invalid.value.errors[0].msg


async def test_there_are_at_most_as_many_as_the_setting_allows(one: EditorWorld) -> None:
    for name in ("aa", "bb", "cc"):
        await one.put(name, tag=tag())
    with pytest.raises(ConflictError, match="there are 3 namespaces; no more can be created"):
        await one.put("dd", tag=tag())
    # The default one is always there, so that its title and quota can always be changed.
    assert not await one.put("default", title="The rest")


async def test_data_are_taken_over_only_on_request(one: EditorWorld) -> None:
    mine = tag()
    namespace = Namespace("shop", mine)
    await generation.mark(await one.places.shard_of(namespace), "a" * 32)
    with pytest.raises(ConflictError, match="name the tag in the request to take them over") as refused:
        await one.editor.put(mine, FIELDS, who=ME)
    assert refused.value.code == "namespace_has_data"
    assert await one.put("shop", tag=mine)


async def test_data_in_another_store_are_taken_over_only_if_the_request_names_it(one: EditorWorld) -> None:
    mine = tag()
    await one.put("shop", tag=mine, store="b")
    there = await one.places.shard_of(await one.editor.get("shop"))
    await generation.mark(there, "a" * 32)
    await one.editor.close("shop", ME)
    await one.editor.delete("shop", who=ME)
    with pytest.raises(
        ConflictError, match=f"store b has data with the tag {mine}: name this store"
    ) as refused:
        await one.put("shop", tag=mine)
    assert refused.value.code == "namespace_has_data"
    assert refused.value.errors[0].loc == ("store",)
    # It is unknown whether a store that does not answer has the data.
    one.places.away["b"] = StoreUnavailableError("store b does not answer")
    with pytest.raises(StoreUnavailableError, match="store b does not answer; name the store of the new"):
        await one.put("shop", tag=mine)
    assert list(one.registry.current) == ["default"]
    # A store that the request names is not doubted.
    assert await one.put("empty", tag=mine, store="default")
    await one.editor.close("empty", ME)
    await one.editor.delete("empty", who=ME)
    one.places.away.clear()
    assert await one.put("shop", tag=mine, store="b")


async def test_a_namespace_without_a_tag_is_not_created_beside_its_former_data_in_another_store(
    one: EditorWorld,
) -> None:
    mine = tag()
    await generation.mark(await one.places.shard_of(Namespace(mine, mine, "b")), "a" * 32)
    with pytest.raises(
        ConflictError, match=f"store b has data with the tag {mine}: name this store and the tag"
    ):
        await one.put(mine)
    # Another store that does not answer must not prevent the creation of a namespace without data.
    one.places.away["b"] = StoreUnavailableError("store b does not answer")
    assert await one.put(mine)


async def test_data_in_the_default_store_come_before_those_in_another_store(one: EditorWorld) -> None:
    mine = tag()
    for store in one.places.names:
        await generation.mark(await one.places.shard_of(Namespace("shop", mine, store)), "a" * 32)
    assert await one.put("shop", tag=mine)


async def test_a_frozen_copy_in_another_store_does_not_count(one: EditorWorld) -> None:
    mine = tag()
    there = await one.places.shard_of(Namespace("shop", mine, "b"))
    await generation.mark(there, "m" * 32)
    await FrozenData(there, "id-1", 1).freeze()
    assert await one.put("shop", tag=mine)


async def test_the_tag_of_another_namespace_is_refused_whatever_data_it_has(one: EditorWorld) -> None:
    mine = tag()
    await one.put("shop", tag=mine, store="b")
    # The move of the namespace has left a frozen copy.
    left = await one.places.shard_of(Namespace("shop", mine))
    await generation.mark(left, "m" * 32)
    await FrozenData(left, "id-1", 1).freeze()
    own = (await one.editor.get("default")).tag
    for name, given, holder in (("mail", mine, "shop"), (mine, None, "shop"), ("mail", own, "default")):
        with pytest.raises(
            ConflictError, match=f"is the tag of namespace {holder}; two namespaces"
        ) as refused:
            await one.put(name, tag=given)
        assert refused.value.code == "namespace_tag_taken"


async def test_data_that_masters_of_another_installation_serve_are_not_taken_over(one: EditorWorld) -> None:
    mine = tag()
    others = MasterStore(await one.places.shard_of(Namespace("shop", mine)))
    ours = MasterRecord(
        new_id(), "node", 1, "http://ours:1", "0.4.0", one.world.now_ms, knows_namespaces=True
    )
    theirs = replace(ours, id=new_id(), url="http://theirs:1")
    await one.masters.beat(ours)
    for master in (ours, theirs):
        await others.beat(master)
    with pytest.raises(ConflictError, match=r"another installation serve .*: http://theirs:1; stop"):
        await one.put("shop", tag=mine)
    await others.forget(theirs.id)
    assert await one.put("shop", tag=mine)


async def test_a_namespace_with_jobs_is_deleted_only_by_force(one: EditorWorld) -> None:
    mine = tag()
    await one.put("shop", tag=mine)
    shard = await one.places.shard_of(Namespace("shop", mine))
    shop = StoreWorld(shard)
    job_id = await shop.enqueue()
    await one.editor.close("shop", ME)
    with pytest.raises(ConflictError, match="namespace shop has 1 unfinished job: let it end") as refused:
        await one.editor.delete("shop", who=ME)
    assert refused.value.code == "namespace_not_empty"
    await shop.enqueue()
    with pytest.raises(ConflictError, match="has 2 unfinished jobs: let them end") as refused:
        await one.editor.delete("shop", who=ME)
    assert "jobs then stay in store default" in refused.value.detail
    assert refused.value.detail.endswith(f"the tag {mine}")
    await one.editor.delete("shop", who=ME, is_forced=True)
    # The data stay, and come back with their tag.
    assert await one.put("shop", tag=mine)
    assert await shop.records.get(job_id)


async def test_an_entry_that_cannot_be_read_is_deleted_by_force_and_created_again(one: EditorWorld) -> None:
    mine = tag()
    for damaged in (b"damaged", b"0000000000000001 x"):
        await admin_of(one.world.shard.client).hset(one.world.shard.keys.namespaces, "shop", damaged)
        with pytest.raises(DamagedError, match=r"delete it with force .*, and create it again with its tag"):
            await one.editor.delete("shop", who=ME)
        await one.editor.delete("shop", who=ME, is_forced=True)
        with pytest.raises(NotFoundError):
            await one.editor.get("shop")
    assert await one.put("shop", tag=mine)
    assert (ME, "namespace.delete", "shop") in await one.audited()


async def test_a_master_that_does_not_know_namespaces_keeps_them_from_being_created(one: EditorWorld) -> None:
    old = MasterRecord(new_id(), "node", 1, "http://old:1", "0.3.0", one.world.now_ms)
    await one.masters.beat(replace(old, id=new_id(), knows_namespaces=True))
    await one.masters.beat(old)
    with pytest.raises(ConflictError, match=r"do not know namespaces: http://old:1 \(0\.3\.0\)") as refused:
        await one.put("shop", tag=tag())
    assert refused.value.code == "masters_too_old"
    # Once it is silent, it counts no more.
    one.world.pass_ms(Pace(5.0).fresh_ms + 1)
    assert await one.put("shop", tag=tag())


async def test_a_master_without_the_store_keeps_namespaces_out_of_it(one: EditorWorld) -> None:
    without = MasterRecord(
        new_id(),
        "node",
        1,
        "http://without:1",
        "1",
        one.world.now_ms,
        knows_namespaces=True,
        stores=("default",),
    )
    await one.masters.beat(replace(without, id=new_id(), url="http://with:1", stores=("default", "b")))
    await one.masters.beat(without)
    with pytest.raises(
        ConflictError, match=r"do not have store b: http://without:1; add \[stores\.b\]"
    ) as refused:
        await one.put("shop", tag=tag(), store="b")
    assert [(error.loc, error.msg) for error in refused.value.errors] == [
        (("store",), "is not configured at 1 of 2 masters")
    ]
    assert await one.put("other", tag=tag())
    # A master that is silent does not count.
    one.world.pass_ms(Pace(5.0).fresh_ms + 1)
    assert await one.put("shop", tag=tag(), store="b")


async def test_the_overview_shows_what_each_is_doing(one: EditorWorld) -> None:
    mine = tag()
    await one.put("shop", tag=mine)
    shop = StoreWorld(await one.places.shard_of(Namespace("shop", mine)), has_store_time=True)
    await shop.enqueue()
    await shop.enqueue()
    # Another master has a store that this one has not.
    one.places.away["b"] = StoreUnfitError("store b is not configured here")
    await one.store.put(None, Namespace("far", tag(), "b"), b"\x80", max_namespaces=9)
    await one.registry.reload()
    default, far, seen = await one.overview.all()
    assert (default.namespace.name, default.figures is not None) == ("default", True)
    assert (far.figures, far.fault) == (None, "store b is not configured here")
    figures = seen.figures
    assert figures
    assert (figures.ready, figures.running, figures.waiting, figures.failures) == (2, 0, 2, 0)
    assert (figures.leader_id, figures.oldest_wait_s) == (None, None)


async def test_the_overview_tells_of_moves_that_failed(one: EditorWorld) -> None:
    for name in ("shop", "mail"):
        await one.put(name, tag=tag())
    shop = await one.store.get("shop")
    assert shop
    terms = MoveTerms("default", "b", "open", ME, MoveSize(9, 900), 5_000, 1_000)
    assert await one.moves.begin(shop, shop, "id-1", terms, b"")
    await one.moves.take("shop", "one")
    shop = await one.store.get("shop")
    assert shop
    end = MoveEnd("failed", MoveProgress(reason="store b is full"), b"")
    assert await one.moves.end(shop, shop, 1, end, left=None) == "ok"
    await one.registry.reload()
    told = {seen.namespace.name: seen.failed_move for seen in await one.overview.all()}
    assert told == {"default": "", "shop": "its move to store b failed: store b is full", "mail": ""}


async def test_the_overview_waits_only_once_for_a_store_that_is_away(one: EditorWorld) -> None:
    asked: list[str] = []

    class Away(OneStore):
        async def shard_of(self, namespace: Namespace) -> Shard:
            if namespace.store != "b":
                return await super().shard_of(namespace)
            asked.append(namespace.name)
            await asyncio.sleep(0)
            raise StoreUnavailableError("store b does not answer")

    places = Away(one.places.server)
    for number in range(5 * MAX_ASKED):
        far = Namespace(f"far-{number}", tag(), "b")
        await one.store.put(None, far, b"\x80", max_namespaces=999)
    await one.registry.reload()
    default, *others = await NamespaceOverview(one.registry, places, one.moves, SystemClock()).all()
    assert default.figures
    assert {other.fault for other in others} == {"store b does not answer"}
    assert len(asked) <= MAX_ASKED
    for client in places.clients:
        await client.close()


async def test_a_tag_whose_data_are_frozen_since_a_move_is_refused(one: EditorWorld) -> None:
    tag = f"{one.world.shard.keys.shard}-moved"
    shard = await one.places.shard_of(Namespace("shop", tag))
    frozen = FrozenData(shard, "id-1", 1)
    await frozen.reserve()
    for name, given in (("shop", tag), (tag, None)):
        with pytest.raises(ConflictError) as error:
            await one.put(name, tag=given)
        assert error.value.code == "namespace_has_data"
        assert "removed a day after the move" in error.value.detail
    await frozen.remove()
    assert await one.put("shop", tag=tag)


async def test_frozen_data_that_no_move_will_remove_are_taken_over_as_being_moved(one: EditorWorld) -> None:
    mine = tag()
    shard = await one.places.shard_of(Namespace("shop", mine))
    await generation.mark(shard, "m" * 32)
    frozen = FrozenData(shard, "id-1", 1)
    await frozen.freeze()
    await one.world.redis.zadd(one.world.shard.keys.left_copies, {f"default {mine} id-1 1": 1})
    with pytest.raises(ConflictError, match="name the store that has the data now"):
        await one.put("shop", tag=mine)
    await one.world.redis.delete(one.world.shard.keys.left_copies)
    assert await one.put("shop", tag=mine)
    assert (await one.editor.get("shop")).state == "moving"
    assert await one.moves.lost(["shop"]) == ["shop"]


async def test_the_entry_of_the_default_namespace_that_cannot_be_read_is_removed_by_force(
    one: EditorWorld,
) -> None:
    await one.put("default", title="Ours")
    await admin_of(one.world.shard.client).hset(one.world.shard.keys.namespaces, "default", b"damaged")
    with pytest.raises(DamagedError, match="its title and quotas in the registry cannot be read"):
        await one.editor.delete("default", who=ME)
    await one.editor.delete("default", who=ME, is_forced=True)
    assert (await one.editor.get("default")).title == ""
    await one.put("default", title="Ours again")
    assert (await one.editor.get("default")).title == "Ours again"
