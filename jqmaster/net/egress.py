"""Guard the addresses that the master may call. One guard checks every URL that somebody registered.

A URL is parsed once and normalised, its name is resolved once, and the connection goes to exactly the address
that was checked. So a name that changes between check and call (DNS rebinding) has no effect."""

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeVar
from urllib.parse import urlsplit

from jqmaster.errors import AddressRefusedError
from jqmaster.net.resolver import Resolver

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Endpoint = tuple[str, int]
ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

MAX_URL_BYTES: Final = 2048
MAX_ADDRESSES: Final = 32
RESOLVE_TIMEOUT_S: Final = 5.0

# Ports that are never called. Their services interpret a line of an HTTP request as a command, or must not be
# reachable through a job queue.
FORBIDDEN_PORTS: Final = frozenset(
    {0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 79, 95, 109, 110, 111, 113, 119, 123, 135,
     137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530, 540, 548, 554, 556, 563, 587, 601, 636,
     873, 990, 993, 995, 1433, 1521, 2049, 2375, 2379, 2380, 3306, 3389, 5060, 5061, 5432, 5672, 5900, 5984, 6379,
     6380, 9042, 9092, 11211, 16379, 26379, 27017}
)  # fmt: skip

# Networks that are never called, even if the allow-list contains them. Python's `is_global` accepts several of
# these networks (multicast, 64:ff9b::/96, 2002::/16).
_NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200/32",
        "168.63.129.16/32", "::/128", "fe80::/10", "fec0::/10", "ff00::/8", "100::/64", "fd00:ec2::254/128",
    )
)  # fmt: skip
_NEVER_CALLED: Final = "masters never call this address, regardless of the allowed networks"
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_IPV4_COMPATIBLE: Final = ipaddress.ip_network("::/96")

_URL_CHARACTERS: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # printable ASCII without space and backslash
# A host in brackets with an optional port. The check is necessary because urlsplit ignores any other text after
# the bracket.
_BRACKETED: Final = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be called if its name resolves to allowed addresses. `url`: the normalised form to store."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def is_address(self) -> bool:
        """Return whether the host is an address and not a name."""
        return ":" in self.host or self.host.replace(".", "").isdigit()


@dataclass(frozen=True, slots=True)
class PinnedAddress:
    """The checked address of a target. Connect only to this address."""

    target: Target
    address: str

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET


