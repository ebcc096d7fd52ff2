"""Addresses of namespaces."""

import re
from typing import Final

# The namespace of addresses that name none.
DEFAULT: Final = "default"
_PREFIX: Final = "/ns/"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{1,38}")


def in_namespace(address: str, namespace: str) -> str:
    """Return the address of a namespace at this master. An address that names a namespace itself stays as it is. Raise
    ValueError if none can have this name."""
    if not _NAME.fullmatch(namespace):
        raise ValueError(
            f"namespace {namespace[:64]!r}: a name has 2 to 39 of the characters a-z 0-9 -, and begins with a letter"
        )
    if namespace == DEFAULT or _PREFIX in address:
        return address
    return f"{address.rstrip('/')}{_PREFIX}{namespace}"
