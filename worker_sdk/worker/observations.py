"""Send observations of other services' limits to the masters."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker_sdk import forked
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterUnreachableError
from worker_sdk.unsendable import sendable
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import StoreClock, now_s
from worker_sdk.worker.no_value import NO_VALUE

logger = logging.getLogger(__name__)

# How long to repeat the call that sends an observation. After this time, the observation is too old to be useful.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.2
MAX_TOLD: Final = 100
# Minimum pause between two observations of a gate. An API states its limit in every answer. Sending more observations
# would load the masters.
_GAP_S: Final = 0.1
_GateKey = tuple[str, str]
MAX_UNITS: Final = 1_000_000_000
MAX_RESET_S: Final = 31 * 86_400.0


@dataclass(frozen=True, slots=True)
class ObservedRoom:
    """The units that a service still accepts, as a job observed them.

    * `constraint`: name of the constraint that represents the limit of the service.
    * `value`: value of the constraint's key.
    * `remaining`: units that may still be used, until `resets_s`.
    * `resets_s`: seconds until the service accepts all units again.

    For example:

        [run] = drain([summarize.to_job(42)])
        assert run.observed[0].remaining == 41_000
    """

    constraint: str
    remaining: float
    resets_s: float
    value: Any = NO_VALUE

    def fields(self) -> dict[str, Any]:
        """Return the fields of the observation in wire form."""
        value = {} if self.value is NO_VALUE else {"value": self.value}
        return {
            "constraint": self.constraint,
            **value,
            "remaining": self.remaining,
            "resets_s": self.resets_s,
        }


def checked_units(units: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers of units as a map. Raise ValueError for a number out of range."""
    for unit, number in units.items():
        # The comparison is false for NaN, which is refused as well.
        if not 0 <= number <= MAX_UNITS:
            raise ValueError(f"{unit} must be between 0 and {MAX_UNITS}")
    return dict(units)


def checked_observation(constraint: str, value: Any, remaining: float, resets_s: float) -> ObservedRoom:
    """Return an observation. Raise ValueError for a number out of range, and TypeError for a value that cannot be
    sent."""
    if not 0 <= remaining <= MAX_UNITS:
        raise ValueError(f"remaining must be between 0 and {MAX_UNITS}")
    if not 0 <= resets_s <= MAX_RESET_S:
        raise ValueError(f"resets_s must be between 0 and {MAX_RESET_S:g} seconds")
    observation = ObservedRoom(constraint, remaining, resets_s, value)
    # Encode it once to find errors now: later, no exception would reach the caller.
    sendable(observation.fields())
    return observation


class ObservationSender:
    """Sends observations from the event loop in which it was made, one call at a time, and at most ten a second for
    each gate. If several observations of a gate wait, it sends the last one. Any thread may call `observe`."""

    def __init__(self, client: MasterClient, identity: WorkerIdentity, clock: StoreClock) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        # By gate (constraint and value): the observation to send, and the time when it was made.
        self._waiting: dict[_GateKey, tuple[ObservedRoom, float]] = {}
        # By gate: the observation to send when `_GAP_S` has passed since the last observation. None: there is no new
        # observation.
        self._resting: dict[_GateKey, tuple[ObservedRoom, float] | None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._told: set[tuple[str, str]] = set()
        self._is_copy = False
        forked.renew_in_child(self)

    def renew(self) -> None:
        self._is_copy = True

    def observe(self, observation: ObservedRoom) -> None:
        if not self._is_copy:
            self._loop.call_soon_threadsafe(self._add, observation, now_s())

    def _add(self, observation: ObservedRoom, at_s: float) -> None:
        gate = observation.constraint, repr(observation.value)
        if gate in self._resting:
            self._resting[gate] = observation, at_s
        else:
            self._wait(gate, observation, at_s)

    def _wait(self, gate: _GateKey, observation: ObservedRoom, at_s: float) -> None:
        self._waiting[gate] = observation, at_s
        if self._sending is None:
            self._sending = self._loop.create_task(self._send_all(), name="jq-observations")

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                gate = next(iter(self._waiting))
                observation, at_s = self._waiting.pop(gate)
                self._resting[gate] = None
                try:
                    await self._send(observation, at_s)
                finally:
                    self._loop.call_later(_GAP_S, self._rested, gate)
        finally:
            self._sending = None

    def _rested(self, gate: _GateKey) -> None:
        if later := self._resting.pop(gate):
            self._wait(gate, *later)

    async def _send(self, observation: ObservedRoom, at_s: float) -> None:
        while now_s() - at_s < _PATIENCE_S:
            worker_id = self._identity.worker_id
            if worker_id is not None:
                path = f"/api/workers/{worker_id}/observations"
                # Send the earliest time that the store's clock may have shown at the observation.
                fields = observation.fields() | {"as_of_ms": self._clock.earliest_ms(at_s)}
                try:
                    answer = await self._client.call("POST", path, sendable(fields))
                except MasterUnreachableError as exc:
                    logger.debug("no answer to an observation: %s", exc)
                else:
                    if answer.is_ok:
                        if not answer.body.get("is_applied", True):
                            self._tell_once(observation.constraint, str(answer.body.get("reason")))
                        return
                    if answer.code != "unknown_worker" and not answer.is_transient:
                        # The master does not know the constraint, or is older than this SDK.
                        logger.warning(
                            "the observed limit of %s is not applied: %s", observation.constraint, answer
                        )
                        return
            await asyncio.sleep(_PAUSE_S)
        self._tell_once(
            observation.constraint, f"an observation could not be sent within {_PATIENCE_S:.0f} s"
        )

    def _tell_once(self, constraint: str, what: str) -> None:
        if (constraint, what) not in self._told and len(self._told) < MAX_TOLD:
            self._told.add((constraint, what))
            logger.warning("%s: %s", constraint, what)
