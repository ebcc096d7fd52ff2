"""The stored form of groups of failures. lua/operations/add_failures.lua writes them."""

from collections.abc import Mapping
from typing import Any, Final

import msgpack

from jqmaster.domain.jobs.failures import GroupedFailures, Ignore
from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.jobs.triage import AssignedPerson, Resolution
from jqmaster.store import codec

_UNREADABLE: Final = (ValueError, TypeError, IndexError, AttributeError, msgpack.UnpackException)


def decode_group(
    group_id: bytes,
    packed: bytes,
    ignore: Ignore | None,
    assignment: AssignedPerson | None = None,
    resolution: Resolution | None = None,
) -> GroupedFailures | None:
    """Decode a group of failures; None if it cannot be read."""
    try:
        count, first_ms, last_ms, job_id, name, cause, message, *added = msgpack.unpackb(packed)
        # Groups that a master of release 0.2 wrote lack these three values.
        hours, versions, regressed_ms = (*added, [], [], 0)[:3] if len(added) < 3 else added[:3]
        return GroupedFailures(
            group_id.decode(),
            str(name),
            str(cause),
            str(message),
            int(count),
            int(first_ms),
            int(last_ms),
            str(job_id),
            _hours(hours),
            tuple(SeenVersion(str(v[0]), int(v[1]), int(v[2]), int(v[3])) for v in versions),
            int(regressed_ms),
            ignore,
            assignment,
            resolution,
        )
    except _UNREADABLE:
        return None


def encode_ignore(ignore: Ignore) -> bytes:
    # lua/operations/add_failures.lua reads the versions and writes the last two.
    return codec.pack([
        ignore.who, ignore.at_ms, ignore.until_ms, ignore.reason, ignore.versions, ignore.most_per_hour,
        ignore.since_per_hour, int(ignore.has_new_version),
    ])  # fmt: skip


def decode_ignore(packed: bytes) -> Ignore | None:
    """Decode the decision to ignore a group; None if it cannot be read."""
    try:
        who, at_ms, until_ms, reason, versions, most, since, is_new, *_ = msgpack.unpackb(packed)
        return Ignore(
            str(who),
            int(at_ms),
            int(until_ms),
            str(reason),
            tuple(map(str, versions)),
            int(most),
            int(since),
            bool(is_new),
        )
    except _UNREADABLE:
        return None


def _hours(flat: Any) -> Mapping[int, int]:
    return {int(hour): int(count) for hour, count in zip(flat[::2], flat[1::2], strict=True)}
