"""Send log lines of jobs to the masters in batches, without ever delaying anything else."""

import asyncio
import logging
import os
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Final

import msgpack

from worker_sdk import forked
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, MasterUnreachableError, pause_s
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.job_log import MAX_LINE_CHARS, cut

logger = logging.getLogger(__name__)

# How long lines are collected before they are sent, so that a handler that writes line by line causes few calls.
GATHER_S: Final = 0.2
MAX_LINES_PER_CALL: Final = 5_000
MAX_BYTES_PER_CALL: Final = 1024 * 1024
# The maximum number and size of the lines in memory. Above these limits, the oldest lines are dropped: masters cannot
# be reached, or a job writes too much.
MAX_HELD_LINES: Final = 50_000
MAX_HELD_BYTES: Final = 8 * 1024 * 1024
# The estimated memory of a line in addition to its text.
LINE_BYTES: Final = 200
# How long to pause if a master stores no logs or refuses the lines.
REFUSED_PAUSE_S: Final = 60.0


class ClaimLog:
    """The log of one claim."""

    # The number of the last line that was sent or dropped.
    seq = 0
    has_lines = False
    # Whether masters have received lines of this claim, or certainly will not receive any. Masters that have lines of a
    # claim accept its last lines even after its end.
    is_told = False
    is_over = False

    def __init__(self, sender: "LogSender", job_id: str, token: str) -> None:
        self._sender = sender
        self.job_id = job_id
        self.token = token

    def write(self, at_s: float, level: str, text: str) -> None:
        self._sender.add(self, at_s, level, text)

    def flush(self) -> Future[None] | None:
        """See `RunLog`. Only the first call for a claim waits, so that the claim does not wait again for a master that
        does not answer."""
        if self.is_told or not self.has_lines:
            return None
        self.is_told = True
        return self._sender.send_now(self)


# A line: its log, its time in seconds since 1970, its level and its text. Its number follows from its position.
_Line = tuple[ClaimLog, float, str, str]


