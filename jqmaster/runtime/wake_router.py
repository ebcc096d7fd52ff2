"""Route each message to the components that it wakes."""

from typing import Protocol

from jqmaster.runtime.duties.bulk_actions import BulkActions
from jqmaster.runtime.duties.challenge_expiry import ChallengeExpiry
from jqmaster.runtime.duties.constraint_keeper import ConstraintKeeper
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.due_loop import DueLoop
from jqmaster.runtime.duties.failure_detector import FailureDetector
from jqmaster.runtime.duties.promoter import Promoter
from jqmaster.runtime.duties.shard_look import ShardLook
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.store.leadership.masters import BeatAnswer
from jqmaster.store.link.wake import (
    BulkActionsChanged,
    ConstraintsChanged,
    DefinitionsChanged,
    EventsWaiting,
    FollowUpsWritten,
    GateClosed,
    IdentityChanged,
    JobDelayed,
    JobsReady,
    LeaderResigned,
    LeftToOthers,
    MailArrived,
    MasterDemoted,
    PollOpened,
    QueueOpened,
    SettingsChanged,
    SlotsFreed,
    WakeMessage,
    WorkersChanged,
)

# Messages to act on whenever messages may have been lost. Lost messages of other kinds do no harm, because the next
# poll comes soon enough.
_AFTER_A_GAP: tuple[WakeMessage, ...] = (
    WorkersChanged(),
    JobsReady(),
    JobDelayed(),
    ConstraintsChanged(),
    DefinitionsChanged(),
    EventsWaiting(),
    FollowUpsWritten(),
    LeaderResigned(),
    SettingsChanged(),
    IdentityChanged(),
)


class WokenDuties(Protocol):
    """The leader's duties that messages wake."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def promoter(self) -> Promoter: ...

    @property
    def keeper(self) -> ConstraintKeeper: ...

    @property
    def definitions(self) -> DueLoop: ...

    @property
    def events(self) -> DueLoop: ...

    @property
    def follow_ups(self) -> DueLoop: ...

    @property
    def challenges(self) -> ChallengeExpiry: ...

    @property
    def bulk(self) -> BulkActions: ...

    @property
    def detector(self) -> FailureDetector: ...

    @property
    def look(self) -> ShardLook: ...


class WakeRouter:
    """Passes each wake-up message to the components of this process that it concerns.

    `duties`: the duties of the last leadership of this process. They are woken only while this process leads.
    """

    def __init__(
        self,
        *,
        identity: IdentityDirectory,
        settings: LiveSettings,
        polls: HeldPolls,
        waiters: FinishWaiters,
        leader: Leader,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._polls = polls
        self._waiters = waiters
        self._leader = leader
        self.duties: WokenDuties | None = None

    def route(self, message: WakeMessage) -> None:
        match message:
            case MailArrived(worker_id):
                self._polls.look(worker_id)
            case IdentityChanged():
                self._identity.wake()
            case SettingsChanged():
                self._settings.wake()
            case LeaderResigned() | MasterDemoted():
                self._leader.wake(message)
            case _:
                duties = self.duties
                if duties and self._leader.leadership:
                    if duties.look.is_quiet:
                        duties.look.stir()
                    self._route_to_duties(duties, message)

    def _route_to_duties(self, duties: WokenDuties, message: WakeMessage) -> None:
        match message:
            case JobsReady() | QueueOpened() | SlotsFreed() | LeftToOthers() | PollOpened():
                duties.dispatcher.wake(message)
            case WorkersChanged():
                duties.dispatcher.wake(message)
                duties.detector.wake()
            case JobDelayed():
                duties.promoter.wake()
                duties.challenges.wake()
            case ConstraintsChanged() | GateClosed():
                duties.keeper.wake()
            case DefinitionsChanged():
                duties.definitions.wake()
            case EventsWaiting():
                duties.events.wake()
            case FollowUpsWritten():
                duties.follow_ups.wake()
            case BulkActionsChanged():
                duties.bulk.wake()

    def take_answer(self, answer: BeatAnswer, sent_at_s: float) -> bool:
        """Pass the answer to a heartbeat to the components that follow the store. Return whether they have all that it
        names."""
        has_settings = self._settings.take_versions(answer.versions)
        return self._identity.take_version(answer.identity, answer.now_ms, sent_at_s) and has_settings

    def on_gap(self) -> None:
        """Wake all components that may have missed a message while nobody listened."""
        self._waiters.wake_all()
        self._polls.look_all()
        duties = self.duties if self._leader.leadership else None
        if duties and duties.look.may_wait:
            # Wake only the look. It finds whatever was missed, and the answer to the next heartbeat shows changed
            # settings and a changed identity. If all duties of a thousand quiet shards woke at once, requests would
            # find no free connection for seconds.
            duties.look.wake()
            return
        for message in _AFTER_A_GAP:
            self.route(message)
        if duties:
            # Look at the shard as well, to begin the duties that no message wakes.
            duties.look.wake()
