"""Each message reaches the parts that it concerns, and no others."""

from typing import Any

import pytest

from jqmaster.runtime.wake_router import WakeRouter
from jqmaster.store.leadership.masters import BeatAnswer
from jqmaster.store.link.wake import (
    WORDS,
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

ROUTES: list[tuple[WakeMessage, str]] = [
    (JobsReady(), "dispatcher.wake"),
    (QueueOpened("work\t{}"), "dispatcher.wake"),
    (SlotsFreed("w", 1), "dispatcher.wake"),
    (LeftToOthers("w", 15_000, "a"), "dispatcher.wake"),
    (WorkersChanged(), "dispatcher.wake detector.wake"),
    (PollOpened("w", 100), "dispatcher.wake"),
    (JobDelayed(), "promoter.wake challenges.wake"),
    (ConstraintsChanged(), "keeper.wake"),
    (GateClosed(), "keeper.wake"),
    (DefinitionsChanged(), "definitions.wake"),
    (EventsWaiting(), "events.wake"),
    (FollowUpsWritten(), "follow_ups.wake"),
    (BulkActionsChanged(), "bulk.wake"),
    (MailArrived("w"), "polls.look"),
    (SettingsChanged(), "settings.wake"),
    (IdentityChanged(), "identity.wake"),
    (LeaderResigned(), "leader.wake"),
    (MasterDemoted("m"), "leader.wake"),
]
OF_THE_LEADER = {
    "dispatcher",
    "promoter",
    "keeper",
    "definitions",
    "events",
    "follow_ups",
    "bulk",
    "challenges",
    "detector",
}


class Part:
    """Records its calls under its name."""

    def __init__(self, name: str, called: list[str]) -> None:
        self._name = name
        self._called = called

    def __getattr__(self, method: str) -> Any:
        return lambda *given: self._called.append(f"{self._name}.{method}")


class Duties:
    def __init__(self, called: list[str]) -> None:
        for name in OF_THE_LEADER:
            setattr(self, name, Part(name, called))
        look: Any = Part("look", called)
        look.is_quiet = look.may_wait = False
        self.look = look


def router_of(called: list[str], *, leads: bool) -> WakeRouter:
    duties: Any = Duties(called)
    parts: dict[str, Any] = {
        name: Part(name, called) for name in ("identity", "settings", "polls", "waiters", "leader")
    }
    parts["leader"].leadership = leads
    router = WakeRouter(**parts)
    router.duties = duties
    return router


def test_every_kind_of_message_has_a_route() -> None:
    assert {type(message) for message, _ in ROUTES} == set(WORDS.values())


@pytest.mark.parametrize(("message", "route"), ROUTES, ids=str)
def test_a_message_reaches_the_part_that_it_concerns(message: WakeMessage, route: str) -> None:
    called: list[str] = []
    router_of(called, leads=True).route(message)
    assert called == route.split()


@pytest.mark.parametrize(("message", "route"), ROUTES, ids=str)
def test_no_duty_is_woken_if_this_process_does_not_lead(message: WakeMessage, route: str) -> None:
    called: list[str] = []
    router_of(called, leads=False).route(message)
    assert called == ([] if route.split(".", maxsplit=1)[0] in OF_THE_LEADER else [route])


@pytest.mark.parametrize(("message", "route"), ROUTES, ids=str)
def test_a_message_for_a_duty_ends_the_quiet_of_the_looks(message: WakeMessage, route: str) -> None:
    called: list[str] = []
    router = router_of(called, leads=True)
    duties: Any = router.duties
    duties.look.is_quiet = True
    router.route(message)
    is_for_duties = route.split(".", maxsplit=1)[0] in OF_THE_LEADER
    assert called == [*(["look.stir"] if is_for_duties else []), *route.split()]


def test_after_a_gap_everyone_looks_for_himself() -> None:
    called: list[str] = []
    router_of(called, leads=True).on_gap()
    assert sorted(called) == sorted(
        ["waiters.wake_all", "polls.look_all", "dispatcher.wake", "dispatcher.wake", "detector.wake",
         "promoter.wake", "keeper.wake", "definitions.wake", "look.wake",
         "events.wake", "follow_ups.wake", "challenges.wake",
         "leader.wake", "settings.wake", "identity.wake"]
    )  # fmt: skip


def test_after_a_gap_a_quiet_shard_among_many_is_only_looked_at() -> None:
    """A thousand shards that wake nine duties each would leave requests no connection for seconds."""
    called: list[str] = []
    router = router_of(called, leads=True)
    duties: Any = router.duties
    duties.look.may_wait = True
    router.on_gap()
    assert called == ["waiters.wake_all", "polls.look_all", "look.wake"]


def test_the_answer_to_a_heartbeat_reaches_settings_and_identity() -> None:
    called: list[str] = []
    router_of(called, leads=False).take_answer(BeatAnswer(1, (2, 3, 4), 5, "mark"), 5.0)
    assert called == ["settings.take_versions", "identity.take_version"]
