"""A pusher for asyncio: enqueue jobs and get their results."""

import asyncio
import time
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, Unpack

from worker_sdk.blocks import AsyncWithOnly
from worker_sdk.enqueueing import EnqueueMiddleware, chain_of, ending
from worker_sdk.environment import middleware_or_default, token_or_default
from worker_sdk.errors import AnswerMismatchError, WorkerSdkError
from worker_sdk.loading import OF_ASYNC_CALLS, load
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, Masters, MasterUnreachableError
from worker_sdk.pusher.answers import check_jobs, id_of, ids_of, refused_after
from worker_sdk.pusher.attempts import Attempts, Outage
from worker_sdk.pusher.batch_paths import BATCHES_PATH, path_of_batch
from worker_sdk.pusher.chunks import Chunker, async_chunks
from worker_sdk.pusher.events import EVENTS_PATH, Event, SentEvent, bodies_of, sent_event
from worker_sdk.pusher.jobs import (
    ALONE_KEYED,
    MAYBE_ANOTHER,
    NONE_KEYED,
    JobLike,
    JobMap,
    JobOptions,
    make_job,
)
from worker_sdk.pusher.logs import JobLogLevel, logs_path
from worker_sdk.pusher.older_masters import for_older_master
from worker_sdk.pusher.opening import cannot_be_sent, masters_of
from worker_sdk.pusher.parts import BEGINNING, parts_path
from worker_sdk.pusher.results import JobResult, next_poll_in_s, not_finished, path_of, result_of, result_path
from worker_sdk.suggesting import suggesting
from worker_sdk.transport.loops import PerLoop
from worker_sdk.unsendable import sendable

# Maximum number of calls that enqueue at the same time; further calls wait. More connections would not make a master
# faster.
MAX_CALLS: Final = 100


