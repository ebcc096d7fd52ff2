"""Workers' reports on the starts and ends of attempts. Tokens authorize them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from redis.exceptions import ResponseError

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision, UsedUnits
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import DamagedError, unknown_worker
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.keys import Keys
from jqmaster.store.link.leader_port import NextJobs, ReportedSlots, TravellingClaim
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import GateClosed, JobDelayed, JobsReady, LeftToOthers, SlotsFreed, encode

NO_REPORT: Final[Mapping[str, UsedUnits]] = {}
# `settle` returns this if the call did not end the attempt.
NOT_ENDED: Final = -1
# `settle_success` returns this for stale attempts of a worker that is not registered.
UNKNOWN: Final = -1
# Maximum total bytes of results in one call for several workers. A single worker's report may exceed it.
MAX_SHARED_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GateHold:
    """A hold: keep this gate closed for `for_ms`, because a worker asked for it."""

    gate_id: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of one attempt.

    * `decision`: the domain's decision.
    * `entry`: the entry for the history.
    * `result`: the result, if the job ends.
    * `name`, `message`, `frame`: for the counts of failures: the name of the job, the message of the attempt, and the
      frame of its error. Without a name, the end is not counted.
    * `worker_id`: the worker that lost the attempt, if no worker reports its end.
    * `used`: the units that the attempt has used.
    * `leave_ms`: for how long the worker leaves jobs of this name to other workers (see the function `leave_ms`).
    """

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
    used: UsedUnits | None = None
    leave_ms: int = 0


