"""`Outbox`: the base class of the outboxes of SQLAlchemy and Django."""

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.environment import configuration, masters_or_default, token_or_default
from worker_sdk.errors import WorkerSdkError
from worker_sdk.loading import OF_TASKS, load
from worker_sdk.outbox.rows import OutboxStats, Rows, to_people
from worker_sdk.outbox.steps import Done, drain, drain_own
from worker_sdk.tasks.client import outbox_pushers, pushers_for, substitutes
from worker_sdk.worker.context import pushers_of, running_job

if TYPE_CHECKING:
    from worker_sdk.enqueueing import EnqueueChain
    from worker_sdk.outbox.steps import Steps
    from worker_sdk.pusher.by_process import LazyPushers, Pushers

logger = logging.getLogger("worker_sdk.outbox")

_PUT_OFF_MS: Final = 5_000
# How long a push right after a commit may delay the caller. After a failed push, new rows are left to the relay for a
# while.
_MAX_WAIT_S: Final = 2.0
_REST_S: Final = 5.0
_A_DAY: Final = timedelta(days=1)
_NAMESPACE: Final = "namespace:"


class Outbox:
    """The base class of outboxes.

    * `master`: address of the master that gets the jobs, or a list of addresses. Default: as for tasks.
    * `token`: bearer token with the scope `push`. Give it only together with `master`.
    * `lease_s`: time for which a process reserves the rows that it pushes. After a crash, the rows wait until this time
      is over.
    * `key_ttl`: for this time after a push, a repeated push makes no second job, even if the first job has ended. At
      most 30 days. None: for as long as the master keeps the first job.
    * `is_direct`: push right after the commit. Otherwise only the relay pushes.

    For example:

        outbox = SqlAlchemyOutbox(engine, key_ttl=timedelta(days=7))
        print(outbox.stats())
    """

    def __init__(
        self,
        *,
        master: str | Sequence[str] | None = None,
        token: str | None = None,
        lease_s: float = 60.0,
        key_ttl: timedelta | None = _A_DAY,
        is_direct: bool = True,
    ) -> None:
        if token is not None and master is None:
            raise TypeError("give token only together with master")
        if lease_s <= 0:
            raise ValueError("lease_s must be positive")
        self._access = None if master is None else (master, token)
        self.lease_ms = int(lease_s * 1000)
        self.key_ttl_s = None if key_ttl is None else key_ttl.total_seconds()
        self.is_direct = is_direct
        self._own: LazyPushers | None = None
        self._made_for: Any = None
        self._of_worker: weakref.WeakKeyDictionary[Any, LazyPushers] = weakref.WeakKeyDictionary()
        # The monotonic time until which new rows are left to the relay, by destination.
        self._rest_until_s: dict[str | None, float] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self._where()}>"

    def _where(self) -> str:
        """Return where the rows are stored, as text for people."""
        return "a database"

    # --- implemented for each kind of database

    def in_transaction(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work` in a new transaction and return the result."""
        raise NotImplementedError

    is_async = False

    async def ain_transaction(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work` in a new transaction and return the result. `ain_transaction` does not block the event loop."""
        raise NotImplementedError

    def read(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work`, which only reads, and return the result."""
        return self.in_transaction(work)

    async def aread(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work`, which only reads, and return the result. `aread` does not block the event loop."""
        return await self.ain_transaction(work)

    def in_own_transaction(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work` as `in_transaction` does, for pushes and relays. The transaction is separate from those of the
        application.

        For example:

            outbox.in_own_transaction(lambda rows: rows.retry_stuck())
        """
        return self.in_transaction(work)

    def own_read(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work` as `read` does, for pushes and relays.

        For example:

            stats = outbox.own_read(lambda rows: rows.stats())
        """
        return self.read(work)

    # --- for operators

    def stats(self) -> OutboxStats:
        """Return the number of jobs that wait or are stuck, and the age of the oldest.

        For example:

            stats = outbox.stats()
            print(stats.waiting, stats.stuck)
        """
        found: OutboxStats = self.read(lambda rows: rows.stats())
        return found

    async def astats(self) -> OutboxStats:
        """Return the number of jobs that wait or are stuck, and the age of the oldest. `astats` does not block the
        event loop.

        For example:

            stats = await outbox.astats()
            print(stats.waiting, stats.stuck)
        """
        found: OutboxStats = await self.aread(lambda rows: rows.stats())
        return found

    def stuck(self, limit: int = 100) -> list[tuple[str, str]]:
        """Return pairs (job ID, error) of the jobs that were set aside, oldest first.

        * `limit`: maximum number of pairs.

        For example:

            for job_id, error in outbox.stuck(limit=10):
                print(job_id, error)
        """
        found: list[tuple[str, str]] = self.read(lambda rows: rows.stuck(limit))
        return found

    def retry_stuck(self) -> int:
        """Let the relay try to push again the jobs that were set aside, and return their number.

        For example:

            print(f"{outbox.retry_stuck()} jobs are pushed again")
        """
        count: int = self.in_transaction(lambda rows: rows.retry_stuck())
        return count

    def close(self) -> None:
        """Close the connections to masters.

        For example:

            outbox.close()
        """
        for one in (self._own, *self._of_worker.values()):
            if one is not None:
                one.close()
        self._own = None

    async def aclose(self) -> None:
        """Close the connections to masters. `aclose` does not block the event loop.

        For example:

            await outbox.aclose()
        """
        for one in (self._own, *self._of_worker.values()):
            if one is not None:
                await one.stop()
        self._own = None

    # --- for the rest of the package

    def destination(self, namespace: str | None) -> str | None:
        """Return the destination for the rows of a call's jobs. None means the masters and the namespace of this
        outbox.

        `namespace`: the namespace that the call names, if any. Otherwise, a job that another job enqueues goes to that
        job's namespace, even if a relay of another namespace pushes it.
        """
        if namespace is None and self._access is None and (ctx := running_job.get()) is not None:
            from worker_sdk.pusher.by_process import namespace_at

            if ctx.namespace != namespace_at(masters_or_default(None)):
                namespace = ctx.namespace
        return None if namespace is None else f"{_NAMESPACE}{namespace}"

    def initial_lease_ms(self, destination: str | None) -> int:
        """Return the lease of a new row. During the lease, the writer pushes the row. 0: the writer will not push
        it."""
        is_resting = time.monotonic() < self._rest_until_s.get(destination, 0.0)
        return self.lease_ms if self.is_direct and not is_resting else 0

    def own_steps(self, transaction: str, began_s: float) -> "Steps[Done | None]":
        """Return the steps that push a transaction that was just committed.

        `began_s`: the instant of its first row, by the monotonic clock.
        """
        is_over = self._is_lease_over(began_s)
        return drain_own(transaction, self.lease_ms, _PUT_OFF_MS, is_lease_over=is_over)

    def steps_of_many(self, transactions: Sequence[tuple[str, float]]) -> "Iterator[Steps[Done | None]]":
        """Yield the steps that push several committed transactions. Transactions with a current lease are pushed
        together.

        `transactions`: pairs (transaction, instant of its first row by the monotonic clock).
        """
        for is_over, some in groupby(transactions, key=lambda one: self._is_lease_over(one[1])):
            names = [name for name, _ in some]
            if is_over:
                for name in names:
                    yield drain_own(name, self.lease_ms, _PUT_OFF_MS, is_lease_over=True)
            else:
                yield drain(names, names[0], self.lease_ms, _PUT_OFF_MS)

    def _is_lease_over(self, began_s: float) -> bool:
        return time.monotonic() - began_s > self.lease_ms / 2000

    def note(self, done: Done | None) -> None:
        """Record the outcome of a direct push."""
        for destination, failure in done.failures.items() if done is not None else ():
            self._rest_until_s[destination] = time.monotonic() + _REST_S
            logger.warning(
                "outbox: no master accepted jobs%s (%s); they wait for the relay. For %.0f s, new jobs wait, too",
                to_people(destination),
                failure,
                _REST_S,
            )

    def note_error(self, transaction: str) -> None:
        """Log the exception of a direct push. The transaction is committed, so its caller must not see it."""
        logger.exception("outbox: transaction %s could not be pushed; it waits for the relay", transaction)

    def pushers(self, destination: str | None = None) -> "Pushers":
        """Return the clients that push to a destination. They have no middleware, because it already ran when the jobs
        were enqueued. Raise WorkerSdkError if this outbox cannot push there."""
        if destination is None:
            return self._present_pushers()
        if not destination.startswith(_NAMESPACE):
            raise WorkerSdkError(
                f"this outbox does not know the {destination.replace(':', ' ', 1)}: relay the table with the program "
                "that wrote the rows, such as manage.py jq_outbox"
            )
        return self._present_pushers().in_namespace(destination.removeprefix(_NAMESPACE))

    def _present_pushers(self) -> "Pushers":
        if substitutes:
            return _Bare(substitutes[-1])
        if self._access is None and (ctx := running_job.get()) is not None:
            of_worker: Any = pushers_of(ctx)
            if of_worker not in self._of_worker:
                self._of_worker[of_worker] = of_worker.without_middleware(_MAX_WAIT_S)
            return self._of_worker[of_worker]
        return self._process_pushers()

    def is_in_a_job_or_recorded(self) -> bool:
        """Return whether this thread runs a job, or a test that records pushes. A background thread would not know
        about the job or the test."""
        return bool(substitutes) or running_job.get() is not None

    def _process_pushers(self) -> "LazyPushers":
        load(OF_TASKS)
        from worker_sdk.pusher.by_process import LazyPushers

        masters, token = self._access or (masters_or_default(None), token_or_default(None))
        settings = configuration()
        key = (masters, token, settings)
        if self._own is None or self._made_for != key:
            self._own = LazyPushers(
                masters,
                token,
                timeout_s=settings.timeout_s,
                max_wait_s=_MAX_WAIT_S,
                durability=settings.durability,
                middleware=(),
            )
            self._made_for = key
        return self._own


class _Bare:
    """The clients of a test, without middleware."""

    def __init__(self, pushers: Any) -> None:
        self._pushers = pushers

    def pusher(self) -> Any:
        return self._pushers.bare_pusher()

    def sync_pusher(self) -> Any:
        return self._pushers.bare_sync_pusher()

    @property
    def namespace(self) -> str:
        name: str = self._pushers.namespace
        return name

    def in_namespace(self, namespace: str) -> "_Bare":
        return self


def chain_of_this_moment() -> "EnqueueChain | None":
    """Return the middleware for jobs that are enqueued at this moment: inside a job, the middleware of the worker;
    otherwise, the middleware of the process."""
    pushers: Any = pushers_for(None, is_outbox_left_out=True)
    chain: EnqueueChain | None = pushers.chain()
    return chain


def in_pages(jobs: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Return the jobs in lists of up to `size`."""
    page: list[Any] = []
    for job in jobs:
        page.append(job)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


@contextmanager
def written_by(pushers: Any) -> Iterator[None]:
    """Let these clients write the jobs that tasks enqueue in the block as rows."""
    mark = outbox_pushers.set(pushers)
    try:
        yield
    finally:
        outbox_pushers.reset(mark)
