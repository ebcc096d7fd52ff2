"""Split any number of jobs into the bodies of bulk calls."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from worker_sdk import forked
from worker_sdk.enqueueing import EnqueueChain, OpenJob
from worker_sdk.errors import EnqueueRefused, InvalidArgument
from worker_sdk.pusher.jobs import MAYBE_ANOTHER, NONE_KEYED, JobLike, one_of_many
from worker_sdk.unsendable import check_keys, explained
from worker_sdk.wire import encode, packer

MAX_CHUNK_JOBS: Final = 1_000
MAX_CHUNK_BYTES: Final = 4 * 1024 * 1024
# Maximum number of jobs in a call that must not be divided. The master limits the size of the call in bytes.
MAX_WHOLE_JOBS: Final = 10_000
# The number of fields of a plain job: name, argument and ID.
_PLAIN_FIELDS: Final = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    ids: list[str]
    body: bytes
    keyed: frozenset[int]
    opened: list[OpenJob]


class Chunker:
    """Collects encoded jobs. `add` returns a full chunk when the next job does not fit any more. `is_whole`: all jobs
    go into one chunk, and `add` raises ValueError if there are too many."""

    def __init__(self, chain: EnqueueChain | None, *, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        forked.check()
        self._chain = chain
        self._pack = packer().pack
        self._ids: list[str] = []
        self._keyed: list[int] = []
        self._parts: list[bytes] = []
        self._opened: list[OpenJob] = []
        self._size = 0

    def add(self, given: JobLike) -> Chunk | None:
        if self._is_whole and len(self._parts) == MAX_WHOLE_JOBS:
            raise ValueError(f"one call takes at most {MAX_WHOLE_JOBS:,} jobs")
        job = one_of_many(given)
        opened: OpenJob | None = None
        if self._chain is not None:
            job, opened = self._chain.open_of_many(job)
            self._opened.append(opened)
        # The next lines repeat `sendable`, because a call for each job of a bulk would cost too much.
        try:
            data = self._pack(job)
            check_keys(job if len(job) > _PLAIN_FIELDS else job["argument"])
        except (TypeError, ValueError, OverflowError) as exc:
            raise explained(exc, job) from None
        parts, size = self._parts, self._size + len(data)
        chunk = None
        if (len(parts) == MAX_CHUNK_JOBS or size > MAX_CHUNK_BYTES) and parts and not self._is_whole:
            chunk = self._full(opened)
            parts, size = self._parts, len(data)
        if len(job) > _PLAIN_FIELDS and not MAYBE_ANOTHER.isdisjoint(job):
            self._keyed.append(len(parts))
        self._ids.append(job["id"])
        parts.append(data)
        self._size = size
        return chunk

    def take(self) -> Chunk | None:
        if not self._parts:
            return None
        # {"jobs": [...]}, joined from encoded jobs
        head = b"\x81" + encode("jobs") + b"\xdc" + len(self._parts).to_bytes(2, "big")
        keyed = frozenset(self._keyed) if self._keyed else NONE_KEYED
        chunk = Chunk(self._ids, head + b"".join(self._parts), keyed, self._opened)
        self._ids, self._keyed, self._parts, self._opened, self._size = [], [], [], [], 0
        return chunk

    @contextmanager
    def reporting_failures(self, accepted_ids: list[str]) -> Iterator[None]:
        """Surround the whole call. If it raises, pass the exception to the middleware of the jobs that are in no chunk
        yet, because these jobs are not sent. Add the IDs of the accepted jobs to a refusal."""
        try:
            yield
        except BaseException as exc:
            for opened in self._opened:
                opened.close(exc)
            # The caller's iterable may enqueue other jobs, and may raise the error of such a call. If that error has
            # its own IDs, keep them.
            if isinstance(exc, EnqueueRefused | InvalidArgument) and not exc.accepted_ids:
                exc.accepted_ids = list(accepted_ids)
            raise

    def _full(self, opened: OpenJob | None) -> Chunk | None:
        """Return the chunk before the current job. `opened`: the middleware of this job."""
        if opened is not None:
            self._opened.pop()
        chunk = self.take()
        if opened is not None:
            self._opened.append(opened)
        return chunk


def chunks(jobs: Iterable[JobLike], chunker: Chunker) -> Iterator[Chunk]:
    for job in jobs:
        if chunk := chunker.add(job):
            yield chunk
    if chunk := chunker.take():
        yield chunk


async def async_chunks(
    jobs: Iterable[JobLike] | AsyncIterable[JobLike], chunker: Chunker
) -> AsyncIterator[Chunk]:
    if not isinstance(jobs, AsyncIterable):
        for chunk in chunks(jobs, chunker):
            yield chunk
        return
    async for job in jobs:
        if full := chunker.add(job):
            yield full
    if rest := chunker.take():
        yield rest
