"""Read and follow the log of a job through its handle."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from worker_sdk.pusher.logs import JobLogLevel, JobLogLine, line_of

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers

_WAIT_S: Final = 60.0


class HasLog(Protocol):
    """The part of a handle that its log uses."""

    id: str

    def _note_page(self, page: Mapping[str, Any]) -> None: ...

    def _refuse_page(self, exc: Exception) -> None:
        """Raise the exception of a handle that corresponds to this exception of a pusher."""
        ...


class LogStream:
    """Lines of the log of a job, in order. Use it in `for` or `async for`; each loop begins again.

    * `dropped`: number of lines that are missing in the part of the log that was read.

    For example:

        lines = handle.logs(tail=20, follow=True)
        for line in lines:
            print(line.level, line.text)
        print(lines.dropped)
    """

    def __init__(
        self,
        handle: HasLog,
        pushers: "Pushers",
        *,
        level: JobLogLevel | None,
        attempt: int | None,
        tail: int | None,
        follow: bool,
    ) -> None:
        self._handle = handle
        self._pushers = pushers
        self._level: JobLogLevel | None = level
        self._attempt = attempt
        self._tail = tail
        self._wait_s = _WAIT_S if follow else 0.0
        self.dropped = 0

    def __repr__(self) -> str:
        return f"<log of job {self._handle.id}>"

    def __iter__(self) -> Iterator[JobLogLine]:
        """Read the lines. This blocks the thread."""
        pusher, after, tail, is_end = self._pushers.sync_pusher(), 0, self._tail, False
        while not is_end:
            try:
                page = pusher.logs(
                    self._handle.id,
                    after=after,
                    wait=self._wait_s,
                    level=self._level,
                    attempt=self._attempt,
                    tail=tail,
                )
            except Exception as exc:
                self._handle._refuse_page(exc)
                raise
            yield from self._lines(page)
            is_end = self._is_end(page, after)
            after, tail = page["next"], None

    async def __aiter__(self) -> AsyncIterator[JobLogLine]:
        """Read the lines, without blocking the event loop."""
        pusher, after, tail, is_end = self._pushers.pusher(), 0, self._tail, False
        while not is_end:
            try:
                page = await pusher.logs(
                    self._handle.id,
                    after=after,
                    wait=self._wait_s,
                    level=self._level,
                    attempt=self._attempt,
                    tail=tail,
                )
            except Exception as exc:
                self._handle._refuse_page(exc)
                raise
            for line in self._lines(page):
                yield line
            is_end = self._is_end(page, after)
            after, tail = page["next"], None

    def _is_end(self, page: Mapping[str, Any], after: int) -> bool:
        return bool(page["is_last"] or (not self._wait_s and page["next"] == after))

    def _lines(self, page: Mapping[str, Any]) -> Iterator[JobLogLine]:
        if page["state"] is not None:  # None means that the job was deleted, and its log is in the archive
            self._handle._note_page(page)
        self.dropped = page["dropped"]
        yield from map(line_of, page["entries"])
