"""Decide which offers of jobs to accept."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from worker_sdk.transport.recent import RecentMap
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import StoreClock, margin_s, now_s
from worker_sdk.worker.registry import Registry
from worker_sdk.worker.run import JobRun

if TYPE_CHECKING:
    from worker_sdk.protocol import Dispatch, PushAnswer, Rejected
    from worker_sdk.worker.shared_slots import SlotShare

Verdict = Literal["accepted", "busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]

logger = logging.getLogger(__name__)

# How much the clocks of a master and of the store may differ before fences become unreliable.
_SKEW_S: Final = 10.0
_MALFORMED: Final = "a job of the push does not follow the protocol"


class MalformedError(ValueError):
    """The push does not follow the protocol."""


class Admission:
    """Decides about each offer separately, without waiting.

    * `is_leaving`: this process is ending. It accepts no jobs, as during a drain that masters command.
    * `beat_now`: sends a heartbeat at once, to learn the state of the claims.
    * `share`: the slots of this namespace, if the worker works in several.
    """

    share: "SlotShare | None" = None

    def __init__(
        self,
        registry: Registry,
        executor: Executor,
        identity: WorkerIdentity,
        clock: StoreClock,
        *,
        beat_now: Callable[[], object] = lambda: None,
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._identity = identity
        self._clock = clock
        self._beat_now = beat_now
        self._seen: RecentMap[Verdict] = RecentMap(_SKEW_S)
        self._room = 0
        self._interval_ms = 0.0
        self.is_leaving = False

    @property
    def is_draining(self) -> bool:
        return self.is_leaving or self._identity.is_drain_ordered

    @property
    def free(self) -> int:
        """Return the number of slots that a master may fill."""
        return 0 if self.is_draining else self._executor.free

    def offer(self, epoch: int, offers: Sequence[Any]) -> "PushAnswer":
        """Start the jobs that are accepted, and return the answer. Raise MalformedError before any job is started."""
        _check(offers)
        with self._executor.taking_up:
            return self._take(epoch, offers)

    def _take(self, epoch: int, offers: "Sequence[Dispatch]") -> "PushAnswer":
        now = now_s()
        member = self._identity.member
        latest_ms, margin_ms = None, 0.0
        if member is not None:
            self._seen.keep_for(2 * member.lease_s + _SKEW_S)
            self._interval_ms = member.heartbeat_interval_s * 1000
            # Use the store's time only if an answer contained it within the time of the last lease. A process that was
            # suspended for longer cannot know whether the store's clock was set forward. An offer with an ended lease
            # would then look current.
            latest_ms = self._clock.latest_ms(now, within_s=member.lease_s)
            margin_ms = margin_s(member.lease_s) * 1000
        is_stale = epoch < self._identity.epoch
        if epoch > self._identity.epoch:
            self._identity.note_epoch(epoch)
        accepted: list[str] = []
        rejected: list[Rejected] = []
        # Only the offers of this call can take a slot until the call returns. While the store's time is unknown, all
        # offers are refused as too late.
        self._room = self._executor.free if latest_ms is not None else 0
        known = self._seen.known([offer["token"] for offer in offers], now)
        judged: dict[str, Verdict] = {}
        try:
            for offer in offers:
                token = offer["token"]
                verdict = known.get(token) or judged.get(token)
                if verdict is None:
                    verdict = "stale_epoch" if is_stale else self._judge(offer, now, latest_ms, margin_ms)
                    judged[token] = verdict
                if verdict == "accepted":
                    accepted.append(offer["job_id"])
                else:
                    rejected.append({"job_id": offer["job_id"], "reason": verdict, "retry_after": None})
        finally:
            # Remember refusals, too: after a master has seen the refusal, a copy of the offer must not be accepted.
            self._seen.put(judged, now)
        if logger.isEnabledFor(logging.DEBUG):
            _log(offers, {**known, **judged})
        return {"accepted": accepted, "rejected": rejected}

    def _judge(self, offer: "Dispatch", now: float, latest_ms: float | None, margin_ms: float) -> Verdict:
        handler = self._registry.get(offer["name"])
        if handler is None or offer["phase"] not in ("run", "callback"):
            return "unknown_name"
        if self.is_leaving or self._identity.is_drain_ordered:
            return "draining"
        if (
            latest_ms is None
            or latest_ms > offer["not_after_ms"]
            or offer["fence"] <= self._clock.stale_fence
        ):
            return "too_late"
        left_ms = offer["lease_until_ms"] - latest_ms - margin_ms
        if left_ms <= 0:
            return "too_late"
        executor = self._executor
        if offer["job_id"] in executor.occupying:
            # Two runs of a job must never overlap, so the new run waits until the earlier run ends, and then takes its
            # slot.
            if not executor.may_follow(offer["job_id"], offer["fence"]):
                return "duplicate"
            if not executor.follow(JobRun(offer, handler, now + left_ms / 1000), now):
                # Send a heartbeat to learn that the earlier claim is over: the offer arrived before the notice of that
                # end.
                self._beat_now()
            return "accepted"
        if self._room <= 0:
            return "busy"
        self._room -= 1
        if left_ms < self._interval_ms:
            # Renew the lease now: it ends before the next heartbeat, because the masters have shortened leases and
            # intervals since the last heartbeat.
            self._beat_now()
        executor.start(JobRun(offer, handler, now + left_ms / 1000), now)
        return "accepted"


def _log(offers: "Sequence[Dispatch]", verdicts: Mapping[str, Verdict]) -> None:
    for offer in offers:
        verdict = verdicts[offer["token"]]
        text = verdict if verdict == "accepted" else f"refused: {verdict}"
        logger.debug("job %s (%s): attempt %d is %s", offer["job_id"], offer["name"], offer["attempt"], text)


def _check(offers: Sequence[Any]) -> None:
    try:
        for offer in offers:
            timeout = offer["timeout"]
            if not (
                type(offer["job_id"]) is str
                and type(offer["token"]) is str
                and type(offer["name"]) is str
                and type(offer["attempt"]) is int
                and type(offer["fence"]) is int
                and type(offer["not_after_ms"]) is int
                and type(offer["lease_until_ms"]) is int
                and (type(timeout) is int or type(timeout) is float)
                and 0 < timeout < math.inf
                and type(offer["headers"]) is dict
                and type(offer["phase"]) is str
                and "argument" in offer
            ):
                raise MalformedError(_MALFORMED)
    except (KeyError, TypeError, IndexError):
        raise MalformedError(_MALFORMED) from None
