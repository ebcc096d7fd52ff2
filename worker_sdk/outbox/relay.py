"""Relays: they push the rows that were not pushed right after their commit, for example because no master answered."""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.outbox.rows import mark_of, to_people
from worker_sdk.outbox.steps import Done, adrive, drive, sweep

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox
    from worker_sdk.outbox.rows import OutboxStats, Rows
    from worker_sdk.outbox.steps import Steps

logger = logging.getLogger("worker_sdk.outbox")

# How long the rows of a transaction wait before the next try, if the master's backlog was full.
_PUT_OFF_MS: Final = 5_000
_MAX_PAUSE_S: Final = 30.0
_LATE_S: Final = 60.0
_TELL_EVERY_S: Final = 60.0


class _Rounds:
    """The common part of both relays: the rounds, the pauses between them, and the log lines."""

    def __init__(
        self, outbox: "Outbox", poll_s: float, on_stats: "Callable[[OutboxStats], object] | None"
    ) -> None:
        if poll_s <= 0:
            raise ValueError("poll_s must be positive")
        self.outbox = outbox
        self.poll_s = poll_s
        self.on_stats = on_stats
        self.token = uuid.uuid4().hex
        self._failed_rounds = 0
        # By destination: how often pushes have failed since the masters there last accepted jobs, and when to try
        # again.
        self._failing: dict[str | None, tuple[int, float]] = {}
        # The destinations in `_failing` that the current round tries again.
        self._tried: list[str | None] = []
        self._told_s = float("-inf")

    def steps(self) -> "Steps[Done | None]":
        """Return the steps of a round. A round tries at most one destination again that failed before."""
        now_s = time.monotonic()
        due = [(at_s, one) for one, (_, at_s) in self._failing.items() if at_s <= now_s]
        self._tried = [min(due, key=lambda one: one[0])[1]] if due else []
        tried = set(map(mark_of, self._tried))
        resting = set(map(mark_of, self._failing)) - tried
        return sweep(self.token, self.outbox.lease_ms, _PUT_OFF_MS, resting=resting, last=tried)

    def pause_s(self, done: Done | None) -> float:
        """Record the result of a round. Return the time to wait after it. 0: more rows may wait."""
        self._failed_rounds = 0
        done = done or Done()
        for destination in self._tried:
            # The destination has not failed in this round. If it had no rows, that says nothing about its masters.
            if destination not in done.failures:
                del self._failing[destination]
            if destination in done.served:
                logger.info("outbox: a master accepts jobs%s again", to_people(destination))
        for destination, error in done.failures.items():
            count = self._failing.get(destination, (0, 0.0))[0] + 1
            self._failing[destination] = count, time.monotonic() + self._backoff_s(count)
            if count == 1:
                self._tell_failure(error, to_people(destination))
        return 0.0 if done.pushed or done.failures else self.poll_s

    def begin_all(self) -> None:
        """Prepare for rounds that push everything."""
        self._failing.clear()

    def sum_up(self, done: Done, total: Done) -> None:
        """Add the result of a round to the total, and exclude destinations that failed from the next rounds."""
        total.pushed += done.pushed
        total.set_aside += done.set_aside
        total.put_off += done.put_off
        total.failures.update(done.failures)
        total.served |= done.served
        self._failing.update(dict.fromkeys(done.failures, (1, float("inf"))))

    def failed(self, error: Exception) -> float:
        """Record a round that an error ended, such as an error of the database. Return the time to wait."""
        self._failed_rounds += 1
        if self._failed_rounds == 1:
            self._tell_failure(error, "")
        return self._backoff_s(self._failed_rounds)

    def _backoff_s(self, failures: int) -> float:
        return float(min(self.poll_s * 2 ** min(failures, 10), _MAX_PAUSE_S))

    def _tell_failure(self, error: Exception, whither: str) -> None:
        name = type(error).__name__
        logger.warning("outbox: jobs%s cannot be pushed, they wait (%s: %s)", whither, name, error)

    @property
    def is_telling_due(self) -> bool:
        return self.on_stats is not None or time.monotonic() - self._told_s >= _TELL_EVERY_S

    def report(self, stats: "OutboxStats") -> None:
        """Pass the figures to `on_stats`. Once a minute, log the figures that need attention."""
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
                "outbox: a newer release wrote %d rows, which are not pushed: upgrade this relay", stats.newer
            )


