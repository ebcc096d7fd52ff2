"""Claims, which give jobs to a worker for the time of a lease. Only the leader claims."""

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from jqmaster.domain.challenges.challenge import Callback
from jqmaster.domain.ids import TOKEN_BYTES, new_tokens
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import DamagedError
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

# Maximum number of bytes of records that one round trip returns. The last record of each call may exceed it. Each claim
# gets an equal share. If the last job of a claim exceeds the share, the next claims of its call get less.
MAX_CLAIM_BYTES: Final = 8 * 1024 * 1024
# Packed after the ID of each worker: the limit of its claim, and whether its poll waits at this master.
_LIMIT: Final = struct.Struct(">IB")


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """A claim to make: up to `limit` jobs of these names for a worker. `polls_here`: the worker's poll waits at this
    master."""

    worker_id: str
    names: Sequence[str]
    limit: int
    polls_here: bool = False


class OmissionReason(StrEnum):
    """The reason why a job does not get the result of a predecessor."""

    TOO_LARGE = "too_large"
    NOT_KEPT = "not_kept"


@dataclass(frozen=True, slots=True)
class PredecessorResult:
    """A predecessor and its result. `state`: None if the predecessor was deleted. `result`: in the encoding of
    `encode_result`. None: `omitted` has the reason.
    """

    job_id: str
    state: JobState | None
    result: bytes | None
    omitted: OmissionReason


@dataclass(slots=True)
class ClaimedJob:
    job_id: str
    token: str
    fence: int
    record: codec.ClaimedRecord
    # The last checkpoint that an earlier attempt saved.
    checkpoint: bytes | None = None
    # The callbacks of the job's challenge, if their arrival has caused this claim; otherwise empty.
    callbacks: Sequence[Callback] = ()
    # The `meta` of the answered challenge, as MessagePack; None if it has none or there are no callbacks.
    challenge_meta: bytes | None = None
    # The results of the job's predecessors; None if it has no predecessors.
    inputs: Sequence[PredecessorResult] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Jobs claimed for one worker. Tokens have 32 hex characters.

    * `passed_over`: the number of expired or damaged jobs.
    * `is_exhausted`: the wanted names have no more jobs that may start.
    * `opens_in_ms`: the time until a closed gate opens by itself (-1: none).
    """

    now_ms: int
    busy: int
    not_after_ms: int
    lease_until_ms: int
    jobs: list[ClaimedJob]
    passed_over: int = 0
    is_exhausted: bool = False
    opens_in_ms: int = -1
    # True if the worker pulls and its poll waits at this master. The script has then notified no other master.
    is_ours_to_tell: bool = False


class NotClaimed(Enum):
    """The reason why a claim was refused.

    * `NO_POLL`: the worker pulls, and has no open poll.
    * `DAMAGED`: a key of the worker has the wrong type.

    A suspect has to run alone. A claim of a suspect can be refused for further reasons:

    * `BUSY`: the worker holds a job.
    * `OVER`: the job no longer waits for such a claim.
    * `CLOSED`: a gate is closed.
    """

    STALE_CONSTRAINTS = "stale_constraints"
    GONE = "gone"
    NO_POLL = "no_poll"
    DAMAGED = "damaged"
    FULL = "full"
    BUSY = "busy"
    OVER = "over"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of the claims in one call. `read_claims` needs them to read the answer. `workers`: the positions of
    these claims among all wanted claims.
    """

    workers: Sequence[int]
    tokens: bytes
    lease_ms: int
    offer_ms: int


@dataclass(frozen=True, slots=True)
class PreparedClaims:
    """Claims that have not been sent yet. Each call makes the claims of workers that serve the same names."""

    calls: Sequence[ScriptCall]
    terms: Sequence[_Terms]
    wanted: Sequence[WantedClaim]


