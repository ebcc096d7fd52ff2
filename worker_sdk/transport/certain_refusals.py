"""Refusals by which a master says that a request had no effect, so that the request can be repeated."""

from typing import Final

# Codes of answers with status 503 which prove that the request had no effect. After any other code, as without an
# answer, it may have had one.
_CODES: Final = frozenset(
    {
        "durability_unavailable", "namespace_closed", "namespace_faulted", "namespace_moving", "namespace_starting",
        "overloaded", "store_full", "store_unavailable", "store_unfit",
    }
)  # fmt: skip


def had_no_effect(status: int, code: str) -> bool:
    """Return whether an answer with this status and code says that the request had no effect."""
    return status == 429 or (status == 503 and code in _CODES)
