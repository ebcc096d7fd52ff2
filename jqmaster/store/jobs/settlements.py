"""Workers' reports on the starts and ends of attempts, which tokens authorize."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import unknown_worker
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.keys import Keys
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import GateClosed, JobDelayed, JobsReady, SlotsFreed

# Amounts that an attempt has used, in thousandths by unit.
Used = Mapping[str, int]
NO_REPORT: Final[Mapping[str, Used]] = {}
# The answer of `settle` for an attempt that did not end by this call.
NOT_ENDED: Final = -1


@dataclass(frozen=True, slots=True)
class GateHold:
    """A hold: keep this gate closed for `for_ms`, because a worker asked for it."""

    gate_id: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of one attempt. `decision`: the domain's decision; `entry`: for the history; `result`: if the job ends.
    `name` of the job, `message` of the attempt and `frame` of its error: for the counts; without a name it is not
    counted. `worker_id`: the worker that lost the attempt, if no worker reports its end. `used`: what it has used."""

    job_id: str
    token: str
    decision: Decision
    entry: bytes = b""
    result: bytes = b""
    hold: GateHold | None = None
    name: str = ""
    message: str = ""
    worker_id: str = ""
    frame: str = ""
    used: Used | None = None


class SettlementStore:
    """Attempts of one shard. `tally` counts what the store has confirmed. Raises what `StoreClient.run` raises, and
    NotFoundError when nothing was settled and the worker is not registered."""

    def __init__(self, shard: Shard, tally: Tally, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys
        self._succeeded = shard.keys.finished(JobState.SUCCEEDED)
        self._times = times

    async def confirm_start(self, worker_id: str, claims: Sequence[tuple[str, str]]) -> list[bool]:
        """Return for each (job ID, token) whether the worker may still start the job: its lease is not over."""
        confirmed: list[bool] = []
        for chunk in pages(claims, MAX_PER_CALL):
            args: list[Arg] = [self._shard.now_arg, codec.id_bytes(worker_id), self._keys.job_prefix]
            for job_id, token in chunk:
                args += (job_id, bytes.fromhex(token))
            keys = (self._keys.running, self._keys.worker(worker_id))
            word, data = await self._client.run("confirm_start", keys, args)
            _check_known(word, worker_id)
            confirmed += map(bool, data[0])
        return confirmed

    async def settle_success(
        self, worker_id: str, ended: Sequence[tuple[str, str, bytes]], used: Mapping[str, Used] = NO_REPORT
    ) -> list[bool]:
        """End attempts of (job ID, token, encoded result) as succeeded; False: the token is stale. `used`: by job ID,
        what an attempt has used."""
        k, now = self._keys, self._shard.now
        wake_channel = "" if self._shard.leader.is_here else k.wake_channel
        calls = []
        for chunk in [ended] if len(ended) <= MAX_PER_CALL else pages(ended, MAX_PER_CALL):
            args: list[Arg] = [
                "" if now is None else now(), k.tag, codec.id_bytes(worker_id), self._times.current.result_ttl_ms,
                wake_channel, k.finished_channel,
                _used_by([job_id for job_id, _, _ in chunk], used) if used else b"",
            ]  # fmt: skip
            for job_id, token, result in chunk:
                args += (job_id, bytes.fromhex(token), result)
            calls.append(
                ScriptCall(
                    load("settle_success"),
                    (
                        k.running,
                        k.claims(worker_id),
                        self._succeeded,
                        k.results,
                        k.worker(worker_id),
                    ),
                    args,
                )
            )
        claim = self._shard.leader.claim_with(SlotsFreed(worker_id, len(ended)), ())
        replies = await self._client.run_all(calls, claim=claim)
        for word, _ in replies:
            _check_known(word, worker_id)
        verdicts = [bool(code) for _, data in replies for code in data[0]]
        on_worker = self._tally.on(worker_id)
        for _, data in replies:
            runs = iter(data[2])
            for name, run_ms, jobs in zip(runs, runs, runs, strict=True):
                self._tally.succeeded(name.decode(), run_ms, jobs)
                on_worker.succeed(run_ms, jobs)
        self._tell_freed(worker_id, sum(verdicts), replies, claim)
        return verdicts

    async def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts that did not succeed as decided; False: the token is stale."""
        k = self._keys
        calls = []
        for chunk in pages(settlements, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, k.tag, codec.id_bytes(worker_id), self._times.current.result_ttl_ms,
                self._shard.wake_channel, k.finished_channel,
                codec.pack({s.job_id: s.used for s in chunk if s.used}) if any(s.used for s in chunk) else b"",
            ]  # fmt: skip
            for s in chunk:
                args += (
                    s.job_id,
                    bytes.fromhex(s.token),
                    *target_args(k, s.decision),
                    int(s.decision.is_counted),
                    s.entry,
                    s.result,
                    s.hold.gate_id if s.hold else "",
                    s.hold.for_ms if s.hold else 0,
                )
            calls.append(ScriptCall(load("settle"), (k.running, k.results, k.worker(worker_id)), args))
        claim = self._shard.leader.claim_with(SlotsFreed(worker_id, len(settlements)), ())
        replies = await self._client.run_all(calls, claim=claim)
        for word, _ in replies:
            _check_known(word, worker_id)
        verdicts = [bool(code) for _, data in replies for code in data[0]]
        runs = [run_ms for _, data in replies for run_ms in data[2]]
        for s, run_ms in zip(settlements, runs, strict=True):
            if run_ms != NOT_ENDED and s.name:
                self._tally.ended(
                    s.name,
                    s.decision,
                    job_id=s.job_id,
                    message=s.message,
                    run_ms=run_ms,
                    worker_id=worker_id,
                    frame=s.frame,
                )
                self._tally.on(worker_id).end(s.decision, run_ms)
        self._tell_freed(worker_id, sum(verdicts), replies, claim)
        self._shard.leader.wake(JobDelayed())
        if any(s.hold for s in settlements):
            self._shard.leader.wake(GateClosed())
        return verdicts

    def _tell_freed(
        self,
        worker_id: str,
        count: int,
        replies: Sequence[tuple[str, list[Any]]],
        claim: TravellingClaim | None,
    ) -> None:
        if claim is None:
            self._shard.leader.wake(SlotsFreed(worker_id, count))
        if any(data[1] for _, data in replies):
            self._shard.leader.wake(JobsReady())


def _check_known(word: str, worker_id: str) -> None:
    if word == "unknown":
        raise unknown_worker(worker_id)


def _used_by(job_ids: Sequence[str], used: Mapping[str, Used]) -> bytes:
    reported = {job_id: used[job_id] for job_id in job_ids if job_id in used}
    return codec.pack(reported) if reported else b""


def target_args(keys: Keys, decision: Decision) -> tuple[Arg, ...]:
    """Return the script arguments for the next state of the job."""
    index = "" if decision.state is JobState.READY else keys.index(decision.state)
    return codec.STATE_CODES[decision.state], index, decision.delay_ms, int(decision.cause)