class Pusher(AsyncWithOnly):
    """Enqueue jobs and ask about them, with asyncio:

        async with Pusher("http://127.0.0.1:8080") as pusher:
            job_id = await pusher.enqueue("thumbnail.make", {"photo_id": 42}, keep_result=True)
            result = await pusher.result(job_id, wait=10)

    * `master`: address of the master, or a list of addresses. Default: `JQMASTER_URL`, then `http://127.0.0.1:8080`.
    * `token`: bearer token with the scope `push`, and `read` for `status`. Default: `JQMASTER_TOKEN`.
    * `timeout_s`: timeout in seconds of one try.
    * `max_wait_s`: seconds for which a call is repeated before it raises UnavailableError.
    * `durability`: durability that a job must have before it is accepted: `besteffort`, `fsync` or `fsync+quorum`.
      Default: the master's setting.
    * `middleware`: instances of `Middleware`, the outermost first. Their `around_enqueue` surrounds the enqueueing of
      each job. Default: those of `configure`.

    If a call gets no answer, 429 or 5xx, the pusher repeats it after a random pause, plus the pause that the master
    asks for. The first repeat is logged as a warning. Enqueueing is safe to repeat, because the pusher chooses the ID
    of a job. At most 100 calls enqueue at a time; further calls wait.

    All calls raise RefusedError if the master refuses, UnavailableError after `max_wait_s`, and AnswerMismatchError if
    the answer is about another job.

    Keep one pusher for the whole life of the application. Event loops and forked processes may share it, even at the
    same time: each gets its own connections.

    A pusher belongs to the store of the first master that grants a call. If an address later leads to a master of
    another store, the pusher logs this, and sends no jobs to that master. If a new store replaces the old one, the
    pusher accepts it once all masters have used it for 15 s.
    """

    @suggesting("a pusher")
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
        load(OF_ASYNC_CALLS)
        self._chain = chain_of(middleware_or_default(middleware))
        self._masters = masters_of(master)
        self._timeout_s = timeout_s
        self._max_wait_s = max_wait_s
        self._client = MasterClient(
            self._masters, token_or_default(token), timeout_s=timeout_s, durability=durability
        )
        self._outage = Outage()
        self._rooms = PerLoop(lambda: asyncio.Semaphore(MAX_CALLS))

    other_form = "without an event loop, write `with SyncPusher(...)`"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._masters}>"

    if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept any attribute

        def __getattr__(self, name: str) -> Any:
            from worker_sdk.other_queues import PUSHER_METHODS, missing_attribute

            raise missing_attribute("a pusher", name, PUSHER_METHODS)

    def __reduce__(self) -> NoReturn:
        raise cannot_be_sent(self)

    async def aclose(self) -> None:
        """Close all connections, as the end of the block does. No call may be in progress. `aclose` does not block the
        event loop.

        A later call opens new connections:

            pusher = Pusher()
            await pusher.enqueue("thumbnail.make", {"photo_id": 42})
            await pusher.aclose()
        """
        await self._client.stop()

    async def enqueue(self, name: str, argument: Any = None, **options: Unpack[JobOptions]) -> str:
        """Enqueue a job, and return its ID once the master has stored it.

        * `name`: name of the job, which selects the handler.
        * `argument`: any value that MessagePack can encode: None, bool, int, float, str, bytes, list, dict, and
          datetime with a time zone. At most 256 KiB unless the master is configured otherwise. A TypeError names the
          path of a value that cannot be encoded.
        * `options`: see `JobOptions`. If another job holds the key of `unique`, `on_conflict` decides whether the
          call raises `Duplicate` or returns the ID of that job. `is_duplicate` and `is_replaced` recognize such an
          ID.

        Raise RefusedError if the master refuses the job, and UnavailableError if no master answers within
        `max_wait_s`. Raise Duplicate, a RefusedError, for a `unique` key that is taken, and TypeError for an option
        that does not exist or has a wrong type. For example:

            job_id = await pusher.enqueue("thumbnail.make", {"photo_id": 42}, keep_result=True, delay=60)
        """
        return await self.enqueue_job(make_job(name, argument, **options))

    async def enqueue_job(self, job: JobMap) -> str:
        """Enqueue a job, and return its ID once the master has stored it.

        * `job`: a job that `make_job` or `Task.to_job` returned. Enqueueing it again does not create a second job.

        Raise RefusedError if the master refuses the job, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            job = make_job("thumbnail.make", {"photo_id": 42})
            await pusher.enqueue_job(job)
        """
        if self._chain is None:
            return await self._send(job)
        job, opened = self._chain.open(job)
        with ending([opened]):
            return await self._send(job)

    async def _send(self, job: JobMap) -> str:
        body = sendable(job)
        may_be_another = not MAYBE_ANOTHER.isdisjoint(job)
        async with self._rooms[asyncio.get_running_loop()]:
            answer = await self._call(
                "POST",
                "/api/jobs",
                body,
                job_ids=[job["id"]],
                keyed=ALONE_KEYED if may_be_another else NONE_KEYED,
            )
        return id_of(answer) if may_be_another else str(job["id"])

    async def enqueue_many(
        self, jobs: Iterable[JobLike] | AsyncIterable[JobLike], *, in_one_call: bool = False
    ) -> list[str]:
        """Enqueue any number of jobs, and return their IDs in order.

        * `jobs`: an iterable, or an async one, of maps with the arguments of `make_job`, or of pairs `(name,
          argument)`.
        * `in_one_call`: send all jobs in one call, up to 10,000. The master accepts all of them or none.

        Without `in_one_call`, the iterable is read while it is sent, in chunks of up to 1,000 jobs. If the master
        refuses one job, it refuses the whole chunk. The error lists the jobs that were accepted before in
        `accepted_ids`, and those that may have been accepted in `unknown_ids`. If a middleware refuses a job, the
        call raises EnqueueRefused, and only the jobs in `accepted_ids` were sent.

        Raise RefusedError, UnavailableError and EnqueueRefused, all of which are WorkerSdkError. For example:

            calls = (("thumbnail.make", {"photo_id": number}) for number in range(20))
            try:
                ids = await pusher.enqueue_many(calls)
            except WorkerSdkError as exc:
                print(f"{len(exc.accepted_ids)} jobs were accepted")
        """
        ids: list[str] = []
        chunker = Chunker(self._chain, is_whole=in_one_call)
        with chunker.reporting_failures(ids):
            async for chunk in async_chunks(jobs, chunker):
                try:
                    with ending(chunk.opened):
                        async with self._rooms[asyncio.get_running_loop()]:
                            answer = await self._call(
                                "POST", "/api/jobs/bulk", chunk.body, job_ids=chunk.ids, keyed=chunk.keyed
                            )
                except WorkerSdkError as exc:
                    raise refused_after(ids, exc) from None
                ids += ids_of(chunk, answer)
        return ids

    async def send_event(
        self,
        event_type: str,
        payload: Any = None,
        *,
        dedupe_key: str | None = None,
        source: str = "",
        subject: str = "",
        occurred_at: datetime | None = None,
    ) -> SentEvent:
        """Send an event, and return what it started.

        * `event_type`: kind of event, such as `order.paid`.
        * `payload`: any value that MessagePack can encode.
        * `dedupe_key`: of several events with the same source and key, only the first counts. Default: a random key.
        * `source`: origin of the event.
        * `subject`: object of the source that the event is about.
        * `occurred_at`: time of the event, with a time zone.

        Raise RefusedError if the master refuses the event, and UnavailableError if no master answers within
        `max_wait_s`. Raise ValueError for a time without a time zone. For example:

            sent = await pusher.send_event("order.paid", {"order": 7}, dedupe_key="order-7")
            print(sent.job_ids)
        """
        event = Event(event_type, payload, dedupe_key, source, subject, occurred_at)
        return sent_event((await self._call("POST", EVENTS_PATH, sendable(event.to_wire()))).body)

    async def send_events(self, events: Iterable[Event]) -> list[SentEvent]:
        """Send any number of events, up to 500 in one call, and return what each event started.

        * `events`: an iterable of `Event`.

        Each call succeeds or fails separately: if one fails, the events of earlier calls stay accepted.

        Raise RefusedError if the master refuses an event, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            sent = await pusher.send_events(Event("order.paid", {"order": number}) for number in range(3))
        """
        sent: list[SentEvent] = []
        for body in bodies_of(events):
            sent += map(sent_event, (await self._call("POST", EVENTS_PATH, body)).body["events"])
        return sent

    async def result(self, job_id: str, *, wait: float = 0.0) -> JobResult | None:
        """Wait for a job to end, and return its result.

        * `job_id`: the job.
        * `wait`: seconds to wait for the job to end. Default: do not wait.

        The job needs `keep_result`. The result of a failed job contains the reason. The master deletes a result
        60 s (`result_grace_s`) after it was first fetched.

        Return None if there is no result, for one of these reasons. `status` shows which one applies:

        * The job was enqueued without `keep_result`.
        * The job was discarded, canceled or skipped.
        * The result is no longer kept.
        * No job has this ID.

        Raise NotFinished if the job has not ended within `wait`, and UnavailableError if no master answers. For
        example:

            result = await pusher.result(job_id, wait=10)
            if result is not None and result.is_success:
                print(result.result)
        """
        end_s = time.monotonic() + wait
        while True:
            path = result_path(job_id, end_s, self._timeout_s)
            answer = await self._call("GET", path, of=job_id)
            if answer.status != 202:
                return result_of(answer)
            if time.monotonic() >= end_s:
                raise not_finished(job_id, answer.body)
            await asyncio.sleep(next_poll_in_s(answer, end_s))

    async def parts(self, job_id: str, *, after: str = BEGINNING, wait: float = 0.0) -> Mapping[str, Any]:
        """Return partial results of the job as the master sends them: a map with `parts`, `next`, `state` and
        `is_last` (PartsPage in the OpenAPI document). `JobHandle.stream` calls this.

        * `job_id`: the job.
        * `after`: `next` of the previous answer. Default: begin with the first partial result.
        * `wait`: seconds to wait for further partial results.

        Raise RefusedError if the master knows no such job, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            page = await pusher.parts(job_id, wait=1)
            print([part["value"] for part in page["parts"]])
        """
        end_s = time.monotonic() + wait
        answer = await self._call("GET", parts_path(job_id, after, wait, self._timeout_s), of=job_id)
        if not answer.body["parts"]:
            await asyncio.sleep(next_poll_in_s(answer, end_s))
        return answer.body

    async def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        wait: float = 0.0,
        level: JobLogLevel | None = None,
        attempt: int | None = None,
        tail: int | None = None,
    ) -> Mapping[str, Any]:
        """Return lines of the log of the job as the master sends them: a map with `entries`, `next`, `state` and
        `is_last` (LogPage in the OpenAPI document). `JobHandle.logs` calls this.

        * `job_id`: the job.
        * `after`: `next` of the previous answer. Default: begin with the first line.
        * `wait`: seconds to wait for further lines, or the end of the job.
        * `level`: only lines of this level or above.
        * `attempt`: only lines of this attempt.
        * `tail`: begin at most this many lines before the end of the log.

        Raise RefusedError if the master knows no such job, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            page = await pusher.logs(job_id, level="warning", tail=20)
            print([line["text"] for line in page["entries"]])
        """
        end_s = time.monotonic() + wait
        path = logs_path(job_id, after, wait, self._timeout_s, level=level, attempt=attempt, tail=tail)
        answer = await self._call("GET", path, of=job_id)
        if not answer.body["entries"]:
            await asyncio.sleep(next_poll_in_s(answer, end_s))
        return answer.body

    async def status(self, job_id: str) -> Mapping[str, Any]:
        """Return the job as the master shows it: a map with `state`, `attempts` and so on (JobView in the OpenAPI
        document).

        * `job_id`: the job.

        Raise RefusedError if the master knows no such job, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            job = await pusher.status(job_id)
            print(job["state"], len(job["attempts"]))
        """
        return (await self._call("GET", path_of(job_id), of=job_id)).body

    async def cancel(self, job_id: str) -> Mapping[str, Any]:
        """Cancel the job, and return it as `status` does. A running job is canceled once its worker has stopped it.

        * `job_id`: the job.

        Raise RefusedError if the job is over or unknown, and UnavailableError if no master answers within
        `max_wait_s`. For example:

            later = await pusher.enqueue("thumbnail.make", {"photo_id": 42}, delay=3600)
            await pusher.cancel(later)
        """
        return (await self._call("POST", f"{path_of(job_id)}/cancel", of=job_id)).body

    async def create_batch(self, fields: Mapping[str, Any]) -> None:
        """Create a batch. `Batch` calls this.

        * `fields`: the fields of BatchRequest in the OpenAPI document, including an ID.

        Raise RefusedError if the master refuses the batch, and UnavailableError if no master answers within
        `max_wait_s`.

        For example:

            await pusher.create_batch({"id": batch_id, "description": "thumbnails of May"})
        """
        await self._call("POST", BATCHES_PATH, sendable(fields), of=str(fields["id"]))

    async def seal_batch(self, batch_id: str) -> None:
        """Seal a batch. `Batch` calls this.

        * `batch_id`: ID of the batch.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers within `max_wait_s`.
        For example:

            await pusher.enqueue("thumbnail.make", {"photo_id": 42}, batch=batch_id)
            await pusher.seal_batch(batch_id)
        """
        await self._call("POST", path_of_batch(batch_id, "/seal"), of=batch_id)

    async def cancel_batch(self, batch_id: str) -> None:
        """Cancel a batch. `Batch.cancel` calls this.

        * `batch_id`: ID of the batch.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers within `max_wait_s`.
        For example:

            await pusher.cancel_batch(batch_id)
        """
        await self._call("POST", path_of_batch(batch_id, "/cancel"), of=batch_id)

    async def retry_batch(self, batch_id: str) -> None:
        """Retry the failed jobs of a batch. `Batch.retry` calls this.

        * `batch_id`: ID of the batch.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers within `max_wait_s`.
        For example:

            await pusher.retry_batch(batch_id)
        """
        await self._call("POST", path_of_batch(batch_id, "/retry"), of=batch_id)

    async def batch_status(self, batch_id: str) -> Mapping[str, Any]:
        """Return a batch as the master shows it. `Batch.status` calls this.

        * `batch_id`: ID of the batch.

        Raise RefusedError if there is no such batch, and UnavailableError if no master answers within `max_wait_s`.
        For example:

            batch = await pusher.batch_status(batch_id)
            print(batch["state"], batch["counts"])
        """
        return (await self._call("GET", path_of_batch(batch_id), of=batch_id)).body

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        job_ids: Sequence[str] = (),
        of: str = "",
        keyed: frozenset[int] = NONE_KEYED,
    ) -> MasterAnswer:
        """Repeat a call until there is a final answer.

        * `job_ids`: the jobs to enqueue.
        * `keyed`: the positions of jobs whose keys decide their IDs.
        * `of`: the job to read.
        """
        end_s = time.monotonic() + self._max_wait_s
        attempts = Attempts(self._masters, self._outage, end_s, job_ids)
        while True:
            address = self._masters.current
            failed: MasterAnswer | MasterUnreachableError
            try:
                failed = answer = await self._client.call(method, path, body)
                check_jobs(answer, job_ids, of, keyed)
                if answer.is_ok:
                    if answer.unserved or self._outage.is_known:
                        attempts.succeeded(answer)
                    return answer
                if (older := for_older_master(body, answer)) is not None:
                    body = older
                    continue
                if not answer.is_transient:
                    raise attempts.refused(answer, body)
            except MasterUnreachableError as exc:
                failed = exc
            except AnswerMismatchError:
                self._client.drop_idle()
                raise
            self._masters.failed(address)
            await asyncio.sleep(attempts.next_pause_s(failed))
