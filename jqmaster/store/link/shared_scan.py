"""Scans of all keys of one store that the checks of many shards share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

# How long a scan waits for other shards that also need a scan.
GATHER_S: Final = 1.0
KEYS_PER_STEP: Final = 1_000
# After each step, a scan sleeps this many times as long as the step took, so that it uses at most a tenth of the
# store's time.
REST: Final = 9
# Maximum number of keys that a scan keeps. Shards for which there is no room wait for the next scan.
MAX_KEYS: Final = 20_000
# Maximum number of shards that check their keys at the same time.
TURNS: Final = 2

_Answer = asyncio.Future[list[str] | None]


class SharedScan:
    """Finds the keys of shards. `shards`: how many shards use the store. If several shards use it, one scan reads all
    keys of the store for every shard that waits. A thousand shards then need a few scans instead of a thousand.

    `command`: see `StoreClient`.
    """

    def __init__(self, command: Callable[..., Awaitable[Any]]) -> None:
        self._command = command
        self.shards = 1
        self._waiting: dict[str, _Answer] = {}
        self._scanning: asyncio.Task[None] | None = None
        # The results of the last scan that shards still use.
        self._in_use: set[_Answer] = set()
        self._is_used_up = asyncio.Event()
        self._is_used_up.set()
        self._turns = asyncio.Semaphore(TURNS)

    @contextlib.asynccontextmanager
    async def keys_of(self, tag: str) -> AsyncIterator[list[str] | None]:
        """Yield the keys that begin with this tag (`{jq}:`), when it is the shard's turn. Yield None if the shard has
        to scan by itself: it is the only shard, or has more than `MAX_KEYS` keys. Raise what `StoreClient.command`
        raises.
        """
        if self.shards <= 1 or tag in self._waiting:
            yield None
            return
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._waiting[tag] = answer
        if self._scanning is None:
            self._scanning = asyncio.create_task(self._scan_for_all(), name="shared scan")
        try:
            found = await answer
            if found is None:
                yield None
                return
            async with self._turns:
                yield found
        finally:
            if self._waiting.get(tag) is answer:
                del self._waiting[tag]
            self._in_use.discard(answer)
            if not self._in_use:
                self._is_used_up.set()

    async def _scan_for_all(self) -> None:
        try:
            while self._waiting:
                await self._is_used_up.wait()
                await asyncio.sleep(GATHER_S)
                if self._waiting:
                    await self._scan()
        finally:
            self._scanning = None

    async def _scan(self) -> None:
        """Scan once, for the shards that wait now."""
        waiting = dict(self._waiting)
        found: Mapping[str, list[str] | None] | Exception
        try:
            found = await self._read(list(waiting))
        except Exception as exc:  # every shard gets the error
            found = exc
        for tag, answer in waiting.items():
            if self._waiting.get(tag) is not answer or answer.done():
                continue  # the shard has stopped waiting
            if isinstance(found, Exception):
                del self._waiting[tag]
                answer.set_exception(found)
            elif tag in found:
                del self._waiting[tag]
                answer.set_result(found[tag])
                if found[tag] is not None:
                    self._in_use.add(answer)
                    self._is_used_up.clear()

    async def _read(self, tags: list[str]) -> Mapping[str, list[str] | None]:
        """Return the keys of these shards, in order, for as many shards as fit into `MAX_KEYS`."""
        loop = asyncio.get_running_loop()
        found: dict[str, list[str]] = {tag: [] for tag in tags}
        count, cursor = 0, b"0"
        while True:
            began_s = loop.time()
            cursor, page = await self._command("SCAN", cursor, "COUNT", KEYS_PER_STEP)
            for raw in page:
                keys = found.get(raw[: raw.find(b"}:") + 2].decode(errors="replace"))
                if keys is not None:
                    keys.append(raw.decode(errors="replace"))
                    count += 1
            while count > MAX_KEYS:
                _, dropped = found.popitem()
                count -= len(dropped)
            if not found:
                # Give up: the keys of even one shard do not fit.
                return {tags[0]: None}
            if cursor == b"0":
                # Remove duplicates, because a scan may return a key twice.
                return {tag: list(dict.fromkeys(keys)) for tag, keys in found.items()}
            await asyncio.sleep(REST * (loop.time() - began_s))
