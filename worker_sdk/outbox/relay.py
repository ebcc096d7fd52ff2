"""Relays push rows that direct pushes did not push: after a crash, and while no master answered."""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.outbox.steps import Done, adrive, drive, sweep

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox
    from worker_sdk.outbox.rows import OutboxStats, Rows
    from worker_sdk.outbox.steps import Steps

logger = logging.getLogger("worker_sdk.outbox")

# How long the rows of a transaction wait for room in a backlog before they are tried again.
_PUT_OFF_MS: Final = 5_000
_MAX_PAUSE_S: Final = 30.0
_LATE_S: Final = 60.0
_TELL_EVERY_S: Final = 60.0


class _Rounds:
    """The common part of both relays: the pause after each round, and the lines of the log."""

    def __init__(
        self, outbox: "Outbox", poll_s: float, on_stats: "Callable[[OutboxStats], object] | None"
    ) -> None:
        if poll_s <= 0:
            raise ValueError("poll_s must be positive")
        self.outbox = outbox
        self.poll_s = poll_s
        self.on_stats = on_stats
        self.token = uuid.uuid4().hex
        self._failures = 0
        self._told_s = float("-inf")

    def steps(self) -> "Steps[Done | None]":
        return sweep(self.token, self.outbox.lease_ms, _PUT_OFF_MS)

    def pause_s(self, done: Done | None) -> float:
        """Return the time to wait after a round; 0 if more rows may wait."""
        if done is not None and done.failure is not None:
            return self.failed(done.failure)
        if self._failures:
            self._failures = 0
            logger.info("outbox: a master accepts jobs again")
        return 0.0 if done is not None and done.pushed else self.poll_s

    def failed(self, error: Exception) -> float:
        """Record a failed round, and return the time to wait."""
        self._failures += 1
        if self._failures == 1:
            logger.warning("outbox: jobs cannot be pushed, they wait (%s: %s)", type(error).__name__, error)
        return float(min(self.poll_s * 2 ** min(self._failures, 10), _MAX_PAUSE_S))

    @property
    def is_telling_due(self) -> bool:
        return self.on_stats is not None or time.monotonic() - self._told_s >= _TELL_EVERY_S

    def report(self, stats: "OutboxStats") -> None:
        """Pass on the figures, and log once a minute if somebody should look at them."""
        if self.on_stats is not None:
            self.on_stats(stats)
        if time.monotonic() - self._told_s < _TELL_EVERY_S:
            return
        self._told_s = time.monotonic()
        if stats.lag_s >= _LATE_S:
            logger.warning("outbox: %d jobs wait, the oldest for %.0f s", stats.waiting, stats.lag_s)
        if stats.stuck:
            logger.error("outbox: %d jobs were refused by a master and set aside", stats.stuck)
        if stats.newer:
            logger.error(
                "outbox: %d rows are of a newer release and are left alone; upgrade this relay", stats.newer
            )


class Relay:
    """Push what an outbox holds, in a thread.

    * `outbox`: the outbox.
    * `poll_s`: time between two looks at the table while there is nothing to do.
    * `on_stats`: is called after each round with an `OutboxStats`, for metrics.

    Any number of relays may run at a time: each transaction is pushed by one of them, in the order of its jobs.

    For example:

        relay = Relay(outbox, poll_s=0.5)
        relay.run_once()
    """

    def __init__(
        self,
        outbox: "Outbox",
        *,
        poll_s: float = 1.0,
        on_stats: "Callable[[OutboxStats], object] | None" = None,
    ) -> None:
        self._rounds = _Rounds(outbox, poll_s, on_stats)
        self._ending = threading.Event()

    def __repr__(self) -> str:
        return f"<Relay of {self._rounds.outbox}>"

    def run(self) -> None:
        """Relay until `stop` is called, whatever the database and the masters do.

        Call it in a thread of its own:

            relay = Relay(outbox)
            thread = threading.Thread(target=relay.run)
            thread.start()
            relay.stop()
            thread.join()
        """
        while not self._ending.is_set():
            try:
                pause_s = self._rounds.pause_s(self.run_once())
                self._tell()
            except Exception as exc:
                logger.debug("outbox: a round failed", exc_info=True)
                pause_s = self._rounds.failed(exc)
            if pause_s:
                self._ending.wait(pause_s)

    def run_once(self) -> Done | None:
        """Push the rows that no other process works on. Return the result; None if there are none.

        Raise the errors of the database. An error of the master is the `failure` of the result.

        For example:

            done = relay.run_once()
            if done is not None:
                print(done.pushed)
        """
        return drive(self._rounds.steps(), SyncOf(self._rounds.outbox))

    def stop(self) -> None:
        """Let `run` return after its round. Any thread may call it."""
        self._ending.set()

    def _tell(self) -> None:
        if self._rounds.is_telling_due:
            self._rounds.report(self._rounds.outbox.stats())


class AsyncRelay:
    """Push what an outbox holds, in an event loop:

        relay = AsyncRelay(outbox, poll_s=0.5)
        task = asyncio.create_task(relay.run())
        task.cancel()

    * `outbox`: the outbox.
    * `poll_s`: time between two looks at the table while there is nothing to do.
    * `on_stats`: is called after each round with an `OutboxStats`, for metrics.

    Any number of relays may run at a time: each transaction is pushed by one of them, in the order of its jobs.
    """

    def __init__(
        self,
        outbox: "Outbox",
        *,
        poll_s: float = 1.0,
        on_stats: "Callable[[OutboxStats], object] | None" = None,
    ) -> None:
        self._rounds = _Rounds(outbox, poll_s, on_stats)

    def __repr__(self) -> str:
        return f"<AsyncRelay of {self._rounds.outbox}>"

    async def run(self) -> None:
        """Relay until the task is cancelled, whatever the database and the masters do.

        Call it in a task of its own:

            relay = AsyncRelay(outbox)
            task = asyncio.create_task(relay.run())
            task.cancel()
        """
        while True:
            try:
                pause_s = self._rounds.pause_s(await self.run_once())
                if self._rounds.is_telling_due:
                    self._rounds.report(await self._rounds.outbox.astats())
            except Exception as exc:
                logger.debug("outbox: a round failed", exc_info=True)
                pause_s = self._rounds.failed(exc)
            await asyncio.sleep(pause_s)

    async def run_once(self) -> Done | None:
        """Push the rows that no other process works on. Return the result; None if there are none.

        Raise the errors of the database. An error of the master is the `failure` of the result.

        For example:

            done = await relay.run_once()
            if done is not None:
                print(done.pushed)
        """
        return await adrive(self._rounds.steps(), AsyncOf(self._rounds.outbox))


class SyncOf:
    """The database and the masters of an outbox, for `drive`."""

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox

    def in_transaction(self, work: "Callable[[Rows], Any]") -> Any:
        return self._outbox.in_own_transaction(work)

    def read(self, work: "Callable[[Rows], Any]") -> Any:
        return self._outbox.own_read(work)

    def push(self, jobs: list[dict[str, Any]]) -> None:
        self._outbox.pushers().sync_pusher().enqueue_many(jobs)


class AsyncOf:
    """The database and the masters of an outbox, for `adrive`."""

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox

    async def in_transaction(self, work: "Callable[[Rows], Any]") -> Any:
        return await self._outbox.ain_transaction(work)

    async def read(self, work: "Callable[[Rows], Any]") -> Any:
        return await self._outbox.aread(work)

    async def push(self, jobs: list[dict[str, Any]]) -> None:
        await self._outbox.pushers().pusher().enqueue_many(jobs)
