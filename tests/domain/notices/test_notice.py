"""Notices are checked, and their credentials are never shown."""

import re
from typing import Any

import pytest

from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.notice import (
    Channel,
    Destination,
    GroupBy,
    Notice,
    NoticeError,
    check_notice,
    parse_destinations,
    parse_notice_matcher,
)

SLACK = "https://hooks.slack.example/services/T0/B0/secret"


@pytest.mark.parametrize(
    ("document", "loc"),
    [
        ({}, ("to", 0)),
        ({"mail": ["a@b.example"], "slack": SLACK}, ("to", 0)),
        ({"mail": ["no address"]}, ("to", 0, "mail", 0)),
        ({"mail": ["a@b.example", "x@y.example\r\nBcc: z@y.example"]}, ("to", 0, "mail", 1)),
        ({"mail": ["a" * 300 + "@b.example"]}, ("to", 0, "mail", 0)),
        ({"webhook": "ftp://x/"}, ("to", 0, "webhook")),
        ({"slack": "https://hooks.slack.example/…"}, ("to", 0, "slack")),
        ({"slack": SLACK, "secret": "s"}, ("to", 0, "secret")),
    ],
)
def test_a_bad_destination_is_named(document: dict[str, Any], loc: tuple[Any, ...]) -> None:
    with pytest.raises(NoticeError) as refused:
        parse_destinations([document])
    assert refused.value.loc == loc


def test_no_credential_is_shown() -> None:
    slack, webhook = parse_destinations(
        [{"slack": SLACK}, {"webhook": "https://x.example/hook?key=k1", "secret": "whsec_x"}]
    )
    (shown,) = slack.shown().values()
    assert re.fullmatch(r"https://hooks\.slack\.example/…[0-9a-f]{6}", shown)
    assert webhook.shown() == {"webhook": "https://x.example/hook?…", "has_secret": True}
    for text in (repr(slack), repr(webhook), str(webhook)):
        assert "secret" not in text.replace("has_secret", "")
        assert "k1" not in text


def test_a_destination_that_is_sent_back_as_it_was_shown_stays_as_it_is() -> None:
    old = parse_destinations(
        [
            {"slack": SLACK},
            {"slack": f"{SLACK}-2"},
            {"webhook": "https://x.example/hook?key=k1", "secret": "whsec_x"},
            {"mail": ["a@b.example"]},
        ]
    )
    assert parse_destinations([one.shown() for one in old], old) == old
    backwards = tuple(reversed(old))
    assert parse_destinations([one.shown() for one in backwards], old) == backwards
    alike = parse_destinations([{"webhook": f"https://x.example/hook?key=k{n}"} for n in range(2)])
    assert parse_destinations([one.shown() for one in alike], alike) == alike
    (changed,) = parse_destinations([{"webhook": "https://x.example/hook?…", "secret": "whsec_y"}], old)
    assert (changed.addresses, changed.secret) == (old[2].addresses, "whsec_y")
    (without,) = parse_destinations([{"webhook": "https://x.example/hook?…", "secret": ""}], old)
    assert without.secret == ""
    # A new address never inherits the secret of another one.
    (new,) = parse_destinations([{"webhook": "https://y.example/hook"}], old)
    assert new.secret == ""


def test_matchers_read_no_content() -> None:
    matcher = parse_notice_matcher({"field": "name", "op": "glob", "value": "order.*"}, When.JOB_FAILED)
    assert matcher is not None
    assert parse_notice_matcher(None, When.WORKER_LOST) is None
    for field, when in (("argument.user", When.JOB_FAILED), ("tags", When.BACKLOG_AGE)):
        with pytest.raises(NoticeError) as refused:
            parse_notice_matcher({"field": field, "op": "eq", "value": "x"}, when)
        assert refused.value.loc[0] == "matcher"
    with pytest.raises(NoticeError, match="cannot be narrowed"):
        parse_notice_matcher({"field": "name", "op": "eq", "value": "x"}, When.STORE_UNHEALTHY)


@pytest.mark.parametrize(
    ("when", "group_by"),
    [
        (When.BACKLOG_AGE, GroupBy.FAILURE_GROUP),
        (When.STORE_UNHEALTHY, GroupBy.NAME),
        (When.LEADER_CHANGED, GroupBy.NAME),
    ],
)
def test_a_condition_without_names_has_no_groups_of_them(when: When, group_by: GroupBy) -> None:
    notice = Notice("n", "1", when, (Destination(Channel.MAIL, ("a@b.example",)),), group_by=group_by)
    with pytest.raises(NoticeError):
        check_notice(notice)
