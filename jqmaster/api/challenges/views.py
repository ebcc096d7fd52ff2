"""Challenges as clients see them."""

from typing import Any

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.domain.content import ContentAccess
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job_content import JobContent
from jqmaster.domain.readable import readable
from jqmaster.service.challenges.reader import ShownChallenge


def challenge_view(shown: ShownChallenge, access: ContentAccess) -> dict[str, Any]:
    """`ChallengeView`."""
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
        "awaiting_since": _time(challenge.awaiting_since_ms),
        "due_at": _time(challenge.due_at_ms),
        "received_at": _time(challenge.received_at_ms),
        "run_at": _time(challenge.run_at_ms),
        "ended_at": _time(challenge.ended_at_ms),
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
    }


def _time(ms: int) -> str | None:
    return iso_ms(ms) if ms else None
