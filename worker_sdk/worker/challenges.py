"""Open challenges at the masters: work that another system does, and then answers with a callback."""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from worker_sdk.errors import UnavailableError, refused
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterUnreachableError, pause_s
from worker_sdk.unsendable import sendable
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import now_s

logger = logging.getLogger(__name__)


class Challenges(Protocol):
    """The interface for a handler to open a challenge. Any thread may call it."""

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        """Open a challenge. The future gets the master's answer. It fails with RefusedError, or with UnavailableError
        after `deadline_s`."""
        ...


class ChallengeOpener:
    """Opens challenges from the event loop in which it was made. It repeats a call until a master has answered. All
    repeats have the same nonce: otherwise, masters would replace the challenge by a second challenge."""

    def __init__(self, client: MasterClient, identity: WorkerIdentity) -> None:
        self._client = client
        self._identity = identity
        self._loop = asyncio.get_running_loop()

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        request = {"job_id": job_id, "token": token, "nonce": secrets.token_urlsafe(24), **fields}
        return asyncio.run_coroutine_threadsafe(self._open(request, deadline_s), self._loop)

    async def _open(self, request: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
        tries = 0
        while True:
            worker_id = self._identity.worker_id
            retry_after_s = None
            if worker_id is not None:
                try:
                    answer = await self._client.call(
                        "POST", f"/api/workers/{worker_id}/challenges", sendable(dict(request))
                    )
                except MasterUnreachableError as exc:
                    logger.debug("no answer to a challenge: %s", exc)
                else:
                    if answer.is_ok:
                        return answer.body
                    if not answer.is_transient:
                        raise refused(answer.status, answer.body)
                    retry_after_s = answer.retry_after_s
            tries += 1
            wait_s = pause_s(tries, retry_after_s, max_s=1.0)
            if now_s() + wait_s >= deadline_s:
                raise UnavailableError("no master opened the challenge in time")
            await asyncio.sleep(wait_s)
