"""Access of commands to the store: its address, and a client with errors that name this address."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NoReturn

from jqmaster.cli.console import exits

if TYPE_CHECKING:
    from jqmaster.config import Settings
    from jqmaster.store.link.shard import Shard


def url_of(settings: "Settings", *, when_away: "Callable[[Settings], None]" = lambda _: None) -> str:
    """Return the address of the configured store or of the embedded store. End the command if the embedded store
    does not run.

    `when_away`: raises JqmasterError if it knows the reason."""
    from jqmaster.embedded import url_of_running

    url = settings.redis_url.get_secret_value() if settings.redis_url else url_of_running(settings.data_dir)
    if url is None:
        when_away(settings)
        exits.fail(
            exits.UNREACHABLE,
            f"no store runs in {settings.data_dir}; start `jqmaster serve`, or give --redis",
        )
    return url


def fail_without_data(settings: "Settings") -> NoReturn:
    """End the command, because the store has no data of the shard."""
    exits.fail(exits.NOT_FOUND, f"there are no data with the tag {settings.shard}: check the setting `shard`")


@contextlib.asynccontextmanager
async def shard_with_data(settings: "Settings") -> "AsyncIterator[Shard]":
    """Connect to the shard of the settings. End the command if it has no data."""
    from jqmaster.store.backup.loading import is_empty

    async with shard_at(url_of(settings), settings) as shard:
        if await is_empty(shard):
            fail_without_data(settings)
        yield shard


@contextlib.asynccontextmanager
async def shard_at(url: str, settings: "Settings") -> "AsyncIterator[Shard]":
    """Connect to the shard of the settings. If an error of the store ends the block, the error names the store's
    address."""
    from jqmaster.store.keys import Keys
    from jqmaster.store.link.access import StoreAccess, naming_the_store
    from jqmaster.store.link.client import StoreClient
    from jqmaster.store.link.shard import Shard

    client = StoreClient(
        url, timeout_s=settings.store_timeout_s, connections=4, access=StoreAccess.of(settings)
    )
    try:
        with naming_the_store(url):
            yield Shard.bound(client, Keys(settings.shard))
    finally:
        await client.close()
