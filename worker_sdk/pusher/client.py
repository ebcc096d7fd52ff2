"""Pushers: enqueue jobs and ask for what became of them."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypedDict, Unpack
from urllib.parse import quote

import uuid_utils

from worker_sdk import forked, tracing
from worker_sdk.enqueueing import EnqueueChain, EnqueueMiddleware, OpenJob, chain_of, ending
from worker_sdk.environment import masters_or_default, middleware_or_default, token_or_default
from worker_sdk.errors import (
    AnswerMismatchError,
    Duplicate,
    EnqueueRefused,
    InvalidArgument,
    NotFinishedError,
    RefusedError,
    UnavailableError,
    WorkerSdkError,
    refused,
)
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import Answer, Masters, MasterUnreachableError, pause_s
from worker_sdk.pusher.unique import Debounce, EnqueuedId, Unique
from worker_sdk.transport.loops import PerLoop
from worker_sdk.unsendable import explained
from worker_sdk.wire import encode, iso, packer

logger = logging.getLogger(__name__)

JobMap = dict[str, Any]
JobLike = Mapping[str, Any] | tuple[str, Any]

MAX_CHUNK_JOBS: Final = 1_000
MAX_CHUNK_BYTES: Final = 4 * 1024 * 1024
MAX_LONG_POLL_S: Final = 60.0
_MAX_IDLE_CONNECTIONS: Final = 100
# The positions of jobs with a key of any kind: the master may answer with the ID of another job.
NONE_KEYED: Final[frozenset[int]] = frozenset()
_ALONE_KEYED: Final = frozenset({0})
# Calls that enqueue, under way at a time; who asks for more waits. A master gains nothing by more connections.
MAX_CALLS: Final = 100


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.

    * `type`: `success` or `failure`.
    * `finished_at`: end of its last attempt, as ISO 8601.
    * `result`: the handler's return value, if the job succeeded.
    * `reason`: `timeout`, `undecodable`, `invalid_argument` or `other`, if the job failed. The remaining fields also
      describe failures.
    * `should_retry`: whether the last failure allowed a retry.
    * `error`: a map of `type`, `message` and `traceback`, if an exception was the reason.
    * `message`: the reason, for people.
    """

    type: str
    finished_at: str
    result: Any = None
    reason: str | None = None
    should_retry: bool | None = None
    error: Any = None
    message: str | None = None

    @property
    def is_success(self) -> bool:
        """Return whether the job succeeded."""
        return self.type == "success"


def new_job_id() -> str:
    """Return a UUIDv7 that no other process makes, also not one that was forked at the same moment."""
    forked.check()
    return str(uuid_utils.uuid7())


class _IdSequence:
    """The state behind `new_job_id`, one for the process."""

    def renew(self) -> None:
        # uuid_utils does so too, but only where Python's own hooks run at a fork.
        uuid_utils.reseed_rng()


_id_sequence: Final = _IdSequence()
forked.renew_in_child(_id_sequence)


