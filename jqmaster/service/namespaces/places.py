"""The stores that may hold namespaces, and access to the data of each namespace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jqmaster.domain.jobs.job import FINISHED
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.store.health import generation
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.shard import Shard


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A configured store.

    * `topology`: single, sentinel or cluster.
    * `server`: the kind and version of its server. Empty: the store has not answered.
    * `faults`: why the store takes no new jobs, by the name of the failed check. The name `away` means that it does not
      answer.
    """

    name: str
    topology: str
    server: str
    faults: dict[str, str]
    used_memory_bytes: int | None = None
    max_memory_bytes: int | None = None


class Places(Protocol):
    """The configured stores of this master. `names`: their names, the default store first."""

    @property
    def names(self) -> Sequence[str]: ...

    async def stores(self) -> Sequence[StorePlace]:
        """Return the current states of the configured stores, in the order of `names`."""
        ...

    async def shard_of(self, namespace: Namespace) -> Shard:
        """Return the shard with the data of a namespace. Raise StoreUnavailableError. Raise StoreUnfitError if the
        store is unfit or not configured here."""
        ...


async def faults_of(places: Places, store: str) -> str:
    """Return why a configured store takes no jobs now, or an empty text if it takes jobs."""
    (place,) = [one for one in await places.stores() if one.name == store]
    return "; ".join(place.faults.values())


async def has_data(shard: Shard) -> bool:
    """Return whether masters have ever served this shard. Raise what `StoreClient.run` raises."""
    return await generation.read(shard) is not None


async def unfinished_jobs(shard: Shard) -> int:
    """Return the number of unfinished jobs. Raise what `StoreClient.run` raises."""
    counts = await Inspector(shard, RecordStore(shard)).counts()
    return sum(count for state, count in counts.items() if state not in FINISHED)
