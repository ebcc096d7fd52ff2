"""The leader writes each change that it sees to the timeline once."""

from dataclasses import replace
from typing import Any

from jqmaster.domain.operations.timeline import (
    OLD_WAIT_MS,
    KnownState,
    LeaderCause,
    LostWorker,
    OldBacklog,
    QueueSeen,
    StoreOutage,
    TimelineEntry,
    TimelineKind,
)
from jqmaster.domain.workers.worker import Worker, WorkerSpec

NOW_MS = 1_800_000_000_000
LEADER = ("m1", "rack-1:100")


def worker(
    worker_id: str, *, version: str = "1", names: tuple[str, ...] = ("work",), **fields: Any
) -> Worker:
    spec = WorkerSpec(None, names, 4, f"node-{worker_id}", 7, {}, version, "")
    given = {"registered_at_ms": NOW_MS, "last_seen_ms": NOW_MS, "is_draining": False, "busy": 0} | fields
    return Worker(worker_id, spec, is_detached=given.get("detached_by") is not None, **given)


def lost(worker_id: str, **fields: Any) -> Worker:
    return worker(worker_id, detached_by="silence", silent_since_ms=NOW_MS - 9_000, **fields)


def seen(*workers: Worker, **fields: Any) -> QueueSeen:
    return QueueSeen(**{"now_ms": NOW_MS, "leader": LEADER, "workers": workers, **fields})


def said(entries: list[TimelineEntry]) -> list[tuple[str, str, int]]:
    return [(str(one.kind), one.subject, one.count) for one in entries]


def test_conditions_that_exist_when_the_timeline_begins_are_no_entries() -> None:
    present = seen(worker("a"), lost("b", busy=2), outages=(StoreOutage(NOW_MS - 9_000, NOW_MS - 1_000),))
    marks = KnownState.first(present)
    assert marks.compare(present) == (marks, [])
    assert marks.lost == {"b": LostWorker("node-b:7", 2)}


def test_a_lost_worker_is_told_once_then_its_jobs_then_its_return() -> None:
    marks = KnownState.first(seen(worker("a", busy=3), worker("b")))
    marks, entries = marks.compare(seen(lost("a", busy=3), worker("b")))
    assert said(entries) == [("worker_lost", "a", 3)]
    assert (entries[0].began_ms, entries[0].label) == (NOW_MS - 9_000, "node-a:7")
    marks, entries = marks.compare(seen(lost("a", busy=1), worker("b")))
    assert entries == []
    marks, entries = marks.compare(seen(lost("a"), worker("b")))
    assert said(entries) == [("jobs_returned", "a", 3)]
    marks, entries = marks.compare(seen(worker("a"), worker("b")))
    assert said(entries) == [("worker_back", "a", 0)]
    assert marks.compare(seen(worker("a"), worker("b"))) == (marks, [])


def test_a_lost_worker_that_is_forgotten_ends_with_its_jobs() -> None:
    marks, _ = KnownState.first(seen()).compare(seen(lost("a", busy=1)))
    marks, entries = marks.compare(seen())
    assert said(entries) == [("jobs_returned", "a", 1)]
    assert marks.lost == {}


def test_a_lost_worker_that_an_operator_detaches_did_not_come_back() -> None:
    marks, _ = KnownState.first(seen()).compare(seen(lost("a")))
    marks, entries = marks.compare(seen(worker("a", detached_by="operator")))
    assert (entries, marks.lost) == ([], {})


def test_workers_of_masters_are_neither_lost_nor_deploys() -> None:
    built_in = replace(lost("a", version="9"), spec=lost("a", version="9", names=("jq.mail",)).spec)
    assert KnownState.first(seen()).compare(seen(built_in))[1] == []


def test_each_version_is_one_deploy_and_a_rollback_another() -> None:
    marks = KnownState.first(seen(worker("a", version="1")))
    both = seen(
        worker("a", version="1"),
        worker("c", version="2", registered_at_ms=NOW_MS + 5),
        worker("b", version="2", names=("w", "x", "y", "z"), registered_at_ms=NOW_MS + 3),
        worker("d", version=""),
    )
    marks, entries = marks.compare(both)
    assert said(entries) == [("version_new", "2", 0)]
    assert (entries[0].at_ms, entries[0].label) == (NOW_MS + 3, "w, x, y, +1")
    assert marks.compare(both) == (marks, [])
    marks, entries = marks.compare(seen(worker("b", version="2")))
    assert entries == []
    _, entries = marks.compare(seen(worker("a", version="1")))
    assert said(entries) == [("version_new", "1", 0)]


def test_a_change_of_leader_names_both_and_its_cause() -> None:
    marks = KnownState.first(seen())
    after = seen(leader=("m2", "rack-2:200"), cause=LeaderCause.DEMOTED, by="user:ada")
    marks, (entry,) = marks.compare(after)
    assert (entry.kind, entry.subject, entry.label) == (TimelineKind.LEADER_CHANGED, "m2", "rack-2:200")
    assert (entry.before, entry.cause, entry.by) == ("rack-1:100", "demoted", "user:ada")
    assert marks.compare(after) == (marks, [])


def test_an_outage_that_several_masters_saw_is_told_once() -> None:
    marks = KnownState.first(seen())
    outage = StoreOutage(NOW_MS + 1_000, NOW_MS + 21_000)
    marks, (entry,) = marks.compare(seen(now_ms=NOW_MS + 22_000, outages=(outage,)))
    assert (entry.kind, entry.began_ms, entry.at_ms) == (
        TimelineKind.STORE_AWAY, NOW_MS + 1_000, NOW_MS + 21_000,
    )  # fmt: skip
    other = StoreOutage(NOW_MS + 1_900, NOW_MS + 21_400)
    assert marks.compare(seen(now_ms=NOW_MS + 22_000, outages=(other,)))[1] == []
    later = StoreOutage(NOW_MS + 30_000, NOW_MS + 35_000)
    assert len(marks.compare(seen(now_ms=NOW_MS + 36_000, outages=(outage, later)))[1]) == 1


def test_a_backlog_that_is_old_is_told_at_a_minute_and_is_over_below_half_of_it() -> None:
    marks = KnownState.first(seen())

    def waits(ms: int) -> QueueSeen:
        return seen(backlog=OldBacklog("work", "job-1", 40, NOW_MS - ms))

    assert marks.compare(waits(OLD_WAIT_MS - 1)) == (marks, [])
    marks, (entry,) = marks.compare(waits(OLD_WAIT_MS))
    assert (entry.subject, entry.label, entry.count) == ("work", "job-1", 40)
    assert marks.compare(waits(OLD_WAIT_MS // 2)) == (marks, [])
    marks, (entry,) = marks.compare(seen())
    assert (entry.kind, entry.subject) == (TimelineKind.BACKLOG_OVER, "work")
    assert marks.compare(seen()) == (marks, [])
