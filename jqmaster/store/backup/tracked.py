"""A connection on which the store reports every changed key of the shard, in order with the answers to commands.

The server sends the name of each changed key (CLIENT TRACKING in broadcast mode, since Redis 6 and in all versions of
Valkey). The server sends the changes of one turn of its event loop before it answers the commands of the next turn. So
an answer to PING proves that the notices of all earlier changes have arrived.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import hiredis

from jqmaster.errors import ConflictError, DamagedError, ForbiddenError, StoreUnavailableError
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.cluster import ClusterLocator
from jqmaster.store.link.pool import StorePool
from jqmaster.store.link.scripts import Arg

_READ_BYTES: Final = 1 << 18
_REMEDY: Final = (
    "give the user of the store the rights of deploy/valkey-backup.acl, or name such a user in "
    "JQMASTER_REDIS_URL"
)


class TrackedConnection:
    """One connection to the primary. `changed`: the changed keys, without their tag, since the last `take_changed`."""

    def __init__(self, connection: Any, tag: bytes, *, timeout_s: float) -> None:
        self._reader, self._writer = connection._reader, connection._writer
        self._parser = hiredis.Reader()
        self._tag, self._timeout_s = tag, timeout_s
        self.changed: set[bytes] = set()

    async def ask(self, *commands: tuple[Arg, ...]) -> list[Any]:
        """Send commands together and return the replies. Raises ForbiddenError if a right is missing, DamagedError for
        a key of a wrong type, StoreUnavailableError."""
        replies: list[Any] = []
        try:
            self._writer.write(b"".join([hiredis.pack_command(command) for command in commands]))  # type: ignore[arg-type]
            await self._writer.drain()
            while len(replies) < len(commands):
                reply = self._parser.gets()
                if reply is False:
                    async with asyncio.timeout(self._timeout_s):
                        received = await self._reader.read(_READ_BYTES)
                    if not received:
                        raise StoreUnavailableError(
                            "the store closed the connection during the backup; run the command again"
                        )
                    self._parser.feed(received)
                elif isinstance(reply, hiredis.PushNotification):
                    self._hear(reply)
                else:
                    replies.append(reply)
        except (OSError, TimeoutError, RuntimeError, hiredis.ProtocolError) as error:
            raise StoreUnavailableError(
                f"the store did not answer during the backup: {str(error) or type(error).__name__}"
            ) from error
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, hiredis.ReplyError):
                raise _error(command, str(reply))
        return replies

    def take_changed(self) -> list[bytes]:
        """Return the changed keys, and forget them."""
        taken, self.changed = self.changed, set()
        return list(taken)

    def _hear(self, told: Any) -> None:
        if told[0] != b"invalidate":
            return
        if told[1] is None:
            raise ConflictError("the store was emptied during the backup; no complete backup was written")
        self.changed.update(key[len(self._tag) :] for key in told[1])


@contextlib.asynccontextmanager
async def tracked(
    url: str, access: StoreAccess, tag: str, *, timeout_s: float
) -> AsyncIterator[TrackedConnection]:
    """Connect to the primary that holds the tag, and start the notices of changes. Raises what `ask` raises."""
    pool = StorePool(url, access, timeout_s=timeout_s, connections=1)
    if isinstance(pool.locator, ClusterLocator):
        pool.locator.bind(tag)
    try:
        async with pool.connection() as connection:
            told = TrackedConnection(connection, tag.encode(), timeout_s=timeout_s)
            try:
                await told.ask(("HELLO", 3), ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", tag))
                yield told
            finally:
                # Close the connection, so that the pool cannot reuse it: it now speaks RESP3.
                await connection.disconnect(nowait=True)
    finally:
        await pool.close()


def _error(command: tuple[Arg, ...], text: str) -> Exception:
    name = " ".join(str(part) for part in command[: 2 if command[0] == "CLIENT" else 1])
    if text.startswith("NOPERM"):
        return ForbiddenError(f"the store does not permit {name}: {_REMEDY}")
    if text.startswith("WRONGTYPE"):
        key = command[1].decode("utf-8", "replace") if isinstance(command[1], bytes) else command[1]
        return DamagedError(
            f"{key} has the wrong type; another program may have written it: run `jqmaster doctor`"
        )
    if text.startswith("ERR unknown"):
        return ConflictError(f"the store does not know {name}, so no backup can be taken: {text[:200]}")
    return StoreUnavailableError(f"the store refuses {name}: {text[:200]}")
