"""Writes a backup into an empty shard. A mark prevents masters from starting there meanwhile."""

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final

from jqmaster.errors import ConflictError
from jqmaster.store.backup.hold import RestoreHold
from jqmaster.store.backup.values import SORTED_SET, Record, writes
from jqmaster.store.keys import row_of
from jqmaster.store.link.pages import scanned
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

_COMMANDS_PER_CALL: Final = 500
_BYTES_PER_CALL: Final = 2 << 20
_KEYS_PER_PAGE: Final = 500
# Keys of processes and logins, which a restore leaves out. Masters and workers register again, and people log in again.
LEFT_OUT: Final = frozenset(
    {
        "backlog", "demoted", "flushed", "generation", "leader", "login_attempts", "login_used", "mail", "master_info",
        "masters", "restore_hold", "restoring", "session", "sessions", "worker", "worker_urls", "workers",
    }
)  # fmt: skip
# A restore into another shard also leaves out the namespaces, so that two installations never serve the same ones.
LEFT_OUT_ELSEWHERE: Final = LEFT_OUT | {"namespaces"}
# The restore gives every lease this score, which is in the past, because no worker can renew a restored lease.
_LEASE_OVER: Final = 1.0


async def is_under_way(shard: Shard) -> bool:
    """Return whether a restore into this shard has begun and not ended."""
    # Use GET, because the store's user for backups has no right to EXISTS.
    return await shard.client.command("GET", shard.keys.restoring) is not None


def unfinished(act: str) -> ConflictError:
    """Return the error for an attempt to use the data of a restore that has not ended."""
    return ConflictError(
        f"a restore into the shard has begun and not ended: let it end, or run it again, before you {act}"
    )


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
    """Return whether the shard has no keys, apart from the mark of the data, the version of constraints, and keys of
    restores.
    """
    k = shard.keys
    marks = {key.encode() for key in (k.generation, k.restore_hold, k.restoring, k.rules)}
    async for page in key_pages(shard):
        if not marks.issuperset(page):
            return False
    return True


async def clear(hold: RestoreHold, *, keeps_mark: bool) -> int:
    """Remove all keys of the shard except the keys of restores and, if `keeps_mark`, the mark of the data. Return the
    number of removed keys. Raises what `RestoreHold.renew` raises.
    """
    shard, k = hold.shard, hold.shard.keys
    kept = {key.encode() for key in (k.restoring, k.restore_hold, *([k.generation] if keeps_mark else []))}
    count = 0
    async for page in key_pages(shard):
        keys = [key for key in page if key not in kept]
        if keys:
            await hold.renew()
            count += await shard.client.command("UNLINK", *keys)
    return count


async def load(hold: RestoreHold, records: Iterable[Record], *, left_out: Collection[str] = LEFT_OUT) -> None:
    """Write the records, except keys in `left_out` and expired keys. Raises what `RestoreHold.renew` raises."""
    shard = hold.shard
    now_ms = await shard.now_ms()
    tag = shard.keys.tag.encode()
    commands: list[tuple[Arg, ...]] = []
    size = 0
    for record in records:
        row = row_of(record.key)
        if row is None or row.name in left_out:
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
            await hold.renew()
            await shard.client.pipeline(commands)
            commands, size = [], 0
            now_ms = await shard.now_ms()
    await hold.renew()
    await shard.client.pipeline(commands)


def _with_score(record: Record, score: float) -> Record:
    assert record.kind == SORTED_SET
    members = record.values[::2]
    return record._replace(values=[one for member in members for one in (member, score)])
