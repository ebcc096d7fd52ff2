"""Send the ends of jobs to a master. Each report is kept until a master has confirmed it."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, MasterUnreachableError, pause_s
from worker_sdk.unsendable import check_keys
from worker_sdk.wire import DecodeError, decode, encode, iso, packer
from worker_sdk.worker import outcomes
from worker_sdk.worker.answered_jobs import AnsweredJobs
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import StoreClock, now_s
from worker_sdk.worker.refusals import REPEAT_S

logger = logging.getLogger(__name__)

MAX_BATCH_ITEMS: Final = 500
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
# While more bytes of results than this wait, the worker accepts no jobs. The number of waiting results is limited by
# the number of jobs that the worker may hold.
MAX_HELD_BYTES: Final = 64 * 1024 * 1024

HEAD: Final = b"\x81" + encode("results") + b"\xdc"
_JOB_ID: Final = encode("job_id")
_TOKEN: Final = encode("token")
_FINISHED_AT: Final = encode("finished_at")
_OWN_FIELDS: Final = 3
# The number of fields in `outcomes.success`, the most frequent report, which `_encode` treats specially.
_SUCCESS_FIELDS: Final = 2
_SUCCESS_HEAD: Final = (0x80 + _OWN_FIELDS + _SUCCESS_FIELDS).to_bytes(1, "big") + _JOB_ID
_SUCCESS: Final = encode("type") + encode("success") + encode("result")
_STAMP_S: Final = 0.001
# Fields that older masters refuse, from the newest to the oldest.
_ADDED_FIELDS: Final = ("called_at_ms", "used")


class Item:
    """A report in the queue. `data`: the encoded map that the master gets."""

    __slots__ = ("data", "job_id", "token")
    goes_alone = False
    is_substitute = False

    def __init__(self, job_id: str, token: str, data: bytes) -> None:
        self.job_id = job_id
        self.token = token
        self.data = data


class SingleItem(Item):
    """An item that is sent alone, because a call with several items was refused."""

    __slots__ = ()
    goes_alone = True


class RefusedResultItem(SingleItem):
    """An item that reports that the master refused the job's result."""

    __slots__ = ()
    is_substitute = True


