"""Connect to a store, check that it is fit, and open shards on it."""

import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from jqmaster.app.served_store import ServedStore
from jqmaster.clock import Clock
from jqmaster.config import Settings
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import StoreUnavailableError, StoreUnfitError
from jqmaster.store.backup import loading
from jqmaster.store.health import generation
from jqmaster.store.health.probe import probe, require
from jqmaster.store.keys import Keys
from jqmaster.store.link.access import StoreAccess, naming_the_store
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard

# Number of connections that are reserved for locks. They suffice to renew all locks and to release some locks at
# the same time.
RESERVED_CONNECTIONS: Final = 4
# Connections of the listener: one in use, and a second one while it replaces the first.
LISTENER_CONNECTIONS: Final = 2
_NOT_HERE: Final = (
    "this store has no data of the namespace, and the registry of namespaces does not answer; until it "
    "answers, this master does not begin the namespace with empty data"
)


@contextlib.asynccontextmanager
async def opened_store(
    url: str, settings: Settings, clock: Clock, *, embedded: EmbeddedValkey | None = None
) -> AsyncIterator[ServedStore]:
    """Connect to the store at this address, and check that it is fit. On a Cluster, use the node that holds the shard
    of `settings`. `embedded`: the server, if this process runs it.

    Raises StoreUnavailableError, StoreUnfitError.
    """
    async with contextlib.AsyncExitStack() as stack:
        client, reserve, events = clients = [
            StoreClient(
                url,
                timeout_s=settings.store_timeout_s,
                connections=connections,
                access=StoreAccess.of(settings),
            )
            for connections in (settings.store_connections, RESERVED_CONNECTIONS, LISTENER_CONNECTIONS)
        ]
        for one in clients:
            stack.push_async_callback(one.close)
            one.bind(Keys(settings.shard).tag)
        with naming_the_store(url):
            report = await probe(client.redis, settings)
            require(report, settings)
        client.quorum_replicas = report.replicas_needed if settings.durability == "fsync+quorum" else 0
        client.listens_sharded = client.is_on_cluster and report.has_sharded_channels
        events.listens_sharded = client.listens_sharded
        yield ServedStore(
            url,
            client,
            reserve,
            events=events,
            report=report,
            settings=settings,
            clock=clock,
            embedded=embedded,
        )


async def open_shard(
    store: ServedStore, tag: str, *, expected_mark: str | None = None, may_begin: bool = True
) -> Shard:
    """Return the shard with this hash tag, with the mark of its data.

    * `expected_mark`: the mark that the data must have. None: any mark.
    * `may_begin`: true: data without a mark get a new mark. False: such data are not served, because the
      namespace may have left this store.

    Raises:

    * StoreUnfitError: a restore into the shard was not finished, or the data were replaced.
    * StoreUnavailableError: there are no data that may be served.
    * the errors of `StoreClient.run`.
    """
    shard = Shard(store.client, Keys(tag))
    with naming_the_store(store.url):
        if await loading.is_under_way(shard):
            raise StoreUnfitError(
                f"a restore into shard {tag} was not finished: run `jqmaster restore` again"
            )
        if expected_mark is None and not may_begin:
            expected_mark = await generation.read(shard)
            if expected_mark is None:
                raise StoreUnavailableError(_NOT_HERE)
        if expected_mark is None:
            return replace(shard, mark=await generation.mark(shard, uuid.uuid4().hex))
        if await generation.read(shard) != expected_mark:
            is_moved = await generation.is_frozen(shard)
            raise StoreUnfitError(generation.MOVED if is_moved else generation.CHANGED)
    return replace(shard, mark=expected_mark)
