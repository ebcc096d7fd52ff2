"""Removes finished jobs and results after their retention. Only the leader removes them."""

from collections.abc import Mapping
from typing import NamedTuple

from jqmaster.domain.jobs.job import JobState
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard


class Retention(NamedTuple):
    """The retention of jobs that ended in one state.

    * `ms`: how long they are kept.
    * `most`: how many are kept.
    * `most_needed`: how many are kept beyond these limits because other jobs may need them. These are members of a
      batch that may be retried, and jobs whose dependents may run again.
    """

    ms: int
    most: int
    most_needed: int = 0


class Swept(NamedTuple):
    """How many jobs or results one call removed, and how many it kept because other jobs need them."""

    removed: int
    kept: int

    @property
    def has_more(self) -> bool:
        """Return whether more may be due now."""
        return self.removed + self.kept == MAX_PER_CALL


class RetentionStore:
    """Removes finished jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def sweep_all(
        self,
        epoch: str,
        retention: Mapping[JobState | None, Retention],
        *,
        passed: Mapping[JobState | None, int] | None = None,
        archives_logs: bool = False,
    ) -> dict[JobState | None, Swept]:
        """Call `sweep` for each of these states, and `sweep_results` for None, in one round trip.

        * `passed`: by state, how many of the oldest jobs to skip, because earlier calls kept them.
        * `archives_logs`: keep logs until they are archived.
        """
        calls = [
            self._results_sweep(epoch)
            if state is None
            else self._sweep(epoch, state, limits, (passed or {}).get(state, 0), archives_logs)
            for state, limits in retention.items()
        ]
        replies = await self._client.run_all(calls)
        return {state: Swept(*map(int, data)) for state, (_, data) in zip(retention, replies, strict=True)}

    async def sweep(
        self, epoch: str, state: JobState, *, retention_ms: int, max_jobs: int, most_needed: int = 0
    ) -> int:
        """Remove finished jobs whose retention is over; return how many."""
        limits = Retention(retention_ms, max_jobs, most_needed)
        return (await self.sweep_all(epoch, {state: limits}))[state].removed

    async def sweep_results(self, epoch: str) -> int:
        """Remove expired results; return how many."""
        return (await self.sweep_all(epoch, {None: Retention(0, 0)}))[None].removed

    def _sweep(
        self, epoch: str, state: JobState, limits: Retention, passed: int, archives_logs: bool
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
                limits.ms,
                limits.most,
                int(archives_logs),
                limits.most_needed,
                passed,
            ),
        )

    def _results_sweep(self, epoch: str) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("sweep_results"),
            (k.epoch, k.results),
            (self._shard.now_arg, epoch, MAX_PER_CALL, k.tag),
        )
