"""Groups of failures that count as one group, because people merged them or a caller must not tell them apart."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jqmaster.domain.jobs.failures import HOUR_MS, MAX_VERSIONS, QUIET_MS, GroupedFailures


def joined(first: GroupedFailures, other: GroupedFailures) -> GroupedFailures:
    """Return both groups as one. It has the text, the example and the decisions of the first group."""
    versions = {seen.version: seen for seen in other.versions}
    for seen in first.versions:
        if same := versions.get(seen.version):
            seen = replace(
                seen,
                count=seen.count + same.count,
                first_seen_ms=min(seen.first_seen_ms, same.first_seen_ms),
                last_seen_ms=max(seen.last_seen_ms, same.last_seen_ms),
            )
        versions[seen.version] = seen
    latest = sorted(versions.values(), key=lambda seen: -seen.last_seen_ms)
    return replace(
        first,
        count=first.count + other.count,
        first_seen_ms=min(first.first_seen_ms, other.first_seen_ms),
        last_seen_ms=max(first.last_seen_ms, other.last_seen_ms),
        hours=Counter(first.hours) + Counter(other.hours),
        versions=tuple(latest[:MAX_VERSIONS]),
        regressed_ms=max(_came_back_ms(first, other), _came_back_ms(other, first)),
    )


def with_merged(groups: Sequence[GroupedFailures], into: Mapping[str, str]) -> list[GroupedFailures]:
    """Return the groups after the merges that people decided. `into`: for the ID of each merged group, the ID of the
    group in which it counts. A group stays by itself if that other group no longer exists."""
    if not into:
        return list(groups)
    by_id = {group.id: group for group in groups}
    members: dict[str, list[GroupedFailures]] = {}
    for group in groups:
        members.setdefault(_root(group.id, into, by_id), []).append(group)
    found = []
    for root_id, some in members.items():
        whole = by_id[root_id]
        rest = tuple(group for group in some if group.id != root_id)
        for group in rest:
            whole = joined(whole, group)
        found.append(replace(whole, merged=rest))
    return found


def _root(group_id: str, into: Mapping[str, str], by_id: Mapping[str, GroupedFailures]) -> str:
    """Return the ID of the group in which `group_id` counts. Two people who merge groups at once may create a cycle.
    The groups of a cycle stay by themselves."""
    passed, at = {group_id}, group_id
    while (following := into.get(at)) in by_id:
        assert following is not None
        if following in passed:
            return group_id
        passed.add(following)
        at = following
    return at


def _came_back_ms(group: GroupedFailures, other: GroupedFailures) -> int:
    """Return when the group came back after a day without failures. 0: it did not come back, or the other group failed
    during that day."""
    at_ms = group.regressed_ms
    if not at_ms or other.first_seen_ms >= at_ms or other.last_seen_ms < at_ms - QUIET_MS:
        return at_ms
    quiet = range((at_ms - QUIET_MS) // HOUR_MS + 1, at_ms // HOUR_MS)
    failed = other.last_seen_ms < at_ms or any(other.hours.get(hour) for hour in quiet)
    return 0 if failed else at_ms