class EgressGuard:
    """Decides whether an address may be called, by its network and by its host and port. All refusals raise
    AddressRefusedError."""

    def __init__(
        self,
        allowed_networks: Iterable[str],
        forbidden_addresses: Iterable[Endpoint] = (),
        *,
        allows_public: bool = False,
    ) -> None:
        """Allow and forbid these addresses.

        * `forbidden_addresses`: host (name or address) and port of the store and of this master.
        * `allows_public`: also allow the addresses of the public internet.

        A wildcard host (`0.0.0.0`, `::`) forbids the port on every address of this machine. Raise ValueError for a text
        that is not a network.
        """
        self._allowed: list[Network] = [ipaddress.ip_network(text) for text in allowed_networks]
        self._allows_public = allows_public
        self._resolver = Resolver()
        self._forbidden: list[Endpoint] = []
        self._forbidden_addresses: dict[str, set[Address]] = {}
        for host, port in forbidden_addresses:
            self.forbid(host, port)

    def forbid(self, host: str, port: int) -> None:
        """Forbid one more endpoint. A port that the system chooses for this master is known only after the master
        listens."""
        host = host.lower().strip("[]").removesuffix(".")
        self._forbidden.append((host, port))
        with contextlib.suppress(ValueError):
            self._forbidden_addresses[host] = {_effective(ipaddress.ip_address(host))}

    def parse(self, url: str) -> Target:
        """Return the target of a URL, normalised to a lower-case name and an explicit port. Resolve nothing."""
        if len(url) > MAX_URL_BYTES:
            raise AddressRefusedError(f"the URL is longer than {MAX_URL_BYTES} characters")
        if not _URL_CHARACTERS.fullmatch(url):
            raise AddressRefusedError("the URL has a character that must be percent-encoded")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise AddressRefusedError("the URL cannot be parsed") from None
        if parts.scheme not in ("http", "https"):
            raise AddressRefusedError("the URL must begin with http:// or https://")
        # Search the URL itself, because urlsplit drops an empty query or fragment.
        if "@" in parts.netloc or "?" in url or "#" in url:
            raise AddressRefusedError("the URL must have no user, query or fragment")
        if port is None:
            port = 443 if parts.scheme == "https" else 80
        if port in FORBIDDEN_PORTS:
            raise AddressRefusedError(f"port {port} is never called")
        host = self._parse_host(parts.netloc, parts.hostname or "")
        shown = f"[{host}]" if ":" in host else host
        path = parts.path.rstrip("/")
        if any(segment in (".", "..") for segment in path.lower().replace("%2e", ".").split("/")):
            raise AddressRefusedError("the path must have no dot segments")
        return Target(f"{parts.scheme}://{shown}:{port}{path}", parts.scheme, host, port)

    async def resolve(self, target: Target) -> PinnedAddress:
        """Return the address to connect to. All addresses of the name must be allowed."""
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                addresses = await self._lookup(target.host, target.port)
                await self._refresh_forbidden(target.port)
        except TimeoutError:
            raise AddressRefusedError(
                "the name was not resolved in time", code="address_unresolved"
            ) from None
        except (OSError, UnicodeError):
            raise AddressRefusedError("the name cannot be resolved", code="address_unresolved") from None
        if not addresses or len(addresses) > MAX_ADDRESSES:
            raise AddressRefusedError(f"the name must have 1 to {MAX_ADDRESSES} addresses")
        for address in addresses:
            self._check(address, target.port)
        return PinnedAddress(target, str(addresses[0]))

    async def connect(
        self,
        target: Target,
        protocol: Callable[[], ProtocolT],
        *,
        timeout_s: float,
        context: ssl.SSLContext | None = None,
    ) -> ProtocolT:
        """Open a new connection to `target`. Raises AddressRefusedError or OSError.

        The name is resolved and checked once for this connection. SNI has the name. `timeout_s`: limit for the
        TCP connection, without TLS."""
        pinned = await self.resolve(target)
        loop = asyncio.get_running_loop()
        opened = socket.socket(pinned.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            opened.setblocking(False)
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(opened, (pinned.address, target.port))
            _, made = await loop.create_connection(
                protocol, sock=opened, ssl=context, server_hostname=target.host if context else None
            )
        except BaseException:
            opened.close()
            raise
        return made

    async def _lookup(self, host: str, port: int) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        # An address keeps its scope (`%eth0`). Such an address is link-local, and `_check` refuses it.
        return [ipaddress.ip_address(found) for found in await self._resolver.addresses(host, port)]

    async def _refresh_forbidden(self, port: int) -> None:
        """Resolve the names among the forbidden endpoints again, because their addresses may change."""
        for host, forbidden_port in self._forbidden:
            if forbidden_port == port and not _is_wildcard(host):
                try:
                    found = {_effective(address) for address in await self._lookup(host, port)}
                except OSError:
                    continue  # keep forbidding the known addresses
                self._forbidden_addresses[host] = found

    def _check(self, address: Address, port: int) -> None:
        if isinstance(address, IPv6Address):
            if address.scope_id:
                raise AddressRefusedError("link-local addresses are never called")
            # Also check an embedded address, because packets go to this address.
            for inner in _embedded(address):
                self._check(inner, port)
        address = _effective(address)
        if any(address in network for network in _NEVER):
            raise AddressRefusedError(_NEVER_CALLED)
        is_public = self._allows_public and address.is_global
        if not is_public and not any(address in network for network in self._allowed):
            raise AddressRefusedError("the address is outside of the allowed networks")
        for host, forbidden_port in self._forbidden:
            if forbidden_port == port and (
                _is_own(address) if _is_wildcard(host) else address in self._forbidden_addresses.get(host, ())
            ):
                # Use the same text for all refused addresses, so that callers cannot find the address of the
                # store.
                raise AddressRefusedError(_NEVER_CALLED)

    @staticmethod
    def _parse_host(netloc: str, host: str) -> str:
        if netloc.startswith("["):
            try:
                if _BRACKETED.fullmatch(netloc):
                    return str(IPv6Address(host))
            except ValueError:
                pass
            raise AddressRefusedError("the host is not an IPv6 address")
        host = host.removesuffix(".")
        labels = host.split(".")
        if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
            raise AddressRefusedError("the host is neither a name nor an address")
        # Accept only the plain form of an address, because resolvers also interpret 127.1, 0x7f.1 and 2130706433
        # as addresses.
        if _NUMERIC_LABEL.fullmatch(labels[-1]):
            try:
                return str(IPv4Address(host))
            except ValueError:
                raise AddressRefusedError("an IPv4 address must have four decimal numbers") from None
        return host


class GuardedRoute:
    """Opens connections to the addresses that `guard` allows. `context`: the TLS context for calls by https."""

    def __init__(self, guard: EgressGuard, context: Callable[[], ssl.SSLContext]) -> None:
        self._guard = guard
        self._context = context

    async def connect(
        self, address: str, protocol: Callable[[], ProtocolT], *, timeout_s: float
    ) -> ProtocolT:
        """Open a connection to the URL `address`. Raises AddressRefusedError, OSError, TimeoutError."""
        target = self._guard.parse(address)
        context = self._context() if target.scheme == "https" else None
        return await self._guard.connect(target, protocol, timeout_s=timeout_s, context=context)


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address embeds (mapped, compatible, NAT64, 6to4, Teredo)."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in network for network in _NAT64):
        return [low]
    if address in _IPV4_COMPATIBLE and int(address) > 1:
        return [low]
    return []


def _is_wildcard(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


def _is_own(address: Address) -> bool:
    """Return whether the address belongs to this machine. Only in this case can a socket bind to the address."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _effective(address: Address) -> Address:
    """Return the address that the kernel uses. For a mapped address, this is the IPv4 address."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
