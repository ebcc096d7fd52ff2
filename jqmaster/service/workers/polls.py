"""Holds the long polls of pulling workers that wait at this master."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.clock import WakeFlag
from jqmaster.domain.ids import is_id
from jqmaster.errors import ConflictError, JqmasterError, OverloadedError, RateLimitedError, unknown_worker
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.workers.polls import NoPoll, PollReply, PollStore

logger = logging.getLogger(__name__)

MAX_WAIT_S: Final = 60.0
# Minimum wait of a poll, even if the worker requests a shorter one. The leader may be another master, and needs a
# moment to claim jobs for the worker.
MIN_WAIT_S: Final = 0.25
# Interval at which the store is read for waiting polls, because the message about new jobs may be lost.
LOOK_S: Final = 2.0
# Retry-After for a poll that a newer poll of the same worker has replaced. It slows down a client that polls in a loop.
AGAIN_AFTER_S: Final = 1
# Time for which a worker gets no jobs after it has refused a job. Otherwise, a worker that refuses all jobs would keep
# the store busy.
AFTER_REFUSAL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's request for jobs.

    * `poll_id`: the same in a call and in its repeat, which the worker sends if the answer was lost. A call with ""
      cannot be repeated.
    * `refused`: the job ID and the token of each offer that the worker refuses.
    * `withdraws`: whether the worker withdraws its poll instead.
    """

    max_jobs: int
    wait_s: float
    poll_id: str = ""
    refused: Sequence[tuple[str, str]] = ()
    withdraws: bool = False


class _Hanging:
    __slots__ = ("call_id", "id", "is_gone", "is_replaced", "news", "opened", "reply")

    def __init__(self, poll_id: str) -> None:
        self.id = poll_id
        # Distinguishes this call from a repeat of the same poll. A client that got no answer repeats its poll, maybe at
        # another master.
        self.call_id = secrets.token_hex(8)
        self.news = WakeFlag()
        # Set once the poll has been written to the store, or will not be written any more.
        self.opened = WakeFlag()
        self.reply: PollReply | None = None
        self.is_gone = False
        self.is_replaced = False

    def client_left(self) -> None:
        self.is_gone = True
        self.news.set()