class Relay:
    """Push the jobs of an outbox, in a thread.

    * `outbox`: the outbox.
    * `poll_s`: seconds between two checks of the table while there is nothing to do.
    * `on_stats`: is called after each round with an `OutboxStats`, for metrics.

    Any number of relays may run at a time: each transaction is pushed by one relay, in the order of its jobs.

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
        """Push the rows that no other process works on. Return the result, or None if there are no such rows.

        Raise the errors of the database. An error of the master is the `failure` of the result.

        For example:

            done = relay.run_once()
            if done is not None:
                print(done.pushed)"""
        return drive(self._rounds.steps(), SyncOf(self._rounds.outbox))

    def run_all(self) -> Done:
        """Push the rows that no other process works on, and return the result of all rounds. A destination is
        skipped after its first failure.

        Raise the errors of the database. Errors of masters are the `failures` of the result.

        For example:

            done = relay.run_all()
            print(done.pushed, done.failure)
        """
        total = Done()
        self._rounds.begin_all()
        while (done := self.run_once()) is not None:
            self._rounds.sum_up(done, total)
        return total

    def stop(self) -> None:
        """Let `run` return after its current round. Any thread may call it."""
        self._ending.set()

    def _tell(self) -> None:
        if self._rounds.is_telling_due:
            self._rounds.report(self._rounds.outbox.stats())


class AsyncRelay:
    """Push the jobs of an outbox, in an event loop:

        relay = AsyncRelay(outbox, poll_s=0.5)
        task = asyncio.create_task(relay.run())
        task.cancel()

    * `outbox`: the outbox.
    * `poll_s`: seconds between two checks of the table while there is nothing to do.
    * `on_stats`: is called after each round with an `OutboxStats`, for metrics.

    Any number of relays may run at a time: each transaction is pushed by one relay, in the order of its jobs.
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
        """Push the rows that no other process works on. Return the result, or None if there are no such rows.

        Raise the errors of the database. An error of the master is the `failure` of the result.

        For example:

            done = await relay.run_once()
            if done is not None:
                print(done.pushed)"""
        return await adrive(self._rounds.steps(), AsyncOf(self._rounds.outbox))

    async def run_all(self) -> Done:
        """Push the rows that no other process works on, and return the result of all rounds. A destination is
        skipped after its first failure.

        Raise the errors of the database. Errors of masters are the `failures` of the result.

        For example:

            done = await relay.run_all()
            print(done.pushed, done.failure)
        """
        total = Done()
        self._rounds.begin_all()
        while (done := await self.run_once()) is not None:
            self._rounds.sum_up(done, total)
        return total


class SyncOf:
    """Access of `drive` to the database and the masters of an outbox."""

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox

    def in_transaction(self, work: "Callable[[Rows], Any]") -> Any:
        return self._outbox.in_own_transaction(work)

    def read(self, work: "Callable[[Rows], Any]") -> Any:
        return self._outbox.own_read(work)

    def push(self, jobs: list[dict[str, Any]], destination: str | None) -> None:
        self._outbox.pushers(destination).sync_pusher().enqueue_many(jobs)


class AsyncOf:
    """Access of `adrive` to the database and the masters of an outbox."""

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox

    async def in_transaction(self, work: "Callable[[Rows], Any]") -> Any:
        return await self._outbox.ain_transaction(work)

    async def read(self, work: "Callable[[Rows], Any]") -> Any:
        return await self._outbox.aread(work)

    async def push(self, jobs: list[dict[str, Any]], destination: str | None) -> None:
        await self._outbox.pushers(destination).pusher().enqueue_many(jobs)
