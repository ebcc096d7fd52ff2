"""The rules for targets, and the address of each job."""

from dataclasses import replace

import pytest

from jqmaster.domain.targets.target import (
    HIDDEN,
    ROTATION_MS,
    AddressError,
    HttpTarget,
    SigningSecret,
    TargetError,
    address_of,
    check_target,
    is_host_allowed,
    kept_headers,
    kept_url,
    shown_address,
)
from tests.support.each import for_each

pytestmark = pytest.mark.req("M13")

SHOP = HttpTarget("shop", ("shop.*", "mail.send"), url="https://shop.example/jobs/{name}?job={job_id}")
OWN = HttpTarget("own", ("hook",), url_from="argument.to[0].url", allow_hosts=("*.shop.example", "[::1]"))


def test_valid_targets_are_accepted() -> None:
    for target in (
        SHOP,
        OWN,
        replace(SHOP, allow_hosts=("shop.example",)),
        replace(SHOP, names=("a[b-c]*", "x?")),
    ):
        check_target(target)


@for_each(
    "fields, loc, rule",
    [
        ({"names": ("jq.mail",)}, ("names", 0), "belong to the masters"),
        ({"names": ("a b",)}, ("names", 0), "characters"),
        ({"names": ("a]",)}, ("names", 0), "outside of a set"),
        ({"names": ("*" + "[ab]" * 40 + "*",)}, ("names", 0), "between two"),
        ({"names": ("a", "a")}, ("names",), "twice"),
        ({"url": "ftp://shop.example"}, ("url",), "http"),
        ({"url": "https://{name}.example/"}, ("url",), "in the host"),
        ({"url": "https://shop.example/{argument}"}, ("url",), "only placeholders"),
        ({"url": "https://shop.example/}"}, ("url",), "only placeholders"),
        ({"allow_hosts": ("other.example",)}, ("allow_hosts",), "include the host"),
        ({"allow_hosts": ("*.*",)}, ("allow_hosts", 0), "must be a host"),
        ({"url_from": "argument.url"}, ("allow_hosts",), "at least one"),
        ({"url_from": "headers.url", "allow_hosts": ("a.example",)}, ("url", "from"), "begin with argument"),
        ({"url_from": "argument..", "allow_hosts": ("a.example",)}, ("url", "from"), "not a path"),
        ({"headers": {"Host": "x"}}, ("headers", "Host"), "writes itself"),
        ({"headers": {"JQ-Fence": "1"}}, ("headers", "JQ-Fence"), "writes itself"),
        ({"headers": {"a b": "x"}}, ("headers", "a b"), "name of an HTTP header"),
        ({"headers": {"X-A": "a\r\nb"}}, ("headers", "X-A"), "printable"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, ("headers",), "twice"),
        ({"ok": (199,)}, ("ok", 0), "200 to 599"),
        ({"final": ("1xx",)}, ("final", 0), "must be a status"),
        ({"ok": ("2xx", 404)}, ("final",), "404"),
        ({"max_running": 2, "max_running_per_host": 3}, ("max_running_per_host",), "at most max_running"),
        ({"timeout_s": float("inf")}, ("timeout",), "seconds"),
    ],
)
def test_a_refusal_names_the_part_and_the_rule(
    fields: dict[str, object], loc: tuple[object, ...], rule: str
) -> None:
    with pytest.raises(TargetError) as refused:
        check_target(replace(SHOP, **fields))  # type: ignore[arg-type]
    assert refused.value.loc == loc
    assert rule in refused.value.msg


def test_the_name_in_an_address_is_encoded() -> None:
    assert address_of(SHOP, "shop/a:b", "J", None) == "https://shop.example/jobs/shop%2Fa%3Ab?job=J"


@for_each(
    "argument, fault",
    [
        ({"to": [{"url": "https://evil.example/"}]}, "allow_hosts"),
        ({"to": [{"url": "https://shop.example/"}]}, "allow_hosts"),
        ({"to": [{"url": "file:///etc/passwd"}]}, "http"),
        ({"to": [{"url": 7}]}, "has no URL"),
        ({"to": []}, "has no URL"),
        ({"to": {"0": 1}}, "has no URL"),
        ("text", "has no URL"),
    ],
)
def test_a_job_may_not_choose_any_address(argument: object, fault: str) -> None:
    with pytest.raises(AddressError, match=fault):
        address_of(OWN, "hook", "J", argument)


def test_a_job_chooses_an_address_of_an_allowed_host() -> None:
    for url in ("https://a.shop.example/x", "http://A.B.SHOP.example.:8080/", "http://[::1]:1/"):
        assert address_of(OWN, "hook", "J", {"to": [{"url": url}]}) == url


