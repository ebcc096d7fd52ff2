"""The part that changes of all named objects share: constraints, definitions, calendars, notices, targets and
namespaces.

A change reads the object, checks the caller's precondition, and writes if nobody has changed the object since it was
read. Otherwise it begins again.
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
    """A precondition on the current object. None: no condition; an empty set: it never holds."""

    # The object must have one of these ETags; `*` stands for any.
    match: frozenset[str] | None = None
    # The object must have none of these ETags; `*`: it must not exist.
    none_match: frozenset[str] | None = None

    def check(self, kind: str, name: str, etag: str | None) -> None:
        """Raise PreconditionFailedError unless the precondition holds. `kind`: the noun for the object, such as
        "constraint". `etag` None: the object does not exist."""
        if self.match is not None and (etag is None or not self.match & {etag, "*"}):
            what = "does not exist" if etag is None else "was changed by somebody else; read it again"
            raise PreconditionFailedError(f"{kind} {name} {what}")
        if self.none_match is not None and etag is not None and self.none_match & {etag, "*"}:
            raise PreconditionFailedError(f"{kind} {name} exists", code=f"{kind}_exists")


ANYHOW: Final = Precondition()


class Tries:
    """The tries of one change of an object. `kind`: as for `Precondition.check`."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name
        self._left = MAX_TRIES

    def count(self) -> None:
        """Count one more try. Raise OverloadedError if others have changed the object in each of the last MAX_TRIES."""
        if self._left == 0:
            raise OverloadedError(
                f"{self._kind} {self._name} changes faster than it can be followed",
                retry_after_s=RETRY_AFTER_S,
            )
        self._left -= 1

    async def read(
        self, read: Callable[[str], Awaitable[_ObjectT]], demands: Precondition = ANYHOW
    ) -> _ObjectT:
        """Begin one more try: return the object as it is now. Raise OverloadedError as `count` does,
        PreconditionFailedError, and what `read` raises."""
        self.count()
        present = await read(self._name)
        demands.check(self._kind, self._name, None if present is None else present.etag)
        return present
