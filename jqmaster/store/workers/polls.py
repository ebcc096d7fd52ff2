"""Polls of workers that pull, and the jobs that were claimed for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jqmaster.errors import DamagedError
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import MailArrived, PollOpened, encode


@dataclass(frozen=True, slots=True)
class Offer:
    """A job for a worker that pulls, as a push would offer it."""

    job: ClaimedJob
    not_after_ms: int
    lease_until_ms: int


@dataclass(frozen=True, slots=True)
class PollReply:
    """The answer to a poll. `epoch` is 0 before the first election."""

    now_ms: int
    epoch: int
    is_draining: bool
    offers: Sequence[Offer] = ()


class NoPoll(Enum):
    """The reason why a worker cannot poll:

    * it is not registered;
    * it is detached;
    * the leader pushes to it;
    * it has opened a newer poll.
    """

    UNKNOWN = "unknown"
    DETACHED = "detached"
    PUSHED = "pushed"
    OVER = "over"


def reply_of(epoch: int, claim: Claim) -> PollReply:
    """Return the answer to a poll from a claim that was just made."""
    offers = [Offer(job, claim.not_after_ms, claim.lease_until_ms) for job in claim.jobs]
    return PollReply(claim.now_ms, epoch, is_draining=False, offers=offers)


class PollStore:
    """Polls of one shard. Each worker has at most one poll, the newest. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._times = times

    async def open(
        self, worker_id: str, poll_id: str, max_jobs: int, wait_ms: int, *, call_id: str = ""
    ) -> PollReply | NoPoll:
        """Open a poll, for which the leader claims once. A repeat of an answered poll gets the offers of that poll at
        once. A new poll also gets them at once if the previous answer did not arrive.

        `call_id`: the request that holds the poll. Only the last request for the poll may end it.
        """
        k = self._keys
        word, data = await self._client.run(
            "open_poll",
            (k.worker(worker_id), k.mail(worker_id), k.epoch),
            (
                self._shard.now_arg,
                worker_id,
                codec.id_bytes(worker_id),
                poll_id,
                call_id,
                max_jobs,
                wait_ms,
                k.job_prefix,
                self._shard.wake_channel,
            ),
        )
        if word == "open":
            self._shard.leader.wake(PollOpened(worker_id, wait_ms))
        return self._reply(word, data)

    async def take(
        self, worker_id: str, poll_id: str, *, ends: bool, call_id: str = "", wait_ms: int = 0
    ) -> PollReply | NoPoll:
        """Return the offers that were claimed for the poll. Without offers, the poll keeps waiting, or ends if `ends`
        is set. If its offers were returned meanwhile, the poll is opened again for `wait_ms`.
        """
        k = self._keys
        word, data = await self._client.run(
            "take_mail",
            (k.worker(worker_id), k.mail(worker_id), k.epoch),
            (
                self._shard.now_arg,
                worker_id,
                codec.id_bytes(worker_id),
                poll_id,
                call_id,
                int(ends),
                wait_ms,
                k.job_prefix,
                self._shard.wake_channel,
            ),
        )
        if word == "reopened":
            self._shard.leader.wake(PollOpened(worker_id, wait_ms))
        return self._reply(word, data)

    async def drop(self, worker_id: str, poll_id: str = "", call_id: str = "") -> None:
        """End this poll (without `poll_id`: the newest one), because nobody waits for its answer. Its jobs go to the
        next poll. Do nothing if a later request than `call_id` holds the poll.
        """
        await self._client.run("drop_poll", (self._keys.worker(worker_id),), (poll_id, call_id))

    async def answered(self, worker_ids: Sequence[str]) -> list[str]:
        """Return the workers among these whose newest poll no longer waits for jobs."""
        k = self._keys
        replies = await self._client.pipeline(
            [("HGET", k.worker(worker_id), "poll_until_ms") for worker_id in worker_ids]
        )
        return [w for w, until_ms in zip(worker_ids, replies, strict=True) if until_ms in (b"0", None)]

    async def notify(self, worker_id: str) -> None:
        """Wake the master that holds this worker's poll, so that it reads the answer."""
        await self._client.publish(self._keys.wake_channel, encode(MailArrived(worker_id)))

    def _reply(self, word: str, data: list[Any]) -> PollReply | NoPoll:
        if word not in ("mail", "open", "reopened"):
            return NoPoll(word)
        now_ms, epoch, is_draining, *rest = data
        return PollReply(
            now_ms, codec.epoch_number(epoch), bool(is_draining), self._offers(rest[0] if rest else [])
        )

    def _offers(self, flat: list[bytes]) -> list[Offer]:
        offers = []
        for job_id, record in zip(flat[::2], flat[1::2], strict=True):
            try:
                offered = codec.decode_offered(record)
            except DamagedError:
                continue  # skip a damaged job, which nobody can run; the leader sets it aside when its lease ends
            job = ClaimedJob(job_id.decode(), offered.token, offered.fence, offered.claimed)
            offers.append(
                Offer(job, offered.not_after_ms, offered.started_at_ms + self._times.current.lease_ms)
            )
        return offers
