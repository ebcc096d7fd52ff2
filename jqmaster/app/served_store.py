"""A store that this process uses. All shards on the store share its connections and the checks of its health."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.clock import Clock
from jqmaster.config import Durability, Settings
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import StoreUnavailableError
from jqmaster.lifecycle import Component, LoopFailures
from jqmaster.runtime.duties.shared_looks import SharedLooks
from jqmaster.runtime.leadership.heartbeats import Heartbeats
from jqmaster.runtime.leadership.renewals import Renewals
from jqmaster.runtime.watch.store_health import StoreHealth
from jqmaster.store.health.store_report import LEVELS, StoreReport
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.listener import StoreListener

MAX_OPENINGS: Final = 8


class ServedStore:
    """A store, with the facts that were found at the start.

    * `reserve`: a client with separate connections for the leaders' locks.
    * `events`: a client for `listener`, which keeps its connection.
    * `report`: the result of the probe.
    * `embedded`: the server, if this process runs it.
    """

    def __init__(
        self,
        url: str,
        client: StoreClient,
        reserve: StoreClient,
        *,
        events: StoreClient,
        report: StoreReport,
        settings: Settings,
        clock: Clock,
        embedded: EmbeddedValkey | None = None,
    ) -> None:
        self.url = url
        self.client = client
        self.reserve = reserve
        self.events = events
        self.listener = StoreListener(events)
        self.heartbeats = Heartbeats(client, clock)
        self.renewals = Renewals(reserve, clock)
        self.looks = SharedLooks(client, clock)
        self.embedded = embedded
        # Failures of the components. They count as faults of every shard on this store. The default store records
        # none here, because the process starts its components together with the default shard.
        self.loops = LoopFailures(clock)
        self.health = StoreHealth(client, clock, settings, report, quorum_of=(client, reserve))
        # Open only a few shards at a time. If a thousand shards were opened at once, most would wait for
        # connections until their timeouts.
        self.openings = asyncio.Semaphore(MAX_OPENINGS)
        self._followers: list[Callable[[], None]] = []
        # The durability levels that were admitted when the followers were last called.
        self._admitted = self._admits()
        self.health.on_look = self._tell
        if embedded:
            embedded.on_change = self._tell

    def components(self) -> Sequence[Component]:
        """Return the components. They start before the shards."""
        return [self.health, self.listener, self.heartbeats, self.renewals, self.looks]

    def follow(self, judge: Callable[[], None]) -> None:
        """Call `judge` whenever the facts that `admit` reads may have changed."""
        self._followers.append(judge)
        self._count_shards()

    def unfollow(self, judge: Callable[[], None]) -> None:
        """Stop calling `judge`."""
        self._followers.remove(judge)
        self._count_shards()

    def admit(self, durability: Durability | None) -> int:
        """Return the number of replicas that must hold a new job of this level.

        Raises StoreUnavailableError while the store takes no new jobs, or no new jobs of this level.
        """
        if self.embedded and (status := self.embedded.status()).state == "rewriting":
            raise StoreUnavailableError(status.detail, retry_after_s=1)
        return self.health.admit(durability)

    def rebuild(self, tag: str) -> None:
        """Drop the connections to the store that only this shard uses, and check the idle connections.

        Callers that use a dropped connection get the error that the outcome is unknown. Other shards on the store
        are not affected."""
        for client in (self.client, self.reserve):
            client.reset_those_of(tag)

    def _count_shards(self) -> None:
        for client in (self.client, self.reserve):
            client.together.shards = len(self._followers)
        # On a Cluster, a scan covers only one shard.
        self.client.scan.shards = 1 if self.client.is_on_cluster else len(self._followers)

    def _tell(self) -> None:
        admitted = self._admits()
        if admitted != self._admitted:
            self._admitted = admitted
            for judge in list(self._followers):
                judge()

    def _admits(self) -> dict[Durability | None, int]:
        admitted: dict[Durability | None, int] = {}
        for level in (None, *LEVELS):
            with contextlib.suppress(StoreUnavailableError):
                admitted[level] = self.admit(level)
        return admitted


class AdmissionWatch:
    """Component: calls `judge` whenever the facts that `ServedStore.admit` reads may have changed."""

    def __init__(self, store: ServedStore, judge: Callable[[], None]) -> None:
        self._store = store
        self._judge = judge

    async def start(self) -> None:
        self._store.follow(self._judge)
        self._judge()

    async def stop(self) -> None:
        self._store.unfollow(self._judge)