class ClaimStore:
    """Claims of one shard. Lease, offer and grace come from the settings. `tally` counts confirmed claims. Raises what
    `StoreClient.run` raises.
    """

    def __init__(self, shard: Shard, tally: Tally, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys
        self._skipped = shard.keys.finished(JobState.SKIPPED)
        self._times = times

    async def claim_each(
        self, epoch: str, wanted: Sequence[WantedClaim], edition: int = 0
    ) -> list[Claim | NotClaimed | Exception]:
        """Make these claims in order, in one round trip. Jobs that no constraint of this edition holds back are claimed
        by priority, the smallest first, then by age. The limit on returned bytes applies to all claims together. If a
        single claim fails, the list has the error in its place.
        """
        prepared = self.prepare_claims(epoch, wanted, edition)
        return self.read_claims(prepared, await self._client.run_each(prepared.calls))

    def prepare_claims(self, epoch: str, wanted: Sequence[WantedClaim], edition: int = 0) -> PreparedClaims:
        """Return the script calls of `claim_each`, for the caller to send."""
        # Read the settings once, so that the worker and the store get the same durations.
        times = self._times.current
        max_bytes = MAX_CLAIM_BYTES // len(wanted)
        calls: list[ScriptCall] = []
        terms: list[_Terms] = []
        for numbers, limit in [((0,), wanted[0].limit)] if len(wanted) == 1 else _shared_calls(wanted):
            tokens = new_tokens(min(limit, MAX_PER_CALL))
            terms.append(_Terms(numbers, tokens, times.lease_ms, times.offer_ms))
            calls.append(self._claim_call(epoch, wanted, edition, terms[-1], max_bytes))
        return PreparedClaims(calls, terms, wanted)

    def read_claims(
        self, prepared: PreparedClaims, replies: Sequence[tuple[str, list[Any]] | Exception]
    ) -> list[Claim | NotClaimed | Exception]:
        """Read the store's answers to the calls of `prepare_claims`."""
        if len(prepared.wanted) == 1:
            return self._read(prepared.wanted, replies[0], prepared.terms[0])
        claims: dict[int, Claim | NotClaimed | Exception] = {}
        for reply, terms in zip(replies, prepared.terms, strict=True):
            of_call = [prepared.wanted[n] for n in terms.workers]
            claims.update(zip(terms.workers, self._read(of_call, reply, terms), strict=True))
        return [claims[n] for n in range(len(prepared.wanted))]

    def _claim_call(
        self, epoch: str, wanted: Sequence[WantedClaim], edition: int, terms: _Terms, max_bytes: int
    ) -> ScriptCall:
        k, now = self._keys, self._shard.now
        keys = [k.epoch, k.running, k.fence, self._skipped, k.damaged, k.rules]
        workers = b""
        for number in terms.workers:
            one = wanted[number]
            worker_id = one.worker_id
            keys += (k.worker(worker_id), k.claims(worker_id), k.mail(worker_id))
            workers += codec.id_bytes(worker_id) + _LIMIT.pack(min(one.limit, MAX_PER_CALL), one.polls_here)
        return ScriptCall(
            load("claim"),
            keys,
            ("" if now is None else now(), epoch, edition, workers, terms.lease_ms, terms.offer_ms,
             self._times.current.grace_ms, k.tag, terms.tokens, k.finished_channel, k.wake_channel, max_bytes,
             *dict.fromkeys(wanted[terms.workers[0]].names)),
        )  # fmt: skip

    def _read(
        self, wanted: Sequence[WantedClaim], reply: tuple[str, list[Any]] | Exception, terms: _Terms
    ) -> list[Claim | NotClaimed | Exception]:
        """Return the claims of one call."""
        if isinstance(reply, Exception):
            return [reply for _ in wanted]
        word, data = reply
        if word == "none":
            told = data[0]
            return [NotClaimed(refused.decode()) for refused in told[::3]]
        if word != "ok":
            return [NotClaimed(word) for _ in wanted]
        now_ms, first_fence, passed_over, is_exhausted, opens_in_ms, flat, expired, told = data
        if expired:
            self._tally.skipped(name.decode() for name in expired)
        claims: list[Claim | NotClaimed | Exception] = []
        begin = 0
        for one, share_word, busy, count in zip(wanted, told[::3], told[1::3], told[2::3], strict=True):
            if share_word != b"ok":
                claims.append(NotClaimed(share_word.decode()))
                continue
            end = begin + count
            fenced = zip(
                range(first_fence + begin, first_fence + end),
                flat[2 * begin : 2 * end : 2],
                flat[2 * begin + 1 : 2 * end : 2],
                strict=True,
            )
            jobs = self._decoded(fenced, terms.tokens[begin * TOKEN_BYTES : end * TOKEN_BYTES].hex(), now_ms)
            claims.append(
                Claim(
                    now_ms,
                    busy,
                    now_ms + terms.offer_ms,
                    now_ms + terms.lease_ms,
                    jobs,
                    passed_over + count - len(jobs),
                    bool(is_exhausted),
                    opens_in_ms,
                    one.polls_here,
                )
            )
            # `passed_over` counts the jobs of the whole call, so report it with the first worker only.
            begin, passed_over = end, 0
        return claims

    def _decoded(
        self, claimed: Iterable[tuple[int, bytes, bytes]], tokens: str, now_ms: int
    ) -> list[ClaimedJob]:
        """Return the jobs of one worker from the fence, ID and record of each, and their tokens in hexadecimal digits.
        Leave out damaged records, which no worker can run: the leader sets their jobs aside when their leases end."""
        jobs = []
        waits: defaultdict[str, list[int]] = defaultdict(list)
        for n, (fence, job_id, record) in enumerate(claimed):
            try:
                decoded = codec.decode_claimed(record)
            except DamagedError:
                continue
            token = tokens[n * 2 * TOKEN_BYTES : (n + 1) * 2 * TOKEN_BYTES]
            jobs.append(ClaimedJob(job_id.decode(), token, fence, decoded))
            if decoded.ready_since_ms and not decoded.has_callback:
                waits[decoded.name].append(now_ms - decoded.ready_since_ms)
        for name, waits_ms in waits.items():
            self._tally.claimed(name, waits_ms)
        return jobs

    async def suspects(self, limit: int) -> list[str]:
        """Return IDs of suspects, jobs that may wait to run alone on a worker, in no particular order."""
        found = await self._client.command("SRANDMEMBER", self._keys.suspects, limit)
        return [job_id.decode() for job_id in found]

    async def drop_suspects(self, epoch: str, job_ids: Sequence[str]) -> None:
        """Remove the jobs among these that no longer wait from the list of suspects."""
        k = self._keys
        await self._client.run("drop_suspects", (k.epoch, k.suspects), (epoch, k.job_prefix, *job_ids))

    async def claim_alone(
        self, epoch: str, worker_id: str, job_id: str, edition: int = 0, *, polls_here: bool = False
    ) -> Claim | NotClaimed:
        """Claim one suspect (a job whose workers were lost) for a worker that holds no job. The worker gets no other
        job meanwhile. `polls_here`: see `WantedClaim`.
        """
        k = self._keys
        token = new_tokens(1)
        times = self._times.current
        word, data = await self._client.run(
            "claim_alone",
            (
                k.epoch,
                k.worker(worker_id),
                k.claims(worker_id),
                k.running,
                k.retrying,
                k.suspects,
                k.fence,
                k.rules,
                k.mail(worker_id),
            ),
            (self._shard.now_arg, epoch, edition, codec.id_bytes(worker_id), job_id, token, times.lease_ms,
             times.offer_ms, times.grace_ms, k.tag, worker_id, "" if polls_here else k.wake_channel),
        )  # fmt: skip
        if word != "ok":
            return NotClaimed(word)
        now_ms, fence, record = data
        job = ClaimedJob(job_id, token.hex(), fence, codec.decode_claimed(record))
        if job.record.ready_since_ms:
            self._tally.claimed(job.record.name, [now_ms - job.record.ready_since_ms])
        not_after_ms, lease_until_ms = now_ms + times.offer_ms, now_ms + times.lease_ms
        return Claim(now_ms, 1, not_after_ms, lease_until_ms, [job], is_ours_to_tell=polls_here)


def _shared_calls(wanted: Sequence[WantedClaim]) -> list[tuple[list[int], int]]:
    """Return for each call the positions of its claims, and how many jobs they claim. One call has only claims of
    workers that serve the same names. Claims that do not fit go into another call.
    """
    calls: list[tuple[list[int], int]] = []
    # By names that a worker serves: the position of the last call for these names in `calls`.
    last: dict[tuple[str, ...], int] = {}
    for number, one in enumerate(wanted):
        names, limit = tuple(one.names), min(one.limit, MAX_PER_CALL)
        place = last.get(names)
        if place is None or calls[place][1] + limit > MAX_PER_CALL:
            last[names] = len(calls)
            calls.append(([number], limit))
        else:
            numbers, so_far = calls[place]
            calls[place] = ([*numbers, number], so_far + limit)
    return calls
