"""Rows of an outbox, and the operations on them that each kind of database implements."""

import hashlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from worker_sdk.unsendable import sendable
from worker_sdk.wire import decode, iso

# The newest version of rows that this release reads. Version 2 adds the destination. Rows without one are written as
# version 1, which older releases can read.
FORMAT: Final = 2
_WITHOUT_DESTINATION: Final = 1
# The field of a row's body that holds the destination, such as `namespace:mail`.
_DESTINATION: Final = "to"
# The first character of a transaction's name if its rows have a destination; a digest of the destination follows. All
# other names are hexadecimal.
DESTINED: Final = "n"
_MARK_CHARS: Final = 8
_NAME_CHARS: Final = 32
# Maximum number of rows in one statement, and in one call to a master.
PAGE: Final = 1_000
# Maximum length of an error text that is kept with a row.
MAX_ERROR: Final = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """One job that waits in the outbox.

    `seq`: the place of the row among all rows. `transaction`: the ID of the transaction that wrote the row.
    """

    seq: int
    transaction: str
    job_id: str
    body: bytes

    def job(self) -> dict[str, Any]:
        """Return the map that `Pusher.enqueue_many` accepts."""
        job: dict[str, Any] = decode(self.body)
        if mark_in(self.transaction):
            del job[_DESTINATION]
        return job

    def destination(self) -> str | None:
        """Return where the job goes, such as `namespace:mail`. None: to the masters and the namespace of the outbox."""
        return str(decode(self.body)[_DESTINATION]) if mark_in(self.transaction) else None


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """The state of an outbox.

    * `waiting`: number of jobs that are committed and not pushed yet.
    * `lag_s`: age of the oldest waiting job in seconds. 0: no job waits.
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
    """The table in an open transaction. All its instants are by the database's clock, in milliseconds."""

    def insert(self, transaction: str, jobs: Sequence[tuple[str, bytes]], lease_ms: int) -> None:
        """Add a row for each pair (job ID, body). Relays leave them alone for `lease_ms`."""
        ...

    def is_any_free(self, resting: Collection[str] = ()) -> bool:
        """Return whether there is a row without a current lease, so that a claim would find it."""
        ...

    def claim(self, token: str, lease_ms: int, limit: int, resting: Collection[str] = ()) -> list[str]:
        """Lease the first rows of up to `limit` transactions with an ended lease, oldest first. Return these
        transactions. `resting`: marks of the destinations to skip, as `mark_of` returns them."""
        ...

    def claim_one(self, transaction: str, token: str, lease_ms: int) -> bool:
        """Lease the first row of a transaction for its own writer. Return False if another process has the lease."""
        ...

    def page(self, transactions: Sequence[str], limit: int, *, after: int) -> list[Row]:
        """Return the first rows of these transactions with a `seq` above `after`, in the order of `seq`."""
        ...

    def remove(self, rows: Sequence[Row]) -> None:
        """Delete rows that were pushed.

        If the lease was over, another relay may have deleted them before, and SQLite may have given their `seq` to rows
        of other transactions. Those rows stay.
        """
        ...

    def set_aside(self, errors: Mapping[Row, str]) -> None:
        """Mark rows that a master refused, with the reason. As with `remove`, rows of other transactions stay as they
        are."""
        ...

    def lease(self, transactions: Sequence[str], token: str, lease_ms: int) -> None:
        """Renew the lease on the first rows of these transactions, for `lease_ms` from now. This relay holds the
        transactions."""
        ...

    def lease_rows(self, seqs: Sequence[int], token: str, lease_ms: int) -> None:
        """Lease these rows. Each is the first row of a transaction that this relay holds."""
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


def mark_of(destination: str | None) -> str:
    """Return the beginning of the names of transactions with this destination. Return "" for no destination."""
    if destination is None:
        return ""
    return (DESTINED + hashlib.sha256(destination.encode()).hexdigest())[:_MARK_CHARS]


def to_people(destination: str | None) -> str:
    """Return the part of a log line that names this destination."""
    return "" if destination is None else f" for {destination.replace(':', ' ', 1)}"


def mark_in(transaction: str) -> str:
    """Return the mark of the destination in the name of a transaction; "" if its rows have no destination."""
    return transaction[:_MARK_CHARS] if transaction.startswith(DESTINED) else ""


def new_transaction(destination: str | None) -> str:
    """Return the name of a new transaction. All its rows have the same destination, so that no row waits for a row with
    another destination."""
    return (mark_of(destination) + uuid.uuid4().hex)[:_NAME_CHARS]


def format_of(transaction: str) -> int:
    """Return the version of the format in which the rows of a transaction are stored."""
    return FORMAT if mark_in(transaction) else _WITHOUT_DESTINATION


def body_of(job: Mapping[str, Any], key_ttl_s: float | None, destination: str | None = None) -> bytes:
    """Return the body of the row of a job. Raise TypeError for a value that cannot be sent."""
    kept = dict(job)
    if destination is not None:
        kept[_DESTINATION] = destination
    if (delay := kept.pop("delay", None)) is not None:
        # Count the delay from the enqueue, because an outage may delay the push.
        kept["run_at"] = iso(datetime.now(UTC) + timedelta(seconds=delay))
    if key_ttl_s is not None and "key" not in kept:
        # Give the job a key: a master forgets the ID when it deletes the job, and a repeated push may arrive after
        # that.
        kept["key"], kept["key_ttl"] = kept["id"], key_ttl_s
    return sendable(kept)
