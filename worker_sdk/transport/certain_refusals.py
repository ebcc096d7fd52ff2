"""Refusals that say that a request had no effect. Such a request can be repeated."""

from worker_sdk.protocol import NO_EFFECT_CODES


def had_no_effect(status: int, code: str) -> bool:
    """Return whether an answer with this status and code says that the request had no effect. Every 429 says this."""
    return status == 429 or (status == 503 and code in NO_EFFECT_CODES)