class JobOptions(TypedDict, total=False):
    """Options of a job, besides its name and argument. The master's defaults apply to options that are omitted or None.

    * `priority`: the lowest number runs first. Default 0.
    * `max_retry`: maximum number of retries after failed attempts. Default 5.
    * `keep_result`: keep the result until it is fetched. Default: the result is dropped.
    * `timeout`: maximum time of an attempt, up to 7 days. Default 30 s.
    * `delay`: time to wait before the first attempt. Cannot be combined with `run_at`.
    * `run_at`: earliest time of the first attempt, with a time zone.
    * `expires_at`: a time, with a time zone. A job that still waits at this time, even for a retry, is skipped.
    * `id`: a UUID that you choose. Enqueueing the same job again under this ID does not create a second job for as long
      as the first is kept.
    * `key`: an idempotency key of your own, up to 200 bytes, such as `feed:42:7`. Enqueueing the same job again with it
      does not create a second job, even when the first is gone, and returns the ID of the first. Another argument or
      option with the same name and key is refused.
    * `key_ttl`: time for which the key works, from its first use, up to 30 days. Default 24 h.
    * `tags`: up to 16 words by which people find the job.
    * `headers`: up to 32 texts that reach the handler as `ctx.headers`.
    * `retry`: the backoff between attempts, a map of `base_s`, `factor`, `max_s` and `jitter`.
    * `rerun_lost`: run the job again when its worker was lost, even if `max_retry` is 0. Default: such a job fails.
    * `unique`: a `Unique`. One job at a time holds its key.
    * `debounce`: a `Debounce`. The job waits until no more jobs with its key come. Cannot be combined with `unique`,
      `delay` or `run_at`.
    """

    priority: int | None
    max_retry: int | None
    keep_result: bool | None
    timeout: float | timedelta | None
    delay: float | timedelta | None
    run_at: datetime | str | None
    expires_at: datetime | str | None
    id: str | None
    key: str | None
    key_ttl: float | timedelta | None
    tags: Sequence[str] | None
    headers: Mapping[str, str] | None
    retry: Mapping[str, Any] | None
    rerun_lost: bool | None
    unique: Unique | Mapping[str, Any] | None
    debounce: Debounce | Mapping[str, Any] | None


_OPTIONS: Final = frozenset(JobOptions.__annotations__)


def make_job(name: str, argument: Any = None, **options: Unpack[JobOptions]) -> JobMap:
    """Return a job with an ID, in the form that `enqueue_many` accepts.

    * `name`, `argument`: as for `Pusher.enqueue`.
    * `options`: see `JobOptions`.

    Raise TypeError for an unknown option, and ValueError for a time without a time zone.
    """
    forked.check()
    return _make_job(name, argument, **options)


def _make_job(name: str, argument: Any = None, **options: Unpack[JobOptions]) -> JobMap:
    job: JobMap = {"name": name, "argument": argument}
    if options:
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(f"not an option of a job: {', '.join(sorted(unknown))}")
        for option, value in options.items():
            if value is not None:
                job[option] = value if type(value) in _PLAIN else _on_the_wire(value)
    if "id" not in job:
        job["id"] = new_job_id()
        # Not to one with the caller's own ID or key: repeated in another trace it would be another job under it.
        if tracing.is_on() and "key" not in job:
            tracing.note_creation(job)
    return job


class _Attempts:
    """The repeats of one call: `next_pause_s` after each that got no final answer."""

    def __init__(
        self, masters: Masters, outage: "_Outage", max_wait_s: float, job_ids: Sequence[str]
    ) -> None:
        self._masters = masters
        self._outage = outage
        self._end_s = time.monotonic() + max_wait_s
        self._job_ids = job_ids
        self._unknown_ids: Sequence[str] = ()
        self._tries = 0

    def final(self, answer: Answer) -> Answer:
        """Raises RefusedError for a no."""
        self._outage.ends()
        if not answer.is_ok:
            raise refused(answer.status, answer.body, unknown_ids=self._unknown_ids)
        return answer

    def next_pause_s(self, failed: Answer | MasterUnreachableError) -> float:
        """Raises UnavailableError when the time is over."""
        self._tries += 1
        if not isinstance(failed, Answer) or failed.status != 429:
            # It may have been carried out all the same.
            self._unknown_ids = self._job_ids
        asked_s = failed.retry_after_s if isinstance(failed, Answer) else None
        left_s = self._end_s - time.monotonic()
        # Ask the other masters first, at once: there is no need to wait for one that is down.
        if asked_s is None and self._tries < len(self._masters):
            self._outage.goes_on(failed, left_s)
            return 0.0
        wait_s = pause_s(self._tries, asked_s)
        if wait_s > left_s:
            raise UnavailableError(
                f"no final answer after {self._tries} tries; the last: {failed}",
                self._job_ids,
                unknown_ids=self._unknown_ids,
            )
        self._outage.goes_on(failed, left_s)
        return wait_s


