"""Challenges for the workers that open them, and for the outside systems that answer."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from jqmaster.clock import Clock
from jqmaster.domain.challenge import (
    Callback,
    CallbackAnswer,
    ChallengeFigures,
    RequestId,
    Signature,
    new_request_id,
    read_request_id,
)
from jqmaster.domain.ids import is_id
from jqmaster.domain.quota import Quota
from jqmaster.errors import (
    ChallengeOverError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RateLimitedError,
    unknown_worker,
)
from jqmaster.store.jobs.challenges import ChallengeStore, Opened

# Unknown request IDs that one address may ask for within a minute.
MAX_MISSES: Final = 30


@dataclass(frozen=True, slots=True)
class NewChallenge:
    """A challenge as its attempt asks for it. `meta` is encoded MessagePack."""

    job_id: str
    token: str
    wait_ms: int
    expect: int = 1
    meta: bytes | None = None
    signature: Signature | None = None


class ChallengeService:
    """Methods raise what the store raises."""

    def __init__(self, store: ChallengeStore, clock: Clock, figures: ChallengeFigures) -> None:
        self._store = store
        self._clock = clock
        self._figures = figures
        self._misses = Quota()

    async def open(self, worker_id: str, new: NewChallenge) -> RequestId:
        """Open a challenge for the attempt that holds a job. Raise NotFoundError for a worker that is not registered,
        ConflictError where the attempt does not hold the job, or has its callbacks already."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        request = new_request_id(new.job_id)
        opened = await self._store.open(
            worker_id,
            new.token,
            request,
            wait_ms=new.wait_ms,
            expect=new.expect,
            meta=new.meta,
            signature=new.signature,
        )
        if isinstance(opened, Opened):
            self._figures.opened += 1
            return request
        if opened == "unknown":
            raise unknown_worker(worker_id)
        if opened == "answered":
            raise ConflictError(
                "the callbacks of this attempt are there; enqueue another job for a further step",
                code="challenge_answered",
            )
        raise ConflictError("the worker does not hold the job under this token", code="stale_token")

    async def call_back(
        self, request_id: str, callback: Callback, *, key: str, headers: Mapping[str, str], address: str
    ) -> bool:
        """Take a callback; return False if the same one came before. `key` tells callbacks with equal bodies apart.

        Raise NotFoundError, ConflictError for another callback than the one before, ChallengeOverError after the
        attempt, ForbiddenError for a wrong signature, RateLimitedError for an address that guesses.
        """
        request = self._known(request_id, address)
        identity = hashlib.sha256(key.encode()).digest()[:16] if key else callback.digest
        received = await self._store.take(request, callback, identity)
        if isinstance(received, Signature):
            if not received.is_valid(headers.get(received.header.lower(), ""), callback.body):
                raise ForbiddenError(
                    "the signature of the callback is missing or wrong", code="bad_signature"
                )
            received = await self._store.take(request, callback, identity, is_verified=True)
            assert not isinstance(received, Signature)
        self._figures.received(received.answer, received.after_ms)
        if received.answer is CallbackAnswer.TAKEN:
            return True
        if received.answer is not CallbackAnswer.REPEATED:
            self._refuse(received.answer, address)
        return False

    async def tell(self, request_id: str, fraction: float | None, message: str, *, address: str) -> None:
        """Keep the progress of the outside system. Raise as `call_back`."""
        answer = await self._store.tell(self._known(request_id, address), fraction, message)
        if answer is not CallbackAnswer.TAKEN:
            self._refuse(answer, address)

    def _known(self, request_id: str, address: str) -> RequestId:
        now_s = self._clock.monotonic_s()
        if self._misses.count(address, now_s) >= MAX_MISSES:
            raise RateLimitedError(
                "too many unknown request IDs; wait a moment",
                code="too_many_callbacks",
                retry_after_s=self._misses.left_s(now_s),
            )
        request = read_request_id(request_id)
        if request is None:
            self._refuse(CallbackAnswer.UNKNOWN, address)
        return request

    def _refuse(self, answer: CallbackAnswer, address: str) -> NoReturn:
        if answer is CallbackAnswer.CONFLICT:
            raise ConflictError("another callback came before", code="callback_conflict")
        if answer is CallbackAnswer.OVER:
            raise ChallengeOverError(
                "the attempt that waited for this callback is over", code="challenge_over"
            )
        self._misses.add(address, self._clock.monotonic_s())
        raise NotFoundError("no challenge has this request ID", code="unknown_challenge")
