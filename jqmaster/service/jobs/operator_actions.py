"""Operators' actions on jobs, one by one and many at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, NoReturn

from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED, Job
from jqmaster.errors import ConflictError, NotUniqueError
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.service.jobs.reader import existing_job, unknown_job
from jqmaster.store.jobs.operator_actions import (
    NOBODY,
    STALE_CONSTRAINTS,
    Changes,
    CountedBy,
    KeyHeld,
    OperatorActionStore,
    Refusal,
    StateConflict,
    ValueErased,
)
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.jobs.records import RecordStore

# Maximum number of jobs that one call of the store cancels. The store does nothing else meanwhile.
MAX_CANCELS: Final = 100
MAX_WAITING_CANCELS: Final = 5_000
# Maximum number of concurrent commands to workers. If it is reached, a worker learns of a cancellation from the answer
# to its next heartbeat.
MAX_COMMANDS: Final = 200
_READ_AGAIN: Final = 3

TellWorker = Callable[[str, str, str], Coroutine[None, None, None]]


class JobActions:
    """Component: acts on jobs for operators. `tell_worker(worker_id, job_id, token)` tells a worker to stop a canceled
    job. If the call fails, the answer to the worker's next heartbeat repeats the command."""

    def __init__(
        self,
        operator_actions: OperatorActionStore,
        records: RecordStore,
        constraints: ConstraintCache,
        *,
        tell_worker: TellWorker,
    ) -> None:
        self._actions_store = operator_actions
        self._records = records
        self._constraints = constraints
        self._tell_worker = tell_worker
        self._cancels: Coalescer[str, tuple[str, str] | Refusal | Exception | None] = Coalescer(
            operator_actions.cancel_each, max_batch=MAX_CANCELS, max_waiting=MAX_WAITING_CANCELS
        )
        self._commands: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Do nothing: no task runs before the first call."""

    async def stop(self) -> None:
        await self._cancels.stop()
        await asyncio.gather(*self._commands, return_exceptions=True)

    async def cancel(self, job_id: str) -> None:
        """Cancel a job. Raise NotFoundError, and ConflictError if the job is over."""
        if not is_id(job_id):
            raise unknown_job(job_id)
        # Concurrent calls share a round trip and a wait for the disk.
        end = await self._cancels.submit(job_id)
        if isinstance(end, Exception):
            raise end
        if isinstance(end, Refusal):
            try:
                end.throw()
            except KeyError:
                raise unknown_job(job_id) from None
            except StateConflict as exc:
                _raise_conflict(exc, "be canceled")
        self._command_stop(end, job_id)

    async def cancel_all(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Cancel each job separately, and return for each whether it was canceled. The IDs must be valid."""
        ends = await self._actions_store.cancel_all(job_ids, counted_by)
        for job_id, end in zip(job_ids, ends, strict=True):
            if isinstance(end, tuple):
                self._command_stop(end, job_id)
        return [not isinstance(end, Refusal) for end in ends]

    async def delete_all(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Delete each job separately, and return for each whether it was deleted. The IDs must be valid."""
        return [end is None for end in await self._actions_store.delete_all(job_ids, counted_by)]

    async def run_all_now(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Run each job now, separately, and return for each whether it will run now. The IDs must be valid."""
        return [end is None for end in await self._actions_store.run_all_now(job_ids, counted_by)]

    async def retry_all(self, jobs: Sequence[Job], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Retry each job separately, and return for each whether it was retried. A job that has changed since it was
        read is not retried. The jobs must have been read with their arguments."""

        def retry(some: Sequence[Job], constraints: ConstraintSet) -> Awaitable[list[Refusal | None]]:
            return self._actions_store.retry_all(some, constraints, counted_by)

        return await self._under_constraints(jobs, retry)

    async def patch_all(
        self, jobs: Sequence[Job], changes: Changes, counted_by: CountedBy = NOBODY
    ) -> list[bool]:
        """Change each job separately, and return for each whether it was changed. The jobs must have been read with
        their arguments."""

        def change(some: Sequence[Job], constraints: ConstraintSet) -> Awaitable[list[Refusal | None]]:
            return self._actions_store.patch_all(some, changes, constraints, counted_by)

        return await self._under_constraints(jobs, change)

    async def retry(self, job_id: str, *, attempt: int | None = None) -> None:
        """Run a finished job again. `attempt`: the last attempt that the caller knows of. If it is given, a repeated
        call changes nothing.

        Raise:

        * NotFoundError,
        * ConflictError if the job is not over, or has run again since `attempt`,
        * ConflictError with the code `value_erased` if somebody erased a value that the job needs,
        * NotUniqueError if another job holds its uniqueness key.
        """

        async def again(job_id: str) -> None:
            for _ in range(_READ_AGAIN):
                job = await existing_job(self._records, job_id)
                if attempt is not None and job.attempt != attempt:
                    raise ConflictError(
                        f"the job has had {job.attempt} attempts, not {attempt}: it was retried before",
                        code="retried_before",
                    )
                try:
                    return await self._constraints.under(
                        lambda constraints, job=job: self._actions_store.retry(job, constraints)  # type: ignore[misc]
                    )
                except StateConflict as exc:
                    if exc.state not in FINISHED:
                        raise
                    # The job ended, or ran again, between the read and the write.
            raise StateConflict(job.state)

        await self._change_job(again, job_id, "be retried")

    async def run_now(self, job_id: str) -> None:
        """Run a waiting job now. Raise NotFoundError, and ConflictError if the job does not wait."""
        await self._change_job(self._actions_store.run_now, job_id, "be run now")

    async def delete(self, job_id: str) -> None:
        """Delete a job. Raise NotFoundError, and ConflictError if the job is running."""
        await self._change_job(self._actions_store.delete, job_id, "be deleted")

    async def patch(self, job_id: str, changes: Changes) -> None:
        """Change a waiting job. Raise NotFoundError, and ConflictError if the job does not wait."""

        async def change(known_id: str) -> None:
            job = await existing_job(self._records, known_id)
            await self._constraints.under(
                lambda constraints: self._actions_store.patch(job, changes, constraints)
            )

        await self._change_job(change, job_id, "be changed")

    async def _change_job(self, change: Callable[[str], Awaitable[None]], job_id: str, what: str) -> None:
        if not is_id(job_id):
            raise unknown_job(job_id)
        try:
            await change(job_id)
        except KeyError:
            raise unknown_job(job_id) from None
        except StateConflict as exc:
            _raise_conflict(exc, what)
        except ValueErased:
            raise ConflictError(
                "a value of its argument or headers was erased, so the job cannot run again; enqueue a new job",
                code="value_erased",
            ) from None
        except KeyHeld as exc:
            raise NotUniqueError(
                f"job {exc.holder} holds the uniqueness key of this job", exc.holder
            ) from None

    async def _under_constraints(
        self,
        jobs: Sequence[Job],
        act: Callable[[Sequence[Job], ConstraintSet], Awaitable[list[Refusal | None]]],
    ) -> list[bool]:
        """Run `act` on jobs under the current constraints. If the constraints have changed meanwhile, repeat it for the
        jobs that were matched against the older ones. Return for each job whether `act` succeeded."""
        ends: dict[str, bool] = {}

        async def some(constraints: ConstraintSet) -> None:
            todo = [job for job in jobs if job.id not in ends]
            for job, end in zip(todo, await act(todo, constraints), strict=True):
                if end is None or end.word != STALE_CONSTRAINTS:
                    ends[job.id] = end is None
            if len(ends) < len(jobs):
                raise StaleConstraints

        await self._constraints.under(some)
        return [ends[job.id] for job in jobs]

    def _command_stop(self, claim: tuple[str, str] | None, job_id: str) -> None:
        # If `MAX_COMMANDS` is reached, the worker learns of the cancellation from the answer to its next heartbeat.
        if claim is None or len(self._commands) >= MAX_COMMANDS:
            return
        worker_id, token = claim
        command = asyncio.create_task(self._tell_worker(worker_id, job_id, token))
        self._commands.add(command)
        command.add_done_callback(self._commands.discard)


def _raise_conflict(conflict: StateConflict, what: str) -> NoReturn:
    raise ConflictError(f"a {conflict.state} job cannot {what}", code=f"job_{conflict.state}") from None
