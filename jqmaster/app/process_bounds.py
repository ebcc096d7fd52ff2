"""The bounds of a process that its namespaces share."""

from dataclasses import dataclass

from jqmaster.app.policies import Policies
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.preview import MAX_PREVIEWS
from jqmaster.service.jobs.intake import IntakeRoom, SharedIntakeRoom
from jqmaster.shared_bound import Portion, SharedBound


@dataclass(frozen=True, slots=True)
class NamespacePortions:
    """One namespace's portions.

    * `intake`: the portion of bytes of pushes.
    * `calls`: the portion of calls in progress.
    * `waiting`: the portion of calls that wait for an event.
    * `streams`: the portion of open event streams.
    * `previews`: the portion of running previews.
    """

    intake: IntakeRoom
    calls: Portion
    waiting: Portion
    streams: Portion
    previews: Portion


class ProcessBounds:
    """Bounds of the process according to the settings in force."""

    def __init__(self, policies: Policies) -> None:
        self._intake = SharedIntakeRoom(policies.max_intake_bytes)
        self._calls = SharedBound(policies.max_connections)
        self._waiting = SharedBound(policies.max_connections)
        self._streams = SharedBound(policies.max_streams)
        self._previews = SharedBound(LiveValue(MAX_PREVIEWS))

    def for_one(self) -> NamespacePortions:
        """Return the portions of a further namespace. They count for as long as somebody holds a reference to
        them."""
        bounds = (self._calls, self._waiting, self._streams, self._previews)
        return NamespacePortions(self._intake.portion(), *(bound.portion() for bound in bounds))
