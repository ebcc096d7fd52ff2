"""Addresses of masters that include a namespace."""

import re
from typing import Final
from urllib.parse import urlsplit

# The namespace of a master's address that names no namespace.
DEFAULT: Final = "default"
_PREFIX: Final = "/ns/"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{1,38}")


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
    """Return the address of a namespace at this master, whatever namespace the address names now. Raise ValueError if
    the name is invalid."""
    if (named := namespace_of(address)) is not None:
        address = address.rstrip("/").removesuffix(f"{_PREFIX}{named}")
    return in_namespace(address, namespace)


def check_one_namespace(address: str, namespace: str) -> None:
    """Raise ValueError if an address names a different namespace."""
    named = namespace_of(address)
    if named is not None and named != namespace:
        raise ValueError(f"{address} names the namespace {named}, and not {namespace}: give only one of them")
