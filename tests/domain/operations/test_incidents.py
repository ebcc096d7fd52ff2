"""Entries that belong together are one incident. Acts in good order are not."""

from typing import Any

from jqmaster.domain.operations.incidents import GAP_MS, entry_text, incidents_of, title_of
from jqmaster.domain.operations.timeline import LeaderCause, TimelineEntry, TimelineKind

NOW_MS = 1_800_000_000_000
AWAY, LEADER, LOST, BACK = (
    TimelineKind.STORE_AWAY,
    TimelineKind.LEADER_CHANGED,
    TimelineKind.WORKER_LOST,
    TimelineKind.JOBS_RETURNED,
)


class Entries:
    """Entries in the order in which they are stored."""

    def __init__(self) -> None:
        self.all: list[TimelineEntry] = []

    def add(self, kind: TimelineKind, after_s: float, subject: str = "", **fields: Any) -> TimelineEntry:
        at_ms = NOW_MS + round(1000 * after_s)
        if "lasted_s" in fields:
            fields["since_ms"] = at_ms - round(1000 * fields.pop("lasted_s"))
        entry = TimelineEntry(kind, at_ms, subject, id=f"{NOW_MS + len(self.all)}-0", **fields)
        self.all.append(entry)
        return entry


def test_a_stall_with_what_followed_is_one_story_with_its_end() -> None:
    entries = Entries()
    # The new leader writes that it leads before it writes of the outage, which began earlier.
    leader = entries.add(LEADER, 21, "m2", label="rack-2:2", before="rack-1:1", cause=LeaderCause.SILENT)
    away = entries.add(AWAY, 20, "store", lasted_s=20)
    lost = entries.add(LOST, 60, "w1", lasted_s=9, label="node-1:7", count=7)
    entries.add(TimelineKind.VERSION_NEW, 61, "2")
    assert [one.ended_ms for one in incidents_of(entries.all)] == [None], "its jobs are not taken back"
    back = entries.add(BACK, 75, "w1", label="node-1:7", count=7)
    grew = entries.add(TimelineKind.BACKLOG_OLD, 130, "mail", lasted_s=60, count=40)
    over = entries.add(TimelineKind.BACKLOG_OVER, 1000, "mail")
    (incident,) = incidents_of(entries.all)
    assert incident.id == leader.id
    assert incident.entries == (away, leader, lost, grew, back, over)
    assert (incident.began_ms, incident.ended_ms) == (NOW_MS, NOW_MS + 1_000_000)
    assert (
        title_of(incident.entries)
        == "Store unreachable, leader changed, worker detached, old backlog, jobs taken back"
    )
    assert [entry_text(one) for one in incident.entries] == [
        "The store did not answer for 20 s.",
        "Master rack-2:2 became the leader after rack-1:1, which had fallen silent.",
        "Worker node-1:7 fell silent and was detached; it held 7 jobs.",
        "The backlog grew: 40 jobs were waiting, the oldest (mail) for 1 min.",
        "7 jobs of worker node-1:7 were taken back from it.",
        "The backlog has cleared; the last job was mail.",
    ]


def test_a_lead_that_ends_in_good_order_is_no_incident() -> None:
    entries = Entries()
    entries.add(LEADER, 0, "m2", label="rack-2:2", cause=LeaderCause.DEMOTED, by="ada", before="rack-1:1")
    entries.add(LEADER, 300, "m1", label="rack-1:1", cause=LeaderCause.ENDED)
    assert incidents_of(entries.all) == []
    assert [entry_text(one) for one in entries.all] == [
        "Master rack-2:2 became the leader after rack-1:1, which ada demoted.",
        "Master rack-1:1 became the leader.",
    ]
    entries.add(LEADER, 600, "m2", cause=LeaderCause.SILENT)
    assert len(incidents_of(entries.all)) == 1


def test_later_events_are_an_incident_of_their_own_the_newest_first() -> None:
    entries = Entries()
    entries.add(AWAY, 0, "store", lasted_s=5)
    near = entries.add(LOST, GAP_MS / 1000, "w1")
    far = entries.add(LOST, 2 * GAP_MS / 1000 + 1, "w2", count=1)
    late = entries.add(TimelineKind.WORKER_BACK, 1_000, "w1", label="node-1:7")
    newest, oldest = incidents_of(entries.all)
    assert (newest.entries, newest.ended_ms) == ((far,), None)
    assert oldest.entries[1:] == (near, late), "an end belongs to what it ends"
    assert entry_text(late) == "Worker node-1:7 came back."


def test_an_incident_is_found_by_each_of_its_entries_and_says_who_acknowledged_it() -> None:
    entries = Entries()
    away, lost = entries.add(AWAY, 0, "store", lasted_s=5), entries.add(LOST, 3, "w1")
    by_ada = entries.add(TimelineKind.ACKNOWLEDGED, 9, away.id, by="ada", label="on it")
    entries.add(TimelineKind.ACKNOWLEDGED, 9, "1-0", by="bob")
    (incident,) = incidents_of(entries.all)
    assert incident.has(away.id)
    assert incident.has(lost.id)
    assert not incident.has(by_ada.id)
    assert incident.acknowledged == (by_ada,)
    assert entry_text(by_ada) == "ada acknowledged it: on it."


def test_the_end_of_what_began_before_the_timeline_is_no_incident() -> None:
    entries = Entries()
    entries.add(TimelineKind.BACKLOG_OVER, 0, "mail")
    entries.add(BACK, 0, "w1", label="n:1", count=1)
    assert incidents_of(entries.all) == []
    assert entry_text(entries.all[1]) == "1 job of worker n:1 was taken back from it."
    version = entries.add(TimelineKind.VERSION_NEW, 0, "2.1", label="mail")
    assert entry_text(version) == "The first worker of version 2.1 registered (mail)."
