"""Whom limits count as one caller."""

import pytest

from jqmaster.domain.caller import TrustedProxies, caller_of


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
        # Addresses that the caller itself put in front are not believed.
        ("127.0.0.1", b"198.51.100.7, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", b"nonsense, 10.1.1.1", "10.1.1.1"),
        ("127.0.0.1", b"192.0.2.1, nonsense", "127.0.0.1"),
        ("127.0.0.1", b"10.1.1.1", "10.1.1.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        # Only a trusted proxy speaks for others.
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
