"""Run a master process: start or find its store, serve, and shut down."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from jqmaster.app.process import Master
from jqmaster.app.served_store import ServedStore
from jqmaster.clock import Clock, SystemClock
from jqmaster.config import Settings
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import StoreUnfitError
from jqmaster.lifecycle import running
from jqmaster.store.backup import loading
from jqmaster.store.health import generation
from jqmaster.store.health.probe import probe, require
from jqmaster.store.keys import Keys
from jqmaster.store.link.access import StoreAccess, naming_the_store
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard

# One connection to renew the lock, and one to release it at the same time.
RESERVED_CONNECTIONS: Final = 2


@contextlib.asynccontextmanager
async def running_master(
    settings: Settings, clock: Clock | None = None, *, own_tokens: Sequence[str] = ()
) -> AsyncIterator[Master]:
    """Run a master, with its own Valkey if no store is configured. `own_tokens`: see `AccessPolicy.from_settings`.

    Raises StoreUnfitError, DataDirInUseError, StoreUnavailableError, DamagedError; ValueError for faulty tokens.
    """
    clock = clock or SystemClock()
    async with serving_store(settings, clock) as store:
        with naming_the_store(store.url):
            link = await open_shard(store, settings.shard)
        master = Master(settings, store, link, clock, own_tokens=own_tokens)
        async with running(master.components(), failures=master.shard.services.faults.loops):
            # The port is known only now, because the system may have chosen it.
            master.guard.forbid(settings.host, master.server.port)
            master.guard.forbid(settings.host, master.server.own_port)
            yield master


@contextlib.asynccontextmanager
async def serving_store(settings: Settings, clock: Clock) -> AsyncIterator[ServedStore]:
    """Connect to the store, or start the embedded one if none is configured, and check that it is fit. Raises what
    `running_master` raises."""
    async with contextlib.AsyncExitStack() as stack:
        embedded = None
        if settings.redis_url is None:
            embedded = EmbeddedValkey(settings.data_dir, mark_key=Keys(settings.shard).generation)
            await stack.enter_async_context(running([embedded]))
            url = embedded.url
        else:
            url = settings.redis_url.get_secret_value()
        client, reserve = (
            StoreClient(
                url,
                timeout_s=settings.store_timeout_s,
                connections=connections,
                access=StoreAccess.of(settings),
            )
            for connections in (settings.store_connections, RESERVED_CONNECTIONS)
        )
        stack.push_async_callback(client.close)
        stack.push_async_callback(reserve.close)
        for one in (client, reserve):
            one.bind(Keys(settings.shard).tag)
        with naming_the_store(url):
            report = await probe(client.redis, settings)
            require(report, settings)
            client.quorum_replicas = report.replicas_needed if settings.durability == "fsync+quorum" else 0
            client.listens_sharded = client.is_on_cluster and report.has_sharded_channels
        yield ServedStore(
            url, client, reserve, report=report, settings=settings, clock=clock, embedded=embedded
        )


async def open_shard(store: ServedStore, tag: str) -> Shard:
    """Return the shard with this hash tag, with the mark of its data, which is set if there is none.

    Raises StoreUnfitError if a restore into the shard was not finished, and what `StoreClient.run` raises.
    """
    shard = Shard(store.client, Keys(tag))
    if await loading.is_under_way(shard):
        raise StoreUnfitError(f"a restore into shard {tag} was not finished: run `jqmaster restore` again")
    return replace(shard, mark=await generation.mark(shard, uuid.uuid4().hex))


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None] | None = None,
    own_tokens: Sequence[str] = (),
) -> None:
    """Serve until `stop` is set. `ready` is called with the address. `own_tokens`: tokens of this process.

    Raises what `running_master` raises, and StoreUnfitError if the master had to end by itself.
    """

    async def until_failure() -> None:
        async with running_master(settings, own_tokens=own_tokens) as master:
            # Only here, because the log level belongs to the owner of the process. A master inside another program does
            # not change it.
            master.live.follow(lambda s: logging.getLogger().setLevel(s.log_level.upper()))
            logging.getLogger().setLevel(master.live.current.log_level.upper())
            if ready:
                ready(master.server.url)
            await master.failed.wait()
        raise StoreUnfitError(master.failure or "")

    # Run in a task of its own, so that `stop` also works during the start: a store may take minutes to load.
    serving = asyncio.create_task(until_failure())
    told = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
