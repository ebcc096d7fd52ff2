"""The forms of a notice and of its state in the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import Line, Message, MessageKind, NoticeIncident, NoticeState
from jqmaster.domain.notices.notice import (
    Channel,
    Destination,
    GroupBy,
    Notice,
    NoticeError,
    parse_notice_matcher,
)
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.named_documents import ETAG_LENGTH

_UNREADABLE: Final = (
    KeyError, ValueError, TypeError, AttributeError, IndexError, MatcherError, NoticeError, msgpack.UnpackException,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A stored notice. `etag` changes whenever people change the notice."""

    notice: Notice
    etag: str
    created_at_ms: int
    changed_at_ms: int
    created_by: str


@dataclass(slots=True)
class StoredState:
    """The state of a notice. `edition`: the edition of the state that was read. Empty: no state is stored. `of`: the
    incarnation and the condition of the notice.
    """

    edition: str = ""
    of: str = ""
    state: NoticeState = field(default_factory=NoticeState)


@dataclass(slots=True)
class StoredWatermarks:
    """By name of a condition, the time up to which it has been checked. `edition`: the edition of the watermarks that
    were read.
    """

    edition: str = ""
    by_condition: dict[str, Any] = field(default_factory=dict)


def encode_notice(stored: StoredNotice) -> bytes:
    """Encode a notice as it is stored."""
    notice = stored.notice
    document = {
        "nid": notice.nid,
        "when": str(notice.when),
        "to": [[str(one.channel), list(one.addresses), one.secret] for one in notice.to],
        "matcher": notice.matcher.document if notice.matcher else None,
        "threshold": notice.threshold,
        "group_by": str(notice.group_by),
        "at_most_every_s": notice.at_most_every_s,
        "muted_until_ms": notice.muted_until_ms,
        "description": notice.description,
        "created_by": stored.created_by,
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
    }
    return stored.etag.encode() + codec.pack(document)


def decode_notice(name: str, raw: bytes) -> StoredNotice:
    """Decode a stored notice. Raise DamagedError."""
    try:
        document: Mapping[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:], strict_map_key=False)
        when = When(document["when"])
        notice = Notice(
            name=name,
            nid=document["nid"],
            when=when,
            to=tuple(
                Destination(Channel(channel), tuple(addresses), secret)
                for channel, addresses, secret in document["to"]
            ),
            matcher=parse_notice_matcher(document["matcher"], when),
            threshold=document["threshold"],
            group_by=GroupBy(document["group_by"]),
            at_most_every_s=document["at_most_every_s"],
            muted_until_ms=document["muted_until_ms"],
            description=document["description"],
        )
        return StoredNotice(
            notice,
            raw[:ETAG_LENGTH].decode(),
            document["created_at_ms"],
            document["changed_at_ms"],
            document["created_by"],
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"notice {name}: its document cannot be read") from exc


def encode_state(edition: str, stored: StoredState) -> bytes:
    """Encode the state of a notice under a new edition."""
    state = stored.state
    document = {
        "of": stored.of,
        "incidents": [
            [
                one.key, one.began_ms, one.last_ms, one.count,
                [[line.text, line.count, line.job_id] for line in one.lines],
                one.told_count, one.told_ms, one.is_present, one.is_over, one.acknowledged_by,
            ]
            for one in state.incidents.values()
        ],
        "pending": [_message_document(one) for one in state.pending],
        "recent": [_message_document(one) for one in state.recent],
    }  # fmt: skip
    return edition.encode() + codec.pack(document)


def decode_state(name: str, raw: bytes) -> StoredState:
    """Decode the state of a notice. Raise DamagedError."""
    try:
        document: Mapping[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:], strict_map_key=False)
        incidents = [_incident(members) for members in document["incidents"]]
        state = NoticeState(
            {one.key: one for one in incidents},
            [_message(one) for one in document["pending"]],
            [_message(one) for one in document["recent"]],
        )
        return StoredState(raw[:ETAG_LENGTH].decode(), document["of"], state)
    except _UNREADABLE as exc:
        raise DamagedError(f"notice {name}: its state cannot be read") from exc


def encode_watermarks(edition: str, watermarks: Mapping[str, Any]) -> bytes:
    """Encode the watermarks of conditions, under a new edition."""
    return edition.encode() + codec.pack(dict(watermarks))


def decode_watermarks(raw: bytes) -> StoredWatermarks:
    """Decode the watermarks of conditions. A condition whose watermark cannot be read starts again."""
    edition = raw[:ETAG_LENGTH].decode(errors="replace")
    try:
        return StoredWatermarks(edition, dict(msgpack.unpackb(raw[ETAG_LENGTH:])))
    except _UNREADABLE:
        return StoredWatermarks(edition)


def _incident(members: list[Any]) -> NoticeIncident:
    key, began_ms, last_ms, count, lines, told_count, told_ms, is_present, is_over, acknowledged_by, *_ = (
        members
    )
    return NoticeIncident(
        key,
        began_ms,
        last_ms,
        count,
        [Line(text, times, job_id) for text, times, job_id in lines],
        told_count,
        told_ms,
        is_present,
        is_over,
        acknowledged_by,
    )


def _message_document(message: Message) -> list[Any]:
    return [
        message.id, str(message.kind), message.at_ms, message.key, message.count, message.new, message.began_ms,
        message.last_ms, [list(line) for line in message.lines], message.asked_by,
    ]  # fmt: skip


def _message(members: list[Any]) -> Message:
    own_id, kind, at_ms, key, count, new, began_ms, last_ms, lines, asked_by, *_ = members
    told = tuple((text, times, job_id) for text, times, job_id in lines)
    return Message(own_id, MessageKind(kind), at_ms, key, count, new, began_ms, last_ms, told, asked_by)