class _Outage:
    """Says once that calls of a pusher are repeated, and once that they are answered again."""

    def __init__(self) -> None:
        self._is_known = False

    def goes_on(self, failed: Answer | MasterUnreachableError, left_s: float) -> None:
        if not self._is_known:
            self._is_known = True
            logger.warning(
                "no final answer from a master (%s); the call is repeated for up to %.0f s more",
                failed,
                max(0.0, left_s),
            )

    def ends(self) -> None:
        if self._is_known:
            self._is_known = False
            logger.info("a master answers again")


class Pusher:
    """Enqueue jobs and ask about them, with asyncio.

    * `master`: address of the master, or a list of addresses. Default: `JQMASTER_URL`, then `http://127.0.0.1:8080`.
    * `token`: bearer token with the scope `push`, and `read` for `status`. Default: `JQMASTER_TOKEN`.
    * `timeout_s`: maximum time of one try.
    * `max_wait_s`: time for which a call is repeated before it raises UnavailableError.
    * `durability`: durability that a job must have before it is accepted: `besteffort`, `fsync` or `fsync+quorum`.
      Default: the master's setting.
    * `middleware`: instances of `Middleware`, the outermost first, whose `around_enqueue` surrounds each job that is
      enqueued. Default: those of `configure`.

    A call that gets no answer, 429 or 5xx is repeated after a random pause, and after the pause that the master asks
    for. The first repeat is logged as a warning. Enqueueing is safe to repeat, because the pusher chooses the ID of a
    job. At most 100 calls enqueue at a time; further calls wait.

    All calls raise RefusedError if the master refuses, UnavailableError if the time is over, and AnswerMismatchError if
    the answer is about another job.

    Keep a pusher as long as the application runs. You may use it from several event loops, one after the other or at
    once, and in forked processes; each has connections of its own.

    A pusher belongs to the store of the first master that grants a call. If an address later leads to a master of
    another store, the pusher logs this and sends it no jobs. A store that was begun anew is believed when all masters
    have belonged to it for 15 s.
    """

    def __init__(
        self,
        master: str | Sequence[str] | Masters | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 10.0,
        max_wait_s: float = 10.0,
        durability: str | None = None,
        middleware: Iterable[EnqueueMiddleware] | None = None,
    ) -> None:
        self._chain = chain_of(middleware_or_default(middleware))
        self._masters = _masters_of(master)
        self._timeout_s = timeout_s
        self._max_wait_s = max_wait_s
        self._client = MasterClient(
            self._masters, token_or_default(token), timeout_s=timeout_s, durability=durability
        )
        self._outage = _Outage()
        self._rooms = PerLoop(lambda: asyncio.Semaphore(MAX_CALLS))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        raise _cannot_be_sent(self)

    async def aclose(self) -> None:
        """Close all connections; `async with` does so too."""
        await self._client.stop()

    async def enqueue(self, name: str, argument: Any = None, **options: Unpack[JobOptions]) -> str:
        """Enqueue a job, and return its ID once the master has stored it.

        * `name`: name of the job, which selects the handler.
        * `argument`: any value that MessagePack can encode: None, bool, int, float, str, bytes, list, dict, and
          datetime with a time zone. At most 256 KiB unless the master is configured otherwise. TypeError names the path
          of a value that it cannot encode.
        * `options`: see `JobOptions`. If another job holds the `unique` key, the call raises `Duplicate`, or it returns
          the ID of that job; `is_duplicate` and `is_replaced` tell.
        """
        return await self.enqueue_job(make_job(name, argument, **options))

    async def enqueue_job(self, job: JobMap) -> str:
        """Enqueue a job, and return its ID once the master has stored it.

        * `job`: what `make_job` or `Task.to_job` returned. Enqueueing it again does not create a second job.
        """
        if self._chain is None:
            return await self._send(job)
        job, opened = self._chain.open(job)
        with ending([opened]):
            return await self._send(job)

    async def _send(self, job: JobMap) -> str:
        body = _encoded(job)
        async with self._rooms.get():
            answer = await self._call(
                "POST",
                "/api/jobs",
                body,
                job_ids=[job["id"]],
                keyed=_ALONE_KEYED if _may_be_another(job) else NONE_KEYED,
            )
        return _id_of(job, answer)

    async def enqueue_many(self, jobs: Iterable[JobLike] | AsyncIterable[JobLike]) -> list[str]:
        """Enqueue any number of jobs, and return their IDs in order.

        * `jobs`: an iterable, which may be an async one, of maps with the arguments of `make_job`, or of pairs
          `(name, argument)`.

        The iterable is read as it is sent, in chunks of up to 1,000 jobs. If a job is refused, its chunk is. The error
        lists in `accepted_ids` the jobs that were accepted before, and in `unknown_ids` those that may have been. If a
        middleware refuses a job, it raises EnqueueRefused, and the jobs that are not in `accepted_ids` were not sent.
        """
        ids: list[str] = []
        chunker = _Chunker(self._chain)
        with chunker.telling(ids):
            async for chunk in _async_chunks(jobs, chunker):
                try:
                    with ending(chunk.opened):
                        async with self._rooms.get():
                            answer = await self._call(
                                "POST", "/api/jobs/bulk", chunk.body, job_ids=chunk.ids, keyed=chunk.keyed
                            )
                except WorkerSdkError as exc:
                    raise _after(ids, exc) from None
                ids += _ids_of(chunk, answer)
        return ids

    async def result(self, job_id: str, *, wait: float = 0.0) -> JobResult | None:
        """Return the result of the job.

        * `job_id`: the job.
        * `wait`: seconds to wait for the job to end.

        None means that there is nothing to return: the job was enqueued without `keep_result`, it was discarded,
        canceled or skipped, its result is no longer kept, or no job has this ID. `status` distinguishes these cases.
        Raise NotFinishedError if the job has not ended within `wait`.
        """
        end_s = time.monotonic() + wait
        while True:
            path = _result_path(job_id, end_s, self._timeout_s)
            answer = await self._call("GET", path, of=job_id)
            if answer.status != 202:
                return _result_of(answer)
            if time.monotonic() >= end_s:
                raise NotFinishedError(job_id, str(answer.body.get("state")))
            await asyncio.sleep(_until_asked_again_s(answer, end_s))

    async def status(self, job_id: str) -> Mapping[str, Any]:
        """Return the job as the master shows it: a map with `state`, `attempts` and so on (JobView in the OpenAPI
        document)."""
        return (await self._call("GET", _path_of(job_id), of=job_id)).body

    async def cancel(self, job_id: str) -> Mapping[str, Any]:
        """Cancel the job, and return it as `status` does. A running job ends as soon as its worker has stopped it."""
        return (await self._call("POST", f"{_path_of(job_id)}/cancel", of=job_id)).body

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        job_ids: Sequence[str] = (),
        of: str = "",
        keyed: frozenset[int] = NONE_KEYED,
    ) -> Answer:
        """`job_ids`: the jobs that are enqueued, `keyed` those among them whose IDs their keys decide; `of`: the job
        that is asked about."""
        attempts = _Attempts(self._masters, self._outage, self._max_wait_s, job_ids)
        while True:
            address = self._masters.current
            failed: Answer | MasterUnreachableError
            try:
                failed = answer = await self._client.call(method, path, body)
                _check_jobs(answer, job_ids, of, keyed)
                if not answer.is_transient:
                    return attempts.final(answer)
            except MasterUnreachableError as exc:
                failed = exc
            except AnswerMismatchError:
                self._client.drop_idle()
                raise
            self._masters.failed(address)
            await asyncio.sleep(attempts.next_pause_s(failed))


