"""Uniqueness: at most one job holds a key at a time. A debounce is a form of uniqueness."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, Self

from jqmaster.domain.jobs.job_terms import DAY_S, Term
from jqmaster.domain.matching.key_value import canonical

MAX_UNIQUE_KEY_BYTES: Final = 200
TTL_S: Final = Term(0.0, 0.001, 365 * DAY_S)
WAIT_S: Final = Term(0.0, 0.001, 30 * DAY_S)
MAX_WAIT_S: Final = Term(0.0, 0.001, 365 * DAY_S)
_DIGEST_BYTES: Final = 16


class UniqueScope(StrEnum):
    """How long a job holds its key: until its first start, until its end, or at least for a time after its push."""

    UNTIL_START = "until_start"
    UNTIL_FINISHED = "until_finished"
    WINDOW = "window"

    # Use the hash of `str`. The hash of Enum is written in Python, and each push with a key computes it.
    __hash__ = str.__hash__


class OnConflict(StrEnum):
    """The treatment of a push if another job holds its key."""

    REJECT = "reject"
    EXISTING = "existing"
    REPLACE = "replace"

    __hash__ = str.__hash__


# Not frozen, like JobSpec: creating a frozen dataclass takes several times as long.
@dataclass(slots=True)
class Unique:
    """The uniqueness of a job.

    * `key`: None stands for name and argument. The store compares the `digest`.
    * `ttl_ms`: only with the scope `window`.
    * `wait_ms`: only for a debounce.
    * `max_ms`: how long further pushes may delay a debounce. 0: there is no bound.
    """

    digest: str
    key: str | None = None
    scope: UniqueScope = UniqueScope.UNTIL_FINISHED
    on_conflict: OnConflict = OnConflict.REJECT
    ttl_ms: int = 0
    wait_ms: int = 0
    max_ms: int = 0

    @classmethod
    def debounce(cls, digest: str, key: str | None, *, wait_ms: int, max_ms: int) -> Self:
        return cls(digest, key, UniqueScope.UNTIL_START, OnConflict.REPLACE, wait_ms=wait_ms, max_ms=max_ms)

    @property
    def is_debounce(self) -> bool:
        return self.wait_ms > 0

    def until_ms(self, created_at_ms: int) -> int:
        """Return when the uniqueness window ends for a job that was created at `created_at_ms`; 0 for other scopes."""
        return created_at_ms + self.ttl_ms if self.scope is UniqueScope.WINDOW else 0


def unique_digest(name: str, key: str | None, argument: bytes, decode: Callable[[bytes], Any]) -> str:
    """Return the digest of a name and a key or, without a key, of the name and the argument. Equal arguments have equal
    digests, whatever the order of the members of their maps."""
    if key is not None:
        return blake2b(f"{name}\nk{key}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
    try:
        content = b"a" + canonical(decode(argument))
    except Exception:  # an undecodable argument equals only the same bytes
        content = b"r" + argument
    return blake2b(b"%b\n%b" % (name.encode(), content), digest_size=_DIGEST_BYTES).hexdigest()