@dataclass(frozen=True, slots=True)
class Successes:
    """Attempts of one worker that succeeded: job ID, token and encoded result of each. `used`: by job ID, what an
    attempt has used."""

    worker_id: str
    ended: Sequence[tuple[str, str, bytes]]
    used: Mapping[str, UsedUnits]
    # See `ReportedSlots`.
    newest_fence: int | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer to a report. `verdicts`: for each attempt, False if its token is stale. `given`: the next jobs of the
    worker."""

    verdicts: list[bool]
    given: NextJobs | None = None


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
        """Return for each claim (job ID, token) whether its lease still holds, so that the worker may start the job."""
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
        self,
        worker_id: str,
        ended: Sequence[tuple[str, str, bytes]],
        used: Mapping[str, UsedUnits] = NO_REPORT,
    ) -> list[bool]:
        """End attempts, each given as (job ID, token, encoded result), as succeeded. Return False for each attempt with
        a stale token. `used`: by job ID, what an attempt has used.
        """
        (settled,) = await self.settle_successes([Successes(worker_id, ended, used)])
        if isinstance(settled, Exception):
            raise settled
        return settled.verdicts

    async def settle_successes(self, reports: Sequence[Successes]) -> list[Settled | Exception]:
        """End attempts of several workers as succeeded, in one round trip if they are few. Return the answer to each
        report, or the error that it would have raised alone."""
        first = reports[0]
        if len(reports) == 1:
            # Split the report into several calls if it has more attempts than one script may end.
            calls = (
                [self._success_call(reports)]
                if len(first.ended) <= MAX_PER_CALL
                else [
                    self._success_call([replace(first, ended=chunk)])
                    for chunk in pages(first.ended, MAX_PER_CALL)
                ]
            )
            freed = [ReportedSlots(first.worker_id, len(first.ended), first.newest_fence)]
        elif _are_too_many(reports):
            middle = len(reports) // 2
            return [
                *await self.settle_successes(reports[:middle]),
                *await self.settle_successes(reports[middle:]),
            ]
        else:
            calls = [self._success_call(reports)]
            freed = [ReportedSlots(one.worker_id, len(one.ended), one.newest_fence) for one in reports]
        claim = self._shard.leader.claim_with(freed, ())
        try:
            replies = await self._client.run_all(calls, claim=claim)
        except BaseException as exc:
            if claim is not None and claim.given:
                claim.on_no_answer()
            if len(reports) > 1 and isinstance(exc, DamagedError | ResponseError):
                # Settle each report alone, so that an error of one report does not prevent answers to the others.
                return [await self._settled_alone(one) for one in reports]
            raise
        return self._read_successes(reports, replies, claim)

    async def _settled_alone(self, report: Successes) -> Settled | Exception:
        try:
            (settled,) = await self.settle_successes([report])
        except Exception as exc:  # the worker of this report gets the error
            return exc
        return settled

    def _read_successes(
        self,
        reports: Sequence[Successes],
        replies: Sequence[tuple[str, list[Any]]],
        claim: TravellingClaim | None,
    ) -> list[Settled | Exception]:
        """Count the ended attempts, and return the answers. If no claim went with the call, tell the leader which slots
        became free.
        """
        codes: list[int] = []
        has_opened = False
        for _, (of_call, opened, runs_of_workers) in replies:
            codes += of_call
            has_opened = has_opened or bool(opened)
            # There is either one call for all workers, or several calls for a single worker.
            for one, runs in zip(reports, runs_of_workers, strict=True):
                on_worker = self._tally.on(one.worker_id)
                for name, run_ms, jobs in zip(runs[::3], runs[1::3], runs[2::3], strict=True):
                    self._tally.succeeded(name.decode(), run_ms, jobs)
                    on_worker.succeed(run_ms, jobs)
        answers: list[Settled | Exception] = []
        begin = 0
        for one in reports:
            end = begin + len(one.ended)
            of_one, begin = codes[begin:end], end
            if UNKNOWN in of_one:
                answers.append(unknown_worker(one.worker_id))
                continue
            given = claim.given.get(one.worker_id) if claim is not None else None
            answers.append(Settled(list(map(bool, of_one)), given))
            if claim is None:
                self._shard.leader.wake(SlotsFreed(one.worker_id, sum(of_one)))
        if has_opened:
            self._shard.leader.wake(JobsReady())
        return answers

    def _success_call(self, reports: Sequence[Successes]) -> ScriptCall:
        k, now = self._keys, self._shard.now
        keys = [k.running, self._succeeded, k.results]
        workers = b""
        # By number of the attempt, not by job ID: a stale report may name a job that another worker of this call runs.
        used: dict[int, UsedUnits] = {}
        ended: list[Arg] = []
        before = 1
        for one in reports:
            keys += (k.claims(one.worker_id), k.worker(one.worker_id))
            workers += codec.id_bytes(one.worker_id) + len(one.ended).to_bytes(4, "big")
            if one.used:
                for number, (job_id, _, _) in enumerate(one.ended, before):
                    if job_id in one.used:
                        used[number] = one.used[job_id]
            before += len(one.ended)
            for job_id, token, result in one.ended:
                ended += (job_id, bytes.fromhex(token), result)
        return ScriptCall(
            load("settle_success"),
            keys,
            ("" if now is None else now(), k.tag, workers, self._times.current.result_ttl_ms,
             "" if self._shard.leader.is_here else k.wake_channel, k.finished_channel,
             codec.pack(used) if used else b"", *ended),
        )  # fmt: skip

    async def settle(
        self, worker_id: str, settlements: Sequence[Settlement], newest_fence: int | None = None
    ) -> list[bool]:
        """End attempts that did not succeed, each as its `decision` says. Return False for each attempt with a stale
        token. `newest_fence`: see `ReportedSlots`. The answer carries no jobs.
        """
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
        # Tell the leader before the jobs become ready, so that it does not offer them to the same worker.
        await tell_left_to_others(self._shard, settlements, worker_id)
        freed = ReportedSlots(worker_id, len(settlements), newest_fence, has_answer=False)
        claim = self._shard.leader.claim_with([freed], ())
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


async def tell_left_to_others(shard: Shard, settlements: Sequence[Settlement], worker_id: str = "") -> None:
    """Tell the leader which names the workers of these attempts leave to other workers. `worker_id`: the worker that
    reports all attempts, if there is one.
    """
    left: dict[tuple[str, str], int] = {}
    for s in settlements:
        if s.leave_ms:
            key = worker_id or s.worker_id, s.name
            left[key] = max(s.leave_ms, left.get(key, 0))
    for (of_worker, name), for_ms in left.items():
        message = LeftToOthers(of_worker, for_ms, name)
        if shard.leader.is_here:
            shard.leader.wake(message)
        else:
            await shard.client.publish(shard.keys.wake_channel, encode(message))


def _are_too_many(reports: Sequence[Successes]) -> bool:
    """Return whether these reports together exceed the limits of one call for several workers."""
    results = [result for one in reports for _, _, result in one.ended]
    return len(results) > MAX_PER_CALL or sum(map(len, results)) > MAX_SHARED_BYTES


def _check_known(word: str, worker_id: str) -> None:
    if word == "unknown":
        raise unknown_worker(worker_id)


def target_args(keys: Keys, decision: Decision) -> tuple[Arg, ...]:
    """Return the script arguments for the next state of the job."""
    index = "" if decision.state is JobState.READY else keys.index(decision.state)
    return codec.STATE_CODES[decision.state], index, decision.delay_ms, int(decision.cause)
