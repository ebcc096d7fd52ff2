"""Challenges as clients see them."""

from typing import Any

import msgpack

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.domain.challenges.challenge import Challenge
from jqmaster.domain.challenges.challenge_form import Form, document_of
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.content.readable import readable
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.service.challenges.reader import ShownChallenge


def challenge_view(shown: ShownChallenge, access: ContentAccess) -> dict[str, Any]:
    """Return a `ChallengeView`."""
    challenge, job, end = shown.challenge, shown.job, shown.end
    content = JobContent(access, job)
    meta = content.value(challenge.meta) if challenge.meta is not None else None
    return {
        "job_id": job.id,
        "name": job.name,
        "job_state": str(job.state),
        "request": challenge.shown,
        "attempt": challenge.attempt,
        "state": str(challenge.state),
        "expect": challenge.expect,
        "received": challenge.received,
        "opened_at": iso_ms(challenge.opened_at_ms),
        "awaiting_since": iso_or_none(challenge.awaiting_since_ms),
        "due_at": iso_or_none(challenge.due_at_ms),
        "received_at": iso_or_none(challenge.received_at_ms),
        "run_at": iso_or_none(challenge.run_at_ms),
        "ended_at": iso_or_none(challenge.ended_at_ms),
        "progress": {
            "fraction": challenge.fraction,
            "message": content.text(challenge.note),
            "at": iso_ms(challenge.told_at_ms),
        }
        if challenge.told_at_ms
        else None,
        "meta": None if meta is None else RawMsgpack(readable(meta)),
        "error": None if end is None else content.message(end),
        "code": None if end is None else end.code,
        "failures": job.failures,
        "form": _form(challenge.form, content) if challenge.form else None,
        "audience": str(challenge.audience) if challenge.form else None,
        "remind_at": iso_or_none(challenge.remind_at_ms),
        "answers": _answers(challenge, content),
    }


def form_view(challenge: Challenge) -> dict[str, Any]:
    """Return a `PersonalChallengeView`."""
    assert challenge.form is not None
    return {
        "form": document_of(challenge.form),
        "audience": str(challenge.audience),
        "state": str(challenge.state),
        "is_open": challenge.is_open,
        "expect": challenge.expect,
        "received": challenge.received,
        "due_at": iso_or_none(challenge.due_at_ms),
        "answers": _answers(challenge, None),
    }


def _form(form: Form, content: JobContent) -> Any:
    """Return the form for callers that may see job content. It does not contain redacted values."""
    shown = content.value(msgpack.packb(document_of(form)))
    return None if shown is None else RawMsgpack(readable(shown))


def _answers(challenge: Challenge, content: JobContent | None) -> list[dict[str, Any]]:
    return [
        {
            "choice": one.choice,
            "comment": content.text(one.comment) if content else one.comment,
            "by": one.by or None,
            "address": one.address,
            "at": iso_ms(one.at_ms),
        }
        for one in challenge.answers
    ]
