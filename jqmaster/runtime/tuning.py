"""What each component is told of the settings, when it is built and whenever they change: the keywords of its `tune`.

Nothing else reads a setting that changes at run time before it is used; a test compares masters to hold this.
"""

from collections.abc import Callable
from typing import Any, Final

from jqmaster.config import Settings
from jqmaster.domain.job import FINISHED, JobState
from jqmaster.domain.master import Pace
from jqmaster.domain.outcome import ExpiryRules
from jqmaster.domain.silence import CrowdRules

Values = dict[str, Any]
# What tells a part its settings, and which of them.
Tuned = tuple[Callable[..., None], Callable[[Settings], Values]]

# After an election the living get this much more than a lease to say so.
GRACE_EXTRA_S: Final = 2.0


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def claims(s: Settings) -> Values:
    return {"lease_ms": s.lease_ms, "offer_ms": s.offer_ms, "grace_ms": _ms(s.timeout_grace_s)}


def leases(s: Settings) -> Values:
    return {"lease_ms": s.lease_ms, "result_ttl_ms": _ms(s.result_ttl_s)}


def settlements(s: Settings) -> Values:
    return {"result_ttl_ms": _ms(s.result_ttl_s)}


def results(s: Settings) -> Values:
    return {"result_grace_ms": _ms(s.result_grace_s)}


def polls(s: Settings) -> Values:
    return {"lease_ms": s.lease_ms}


def intake(s: Settings) -> Values:
    # One body must always find room.
    return {"max_bytes": max(s.max_intake_bytes, s.max_body_bytes)}


def repair(s: Settings) -> Values:
    return {"lease_ms": s.lease_ms, "result_ttl_ms": _ms(s.result_ttl_s)}


def fleet(s: Settings) -> Values:
    return {"stale_ms": _ms(s.worker_stale_s)}


def leader(s: Settings) -> Values:
    return {"ttl_s": s.leader_ttl_s}


def masters(s: Settings) -> Values:
    return {"pace": Pace(s.leader_ttl_s)}


def worker_client(s: Settings) -> Values:
    return {"timeout_s": s.push_timeout_s}


def why(s: Settings) -> Values:
    return {"stale_ms": _ms(s.worker_stale_s), "deadline_extra_ms": s.offer_ms + _ms(s.timeout_grace_s)}


def stats(s: Settings) -> Values:
    return {"stale_ms": _ms(s.worker_stale_s)}


def identity(s: Settings) -> Values:
    return {
        "session_life_s": s.session_life_s,
        "session_idle_s": s.session_idle_s,
        "login_attempts": s.login_attempts_per_minute,
    }


def registrations(s: Settings) -> Values:
    return {"failures_per_minute": s.failed_registrations_per_minute}


def dispatcher(s: Settings) -> Values:
    return {"max_push_jobs": s.max_push_jobs}


def grace(s: Settings) -> Values:
    return {
        "grace_s": max(s.lease_ms / 1000, s.worker_stale_s, s.leader_ttl_s) + GRACE_EXTRA_S,
        "trust_s": s.leader_ttl_s,
        "crowd": CrowdRules(_ms(s.worker_stale_s), s.crowd_share, s.crowd_least),
    }


def reaper(s: Settings) -> Values:
    return {
        "rules": ExpiryRules(_ms(s.worker_stale_s), s.max_losses, _ms(s.alone_wait_s)),
        "timeout_grace_ms": _ms(s.timeout_grace_s),
        "offer_ms": s.offer_ms,
    }


def failure_detector(s: Settings) -> Values:
    return {
        "stale_ms": _ms(s.worker_stale_s),
        "forget_ms": _ms(s.worker_forget_s),
        "ping_timeout_s": s.ping_timeout_s,
        "max_missed": s.max_missed_pings,
    }


def sweeper(s: Settings) -> Values:
    over = (_ms(s.retention_succeeded_s), s.retention_succeeded_max)
    return {
        "retention": {
            **dict.fromkeys(FINISHED, over),
            JobState.FAILED: (_ms(s.retention_failed_s), s.retention_failed_max),
        }
    }
