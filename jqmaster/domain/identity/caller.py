"""The address under which the limits per caller count a request."""

import functools
import ipaddress
from collections.abc import Iterable
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# The length of the prefix by which IPv6 callers are distinguished. A host with one IPv6 address usually has its whole
# subnet.
_IPV6_SUBNET_BITS: Final = 64


@functools.lru_cache(maxsize=4096)
def caller_of(address: str) -> str:
    """Return the caller behind an address: the address itself, or the /64 network of an IPv6 address. "" stands for a
    Unix socket."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_SUBNET_BITS), strict=False))


class Networks:
    """A set of addresses, given as networks."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Parse the networks. Raise ValueError for a text that is not a network."""
        self._networks: list[Network] = [ipaddress.ip_network(text) for text in networks]

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        effective = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(effective in network for network in self._networks)


class TrustedProxies(Networks):
    """The proxies that are trusted to say where a request came from."""

    def have_forwarded(self, peer: str, forwarded_for: bytes | None, between: "TrustedProxies") -> bool:
        """Return whether a request came through one of these proxies, and from there only through proxies in `between`.
        The other arguments are those of `origin`."""
        hop: str | None = peer
        rest = [] if forwarded_for is None else forwarded_for.decode("latin-1").split(",")
        while hop is not None and hop not in self:
            if hop not in between or not rest:
                return False
            hop = _address_in(rest.pop().strip())
        return hop is not None

    def origin(self, peer: str, forwarded_for: bytes | None) -> str:
        """Return the address that a request came from, given its peer and its `X-Forwarded-For`.

        Each proxy appends the peer that it saw. So the field is read from its end, up to the first address that is not
        a trusted proxy. The caller may have made up anything before that.
        """
        if forwarded_for is None or peer not in self:
            return peer
        for part in reversed(forwarded_for.decode("latin-1").split(",")):
            hop = _address_in(part.strip())
            if hop is None:
                return peer
            if hop not in self:
                return hop
            peer = hop
        return peer


def _address_in(text: str) -> str | None:
    """Return the address of one hop, without the port that some proxies append."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
