"""Repeat a call that got no final answer."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from worker_sdk.errors import RefusedError, UnavailableError, refused
from worker_sdk.masters.masters import MasterAnswer, Masters, MasterUnreachableError, pause_s
from worker_sdk.masters.refusals import problem_of
from worker_sdk.pusher.refused_values import place_of
from worker_sdk.pusher.unserved import warn_of_names
from worker_sdk.transport.certain_refusals import had_no_effect

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempts:
    """The repeats of one call, until `_end_s` by the monotonic clock. Call `next_pause_s` after each try that got no
    final answer."""

    _masters: Masters
    _outage: "Outage"
    _end_s: float
    _job_ids: Sequence[str]
    _unknown_ids: Sequence[str] = ()
    _tries: int = 0
    # Whether every failure so far was an invalid certificate, so that repeating the call is useless.
    _are_final: bool = True

    def succeeded(self, answer: MasterAnswer) -> None:
        """Record that the call was carried out. Log the end of an outage, and names in the answer that no worker has
        ever served."""
        if self._outage.is_known:
            self._outage.ends()
        if answer.unserved:
            warn_of_names(answer.unserved)

    def refused(self, answer: MasterAnswer, body: bytes | None) -> RefusedError:
        """Return the error for a refusal. `body`: the body of the call."""
        if self._outage.is_known:
            self._outage.ends()
        problem = problem_of(answer, self._masters.current)
        if body is not None and (place := place_of(answer.code, body)):
            problem = {**problem, "detail": f"{place} ({problem.get('detail')})"}
        return refused(answer.status, problem, unknown_ids=self._unknown_ids)

    def next_pause_s(self, failed: MasterAnswer | MasterUnreachableError) -> float:
        """Return the pause before the next try. Raise UnavailableError when the time is over."""
        self._tries += 1
        is_certain = isinstance(failed, MasterAnswer) and had_no_effect(failed.status, failed.code)
        if not is_certain and not _is_final(failed):
            # The master may have enqueued the jobs even though its answer is missing.
            self._unknown_ids = self._job_ids
        asked_s = failed.retry_after_s if isinstance(failed, MasterAnswer) else None
        left_s = self._end_s - time.monotonic()
        # Try the other masters at once.
        if asked_s is None and self._tries < len(self._masters):
            self._are_final &= _is_final(failed)
            self._outage.may_repeat(failed, left_s)
            return 0.0
        self._are_final &= _is_final(failed)
        wait_s = pause_s(self._tries, asked_s)
        if wait_s > left_s or self._are_final:
            tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
            raise UnavailableError(
                f"no final answer after {tries}; the last: {failed}",
                self._job_ids,
                unknown_ids=self._unknown_ids,
            )
        self._outage.may_repeat(failed, left_s)
        return wait_s


def _is_final(failed: MasterAnswer | MasterUnreachableError) -> bool:
    return isinstance(failed, MasterUnreachableError) and failed.is_final


class Outage:
    """Logs once that calls of a pusher are being repeated, and once that they are answered again."""

    def __init__(self) -> None:
        self.is_known = False

    def may_repeat(self, failed: MasterAnswer | MasterUnreachableError, left_s: float) -> None:
        if not self.is_known:
            self.is_known = True
            logger.warning(
                "no final answer from a master (%s); the call is repeated for up to %.0f s more",
                failed,
                max(0.0, left_s),
            )

    def ends(self) -> None:
        self.is_known = False
        logger.info("a master answers again")
