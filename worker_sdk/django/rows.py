"""Read and write the table of the outbox in an open transaction of Django."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from django.db import connections
from django.db.models import BigIntegerField, Count, Exists, ExpressionWrapper, Min, OuterRef, Q, Value
from django.db.models.expressions import Expression, RawSQL

from worker_sdk.django.models import OutboxRow
from worker_sdk.outbox.rows import DESTINED, FORMAT, OutboxStats, Row, format_of

# SQL expressions for the current time in ms, at the statement and not at the beginning of the transaction.
_CLOCKS: Final = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    # Use UTC, because local time has one hour twice when summer time ends.
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
}


class DjangoRows:
    """The rows of the outbox in one database. `using`: alias of the database."""

    def __init__(self, using: str) -> None:
        vendor = connections[using].vendor
        if vendor not in _CLOCKS:
            raise TypeError(f"the outbox supports {', '.join(sorted(_CLOCKS))}, but not {vendor}")
        self._using = using
        self._sql = _CLOCKS[vendor]
        # InnoDB locks every row that a locking read looks at. Such a read sees the newest version of a row, but its
        # subquery sees the older version in the snapshot. So a plain read finds the first rows, and a second statement
        # locks them by their keys.
        self._locks_what_it_scans = vendor == "mysql"
        self._skips_locked = connections[using].features.has_select_for_update_skip_locked

    @property
    def _all(self) -> Any:
        return OutboxRow.objects.using(self._using)

    def _now_ms(self, more_ms: int = 0) -> Expression:
        now = RawSQL(self._sql, (), output_field=BigIntegerField())  # noqa: S611 - one of the texts above
        return ExpressionWrapper(now + Value(more_ms), output_field=BigIntegerField())

    def _clock_ms(self) -> int:
        """Return the time of the database's clock."""
        with connections[self._using].cursor() as cursor:
            cursor.execute(f"SELECT {self._sql}")
            return int(cursor.fetchone()[0])

    def wait_for_writers(self) -> None:
        """Begin a transaction with a write, so that it waits for other writers. SQLite would refuse a transaction that
        reads first and then writes beside another writer."""
        connection = connections[self._using]
        if connection.vendor == "sqlite":
            table = connection.ops.quote_name(OutboxRow._meta.db_table)
            with connection.cursor() as cursor:
                cursor.execute(f"UPDATE {table} SET error = error WHERE 0")  # noqa: S608 - the name of our table

    def insert(self, transaction: str, jobs: Sequence[tuple[str, bytes]], lease_ms: int) -> None:
        # Use plain SQL: the ORM takes several times as long to insert many rows.
        connection = connections[self._using]
        table = connection.ops.quote_name(OutboxRow._meta.db_table)
        into = f"INSERT INTO {table} (txn, token, format, created_ms, lease_until_ms, job_id, body)"
        now_ms = self._clock_ms()
        same = (transaction, transaction, format_of(transaction), now_ms, now_ms + lease_ms)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                ids, bodies = [job_id for job_id, _ in jobs], [body for _, body in jobs]
                cursor.execute(
                    f"{into} SELECT %s, %s, %s, %s, %s, job_id, body "  # noqa: S608 - the name of our table
                    "FROM unnest(%s::text[], %s::bytea[]) WITH ORDINALITY AS given (job_id, body, place) "
                    "ORDER BY place",
                    [*same, ids, bodies],
                )
            else:
                # Pass bytes as parameters, because MySQL drivers know how to encode them, and send many rows at once
                # only if all values are placeholders.
                cursor.executemany(
                    f"{into} VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    [(*same, job_id, body) for job_id, body in jobs],
                )

    def is_any_free(self, resting: Collection[str] = ()) -> bool:
        return bool(self._free(resting).exists())

    def _free(self, resting: Collection[str]) -> Any:
        """Return the rows without a current lease, except rows for the destinations with these marks."""
        free = self._all.filter(lease_until_ms__lte=self._now_ms(), error=None, format__lte=FORMAT)
        for mark in sorted(resting):
            free = free.exclude(txn__startswith=mark) if mark else free.filter(txn__startswith=DESTINED)
        return free

    def claim(self, token: str, lease_ms: int, limit: int, resting: Collection[str] = ()) -> list[str]:
        earlier = self._all.filter(txn=OuterRef("txn"), seq__lt=OuterRef("seq"), error=None)
        found = self._free(resting).filter(~Exists(earlier)).order_by("seq").values_list("seq", "txn")
        if self._locks_what_it_scans:
            seqs = [seq for seq, _ in found[:limit]]
            found = self._all.filter(seq__in=seqs, lease_until_ms__lte=self._now_ms(), error=None)
            found = found.order_by("seq").values_list("seq", "txn")
        if self._skips_locked:
            # Let other relays skip the rows that this relay locks.
            found = found.select_for_update(skip_locked=True)
        rows = list(found[:limit])
        if not rows:
            return []
        seqs = [seq for seq, _ in rows]
        self._all.filter(seq__in=seqs, lease_until_ms__lte=self._now_ms()).update(
            token=token, lease_until_ms=self._now_ms(lease_ms)
        )
        mine = set(self._all.filter(seq__in=seqs, token=token).values_list("seq", flat=True))
        return [txn for seq, txn in rows if seq in mine]

    def claim_one(self, transaction: str, token: str, lease_ms: int) -> bool:
        first = (
            self._all.filter(txn=transaction, error=None).order_by("seq").values_list("seq", "token").first()
        )
        if first is None or first[1] != transaction:
            return False
        found = self._all.filter(seq=first[0], token=transaction)
        return bool(found.update(token=token, lease_until_ms=self._now_ms(lease_ms)))

    def page(self, transactions: Sequence[str], limit: int, *, after: int) -> list[Row]:
        wanted = {"txn": transactions[0]} if len(transactions) == 1 else {"txn__in": transactions}
        found = self._all.filter(**wanted, seq__gt=after, error=None, format__lte=FORMAT).order_by("seq")
        return [
            Row(seq, txn, job_id, bytes(body))
            for seq, txn, job_id, body in found.values_list("seq", "txn", "job_id", "body")[:limit]
        ]

    def remove(self, rows: Sequence[Row]) -> None:
        table = connections[self._using].ops.quote_name(OutboxRow._meta.db_table)
        numbers = ", ".join(str(int(row.seq)) for row in rows)
        transactions = sorted({row.transaction for row in rows})
        names = ", ".join(["%s"] * len(transactions))
        with connections[self._using].cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {table} WHERE seq IN ({numbers}) AND txn IN ({names})",  # noqa: S608 - integers
                transactions,
            )

    def set_aside(self, errors: Mapping[Row, str]) -> None:
        for row, error in errors.items():
            self._all.filter(seq=row.seq, txn=row.transaction).update(error=error)

    def lease(self, transactions: Sequence[str], token: str, lease_ms: int) -> None:
        found = self._all.filter(txn__in=transactions, error=None).order_by().values("txn")
        self.lease_rows([one["first"] for one in found.annotate(first=Min("seq"))], token, lease_ms)

    def lease_rows(self, seqs: Sequence[int], token: str, lease_ms: int) -> None:
        self._all.filter(seq__in=seqs).update(token=token, lease_until_ms=self._now_ms(lease_ms))

    def stats(self) -> OutboxStats:
        is_waiting = Q(error=None, format__lte=FORMAT)
        found = self._all.aggregate(
            waiting=Count("seq", filter=is_waiting),
            oldest_ms=Min("created_ms", filter=is_waiting),
            stuck=Count("error"),
            newer=Count("seq", filter=Q(format__gt=FORMAT)),
        )
        lag_s = 0.0
        if found["oldest_ms"] is not None:
            lag_s = max(0, self._clock_ms() - found["oldest_ms"]) / 1000
        return OutboxStats(found["waiting"], lag_s, found["stuck"], found["newer"])

    def retry_stuck(self) -> int:
        found = self._all.exclude(error=None)
        return int(found.update(error=None, lease_until_ms=self._now_ms()))

    def stuck(self, limit: int) -> list[tuple[str, str]]:
        return list(self._all.exclude(error=None).order_by("seq").values_list("job_id", "error")[:limit])

    def has(self, job_id: str) -> bool:
        """Return whether the table has the row of a job."""
        return bool(self._all.filter(job_id=job_id).exists())
