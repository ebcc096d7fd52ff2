"""The terms of a job, each with its default and bounds. All code that checks, fills in or describes terms reads them
here."""

from typing import Final, Generic, NamedTuple, TypeVar

DAY_S: Final = 86_400

NumberT = TypeVar("NumberT", int, float)


class Term(NamedTuple, Generic[NumberT]):
    """A numeric term: its default, and its bounds."""

    default: NumberT
    least: NumberT
    most: NumberT


PRIORITY: Final = Term(0, -(2**31), 2**31 - 1)
MAX_RETRY: Final = Term(5, 0, 1000)
TIMEOUT_S: Final = Term(30.0, 0.001, 7 * DAY_S)
# Backoff: `min(max_s, base_s · factor^(n−1))` before the n-th retry, with full jitter by default.
RETRY_BASE_S: Final = Term(1.0, 0, DAY_S)
RETRY_FACTOR: Final = Term(2.0, 1, 100)
RETRY_MAX_S: Final = Term(3600.0, 0, 7 * DAY_S)
RETRY_JITTER: Final = True

# How long an idempotency key identifies its job.
KEY_TTL_S: Final = Term(float(DAY_S), 1, 30 * DAY_S)
MAX_KEY_BYTES: Final = 200

MAX_DELAY_S: Final = 3650 * DAY_S
MAX_TAGS: Final = 16
MAX_HEADERS: Final = 32