class SyncPusher:
    """Enqueue jobs and ask about them, without asyncio. The arguments are those of `Pusher`.

    Threads may share it, and so may a parent and its forked processes: each call uses a connection of its own.
    """

    def __init__(
        self,
        master: str | Sequence[str] | Masters | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 10.0,
        max_wait_s: float = 10.0,
        durability: str | None = None,
        middleware: Iterable[EnqueueMiddleware] | None = None,
    ) -> None:
        self._chain = chain_of(middleware_or_default(middleware))
        self._masters = _masters_of(master)
        self._token = token_or_default(token)
        self._durability = durability
        self._timeout_s = timeout_s
        self._max_wait_s = max_wait_s
        self._idle: deque[BlockingClient] = deque()
        self._outage = _Outage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise _cannot_be_sent(self)

    def close(self) -> None:
        """Close all connections; `with` does so too. No call may be under way."""
        while self._idle:
            self._idle.pop().close()

    def enqueue(self, name: str, argument: Any = None, **options: Unpack[JobOptions]) -> str:
        """Do as `Pusher.enqueue`."""
        return self.enqueue_job(make_job(name, argument, **options))

    def enqueue_job(self, job: JobMap) -> str:
        """Do as `Pusher.enqueue_job`."""
        if self._chain is None:
            return self._send(job)
        job, opened = self._chain.open(job)
        with ending([opened]):
            return self._send(job)

    def _send(self, job: JobMap) -> str:
        answer = self._call(
            "POST",
            "/api/jobs",
            _encoded(job),
            job_ids=[job["id"]],
            keyed=_ALONE_KEYED if _may_be_another(job) else NONE_KEYED,
        )
        return _id_of(job, answer)

    def enqueue_many(self, jobs: Iterable[JobLike]) -> list[str]:
        """Do as `Pusher.enqueue_many`."""
        ids: list[str] = []
        chunker = _Chunker(self._chain)
        with chunker.telling(ids):
            for chunk in _chunks(jobs, chunker):
                try:
                    with ending(chunk.opened):
                        answer = self._call(
                            "POST", "/api/jobs/bulk", chunk.body, job_ids=chunk.ids, keyed=chunk.keyed
                        )
                except WorkerSdkError as exc:
                    raise _after(ids, exc) from None
                ids += _ids_of(chunk, answer)
        return ids

    def result(self, job_id: str, *, wait: float = 0.0) -> JobResult | None:
        """Do as `Pusher.result`."""
        end_s = time.monotonic() + wait
        while True:
            answer = self._call("GET", _result_path(job_id, end_s, self._timeout_s), of=job_id)
            if answer.status != 202:
                return _result_of(answer)
            if time.monotonic() >= end_s:
                raise NotFinishedError(job_id, str(answer.body.get("state")))
            time.sleep(_until_asked_again_s(answer, end_s))

    def status(self, job_id: str) -> Mapping[str, Any]:
        """Do as `Pusher.status`."""
        return self._call("GET", _path_of(job_id), of=job_id).body

    def cancel(self, job_id: str) -> Mapping[str, Any]:
        """Do as `Pusher.cancel`."""
        return self._call("POST", f"{_path_of(job_id)}/cancel", of=job_id).body

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        job_ids: Sequence[str] = (),
        of: str = "",
        keyed: frozenset[int] = NONE_KEYED,
    ) -> Answer:
        attempts = _Attempts(self._masters, self._outage, self._max_wait_s, job_ids)
        while True:
            address = self._masters.current
            failed: Answer | MasterUnreachableError
            try:
                failed = answer = self._try(method, path, body)
                _check_jobs(answer, job_ids, of, keyed)
                if not answer.is_transient:
                    return attempts.final(answer)
            except MasterUnreachableError as exc:
                failed = exc
            except AnswerMismatchError:
                self.close()
                raise
            self._masters.failed(address)
            time.sleep(attempts.next_pause_s(failed))

    def _try(self, method: str, path: str, body: bytes | None) -> Answer:
        try:
            client = self._idle.pop()
        except IndexError:  # all are in use by other threads
            client = BlockingClient(self._masters, self._token, durability=self._durability)
        try:
            return client.call(method, path, body, timeout_s=self._timeout_s)
        finally:
            if len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append(client)
            else:
                client.close()


