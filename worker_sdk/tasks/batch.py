"""Batches: jobs that belong together, and the jobs that start when they are over."""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from worker_sdk.errors import WorkerSdkError
from worker_sdk.pusher.ids import new_job_id
from worker_sdk.pusher.jobs import STORED_OPTIONS, JobLike, JobMap, made_job, wire_options
from worker_sdk.suggesting import suggesting
from worker_sdk.tasks.client import outbox_pushers, pushers_for
from worker_sdk.tasks.task import TaskJob

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.tasks.collection import Tasks

# The fields of a callback that the master accepts. The ID is not among these fields, because the master generates it.
_CALLBACK_FIELDS: Final = frozenset({"name", "argument", "delay", *STORED_OPTIONS})


class Batch:
    """Jobs that belong together. A `with` block makes the batch at its start, and seals the batch at its end:

        with Batch(on_success=publish.to_job(album=7)) as batch:
            for photo_id in range(20):
                make_thumbnail.using(batch=batch).enqueue(photo_id)

    An exception in the block cancels the batch. `async with` does the same without blocking the event loop.

    * `on_success`: a job that starts when all members have succeeded or were discarded, even if some failed first and
      were retried.
    * `on_complete`: a job that starts when all members are over, however they ended.
    * `on_failure`: a job that starts when the first member fails for good.
    * `description`, `tags`: texts for people.
    * `batch`: the batch that this batch is a member of, or its ID.
    * `expires`: time from now, by the clock of the master. If the batch is not complete then, it is canceled.
    * `expires_at`: a time, with a time zone, instead of `expires`.
    * `id`: a UUID that you choose. Default: a new one.
    * `tasks`: the `Tasks` of the members, if it has a `master` of its own. The batch is made there. Default: the
      `Tasks` of the callbacks.

    A callback is a job from `to_job` of a task or from `make_job`, or a map of the fields of a job. Each callback
    starts at most once. Batches use the same clients as tasks: those of `configure`, or, inside a job, those of the
    worker. An outbox cannot hold batches.
    """

    @suggesting("a batch")
    def __init__(
        self,
        *,
        on_success: JobLike | None = None,
        on_complete: JobLike | None = None,
        on_failure: JobLike | None = None,
        description: str = "",
        tags: Sequence[str] = (),
        batch: "Batch | str | None" = None,
        expires_at: datetime | str | None = None,
        expires: float | timedelta | None = None,
        id: str | None = None,  # noqa: A002 - the name that jobs have
        tasks: "Tasks | None" = None,
    ) -> None:
        self.id = id or new_job_id()
        given = {"on_success": on_success, "on_complete": on_complete, "on_failure": on_failure}
        owners = [tasks, *(job.task.tasks for job in given.values() if isinstance(job, TaskJob) and job.task)]
        self._own = next((own for one in owners if one is not None and (own := one.own_pushers())), None)
        callbacks = {name: _callback(job) for name, job in given.items() if job is not None}
        expiry = wire_options({"expires_at": expires_at, "expires": expires})
        others = {"description": description, "tags": list(tags), **expiry}
        self._fields: Mapping[str, Any] = {
            "id": self.id,
            **callbacks,
            **{name: value for name, value in others.items() if value},
            **({} if batch is None else {"batch": id_of_batch(batch)}),
        }

    def __repr__(self) -> str:
        return f"<batch {self.id}>"

    def to_wire(self) -> str:
        """Return the batch in the wire form of the option `batch`."""
        return self.id

    def __enter__(self) -> Self:
        self.create()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if exc is None:
            self.seal()
            return
        with _telling(exc):
            self.cancel()

    async def __aenter__(self) -> Self:
        await self.acreate()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if exc is None:
            await self.aseal()
            return
        with _telling(exc):
            await self.acancel()

    def create(self) -> None:
        """Make the batch, and leave it open for jobs. Another call changes nothing while the master still has the
        batch. The master deletes a batch 7 days (`batch_retention_s`) after it is complete. A call after that makes a
        new batch.

        Raise RefusedError if the master refuses the batch, and UnavailableError if no master answers. For example:

            batch = Batch(description="thumbnails of May")
            batch.create()
        """
        self._pushers().sync_pusher().create_batch(self._fields)

    async def acreate(self) -> None:
        """Make the batch, and leave it open for jobs. Another call changes nothing while the master still has the
        batch. The master deletes a batch 7 days (`batch_retention_s`) after it is complete. A call after that makes
        a new batch. `acreate` does not block the event loop.

        Raise RefusedError if the master refuses the batch, and UnavailableError if no master answers. For example:

            batch = Batch(description="thumbnails of May")
            await batch.acreate()
        """
        await self._pushers().pusher().create_batch(self._fields)

    def add(self, jobs: Iterable[JobLike]) -> list[str]:
        """Enqueue jobs as members of the batch, and return their IDs in order.

        * `jobs`: as for `Pusher.enqueue_many`.

        Raise RefusedError if the master refuses a job or the batch accepts no more jobs, and UnavailableError if no
        master answers. For example:

            batch.add(make_thumbnail.to_job(number) for number in range(20))
        """
        return self._pushers().sync_pusher().enqueue_many(self._members(jobs))

    async def aadd(self, jobs: Iterable[JobLike] | AsyncIterable[JobLike]) -> list[str]:
        """Enqueue jobs as members of the batch, and return their IDs in order. `aadd` does not block the event loop.

        * `jobs`: as for `Pusher.enqueue_many`.

        Raise RefusedError if the master refuses a job or the batch accepts no more jobs, and UnavailableError if no
        master answers. For example:

            await batch.aadd(make_thumbnail.to_job(number) for number in range(20))
        """
        pusher = self._pushers().pusher()
        if isinstance(jobs, AsyncIterable):
            return await pusher.enqueue_many(self._amembers(jobs))
        return await pusher.enqueue_many(self._members(jobs))

    def seal(self) -> None:
        """Seal the batch: from now on, only its own members may add jobs. The batch is complete when all members are
        over.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            batch.seal()
        """
        self._pushers().sync_pusher().seal_batch(self.id)

    async def aseal(self) -> None:
        """Seal the batch: from now on, only its own members may add jobs. The batch is complete when all members are
        over. `aseal` does not block the event loop.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            await batch.aseal()
        """
        await self._pushers().pusher().seal_batch(self.id)

    def cancel(self) -> None:
        """Cancel the batch: it accepts no more jobs, and its unfinished jobs are canceled. `on_success` does not start.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            batch.cancel()
        """
        self._pushers().sync_pusher().cancel_batch(self.id)

    async def acancel(self) -> None:
        """Cancel the batch: it accepts no more jobs, and its unfinished jobs are canceled. `on_success` does not start.
        `acancel` does not block the event loop.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            await batch.acancel()
        """
        await self._pushers().pusher().cancel_batch(self.id)

    def status(self) -> Mapping[str, Any]:
        """Return the batch as the master shows it: a map with `state`, `counts`, `callbacks` and so on (BatchView in
        the OpenAPI document).

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            shown = batch.status()
            print(shown["state"], shown["counts"])
        """
        return self._pushers().sync_pusher().batch_status(self.id)

    async def astatus(self) -> Mapping[str, Any]:
        """Return the batch as the master shows it: a map with `state`, `counts`, `callbacks` and so on (BatchView in
        the OpenAPI document). `astatus` does not block the event loop.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            shown = await batch.astatus()
            print(shown["state"], shown["counts"])
        """
        return await self._pushers().pusher().batch_status(self.id)

    def retry(self) -> None:
        """Retry the members that have failed. `on_success` starts if all members have then succeeded.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            batch.retry()
        """
        self._pushers().sync_pusher().retry_batch(self.id)

    async def aretry(self) -> None:
        """Retry the members that have failed. `on_success` starts if all members have then succeeded. `aretry` does not
        block the event loop.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers. For example:

            await batch.aretry()
        """
        await self._pushers().pusher().retry_batch(self.id)

    def _pushers(self) -> "Pushers":
        if outbox_pushers.get() is not None:
            # The outbox pushes its jobs after the commit, when the batch is already sealed.
            raise TypeError("a batch cannot be made in the transaction of an outbox")
        return pushers_for(self._own)

    def _members(self, jobs: Iterable[JobLike]) -> Iterator[JobMap]:
        for job in jobs:
            yield self._member(job)

    async def _amembers(self, jobs: AsyncIterable[JobLike]) -> AsyncIterator[JobMap]:
        async for job in jobs:
            yield self._member(job)

    def _member(self, given: JobLike) -> JobMap:
        job = made_job(given)
        if job.setdefault("batch", self.id) != self.id:
            raise ValueError(f"a job of batch {job['batch']} cannot be added to batch {self.id}")
        return job


def id_of_batch(batch: "Batch | str") -> str:
    """Return the ID of a batch that is given as an object or by its ID."""
    return batch if isinstance(batch, str) else batch.id


def _callback(given: JobLike) -> dict[str, Any]:
    fields = {name: value for name, value in made_job(given).items() if name != "id"}
    if others := fields.keys() - _CALLBACK_FIELDS:
        raise TypeError(f"a callback of a batch cannot have {', '.join(sorted(others))}")
    if not isinstance(given, TaskJob):
        return fields
    fields["argument"] = given.argument_for_any_id()
    # Keep the task with the job, because the test kit runs it.
    job: TaskJob[Any] = TaskJob(fields)
    job.task, job.arguments, job.options = given.task, given.arguments, given.options
    return job


@contextlib.contextmanager
def _telling(exc: BaseException) -> Iterator[None]:
    """Surround the cancellation of a batch after its block has raised an exception. If the cancellation fails, add a
    note to that exception."""
    try:
        yield
    except WorkerSdkError as failure:
        # The batch is still open, so the master cancels it when it expires.
        exc.add_note(f"the batch could not be canceled: {failure}")
