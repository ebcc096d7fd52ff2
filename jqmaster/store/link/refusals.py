"""The errors of commands that the store refuses."""

from typing import Final

from redis.exceptions import (
    AuthenticationError,
    ResponseError,
)

from jqmaster.errors import (
    DamagedError,
    StoreRefusedError,
    StoreUnavailableError,
)

RETRY_AFTER_S = 1.0
# By class of redis-py: the first word of the error, which redis-py removes from the text.
_WORDS: Final = {
    "AskError": "ASK", "BusyLoadingError": "LOADING", "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN", "MovedError": "MOVED", "NoPermissionError": "NOPERM", "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}  # fmt: skip
_IS_REPLICA: Final = (
    "it is a replica: name the primary in redis_url, or the Sentinels (redis+sentinel://host,host/service)"
)
_IS_CLUSTER: Final = "it is a node of a Cluster: redis_url must begin with redis+cluster://"
# By first word of an error: the remedy that people are told.
_ADVICE: Final = {
    "ASK": _IS_CLUSTER,
    "BUSY": "a script of another program runs there for too long",
    "CLUSTERDOWN": "a node of the Cluster is away, or its slots have no node: see CLUSTER INFO",
    "LOADING": "try again when it has loaded its data",
    "MASTERDOWN": _IS_REPLICA,
    "MISCONF": "it cannot write its files: see its log",
    "MOVED": _IS_CLUSTER,
    "NOPERM": "permit it to the user in redis_url: `jqmaster doctor` names each missing permission",
    "NOREPLICAS": "too few of its replicas are in sync (min-replicas-to-write)",
    "READONLY": _IS_REPLICA,
    "max number of clients": "raise its maxclients",
}
# After these errors, the store has not executed the command, and a repeat may succeed.
_REFUSALS = (
    "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED",
    "ASK", "NOAUTH", "NOPERM", "max number of clients",
)  # fmt: skip
# With these errors, the store refuses only some commands, such as all writes, and still serves others.
_OF_COMMAND: Final = ("READONLY", "MISCONF", "NOREPLICAS", "NOPERM")


def classified(error: ResponseError) -> Exception:
    """Convert an error of the store to an exception for callers: refused for now, damaged, or a fault of the call."""
    # Restore the first word of the error: if redis-py knows it, it raises the matching class and removes the word.
    # Otherwise the text of the ResponseError still begins with it.
    text = str(error)
    name = type(error).__name__
    if text.startswith("OOM") or name == "OutOfMemoryError":
        return StoreRefusedError(
            f"the store is full: {text[:200]}", code="store_full", retry_after_s=RETRY_AFTER_S
        )
    if _is_refusal(text) or name not in ("ResponseError", "NoScriptError"):
        refused = StoreRefusedError if _whole_text(error).startswith(_OF_COMMAND) else StoreUnavailableError
        return refused(f"the store refuses: {told(error)}", retry_after_s=RETRY_AFTER_S)
    if "WRONGTYPE" in text:
        return DamagedError("a key in the store has the wrong type; `jqmaster fsck` names it")
    return error


def told(error: BaseException) -> str:
    """Return the error as the store sent it, with the remedy."""
    text, advice = _whole_text(error)[:200].rstrip("."), advice_of(error)
    return f"{text}; {advice}" if advice else text


def advice_of(error: BaseException) -> str:
    """Return the remedy for a refusal; an empty text if none is known."""
    text = _whole_text(error)
    if isinstance(error, AuthenticationError) or text.startswith("NOAUTH"):
        return _of_login(text)
    return next((advice for words, advice in _ADVICE.items() if text.startswith(words)), "")


def _whole_text(error: BaseException) -> str:
    word, text = _WORDS.get(type(error).__name__, ""), str(error)
    return text if text.startswith(word) else f"{word} {text}"


def _of_login(text: str) -> str:
    if "without any password" in text or "no password is set" in text:
        return "it asks for no password: leave user and password out of redis_url"
    if "invalid username-password" in text or "WRONGPASS" in text:
        return "user or password is wrong, or the user is off: set user and password in redis_url"
    return "set user and password in redis_url: redis://user:password@host:port"


def _is_refusal(text: str) -> bool:
    return text.startswith(_REFUSALS)
