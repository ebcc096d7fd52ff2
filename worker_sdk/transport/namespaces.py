"""Addresses of masters, which may include a namespace."""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

# The namespace of a master's address that names no namespace.
DEFAULT: Final = "default"
_PREFIX: Final = "/ns/"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{1,38}")


def split_checked(address: str) -> SplitResult:
    """Return the parts of an address such as http://host:port. Raise ValueError if it is not such an address."""
    try:
        parts = urlsplit(address)
        # `port` and the encoding raise ValueError. Connecting uses the same encoding.
        _, name = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        name = b""
    # urlsplit ignores line breaks, so search the address itself.
    if not name or parts.scheme not in ("http", "https") or " " in address or not address.isprintable():
        raise ValueError(f"not the address of a master: {address!r} (like http://127.0.0.1:8080)")
    return parts


def check_name(namespace: str) -> None:
    """Raise ValueError if the name is not valid for a namespace."""
    if not _NAME.fullmatch(namespace):
        raise ValueError(
            f"namespace {namespace[:64]!r}: a name has 2 to 39 of the characters a-z 0-9 -, and begins with a letter"
        )


def in_namespace(address: str, namespace: str) -> str:
    """Return the address of a namespace at this master. An address that already names a namespace stays unchanged.
    Raise ValueError if the name is invalid."""
    check_name(namespace)
    if namespace == DEFAULT or namespace_of(address) is not None:
        return address
    return f"{address.rstrip('/')}{_PREFIX}{namespace}"


def namespace_of(address: str) -> str | None:
    """Return the namespace that an address names, or None if it names no namespace."""
    _, prefix, rest = urlsplit(address).path.partition(_PREFIX)
    return rest.partition("/")[0] or None if prefix else None


def moved_to(address: str, namespace: str) -> str:
    """Return the address with this namespace in place of the one that it names, if any. Raise ValueError if the name is
    invalid."""
    if (named := namespace_of(address)) is not None:
        address = address.rstrip("/").removesuffix(f"{_PREFIX}{named}")
    return in_namespace(address, namespace)


def check_one_namespace(address: str, namespace: str) -> None:
    """Raise ValueError if an address names a different namespace."""
    named = namespace_of(address)
    if named is not None and named != namespace:
        raise ValueError(f"{address} names the namespace {named}, and not {namespace}: give only one of them")