@dataclass(frozen=True, slots=True)
class _Chunk:
    ids: list[str]
    body: bytes
    keyed: frozenset[int]
    opened: list[OpenJob]


class _Chunker:
    """Gathers encoded jobs; `add` gives a full chunk back when the next job does not fit any more."""

    def __init__(self, chain: EnqueueChain | None) -> None:
        forked.check()
        self._chain = chain
        self._pack = packer().pack
        self._ids: list[str] = []
        self._keyed: list[int] = []
        self._parts: list[bytes] = []
        self._opened: list[OpenJob] = []
        self._size = 0

    def add(self, given: JobLike) -> _Chunk | None:
        job = _make_job(*given) if isinstance(given, tuple) else _make_job(**given)
        opened: OpenJob | None = None
        if self._chain is not None:
            job, opened = self._chain.open_of_many(job)
            self._opened.append(opened)
        data = _encoded(job, self._pack)
        full = self._parts and (
            len(self._parts) == MAX_CHUNK_JOBS or self._size + len(data) > MAX_CHUNK_BYTES
        )
        chunk = self._full(opened) if full else None
        if _may_be_another(job):
            self._keyed.append(len(self._ids))
        self._ids.append(job["id"])
        self._parts.append(data)
        self._size += len(data)
        return chunk

    def take(self) -> _Chunk | None:
        if not self._parts:
            return None
        # {"jobs": [...]}, joined from encoded jobs
        head = b"\x81" + encode("jobs") + b"\xdc" + len(self._parts).to_bytes(2, "big")
        keyed = frozenset(self._keyed) if self._keyed else NONE_KEYED
        chunk = _Chunk(self._ids, head + b"".join(self._parts), keyed, self._opened)
        self._ids, self._keyed, self._parts, self._opened, self._size = [], [], [], [], 0
        return chunk

    @contextmanager
    def telling(self, accepted_ids: list[str]) -> Iterator[None]:
        """Surround the whole call. After an exception, tell it to the middleware around jobs that are in no chunk yet
        and are not sent. A refusal gets the jobs that were accepted before."""
        try:
            yield
        except BaseException as exc:
            for opened in self._opened:
                opened.close(exc)
            # The iterable of the caller may enqueue, too: what such a call says of its own jobs stays.
            if isinstance(exc, EnqueueRefused | InvalidArgument) and not exc.accepted_ids:
                exc.accepted_ids = list(accepted_ids)
            raise

    def _full(self, opened: OpenJob | None) -> _Chunk | None:
        """Return the chunk before the job whose middleware is `opened`."""
        if opened is not None:
            self._opened.pop()
        chunk = self.take()
        if opened is not None:
            self._opened.append(opened)
        return chunk


