"""Access to the store: address, credentials, TLS, and the locator of the primary."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio as redis_asyncio
from redis.asyncio.connection import BlockingConnectionPool, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from jqmaster.config import Settings
from jqmaster.errors import ForbiddenError, OutcomeUnknownError, StoreUnavailableError, StoreUnfitError
from jqmaster.net.store_url import Endpoint, StoreUrl, without_secrets
from jqmaster.store.link.cluster import ClusterLocator
from jqmaster.store.link.connection import TcpConnection, TlsConnection, options_of
from jqmaster.store.link.locator import ASK_S, LocatedConnection, LocatedTlsConnection, Locator
from jqmaster.store.link.sentinel import SentinelLocator


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Options of the connection to the store, besides its address. `ca_file` None: trust the system's authorities."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "StoreAccess":
        def text(file: Path | None) -> str | None:
            return None if file is None else str(file)

        password = settings.sentinel_password
        return cls(
            ca_file=text(settings.redis_cafile),
            cert_file=text(settings.redis_certfile),
            key_file=text(settings.redis_keyfile),
            sentinel_username=settings.sentinel_username,
            sentinel_password=password.get_secret_value() if password else None,
        )


@contextlib.contextmanager
def naming_the_store(url: str) -> Iterator[None]:
    """Add the address of the store to each of its errors, for callers that use several stores."""
    try:
        yield
    except (StoreUnavailableError, OutcomeUnknownError, StoreUnfitError, ForbiddenError) as error:
        place = without_secrets(url)
        if place not in error.detail:
            error.detail = f"{place}: {error.detail}"
        raise


def pool_of(
    url: str, access: StoreAccess, *, timeout_s: float, connections: int
) -> tuple[BlockingConnectionPool, Locator | None]:
    """Return a pool of connections to the store, and the locator of its primary (None: the primary never moves). Raise
    ValueError for a malformed URL.
    """
    parsed = StoreUrl.parse(url)
    pool_options: dict[str, Any] = {"max_connections": connections, "timeout": timeout_s}
    locator = _locator(parsed, access)
    if locator is None:
        options = {**_tls_options(parsed, access), **_connection_options(timeout_s, timeout_s)}
        return BlockingConnectionPool(**{**options, **pool_options, **options_of(url)}), None
    options = {
        **_credentials(parsed.username, parsed.password),
        **_tls_options(parsed, access),
        # Connect with a short timeout, because a primary that is gone for good must not delay callers that wait for the
        # next one.
        **_connection_options(timeout_s, min(timeout_s, ASK_S)),
    }
    pool = BlockingConnectionPool(
        connection_class=LocatedTlsConnection if parsed.is_tls else LocatedConnection,
        locator=locator,
        db=parsed.db,
        **options,
        **pool_options,
    )
    return pool, locator


def _locator(url: StoreUrl, access: StoreAccess) -> Locator | None:
    match url.topology:
        case "sentinel":
            return SentinelLocator(
                url, _connecting(url, access, access.sentinel_username, access.sentinel_password)
            )
        case "cluster":
            return ClusterLocator(url, _connecting(url, access, url.username, url.password))
        case _:
            return None


def _connecting(
    url: StoreUrl, access: StoreAccess, username: str | None, password: str | None
) -> Callable[[Endpoint], redis_asyncio.Redis]:
    """Return a function that creates a client to ask one server for the primary."""
    options = {
        "connection_class": TlsConnection if url.is_tls else TcpConnection,
        **_credentials(username, password),
        **_tls_options(url, access),
        **_connection_options(ASK_S, ASK_S),
    }

    def connect(endpoint: Endpoint) -> redis_asyncio.Redis:
        host, port = endpoint
        return redis_asyncio.Redis.from_pool(ConnectionPool(host=host, port=port, **options))

    return connect


def _connection_options(timeout_s: float, connect_timeout_s: float) -> dict[str, Any]:
    # Without `driver_info`, no connection sends CLIENT SETINFO. The store's user then needs no right for this command,
    # and ACL LOG is not full of refusals of it.
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }


def _credentials(username: str | None, password: str | None) -> dict[str, Any]:
    return {name: text for name, text in (("username", username), ("password", password)) if text}


def _tls_options(url: StoreUrl, access: StoreAccess) -> dict[str, Any]:
    if not url.is_tls:
        return {}
    files = {"ssl_ca_certs": access.ca_file, "ssl_certfile": access.cert_file, "ssl_keyfile": access.key_file}
    return {name: path for name, path in files.items() if path}