class ReportQueue:
    """Sends reports from the event loop. `on_answered(tokens)` is called once for each item that a master has
    confirmed, and `on_unknown_worker(worker_id)` if a master does not know this worker. `next_jobs`: takes the jobs
    that come with answers. None: answers must not carry jobs."""

    def __init__(self, client: MasterClient, identity: WorkerIdentity, clock: StoreClock) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._on_answered: Callable[[list[str]], object] = lambda tokens: None
        self._on_unknown_worker: Callable[[str], object] = lambda worker_id: None
        self._next_jobs: AnsweredJobs | None = None
        self._packer = packer()
        self._pending: deque[Item] = deque()
        self._held_bytes = 0
        self._under_way: list[Item] = []
        # Whether some of the items have to be sent in calls of their own.
        self._are_alone = False
        self._wake: asyncio.Future[None] | None = None
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._task: asyncio.Task[None] | None = None
        self._finished_at = b""
        self._stamped_s = float("-inf")
        self._tries = 0
        self._warned_s = float("-inf")

    def __len__(self) -> int:
        return len(self._pending) + len(self._under_way)

    @property
    def is_full(self) -> bool:
        return self._held_bytes > MAX_HELD_BYTES

    def start(
        self,
        *,
        on_answered: Callable[[list[str]], object],
        on_unknown_worker: Callable[[str], object],
        next_jobs: AnsweredJobs | None = None,
    ) -> None:
        self._on_answered = on_answered
        self._next_jobs = next_jobs
        self._on_unknown_worker = on_unknown_worker
        self._task = asyncio.get_running_loop().create_task(self._pump(), name="jq-reports")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every report is answered. Return False if the time runs out first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True

    def unreported(self) -> list[bytes]:
        """Return the encoded reports that no master has confirmed."""
        return [item.data for item in (*self._under_way, *self._pending)]

    def send_with(self, send: Callable[[bytes], bool]) -> None:
        """Send the remaining reports with `send`, which returns whether a master has confirmed them. Call this only
        after this queue was stopped."""
        self._put_back(self._under_way)
        while self._pending:
            batch = self._take()
            if not send(_body(batch)):
                self._put_back(batch)
                return
            self._delivered(batch)

    def encoded(self, job_id: str, token: str, fields: outcomes.Fields) -> bytes:
        """Return an encoded report without adding it to the queue. `fields`: values that can always be encoded."""
        return self._encode(job_id, token, fields)

    def put(self, job_id: str, token: str, fields: outcomes.Fields) -> None:
        """Add a report; call it from the event loop. If the value cannot be sent, a failure that says so is reported
        instead."""
        try:
            data = self._encode(job_id, token, fields)
            check_keys(fields)
        except Exception as exc:  # encoding a value of a handler may raise anything
            data = self._encode(job_id, token, outcomes.unsendable(exc, fields))
        self._add(Item(job_id, token, data))

    def put_successes(self, ends: Iterable[tuple[str, str, Any]]) -> None:
        """Add reports of jobs that succeeded: tuples of ID, token and result. Call it from the event loop."""
        pack, join = self._packer.pack, b"".join
        success = self._stamp() + _SUCCESS
        no_result = success + pack(None)
        items = []
        for job_id, token, value in ends:
            if value is None:
                data = join((_SUCCESS_HEAD, pack(job_id), _TOKEN, pack(token), no_result))
            else:
                try:
                    data = join((_SUCCESS_HEAD, pack(job_id), _TOKEN, pack(token), success, pack(value)))
                    check_keys(value)
                except Exception:  # `put` finds the reason and reports it
                    self.put(job_id, token, outcomes.success(value))
                    continue
            items.append(Item(job_id, token, data))
        self._add(*items)

    def _stamp(self) -> bytes:
        """Return the encoded field `finished_at` with the current time."""
        now = now_s()
        if not 0 <= now - self._stamped_s < _STAMP_S:
            instant = datetime.fromtimestamp(self._clock.estimate_ms(now) / 1000, UTC)
            self._finished_at, self._stamped_s = _FINISHED_AT + self._packer.pack(iso(instant)), now
        return self._finished_at

    def _encode(self, job_id: str, token: str, fields: outcomes.Fields) -> bytes:
        pack = self._packer.pack
        finished_at = self._stamp()
        # Join the two encoded maps. Each map is so small that its head is one byte: 0x80 plus its number of fields.
        if fields["type"] == "success" and len(fields) == _SUCCESS_FIELDS:
            head, ending = _SUCCESS_HEAD, _SUCCESS + pack(fields["result"])
        else:
            head, ending = (0x80 + _OWN_FIELDS + len(fields)).to_bytes(1, "big") + _JOB_ID, pack(fields)[1:]
        return b"".join((head, pack(job_id), _TOKEN, pack(token), finished_at, ending))

    def _add(self, *items: Item) -> None:
        if not items:
            return
        if not self._held_bytes:
            self._emptied.clear()
        self._pending.extend(items)
        self._held_bytes += sum([len(item.data) for item in items])
        if self._wake is not None:
            if not self._wake.done():
                self._wake.set_result(None)
            self._wake = None

    async def _pump(self) -> None:
        """Send one call at a time. Reports that arrive meanwhile go with the next call (natural batching)."""
        while True:
            if not self._pending:
                self._are_alone = False
                self._emptied.set()
                self._wake = wake = asyncio.get_running_loop().create_future()
                await wake
            worker_id = self._identity.worker_id
            if worker_id is None:
                await self._identity.settled(1.0)
                continue
            self._under_way = batch = self._take()
            try:
                retry_after_s = await self._deliver(worker_id, batch)
            except MasterUnreachableError as exc:
                logger.log(self._level(), "results are kept: no answer from a master (%s)", exc)
                retry_after_s = 0.0
            except Exception:
                # Never end this loop, which alone sends results.
                logger.exception("results are kept")
                retry_after_s = 0.0
            if retry_after_s is None:
                self._tries = 0
                continue
            self._put_back(self._under_way)
            self._tries += 1
            await asyncio.sleep(pause_s(self._tries, retry_after_s))

    async def _deliver(self, worker_id: str, batch: list[Item]) -> float | None:
        """Send a batch. Return the minimum seconds before the next try. None: do not wait."""
        next_jobs = self._next_jobs
        answer = await self._client.call(
            "POST",
            f"/api/workers/{worker_id}/results",
            _body(batch),
            # Ask for jobs only if a slot is free. Otherwise, the worker would have to hand them back.
            fields=""
            if next_jobs is None
            or next_jobs.admission.is_leaving
            or (next_jobs.admission.share is not None and next_jobs.admission.share.has_to_yield)
            or self._identity.is_drain_ordered
            or next_jobs.descriptors.is_short
            or self._held_bytes > MAX_HELD_BYTES
            else next_jobs.field_line,
        )
        if answer.is_ok:
            stale = answer.ids("stale")
            named = answer.ids("accepted") | stale
            if logger.isEnabledFor(logging.DEBUG):
                for job_id in named:
                    text = "stale: the job is not this worker's any more" if job_id in stale else "settled"
                    logger.debug("job %s: the master has answered the report of its end: %s", job_id, text)
            self._under_way = [item for item in batch if item.job_id not in named]
            self._delivered([item for item in batch if item.job_id in named] if self._under_way else batch)
            if "jobs" in answer.body and next_jobs is not None:
                next_jobs.take(worker_id, answer.body)
            return 0.0 if self._under_way else None
        if answer.status == 404 and answer.code == "unknown_worker":
            self._on_unknown_worker(worker_id)
        elif answer.is_transient or answer.status in (401, 403, 404):
            logger.log(self._level(), "results are kept: the master answered %s", answer)
        else:
            self._refused(batch, answer)
            return None
        return answer.retry_after_s or 0.0

    def _take(self) -> list[Item]:
        if (
            self._held_bytes <= MAX_BATCH_BYTES
            and len(self._pending) <= MAX_BATCH_ITEMS
            and not self._are_alone
        ):
            # Usually all items fit into one call.
            batch = list(self._pending)
            self._pending.clear()
            return batch
        batch = [self._pending.popleft()]
        size = len(batch[0].data)
        while self._pending and len(batch) < MAX_BATCH_ITEMS and not batch[0].goes_alone:
            following = self._pending[0]
            size += len(following.data)
            if size > MAX_BATCH_BYTES or following.goes_alone:
                break
            batch.append(self._pending.popleft())
        return batch

    def _put_back(self, batch: list[Item]) -> None:
        self._under_way = []
        self._pending.extendleft(reversed(batch))

    def _refused(self, batch: list[Item], answer: MasterAnswer) -> None:
        """Send each item alone, so that an invalid item does not delay the other items. Replace the invalid item by a
        failure that states the reason."""
        self._under_way = []
        if len(batch) > 1:
            self._put_back([SingleItem(item.job_id, item.token, item.data) for item in batch])
            self._are_alone = True
            return
        item = batch[0]
        if (plainer := _without_added(item.data)) is not None:
            # Send the result again without the field: an older master does not know it.
            self._held_bytes += len(plainer) - len(item.data)
            self._put_back([SingleItem(item.job_id, item.token, plainer)])
            return
        logger.error("the master refused the result of job %s: %s", item.job_id, answer)
        if item.is_substitute:
            # No simpler report is possible. The master learns of the end when the lease ends.
            self._delivered([item])
            return
        data = self._encode(item.job_id, item.token, _substitute(item.data, answer))
        self._held_bytes += len(data) - len(item.data)
        self._put_back([RefusedResultItem(item.job_id, item.token, data)])
        self._are_alone = True

    def _delivered(self, items: list[Item]) -> None:
        self._held_bytes -= sum(len(item.data) for item in items)
        self._on_answered([item.token for item in items])

    def _level(self) -> int:
        """Return WARNING for the first failure in a row and once a minute, and DEBUG for the other repeats."""
        if self._tries and now_s() - self._warned_s < REPEAT_S:
            return logging.DEBUG
        self._warned_s = now_s()
        return logging.WARNING