def _encoded(job: JobMap, pack: Callable[[Any], bytes] = encode) -> bytes:
    try:
        return pack(job)
    except (TypeError, ValueError, OverflowError) as exc:
        raise explained(exc, job) from None


def _chunks(jobs: Iterable[JobLike], chunker: _Chunker) -> Iterator[_Chunk]:
    for job in jobs:
        if chunk := chunker.add(job):
            yield chunk
    if chunk := chunker.take():
        yield chunk


async def _async_chunks(
    jobs: Iterable[JobLike] | AsyncIterable[JobLike], chunker: _Chunker
) -> AsyncIterator[_Chunk]:
    if not isinstance(jobs, AsyncIterable):
        for chunk in _chunks(jobs, chunker):
            yield chunk
        return
    async for job in jobs:
        if full := chunker.add(job):
            yield full
    if rest := chunker.take():
        yield rest


def _cannot_be_sent(pusher: Pusher | SyncPusher) -> TypeError:
    return TypeError(
        f"a {type(pusher).__name__} holds connections and cannot be pickled: make one in the process that uses it"
    )


def _may_be_another(job: Mapping[str, Any]) -> bool:
    """Return whether a master may answer with the ID of another job."""
    return "key" in job or "unique" in job or "debounce" in job


def _id_of(job: JobMap, answer: Answer) -> str:
    if not _may_be_another(job):
        return str(job["id"])
    body = answer.body
    return EnqueuedId.of(
        str(body["id"]), is_duplicate=body.get("duplicate") is True, is_replaced=body.get("replaced") is True
    )


