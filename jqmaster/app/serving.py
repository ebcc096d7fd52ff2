"""Run a master process: start or find its store, serve, and shut down."""

import asyncio
import contextlib
import gc
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from jqmaster.app.process import Master
from jqmaster.app.served_store import ServedStore
from jqmaster.app.store_opening import open_shard, opened_store
from jqmaster.clock import Clock, SystemClock
from jqmaster.config import Settings
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError, StoreUnfitError
from jqmaster.lifecycle import running
from jqmaster.store.keys import Keys
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy

logger = logging.getLogger(__name__)

# After this many namespaces have been closed, the next garbage collection covers all objects. It then frees the
# objects of the closed namespaces.
FREED_AT: Final = 50


@contextlib.asynccontextmanager
async def running_master(
    settings: Settings, clock: Clock | None = None, *, own_tokens: Sequence[str] = ()
) -> AsyncIterator[Master]:
    """Run a master, with its own Valkey if no store is configured. `own_tokens`: see
    `AccessPolicy.from_settings`.

    If the default store is away, but the copy of the registry on the disk names namespaces in other stores, the
    master serves these namespaces. It serves all others as soon as the default store is back.

    Raises StoreUnfitError, DataDirInUseError, StoreUnavailableError, DamagedError; ValueError for faulty tokens.
    """
    clock = clock or SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        try:
            store, link = await stack.enter_async_context(_serving_shard(settings, clock))
        except (StoreUnavailableError, OutcomeUnknownError) as exc:
            if not await asyncio.to_thread(_knows_others, settings):
                raise
            logger.warning(
                "the default store is away: %s; the master serves the namespaces of other stores", exc.detail
            )
            store, link = None, await stack.enter_async_context(_distant_shard(settings))
        master = Master(settings, store, link, clock, own_tokens=own_tokens)
        async with running(master.components(), failures=master.failures):
            # Forbid calls to this master's own ports only after the start, because the system may choose the
            # ports during the start.
            master.guard.forbid(settings.host, master.server.port)
            master.guard.forbid(settings.host, master.server.own_port)
            yield master


@contextlib.asynccontextmanager
async def _serving_shard(settings: Settings, clock: Clock) -> AsyncIterator[tuple[ServedStore, Shard]]:
    async with serving_store(settings, clock) as store:
        yield store, await open_shard(store, settings.shard)


@contextlib.asynccontextmanager
async def _distant_shard(settings: Settings) -> AsyncIterator[Shard]:
    """Return the shard of the default namespace without calling its store."""
    assert settings.redis_url
    client = StoreClient(
        settings.redis_url.get_secret_value(),
        timeout_s=settings.store_timeout_s,
        connections=settings.store_connections,
        access=StoreAccess.of(settings),
    )
    try:
        yield Shard.bound(client, Keys(settings.shard))
    finally:
        await client.close()


def _knows_others(settings: Settings) -> bool:
    """Return whether a configured store other than the default one has an open namespace, according to the local copy
    of the registry. Blocks."""
    if settings.redis_url is None or not settings.stores:
        return False
    copy = RegistryCopy(settings.data_dir, settings.redis_url.get_secret_value(), settings.shard)
    try:
        known = copy.read()
    except (DamagedError, OSError):
        return False
    return known is not None and any(
        one.state == "open" and one.store in settings.stores for one in known.namespaces.values()
    )


@contextlib.asynccontextmanager
async def serving_store(settings: Settings, clock: Clock) -> AsyncIterator[ServedStore]:
    """Connect to the store of the default namespace, and check that it is fit. If no store is configured, start
    the embedded store. Raises the errors of `running_master`."""
    async with contextlib.AsyncExitStack() as stack:
        embedded = None
        if settings.redis_url is None:
            embedded = EmbeddedValkey(settings.data_dir, mark_key=Keys(settings.shard).generation)
            await stack.enter_async_context(running([embedded]))
            url = embedded.url
        else:
            url = settings.redis_url.get_secret_value()
        yield await stack.enter_async_context(opened_store(url, settings, clock, embedded=embedded))


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None] | None = None,
    own_tokens: Sequence[str] = (),
) -> None:
    """Serve until `stop` is set. `ready` is called with the address. `own_tokens`: tokens of this process.

    Raises the errors of `running_master`, and StoreUnfitError if the master had to end by itself.
    """

    async def until_failure() -> None:
        async with running_master(settings, own_tokens=own_tokens) as master:
            # Change garbage collection and the log level only in `serve`. A master inside another program must
            # not change them, because they belong to that program.
            _spare_open_namespaces(master)
            master.live.follow(lambda s: logging.getLogger().setLevel(s.log_level.upper()))
            logging.getLogger().setLevel(master.live.current.log_level.upper())
            if ready:
                ready(master.server.url)
            await master.failed.wait()
        raise StoreUnfitError(master.failure or "")

    # Run in a separate task, so that `stop` also works during the start. A store may take minutes to load.
    serving = asyncio.create_task(until_failure())
    told = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _spare_open_namespaces(master: Master) -> None:
    """Exempt open namespaces from garbage collection.

    For a thousand namespaces, the collector would walk millions of permanent objects. This would stop the process
    for seconds, so that it loses its leads. The objects of closed namespaces are freed when `FREED_AT` namespaces
    have been closed."""
    closed = itertools.count(1)

    def note_closed() -> None:
        if next(closed) % FREED_AT == 0:
            gc.unfreeze()

    master.namespaces.on_opened = gc.freeze
    master.namespaces.on_closed = note_closed
    gc.freeze()
