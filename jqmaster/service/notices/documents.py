"""Parses and describes notices in the form that clients write and read."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jqmaster.domain.instant import iso_ms
from jqmaster.domain.matching.checks import Loc
from jqmaster.domain.notices.conditions import CONDITIONS, When
from jqmaster.domain.notices.notice import (
    DEFAULT_LASTING_S,
    RESERVED_NAMES,
    Destination,
    GroupBy,
    Notice,
    NoticeError,
    check_notice,
    parse_destinations,
    parse_notice_matcher,
)
from jqmaster.errors import FieldError, InvalidError, NotFoundError


def draft_of(name: str, fields: Mapping[str, Any], old: Sequence[Destination] = ()) -> Notice:
    """Return the notice that a checked request describes. `old`: the current destinations of the notice. Raise
    InvalidError, which names the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of the API, so it cannot be a name")
    with refusing():
        when = When(fields["when"])
        threshold = fields["threshold"]
        if threshold is None:
            threshold = DEFAULT_LASTING_S if CONDITIONS[when].is_lasting else 1
        notice = Notice(
            name=name,
            nid="",
            when=when,
            to=parse_destinations(fields["to"], old),
            matcher=parse_notice_matcher(fields["matcher"], when),
            threshold=threshold,
            group_by=GroupBy(fields["group_by"]),
            at_most_every_s=fields["at_most_every_s"],
            muted_until_ms=fields["muted_until"] or 0,
            description=fields["description"],
        )
        check_notice(notice)
        return notice


def describe(notice: Notice) -> dict[str, Any]:
    """Return a notice in the form that clients read, without its credentials."""
    return {
        "name": notice.name,
        "when": str(notice.when),
        "matcher": notice.matcher.document if notice.matcher else None,
        "threshold": notice.threshold,
        "to": [one.shown() for one in notice.to],
        "group_by": str(notice.group_by),
        "at_most_every_s": notice.at_most_every_s,
        "muted_until": iso_ms(notice.muted_until_ms) if notice.muted_until_ms else None,
        "description": notice.description,
    }


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Convert errors of the domain to InvalidError, with the location of the faulty part."""
    try:
        yield
    except NoticeError as error:
        raise refusal(error.loc, error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the error that refuses a notice because of the field at `loc`."""
    return InvalidError("the notice is not valid", errors=[FieldError(loc, msg)])


def unknown_notice(name: str) -> NotFoundError:
    """Return the error for a notice that does not exist."""
    return NotFoundError(f"no notice {name[:100]}", code="unknown_notice")
