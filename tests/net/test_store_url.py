"""Addresses of stores: which are understood, and which are refused and why."""

import pytest
from pydantic import ValidationError

from jqmaster.config import Settings
from jqmaster.net.store_url import StoreUrl, without_secrets


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", StoreUrl("single", False, (("localhost", 6379),))),
        ("redis://:secret@10.0.0.9/2", StoreUrl("single", False, (("10.0.0.9", 6379),))),
        ("rediss://db.example:6380", StoreUrl("single", True, (("db.example", 6380),))),
        ("unix:///run/valkey/s?db=1", StoreUrl("single", False, ())),
        (
            "redis+sentinel://me:p%40ss@a:1,b,[::1]:3/jobs/4",
            StoreUrl("sentinel", False, (("a", 1), ("b", 26379), ("::1", 3)), "me", "p@ss", "jobs", 4),
        ),
        (
            "rediss+sentinel://:p:q@a/my%20jobs",
            StoreUrl("sentinel", True, (("a", 26379),), None, "p:q", "my jobs"),
        ),
        (
            "redis+cluster://a:1,b:2/",
            StoreUrl("cluster", False, (("a", 1), ("b", 2))),
        ),
        ("rediss+cluster://u:p@a", StoreUrl("cluster", True, (("a", 6379),), "u", "p")),
    ],
)
@pytest.mark.req("D20")
def test_an_address_is_understood(url: str, expected: StoreUrl) -> None:
    assert StoreUrl.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "must begin with one of redis://"),
        ("localhost:6379", "must begin with"),
        ("http://secret@a", "must begin with"),
        ("redis://:secret@a:x", "the port must be a number"),
        ("redis://:secret@a:99999", "the port must be a number"),
        ("redis://:secret@a:1,b:2", "several hosts need redis+sentinel:// or redis+cluster://"),
        ("redis+sentinel://:secret@a", "name of the service"),
        ("redis+sentinel://:secret@a/", "name of the service"),
        ("redis+sentinel://:secret@a/jobs/x", "number of a database"),
        ("redis+sentinel://:secret@a/jobs/0/1", "number of a database"),
        ("redis+sentinel://:secret@a,/jobs", "host 2 must be"),
        ("redis+sentinel://:secret@/jobs", "host 1 must be"),
        ("redis+sentinel://:secret@a:1,b:0/jobs", "host 2 must be"),
        ("redis+sentinel://:secret@a:/jobs", "host 1 must be"),
        ("redis+sentinel://:sec/ret@a:1/jobs", "host 1 must be"),
        ("redis+sentinel://:secret@[::1/jobs", "host 1 must be"),
        ("redis://:secret@[::1/0", "cannot be parsed"),
        ("redis+sentinel://:secret@a/jobs?x=1", "takes no ?options"),
        ("redis+cluster://:secret@a/1", "no databases"),
    ],
)
@pytest.mark.req("D20")
def test_a_faulty_address_is_refused_by_the_name_of_its_field_and_without_its_secrets(
    url: str, reason: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(redis_url=url)
    (error,) = refused.value.errors(include_input=False)
    assert error["loc"] == ("redis_url",)
    assert reason in error["msg"]
    assert "sec" not in error["msg"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"redis_cafile": "ca.pem"}, "require a redis_url that begins with rediss"),
        ({"redis_cafile": "ca.pem", "redis_url": "redis://a"}, "require a redis_url that begins with rediss"),
        ({"redis_certfile": "c.pem", "redis_url": "rediss://a"}, "redis_certfile and redis_keyfile"),
        (
            {"sentinel_password": "x", "redis_url": "redis+cluster://a"},
            r"require a redis\+sentinel redis_url",
        ),
        ({"sentinel_username": "x"}, r"require a redis\+sentinel redis_url"),
    ],
)
def test_settings_that_do_not_fit_the_address_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Settings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host/3", "redis://host:6379"),
        ("REDISS://:secret@[::1]:7000", "rediss://[::1]:7000"),
        ("redis://host?password=secret", "redis://host:6379"),
        ("unix:///run/valkey.sock?password=secret", "unix:///run/valkey.sock"),
        ("redis+sentinel://user:secret@a,b:7/service/2", "redis+sentinel://a:26379,b:7/service"),
        ("redis+cluster://:secret@a:1,b:2", "redis+cluster://a:1,b:2"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
