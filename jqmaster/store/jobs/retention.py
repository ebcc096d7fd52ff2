"""Removes what was kept long enough: finished jobs, and results. Only the leader does so."""

from collections.abc import Mapping

from jqmaster.domain.jobs.job import JobState
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard


class RetentionStore:
    """Removes finished jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def sweep_all(
        self,
        epoch: str,
        retention: Mapping[JobState | None, tuple[int, int]],
        *,
        archives_logs: bool = False,
    ) -> dict[JobState | None, int]:
        """Call `sweep` for each of these states, with its milliseconds and its most jobs, and `sweep_results` for None,
        in one round trip. `archives_logs`: logs stay until they are in the archive."""
        calls = [
            self._results_sweep(epoch)
            if state is None
            else self._sweep(epoch, state, retention_ms, max_jobs, archives_logs)
            for state, (retention_ms, max_jobs) in retention.items()
        ]
        replies = await self._client.run_all(calls)
        return {state: int(data[0]) for state, (_, data) in zip(retention, replies, strict=True)}

    async def sweep(self, epoch: str, state: JobState, *, retention_ms: int, max_jobs: int) -> int:
        """Remove finished jobs whose retention is over; return how many."""
        return (await self.sweep_all(epoch, {state: (retention_ms, max_jobs)}))[state]

    async def sweep_results(self, epoch: str) -> int:
        """Discard results whose time is over; return how many."""
        return (await self.sweep_all(epoch, {None: (0, 0)}))[None]

    def _sweep(
        self, epoch: str, state: JobState, retention_ms: int, max_jobs: int, archives_logs: bool
    ) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("sweep"),
            (k.epoch, k.finished(state), k.expiring),
            (
                self._shard.now_arg,
                k.tag,
                epoch,
                MAX_PER_CALL,
                retention_ms,
                max_jobs,
                int(archives_logs),
            ),
        )

    def _results_sweep(self, epoch: str) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("sweep_results"),
            (k.epoch, k.results),
            (self._shard.now_arg, epoch, MAX_PER_CALL, k.tag),
        )
