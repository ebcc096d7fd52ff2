"""Incidents with what surrounds them, and marks for charts, from what is kept."""

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import full_access
from jqmaster.domain.operations.tally import TOTAL, Tally
from jqmaster.domain.operations.timeline import (
    KnownState,
    LeaderCause,
    TimelineEntry,
    TimelineKind,
)
from jqmaster.errors import NotFoundError
from jqmaster.runtime.watch.history_keeper import HistoryKeeper
from jqmaster.service.operations import timeline as module
from jqmaster.service.operations.timeline import BEFORE_MS, IncidentPeaks, TimelineService
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.operations.history import KEEP_MS, HistoryStore
from jqmaster.store.operations.timeline import TimelineStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D21")

ACCESS = full_access(())


class Told:
    """A timeline that the test writes, and the service that reads it."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.store, self.audit = TimelineStore(world.shard), AuditStore(world.shard)
        self.history = HistoryStore(world.shard, master_id="reader")
        self.service = TimelineService(self.store, self.audit, self.history)

    async def add(self, kind: TimelineKind, subject: str, **fields: object) -> TimelineEntry:
        entry = TimelineEntry(kind, self.world.now_ms, subject, **fields)  # type: ignore[arg-type]
        await self.store.note(self.world.epoch, KnownState(), [entry])
        return (await self.store.entries())[-1]

    async def change(self, action: str, target: str, before: object = None, after: object = None) -> None:
        entry = encode_entry(who="user:ada", action=action, target=target, before=before, after=after)  # type: ignore[arg-type]
        # The log is read by the positions of its entries, which otherwise have the server's time.
        await self.world.redis.xadd(
            self.world.shard.keys.audit,
            {"at_ms": self.world.now_ms, "entry": entry},
            id=f"{self.world.now_ms}-*",
        )


@pytest.fixture
def told(world: StoreWorld) -> Told:
    return Told(world)


async def test_an_incident_shows_what_was_changed_before_it_and_who_takes_care(told: Told) -> None:
    world = told.world
    await told.change("constraint.put", "old", after={})
    world.pass_ms(BEFORE_MS + 60_000)
    await told.add(TimelineKind.VERSION_NEW, "2.1", label="mail")
    pause = {"paused": True, "reason": "GDPR", "matcher": {"field": "name", "op": "eq", "value": "x"}}
    await told.change("constraint.put", "pause-1", after=pause)
    await told.change("job.cancel", "some job")
    world.pass_ms(60_000)
    lost = await told.add(TimelineKind.WORKER_LOST, "w1", label="node-1:7", count=2)
    story = await told.service.incident(lost.id, ACCESS, sees_acts=True)
    assert [(mark.kind, mark.subject, mark.by, mark.reason) for mark in story.nearby.marks] == [
        ("deploy", "2.1", "", ""), ("pause", "pause-1", "user:ada", "GDPR"),
    ]  # fmt: skip
    assert story.nearby.marks[1].matcher == pause["matcher"]
    assert story.nearby.marks[1].text == "ada began the pause pause-1."
    assert story.nearby.is_whole
    assert story.incident.ended_ms is None
    await told.service.acknowledge(lost.id, "on it", who="user:bob")
    (found,), kept_since_ms = await told.service.incidents(10, sees_acts=True)
    assert [(one.by, one.label) for one in found.acknowledged] == [("user:bob", "on it")]
    assert kept_since_ms == world.now_ms - 60_000
    assert [one.action for one in (await told.audit.page(limit=1, cursor=None)).entries] == [
        "incident.acknowledge"
    ]


async def test_an_unknown_incident_is_not_found(told: Told) -> None:
    assert await told.service.incidents(10, sees_acts=True) == ([], None)
    with pytest.raises(NotFoundError, match="no incident 1-0"):
        await told.service.incident("1-0", ACCESS, sees_acts=True)
    with pytest.raises(NotFoundError, match="no incident 1-0"):
        await told.service.acknowledge("1-0", "", who="ada")


async def test_the_counts_of_an_incident_are_those_of_its_minutes_as_long_as_they_are_kept(
    told: Told,
) -> None:
    world, tally = told.world, Tally()
    keeper = HistoryKeeper(tally, HistoryStore(world.shard, master_id="counts"), SystemClock())
    tally.of("mail").failed += 2
    tally.of("mail").retried += 7
    tally.sampled(TOTAL, 40, 61_000)
    await keeper.flush()
    away = await told.add(TimelineKind.STORE_AWAY, "store")
    assert (await told.service.incident(away.id, ACCESS, sees_acts=True)).peaks == IncidentPeaks(
        2, 7, 40, 61_000
    )
    world.pass_ms(KEEP_MS["minute"] + 1)
    assert (await told.service.incident(away.id, ACCESS, sees_acts=True)).peaks is None


async def test_marks_are_deploys_leaders_incidents_and_changes_of_the_period(told: Told) -> None:
    world, began_ms = told.world, told.world.now_ms
    await told.add(TimelineKind.VERSION_NEW, "1")
    world.pass_ms(1_000)
    await told.add(TimelineKind.LEADER_CHANGED, "m2", label="rack:2", cause=LeaderCause.ENDED)
    await told.add(TimelineKind.STORE_AWAY, "store", since_ms=world.now_ms - 900)
    for action, before, after in (
        ("constraint.put", {"paused": False}, {"paused": False}),
        ("constraint.put", {"paused": False}, {"paused": True}),
        ("constraint.put", {"paused": True}, {"paused": False}),
        ("constraint.delete", {"paused": True}, None),
        ("settings.change", None, None),
    ):
        await told.change(action, "c1", before, after)
    marks = (await told.service.marks(began_ms + 50, None, ACCESS, sees_acts=True)).marks
    assert sorted(mark.kind for mark in marks) == [
        "constraint", "incident", "leader", "pause", "resume", "resume", "settings",
    ]  # fmt: skip
    (incident,) = [mark for mark in marks if mark.kind == "incident"]
    assert (incident.until_ms, bool(incident.incident_id)) == (world.now_ms, True)
    assert [
        mark.kind for mark in (await told.service.marks(began_ms, began_ms, ACCESS, sees_acts=True)).marks
    ] == ["deploy"]


async def test_a_mark_of_a_constraint_tells_to_which_jobs_it_applies(told: Told) -> None:
    matcher = {"field": "name", "op": "glob", "value": "mail.*"}
    await told.change("constraint.put", "per-host", None, {"matcher": matcher})
    await told.change("settings.change", "settings", None, {"matcher": matcher})
    found = await told.service.marks(told.world.now_ms - 1_000, None, ACCESS, sees_acts=True)
    assert sorted((mark.kind, mark.matcher) for mark in found.marks) == [
        ("constraint", matcher), ("settings", None),
    ]  # fmt: skip


async def test_a_mark_tells_a_created_constraint_from_a_changed_one(told: Told) -> None:
    limits = {"concurrency": 1, "rate": None, "key": "argument"}
    for before, after in (
        (None, limits),
        (limits, {"concurrency": 2, "key": "argument"}),
        (None, {"paused": True}),
    ):
        await told.change("constraint.put", "c1", before, after)
        told.world.pass_ms(1)
    for sees_acts, who, changed in ((True, "ada", ("concurrency",)), (False, "Somebody", ())):
        found = await told.service.marks(told.world.now_ms - 1_000, None, ACCESS, sees_acts=sees_acts)
        what = f": {changed[0]}" if changed else ""
        assert [(mark.kind, mark.is_new, mark.changed, mark.text) for mark in found.marks] == [
            ("constraint", True, (), f"{who} created constraint c1."),
            ("constraint", False, changed, f"{who} changed constraint c1{what}."),
            ("pause", False, (), f"{who} began the pause c1."),
        ]  # fmt: skip


async def test_the_end_of_a_drain_is_a_mark_like_its_begin(told: Told) -> None:
    before = {"node_id": "vm-3", "pid": 42}
    for action in ("worker.drain", "worker.resume", "worker.detach"):
        await told.change(action, "w1", before)
        told.world.pass_ms(1)
    await told.change("worker.drain", "w2")
    found = await told.service.marks(told.world.now_ms - 1_000, None, ACCESS, sees_acts=True)
    assert [(mark.action, mark.text) for mark in found.marks] == [
        ("worker.drain", "ada drained worker vm-3:42."), ("worker.resume", "ada resumed worker vm-3:42."),
        ("worker.detach", "ada detached worker vm-3:42."), ("worker.drain", "ada drained worker w2."),
    ]  # fmt: skip


async def test_marks_that_are_too_many_are_the_newest_and_say_so(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_MARKS", 3)
    for number in range(4):
        await told.change("constraint.delete", f"c{number}", before={})
        told.world.pass_ms(1)
    found = await told.service.marks(told.world.now_ms - 1_000, None, ACCESS, sees_acts=True)
    assert [mark.subject for mark in found.marks] == ["c1", "c2", "c3"]
    assert not found.is_whole


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("master.demote", (LeaderCause.DEMOTED, "user:ada")),
        ("master.take_over", (LeaderCause.SILENT, "")),
        ("settings.change", (LeaderCause.ENDED, "")),
    ],
)
async def test_the_audit_log_says_why_a_lead_ended(
    told: Told, action: str, expected: tuple[LeaderCause, str]
) -> None:
    await told.change(action, "m1")
    assert await told.service.end_of_lead("m1") == expected
    assert await told.service.end_of_lead("m2") == (LeaderCause.ENDED, "")
    told.world.pass_ms(600_000)
    assert await told.service.end_of_lead("m1") == (LeaderCause.ENDED, "")