def _ids_of(chunk: _Chunk, answer: Answer) -> list[str]:
    if not chunk.keyed:
        return chunk.ids
    ids = [str(job_id) for job_id in answer.body["ids"]]
    for index in answer.body.get("duplicates") or ():
        ids[index] = EnqueuedId.of(ids[index], is_duplicate=True, is_replaced=False)
    for index in answer.body.get("replaced") or ():
        ids[index] = EnqueuedId.of(ids[index], is_duplicate=False, is_replaced=True)
    return ids


def _check_jobs(answer: Answer, enqueued: Sequence[str], of: str, keyed: frozenset[int]) -> None:
    """Raises AnswerMismatchError when the answer names other jobs than the call."""
    asked = [of] if of else enqueued
    if (named := answer.job_id) is not None:
        answered = [named]
    elif answer.is_ok and "id" in answer.body:
        answered = [str(answer.body["id"])]
    elif answer.is_ok and enqueued:
        ids = answer.body.get("ids")
        answered = [str(job_id) for job_id in ids] if isinstance(ids, list) else []
    else:
        return  # it names none: a problem, or a result from a master that does not name the job
    if keyed and len(answered) == len(asked):
        asked = [answered[n] if n in keyed else job_id for n, job_id in enumerate(asked)]
    if answered != asked:
        raise AnswerMismatchError(asked, answered, unknown_ids=enqueued)


def _after(accepted_ids: list[str], exc: WorkerSdkError) -> WorkerSdkError:
    """The failure of a chunk as one of the whole; indices count from its start."""
    if isinstance(exc, RefusedError):
        errors = []
        for error in exc.errors:
            loc = list(error.get("loc", ()))
            if len(loc) > 1 and loc[0] == "jobs" and isinstance(loc[1], int):
                loc[1] += len(accepted_ids)
            errors.append({**error, "loc": loc})
        problem = {"code": exc.code, "detail": exc.detail, "errors": errors}
        if isinstance(exc, Duplicate):
            problem["job_id"] = exc.job_id
        exc = refused(exc.status, problem, unknown_ids=exc.unknown_ids)
    exc.accepted_ids = accepted_ids
    return exc


def _path_of(job_id: str) -> str:
    return f"/api/jobs/{quote(job_id, safe='')}"


def _until_asked_again_s(answer: Answer, end_s: float) -> float:
    """0 after a poll that waited. A master where too many wait answers at once, and says when to come again."""
    if not answer.retry_after_s:
        return 0.0
    return max(0.0, min(pause_s(1, answer.retry_after_s), end_s - time.monotonic()))


def _result_path(job_id: str, end_s: float, timeout_s: float) -> str:
    # The answer must come within the timeout of a call, or waiting would look like a dead master.
    wait_s = max(0.0, min(end_s - time.monotonic(), MAX_LONG_POLL_S, timeout_s * 0.8))
    return f"{_path_of(job_id)}/result?wait={wait_s:.3f}"


def _result_of(answer: Answer) -> JobResult | None:
    if not answer.body:
        return None
    known = {field: answer.body[field] for field in JobResult.__slots__ if field in answer.body}
    if not {"type", "finished_at"} <= known.keys():
        raise UnavailableError("a master's answer makes no sense")
    return JobResult(**known)


# Most options are of these types. Asking what else they might be would take most of the time of `make_job`.
_PLAIN: Final = frozenset({str, int, float, bool})


def _on_the_wire(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("an instant needs a time zone: datetime.now(UTC), not datetime.now()")
        return iso(value)
    if isinstance(value, Unique | Debounce):
        return value.to_wire()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _masters_of(given: str | Sequence[str] | Masters | None) -> Masters:
    return given if isinstance(given, Masters) else Masters(masters_or_default(given))
