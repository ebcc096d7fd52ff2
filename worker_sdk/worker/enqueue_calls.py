"""Calls of a handler's context that enqueue further jobs."""

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

if TYPE_CHECKING:  # these are slow to import, and modules of handlers do not need them
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.pusher.client import Pusher
    from worker_sdk.pusher.jobs import JobLike, JobOptions
    from worker_sdk.pusher.sync_client import SyncPusher

    class JobId(str):
        """The result of `ctx.enqueue`: the ID, which an async handler awaits."""

        def __await__(self) -> Generator[Any, None, str]: ...

    class JobIds(list[str]):
        """The result of `ctx.enqueue_many`: the IDs, which an async handler awaits."""

        def __await__(self) -> Generator[Any, None, list[str]]: ...


class EnqueueCalls:
    """The part of a `Context` that enqueues jobs. With `once`, a repeated attempt does not enqueue the same jobs
    again."""

    __slots__ = ("_once_calls", "_pushers", "job_id")

    job_id: str
    _pushers: "Pushers"
    _once_calls: int

    @property
    def pusher(self) -> "Pusher":
        """A `Pusher` to the worker's masters, for `async def` handlers. It repeats a call for up to 60 s."""
        return self._pushers.pusher()

    @property
    def sync_pusher(self) -> "SyncPusher":
        """A `SyncPusher` to the worker's masters, for `def` handlers. It repeats a call for up to 60 s."""
        return self._pushers.sync_pusher()

    def enqueue(
        self, name: str, argument: Any = None, *, once: bool = False, **options: "Unpack[JobOptions]"
    ) -> "JobId":
        """Enqueue a job from inside a job, as `Pusher.enqueue` does, and return its ID.

        * `name`, `argument`, `options`: as for `Pusher.enqueue`.
        * `once`: derive the ID from this job, and from the number of earlier calls with `once` in this attempt. So a
          repeated attempt that enqueues the same jobs in the same order creates none of them again. This works for as
          long as the masters keep the jobs: succeeded jobs for `retention_succeeded_s` (1 h by default). If the next
          attempt may begin later, give each job a `key`, too, which is remembered for `key_ttl`. A different job at the
          same position is refused (`id_taken`).

        Await it in an `async def` handler; in a `def` handler it blocks.

        Raise RefusedError if the master refuses the job, and UnavailableError if no master answers within 60 s. For
        example:

            job_id = ctx.enqueue("thumbnail.make", {"photo_id": 42}, once=True)
        """
        if once:
            options["id"] = self._next_once_id(options)
        if is_in_loop():
            return cast("JobId", self._pushers.pusher().enqueue(name, argument, **options))
        # Call from this thread, and not from the worker's event loop: an isolated handler has no such loop, and a busy
        # loop would delay the call.
        return cast("JobId", self._pushers.sync_pusher().enqueue(name, argument, **options))

    def enqueue_sync(
        self, name: str, argument: Any = None, *, once: bool = False, **options: "Unpack[JobOptions]"
    ) -> str:
        """Enqueue a job as `enqueue` does, but always block, even in an event loop. Return its ID.

        * `name`, `argument`, `once`, `options`: as for `enqueue`.

        Raise RefusedError if the master refuses the job, and UnavailableError if no master answers within 60 s. For
        example:

            job_id = ctx.enqueue_sync("thumbnail.make", {"photo_id": 42})
        """
        if once:
            options["id"] = self._next_once_id(options)
        return self._pushers.sync_pusher().enqueue(name, argument, **options)

    def enqueue_many(self, jobs: "Iterable[JobLike]", *, once: bool = False) -> "JobIds":
        """Enqueue any number of jobs from inside a job, as `Pusher.enqueue_many` does, and return their IDs in order.

        * `jobs`: maps with the arguments of `make_job`, or pairs `(name, argument)`.
        * `once`: as for `enqueue`, for each of the jobs.

        Await it in an `async def` handler; in a `def` handler it blocks.

        Raise RefusedError if the master refuses a job, and UnavailableError if no master answers within 60 s. For
        example:

            ids = ctx.enqueue_many([("thumbnail.make", {"photo_id": number}) for number in range(3)], once=True)
        """
        given = map(self._once, jobs) if once else jobs
        if is_in_loop():
            return cast("JobIds", self._pushers.pusher().enqueue_many(given))
        return cast("JobIds", self._pushers.sync_pusher().enqueue_many(given))

    def _once(self, job: "JobLike") -> "JobLike":
        fields = {"name": job[0], "argument": job[1]} if isinstance(job, tuple) else dict(job)
        return {**fields, "id": self._next_once_id(fields)}

    def _next_once_id(self, options: Mapping[str, Any]) -> str:
        if options.get("id") is not None:
            raise ValueError("once sets the ID of the job: do not pass id")
        from worker_sdk.worker.once import derived_id

        number, self._once_calls = self._once_calls, self._once_calls + 1
        return derived_id(self.job_id, number)


def is_in_loop() -> bool:
    """Return whether the caller runs in an event loop, and must not block."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
