"""The constants of `celery.states`, and the constant for each state of a job."""

from typing import Final

PENDING: Final = "PENDING"
RECEIVED: Final = "RECEIVED"
STARTED: Final = "STARTED"
SUCCESS: Final = "SUCCESS"
FAILURE: Final = "FAILURE"
REVOKED: Final = "REVOKED"
REJECTED: Final = "REJECTED"
RETRY: Final = "RETRY"
IGNORED: Final = "IGNORED"

READY_STATES: Final = frozenset({SUCCESS, FAILURE, REVOKED})
UNREADY_STATES: Final = frozenset({PENDING, RECEIVED, STARTED, REJECTED, RETRY})
EXCEPTION_STATES: Final = frozenset({RETRY, FAILURE, REVOKED})
PROPAGATE_STATES: Final = frozenset({FAILURE, REVOKED})
ALL_STATES: Final = READY_STATES | UNREADY_STATES

_OF_JOBS: Final = {
    "running": STARTED,
    "awaiting_callback": STARTED,
    "retrying": RETRY,
    "succeeded": SUCCESS,
    "discarded": SUCCESS,
    "failed": FAILURE,
    "canceled": REVOKED,
    "skipped": REVOKED,
}


def state_of(job_state: str) -> str:
    """Return Celery's word for the state of a job."""
    return _OF_JOBS.get(job_state, PENDING)
