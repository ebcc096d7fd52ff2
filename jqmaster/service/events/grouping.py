"""Turns groups of collected events into jobs."""

import functools
from collections.abc import Sequence
from typing import Final

from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.events.event import EventFigures
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.definitions.definitions import KeptRuns
from jqmaster.store.events.events import EventVerdict
from jqmaster.store.events.groups import ClosedGroup, EventGroupStore, FoundDefinition, GroupDecision

# A MessagePack list with fewer members than this has a header of one byte. A longer list gets a header of three bytes.
_SHORT: Final = 16


class EventGrouping:
    """Ends groups of events. Each group becomes a job. Methods raise what the store raises. `figures`: counts the
    groups that became a job."""

    def __init__(
        self,
        store: EventGroupStore,
        constraints: ConstraintCache,
        *,
        kept: LiveValue[KeptRuns],
        figures: EventFigures,
    ) -> None:
        self._store = store
        self._constraints = constraints
        self._kept = kept
        self._figures = figures
        self._apart = EntriesApart("events")

    async def end_due(self, epoch: str) -> int | None:
        """End some of the due groups, as the leader of `epoch`. Return the milliseconds until the next group is due.
        None: no group waits, or the due groups cannot be ended."""
        due = await self._store.close_due(epoch)
        if not due.found:
            return due.next_ms or None
        definitions = await self._store.definitions_of(due.found)
        endings = []
        for group in due.found:
            if group.id in definitions:
                with self._apart.alone(f"group {group.id}"):
                    endings.append(_ending(group, definitions[group.id]))
        if not endings:
            return None
        end = functools.partial(self._store.end, endings, epoch=epoch, kept=self._kept.current)
        became = await self._constraints.under(end)
        self._figures.groups += became.count("fired")
        return 0


def _ending(group: ClosedGroup, found: FoundDefinition) -> GroupDecision:
    if found.stored is None:
        return GroupDecision(group, found)
    if not found.stored.definition.enabled:
        return GroupDecision(group, found, EventVerdict.SKIPPED, RunReason.PAUSED)
    if group.is_list:
        return GroupDecision(
            group, found, EventVerdict.FIRES, RunReason.COLLECTED, packed_list(group.arguments)
        )
    return GroupDecision(group, found, EventVerdict.FIRES, RunReason.DEBOUNCED, group.arguments[-1])


def packed_list(members: Sequence[bytes]) -> bytes:
    """Join encoded MessagePack values into one encoded list."""
    count = len(members)
    head = bytes((0x90 | count,)) if count < _SHORT else b"\xdc" + count.to_bytes(2, "big")
    return head + b"".join(members)
