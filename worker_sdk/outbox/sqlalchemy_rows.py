"""Read and write the rows of an outbox in a transaction of SQLAlchemy."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from worker_sdk.outbox.rows import DESTINED, FORMAT, OutboxStats, Row, format_of

# Databases in which a locking read locks every row that it examines (InnoDB). Such a read also sees the newest version
# of a row, while its subquery sees the version in the snapshot. So a plain read finds the first rows, and then a second
# statement locks them by their keys.
_LOCKS_WHAT_IT_SCANS: Final = frozenset({"mysql", "mariadb"})
# Use UTC, because local time has one hour twice when summer time ends.
_MYSQL_CLOCK: Final = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
_CLOCKS: Final = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": _MYSQL_CLOCK,
    "mariadb": _MYSQL_CLOCK,
}


class SqlRows:
    """The table of an outbox in an open transaction of SQLAlchemy."""

    def __init__(self, connection: sa.Connection, table: sa.Table) -> None:
        self._connection = connection
        self._t = table
        self._now_ms = _now_ms(connection.dialect.name)

    def insert(self, transaction: str, jobs: Sequence[tuple[str, bytes]], lease_ms: int) -> None:
        t = self._t
        now_ms = self._connection.execute(sa.select(self._now_ms)).scalar_one()
        same = {
            "txn": transaction,
            "token": transaction,
            "format": format_of(transaction),
            "created_ms": now_ms,
            "lease_until_ms": now_ms + lease_ms,
        }
        if self._connection.dialect.name != "postgresql":
            self._connection.execute(
                sa.insert(t), [{**same, "job_id": job_id, "body": body} for job_id, body in jobs]
            )
            return
        # Insert all rows with one statement and two arrays. With values, drivers would send one statement for each row.
        given = (
            sa.func.unnest(
                sa.literal([job_id for job_id, _ in jobs], ARRAY(sa.Text)),
                sa.literal([body for _, body in jobs], ARRAY(sa.LargeBinary)),
            )
            .table_valued(
                sa.column("job_id", sa.Text), sa.column("body", sa.LargeBinary), with_ordinality="place"
            )
            .render_derived()
        )
        values = [sa.literal(value, t.c[name].type) for name, value in same.items()]
        rows = sa.select(*values, given.c.job_id, given.c.body).order_by(given.c.place)
        self._connection.execute(sa.insert(t).from_select([*same, "job_id", "body"], rows))

    def is_any_free(self, resting: Collection[str] = ()) -> bool:
        t = self._t
        free = sa.select(t.c.seq).where(
            t.c.lease_until_ms <= self._now_ms,
            t.c.error.is_(None),
            t.c.format <= FORMAT,
            *self._goes_elsewhere(resting),
        )
        return self._connection.execute(free.limit(1)).first() is not None

    def claim(self, token: str, lease_ms: int, limit: int, resting: Collection[str] = ()) -> list[str]:
        t, earlier = self._t, self._t.alias("earlier")
        is_first = ~sa.exists().where(
            earlier.c.txn == t.c.txn, earlier.c.seq < t.c.seq, earlier.c.error.is_(None)
        )
        firsts = (
            sa.select(t.c.seq, t.c.txn)
            .where(t.c.lease_until_ms <= self._now_ms, t.c.error.is_(None), t.c.format <= FORMAT, is_first)
            .where(*self._goes_elsewhere(resting))
            .order_by(t.c.seq)
            .limit(limit)
        )
        if self._connection.dialect.name in _LOCKS_WHAT_IT_SCANS:
            seqs = [row.seq for row in self._connection.execute(firsts)]
            firsts = (
                sa.select(t.c.seq, t.c.txn)
                .where(t.c.seq.in_(seqs), t.c.lease_until_ms <= self._now_ms, t.c.error.is_(None))
                .order_by(t.c.seq)
            )
        # Let other relays skip the rows that this relay locks.
        found = self._connection.execute(firsts.with_for_update(skip_locked=True)).all()
        if not found:
            return []
        mine = self._lease([row.seq for row in found], token, lease_ms)
        return [row.txn for row in found if row.seq in mine]

    def claim_one(self, transaction: str, token: str, lease_ms: int) -> bool:
        t = self._t
        first = self._connection.execute(
            sa.select(t.c.seq, t.c.token)
            .where(t.c.txn == transaction, t.c.error.is_(None))
            .order_by(t.c.seq)
            .limit(1)
        ).first()
        if first is None or first.token != transaction:
            return False
        found = self._connection.execute(
            sa.update(t)
            .where(t.c.seq == first.seq, t.c.token == transaction)
            .values(token=token, lease_until_ms=self._now_ms + lease_ms)
        )
        return bool(found.rowcount)

    def page(self, transactions: Sequence[str], limit: int, *, after: int) -> list[Row]:
        t = self._t
        found = self._connection.execute(
            sa.select(t.c.seq, t.c.txn, t.c.job_id, t.c.body)
            .where(t.c.txn.in_(transactions), t.c.seq > after, t.c.error.is_(None), t.c.format <= FORMAT)
            .order_by(t.c.seq)
            .limit(limit)
        )
        return [Row(seq, txn, job_id, bytes(body)) for seq, txn, job_id, body in found]

    def remove(self, rows: Sequence[Row]) -> None:
        seqs = [row.seq for row in rows]
        numbers: sa.BindParameter[Any] = sa.bindparam("seqs", seqs, expanding=True, literal_execute=True)
        transactions = sorted({row.transaction for row in rows})
        gone = sa.delete(self._t).where(self._t.c.seq.in_(numbers), self._t.c.txn.in_(transactions))
        self._connection.execute(gone)

    def set_aside(self, errors: Mapping[Row, str]) -> None:
        t = self._t
        for row, error in errors.items():
            found = sa.update(t).where(t.c.seq == row.seq, t.c.txn == row.transaction)
            self._connection.execute(found.values(error=error))

    def lease(self, transactions: Sequence[str], token: str, lease_ms: int) -> None:
        t = self._t
        firsts = self._connection.execute(
            sa.select(sa.func.min(t.c.seq))
            .where(t.c.txn.in_(transactions), t.c.error.is_(None))
            .group_by(t.c.txn)
        ).scalars()
        self.lease_rows(list(firsts), token, lease_ms)

    def lease_rows(self, seqs: Sequence[int], token: str, lease_ms: int) -> None:
        t = self._t
        self._connection.execute(
            sa.update(t).where(t.c.seq.in_(seqs)).values(token=token, lease_until_ms=self._now_ms + lease_ms)
        )

    def stats(self) -> OutboxStats:
        t = self._t
        is_waiting = sa.and_(t.c.error.is_(None), t.c.format <= FORMAT)
        waiting, oldest_ms, now_ms, stuck, newer = self._connection.execute(
            sa.select(
                sa.func.count(sa.case((is_waiting, 1))),
                sa.func.min(sa.case((is_waiting, t.c.created_ms))),
                sa.select(self._now_ms).scalar_subquery(),
                sa.func.count(t.c.error),
                sa.func.count(sa.case((t.c.format > FORMAT, 1))),
            )
        ).one()
        lag_s = 0.0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000
        return OutboxStats(waiting, lag_s, stuck, newer)

    def retry_stuck(self) -> int:
        t = self._t
        found = self._connection.execute(
            sa.update(t).where(t.c.error.is_not(None)).values(error=None, lease_until_ms=self._now_ms)
        )
        return int(found.rowcount)

    def stuck(self, limit: int) -> list[tuple[str, str]]:
        t = self._t
        found = self._connection.execute(
            sa.select(t.c.job_id, t.c.error).where(t.c.error.is_not(None)).order_by(t.c.seq).limit(limit)
        )
        return [(job_id, error) for job_id, error in found]

    def _goes_elsewhere(self, resting: Collection[str]) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of rows for other destinations than these."""
        txn = self._t.c.txn
        return [~txn.startswith(mark) if mark else txn.startswith(DESTINED) for mark in sorted(resting)]

    def _lease(self, seqs: Sequence[int], token: str, lease_ms: int) -> set[int]:
        """Lease the rows that still have no current lease, and return the `seq` of those that were leased."""
        t = self._t
        self._connection.execute(
            sa.update(t)
            .where(t.c.seq.in_(seqs), t.c.lease_until_ms <= self._now_ms)
            .values(token=token, lease_until_ms=self._now_ms + lease_ms)
        )
        mine = self._connection.execute(sa.select(t.c.seq).where(t.c.seq.in_(seqs), t.c.token == token))
        return set(mine.scalars())


def _now_ms(dialect: str) -> sa.ColumnElement[int]:
    """Return the database's clock at the statement, not at the beginning of the transaction."""
    found = _CLOCKS.get(dialect)
    if found is None:
        raise TypeError(f"the outbox supports {', '.join(sorted(_CLOCKS))}, but not {dialect}")
    return sa.literal_column(f"({found})", sa.BigInteger)
