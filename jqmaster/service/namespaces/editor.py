"""Changes namespaces for operators."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jqmaster.domain.namespaces.namespace import (
    DEFAULT,
    Namespace,
    NamespaceError,
    check_name,
    default_namespace,
)
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import ConflictError, DamagedError, FieldError, JqmasterError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.named_objects import ANYHOW, Precondition, Tries
from jqmaster.service.namespaces.documents import describe, draft_of, no_namespace, refusal
from jqmaster.service.namespaces.living import check_masters, living
from jqmaster.service.namespaces.places import Places, has_data, unfinished_jobs
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.cluster import slot_of
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import held_data
from jqmaster.store.namespaces.moves import MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore, tag_taken


class NamespaceEditor:
    """Creates, changes, opens, closes and removes namespaces. `shard`: the hash tag of the default namespace. Methods
    raise what the stores raise."""

    def __init__(
        self,
        store: NamespaceStore,
        registry: NamespaceRegistry,
        masters: MasterStore,
        places: Places,
        moves: MoveStore,
        *,
        shard: str,
        pace: LiveValue[Pace],
        max_namespaces: Callable[[], int],
    ) -> None:
        self._store = store
        self._registry = registry
        self._masters = masters
        self._places = places
        self._moves = moves
        self._default = default_namespace(shard)
        self._pace = pace
        self._max_namespaces = max_namespaces

    async def get(self, name: str) -> Namespace:
        """Read a namespace from the registry. Raise NotFoundError."""
        found = await self._present(name)
        if found is None:
            raise no_namespace(name)
        return found

    async def put(
        self, name: str, fields: Mapping[str, Any], *, who: str, demands: Precondition = ANYHOW
    ) -> bool:
        """Create or change a namespace, and return whether it is new. If nothing would change, write nothing. A new
        namespace is open.

        If the request names a tag, the new namespace takes over the data with that tag. If an unfinished move has
        frozen these data, the new namespace is marked as being moved. The move then continues, or can be aborted.

        Raise InvalidError, PreconditionFailedError, or one of these errors:

        * ConflictError if there are too many namespaces, or another namespace has the tag.
        * ConflictError if the store has data with the tag, and the request does not name the tag.
        * ConflictError if another store has data with the tag, and the request names the tag, but no store.
        * ConflictError if a live master does not know namespaces.
        * StoreUnavailableError if the store of a new namespace does not answer, or another store in which the data
          may be.
        * OverloadedError if other callers keep changing the namespace.
        """
        try:
            check_name(name)
        except NamespaceError as error:
            raise refusal(error.loc, error.msg) from None
        tries = Tries("namespace", name)
        while True:
            present = await tries.read(self._present, demands)
            new = draft_of(name, fields, present)
            if new == present:
                return False
            if present is None:
                new = await self._checked(
                    new, takes_over=fields["tag"] is not None, names_store=fields["store"] is not None
                )
            if await self._write(present, new, who, "namespace.put"):
                return present is None

    async def close(self, name: str, who: str) -> None:
        """Stop serving a namespace. Its data stay. Raise NotFoundError, ConflictError."""
        await self._change_state(name, "closed", who)

    async def open(self, name: str, who: str) -> None:
        """Serve a namespace again. Raise NotFoundError, ConflictError."""
        await self._change_state(name, "open", who)

    async def delete(
        self, name: str, *, who: str, is_forced: bool = False, demands: Precondition = ANYHOW
    ) -> None:
        """Remove a closed namespace from the registry. The data stay in their store. A new namespace that names the tag
        takes them over.

        `is_forced`: remove the namespace even if it has unfinished jobs, its store does not answer, or its entry cannot
        be read.

        Raise NotFoundError, PreconditionFailedError, ConflictError, DamagedError.
        """
        tries = Tries("namespace", name)
        while True:
            try:
                present = await tries.read(self._present, demands)
            except DamagedError:
                # The damaged entry may be that of the default namespace. Removing it removes only the title and the
                # quotas, and the namespace itself stays.
                if not is_forced:
                    raise
                if await self._store.remove_damaged(name, _deletion(who, name)):
                    await self._follow()
                    return
                continue
            if present is None:
                raise no_namespace(name)
            if present.is_default:
                raise _default_stays("deleted")
            if present.is_moving:
                raise _being_moved(name)
            if present.state != "closed":
                raise ConflictError(
                    f"namespace {name} is {present.state}: close it first, so that nothing is pushed meanwhile",
                    code="namespace_open",
                )
            if not is_forced and (jobs := await unfinished_jobs(await self._places.shard_of(present))):
                what, let = ("job", "let it end") if jobs == 1 else ("jobs", "let them end")
                raise ConflictError(
                    f"namespace {name} has {jobs} unfinished {what}: {let}, or force the removal; jobs then stay in "
                    f"store {present.store}, and come back with a new namespace that names this store and the tag "
                    f"{present.tag}",
                    code="namespace_not_empty",
                )
            if await self._store.remove(present, _deletion(who, name, present)):
                await self._follow()
                return

    async def _present(self, name: str) -> Namespace | None:
        stored = await self._store.get(name)
        if name != DEFAULT:
            return stored
        if stored is None:
            return self._default
        return replace(self._default, title=stored.title, quotas=stored.quotas, version=stored.version)

    async def _checked(self, new: Namespace, *, takes_over: bool, names_store: bool) -> Namespace:
        """Check a new namespace, and return it with its first state. Raise an error if it cannot be served in its
        store. `takes_over`: the request names the tag. `names_store`: it names the store."""
        if new.store not in self._places.names:
            raise refusal(
                ("store",),
                f"is not one of the configured stores, {', '.join(self._places.names)}; configure it at every master",
            )
        await self._check_tag(new)
        await check_masters(self._masters, self._pace.current, new.store)
        shard = await self._places.shard_of(new)
        if shard.client.is_on_cluster:
            self._check_slot(new)
        if await generation.is_frozen(shard):
            held = await held_data(shard)
            if takes_over and held.frozen_by and not await self._moves.keeps(new.store, new.tag):
                return replace(new, state="moving")
            raise ConflictError(
                f"store {new.store} still has frozen data with the tag {new.tag}, of a namespace that has moved; they "
                "are removed a day after the move: wait until then, give another tag, or name the store that has "
                "the data now",
                code="namespace_has_data",
                errors=[FieldError(("tag",), f"is the tag of frozen data in store {new.store}")],
            )
        has_some = await has_data(shard)
        if takes_over:
            await self._check_left(new, shard)
        elif has_some:
            raise ConflictError(
                f"store {new.store} has data with the tag {new.tag}: name the tag in the request to take them over, "
                "or give another tag to begin without data",
                code="namespace_has_data",
            )
        if not has_some and not names_store:
            await self._check_other_stores(new, takes_over=takes_over)
        return new

    async def _check_tag(self, new: Namespace) -> None:
        """Raise ConflictError if another namespace has the tag. The registry checks this again when it is written, but
        the checks of the data come before, and their remedies would be wrong."""
        stored = (await self._store.load()).namespaces.values()
        for one in (self._default, *stored):
            if one.tag == new.tag and one.name != new.name:
                raise tag_taken(new.tag, one.name)

    async def _check_other_stores(self, new: Namespace, *, takes_over: bool) -> None:
        """Raise ConflictError if another configured store has data with the tag of the new namespace. Frozen data do
        not count. If a store cannot be searched and the namespace takes over data, raise StoreUnavailableError."""
        for store in self._places.names:
            if store == new.store:
                continue
            try:
                shard = await self._places.shard_of(replace(new, store=store))
                has_some = await has_data(shard) and not await generation.is_frozen(shard)
            except JqmasterError as exc:
                if not takes_over:
                    continue  # another store must not prevent the creation of a namespace without data
                raise StoreUnavailableError(
                    f"store {store} cannot be searched for data with the tag {new.tag}: {exc.detail}; name the store "
                    "of the new namespace in the request"
                ) from exc
            if has_some:
                raise ConflictError(
                    f"store {store} has data with the tag {new.tag}: name this store and the tag in the request to "
                    "take them over, or give another tag",
                    code="namespace_has_data",
                    errors=[
                        FieldError(
                            ("store",), f"is missing, and store {store} has data with the tag {new.tag}"
                        )
                    ],
                )

    def _check_slot(self, new: Namespace) -> None:
        """Raise ConflictError if another namespace on the same Cluster has the slot of the new namespace. A Cluster
        moves only whole slots to another node, so the two could be moved only together."""
        slot = slot_of(new.tag)
        for one in self._registry.current.values():
            if one.store == new.store and one.name != new.name and slot_of(one.tag) == slot:
                raise ConflictError(
                    f"the tags of {new.name} and of namespace {one.name} have the same slot of the Cluster, {slot}, so "
                    "they could be moved only together: give another tag",
                    errors=[FieldError(("tag",), f"has slot {slot}, as namespace {one.name} has")],
                )

    async def _check_left(self, new: Namespace, shard: Shard) -> None:
        """Raise ConflictError while masters of another installation serve the data with the tag of the new
        namespace."""
        ours = {one.record.id for one in (await self._masters.look()).seen}
        others = sorted(
            one.url or one.id
            for one in await living(MasterStore(shard), self._pace.current)
            if one.id not in ours
        )
        if others:
            raise ConflictError(
                f"masters of another installation serve the data with the tag {new.tag}: {', '.join(others)}; stop "
                "them first, or give another tag",
                errors=[FieldError(("tag",), "is the tag of a running installation")],
            )

    async def _change_state(self, name: str, state: Any, who: str) -> None:
        tries = Tries("namespace", name)
        while True:
            present = await tries.read(self.get)
            if present.is_default:
                raise _default_stays(state)
            if present.is_moving:
                raise _being_moved(name)
            if present.state == state:
                return
            if await self._write(present, replace(present, state=state), who, f"namespace.{_VERBS[state]}"):
                return

    async def _write(self, present: Namespace | None, new: Namespace, who: str, action: str) -> bool:
        """Write a change and apply it on this master. Return False if somebody else changed the namespace first."""
        entry = encode_entry(
            who=who,
            action=action,
            target=new.name,
            before=describe(present) if present else None,
            after=describe(new),
        )
        version = await self._store.put(present, new, entry, max_namespaces=self._max_namespaces())
        if version is None:
            return False
        await self._follow()
        return True

    async def _follow(self) -> None:
        with contextlib.suppress(JqmasterError):  # the change is stored, and will be read later
            await self._registry.reload()


_VERBS: Final = {"closed": "close", "open": "open"}


def _deletion(who: str, name: str, present: Namespace | None = None) -> bytes:
    """Return the audit entry of a removal. `present`: None if the registry entry of the namespace cannot be read."""
    before = describe(present) if present else None
    return encode_entry(who=who, action="namespace.delete", target=name, before=before, after=None)


def _default_stays(done: str) -> ConflictError:
    return ConflictError(
        f"the namespace {DEFAULT} is the installation itself, and cannot be {done}", code="default_namespace"
    )


def _being_moved(name: str) -> ConflictError:
    return ConflictError(
        f"namespace {name} is being moved: wait until the move has ended, or abort it", code="move_under_way"
    )
