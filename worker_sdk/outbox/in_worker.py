"""Middleware that relays an outbox inside a worker."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from worker_sdk.middleware.base import Middleware
from worker_sdk.outbox.relay import AsyncRelay, Relay

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox


class OutboxRelay(Middleware):
    """Relay an outbox inside a worker, from its start to its end: `Worker(middleware=[OutboxRelay(outbox)])`.

    * `outbox`: the outbox.
    * `poll_s`: as for `Relay`.

    For example:

        worker = Worker(tasks=tasks, middleware=[OutboxRelay(outbox)])
    """

    def __init__(self, outbox: "Outbox", *, poll_s: float = 1.0) -> None:
        self._outbox = outbox
        self._poll_s = poll_s
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        if self._outbox.is_async:
            self._task = asyncio.create_task(AsyncRelay(self._outbox, poll_s=self._poll_s).run())
        else:
            self._relay = Relay(self._outbox, poll_s=self._poll_s)
            self._task = asyncio.create_task(asyncio.to_thread(self._relay.run))

    async def on_stop(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        if self._relay is not None:
            # A thread cannot be canceled: the relay ends after its current round.
            self._relay.stop()
        else:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
