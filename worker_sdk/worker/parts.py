"""Send partial results to the masters, with one call at a time for each claim, so that their order is kept."""

import asyncio
import itertools
import logging
import os
from collections import deque
from concurrent.futures import Future
from typing import Final, NamedTuple

from worker_sdk.errors import PartNotKept
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterUnreachableError, pause_s
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import now_s

logger = logging.getLogger(__name__)

# The maximum number and total size of the partial results in one call.
MAX_PARTS_PER_CALL: Final = 200
MAX_BYTES_PER_CALL: Final = 1024 * 1024


class _WaitingPart(NamedTuple):
    value: bytes
    kept: "Future[None]"


class PartSender:
    """Sends partial results from the event loop in which it was made."""

    def __init__(self, client: MasterClient, identity: WorkerIdentity) -> None:
        self._client = client
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._waiting: dict[str, deque[_WaitingPart]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        # Number the partial results of all claims together, so that the numbers grow within each claim.
        self._numbers = itertools.count(1)

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        """Send an encoded value. The future completes when a master has the value, or fails with PartNotKept. Any
        thread may call it."""
        kept: Future[None] = Future()
        kept.set_running_or_notify_cancel()
        if os.getpid() != self._pid:
            kept.set_exception(PartNotKept("a process that a handler forked cannot emit"))
            return kept
        try:
            self._loop.call_soon_threadsafe(self._add, job_id, token, _WaitingPart(value, kept), deadline_s)
        except RuntimeError:  # the loop is closed
            kept.set_exception(PartNotKept("the worker has ended"))
        return kept

    def _add(self, job_id: str, token: str, part: _WaitingPart, deadline_s: float) -> None:
        waiting = self._waiting.get(token)
        if waiting is not None:
            waiting.append(part)
            return
        self._waiting[token] = deque([part])
        task = self._loop.create_task(self._send_all(job_id, token, deadline_s))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_all(self, job_id: str, token: str, deadline_s: float) -> None:
        waiting = self._waiting[token]
        why = "the worker has ended"
        try:
            while waiting:
                parts = _taken(waiting)
                try:
                    await self._send(job_id, token, [part.value for part in parts], deadline_s)
                except PartNotKept as exc:
                    for part in parts:
                        part.kept.set_exception(PartNotKept(*exc.args))
                    continue
                except BaseException:
                    waiting.extendleft(reversed(parts))
                    raise
                for part in parts:
                    part.kept.set_result(None)
        finally:
            del self._waiting[token]
            for part in waiting:
                part.kept.set_exception(PartNotKept(why))

    async def _send(self, job_id: str, token: str, values: list[bytes], deadline_s: float) -> None:
        """Repeat the call until a master has answered. Raise PartNotKept if the master refuses, or after
        `deadline_s`."""
        first = next(self._numbers)
        for _ in values[1:]:
            next(self._numbers)
        body = encode_parts(job_id, token, first, values)
        tries = 0
        while True:
            worker_id = self._identity.worker_id
            retry_after_s = None
            if worker_id is not None:
                try:
                    answer = await self._client.call("POST", f"/api/workers/{worker_id}/parts", body)
                except MasterUnreachableError as exc:
                    logger.debug("no answer to partial results: %s", exc)
                else:
                    if answer.is_ok:
                        return
                    if not answer.is_transient:
                        detail = answer.body.get("detail") if isinstance(answer.body, dict) else None
                        raise PartNotKept(
                            str(detail or f"a master refused the partial result with status {answer.status}")
                        )
                    retry_after_s = answer.retry_after_s
            tries += 1
            wait_s = pause_s(tries, retry_after_s, max_s=1.0)
            if now_s() + wait_s >= deadline_s:
                raise PartNotKept("no master accepted the partial result in time")
            await asyncio.sleep(wait_s)


def encode_parts(job_id: str, token: str, first: int, values: list[bytes]) -> bytes:
    """Return the body of a call, with the values unchanged, because they are already encoded."""
    import msgpack

    packer = msgpack.Packer()
    head = packer.pack_map_header(4)
    for name, value in (("job_id", job_id), ("token", token), ("first", first)):
        head += packer.pack(name) + packer.pack(value)
    return bytes(head + packer.pack("parts") + packer.pack_array_header(len(values)) + b"".join(values))


def _taken(waiting: deque[_WaitingPart]) -> list[_WaitingPart]:
    """Take the partial results for the next call: at least one, up to the limits of a call."""
    parts = [waiting.popleft()]
    size = len(parts[0].value)
    while waiting and len(parts) < MAX_PARTS_PER_CALL and size + len(waiting[0].value) <= MAX_BYTES_PER_CALL:
        size += len(waiting[0].value)
        parts.append(waiting.popleft())
    return parts
