"""Finds the forms of challenges, and accepts the answers of people."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from jqmaster.domain.challenges.challenge import (
    Callback,
    CallbackAnswer,
    Challenge,
    ChallengeFigures,
    RequestId,
)
from jqmaster.domain.challenges.challenge_form import Audience, GivenAnswer, Submission, check_submission
from jqmaster.domain.identity.access import Principal, Scope
from jqmaster.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    after_it_was_done,
    invalid,
)
from jqmaster.service.challenges.request_ids import RequestIds
from jqmaster.service.identity.audit_writer import AuditWriter
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.challenges import ChallengeStore, ReceivedCallback

# The name in the audit log for a person who answered by the link, without a login.
BY_LINK: Final = "link"
ANSWER_TYPE: Final = "application/json"


class ChallengeForms:
    """Finds challenges with forms, and accepts the answers of people. Methods raise what the store raises."""

    def __init__(
        self, store: ChallengeStore, ids: RequestIds, figures: ChallengeFigures, audit: AuditWriter
    ) -> None:
        self._store = store
        self._ids = ids
        self._figures = figures
        self._audit = audit

    async def find(self, request_id: str, address: str) -> Challenge:
        """Return the challenge with this request ID. Raise NotFoundError, with the code `no_form` if the challenge has
        no form. Raise RateLimitedError if the address has presented too many unknown request IDs."""
        request = self._ids.read(request_id, address)
        found = await self._store.find(request)
        if found is None:
            self._ids.refuse(CallbackAnswer.UNKNOWN, address)
        if found.form is None:
            raise NotFoundError("this address takes the callback of another system", code="no_form")
        return found

    async def find_shown(self, job_id: str, shown: str) -> Challenge | None:
        """Return the challenge with this public part of its request ID. None: there is no such challenge, or it has no
        form."""
        found = await self._store.find_shown(job_id, shown)
        return found if found is not None and found.form is not None else None

    async def answer(
        self,
        challenge: Challenge,
        *,
        choice: str,
        comment: str,
        values: Mapping[str, Any],
        person: Principal | None,
        address: str,
    ) -> bool:
        """Accept the answer of a person. Return False if the same answer came before.

        Raise:

        * UnauthorizedError and ForbiddenError for a person who may not answer,
        * InvalidError, which names each field and its rule,
        * ConflictError if another answer came before,
        * ChallengeOverError if the attempt is over.
        """
        assert challenge.form is not None
        check_person(challenge, person)
        submission, errors = check_submission(challenge.form, choice, comment, values)
        if challenge.is_open and errors:
            raise invalid(errors)
        by = person.name if person else ""
        given = GivenAnswer(submission.choice, submission.comment, by, address, 0)
        content = _content(submission)
        # Identify the answer of a user by the name of the user, so that each user answers only once. People who use the
        # link cannot be told apart, so identify their answers by content.
        identity = _digest(by.encode() if challenge.audience is Audience.USERS else content)
        request = RequestId("", challenge.job_id, challenge.shown, challenge.digest)
        callback = Callback(ANSWER_TYPE, _body(submission, by, address))
        received = await self._store.take(
            request, callback, identity, is_verified=True, answer=given, digest=_digest(content)
        )
        assert isinstance(received, ReceivedCallback)
        self._figures.received(received.answer, received.after_ms)
        if received.answer is CallbackAnswer.REPEATED:
            return False
        if received.answer is not CallbackAnswer.TAKEN:
            self._ids.refuse(received.answer, address)
        with after_it_was_done():
            await self._audit.write(
                encode_entry(
                    who=by or BY_LINK,
                    action="challenge.answer",
                    target=challenge.job_id,
                    before=None,
                    after={"request": challenge.shown, "choice": submission.choice, "from": address},
                )
            )
        return True


def check_person(challenge: Challenge, person: Principal | None) -> None:
    """Raise UnauthorizedError or ForbiddenError if the person may not see and answer the form."""
    if challenge.audience is not Audience.USERS:
        return
    if person is None:
        raise UnauthorizedError("only people who are logged in may answer this challenge")
    if Scope.OPERATE not in person.scopes:
        raise ForbiddenError(f"the caller does not have the scope {Scope.OPERATE}")


def _body(submission: Submission, by: str, address: str) -> bytes:
    return json.dumps(
        {
            "choice": submission.choice,
            "comment": submission.comment,
            "values": dict(submission.values),
            "by": by or None,
            "address": address,
        },
        ensure_ascii=False,
    ).encode()


def _content(submission: Submission) -> bytes:
    return json.dumps(
        [submission.choice, submission.comment, sorted(submission.values.items())], ensure_ascii=False
    ).encode()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]
