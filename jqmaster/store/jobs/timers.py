"""Timers: due jobs become ready, and expired jobs are skipped. Only the leader runs them."""

from dataclasses import dataclass

from jqmaster.domain.jobs.job import TIMED, JobState
from jqmaster.domain.operations.tally import Tally
from jqmaster.store import codec
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady


@dataclass(frozen=True, slots=True)
class TimerRound:
    """The result of one call.

    * `moved`: the number of jobs that were skipped or made ready.
    * `is_partial`: more jobs were due than one call may move.
    * `next_ms`: the time until the next job is due (-1: none).
    * `is_told`: the call carried a claim of the leader, so the leader needs no message.
    """

    moved: int
    is_partial: bool
    next_ms: int
    is_told: bool = False


class TimerStore:
    """Jobs of one shard that wait for a time. `tally` counts what the store has confirmed. Raises what
    `StoreClient.run` raises.
    """

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def come_due(self, epoch: str, *, expects_some: bool = False) -> TimerRound:
        """Skip expired jobs, then make due jobs ready (states `scheduled` and `retrying`), in one round trip.

        `expects_some`: jobs are certainly due, so the call may carry a claim.
        """
        calls = [self._expiry(epoch)]
        calls += [self._promotion(epoch, state) for state in TIMED]
        claim = self._shard.leader.claim_with(JobsReady(), ()) if expects_some else None
        counts, nexts = [], []
        for _, data in await self._client.run_all(calls, claim=claim):
            counts.append(data[0])
            nexts.append(data[1])
            self._tally.skipped(name.decode() for name in (data[2] if len(data) > 2 else ()))
        next_ms = min((ms for ms in nexts if ms >= 0), default=-1)
        return TimerRound(sum(counts), max(counts) == MAX_PER_CALL, next_ms, claim is not None)

    def _promotion(self, epoch: str, state: JobState) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("promote"),
            (k.epoch, k.index(state), k.damaged),
            (self._shard.now_arg, k.tag, epoch, MAX_PER_CALL, codec.STATE_CODES[state]),
        )

    def _expiry(self, epoch: str) -> ScriptCall:
        k = self._keys
        return ScriptCall(
            load("expire"),
            (k.epoch, k.expiring, k.finished(JobState.SKIPPED)),
            (self._shard.now_arg, k.tag, epoch, MAX_PER_CALL, k.finished_channel),
        )
