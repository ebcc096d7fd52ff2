"""Groups of failures: trend, marks, and what ends the ignoring of a group."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.failures import HOUR_MS, QUIET_MS, GroupedFailures
from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.jobs.triage import Resolution

NOW_MS = 1_800_000_000_000
HOUR = NOW_MS // HOUR_MS
OLD_MS = NOW_MS - 10 * 24 * HOUR_MS


def group(**fields: Any) -> GroupedFailures:
    base = GroupedFailures("0" * 16, "mail", "error", "boom", 9, OLD_MS, NOW_MS, "job")
    return replace(base, **fields)


def test_the_trend_has_every_hour_of_the_last_day() -> None:
    trend = group(hours={HOUR: 3, HOUR - 23: 2, HOUR - 24: 9}).trend(NOW_MS)
    assert (len(trend), trend[0], trend[-1], sum(trend)) == (24, 2, 3, 5)
    assert group().trend(NOW_MS) == [0] * 24


def test_new_and_regressed_groups_are_marked_for_a_while() -> None:
    assert group().marks(NOW_MS) == []
    assert group(first_seen_ms=NOW_MS - HOUR_MS + 1).marks(NOW_MS) == ["new"]
    assert group(first_seen_ms=NOW_MS - HOUR_MS).marks(NOW_MS) == []
    assert group(regressed_ms=NOW_MS - QUIET_MS + 1).marks(NOW_MS) == ["regressed"]
    assert group(regressed_ms=NOW_MS - QUIET_MS).marks(NOW_MS) == []


def test_nobody_ignores_a_group_at_first() -> None:
    assert not group().is_ignored(NOW_MS)
    assert group().changed(NOW_MS) is None


def test_a_group_is_ignored_until_a_time() -> None:
    ignore = group().ignored(who="ada", now_ms=NOW_MS, until_ms=NOW_MS + 1_000, reason="")
    # The group stays ignored whatever it does meanwhile.
    ignored = group(ignore=ignore, regressed_ms=NOW_MS + 1, hours={HOUR: 1_000})
    assert ignored.is_ignored(NOW_MS + 999)
    assert (ignored.is_ignored(NOW_MS + 1_000), ignored.changed(NOW_MS + 1_000)) == (False, "time")


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        ({}, None),
        ({"since_per_hour": 20}, None),
        ({"since_per_hour": 21}, "more"),
        ({"has_new_version": True}, "version"),
        ({"regressed_ms": NOW_MS + 5}, "regressed"),
        ({"regressed_ms": NOW_MS - 5}, None),
    ],
)
def test_a_group_is_ignored_until_it_changes(after: dict[str, Any], changed: str | None) -> None:
    before = group(hours={HOUR: 10}, versions=(SeenVersion("1", 5, OLD_MS, NOW_MS),))
    regressed_ms = after.pop("regressed_ms", 0)
    ignore = before.ignored(who="ada", now_ms=NOW_MS, until_ms=0, reason="known")
    assert (ignore.versions, ignore.most_per_hour) == (("1",), 10)
    ignored = replace(before, ignore=replace(ignore, **after), regressed_ms=regressed_ms)
    assert ignored.changed(NOW_MS + 10 * HOUR_MS) == changed
    assert ignored.is_ignored(NOW_MS + 10 * HOUR_MS) == (changed is None)


def test_few_more_failures_are_no_change() -> None:
    ignore = group(hours={HOUR: 1}).ignored(who="ada", now_ms=NOW_MS, until_ms=0, reason="")
    assert group(ignore=replace(ignore, since_per_hour=10)).is_ignored(NOW_MS)
    assert group(ignore=replace(ignore, since_per_hour=11)).changed(NOW_MS) == "more"


def test_a_group_is_open_until_it_is_resolved_or_ignored_and_again_when_a_failure_reopens_it() -> None:
    unresolved = group()
    assert (unresolved.reopened_by(), unresolved.is_resolved(), unresolved.is_open(NOW_MS)) == (
        None,
        False,
        True,
    )
    resolution = Resolution("ada", NOW_MS, "2", ("1",))
    resolved = group(resolution=resolution, versions=(SeenVersion("1", 5, OLD_MS, NOW_MS + 1),))
    assert (resolved.reopened_by(), resolved.is_resolved(), resolved.is_open(NOW_MS)) == (None, True, False)
    reopened = group(resolution=resolution, versions=(SeenVersion("2", 1, NOW_MS + 1, NOW_MS + 1),))
    assert (reopened.reopened_by(), reopened.is_resolved(), reopened.is_open(NOW_MS)) == ("2", False, True)
    ignore = unresolved.ignored(who="ada", now_ms=NOW_MS, until_ms=NOW_MS + 1_000, reason="")
    assert not group(ignore=ignore).is_open(NOW_MS)
    assert group(ignore=ignore).is_open(NOW_MS + 1_000)
