"""Which requests the limits count as one caller."""

import pytest

from jqmaster.domain.identity.caller import TrustedProxies, caller_of


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_an_ipv6_subnet_is_one_caller(address: str, caller: str) -> None:
    assert caller_of(address) == caller


PROXIES = TrustedProxies(["127.0.0.1", "10.0.0.0/8"])


@pytest.mark.parametrize(
    ("peer", "field", "origin"),
    [
        ("127.0.0.1", b"192.0.2.1", "192.0.2.1"),
        ("::ffff:127.0.0.1", b"192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", b"192.0.2.1, 10.1.1.1", "192.0.2.1"),
        ("127.0.0.1", b"192.0.2.1:4711", "192.0.2.1"),
        ("127.0.0.1", b"[2001:db8::1]:4711", "2001:db8::1"),
        # Addresses that the caller put in front are ignored.
        ("127.0.0.1", b"198.51.100.7, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", b"nonsense, 10.1.1.1", "10.1.1.1"),
        ("127.0.0.1", b"192.0.2.1, nonsense", "127.0.0.1"),
        ("127.0.0.1", b"10.1.1.1", "10.1.1.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        # Only a trusted proxy may speak for others.
        ("192.0.2.9", b"192.0.2.1", "192.0.2.9"),
    ],
)
def test_only_trusted_proxies_say_where_a_request_came_from(
    peer: str, field: bytes | None, origin: str
) -> None:
    assert PROXIES.origin(peer, field) == origin


def test_a_peer_without_an_address_is_no_trusted_proxy() -> None:
    assert "" not in PROXIES
    assert "worker.example" not in PROXIES
    assert PROXIES.origin("", b"192.0.2.1") == ""


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert TrustedProxies().origin("127.0.0.1", b"192.0.2.1") == "127.0.0.1"
    with pytest.raises(ValueError, match="nonsense"):
        TrustedProxies(["nonsense"])


LOGIN = TrustedProxies(["10.9.0.1/32"])
BETWEEN = TrustedProxies(["10.8.0.0/16"])


@pytest.mark.req("D26")
@pytest.mark.parametrize(
    ("peer", "field", "have_forwarded"),
    [
        ("10.9.0.1", None, True),
        ("::ffff:10.9.0.1", None, True),
        ("10.9.0.1", b"192.0.2.1", True),
        # The request came through other known proxies, and through nobody else.
        ("10.8.0.1", b"192.0.2.1, 10.9.0.1", True),
        ("10.8.0.1", b"192.0.2.1, 10.9.0.1:4711, 10.8.0.2", True),
        ("10.8.0.1", b"10.9.0.1, 192.0.2.1", False),
        ("10.8.0.1", b"10.9.0.1, nonsense", False),
        ("10.8.0.1", b"10.8.0.2", False),
        ("10.8.0.1", b"", False),
        ("10.8.0.1", None, False),
        ("192.0.2.1", b"10.9.0.1", False),
        ("192.0.2.1", None, False),
        ("", b"10.9.0.1", False),
    ],
)
def test_a_request_came_through_a_proxy_if_nobody_unknown_came_after_it(
    peer: str, field: bytes | None, have_forwarded: bool
) -> None:
    assert LOGIN.have_forwarded(peer, field, BETWEEN) is have_forwarded


def test_proxies_that_are_not_named_were_not_passed() -> None:
    assert not TrustedProxies().have_forwarded("127.0.0.1", None, TrustedProxies())
