"""The common parts of both pushers: the choice of their masters, and the error when a pusher is pickled."""

from collections.abc import Sequence

from worker_sdk.environment import masters_or_default
from worker_sdk.masters.masters import Masters


def masters_of(given: str | Sequence[str] | Masters | None) -> Masters:
    return given if isinstance(given, Masters) else Masters(masters_or_default(given))


def cannot_be_sent(pusher: object) -> TypeError:
    return TypeError(
        f"a {type(pusher).__name__} holds connections and cannot be pickled: make one in the process that uses it"
    )
