"""The rows of an outbox, and the operations of each database on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from worker_sdk.unsendable import sendable
from worker_sdk.wire import decode, iso

# The newest version of rows that this release reads. It writes this one.
FORMAT: Final = 1
# Maximum number of rows in one statement, and in one call to a master.
PAGE: Final = 1_000
# Maximum length of an error text that is kept with a row.
MAX_ERROR: Final = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """One job that waits in the outbox.

    `seq` is its place among all rows, `transaction` the ID of the transaction that wrote it.
    """

    seq: int
    transaction: str
    job_id: str
    body: bytes

    def job(self) -> dict[str, Any]:
        """Return the map that `Pusher.enqueue_many` accepts."""
        job: dict[str, Any] = decode(self.body)
        return job


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """The state of an outbox.

    * `waiting`: number of jobs that are committed and not pushed yet.
    * `lag_s`: age of the oldest of them in seconds; 0 if there is none.
    * `stuck`: number of jobs that a master refused and that were set aside.
    * `newer`: number of rows that a newer release wrote. This release leaves them alone.

    For example:

        stats = outbox.stats()
        if stats.lag_s > 60:
            print(f"{stats.waiting} jobs wait")
    """

    waiting: int
    lag_s: float
    stuck: int
    newer: int


class Rows(Protocol):
    """The table in an open transaction. Every instant in it is of the database's clock, in milliseconds."""

    def insert(self, transaction: str, jobs: Sequence[tuple[str, bytes]], lease_ms: int) -> None:
        """Add rows of pairs (job ID, body). Relays leave them alone for `lease_ms`."""
        ...

    def is_any_free(self) -> bool:
        """Return whether there is a row without a current lease, which a claim would find."""
        ...

    def claim(self, token: str, lease_ms: int, limit: int) -> list[str]:
        """Lease the first rows of up to `limit` transactions whose lease is over, oldest first. Return these
        transactions."""
        ...

    def claim_one(self, transaction: str, token: str, lease_ms: int) -> bool:
        """Lease the first row of a transaction for its own writer. Return False if another process has it."""
        ...

    def page(self, transactions: Sequence[str], limit: int, *, after: int) -> list[Row]:
        """Return the first rows of these transactions with a `seq` above `after`, in the order of `seq`."""
        ...

    def remove(self, rows: Sequence[Row]) -> None:
        """Delete rows that were pushed.

        Another relay may have deleted them before, if the lease was over. Then SQLite may have given their `seq` to
        rows of other transactions, which stay.
        """
        ...

    def set_aside(self, errors: Mapping[Row, str]) -> None:
        """Mark rows that a master refused, with the reason. As with `remove`, rows of other transactions stay as they
        are."""
        ...

    def lease(self, transactions: Sequence[str], token: str, lease_ms: int) -> None:
        """Lease the first rows of these transactions, which this relay holds, for `lease_ms` from now."""
        ...

    def lease_rows(self, seqs: Sequence[int], token: str, lease_ms: int) -> None:
        """Lease these rows, which are the first of their transactions and which this relay holds."""
        ...

    def stats(self) -> OutboxStats:
        """Return the state of the outbox."""
        ...

    def retry_stuck(self) -> int:
        """Let rows that were set aside wait again. Return their number."""
        ...

    def stuck(self, limit: int) -> list[tuple[str, str]]:
        """Return pairs (job ID, error) of rows that were set aside, oldest first."""
        ...


def body_of(job: Mapping[str, Any], key_ttl_s: float | None) -> bytes:
    """Return the body of the row of a job. Raise TypeError for a value that cannot be sent."""
    kept = dict(job)
    if (delay := kept.pop("delay", None)) is not None:
        # The time counts from the enqueue, not from a push that an outage may delay.
        kept["run_at"] = iso(datetime.now(UTC) + timedelta(seconds=delay))
    if key_ttl_s is not None and "key" not in kept:
        # A master knows an ID only as long as it keeps the job, and a repeat may arrive after that.
        kept["key"], kept["key_ttl"] = kept["id"], key_ttl_s
    return sendable(kept)
