"""Notices: about which condition people are notified, where, and how often."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlsplit

from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.domain.notices.conditions import CONDITIONS, When
from jqmaster.domain.notices.webhook import shown_url, url_fault

# The tags of deliveries contain the name.
NAME_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,50}$"
# These names are reserved, because they have a special meaning in a URL path.
RESERVED_NAMES: Final = frozenset({".", ".."})
MAX_NOTICES: Final = 100
MAX_DESCRIPTION: Final = 500
MAX_DESTINATIONS: Final = 10
MAX_MAIL_ADDRESSES: Final = 50
MAX_MAIL_ADDRESS: Final = 254
MAX_THRESHOLD: Final = 1_000_000
MIN_INTERVAL_S: Final = 10
MAX_INTERVAL_S: Final = 7 * 86_400
DEFAULT_INTERVAL_S: Final = 300
# If mail is configured, a notice of this name exists until somebody creates a notice.
DEFAULT_NAME: Final = "default"

_MAIL_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
)


DEFAULT_LASTING_S: Final = 60


class GroupBy(StrEnum):
    """The grouping of findings: each group gets its own messages."""

    NONE = "none"
    # Group findings by the name of the job, constraint or definition.
    NAME = "name"
    # Group findings by similar failures.
    FAILURE_GROUP = "failure_group"


class Channel(StrEnum):
    """A channel by which people are notified."""

    MAIL = "mail"
    WEBHOOK = "webhook"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Destination:
    """The receivers of messages: mail addresses, or one URL. The URL and the secret may be credentials, so no view or
    log shows them in full."""

    channel: Channel
    addresses: tuple[str, ...] = field(repr=False)
    # The secret that signs calls of a webhook. Empty: the secrets of the settings sign them.
    secret: str = field(default="", repr=False)

    def shown(self) -> dict[str, Any]:
        """Return the destination as views show it."""
        if self.channel is Channel.MAIL:
            return {"mail": list(self.addresses)}
        if self.channel is Channel.WEBHOOK:
            return {"webhook": shown_url(self.addresses[0]), "has_secret": bool(self.secret)}
        # Hide the whole path, because it is the credential. A few digits of a digest distinguish two URLs of one host.
        parts = urlsplit(self.addresses[0])
        digest = blake2b(self.addresses[0].encode(), digest_size=3).hexdigest()
        return {"slack": f"{parts.scheme}://{parts.netloc}/…{digest}"}


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice.

    * `nid`: distinguishes it from earlier notices of its name.
    * `threshold`: people are notified after this number of findings within `at_most_every_s`. For a lasting condition,
      they are notified after this number of seconds.
    * `muted_until_ms`: when the mute ends. 0: the notice is not muted.
    """

    name: str
    nid: str
    when: When
    to: tuple[Destination, ...]
    matcher: Matcher | None = None
    threshold: int = 1
    group_by: GroupBy = GroupBy.NONE
    at_most_every_s: int = DEFAULT_INTERVAL_S
    muted_until_ms: int = 0
    description: str = ""

    @property
    def is_lasting(self) -> bool:
        return CONDITIONS[self.when].is_lasting

    def is_muted(self, now_ms: int) -> bool:
        return now_ms < self.muted_until_ms


class NoticeError(ValueError):
    """A notice that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(msg)
        self.loc = loc
        self.msg = msg


def check_notice(notice: Notice) -> None:
    """Raise NoticeError if parts of the notice do not fit together."""
    if notice.group_by is GroupBy.FAILURE_GROUP and not CONDITIONS[notice.when].has_failure_groups:
        raise NoticeError(("group_by",), f"{notice.when} has no groups of failures")
    if notice.group_by is GroupBy.NAME and not CONDITIONS[notice.when].matched:
        raise NoticeError(("group_by",), f"{notice.when} has no names")


def parse_notice_matcher(document: object, when: When) -> Matcher | None:
    """Return the matcher of a condition. Raise NoticeError."""
    if document is None:
        return None
    fields = CONDITIONS[when].matched
    if not fields:
        raise NoticeError(("matcher",), f"{when} cannot be narrowed")
    try:
        return parse_matcher(document, fields)
    except MatcherError as error:
        raise NoticeError(("matcher", *error.loc), error.msg) from None


def parse_destinations(
    documents: Sequence[Mapping[str, Any]], old: Sequence[Destination] = ()
) -> tuple[Destination, ...]:
    """Return the destinations of a request. If a URL comes back in its shown form, or a webhook's secret is left out,
    keep the value from `old`. Raise NoticeError."""
    left = list(old)
    return tuple(_destination(("to", n), one, left) for n, one in enumerate(documents))


def _destination(loc: Loc, document: Mapping[str, Any], left: list[Destination]) -> Destination:
    """Return one destination. If its URL is the shown form of a destination in `left`, remove that destination from
    `left`. So both destinations are kept if two have the same shown form."""
    given = [channel for channel in Channel if document.get(channel) is not None]
    if len(given) != 1:
        raise NoticeError(loc, f"must have one of {', '.join(Channel)}")
    (channel,) = given
    secret = document.get("secret")
    if secret is not None and channel is not Channel.WEBHOOK:
        raise NoticeError((*loc, "secret"), "belongs to a webhook")
    if channel is Channel.MAIL:
        for n, address in enumerate(document["mail"]):
            if len(address) > MAX_MAIL_ADDRESS or not _MAIL_ADDRESS.fullmatch(address):
                raise NoticeError((*loc, "mail", n), "must be a mail address such as ops@shop.example")
        return Destination(channel, tuple(dict.fromkeys(document["mail"])))
    url = document[channel]
    kept = next(
        (one for one in left if one.channel is channel and url in (one.addresses[0], one.shown()[channel])),
        None,
    )
    if kept is not None:
        left.remove(kept)
        return Destination(channel, kept.addresses, kept.secret if secret is None else secret)
    if fault := url_fault(url):
        raise NoticeError((*loc, str(channel)), fault)
    return Destination(channel, (url,), secret or "")
