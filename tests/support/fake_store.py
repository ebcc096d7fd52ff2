"""A store in this process, for quick tests of code that reads keys without scripts: no server, no connection."""

from collections.abc import Sequence
from typing import Any

from fakeredis import FakeAsyncRedis, FakeServer
from redis.exceptions import ResponseError

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard


class FakeStoreClient(StoreClient):
    """The client of a master, whose plain commands go to fakeredis. Scripts do not run here."""

    def __init__(self) -> None:
        super().__init__("redis://nowhere.invalid:6379", connections=1)
        self.redis: Any = FakeAsyncRedis(server=FakeServer())
        # Replies as they are on the wire.
        self.redis.response_callbacks.clear()

    async def _read_only(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        replies: list[Any] = []
        for command in commands:
            try:
                replies.append(await self.redis.execute_command(*command))
            except ResponseError as error:
                replies.append(error)
        return replies

    async def write(self, *command: Arg) -> None:
        """Put the store into the state that a test begins with."""
        await self.redis.execute_command(*command)


def fake_shard() -> tuple[FakeStoreClient, Shard]:
    client = FakeStoreClient()
    return client, Shard(client, Keys("jq"))