def batches_of(reports: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield the encoded reports in lists, each of which fits into one call."""
    batch: list[bytes] = []
    size = 0
    for one in reports:
        if batch and (len(batch) == MAX_BATCH_ITEMS or size + len(one) > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one)
    if batch:
        yield batch


def _body(batch: list[Item]) -> bytes:
    return b"".join((HEAD, len(batch).to_bytes(2, "big"), *[item.data for item in batch]))


def _without_added(refused: bytes) -> bytes | None:
    """Return the report without the newest field that an older master may not know, or None if it has no such field."""
    try:
        fields = decode(refused)
    except DecodeError:
        return None
    for added in _ADDED_FIELDS:
        if added in fields:
            return encode({name: value for name, value in fields.items() if name != added})
    return None


def _substitute(refused: bytes, answer: MasterAnswer) -> outcomes.Fields:
    """Return the simplest failure that describes what happened. A failure keeps its own message, because a master that
    is older than the SDK may have refused only a new value in the report. For such a master, a discarded job becomes a
    job that failed for good."""
    try:
        fields = decode(refused)
    except DecodeError:  # the value that a handler returned can be encoded, but not decoded
        fields = {}
    if fields.get("type") not in ("failure", "discarded"):
        return outcomes.failure(f"the master refused the result: {answer}", should_retry=False)
    message = f"{fields['message']} (the master refused the whole report: {answer})"
    return outcomes.failure(message, should_retry=fields.get("should_retry", False))
