"""Explains faults of the connection to the store: what happened, and the remedy."""

from typing import Final

from redis.exceptions import InvalidResponse
from redis.exceptions import TimeoutError as RedisTimeoutError

from jqmaster.store.link.refusals import advice_of
from worker_sdk.transport.call_faults import HUNG_UP, Remedies, remedy

_REMEDIES: Final = Remedies(
    "does the store run there, and is its address right?", "redis_cafile", "redis_certfile"
)
_MAX_CHARS: Final = 300


def explained(error: BaseException, *, is_tls: bool, has_answered: bool = False) -> str:
    """Return the text of an error of the connection, with the remedy. `has_answered`: the store has answered at this
    address before, so the scheme of the address is right."""
    text = " ".join(str(error).split())[:_MAX_CHARS].rstrip(".") or type(error).__name__
    advice = _advice(error, text, is_tls=is_tls, has_answered=has_answered)
    return f"{text}; {advice}" if advice else text


def _advice(error: BaseException, text: str, *, is_tls: bool, has_answered: bool) -> str:
    if advice := advice_of(error):
        return advice
    if isinstance(error, InvalidResponse) or text.startswith("Protocol error"):
        return "is it the address of a Redis or Valkey?"
    if "CERTIFICATE_REQUIRED" in text.upper():
        return "it requires a client certificate: set redis_certfile"
    cause = error
    # Find the OSError in the context of the error: redis-py raises its own error while it handles the OSError, and does
    # not set `__cause__`.
    while not isinstance(cause, OSError) and (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(error, RedisTimeoutError) or isinstance(cause, TimeoutError):
        if has_answered or not is_tls:
            return ""
        return "does this port speak TLS? If not, the address begins with redis://"
    if advice := remedy(cause, "rediss:" if is_tls else "redis:", _REMEDIES, has_answered=has_answered):
        if advice == HUNG_UP:
            return _MAY_BE_FULL
        return advice.replace("http://", "redis://") if is_tls or advice != "is it https?" else _MAY_BE_TLS
    if any(words in text.lower() for words in ("reset by peer", "closed by server", "connection was lost")):
        if has_answered:
            return _MAY_BE_FULL
        return _MAY_ASK if is_tls else _MAY_BE_TLS
    return ""


_MAY_ASK: Final = (
    "does it require a client certificate (redis_certfile)? does this port speak TLS at all? If not, its address begins"
    " with redis://"
)
_MAY_BE_TLS: Final = (
    "does this port speak TLS? If so, the address begins with rediss://. If not, it may take no more connections "
    "(maxclients)"
)
_MAY_BE_FULL: Final = "it answered before: it may have restarted, or take no more connections (maxclients)"
