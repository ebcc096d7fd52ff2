"""Operators' actions on jobs: cancel, retry, run now, change, delete."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.operations.tally import Tally
from jqmaster.store import codec
from jqmaster.store.jobs.placement import LaneTable, StaleConstraints, lane_of_job, new_extras
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady, SlotsFreed

STALE_CONSTRAINTS: Final = "stale_constraints"
ERASED: Final = "erased"


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to a waiting job; None leaves a field as it is."""

    priority: int | None = None
    run_at_ms: int | None = None
    max_retry: int | None = None
    timeout_ms: int | None = None

    def applied_to(self, job: Job) -> Job:
        """Return the job as it will be after these changes, for matchers."""
        return replace(
            job,
            priority=job.priority if self.priority is None else self.priority,
            max_retry=job.max_retry if self.max_retry is None else self.max_retry,
            timeout_ms=job.timeout_ms if self.timeout_ms is None else self.timeout_ms,
        )


class StateConflict(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """The state of the job does not allow the change."""

    def __init__(self, state: JobState) -> None:
        super().__init__(state)
        self.state = state


class KeyHeld(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """Another job, `holder`, holds the uniqueness key of the job."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class ValueErased(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """Somebody erased a value that the job needs to run."""


@dataclass(frozen=True, slots=True)
class CountedBy:
    """The bulk action that counts a change, in the same step as the change. `is_watched`: the action waits for the end
    of the jobs that it retries.
    """

    action_id: str = ""
    is_watched: bool = False


NOBODY: Final = CountedBy()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a bulk call did not change a job:

    * `unknown`: there is no such job.
    * `state`: the state of the job does not allow the change. The refusal has the state.
    * `not_unique`: another job holds the uniqueness key. The refusal has the ID of that job.
    * `used_up`: the bulk action may change no more jobs.
    * `erased`: a value that the job needs was erased.
    * `stale_constraints`: the caller has to match again and repeat.
    """

    word: str
    state: JobState | None = None
    holder: str = ""

    def throw(self) -> NoReturn:
        """Raise the exception that the call for one job would raise:

        * StateConflict
        * KeyHeld
        * ValueErased
        * KeyError
        * StaleConstraints
        """
        if self.holder:
            raise KeyHeld(self.holder)
        if self.word == STALE_CONSTRAINTS:
            raise StaleConstraints
        if self.state is not None:
            raise StateConflict(self.state)
        if self.word == ERASED:
            raise ValueErased
        raise KeyError


class OperatorActionStore:
    """Jobs of one shard. `tally` counts what the store has confirmed. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def cancel(self, job_id: str) -> tuple[str, str] | None:
        """Cancel a waiting or running job. Return (worker ID, token) if the job was running. Raises StateConflict,
        KeyError.
        """
        (end,) = await self.cancel_all([job_id])
        if isinstance(end, Refusal):
            end.throw()
        return end

    async def cancel_each(self, job_ids: Sequence[str]) -> list[tuple[str, str] | Refusal | Exception | None]:
        """Cancel jobs like `cancel_all`, but return the error of a job in place of its outcome."""
        replies = await self._client.run_each([self._cancel_call(job_id, NOBODY) for job_id in job_ids])
        return [reply if isinstance(reply, Exception) else self._canceled(*reply) for reply in replies]

    async def cancel_all(
        self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY
    ) -> list[tuple[str, str] | Refusal | None]:
        """Cancel each job separately, in one round trip."""
        replies = await self._client.run_all([self._cancel_call(job_id, counted_by) for job_id in job_ids])
        return [self._canceled(word, data) for word, data in replies]

    def _canceled(self, word: str, data: list[Any]) -> tuple[str, str] | Refusal | None:
        if word != "ok":
            return _refusal(word, data)
        worker, token, has_opened, name = data
        if name:
            self._tally.of(name.decode()).canceled += 1
        if has_opened:
            self._shard.leader.wake(JobsReady())
        if not worker:
            return None
        worker_id = codec.id_text(worker)
        self._shard.leader.wake(SlotsFreed(worker_id, 1))
        return worker_id, token.hex()

    def _cancel_call(self, job_id: str, counted_by: CountedBy) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("cancel"),
            (k.job(job_id),),
            (
                self._shard.now_arg,
                k.tag,
                job_id,
                self._shard.wake_channel,
                k.finished_channel,
                counted_by.action_id,
            ),
        )

    async def retry(self, job: Job, constraints: ConstraintSet = NO_CONSTRAINTS) -> None:
        """Make a finished job ready again. `job`: as the caller read it. Raises StateConflict, KeyHeld, ValueErased,
        KeyError, StaleConstraints."""
        _throw_any(await self.retry_all([job], constraints))

    async def retry_all(
        self, jobs: Sequence[Job], constraints: ConstraintSet = NO_CONSTRAINTS, counted_by: CountedBy = NOBODY
    ) -> list[Refusal | None]:
        """Retry each job separately, in one round trip. None: done."""
        extras = await new_extras(self._shard, jobs, constraints)
        return await self._run_each(
            [self._retry_call(job, constraints, counted_by, extras.get(job.id, b"")) for job in jobs]
        )

    def _retry_call(
        self, job: Job, constraints: ConstraintSet, counted_by: CountedBy, extras: bytes
    ) -> ScriptCall:
        k = self._keys
        lane = lane_of_job(constraints, job)
        entry = codec.encode_attempt(job, "success", "", None) if job.state is JobState.SUCCEEDED else b""
        return ScriptCall(
            load("retry"),
            (
                k.job(job.id),
                k.result(job.id),
                k.results,
                k.expiring,
                k.rules,
                k.history(job.id),
            ),
            (
                self._shard.now_arg,
                k.tag,
                job.id,
                self._shard.wake_channel,
                constraints.edition,
                LaneTable(lane).packed(),
                entry,
                job.finished_at_ms,
                counted_by.action_id,
                int(counted_by.is_watched),
                extras,
            ),
        )

    async def run_now(self, job_id: str) -> None:
        """Make a scheduled or retrying job ready at once. Raises StateConflict, KeyError."""
        _throw_any(await self.run_all_now([job_id]))

    async def run_all_now(
        self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY
    ) -> list[Refusal | None]:
        """Run each job now, separately, in one round trip. None: done."""
        k = self._keys
        return await self._run_each(
            [
                ScriptCall(
                    load("run_now"),
                    (k.job(job_id),),
                    (k.tag, job_id, self._shard.wake_channel, counted_by.action_id),
                )
                for job_id in job_ids
            ]
        )

    async def patch(self, job: Job, changes: Changes, constraints: ConstraintSet = NO_CONSTRAINTS) -> None:
        """Change a waiting job. `job`: as the caller read it. Raises StateConflict, KeyError, StaleConstraints."""
        _throw_any(await self.patch_all([job], changes, constraints))

    async def patch_all(
        self,
        jobs: Sequence[Job],
        changes: Changes,
        constraints: ConstraintSet = NO_CONSTRAINTS,
        counted_by: CountedBy = NOBODY,
    ) -> list[Refusal | None]:
        """Patch each job separately, in one round trip. None: done."""
        changed = [changes.applied_to(job) for job in jobs]
        extras = await new_extras(self._shard, changed, constraints)
        return await self._run_each(
            [self._patch_call(job, changes, constraints, counted_by, extras.get(job.id, b"")) for job in jobs]
        )

    def _patch_call(
        self, job: Job, changes: Changes, constraints: ConstraintSet, counted_by: CountedBy, extras: bytes
    ) -> ScriptCall:
        k = self._keys
        lane = lane_of_job(constraints, changes.applied_to(job))
        given = (changes.priority, changes.run_at_ms, changes.max_retry, changes.timeout_ms)
        return ScriptCall(
            load("patch"),
            (k.job(job.id), k.rules),
            (self._shard.now_arg, k.tag, job.id, self._shard.wake_channel, constraints.edition,
             LaneTable(lane).packed(), *("" if value is None else value for value in given),
             counted_by.action_id, extras),
        )  # fmt: skip

    async def delete(self, job_id: str) -> None:
        """Remove a job that is not running, or that was set aside. Raises StateConflict, KeyError."""
        _throw_any(await self.delete_all([job_id]))

    async def delete_all(
        self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY
    ) -> list[Refusal | None]:
        """Delete each job separately, in one round trip. None: done."""
        return await self._run_each([self._delete_call(job_id, counted_by) for job_id in job_ids])

    def _delete_call(self, job_id: str, counted_by: CountedBy) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("delete"),
            (
                k.job(job_id),
                k.history(job_id),
                k.result(job_id),
                k.damaged,
                k.results,
                k.expiring,
            ),
            (self._shard.now_arg, k.tag, job_id, self._shard.wake_channel, counted_by.action_id),
        )

    async def _run_each(self, calls: Sequence[ScriptCall]) -> list[Refusal | None]:
        replies = await self._client.run_all(calls)
        ends = [None if word == "ok" else _refusal(word, data) for word, data in replies]
        if None in ends:
            self._shard.leader.wake(JobsReady())
            self._shard.leader.wake(JobDelayed())
        return ends


def _refusal(word: str, data: list[Any]) -> Refusal:
    match word:
        case "stale_constraints":
            return Refusal(STALE_CONSTRAINTS)
        case "state":
            return Refusal("state", codec.state_of(data[0]))
        case "not_unique":
            return Refusal("not_unique", holder=data[0].decode())
        case "used_up" | "erased":
            return Refusal(word)
        case _:
            return Refusal("unknown")


def _throw_any(ends: Sequence[Refusal | None]) -> None:
    for end in ends:
        if end:
            end.throw()