def test_hosts_below_a_name_do_not_include_the_name() -> None:
    assert is_host_allowed("a.x.example", ["*.x.example"])
    assert not is_host_allowed("x.example", ["*.x.example"])
    assert not is_host_allowed("ax.example", ["*.x.example"])


def test_a_star_stands_for_all_hosts() -> None:
    assert is_host_allowed("x.example", ["*"])
    check_target(replace(OWN, allow_hosts=("*",)))


def test_429_and_503_are_final_only_if_they_are_listed() -> None:
    target = replace(SHOP, final=("4xx", "5xx"))
    assert target.is_final(404)
    assert not target.is_final(429)
    assert not target.is_final(503)
    assert replace(SHOP, final=(503,)).is_final(503)
    assert SHOP.is_ok(204)
    assert not SHOP.is_ok(302)


def test_a_hidden_header_value_stays() -> None:
    old = replace(SHOP, headers={"Authorization": "s"})
    kept = kept_headers({"authorization": HIDDEN, "X": "1"}, old, replace(SHOP, max_running=1))
    assert kept == {"authorization": "s", "X": "1"}
    for before in (None, old):
        with pytest.raises(TargetError, match="not known"):
            kept_headers({"X": HIDDEN}, before, SHOP)


@for_each(
    "old, new",
    [
        (SHOP, replace(SHOP, url="https://other.example/jobs/{name}?job={job_id}")),
        (SHOP, replace(SHOP, url="https://shop.example/other")),
        (SHOP, replace(OWN, name="shop")),
        (OWN, replace(OWN, allow_hosts=(*OWN.allow_hosts, "other.example"))),
        (OWN, replace(OWN, url_from="argument.url")),
        (OWN, replace(SHOP, name="own")),
    ],
)
def test_a_hidden_header_value_does_not_follow_a_changed_address(old: HttpTarget, new: HttpTarget) -> None:
    old = replace(old, headers={"Authorization": "s"})
    with pytest.raises(TargetError, match="are not kept for a changed address"):
        kept_headers({"Authorization": HIDDEN}, old, new)
    assert kept_headers({"Authorization": "t"}, old, new) == {"Authorization": "t"}


def test_a_hidden_header_value_stays_if_fewer_hosts_are_allowed() -> None:
    old = replace(OWN, headers={"Authorization": "s"})
    new = replace(OWN, allow_hosts=OWN.allow_hosts[:1])
    assert kept_headers({"Authorization": HIDDEN}, old, new) == {"Authorization": "s"}


@for_each(
    "url, shown",
    [
        ("https://a.example/{name}", "https://a.example/{name}"),
        ("https://a.example/x?", "https://a.example/x?"),
        ("https://a.example/x?code=s3cret&job={job_id}", f"https://a.example/x?code={HIDDEN}&job={{job_id}}"),
        ("https://a.example/x?s3cret", f"https://a.example/x?{HIDDEN}"),
        ("https://a.example/x?a=x{name}&{name}&b=", f"https://a.example/x?a={HIDDEN}&{{name}}&b="),
    ],
)
def test_values_in_the_query_of_a_url_are_hidden_and_stay(url: str, shown: str) -> None:
    target = replace(SHOP, url=url)
    assert shown_address(url) == shown
    assert target.shown()["url"] == shown
    assert kept_url(shown, target) == url
    assert kept_url("https://b.example/", target) == "https://b.example/"


def test_a_hidden_value_of_another_url_is_not_known() -> None:
    target = replace(SHOP, url="https://a.example/x?code=s3cret")
    for old in (None, OWN, target):
        with pytest.raises(TargetError, match="not known for this URL"):
            kept_url(f"https://b.example/x?code={HIDDEN}", old)


def test_the_former_secret_signs_for_a_day() -> None:
    first = SigningSecret().replaced("a", 0)
    assert first == SigningSecret("a")
    assert first.replaced("a", 5) is first
    both = first.replaced("b", 1000)
    assert both.at(1000) == ["b", "a"]
    assert both.at(1000 + ROTATION_MS) == ["b"]
    assert both.replaced("", 2000).at(2000) == []


def test_the_shown_target_has_no_credential() -> None:
    target = replace(SHOP, headers={"Authorization": "Bearer secret"}, secret=SigningSecret("whsec_secret"))
    assert "secret" not in str({k: v for k, v in target.shown().items() if k != "has_secret"})
    assert "Bearer" not in repr(target)
    assert "whsec" not in repr(target)
    assert OWN.shown()["url"] == {"from": "argument.to[0].url"}
    assert SHOP.has_patterns
    assert not OWN.has_patterns
    assert not replace(SHOP, method="GET").has_body