class HeldPolls:
    """Component: holds the polls of workers until there are jobs for them. A poll offers a worker's free slots to the
    leader.

    The store has each poll, so every leader finds it. The store also has the jobs that the leader claimed for the poll,
    so every master can answer a repeat of the poll. A waiting poll takes no connection to the store.
    """

    def __init__(
        self,
        polls: PollStore,
        leases: LeaseStore,
        progress: ProgressStore,
        challenges: ChallengeStore,
        predecessors: PredecessorStore,
    ) -> None:
        self._polls = polls
        self._leases = leases
        self._progress = progress
        self._challenges = challenges
        self._predecessors = predecessors
        self._hanging: dict[str, _Hanging] = {}
        self._has_some = WakeFlag()
        self._is_stopping = False
        self._loops = BackgroundLoops("polls", is_vital=True)
        self._drops: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._loops.spawn("look", self._watch)

    async def stop(self) -> None:
        """Answer every waiting poll now, with the jobs that were claimed for it. Refuse later polls."""
        self._is_stopping = True
        self.look_all()
        await self._loops.stop()
        await asyncio.gather(*self._drops, return_exceptions=True)

    async def poll(self, worker_id: str, ask: Ask, gone: Callable[[], Awaitable[None]]) -> PollReply:
        """Return jobs as soon as there are some. Return no jobs if the wait ends, the worker must drain, or this master
        stops.

        `gone`: returns once the client has gone.

        Raise:

        * NotFoundError,
        * ConflictError if the worker has an address, or is detached,
        * RateLimitedError if another poll of this worker replaced this one,
        * OverloadedError.
        """
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        if ask.refused:
            if logger.isEnabledFor(logging.DEBUG):
                for job_id, _ in ask.refused:
                    logger.debug("job %s: refused by worker %s with its poll", job_id, worker_id)
            await self._leases.refuse_offers(worker_id, ask.refused)
        if ask.withdraws:
            return await self._withdraw(worker_id, ask.poll_id)
        if self._is_stopping:
            raise OverloadedError("the master is stopping", retry_after_s=1)
        poll = _Hanging(ask.poll_id or secrets.token_hex(8))
        before = self._hanging.get(worker_id)
        if before:
            before.is_replaced = True
            before.news.set()
        # Register the poll here before calling the store: the message about its jobs may arrive before the store's
        # answer.
        self._hanging[worker_id] = poll
        if not self._has_some.is_set():
            self._has_some.set()
        watch = asyncio.ensure_future(gone())
        watch.add_done_callback(lambda done: None if done.cancelled() else poll.client_left())
        try:
            reply = await self._filled(await self._wait(worker_id, poll, before, ask))
            if logger.isEnabledFor(logging.DEBUG):
                for offer in reply.offers:
                    job_id, name = offer.job.job_id, offer.job.record.name
                    logger.debug("job %s (%s): handed to worker %s with its poll", job_id, name, worker_id)
            return reply
        finally:
            watch.cancel()
            if self._hanging.get(worker_id) is poll:
                del self._hanging[worker_id]

    async def _filled(self, reply: PollReply) -> PollReply:
        """Add checkpoints, callbacks and inputs to the jobs of the reply. Return the reply without jobs that have ended
        meanwhile."""
        jobs: Sequence[ClaimedJob] = [offer.job for offer in reply.offers]
        await self._progress.give_checkpoints(jobs)
        offered = await self._challenges.give_callbacks(jobs)
        await self._predecessors.give_inputs(offered)
        if len(offered) == len(jobs):
            return reply
        tokens = {job.token for job in offered}
        return replace(reply, offers=[offer for offer in reply.offers if offer.job.token in tokens])

    async def _wait(self, worker_id: str, poll: _Hanging, before: _Hanging | None, ask: Ask) -> PollReply:
        wait_s = min(max(ask.wait_s, MIN_WAIT_S), MAX_WAIT_S)
        try:
            if ask.refused:
                await asyncio.sleep(AFTER_REFUSAL_S)
            ends_at_s = asyncio.get_running_loop().time() + wait_s
            # Write a worker's polls to the store in the order of their arrival, because only the poll that was written
            # last gets jobs.
            if before:
                await before.opened.wait()
            if poll.is_replaced:
                raise _replaced()
            opened = await self._polls.open(
                worker_id, poll.id, ask.max_jobs, round(wait_s * 1000), call_id=poll.call_id
            )
        finally:
            poll.opened.set()
        reply = _checked(worker_id, opened)
        is_over = False
        while not (reply.offers or is_over):
            try:
                async with asyncio.timeout_at(ends_at_s):
                    await poll.news.wait()
            except TimeoutError:
                is_over = True
            poll.news.clear()
            if poll.is_gone:
                # The client has gone. It will poll again, at this master or another one, and will then get the jobs.
                await self._polls.drop(worker_id, poll.id, poll.call_id)
                return reply
            if poll.reply is not None:
                return poll.reply
            if poll.is_replaced:
                raise _replaced()
            is_over = is_over or self._is_stopping
            reply = await self._take(worker_id, poll, ends_at_s, ends=is_over)
            if reply.is_draining and not (reply.offers or is_over):
                # Answer at once, so that the worker learns that it must drain. Its next poll waits as usual.
                is_over = True
                reply = await self._take(worker_id, poll, ends_at_s, ends=True)
        return reply

    async def _take(self, worker_id: str, poll: _Hanging, ends_at_s: float, *, ends: bool) -> PollReply:
        left_ms = max(0, round((ends_at_s - asyncio.get_running_loop().time()) * 1000))
        found = await self._polls.take(worker_id, poll.id, ends=ends, call_id=poll.call_id, wait_ms=left_ms)
        return _checked(worker_id, found)

    async def _withdraw(self, worker_id: str, poll_id: str) -> PollReply:
        """Withdraw the worker's poll, and give back the jobs that were claimed for it meanwhile."""
        if poll := self._hanging.get(worker_id):
            poll.is_replaced = True
            poll.news.set()
        found = await self._polls.take(worker_id, poll_id, ends=True)
        if found is NoPoll.OVER:
            raise ConflictError("this poll is not the newest one of the worker", code="no_such_poll")
        reply = _checked(worker_id, found)
        if reply.offers:
            offers = [(offer.job.job_id, offer.job.token) for offer in reply.offers]
            await self._leases.refuse_offers(worker_id, offers)
        return PollReply(reply.now_ms, reply.epoch, reply.is_draining)

    # --- called for the leader's claims and for messages from the store

    def holds(self, worker_id: str) -> bool:
        """Return whether this worker's poll waits at this master."""
        poll = self._hanging.get(worker_id)
        return poll is not None and not poll.is_gone

    def answer(self, worker_id: str, reply: PollReply) -> None:
        """Answer this worker's waiting poll with the jobs that were just claimed for it."""
        if self.holds(worker_id):
            poll = self._hanging[worker_id]
            poll.reply = reply
            poll.news.set()
            return
        drop = asyncio.create_task(self._drop(worker_id), name=f"drop the poll of {worker_id}")
        self._drops.add(drop)
        drop.add_done_callback(self._drops.discard)

    def look(self, worker_id: str) -> None:
        """Read the store again for this worker's poll, because there may be jobs for it."""
        if poll := self._hanging.get(worker_id):
            poll.news.set()

    def look_all(self) -> None:
        for poll in self._hanging.values():
            poll.news.set()

    async def _drop(self, worker_id: str) -> None:
        try:
            await self._polls.drop(worker_id)
            # Tell the other masters. If the worker has repeated the poll at one of them, that master then finds the
            # jobs at once.
            await self._polls.notify(worker_id)
        except JqmasterError as exc:
            # best effort: the offers expire by themselves, and a repeat of the poll finds them earlier.
            logger.warning("the poll of worker %s could not be dropped: %s", worker_id, exc.detail)

    async def _watch(self) -> None:
        while True:
            if not self._hanging:
                await self._has_some.wait()
            self._has_some.clear()
            await asyncio.sleep(LOOK_S)
            try:
                for worker_id in await self._polls.answered(list(self._hanging)):
                    self.look(worker_id)
            except JqmasterError as exc:
                logger.warning("cannot handle polls: %s", exc.detail)


def _checked(worker_id: str, found: PollReply | NoPoll) -> PollReply:
    match found:
        case PollReply():
            return found
        case NoPoll.UNKNOWN:
            raise unknown_worker(worker_id)
        case NoPoll.DETACHED:
            raise ConflictError(
                f"worker {worker_id} is detached; the answer to its next heartbeat says what to do",
                code="worker_detached",
            )
        case NoPoll.PUSHED:
            raise ConflictError(
                f"worker {worker_id} has an address, so jobs are pushed to it", code="not_pulling"
            )
        case NoPoll.OVER:
            raise _replaced()


def _replaced() -> RateLimitedError:
    return RateLimitedError(
        "another poll of this worker replaced this one",
        code="poll_replaced",
        retry_after_s=AGAIN_AFTER_S,
    )
