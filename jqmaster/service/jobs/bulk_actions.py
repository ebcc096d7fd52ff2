"""Actions of operators on many jobs. The leader carries them out (`runtime/duties/bulk_actions.py`)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.jobs.bulk_action import ADMITTED, ActionProgress, BulkAction
from jqmaster.domain.jobs.job import ActionKind, Job
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.errors import ConflictError, FieldError, InvalidError, NotFoundError, RateLimitedError
from jqmaster.store.health.inspect import MAX_EXAMPLES, Inspector, SelectionCount
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.operations.bulk_actions import MAX_KEPT, MAX_RUNNING, ActionStore, StoredAction

# Maximum time for counting the jobs that a filter selects.
COUNT_WITHIN_S: Final = 1.0
RETRY_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """A requested action on jobs, selected by either `filter` or `ids`, never both."""

    kind: ActionKind
    filter: JobFilter | None
    ids: Sequence[str] | None
    priority: int | None = None
    rate_per_s: float | None = None
    stop_at_failure_share: float | None = None
    at_most: int | None = None


class BulkActionService:
    """Begins, reads and cancels actions on many jobs. `store_time_ms` returns the store's time. Methods raise what
    `StoreClient.run` raises."""

    def __init__(
        self,
        actions: ActionStore,
        records: RecordStore,
        inspector: Inspector,
        clock: Clock,
        store_time_ms: Callable[[], Awaitable[int]],
    ) -> None:
        self._actions = actions
        self._records = records
        self._inspector = inspector
        self._clock = clock
        self._store_time_ms = store_time_ms

    async def preview(self, requested: RequestedAction) -> SelectionCount:
        """Return the number of jobs that the action would change now, with some of these jobs. Raise InvalidError."""
        return await self._count(await self._action(requested, ""))

    async def begin(self, requested: RequestedAction, who: str) -> StoredAction:
        """Store the action. The leader begins to carry it out at once. Raise:

        * InvalidError,
        * ConflictError if more jobs match than the action may change,
        * RateLimitedError while too many actions are running.
        """
        action = await self._action(requested, who)
        counted = await self._count(action)
        if action.at_most is not None and counted.count > action.at_most:
            least = "" if counted.is_exact else "at least "
            raise ConflictError(
                f"the action would now change {least}{counted.count} jobs, and at_most is {action.at_most}; nothing "
                "was changed",
                code="more_than_at_most",
            )
        progress = ActionProgress(matched=counted.count if counted.is_exact else None)
        ids_count = None if action.ids is None else len(action.ids)
        entry = encode_entry(
            who=who,
            action=f"jobs.{action.kind}",
            target=action.id,
            before=None,
            after={**described(action), "ids_count": ids_count, "matched": progress.matched},
        )
        if not await self._actions.put(action, progress, entry):
            raise RateLimitedError(
                f"{MAX_RUNNING} actions are already running; wait until one ends, or cancel one",
                code="too_many_actions",
                retry_after_s=RETRY_AFTER_S,
            )
        return StoredAction(action, ids_count, progress, None)

    async def all(self) -> list[StoredAction]:
        """Return the running actions and those that ended in the last days, newest first."""
        return await self._actions.newest(MAX_KEPT)

    async def get(self, action_id: str) -> StoredAction:
        """Return an action. Raise NotFoundError."""
        stored = await self._actions.get(action_id) if is_id(action_id) else None
        if stored is None:
            raise NotFoundError(f"no action {action_id[:64]}", code="unknown_action")
        return stored

    async def cancel(self, action_id: str, who: str) -> StoredAction:
        """Cancel an action before its next step. The changes that it has made remain. Raise NotFoundError, and
        ConflictError if the action is over."""
        stored = await self.get(action_id)
        if not await self._actions.cancel(action_id, who):
            raise ConflictError("the action is over", code="action_over")
        return replace(stored, canceled_by=who)

    async def _action(self, requested: RequestedAction, who: str) -> BulkAction:
        state = requested.filter.state if requested.filter is not None else None
        if state is not None and state not in ADMITTED[requested.kind]:
            rule = f"must be one of {', '.join(sorted(ADMITTED[requested.kind]))} for {requested.kind}"
            raise InvalidError(
                f"{requested.kind} does not apply to jobs in state {state}",
                errors=[FieldError(("filter", "state"), rule)],
            )
        return BulkAction(
            id=new_id(),
            kind=requested.kind,
            filter=requested.filter,
            ids=None if requested.ids is None else tuple(dict.fromkeys(requested.ids)),
            by=who,
            created_at_ms=await self._store_time_ms(),
            priority=requested.priority,
            rate_per_s=requested.rate_per_s,
            stop_at_failure_share=requested.stop_at_failure_share,
            at_most=requested.at_most,
        )

    async def _count(self, action: BulkAction) -> SelectionCount:
        if action.filter is None:
            found = await self._records.get_without_argument(action.ids or ())
            jobs = [job for job in found.values() if action.touches(job)]
            return SelectionCount(len(jobs), True, jobs[:MAX_EXAMPLES])
        is_late_at_s = self._clock.monotonic_s() + COUNT_WITHIN_S

        def touches(job: Job) -> bool:
            return action.touches(job)

        return await self._inspector.count(
            action.filter,
            action.states,
            touches=touches if action.kind is ActionKind.SET_PRIORITY else None,
            is_late=lambda: self._clock.monotonic_s() >= is_late_at_s,
        )


def described(action: BulkAction) -> dict[str, Any]:
    """Return the request for the audit log."""
    asked = {
        "filter": None if action.filter is None else action.filter.document(),
        "priority": action.priority,
        "rate_per_s": action.rate_per_s,
        "stop_at_failure_share": action.stop_at_failure_share,
        "at_most": action.at_most,
    }
    return {field: value for field, value in asked.items() if value is not None}
