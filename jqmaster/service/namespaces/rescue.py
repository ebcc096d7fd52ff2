"""Ends a move that has a damaged record or none. Finds the store that has the data, and lets masters serve them
there."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from jqmaster.domain.namespaces.move import LeftCopy
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import ConflictError, JqmasterError, StoreUnavailableError
from jqmaster.service.namespaces.places import Places
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import Freeze, FrozenData, HeldData, held_data
from jqmaster.store.namespaces.moves import LostMoveError, MoveStore

# Replaces the number of a freeze that the store has lost. No mover ever has a number this high.
_ABOVE_ALL: Final = 1_000_000
# How long to keep an unfinished copy that could not be removed. 0: a master removes it within a minute.
_NOW_MS: Final = 0
_DAY_MS: Final = 24 * 3600 * 1000
# Replaces a mark of the data that the store has lost.
_LOST: Final = "lost"


class MoveRescue:
    """Ends a move without its record, in three steps:

    * Remove the record. From then on, the mover can record nothing more.
    * Freeze the data that the move has frozen again, under a higher number. From then on, the mover can change nothing
      in any store.
    * Find the store with the data, and let it have the mark of the data. At most one store gets the mark.

    Methods raise what the stores raise.
    """

    def __init__(self, moves: MoveStore, places: Places) -> None:
        self._moves = moves
        self._places = places

    async def is_needed(self, present: Namespace) -> bool:
        """Return whether some store has the data of the namespace, but it cannot be served in the store that the
        registry names."""
        held = await self._held(present)
        return not held[present.store].mark and any(one.has_data for one in held.values())

    async def run(self, present: Namespace, who: str) -> None:
        """End the move, and make the registry name the store that has the data. If the namespace was stopped for the
        move, or its data were frozen, close the namespace. An operator must check the data before opening the
        namespace.

        If it is unknown which store has the data, nothing is changed, and one of these errors is raised:

        * ConflictError if several stores may have the data.
        * StoreUnavailableError if a store that may have the data does not answer.

        Raise ConflictError if the namespace was changed meanwhile. After an error, this call can be repeated: until all
        steps are done, the registry entry says that the namespace is being moved.
        """
        found = await self._held(present)
        place = place_of(present, found)
        # If the data were not being served, close the namespace. The data may be older than expected, so an operator
        # has to check them first.
        is_served = place is not None and bool(found[place].mark) and present.state != "moving"
        ended = replace(
            present,
            state=present.state if is_served else "closed",
            store=place or present.store,
            stop_ms=0,
        )
        entry = _entry(who, "abort_move", present, {"state": ended.state, "store": ended.store})
        if place is None:
            await self._drop(present, ended, entry)
            return
        unended = replace(
            present, state=ended.state if is_served else "moving", stop_ms=max(1, present.stop_ms)
        )
        unended = await self._drop(present, unended, entry)
        copies = await self._fenced(present, found, place)
        # Read the data again, because the mover may have opened those at the target before it was stopped.
        found = await self._held(present)
        place = place_of(present, found) or place
        if not found[place].mark:
            freeze = found[place].freeze
            if freeze is None or place not in copies:
                raise ConflictError(
                    f"the data of namespace {present.name} were changed at the same time: try again"
                )
            await copies[place].unfreeze(freeze.mark)
        left = await self._left(present, place, found, copies)
        entry = _entry(who, "found", present, {"store": place}) if place != present.store else b""
        await self._drop(unended, replace(ended, store=place), entry, left=left)

    async def _held(self, present: Namespace) -> dict[str, HeldData]:
        """Return the state of the data by store. If the store that the registry names has the mark of the data,
        unreachable stores are left out. Otherwise, raise StoreUnavailableError for them."""
        first = await held_data(await self._shard(present, present.store))

        async def look(store: str) -> HeldData | None:
            try:
                return await held_data(await self._shard(present, store))
            except JqmasterError as exc:
                if first.mark:
                    return None
                raise StoreUnavailableError(
                    f"store {store} may have the data of namespace {present.name}, and does not answer "
                    f"({exc.detail}): nothing was changed; try again when it answers",
                    retry_after_s=5.0,
                ) from exc

        others = [store for store in self._places.names if store != present.store]
        looked = zip(others, await asyncio.gather(*map(look, others)), strict=True)
        return {present.store: first, **{store: held for store, held in looked if held is not None}}

    async def _fenced(
        self, present: Namespace, found: Mapping[str, HeldData], place: str
    ) -> dict[str, FrozenData]:
        """Freeze the data that the move has frozen again, under a higher number. Empty its unfinished copies. Return
        the frozen data by store."""
        move_id = found[place].frozen_by or found[place].moved_by
        freezes = {
            store: Freeze(held.lost_by, _ABOVE_ALL, _LOST) if held.lost_by else held.freeze
            for store, held in found.items()
        }
        ours = {
            store: freeze
            for store, freeze in freezes.items()
            if freeze and (freeze.id == move_id or not freeze.mark)
        }
        number = 1 + max((freeze.number for freeze in ours.values()), default=0)
        fenced = {}
        for store, freeze in ours.items():
            data = FrozenData(await self._shard(present, store), freeze.id, number)
            try:
                await (data.freeze() if freeze.mark else data.reserve())
            except (LostMoveError, ConflictError):
                continue  # the mover was faster, and the next read shows its change
            fenced[store] = data
        return fenced

    async def _left(
        self,
        present: Namespace,
        place: str,
        found: Mapping[str, HeldData],
        copies: Mapping[str, FrozenData],
    ) -> tuple[LeftCopy, int] | None:
        """Remove unfinished copies. Return a copy that could not be removed or is kept on purpose, with the
        milliseconds for which it stays."""
        left = None
        for store, copy in copies.items():
            freeze = found[store].freeze
            if store == place or freeze is None:
                continue
            rest = LeftCopy(store, present.tag, freeze.id, copy.number)
            if freeze.mark:
                left = rest, _DAY_MS
                continue
            try:
                await copy.remove()
            except (JqmasterError, LostMoveError):
                left = rest, _NOW_MS
        return left

    async def _drop(
        self,
        present: Namespace,
        new: Namespace,
        entry: bytes,
        *,
        left: tuple[LeftCopy, int] | None = None,
    ) -> Namespace:
        version = await self._moves.drop(present, new, entry, left=left)
        if version is None:
            raise ConflictError(f"namespace {present.name} was changed at the same time: try again")
        return replace(new, version=version)

    async def _shard(self, present: Namespace, store: str) -> Shard:
        return await self._places.shard_of(replace(present, store=store))


def place_of(present: Namespace, found: Mapping[str, HeldData]) -> str | None:
    """Return the store that has the data, or None if no store has them. Raise ConflictError if several stores may have
    them."""
    places = [store for store, held in found.items() if held.mark]
    if not places:
        kept = {store: held.frozen_by for store, held in found.items() if held.frozen_by}
        # Leave out a store if the move that froze its data has copied them to another store: the data at the other
        # store are newer.
        places = [
            store
            for store, by in kept.items()
            if not any(
                other != store and held.has_data and held.moved_by == by for other, held in found.items()
            )
        ]
    if present.store in places:
        return present.store
    if len(places) > 1:
        raise ConflictError(
            f"the stores {' and '.join(sorted(places))} have data with the tag {present.tag}: close the "
            f"namespace {present.name}, find out which of the data are the newest, delete the namespace, and "
            "create it again with this tag in that store",
            code="move_refused",
        )
    return places[0] if places else None


def _entry(who: str, action: str, present: Namespace, after: Mapping[str, str]) -> bytes:
    before = {"state": present.state, "store": present.store}
    return encode_entry(
        who=who, action=f"namespace.{action}", target=present.name, before=before, after=dict(after)
    )
