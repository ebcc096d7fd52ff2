"""The address of the store: one server, a primary that Sentinels name, or a Cluster.

    redis://[user:password@]host[:port][/db]      rediss:// with TLS, unix:///path for a socket
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]
    redis+cluster://[user:password@]host[:port],host[:port]

`rediss+sentinel` and `rediss+cluster` speak TLS.
"""

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

Topology = Literal["single", "sentinel", "cluster"]
Endpoint = tuple[str, int]

_TOPOLOGIES: Final[dict[str, Topology]] = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
_DEFAULT_PORTS: Final[dict[Topology, int]] = {"single": 6379, "sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A parsed address.

    `endpoints`: the server, the Sentinels, or the Cluster nodes to contact first. Empty for a unix socket. User,
    password and `db` are for the servers that hold the data. For `single`, the client library reads these values
    itself."""

    topology: Topology
    is_tls: bool
    endpoints: tuple[Endpoint, ...]
    username: str | None = None
    password: str | None = None
    service: str = ""
    db: int = 0

    @classmethod
    def parse(cls, url: str) -> "StoreUrl":
        """Parse the URL. Raises a ValueError with a text that repeats no part of the URL, because any part of a
        faulty URL may contain a password."""
        scheme, _, rest = url.partition("://")
        topology = _TOPOLOGIES.get(scheme.lower())
        if topology is None:
            raise ValueError(
                f"the address must begin with one of {', '.join(f'{s}://' for s in _TOPOLOGIES)}"
            )
        is_tls = scheme.lower().startswith("rediss")
        if topology == "single":
            try:
                parts = urlsplit(url)
            except ValueError:  # hide the original error, which may show a part of the URL
                raise ValueError("the address cannot be parsed") from None
            return cls(topology, is_tls, () if parts.scheme == "unix" else (_only_endpoint(parts),))
        # Do not use urlsplit: newer Python versions refuse a bracketed host next to other hosts.
        if "?" in rest or "#" in rest:
            raise ValueError(f"{scheme}:// takes no ?options and no #fragment")
        authority, _, behind = rest.partition("/")
        credentials, _, hosts = authority.rpartition("@")
        username, _, password = credentials.partition(":")
        endpoints = tuple(
            _endpoint(text, number, _DEFAULT_PORTS[topology])
            for number, text in enumerate(hosts.split(","), 1)
        )
        path = [unquote(part) for part in behind.strip("/").split("/")]
        if topology == "cluster":
            if path != [""]:
                raise ValueError("a Cluster has no databases: nothing may follow its hosts")
            service, db = "", 0
        else:
            service, db = _service_and_db(path)
        return cls(
            topology, is_tls, endpoints, unquote(username) or None, unquote(password) or None, service, db
        )


def without_secrets(url: str) -> str:
    """Return the address of the store for people: without user, password and database. Raise ValueError, like
    `StoreUrl.parse`."""
    parsed, scheme = StoreUrl.parse(url), url.partition("://")[0].lower()
    if not parsed.endpoints:
        return f"{scheme}://{urlsplit(url).path}"
    hosts = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in parsed.endpoints
    )
    return f"{scheme}://{hosts}{parsed.service and '/' + parsed.service}"


def _only_endpoint(parts: SplitResult) -> Endpoint:
    if "," in parts.netloc.rpartition("@")[2]:
        raise ValueError("several hosts need redis+sentinel:// or redis+cluster://")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the port must be a number from 1 to 65535") from None
    # For redis-py, too, an empty host means the local machine.
    return host or "localhost", port or _DEFAULT_PORTS["single"]


def _endpoint(text: str, number: int, default_port: int) -> Endpoint:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0 or text.endswith(":"):
        raise ValueError(f"host {number} must be host or host:port, with a port from 1 to 65535")
    return host, port or default_port


def _service_and_db(path: list[str]) -> tuple[str, int]:
    service, *rest = path
    if not service:
        raise ValueError("the name of the service that the Sentinels watch is missing: …/service")
    if len(rest) > 1 or not all(part.isascii() and part.isdigit() for part in rest):
        raise ValueError("only the number of a database may follow the name of the service: …/service/0")
    return service, int(rest[0]) if rest else 0
