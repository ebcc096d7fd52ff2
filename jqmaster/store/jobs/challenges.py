"""Challenges of jobs, and the callbacks that answer them. `lua/lib/challenges/challenges.lua` has their stored form."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.challenges.challenge import (
    CHALLENGE_CODES,
    Callback,
    CallbackAnswer,
    CallbackSignature,
    Challenge,
    ChallengeState,
    RequestId,
)
from jqmaster.domain.challenges.challenge_form import Audience, Form, GivenAnswer, document_of, form_of
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.jobs.outcome import NotReadyRecord
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import unknown_worker
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.settlements import Settlement, target_args
from jqmaster.store.link.pages import MAX_PER_CALL, RECORDS_PER_READ, newest_first, pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady, SlotsFreed

logger = logging.getLogger(__name__)

_STATES: Final = {code: state for state, code in CHALLENGE_CODES.items()}
_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, msgpack.UnpackException)
# Number of challenges per round trip. It is small, because their callbacks may be as large as arguments.
CALLBACKS_PER_READ: Final = 16

# By stored text: the audience of a challenge.
_AUDIENCES: Final = {str(audience): audience for audience in Audience}

# The status for an attempt that reports that it waits for its challenge, but has not opened one.
NOT_OPENED: Final = 2


@dataclass(frozen=True, slots=True)
class OpenedChallenge:
    """An opened challenge, and the name of its job. `is_new`: False if this call repeats the one that opened it."""

    name: str
    at_ms: int
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class ReceivedCallback:
    """The answer to a callback, and the name of its job. `after_ms`: time since the challenge was opened."""

    answer: CallbackAnswer
    name: str = ""
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class AskedForm:
    """Returned for a callback if its challenge has a form. The caller first has to check the person's answer against
    the form."""


@dataclass(frozen=True, slots=True)
class DueChallenges:
    """Jobs whose callbacks did not arrive in time. A job is `None` if its record cannot be read. `next_ms`: the time
    until the next job is due. -1: none.
    """

    now_ms: int
    jobs: Sequence[tuple[str, Job | None]]
    next_ms: int


class ChallengeStore:
    """Challenges of one shard. `tally` counts what the store has confirmed. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore, tally: Tally, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._records = records
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys
        self._times = times

    # --- for the attempt that opens a challenge

    async def open(
        self,
        worker_id: str,
        token: str,
        request: RequestId,
        *,
        wait_ms: int,
        expect: int,
        meta: bytes | None,
        signature: CallbackSignature | None = None,
        form: Form | None = None,
        audience: Audience = Audience.LINK,
        remind_ms: int | None = None,
    ) -> OpenedChallenge | str:
        """Open a challenge for a running attempt. If that is impossible, return the reason: `stale`, `answered` (the
        callbacks of the present challenge have arrived) or `unknown` (the worker is not registered)."""
        k = self._keys
        word, data = await self._client.run(
            "open_challenge",
            (k.job(request.job_id), k.challenged, k.worker(worker_id)),
            (self._shard.now_arg, k.tag, codec.id_bytes(worker_id), request.job_id, bytes.fromhex(token),
             request.shown, request.digest, wait_ms, expect, meta or b"",
             *((signature.header, signature.secret, signature.prefix, signature.encoding) if signature
               else ("", "", "", "")),
             *((codec.pack(document_of(form)), audience, request.text) if form else ("", "", "")),
             "" if remind_ms is None else remind_ms),
        )  # fmt: skip
        return OpenedChallenge(data[0].decode(), data[1], bool(data[2])) if word == "ok" else word

    async def await_callbacks(self, worker_id: str, reports: Sequence[tuple[str, str, bytes]]) -> list[int]:
        """Make attempts wait for the callbacks of their challenges. `reports`: (job ID, token, digest of the request
        ID).

        Return for each report 1 (the attempt waits), 0 (the token is stale) or `NOT_OPENED`. Raise NotFoundError if no
        report is valid and the worker is not registered.
        """
        k = self._keys
        verdicts: list[int] = []
        for page in pages(reports, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, k.tag, codec.id_bytes(worker_id), self._shard.wake_channel,
            ]  # fmt: skip
            for job_id, token, digest in page:
                args += (job_id, bytes.fromhex(token), digest)
            word, data = await self._client.run(
                "await_callback", (k.running, k.awaiting_callback, k.worker(worker_id)), args
            )
            if word == "unknown":
                raise unknown_worker(worker_id)
            verdicts += data[0]
            self._shard.leader.wake(SlotsFreed(worker_id, data[0].count(1)))
            self._shard.leader.wake(JobDelayed())
            if data[1]:
                self._shard.leader.wake(JobsReady())
        return verdicts

    async def note_not_ready(
        self, worker_id: str, job_id: str, token: str
    ) -> tuple[int, NotReadyRecord] | None:
        """Count a report that the work cannot begin yet. Return the store time, the time of the first such report, and
        the number of these reports. Return None if the token is stale.
        """
        k = self._keys
        word, data = await self._client.run(
            "note_not_ready",
            (k.job(job_id), k.progress(job_id)),
            (self._shard.now_arg, codec.id_bytes(worker_id), bytes.fromhex(token)),
        )
        return (data[0], NotReadyRecord(data[1], data[2])) if word == "ok" else None

    # --- for the outside system

    async def take(
        self,
        request: RequestId,
        callback: Callback,
        identity: bytes,
        *,
        is_verified: bool = False,
        answer: GivenAnswer | None = None,
        digest: bytes | None = None,
    ) -> ReceivedCallback | CallbackSignature | AskedForm:
        """Store a callback.

        * `identity`: equal for repeats of one callback.
        * `digest`: differs if the content differs; by default the digest of the callback.
        * `answer`: the answer of a person.

        Without `is_verified`, nothing is stored for a challenge with a signature or a form. The result is then the
        expected signature, or AskedForm.
        """
        k = self._keys
        call = ScriptCall(
            load("take_callback"),
            (k.job(request.job_id), k.challenges(request.job_id)),
            (self._shard.now_arg, k.tag, request.job_id, request.digest, identity, digest or callback.digest,
             callback.content_type, callback.body, self._shard.wake_channel, int(is_verified),
             codec.pack([answer.choice, answer.comment, answer.by, answer.address]) if answer else b""),
        )  # fmt: skip
        # The name of the job is unknown here, so ask for a claim of jobs of any name.
        claim = self._shard.leader.claim_with(JobsReady(), ())
        ((word, data),) = await self._client.run_all([call], claim=claim)
        if word == "form":
            return AskedForm()
        if word == "unverified":
            header, secret, prefix, encoding = (raw.decode() for raw in data)
            return CallbackSignature(header, secret, prefix, "base64" if encoding == "base64" else "hex")
        told = CallbackAnswer(word)
        if told is not CallbackAnswer.TAKEN:
            return ReceivedCallback(told, data[0].decode() if data else "")
        if data[2] and claim is None:
            self._shard.leader.wake(JobsReady())
        return ReceivedCallback(told, data[0].decode(), data[1])

    async def take_shown(self, job_id: str, shown: str, callback: Callback) -> ReceivedCallback:
        """Store a callback from an operator, who knows only the shown part of the request ID."""
        found = await self.find_shown(job_id, shown)
        if found is None:
            return ReceivedCallback(CallbackAnswer.UNKNOWN)
        request = RequestId("", job_id, shown, found.digest)
        received = await self.take(request, callback, callback.digest, is_verified=True)
        assert isinstance(received, ReceivedCallback)
        return received

    async def find(self, request: RequestId) -> Challenge | None:
        """Return the challenge of a request ID, or None if there is none."""
        found = (await self.of([request.job_id]))[request.job_id]
        return next((one for one in found if one.digest == request.digest), None)

    async def find_shown(self, job_id: str, shown: str) -> Challenge | None:
        """Return the newest challenge with this shown part of the request ID, or None if there is none."""
        found = (await self.of([job_id]))[job_id]
        return next((one for one in reversed(found) if one.shown == shown), None)

    async def report_progress(
        self, request: RequestId, fraction: float | None, message: str
    ) -> CallbackAnswer:
        """Store the progress that the outside system reports."""
        k = self._keys
        word, _ = await self._client.run(
            "tell_challenge",
            (k.job(request.job_id), k.challenges(request.job_id)),
            (self._shard.now_arg, k.tag, request.job_id, request.digest,
             "" if fraction is None else repr(fraction), message),
        )  # fmt: skip
        return CallbackAnswer.TAKEN if word == "ok" else CallbackAnswer(word)

    # --- for a worker that runs the callbacks

    async def give_callbacks(self, jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
        """Give claimed jobs their callbacks. Return the jobs that may be offered. If a job was canceled or deleted
        after its claim, its challenge has ended, and the job must not start again.
        """
        answered = [job for job in jobs if job.record.has_callback]
        if not answered:
            return jobs
        over = set()
        for page in pages(answered, CALLBACKS_PER_READ):
            found = await self.of([job.job_id for job in page])
            for job in page:
                mine = found[job.job_id]
                # Compare attempts: if an operator has retried the job, the last challenge may belong to a later
                # attempt.
                if mine and mine[-1].attempt == job.record.attempt and mine[-1].callbacks:
                    job.callbacks, job.challenge_meta = mine[-1].callbacks, mine[-1].meta
                else:
                    over.add(job.token)
                    logger.info("job %s is not offered: its challenge ended after its claim", job.job_id)
        return [job for job in jobs if job.token not in over]

    # --- for the leader

    async def due(self) -> DueChallenges:
        """Return jobs whose callbacks did not arrive in time."""
        k = self._keys
        _, (now_ms, flat, next_ms) = await self._client.run(
            "due_challenges", (k.awaiting_callback,), (self._shard.now_arg, MAX_PER_CALL, k.job_prefix)
        )
        jobs = [
            (raw.decode(), await self._records.job_or_none(raw.decode(), head))
            for raw, head in zip(flat[::2], flat[1::2], strict=True)
        ]
        return DueChallenges(now_ms, jobs, next_ms)

    async def expire(
        self, epoch: str, settlements: Sequence[Settlement], unreadable: Sequence[str] = ()
    ) -> list[Settlement]:
        """End attempts whose callbacks did not arrive in time. Return the attempts that this call ended. Set
        `unreadable` jobs aside.
        """
        k = self._keys
        ended: list[Settlement] = []
        plain: list[tuple[Settlement | None, tuple[Arg, ...]]] = [
            (None, (job_id, "", "", 0, 0, 0, b"", b"")) for job_id in unreadable
        ]
        for s in settlements:
            args = (s.job_id, *target_args(k, s.decision), int(s.decision.is_counted), s.entry, s.result)
            plain.append((s, args))
        for page in pages(plain, MAX_PER_CALL):
            args_of: list[Arg] = [
                self._shard.now_arg, k.tag, epoch, self._times.current.result_ttl_ms, k.finished_channel,
            ]  # fmt: skip
            for _, args in page:
                args_of += args
            _, data = await self._client.run(
                "expire_challenge",
                (k.epoch, k.running, k.awaiting_callback, k.results, k.damaged),
                args_of,
            )
            for (settlement, _), is_ended in zip(page, data[0], strict=True):
                if is_ended and settlement:
                    self._tally.ended(
                        settlement.name,
                        settlement.decision,
                        job_id=settlement.job_id,
                        message=settlement.message,
                    )
                    ended.append(settlement)
        self._shard.leader.wake(JobsReady())
        self._shard.leader.wake(JobDelayed())
        return ended

    # --- for views of jobs

    async def of(self, job_ids: Sequence[str]) -> dict[str, list[Challenge]]:
        """Return the challenges of each job, the newest last."""
        found: dict[str, list[Challenge]] = {}
        for page in pages(job_ids, RECORDS_PER_READ):
            replies = await self._client.pipeline(
                [("GET", self._keys.challenges(job_id)) for job_id in page], skip_damaged=True
            )
            for job_id, packed in zip(page, replies, strict=True):
                found[job_id] = decode_challenges(job_id, packed) if packed else []
        return found

    async def newest(self, before: tuple[int, str] | None, count: int) -> list[tuple[int, str]]:
        """Return the times of the newest challenges and their job IDs, the newest first, after `before`."""
        return await newest_first(self._client, self._keys.challenged, before, count)


def decode_challenges(job_id: str, packed: bytes) -> list[Challenge]:
    """Decode the challenges of a job; return none if they cannot be read."""
    try:
        return [_challenge(job_id, fields) for fields in msgpack.unpackb(packed, raw=True)]
    except _UNREADABLE:
        return []


def _challenge(job_id: str, fields: dict[bytes, Any]) -> Challenge:
    taken = fields.get(b"taken") or ()

    def number(key: bytes) -> int:
        return int(fields.get(key, 0))

    def text(key: bytes) -> str:
        return bytes(fields.get(key, b"")).decode(errors="replace")

    return Challenge(
        job_id=job_id,
        shown=text(b"id"),
        attempt=number(b"attempt"),
        state=_STATES.get(number(b"state"), ChallengeState.VOID),
        opened_at_ms=number(b"opened"),
        wait_ms=number(b"wait"),
        expect=int(fields.get(b"expect", 1)),
        awaiting_since_ms=number(b"since"),
        due_at_ms=number(b"due"),
        received=len(taken),
        received_at_ms=int(taken[-1][2]) if taken else 0,
        run_at_ms=number(b"run"),
        ended_at_ms=number(b"ended"),
        fraction=codec.fraction_of(fields.get(b"fraction")),
        note=text(b"note"),
        told_at_ms=number(b"told"),
        meta=fields.get(b"meta"),
        callbacks=[
            Callback(one[3].decode(errors="replace"), one[4], int(one[2])) for one in taken if len(one) > 4
        ],
        digest=bytes(fields.get(b"digest", b"")),
        form=_form(fields[b"form"]) if b"form" in fields else None,
        audience=_AUDIENCES.get(text(b"audience"), Audience.LINK),
        answers=[
            _answer(answer, int(one[2]))
            for answer, one in zip(fields.get(b"answers") or (), taken, strict=False)
        ],
        link=text(b"link"),
        remind_ms=int(fields[b"remind"]) if b"remind" in fields else None,
    )


def _answer(packed: bytes, at_ms: int) -> GivenAnswer:
    choice, comment, by, address = msgpack.unpackb(packed)
    return GivenAnswer(choice, comment, by, address, at_ms)


def _form(packed: bytes) -> Form | None:
    """Return a form, or None if it cannot be read. Without a form, the challenge is still shown."""
    try:
        return form_of(msgpack.unpackb(packed))
    except _UNREADABLE:
        return None
