"""Find the address at which other masters reach this one, if it was not configured."""

from urllib.parse import urlsplit

from jqmaster.net.store_url import StoreUrl
from worker_sdk.transport.own_address import WILDCARDS, outgoing_address, url_of


def own_url(bound_url: str, store_url: str) -> str:
    """Return the URL at which other masters reach a server that is bound to `bound_url`. For a wildcard address, use
    the address from which this machine reaches the store.

    Look up the store's name, which may block. Raise OSError.
    """
    parts = urlsplit(bound_url)
    if (parts.hostname or "") not in WILDCARDS:
        return bound_url
    endpoints = StoreUrl.parse(store_url).endpoints
    # Without a store endpoint, the store is a unix socket, so all its masters are on this machine.
    host = outgoing_address(*endpoints[0]) if endpoints else "127.0.0.1"
    return url_of(parts.scheme, host, parts.port or 0)


def at_port(url: str, port: int) -> str:
    """Return the same address with another port."""
    parts = urlsplit(url)
    return url_of(parts.scheme, parts.hostname or "", port)
