"""Counts the demand for workers: jobs that could start now, jobs that constraints hold back, and running jobs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jqmaster.store import codec
from jqmaster.store.link.shard import Shard

# Maximum number of lanes that a call counts, and maximum number of jobs with gates of their own that it checks one by
# one.
MAX_LANES: Final = 1_000
MAX_SINGLE_JOBS: Final = 1_000
# Maximum number of running jobs that one call reads, and maximum number that all calls together read.
RUNNING_PER_CALL: Final = 2_000
MAX_RUNNING: Final = 100_000
_ID_BYTES: Final = 16


class RunningJobs(NamedTuple):
    """Running jobs by worker ID and name. `is_whole`: False if there are more running jobs."""

    counts: Counter[tuple[str, str]]
    is_whole: bool

    def by_name(self) -> Counter[str]:
        """Return how many jobs of each name are running."""
        found = Counter[str]()
        for (_, name), count in self.counts.items():
            found[name] += count
        return found


class AskedQueue(NamedTuple):
    """A queue whose jobs are counted. `is_keyed`: constraints with a key may apply to these jobs."""

    queue: str
    is_keyed: bool


@dataclass(frozen=True, slots=True)
class DemandSeen:
    """Due jobs. `ready` counts the due jobs that constraints let start now, and `blocked` counts the other due jobs.

    * `is_exact`: False if `ready` and `blocked` are lower bounds.
    * `ready_since_ms`: the time since which the first `ready` job has waited. None: unknown.
    """

    now_ms: int
    ready: int
    blocked: int
    is_exact: bool
    ready_since_ms: int | None
    running: RunningJobs


class DemandStore:
    """Demand of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def names(self) -> list[str]:
        """Return the names that have unfinished jobs, and perhaps some names that recently had unfinished jobs."""
        return sorted(raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.names))

    async def look(self, queues: Sequence[AskedQueue]) -> DemandSeen:
        """Count the jobs of these queues, and all running jobs, at one instant. One call reads a limited number of
        them.
        """
        k = self._keys
        _, (now_ms, ready, blocked, is_exact, since_ms, running, beyond) = await self._client.run(
            "demand",
            (k.rules, k.running),
            (
                self._shard.now_arg,
                k.tag,
                MAX_LANES,
                MAX_SINGLE_JOBS,
                RUNNING_PER_CALL,
                *(part for asked in queues for part in (asked.queue, int(asked.is_keyed))),
            ),
        )
        counts = _counted(running)
        return DemandSeen(
            now_ms,
            ready,
            blocked,
            bool(is_exact),
            since_ms or None,
            await self._beyond(counts, RUNNING_PER_CALL) if beyond else RunningJobs(counts, is_whole=True),
        )

    async def running(self) -> RunningJobs:
        """Return the running jobs, counted in parts. Renewed leases move jobs from one part to another meanwhile, so
        the numbers may be off by a few."""
        return await self._beyond(Counter(), 0)

    async def _beyond(self, counts: Counter[tuple[str, str]], from_rank: int) -> RunningJobs:
        """Add the running jobs from this rank on."""
        beyond = 1
        while beyond and from_rank < MAX_RUNNING:
            _, (running, beyond) = await self._client.run(
                "running_by_name", (self._keys.running,), (self._keys.tag, from_rank, RUNNING_PER_CALL)
            )
            counts.update(_counted(running))
            from_rank += RUNNING_PER_CALL
        return RunningJobs(counts, is_whole=not beyond)


def _counted(flat: Sequence[Any]) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (codec.id_text(place[:_ID_BYTES]), place[_ID_BYTES:].decode(errors="replace")): count
            for place, count in zip(flat[::2], flat[1::2], strict=True)
        }
    )
