"""Confirm starts: handlers with `confirm_start` run only after the store has confirmed their claim."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterUnreachableError, pause_s
from worker_sdk.wire import encode
from worker_sdk.worker.identity import WorkerIdentity

if TYPE_CHECKING:
    from worker_sdk.protocol import StartRequest

logger = logging.getLogger(__name__)

MAX_BATCH: Final = 500


class StartConfirmer:
    """Collects requests while a call is in progress, as the report queue does, and repeats each call until a master
    answers. A wait is cancelled at the end of the lease.
    """

    def __init__(self, client: MasterClient, identity: WorkerIdentity) -> None:
        self._client = client
        self._identity = identity
        # By token: the ID of the job, and the future of the answer.
        self._waiting: dict[str, tuple[str, asyncio.Future[bool]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def may_start(self, job_id: str, token: str) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[token] = (job_id, answer)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._ask(), name="jq-starts")
        try:
            return await answer
        finally:
            self._waiting.pop(token, None)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        tries = 0
        while self._waiting:
            batch = [(job_id, token) for token, (job_id, _) in list(self._waiting.items())[:MAX_BATCH]]
            worker_id = self._identity.worker_id
            retry_after_s = None
            if worker_id is not None:
                body: StartRequest = {
                    "starts": [{"job_id": job_id, "token": token} for job_id, token in batch]
                }
                try:
                    answer = await self._client.call("POST", f"/api/workers/{worker_id}/start", encode(body))
                except MasterUnreachableError as exc:
                    logger.debug("no answer to a start: %s", exc)
                else:
                    if answer.is_ok:
                        confirmed, stale = answer.ids("confirmed"), answer.ids("stale")
                        for job_id, token in batch:
                            if job_id in confirmed or job_id in stale:
                                self._tell(token, may=job_id in confirmed)
                        tries = 0
                        if confirmed or stale:
                            continue
                    elif not answer.is_transient and answer.status not in (401, 403):
                        # The master does not know the worker, or cannot confirm starts. Do not run the jobs without a
                        # confirmation.
                        logger.warning("starts were refused: %s", answer)
                        for _, token in batch:
                            self._tell(token, may=False)
                        continue
                    retry_after_s = answer.retry_after_s
            tries += 1
            await asyncio.sleep(pause_s(tries, retry_after_s, max_s=1.0))

    def _tell(self, token: str, *, may: bool) -> None:
        _, answer = self._waiting.pop(token, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(may)
