"""An in-process store for quick tests of code that reads keys without scripts. It needs no server or connection."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from fakeredis import FakeAsyncRedis, FakeServer
from redis.exceptions import ResponseError

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard


class FakeStoreClient(StoreClient):
    """A master's client that sends plain commands to fakeredis. It cannot run scripts."""

    def __init__(self) -> None:
        super().__init__("redis://nowhere.invalid:6379", connections=1)
        self.redis: Any = FakeAsyncRedis(server=FakeServer())
        # Replies as on the wire, where a hash is a flat list.
        self.redis.response_callbacks.clear()

    async def _read_only(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        replies: list[Any] = []
        for command in commands:
            try:
                reply = await self.redis.execute_command(*command)
                replies.append(list(chain(*reply.items())) if isinstance(reply, dict) else reply)
            except ResponseError as error:
                replies.append(error)
        return replies

    async def write(self, *command: Arg) -> None:
        """Put the store into a test's initial state."""
        await self.redis.execute_command(*command)


def fake_shard() -> tuple[FakeStoreClient, Shard]:
    client = FakeStoreClient()
    return client, Shard(client, Keys("jq"))