class LogSender:
    """Sends lines from the event loop in which it was made. Any thread may call `add`. The numbers of the lines show
    masters how many lines were dropped, and where."""

    def __init__(self, client: MasterClient, identity: WorkerIdentity) -> None:
        self._client = client
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._held: deque[_Line] = deque()
        self._held_bytes = 0
        self._dropped = 0
        self._sent: dict[str, set[ClaimLog]] = {}
        self._is_woken = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_hurried = asyncio.Event()
        self._is_stopping = False
        # Whether the last call failed. After a failure, no end of a claim waits for its lines.
        self._is_failing = False
        # Claims with an end that waits until masters have received their first lines. The future is done then.
        self._awaited: dict[ClaimLog, Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._packer = msgpack.Packer(autoreset=False, unicode_errors="replace")
        forked.renew_in_child(self)

    def renew(self) -> None:
        # Make a new lock: another thread may have held the old one when a handler forked. Lines of the forked process
        # never reach the masters.
        self._lock = threading.Lock()

    @property
    def is_started(self) -> bool:
        """Return whether `start` was called, and `stop` was not."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = self._loop.create_task(self._pump(), name="jq-logs")

    async def stop(self, timeout_s: float) -> None:
        """Send the remaining lines, for at most `timeout_s`."""
        self._is_stopping = True
        self._is_hurried.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d log lines of jobs were not sent", len(self._held))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._answer_all()
        forked.leave(self)

    def send_now(self, log: ClaimLog) -> Future[None] | None:
        """Until a master has the lines of this claim, send lines without delay. See `ClaimLog.flush`."""
        if not self.is_started or self._is_failing or log.is_over:
            return None
        self._is_hurried.set()
        answered = self._awaited[log] = Future[None]()
        return answered

    def _answer_all(self) -> None:
        """End all waits for lines, and collect lines again before sending them."""
        for answered in self._awaited.values():
            answered.set_result(None)
        self._awaited.clear()
        if not self._is_stopping:
            self._is_hurried.clear()

    def add(self, log: ClaimLog, at_s: float, level: str, text: str) -> None:
        """Add a line. This does not block."""
        if log.is_over or os.getpid() != self._pid:
            return
        if len(text) > MAX_LINE_CHARS:
            text = cut(text)
        # Do little here: this is called for every line while a handler runs. The event loop does the rest.
        with self._lock:
            log.has_lines = True
            self._held.append((log, at_s, level, text))
            self._held_bytes += len(text) + LINE_BYTES
            if self._held_bytes > MAX_HELD_BYTES or len(self._held) > MAX_HELD_LINES:
                self._make_room()
            if self._is_woken:
                return
            self._is_woken = True
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the loop is closed
            log.is_over = True

    def _make_room(self) -> None:
        while len(self._held) > MAX_HELD_LINES or self._held_bytes > MAX_HELD_BYTES:
            log, _, _, text = self._held.popleft()
            # Count the dropped line, so that masters see the gap in the numbers.
            log.seq += 1
            self._held_bytes -= len(text) + LINE_BYTES
            self._dropped += 1

    def _begin(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def _pump(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._gathered()
            while body := self._take():
                await self._send(body)
                self._answer_sent()
                if len(self._held) < MAX_LINES_PER_CALL:
                    await self._gathered()
            with self._lock:
                # From now on, a new line wakes the loop again.
                self._is_woken = bool(self._held)
            if self._held:
                self._wake.set()
            else:
                # No lines are left. If the end of a claim still waits for lines, these lines were dropped, so let it
                # continue.
                self._answer_all()
                self._idle.set()

    def _answer_sent(self) -> None:
        for logs in self._sent.values():
            for log in logs:
                log.is_told = True
                if answered := self._awaited.pop(log, None):
                    answered.set_result(None)
        if not self._awaited and not self._is_stopping:
            self._is_hurried.clear()

    async def _gathered(self) -> None:
        try:
            async with asyncio.timeout(GATHER_S):
                await self._is_hurried.wait()
        except TimeoutError:
            pass

    def _take(self) -> bytes:
        """Return the body of the next call. Return an empty body if there is nothing to send."""
        lines, seqs, size = list[_Line](), list[int](), 0
        with self._lock:
            while self._held and len(lines) < MAX_LINES_PER_CALL and size < MAX_BYTES_PER_CALL:
                line = self._held.popleft()
                log = line[0]
                log.seq += 1
                size += len(line[3]) + LINE_BYTES
                seqs.append(log.seq)
                lines.append(line)
            self._held_bytes -= size
            dropped, self._dropped = self._dropped, 0
        if dropped:
            logger.warning("%d log lines of jobs were dropped: there were more than could be sent", dropped)
        return self._encoded(lines, seqs)

    def _encoded(self, lines: list[_Line], seqs: list[int]) -> bytes:
        packer = self._packer
        packer.reset()
        last: ClaimLog | None = None
        sent = self._sent = {}
        count = 0
        for (log, at_s, level, text), seq in zip(lines, seqs, strict=True):
            if log.is_over:
                continue
            count += 1
            entry: dict[str, Any] = {"seq": seq, "at": int(at_s * 1000), "level": level, "text": text}
            if log is not last:
                sent.setdefault(log.job_id, set()).add(log)
                # Name a claim only in its first entry. The following entries without a claim belong to the same claim.
                last = log
                entry["job_id"], entry["token"] = log.job_id, log.token
            # Encode each map immediately: thousands of maps in memory would keep the garbage collector busy.
            packer.pack(entry)
        if not count:
            return b""
        entries = bytes(packer.bytes())
        packer.reset()
        packer.pack_map_header(1)
        packer.pack("entries")
        packer.pack_array_header(count)
        return bytes(packer.bytes()) + entries

    async def _send(self, body: bytes) -> None:
        """Repeat the call until a master has answered."""
        tries = 0
        while True:
            worker_id = self._identity.worker_id
            retry_after_s = None
            if worker_id is not None:
                try:
                    answer = await self._client.call("POST", f"/api/workers/{worker_id}/logs", body)
                except MasterUnreachableError as exc:
                    logger.debug("no answer to log lines: %s", exc)
                else:
                    if answer.is_ok:
                        self._is_failing = False
                        self._note_stale(answer)
                        return
                    if not answer.is_transient:
                        await self._refused(answer)
                        return
                    retry_after_s = answer.retry_after_s
            if self._is_stopping and worker_id is None:
                return
            self._is_failing = True
            self._answer_all()
            tries += 1
            await asyncio.sleep(pause_s(tries, retry_after_s, max_s=2.0))

    def _note_stale(self, answer: MasterAnswer) -> None:
        if refused := answer.body.get("refused"):
            logger.warning("a master ignored log lines of jobs: %s", refused)
        for job_id in answer.ids("stale"):
            logs = self._sent.get(job_id, set())
            # If several claims of the job have sent lines, it is unknown which of them is over.
            if len(logs) == 1:
                logs.pop().is_over = True

    async def _refused(self, answer: MasterAnswer) -> None:
        if answer.status == 404 and answer.code == "unknown_worker":
            # The worker registers again, and its old claims are over, so their lines need not be sent.
            return
        logger.warning("a master refused log lines of jobs: %s", answer)
        if answer.status in (404, 405):
            # This master is too old to store job logs. Drop the oldest lines until another one answers.
            self._is_failing = True
            self._answer_all()
            try:
                async with asyncio.timeout(REFUSED_PAUSE_S):
                    await self._is_hurried.wait()
            except TimeoutError:
                pass
            self._is_failing = False
