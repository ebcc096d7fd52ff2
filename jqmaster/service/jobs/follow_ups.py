"""Follow-ups: work that must be done some time after a job has changed."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import EntriesApart
from jqmaster.store.jobs.follow_ups import PER_READ, FollowUp, FollowUpStore

logger = logging.getLogger(__name__)

# Carries out entries of one kind, as the leader of an epoch. Takes the subjects of the entries, such as job IDs.
# Returns the subjects to carry out again, because they failed or have more to do. May be called again for finished
# subjects.
CarryOut = Callable[[Sequence[str], str], Awaitable[Sequence[str]]]


class FollowUps:
    """Carries out follow-ups. `kinds` maps each kind of entry to the function that carries it out. Entries of kinds
    that this release does not know are left for other masters."""

    def __init__(self, store: FollowUpStore, kinds: Mapping[str, CarryOut]) -> None:
        self._store = store
        self._kinds: Final = dict(kinds)
        self._apart = EntriesApart("follow-ups")

    async def carry_out(self, epoch: str) -> bool:
        """Carry out the oldest entries, as the leader of `epoch`. Return whether there may be more to do immediately.
        If no entry could be carried out, raise what the store raised."""
        entries = await self._store.oldest()
        if not entries:
            return False
        done: list[FollowUp] = []
        postponed: list[FollowUp] = []
        failure: JqmasterError | None = None
        has_more = False
        for kind in dict.fromkeys(entry.kind for entry in entries):
            of_kind = [entry for entry in entries if entry.kind == kind]
            if kind not in self._kinds:
                logger.error("%d follow-ups of kind %s wait for a master that knows them", len(of_kind), kind)
                postponed += of_kind
                continue
            again: set[str] | None = None
            try:
                # If one kind fails, continue with the others.
                with self._apart.alone(kind):
                    again = set(await self._kinds[kind]([entry.subject for entry in of_kind], epoch))
            except JqmasterError as exc:
                failure = exc
            if again is None:
                postponed += of_kind
                continue
            done += [entry for entry in of_kind if entry.subject not in again]
            postponed += [entry for entry in of_kind if entry.subject in again]
            # Do not report more work if entries only failed. Otherwise, they would be repeated at once.
            has_more = has_more or bool(again) or len(entries) == PER_READ
        await self._store.end(epoch, done, postponed)
        if failure:
            raise failure
        return has_more
