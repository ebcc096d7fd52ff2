"""Claims, which give jobs to a worker for the time of a lease. Only the leader claims."""

from collections import defaultdict
from collections.abc import Sequence
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

# The most bytes of records that the claims of one round trip return. Each claim may exceed its share by its last job.
MAX_CLAIM_BYTES: Final = 8 * 1024 * 1024


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
    """A predecessor and its result. `state`: None if it was deleted. `result`: in the encoding that pushers get; None:
    `omitted` has the reason."""

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
    # The last checkpoint of an earlier attempt.
    checkpoint: bytes | None = None
    # Empty unless the job was claimed because its callbacks have arrived.
    callbacks: Sequence[Callback] = ()
    # The `meta` of the answered challenge, as MessagePack; None: it has none, or there are no callbacks.
    challenge_meta: bytes | None = None
    # None: the job has no predecessors.
    inputs: Sequence[PredecessorResult] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Jobs claimed for one worker. Tokens have 32 hex characters. `passed_over`: the number of expired or damaged jobs.
    `is_exhausted`: the wanted names have no more jobs that may start. `opens_in_ms`: the time until a closed gate opens
    by itself (-1: none)."""

    now_ms: int
    busy: int
    not_after_ms: int
    lease_until_ms: int
    jobs: list[ClaimedJob]
    passed_over: int = 0
    is_exhausted: bool = False
    opens_in_ms: int = -1
    # For a worker that pulls: its poll waits at this master, so the script notified no other master.
    is_ours_to_tell: bool = False


class NotClaimed(Enum):
    """The reason why a claim was refused. `NO_POLL`: the worker pulls, and has no open poll. For a suspect, which has
    to run alone: `BUSY`: the worker holds a job; `OVER`: the job no longer waits for this; `CLOSED`: a gate is
    closed."""

    STALE_CONSTRAINTS = "stale_constraints"
    GONE = "gone"
    NO_POLL = "no_poll"
    FULL = "full"
    BUSY = "busy"
    OVER = "over"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a claim, with which its answer is read."""

    tokens: bytes
    lease_ms: int
    offer_ms: int
    polls_here: bool


@dataclass(frozen=True, slots=True)
class PreparedClaims:
    """Claims that have not been sent yet."""

    calls: Sequence[ScriptCall]
    terms: Sequence[_Terms]


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
        by priority, the smallest first, then by age. All claims together return no more bytes than one may. If one
        claim fails alone, its error takes its place."""
        prepared = self.prepare_claims(epoch, wanted, edition)
        return self.read_claims(prepared, await self._client.run_each(prepared.calls))

    def prepare_claims(self, epoch: str, wanted: Sequence[WantedClaim], edition: int = 0) -> PreparedClaims:
        """Return the script calls of `claim_each`, for the caller to send."""
        # Tell the worker the same durations as the store, even if the settings change meanwhile.
        times = self._times.current
        terms = [
            _Terms(new_tokens(min(one.limit, MAX_PER_CALL)), times.lease_ms, times.offer_ms, one.polls_here)
            for one in wanted
        ]
        max_bytes = MAX_CLAIM_BYTES // len(wanted)
        calls = [
            self._claim_call(epoch, one, edition, t, max_bytes) for one, t in zip(wanted, terms, strict=True)
        ]
        return PreparedClaims(calls, terms)

    def read_claims(
        self, prepared: PreparedClaims, replies: Sequence[tuple[str, list[Any]] | Exception]
    ) -> list[Claim | NotClaimed | Exception]:
        """Read the store's answers to the calls of `prepare_claims`."""
        return [
            reply if isinstance(reply, Exception) else self._claimed(reply, terms)
            for reply, terms in zip(replies, prepared.terms, strict=True)
        ]

    def _claim_call(
        self, epoch: str, one: WantedClaim, edition: int, terms: _Terms, max_bytes: int
    ) -> ScriptCall:
        k, worker_id, now = self._keys, one.worker_id, self._shard.now
        keys = (
            k.epoch,
            k.worker(worker_id),
            k.claims(worker_id),
            k.running,
            k.fence,
            self._skipped,
            k.damaged,
            k.rules,
            k.mail(worker_id),
        )
        return ScriptCall(
            load("claim"),
            keys,
            ("" if now is None else now(), epoch, edition, codec.id_bytes(worker_id), len(terms.tokens) // TOKEN_BYTES,
             terms.lease_ms, terms.offer_ms, self._times.current.grace_ms, k.tag, terms.tokens, k.finished_channel,
             worker_id, "" if one.polls_here else k.wake_channel, max_bytes, *dict.fromkeys(one.names)),
        )  # fmt: skip

    def _claimed(self, reply: tuple[str, list[Any]], terms: _Terms) -> Claim | NotClaimed:
        word, data = reply
        if word != "ok":
            return NotClaimed(word)
        now_ms, busy, first_fence, passed_over, is_exhausted, opens_in_ms, flat, expired = data
        if expired:
            self._tally.skipped(name.decode() for name in expired)
        jobs = []
        waits: defaultdict[str, list[int]] = defaultdict(list)
        tokens = terms.tokens.hex()
        for n, (job_id, record) in enumerate(zip(flat[::2], flat[1::2], strict=True)):
            try:
                claimed = codec.decode_claimed(record)
            except DamagedError:
                # The record is damaged, so no worker can run the job. The leader sets it aside when its lease ends.
                passed_over += 1
                continue
            token = tokens[n * 2 * TOKEN_BYTES : (n + 1) * 2 * TOKEN_BYTES]
            jobs.append(ClaimedJob(job_id.decode(), token, first_fence + n, claimed))
            if claimed.ready_since_ms and not claimed.has_callback:
                waits[claimed.name].append(now_ms - claimed.ready_since_ms)
        for name, waits_ms in waits.items():
            self._tally.claimed(name, waits_ms)
        return Claim(
            now_ms,
            busy,
            now_ms + terms.offer_ms,
            now_ms + terms.lease_ms,
            jobs,
            passed_over,
            bool(is_exhausted),
            opens_in_ms,
            terms.polls_here,
        )

    async def suspects(self, limit: int) -> list[str]:
        """Return IDs of suspects, jobs that may wait to run alone on a worker, in no particular order."""
        found = await self._client.command("SRANDMEMBER", self._keys.suspects, limit)
        return [job_id.decode() for job_id in found]

    async def drop_suspects(self, epoch: str, job_ids: Sequence[str]) -> None:
        """Remove those of these jobs from the list of suspects that no longer wait."""
        k = self._keys
        await self._client.run("drop_suspects", (k.epoch, k.suspects), (epoch, k.job_prefix, *job_ids))

    async def claim_alone(
        self, epoch: str, worker_id: str, job_id: str, edition: int = 0, *, polls_here: bool = False
    ) -> Claim | NotClaimed:
        """Claim one suspect, whose workers were lost, for a worker that holds no job and gets no other one meanwhile.
        `polls_here`: see `WantedClaim`."""
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
