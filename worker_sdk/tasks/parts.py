"""Stream the partial results of a job through its handle."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from worker_sdk.pusher.parts import BEGINNING, JobPart, part_of

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers

T_co = TypeVar("T_co", covariant=True)

_WAIT_S: Final = 60.0


class Streamed(Protocol):
    """The part of a handle that its stream uses."""

    id: str

    def _note_page(self, page: Mapping[str, Any]) -> None: ...

    def _decode_part(self, value: Any, decode: Callable[[Any], Any]) -> Any: ...

    def _refuse_page(self, exc: Exception) -> None:
        """Raise the exception of a handle that corresponds to this exception of a pusher."""
        ...


class PartStream(Generic[T_co]):
    """Partial results of a job, in order, until the job is over. Use it in `for` or `async for`; each loop begins with
    the first value. When the loop ends, the handle has the final `status`.

    For example:

        for part in handle.stream(int):
            print(part.attempt, part.value)
    """

    def __init__(self, handle: Streamed, pushers: "Pushers", decode: Callable[[Any], Any]) -> None:
        self._handle = handle
        self._pushers = pushers
        self._decode = decode

    def __repr__(self) -> str:
        return f"<parts of job {self._handle.id}>"

    def __iter__(self) -> Iterator[JobPart[T_co]]:
        """Yield the partial results as they arrive. This blocks the thread."""
        pusher, after = self._pushers.sync_pusher(), BEGINNING
        while True:
            try:
                page = pusher.parts(self._handle.id, after=after, wait=_WAIT_S)
            except Exception as exc:
                self._handle._refuse_page(exc)
                raise
            yield from self._parts(page)
            if page["is_last"]:
                return
            after = page["next"]

    async def __aiter__(self) -> AsyncIterator[JobPart[T_co]]:
        """Yield the partial results as they arrive, without blocking the event loop."""
        pusher, after = self._pushers.pusher(), BEGINNING
        while True:
            try:
                page = await pusher.parts(self._handle.id, after=after, wait=_WAIT_S)
            except Exception as exc:
                self._handle._refuse_page(exc)
                raise
            for part in self._parts(page):
                yield part
            if page["is_last"]:
                return
            after = page["next"]

    def _parts(self, page: Mapping[str, Any]) -> Iterator[JobPart[T_co]]:
        self._handle._note_page(page)
        for fields in page["parts"]:
            yield part_of(fields, self._handle._decode_part(fields["value"], self._decode))
