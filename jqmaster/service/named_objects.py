"""Preconditions and tries, which the changes of all named objects share: constraints, definitions, calendars, notices,
targets and namespaces.

A change reads the object and checks the caller's precondition. It writes only if nobody has changed the object since
the read. Otherwise, the change begins again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from jqmaster.errors import OverloadedError, PreconditionFailedError

# Maximum number of tries of one change.
MAX_TRIES: Final = 20
RETRY_AFTER_S: Final = 1.0


class _NamedObject(Protocol):
    @property
    def etag(self) -> str: ...


_ObjectT = TypeVar("_ObjectT", bound=_NamedObject | None)


@dataclass(frozen=True, slots=True)
class Precondition:
    """A precondition on the current object. None: there is no condition. An empty `match` never holds."""

    # The object must have one of these ETags. `*` stands for any ETag.
    match: frozenset[str] | None = None
    # The object must have none of these ETags. `*`: it must not exist.
    none_match: frozenset[str] | None = None

    def check(self, kind: str, name: str, etag: str | None) -> None:
        """Raise PreconditionFailedError if the precondition does not hold. `kind`: the noun for the object, such as
        "constraint". `etag`: the ETag of the object. None: the object does not exist."""
        if self.match is not None and (etag is None or not self.match & {etag, "*"}):
            what = "does not exist" if etag is None else "was changed by somebody else; read it again"
            raise PreconditionFailedError(f"{kind} {name} {what}")
        if self.none_match is not None and etag is not None and self.none_match & {etag, "*"}:
            raise PreconditionFailedError(f"{kind} {name} exists", code=f"{kind}_exists")


ANYHOW: Final = Precondition()


class Tries:
    """The tries of one change of an object. `kind`: see `Precondition.check`."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name
        self._left = MAX_TRIES

    def count(self) -> None:
        """Count one more try. Raise OverloadedError after MAX_TRIES, in each of which somebody else has changed the
        object first."""
        if self._left == 0:
            raise OverloadedError(
                f"{self._kind} {self._name} changes faster than it can be followed",
                retry_after_s=RETRY_AFTER_S,
            )
        self._left -= 1

    async def read(
        self, read: Callable[[str], Awaitable[_ObjectT]], demands: Precondition = ANYHOW
    ) -> _ObjectT:
        """Begin one more try: read the object, and check the precondition `demands`. Return the object. Raise
        OverloadedError as `count` does, PreconditionFailedError, and what `read` raises."""
        self.count()
        present = await read(self._name)
        demands.check(self._kind, self._name, None if present is None else present.etag)
        return present
