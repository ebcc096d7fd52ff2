"""Many findings become few messages, never closer together than the notice allows, with correct counts."""

import itertools
from dataclasses import replace

import pytest

from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import (
    GATHER_MS,
    MAX_INCIDENTS,
    MAX_LINES,
    OTHERS,
    Message,
    MessageKind,
    NoticeIncidentItem,
    NoticeState,
)
from jqmaster.domain.notices.notice import Channel, Destination, GroupBy, Notice

pytestmark = pytest.mark.req("M5")

T0 = 1_800_000_000_000
EVERY_MS = 300_000
FAILED = Notice("n", "1", When.JOB_FAILED, (Destination(Channel.MAIL, ("ops@shop.example",)),))
BACKLOG = replace(FAILED, when=When.BACKLOG_AGE, threshold=60)


def found(at_ms: int, name: str = "work", **fields: str) -> NoticeIncidentItem:
    return NoticeIncidentItem(name, fields.pop("line", f"{name}: error"), at_ms, **fields)


def kinds(messages: list[Message]) -> list[tuple[MessageKind, int, int]]:
    return [(one.kind, one.count, one.new) for one in messages]


def test_a_storm_is_one_message_and_one_more_with_the_total() -> None:
    state = NoticeState()
    told = []
    for second in range(700):
        now_ms = T0 + 1000 * second
        if second < 60:
            state.add(FAILED, [found(now_ms, job_id=f"{second}-{n}") for n in range(150)])
        told += [(second, *one) for one in kinds(state.advance(FAILED, now_ms))]
    first = GATHER_MS // 1000
    assert told == [
        (first, MessageKind.FIRST, 150 * (first + 1), 150 * (first + 1)),
        (first + 300, MessageKind.MORE, 9000, 9000 - 150 * (first + 1)),
    ]
    assert state.incidents == {}


def test_one_failure_is_one_message() -> None:
    state = NoticeState()
    state.add(FAILED, [found(T0)])
    assert state.advance(FAILED, T0 + GATHER_MS - 1) == []
    (message,) = state.advance(FAILED, T0 + GATHER_MS)
    assert kinds([message]) == [(MessageKind.FIRST, 1, 1)]
    assert message.lines == (("work: error", 1, ""),)
    assert state.advance(FAILED, T0 + GATHER_MS + EVERY_MS) == []
    assert state.incidents == {}


def test_below_the_threshold_nothing_is_told_and_the_count_begins_anew() -> None:
    notice = replace(FAILED, threshold=3)
    state = NoticeState()
    state.add(notice, [found(T0), found(T0 + 1)])
    assert state.advance(notice, T0 + EVERY_MS - 1) == []
    assert state.advance(notice, T0 + EVERY_MS) == []
    assert state.incidents == {}
    state.add(notice, [found(T0 + EVERY_MS + n) for n in range(3)])
    assert kinds(state.advance(notice, T0 + EVERY_MS + GATHER_MS)) == [(MessageKind.FIRST, 3, 3)]


def test_groups_have_messages_of_their_own() -> None:
    notice = replace(FAILED, group_by=GroupBy.NAME)
    state = NoticeState()
    state.add(notice, [found(T0, "mail"), found(T0, "bill"), found(T0, "mail")])
    told = {one.key: one.count for one in state.advance(notice, T0 + GATHER_MS)}
    assert told == {"mail": 2, "bill": 1}
    by_group = replace(FAILED, group_by=GroupBy.FAILURE_GROUP)
    state = NoticeState()
    state.add(by_group, [found(T0, failure_group="a"), found(T0, failure_group="b")])
    assert set(state.incidents) == {"a", "b"}


def test_too_many_groups_share_an_incident_and_none_is_lost() -> None:
    notice = replace(FAILED, group_by=GroupBy.NAME)
    state = NoticeState()
    state.add(notice, [found(T0, f"name{n}") for n in range(MAX_INCIDENTS + 30)])
    assert len(state.incidents) == MAX_INCIDENTS + 1
    assert state.incidents[OTHERS].count == 30
    assert len(state.incidents[OTHERS].lines) == MAX_LINES


def test_a_muted_notice_does_not_tell_later_what_happened_meanwhile() -> None:
    muted = replace(FAILED, muted_until_ms=T0 + 60_000)
    state = NoticeState()
    state.add(muted, [found(T0)])
    assert state.advance(muted, T0 + GATHER_MS) == []
    assert state.advance(muted, T0 + GATHER_MS + EVERY_MS) == []
    assert state.incidents == {}


def test_an_acknowledged_incident_is_silent_until_it_is_over() -> None:
    state = NoticeState()
    state.add(FAILED, [found(T0)])
    assert len(state.advance(FAILED, T0 + GATHER_MS)) == 1
    state.incidents[""].acknowledged_by = "user:ada"
    at_ms = T0 + GATHER_MS
    for _ in range(3):
        state.add(FAILED, [found(at_ms)])
        at_ms += EVERY_MS
        assert state.advance(FAILED, at_ms) == []
    assert state.incidents[""].count == 4
    at_ms += EVERY_MS
    assert state.advance(FAILED, at_ms) == []
    assert state.incidents == {}
    state.add(FAILED, [found(at_ms)])
    assert len(state.advance(FAILED, at_ms + GATHER_MS)) == 1


def test_a_lasting_condition_is_told_when_it_begins_and_when_it_ends() -> None:
    state = NoticeState()
    state.look(BACKLOG, [found(T0)], T0)
    assert kinds(state.advance(BACKLOG, T0)) == [(MessageKind.FIRST, 1, 1)]
    at_ms = T0
    for _ in range(400):
        at_ms += 2000
        state.look(BACKLOG, [found(at_ms)], at_ms)
        assert state.advance(BACKLOG, at_ms) == []
    state.look(BACKLOG, [], at_ms + 2000)
    (over,) = state.advance(BACKLOG, at_ms + 2000)
    assert over.kind is MessageKind.OVER
    assert over.last_ms >= at_ms - 30_000
    assert over.lines == (("work: error", 1, ""),)


def test_a_condition_that_comes_and_goes_is_told_no_more_often_than_the_notice_says() -> None:
    state = NoticeState()
    told: list[int] = []
    for second in range(0, 3600, 2):
        now_ms = T0 + 1000 * second
        state.look(BACKLOG, [found(now_ms)] if second % 20 < 10 else [], now_ms)
        told += [now_ms for _ in state.advance(BACKLOG, now_ms)]
    assert 5 <= len(told) <= 13
    assert all(later - earlier >= EVERY_MS for earlier, later in itertools.pairwise(told))


def test_a_condition_that_began_while_muted_and_still_lasts_is_told_afterwards() -> None:
    muted = replace(BACKLOG, muted_until_ms=T0 + 10_000)
    state = NoticeState()
    state.look(muted, [found(T0)], T0)
    assert state.advance(muted, T0) == []
    state.look(muted, [found(T0)], T0 + 10_000)
    assert kinds(state.advance(muted, T0 + 10_000)) == [(MessageKind.FIRST, 1, 1)]


def test_sent_messages_are_remembered_and_no_longer_pending() -> None:
    state = NoticeState(pending=[Message("1", MessageKind.FIRST, T0), Message("2", MessageKind.TEST, T0)])
    state.sent([state.pending[0]])
    assert [one.id for one in state.pending] == ["2"]
    assert [one.id for one in state.recent] == ["1"]
