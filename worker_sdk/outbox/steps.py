"""Push committed rows as jobs: generators that decide each operation, without doing I/O.

A generator yields the next operation and receives its result. `drive` executes operations in a thread, and `adrive`
with asyncio, so that both behave the same.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from worker_sdk.errors import Duplicate, RefusedError, UnavailableError, WorkerSdkError
from worker_sdk.outbox.rows import MAX_ERROR, PAGE, Row, Rows, mark_in, mark_of

logger = logging.getLogger("worker_sdk.outbox")

T = TypeVar("T")

# Statuses of refusals that a job in the call causes, and not the caller or the master.
_OF_THE_JOBS: Final = frozenset({400, 409, 413, 422})
_BACKLOG_FULL: Final = "backlog_full"
# How often a lease is renewed within its time. Renewals are few: to find the first rows of transactions outside the
# current page, all their rows must be read.
_RENEWALS_PER_LEASE: Final = 4
# After this many failures, the remaining rows wait for the next round, which begins with other destinations. Each
# failure may take as long as a call waits.
_MAX_FAILURES: Final = 2


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The operation that runs `work` in a separate transaction."""

    work: Callable[[Rows], Any]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The operation that runs `work`, a single read. It needs no transaction, and no lock of SQLite."""

    work: Callable[[Rows], Any]


@dataclass(frozen=True, slots=True)
class Push:
    """The operation that enqueues these jobs with one call. `destination`: see `Row.destination`."""

    jobs: list[dict[str, Any]]
    destination: str | None


Steps = Generator[InTransaction | ReadRows | Push, Any, T]


@dataclass(slots=True)
class Done:
    """The result of a drain.

    * `pushed`: number of jobs that masters accepted.
    * `set_aside`: number of jobs that masters refused.
    * `put_off`: number of transactions that wait because a backlog is full.
    * `failures`: by destination, such as `namespace:mail`, the error if no master there accepted jobs. The destination
      None means the masters of the outbox.
    * `served`: destinations that accepted jobs.

    For example:

        done = Relay(outbox).run_once()
        if done is not None and done.failure is not None:
            print(done.failure)
    """

    pushed: int = 0
    set_aside: int = 0
    put_off: int = 0
    failures: dict[str | None, WorkerSdkError] = field(default_factory=dict)
    served: set[str | None] = field(default_factory=set)

    @property
    def failure(self) -> WorkerSdkError | None:
        """The first error in `failures`. None: there is no error."""
        return next(iter(self.failures.values()), None)


@dataclass(slots=True)
class _Outcome:
    """The result of pushing one page of rows."""

    accepted: list[Row] = field(default_factory=list)
    refused: dict[Row, str] = field(default_factory=dict)
    # Transactions that were refused because the backlog was full. Their rows wait, in order.
    full: set[str] = field(default_factory=set)
    failures: dict[str | None, WorkerSdkError] = field(default_factory=dict)
    served: set[str | None] = field(default_factory=set)
    # Transactions without a lease: this relay gave it up, so that any relay may continue at once.
    freed: list[str] = field(default_factory=list)


def sweep(
    token: str, lease_ms: int, put_off_ms: int, *, resting: Collection[str] = (), last: Collection[str] = ()
) -> Steps[Done | None]:
    """Claim transactions that no other process works on, and drain them. Return None if there are no such transactions.

    `resting`: marks of the destinations to skip, as `mark_of` returns them. `last`: marks of the destinations to try
    last.
    """
    # First make a cheap read, because there is usually nothing to push.
    if not (yield ReadRows(lambda rows: rows.is_any_free(resting))):
        return None
    transactions = yield InTransaction(lambda rows: rows.claim(token, lease_ms, PAGE, resting))
    if not transactions:
        return None
    done = yield from drain(transactions, token, lease_ms, put_off_ms, last=last)
    return done


def drain_own(transaction: str, lease_ms: int, put_off_ms: int, *, is_lease_over: bool) -> Steps[Done | None]:
    """Drain a transaction that this process has just committed. Return None if a relay has claimed it."""
    if is_lease_over:
        mine = yield InTransaction(lambda rows: rows.claim_one(transaction, transaction, lease_ms))
        if not mine:
            return None
    done = yield from drain([transaction], transaction, lease_ms, put_off_ms)
    return done


def drain(
    transactions: Sequence[str], token: str, lease_ms: int, put_off_ms: int, *, last: Collection[str] = ()
) -> Steps[Done]:
    """Push the rows of transactions that are leased under `token`, page by page, and remove the accepted rows. If one
    destination fails, rows for other destinations are still pushed."""
    done = Done()
    left = list(transactions)
    page: list[Row] = yield ReadRows(lambda rows: rows.page(left, PAGE, after=0))
    renewed_s = time.monotonic()
    while page:
        outcome = yield from _push_page(page, last)
        done.pushed += len(outcome.accepted)
        done.set_aside += len(outcome.refused)
        done.put_off += len(outcome.full)
        done.failures |= outcome.failures
        done.served |= outcome.served
        left = [one for one in left if one not in outcome.full]
        is_over = len(done.failures) >= _MAX_FAILURES
        failed = {mark_of(one) for one in outcome.failures}
        outcome.freed = [one for one in left if is_over or mark_in(one) in failed] if failed else []
        if outcome.freed:
            freed = set(outcome.freed)
            left = [one for one in left if one not in freed]
        if len(page) < PAGE or not left:
            yield InTransaction(_settling(outcome, token, put_off_ms))
            break
        is_renewal_due = time.monotonic() - renewed_s > lease_ms / _RENEWALS_PER_LEASE / 1000
        if is_renewal_due:
            renewed_s = time.monotonic()
        renewed = left if is_renewal_due else []
        settle = _settling(outcome, token, put_off_ms, renewed=renewed, lease_ms=lease_ms)
        page = yield InTransaction(_going_on(settle, left, page[-1].seq, token, lease_ms))
    return done


def _going_on(
    settle: Callable[[Rows], None], left: Sequence[str], after: int, token: str, lease_ms: int
) -> Callable[[Rows], list[Row]]:
    """Return a function that settles a page and reads the next page, to run in one transaction."""

    def work(rows: Rows) -> list[Row]:
        settle(rows)
        page = rows.page(left, PAGE, after=after)
        # The lease is stored in the first remaining row of a transaction, so move it with each page.
        firsts = {row.transaction: row.seq for row in reversed(page)}
        if firsts:
            rows.lease_rows(sorted(firsts.values()), token, lease_ms)
        return page

    return work


def _settling(
    outcome: _Outcome,
    token: str,
    put_off_ms: int,
    *,
    renewed: Sequence[str] = (),
    lease_ms: int = 0,
) -> Callable[[Rows], None]:
    def settle(rows: Rows) -> None:
        if outcome.accepted:
            rows.remove(outcome.accepted)
        if outcome.refused:
            rows.set_aside(outcome.refused)
        if renewed:
            rows.lease(renewed, token, lease_ms)
        if outcome.full:
            rows.lease(sorted(outcome.full), token, put_off_ms)
        if outcome.freed:
            rows.lease(outcome.freed, token, 0)

    return settle


def _push_page(page: Sequence[Row], last: Collection[str]) -> Steps[_Outcome]:
    """Push the rows of a page, for one destination after another."""
    outcome = _Outcome()
    apart: dict[str | None, list[Row]] = {}
    for row in page:
        apart.setdefault(row.destination(), []).append(row)
    for destination in sorted(apart, key=lambda one: mark_of(one) in last):
        if len(outcome.failures) < _MAX_FAILURES:
            yield from _push_rows(apart[destination], destination, outcome)
    return outcome


def _push_rows(page: Sequence[Row], destination: str | None, outcome: _Outcome) -> Steps[None]:
    """Push rows in order. Push all rows together if a master accepts them. Otherwise, push them in halves, until the
    refused rows are found."""
    waiting: list[Sequence[Row]] = [page]
    while waiting:
        rows = [row for row in waiting.pop() if row.transaction not in outcome.full]
        if not rows:
            continue
        try:
            yield Push([row.job() for row in rows], destination)
        except RefusedError as exc:
            named = _named_by(exc, rows)
            if exc.status not in _OF_THE_JOBS:
                outcome.failures[destination] = exc
                break
            if not named and len(rows) > 1:
                half = len(rows) // 2
                waiting += [rows[half:], rows[:half]]
                continue
            for row, why in (named or {rows[0]: str(exc)}).items():
                _note_refusal(row, why, exc, outcome)
            gone = {row.seq for row in named or rows}
            waiting.append([row for row in rows if row.seq not in gone])
        except UnavailableError as exc:
            if _BACKLOG_FULL not in str(exc):
                outcome.failures[destination] = exc
                break
            apart = _halves(rows)
            if len(apart) == 1:
                outcome.full.add(rows[0].transaction)
            else:
                waiting += reversed(apart)
        except WorkerSdkError as exc:
            outcome.failures[destination] = exc
            break
        else:
            outcome.accepted += rows
            outcome.served.add(destination)


def _note_refusal(row: Row, why: str, exc: RefusedError, outcome: _Outcome) -> None:
    if isinstance(exc, Duplicate):
        # This is not a fault: another job holds the uniqueness key, as the caller intended.
        logger.info("outbox: job %s was not created: %s", row.job_id, why)
        outcome.accepted.append(row)
        return
    logger.error("outbox: job %s is set aside because a master refused it: %s", row.job_id, why)
    outcome.refused[row] = why[:MAX_ERROR]


def _named_by(exc: RefusedError, rows: Sequence[Row]) -> dict[Row, str]:
    """Return the rows that a refusal names, each with the reason."""
    found: dict[Row, str] = {}
    for error in exc.errors:
        loc: Sequence[Any] = error.get("loc") or ()
        if len(loc) > 1 and loc[0] == "jobs" and isinstance(loc[1], int) and loc[1] < len(rows):
            path = ".".join(map(str, loc[2:]))
            found.setdefault(
                rows[loc[1]], f"{exc.status} {exc.code}: {path}{': ' if path else ''}{error.get('msg')}"
            )
    return found


def _halves(rows: Sequence[Row]) -> list[list[Row]]:
    """Split the rows into two parts that share no transaction. Rows of a single transaction stay one part."""
    transactions = list(dict.fromkeys(row.transaction for row in rows))
    first = set(transactions[: (len(transactions) + 1) // 2])
    parts = [
        [row for row in rows if row.transaction in first],
        [row for row in rows if row.transaction not in first],
    ]
    return [part for part in parts if part]


class SyncPorts(Protocol):
    """The functions by which `drive` executes transactions, reads and pushes."""

    def in_transaction(self, work: Callable[[Rows], Any]) -> Any: ...

    def read(self, work: Callable[[Rows], Any]) -> Any: ...

    def push(self, jobs: list[dict[str, Any]], destination: str | None) -> None: ...


class AsyncPorts(Protocol):
    """The functions by which `adrive` executes transactions, reads and pushes."""

    def in_transaction(self, work: Callable[[Rows], Any]) -> Awaitable[Any]: ...

    def read(self, work: Callable[[Rows], Any]) -> Awaitable[Any]: ...

    def push(self, jobs: list[dict[str, Any]], destination: str | None) -> Awaitable[None]: ...


def drive(steps: Steps[T], ports: SyncPorts) -> T:
    """Execute the steps in this thread, and return their result."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        try:
            if isinstance(step, Push):
                ports.push(step.jobs, step.destination)
            elif isinstance(step, ReadRows):
                answer = ports.read(step.work)
            else:
                answer = ports.in_transaction(step.work)
        except Exception as exc:  # pass it to the steps, which decide how to handle it
            error = exc


async def adrive(steps: Steps[T], ports: AsyncPorts) -> T:
    """Execute the steps in the event loop, and return their result."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        try:
            if isinstance(step, Push):
                await ports.push(step.jobs, step.destination)
            elif isinstance(step, ReadRows):
                answer = await ports.read(step.work)
            else:
                answer = await ports.in_transaction(step.work)
        except Exception as exc:  # pass it to the steps, which decide how to handle it
            error = exc
