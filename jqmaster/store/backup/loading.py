"""Writes a backup into an empty shard. A mark keeps masters from starting there meanwhile."""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from jqmaster.store.backup.values import SORTED_SET, Record, row_of, writes
from jqmaster.store.link.pages import scanned
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

_COMMANDS_PER_CALL: Final = 500
_BYTES_PER_CALL: Final = 2 << 20
_KEYS_PER_PAGE: Final = 500
# Keys of processes and logins at the time of the backup. Masters and workers register again, and people log in again.
LEFT_OUT: Final = frozenset(
    {
        "backlog", "demoted", "flushed", "generation", "leader", "login_attempts", "login_used", "mail", "master_info",
        "masters", "restoring", "session", "sessions", "worker", "worker_urls", "workers",
    }
)  # fmt: skip
# The score of a lease that is over: no worker can renew a restored lease, so the restore ends it.
_LEASE_OVER: Final = 1.0


async def is_under_way(shard: Shard) -> bool:
    """Return whether a restore into this shard has begun and not ended."""
    return bool(await shard.client.command("EXISTS", shard.keys.restoring))


async def begin(shard: Shard, backup: str) -> None:
    """Mark the shard: until `end`, no master starts on it."""
    await shard.client.command("SET", shard.keys.restoring, backup)


async def end(shard: Shard) -> None:
    await shard.client.command("UNLINK", shard.keys.restoring)


async def key_pages(shard: Shard) -> AsyncIterator[list[bytes]]:
    """Yield the keys of the shard."""
    pattern = "".join(f"\\{sign}" if sign in "*?[]\\^" else sign for sign in shard.keys.tag) + "*"
    async for page in scanned(shard.client, "SCAN", count=_KEYS_PER_PAGE, match=pattern):
        yield page


async def is_empty(shard: Shard) -> bool:
    """Return whether the shard holds no data: at most the marks of the store itself."""
    k = shard.keys
    marks = {k.generation.encode(), k.restoring.encode(), k.rules.encode()}
    async for page in key_pages(shard):
        if not marks.issuperset(page):
            return False
    return True


async def clear(shard: Shard, *, keeps_mark: bool) -> int:
    """Remove all keys of the shard except the mark of a restore and, if `keeps_mark`, the mark of the data. Return
    their number."""
    kept = {shard.keys.restoring.encode(), *([shard.keys.generation.encode()] if keeps_mark else [])}
    count = 0
    async for page in key_pages(shard):
        keys = [key for key in page if key not in kept]
        if keys:
            count += await shard.client.command("UNLINK", *keys)
    return count


async def load(shard: Shard, records: Iterable[Record]) -> None:
    """Write the records, except those that have expired."""
    now_ms = await shard.now_ms()
    tag = shard.keys.tag.encode()
    commands: list[tuple[Arg, ...]] = []
    size = 0
    for record in records:
        row = row_of(record.key)
        if row is None or row.name in LEFT_OUT:
            continue
        if row.name == "running":
            record = _with_score(record, _LEASE_OVER)
        if record.expires_at_ms and record.expires_at_ms <= now_ms:
            record = record._replace(values=())
        key = tag + record.key
        commands += writes(record, key)
        if record.expires_at_ms and record.values:
            commands.append(("PEXPIRE", key, record.expires_at_ms - now_ms))
        size += sum(len(value) for value in record.values if isinstance(value, bytes))
        if len(commands) >= _COMMANDS_PER_CALL or size >= _BYTES_PER_CALL:
            await shard.client.pipeline(commands)
            commands, size = [], 0
            now_ms = await shard.now_ms()
    await shard.client.pipeline(commands)


def _with_score(record: Record, score: float) -> Record:
    assert record.kind == SORTED_SET
    members = record.values[::2]
    return record._replace(values=[one for member in members for one in (member, score)])
