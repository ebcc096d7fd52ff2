"""Decides which of the instants that are due by now still fire."""

from collections.abc import Sequence

from jqmaster.domain.definitions.definition import CatchUp, TimeTrigger
from jqmaster.domain.definitions.run import RunReason


def most_caught_up(trigger: TimeTrigger) -> int:
    """Return how many of the newest late instants fire."""
    return {CatchUp.SKIP: 0, CatchUp.LATEST: 1, CatchUp.ALL: trigger.max_catch_up}[trigger.catch_up]


def judge(due_ms: Sequence[int], now_ms: int, trigger: TimeTrigger, *, newer: int = 0) -> list[RunReason]:
    """Judge the due instants, oldest first. Return NONE or CAUGHT_UP for each one that fires, and LATE for each one
    that does not.

    An instant that is at most `skip_late_after_ms` late fires. `catch_up` decides which of the others fire:

    * none,
    * only the newest of all due instants, or
    * those among the `max_catch_up` newest.

    `newer`: how many further instants are due after these.
    """
    last = len(due_ms) - 1 + newer
    caught_up = most_caught_up(trigger)
    reasons = []
    for n, at_ms in enumerate(due_ms):
        if now_ms - at_ms <= trigger.skip_late_after_ms:
            reasons.append(RunReason.NONE)
        elif last - n < caught_up:
            reasons.append(RunReason.CAUGHT_UP)
        else:
            reasons.append(RunReason.LATE)
    return reasons
