"""Opens challenges for workers, and accepts the callbacks of outside systems."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from jqmaster.domain.challenges.challenge import (
    Callback,
    CallbackAnswer,
    CallbackSignature,
    ChallengeFigures,
    RequestId,
    new_request_id,
)
from jqmaster.domain.challenges.challenge_form import Audience, Form
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.targets.callback import EARLY_WAIT_MS, TARGET_META, TARGET_NONCE
from jqmaster.errors import ConflictError, ForbiddenError, unknown_worker
from jqmaster.service.challenges.request_ids import RequestIds
from jqmaster.store.jobs.challenges import AskedForm, ChallengeStore, OpenedChallenge, ReceivedCallback
from jqmaster.store.jobs.records import RecordStore


@dataclass(frozen=True, slots=True)
class NewChallenge:
    """A challenge that a worker requests. `meta`: encoded MessagePack. `nonce`: a second call with the same nonce
    counts as a repeat."""

    job_id: str
    token: str
    wait_ms: int
    expect: int = 1
    meta: bytes | None = None
    signature: CallbackSignature | None = None
    form: Form | None = None
    audience: Audience = Audience.LINK
    remind_ms: int | None = None
    nonce: str = ""


class ChallengeService:
    """Opens challenges, and accepts their callbacks. Methods raise what the store raises."""

    def __init__(
        self, store: ChallengeStore, ids: RequestIds, figures: ChallengeFigures, records: RecordStore
    ) -> None:
        self._store = store
        self._ids = ids
        self._figures = figures
        self._records = records

    async def open(self, worker_id: str, new: NewChallenge) -> RequestId:
        """Open a challenge for a running attempt, and return its request ID. Raise NotFoundError if the worker is not
        registered, and ConflictError if it does not hold the job or the callbacks of the attempt have already
        arrived."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        request = new_request_id(new.job_id, new.token, new.nonce)
        opened = await self._store.open(
            worker_id,
            new.token,
            request,
            wait_ms=new.wait_ms,
            expect=new.expect,
            meta=new.meta,
            signature=new.signature,
            form=new.form,
            audience=new.audience,
            remind_ms=new.remind_ms,
        )
        if isinstance(opened, OpenedChallenge):
            self._figures.opened += opened.is_new
            return request
        if opened == "unknown":
            raise unknown_worker(worker_id)
        if opened == "answered":
            raise ConflictError(
                "the callbacks of this attempt have arrived; enqueue another job for a further step",
                code="challenge_answered",
            )
        raise ConflictError("the worker does not hold the job under this token", code="stale_token")

    async def call_back(
        self, request_id: str, callback: Callback, *, key: str, headers: Mapping[str, str], address: str
    ) -> bool | None:
        """Accept a callback, and return True. Return False if the same callback came before. Return None if the
        challenge has a form, because only people answer it. `key`: distinguishes callbacks with equal bodies.

        Raise one of these errors:

        * NotFoundError,
        * ConflictError if another callback came before,
        * ChallengeOverError if the attempt is over,
        * ForbiddenError for a wrong signature,
        * RateLimitedError if the address has presented too many unknown request IDs.
        """
        request = self._ids.read(request_id, address)
        identity = hashlib.sha256(key.encode()).digest()[:16] if key else callback.digest
        received = await self._store.take(request, callback, identity)
        if _is_unknown(received) and await self._open_for_target(request):
            received = await self._store.take(request, callback, identity)
        if isinstance(received, CallbackSignature):
            if not received.is_valid(headers.get(received.header.lower(), ""), callback.body):
                raise ForbiddenError(
                    "the signature of the callback is missing or wrong", code="bad_signature"
                )
            received = await self._store.take(request, callback, identity, is_verified=True)
        if isinstance(received, AskedForm):
            return None
        assert not isinstance(received, CallbackSignature)
        self._figures.received(received.answer, received.after_ms)
        if received.answer is CallbackAnswer.TAKEN:
            return True
        if received.answer is not CallbackAnswer.REPEATED:
            self._ids.refuse(received.answer, address)
        return False

    async def _open_for_target(self, request: RequestId) -> bool:
        """Open the challenge of a delivery to a target that calls back before it has answered the request. Return False
        if the request ID does not belong to a delivery in progress."""
        job = (await self._records.get_without_argument([request.job_id])).get(request.job_id)
        if job is None or job.state is not JobState.RUNNING:
            return False
        own = new_request_id(job.id, job.token, TARGET_NONCE)
        if not hmac.compare_digest(own.digest, request.digest):
            return False
        opened = await self._store.open(
            job.worker_id, job.token, request, wait_ms=EARLY_WAIT_MS, expect=1, meta=TARGET_META
        )
        return isinstance(opened, OpenedChallenge)

    async def report_progress(
        self, request_id: str, fraction: float | None, message: str, *, address: str
    ) -> None:
        """Store the progress that an outside system reports. Raise what `call_back` raises."""
        answer = await self._store.report_progress(self._ids.read(request_id, address), fraction, message)
        if answer is not CallbackAnswer.TAKEN:
            self._ids.refuse(answer, address)


def _is_unknown(received: object) -> bool:
    return isinstance(received, ReceivedCallback) and received.answer is CallbackAnswer.UNKNOWN
