"""Answers by which the store refuses a command."""

from redis.exceptions import (
    ResponseError,
)

from jqmaster.errors import (
    DamagedError,
    StoreUnavailableError,
)

RETRY_AFTER_S = 1.0
# Answers by which the store says that it did nothing and may do it later.
_REFUSALS = (
    "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED",
    "ASK", "NOAUTH", "NOPERM", "max number of clients",
)  # fmt: skip


def classified(error: ResponseError) -> Exception:
    """Return what an answer of the store means: refused for now, damaged, or a fault of the call."""
    # redis-py strips the error's first word into its classes and keeps it in the text of a plain ResponseError.
    text = str(error)
    name = type(error).__name__
    if text.startswith("OOM") or name == "OutOfMemoryError":
        return StoreUnavailableError(
            f"the store is full: {text[:200]}", code="store_full", retry_after_s=RETRY_AFTER_S
        )
    if _is_refusal(text) or name not in ("ResponseError", "NoScriptError"):
        return StoreUnavailableError(f"the store refuses: {text[:200]}", retry_after_s=RETRY_AFTER_S)
    if "WRONGTYPE" in text:
        return DamagedError("a key of the store is not of its type; `jqmaster fsck` tells which")
    return error


def _is_refusal(text: str) -> bool:
    return text.startswith(_REFUSALS)
