"""Clients of tasks inside a transaction with an outbox. They write rows instead of calling a master."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.enqueueing import around_all, around_one
from worker_sdk.outbox.base import chain_of_this_moment, in_pages
from worker_sdk.outbox.rows import PAGE, body_of
from worker_sdk.pusher.jobs import JobLike, JobMap, make_job
from worker_sdk.tasks.client import pushers_for
from worker_sdk.transport.namespaces import check_name

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox

# Inserts rows into the open transaction: pairs (job ID, body), and the destination of all of them.
Insert = Callable[[Sequence[tuple[str, bytes]], "str | None"], None]
AsyncInsert = Callable[[Sequence[tuple[str, bytes]], "str | None"], Awaitable[None]]

_NEEDS_ASYNC: Final = "this transaction is asynchronous: use aenqueue or amany, or `await outbox.aadd(...)`"


class Writer:
    """The sync and the async client. `insert` is for sync sessions, and `ainsert` for async ones. `namespace`: where
    the jobs go. None: the namespace of the outbox."""

    def __init__(
        self,
        outbox: "Outbox",
        *,
        insert: Insert | None = None,
        ainsert: AsyncInsert | None = None,
        namespace: str | None = None,
    ) -> None:
        self._outbox = outbox
        self.namespace = namespace
        self._insert = insert
        self._ainsert = ainsert

    def pusher(self) -> "_AsyncClient":
        return _AsyncClient(self)

    def sync_pusher(self) -> "_Client":
        return _Client(self)

    def in_namespace(self, namespace: str) -> "Writer":
        """Return the clients that write rows for another namespace at the same masters. Raise ValueError if the name is
        invalid."""
        check_name(namespace)
        return Writer(self._outbox, insert=self._insert, ainsert=self._ainsert, namespace=namespace)

    def write(self, jobs: Iterable[JobLike]) -> list[str]:
        """Write the rows of jobs, and return their IDs in order."""
        if self._insert is None:
            raise TypeError(_NEEDS_ASYNC)
        ids: list[str] = []
        chain = chain_of_this_moment()
        for page in in_pages(map(_map_of, jobs), PAGE):
            with around_all(chain, page) as sent:
                self._insert(*self._rows(sent))
            ids += [job["id"] for job in sent]
        return ids

    async def awrite(self, jobs: Iterable[JobLike] | AsyncIterable[JobLike]) -> list[str]:
        """Write the rows of jobs, and return their IDs in order. `awrite` does not block the event loop."""
        ids: list[str] = []
        chain = chain_of_this_moment()
        page: list[JobMap] = []

        async def flush() -> None:
            with around_all(chain, page) as sent:
                await self._put(*self._rows(sent))
            ids.extend(job["id"] for job in sent)
            page.clear()

        if isinstance(jobs, AsyncIterable):
            async for job in jobs:
                page.append(_map_of(job))
                if len(page) == PAGE:
                    await flush()
        else:
            for job in jobs:
                page.append(_map_of(job))
                if len(page) == PAGE:
                    await flush()
        if page:
            await flush()
        return ids

    def write_one(self, job: JobMap) -> str:
        """Write the row of a job, and return its ID."""
        if self._insert is None:
            raise TypeError(_NEEDS_ASYNC)
        with around_one(chain_of_this_moment(), job) as sent:
            self._insert(*self._rows([sent]))
        return str(sent["id"])

    async def awrite_one(self, job: JobMap) -> str:
        """Write the row of a job, and return its ID. `awrite_one` does not block the event loop."""
        with around_one(chain_of_this_moment(), job) as sent:
            await self._put(*self._rows([sent]))
        return str(sent["id"])

    async def _put(self, rows: Sequence[tuple[str, bytes]], destination: str | None) -> None:
        if self._ainsert is not None:
            await self._ainsert(rows, destination)
        elif self._insert is not None:
            self._insert(rows, destination)

    def _rows(self, jobs: Iterable[Mapping[str, Any]]) -> tuple[list[tuple[str, bytes]], str | None]:
        """Return the rows of jobs, and their destination."""
        ttl_s, destination = self._outbox.key_ttl_s, self._outbox.destination(self.namespace)
        return [(str(job["id"]), body_of(job, ttl_s, destination)) for job in jobs], destination


def _map_of(job: JobLike) -> JobMap:
    return make_job(*job) if isinstance(job, tuple) else _with_id(job)


def _with_id(job: Mapping[str, Any]) -> JobMap:
    # Do not copy the job of a task: middleware reads the original.
    return job if isinstance(job, dict) and "id" in job else make_job(**job)


class _Client:
    """A `SyncPusher` that writes rows. Reads go to a master, which has the jobs only after the commit."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:
        return self.enqueue_job(make_job(name, argument, **options))

    def enqueue_job(self, job: JobMap) -> str:
        return self._writer.write_one(job)

    def enqueue_many(self, jobs: Iterable[JobLike]) -> list[str]:
        return self._writer.write(jobs)

    def result(self, job_id: str, *, wait: float = 0.0) -> Any:
        return _left_out(self._writer).sync_pusher().result(job_id, wait=wait)

    def status(self, job_id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = _left_out(self._writer).sync_pusher().status(job_id)
        return found

    def cancel(self, job_id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = _left_out(self._writer).sync_pusher().cancel(job_id)
        return found


class _AsyncClient:
    """A `Pusher` that writes rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:
        return await self.enqueue_job(make_job(name, argument, **options))

    async def enqueue_job(self, job: JobMap) -> str:
        return await self._writer.awrite_one(job)

    async def enqueue_many(self, jobs: Iterable[JobLike] | AsyncIterable[JobLike]) -> list[str]:
        return await self._writer.awrite(jobs)

    async def result(self, job_id: str, *, wait: float = 0.0) -> Any:
        return await _left_out(self._writer).pusher().result(job_id, wait=wait)

    async def status(self, job_id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await _left_out(self._writer).pusher().status(job_id)
        return found

    async def cancel(self, job_id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await _left_out(self._writer).pusher().cancel(job_id)
        return found


def _left_out(writer: Writer) -> Any:
    return pushers_for(None, namespace=writer.namespace, is_outbox_left_out=True)
