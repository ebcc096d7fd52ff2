"""Poll masters for jobs, for a worker that the masters cannot reach. One call at a time waits for jobs."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, Masters, MasterUnreachableError, pause_s
from worker_sdk.wire import encode
from worker_sdk.worker.admission import Admission, MalformedError
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.identity import WorkerIdentity

if TYPE_CHECKING:
    from worker_sdk.protocol import ClaimRequest, PushAnswer

logger = logging.getLogger(__name__)

WAIT_S: Final = 20.0
# How long an answer may take in addition to the requested wait.
_SLACK_S: Final = 5.0
# How often to check whether the master of the open poll still answers heartbeats.
_LOOK_S: Final = 0.5
_WITHDRAW_S: Final = 2.0
_OVERTAKEN_S: Final = 0.05
# How long a namespace's share of the slots is reserved after it polls for jobs. A master that has jobs answers at once.
ASKED_S: Final = 0.1
_MAX_REFUSED: Final = 1_000


class _GivenUpError(Exception):
    """The worker started to drain, or registered again, while a call waited for jobs."""


class Puller:
    """Polls masters for jobs. A call is repeated with the same `poll_id`, if necessary at another master, until it is
    answered. After a lost answer, the repeat returns the same jobs at once, and their tokens show which ones already
    run.

    `masters` is shared with the heartbeat, which notices first when a master no longer answers.
    `on_unknown_worker(worker_id)` and `beat_now()` are called when masters answer that they do not know the worker, or
    that it is detached.
    """

    def __init__(
        self,
        client: MasterClient,
        masters: Masters,
        identity: WorkerIdentity,
        admission: Admission,
        executor: Executor,
        *,
        on_unknown_worker: Callable[[str], object],
        beat_now: Callable[[], object],
        wait_s: float = WAIT_S,
    ) -> None:
        self._client = client
        self._masters = masters
        self._identity = identity
        self._admission = admission
        self._executor = executor
        self._on_unknown_worker = on_unknown_worker
        self._beat_now = beat_now
        self._wait_s = wait_s
        self._room = asyncio.Event()
        self._poll_id = ""
        self._asked_as = ""  # the worker ID of the open poll; "": there is none
        self._member_id = ""
        self._refused: list[tuple[str, str]] = []
        self._tries = 0
        # Whether this namespace may have jobs that need its share of the slots: the namespace could not poll, or its
        # last poll returned jobs.
        self._may_have_jobs = False
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._executor.on_room = self._room.set
        self._task = asyncio.get_running_loop().create_task(self._pump(), name="jq-puller")

    async def stop(self) -> None:
        """Accept no more jobs, and hand back those that have arrived meanwhile."""
        if self._is_stopping:
            return
        self._is_stopping = True
        await self._withdraw()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _pump(self) -> None:
        while True:
            worker_id = self._identity.worker_id
            if worker_id is None:
                await self._identity.settled(1.0)
                continue
            free = self._admission.free
            self._keep_share(free)
            if not free:
                await self._withdraw()
                await self._wait_for_room()
                continue
            try:
                wait_s = await self._ask(worker_id, free)
            except _GivenUpError:
                continue
            except MasterUnreachableError as exc:
                self._tries += 1
                logger.log(self._level(), "asking for jobs again: no answer from a master (%s)", exc)
                # Try all masters before waiting: another one may have the answer.
                wait_s = 0.0 if self._tries < len(self._masters) else pause_s(self._tries, None)
            except Exception:
                # Never end this loop, which is the only source of jobs.
                logger.exception("asking for jobs failed")
                self._tries += 1
                wait_s = pause_s(self._tries, None)
            if wait_s:
                await asyncio.sleep(wait_s)

    def _keep_share(self, free: int) -> None:
        """Reserve free slots for this namespace until a poll has shown that it has no jobs. The namespace needs a slot
        to poll, and a master with jobs needs a moment to answer. After that, the slots may be lent while the poll
        waits."""
        share = self._admission.share
        if share is None:
            return
        self._may_have_jobs = self._may_have_jobs or not free
        if self._admission.is_draining or not self._may_have_jobs:
            share.want(0)
        elif not free:
            share.want(share.guaranteed)
        else:
            share.want(share.guaranteed, within_s=ASKED_S)
            asyncio.get_running_loop().call_later(ASKED_S, share.released)

    async def _wait_for_room(self) -> None:
        """Wait until slots may be free. Also check from time to time, because the end of a drain arrives with a
        heartbeat."""
        self._room.clear()
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._room.wait()
        except TimeoutError:
            pass

    # --- asking

    async def _ask(self, worker_id: str, free: int) -> float:
        """Poll for jobs, and start them. Return the seconds until the next call. Raise MasterUnreachableError or
        _GivenUpError if the poll is not answered."""
        if self._member_id != worker_id:
            # The polls and jobs of the previous worker ID ended together with that ID.
            self._member_id, self._refused = worker_id, []
        if self._asked_as != worker_id:
            self._asked_as, self._poll_id = worker_id, secrets.token_hex(8)
        sending = self._refused[:_MAX_REFUSED]
        body: ClaimRequest = {
            "max": free,
            "wait": self._wait_s,
            "poll_id": self._poll_id,
            "refused": [{"job_id": job_id, "token": token} for job_id, token in sending],
            "withdraw": False,
        }
        answer = await self._call(worker_id, encode(body))
        if self._is_stopping:
            return 1.0  # the poll is being withdrawn, so its jobs are handed back
        if answer.is_ok:
            epoch, jobs = answer.body.get("epoch"), answer.body.get("jobs")
            if type(epoch) is not int or not isinstance(jobs, list):
                # Act as if no answer had come: a repeated call returns the same jobs.
                raise MasterUnreachableError("an answer of unexpected form")
            self._asked_as, self._tries, self._may_have_jobs = "", 0, bool(jobs)
            self._refused = self._refused[len(sending) :]
            if answer.body.get("drain") is True:
                # Note the drain now. Later heartbeats report the drain or its end.
                self._identity.is_drain_ordered = True
            return self._take(worker_id, epoch, jobs)
        self._tries += 1
        if answer.status == 404 and answer.code == "unknown_worker":
            self._on_unknown_worker(worker_id)
            return 0.0
        if answer.code == "worker_detached":
            self._beat_now()
        elif not answer.is_transient:
            logger.log(self._level(), "a master refused to give jobs: %s", answer)
        if answer.status == 503 and self._tries < len(self._masters):
            return 0.0
        return pause_s(self._tries, answer.retry_after_s)

    async def _call(self, worker_id: str, body: bytes) -> MasterAnswer:
        """Send a poll. Give the call up as soon as the heartbeat notices that this master no longer answers."""
        address = self._masters.current
        call = asyncio.ensure_future(
            self._client.call(
                "POST", f"/api/workers/{worker_id}/claim", body, timeout_s=self._wait_s + _SLACK_S
            )
        )
        try:
            while True:
                done, _ = await asyncio.wait((call,), timeout=_LOOK_S)
                if done:
                    return call.result()
                if self._admission.is_draining or self._identity.worker_id != worker_id:
                    raise _GivenUpError
                if self._masters.current != address:
                    raise MasterUnreachableError(f"{address} does not answer heartbeats")
        finally:
            call.cancel()

    def _take(self, worker_id: str, epoch: int, jobs: list[Any]) -> float:
        if not jobs or self._identity.worker_id != worker_id:
            # The worker has registered again, so do not start the jobs. Another run of them begins after their leases
            # end.
            return 0.0
        try:
            rejected = _reasons(self._admission.offer(epoch, jobs))
        except MalformedError:
            jobs, rejected = self._offer_each(epoch, jobs)
        tokens = {job["job_id"]: job["token"] for job in jobs}
        # Do not hand back a `duplicate`, which is a job with an earlier run that continues here: the master might offer
        # it again at once. Without an answer, the master offers the job when its lease has ended.
        refused = [(job_id, reason) for job_id, reason in rejected if reason != "duplicate"]
        if not refused:
            return 0.0
        is_usual = self._admission.share is not None and all(reason == "busy" for _, reason in refused)
        level = logging.DEBUG if is_usual else logging.WARNING
        logger.log(level, "%d jobs are handed back: %s", len(refused), refused[0][1])
        self._refused += [(job_id, tokens[job_id]) for job_id, _ in refused]
        # Pause, because the master may offer the refused jobs again at once.
        return pause_s(2, 0.1)

    def _offer_each(self, epoch: int, jobs: list[Any]) -> tuple[list[Any], list[tuple[str, str]]]:
        """Offer each job separately, so that a malformed job does not affect the other jobs. Return the jobs that have
        a claim, and a pair (job ID, reason) for each refused job."""
        named = [job for job in jobs if isinstance(job, dict) and _has_claim(job)]
        if len(named) < len(jobs):
            logger.error("a master sent %d invalid jobs", len(jobs) - len(named))
        rejected: list[tuple[str, str]] = []
        for job in named:
            try:
                rejected += _reasons(self._admission.offer(epoch, [job]))
            except MalformedError as exc:
                rejected.append((job["job_id"], str(exc)))
        return named, rejected

    async def _withdraw(self) -> None:
        """Withdraw the open poll, if there is one, and send the remaining refusals. The master then claims no more jobs
        for the poll, and takes back those that it has claimed. During `stop`, the poll is still open; its answer is
        ignored."""
        worker_id, refused = self._member_id, self._refused[:_MAX_REFUSED]
        if not (self._asked_as or refused):
            return
        body: ClaimRequest = {
            "max": 1,
            "wait": 0,
            # Do not send the ID of a poll that was answered: its jobs are running.
            "poll_id": self._poll_id if self._asked_as else secrets.token_hex(8),
            "refused": [{"job_id": job_id, "token": token} for job_id, token in refused],
            "withdraw": True,
        }
        for _ in range(len(self._masters) + 2):
            try:
                answer = await self._client.call(
                    "POST", f"/api/workers/{worker_id}/claim", encode(body), timeout_s=_WITHDRAW_S
                )
            except MasterUnreachableError as exc:
                logger.debug("the call for jobs could not be withdrawn: %s", exc)
                continue
            if answer.code == "no_such_poll" and self._asked_as:
                # The poll is still on its way to the master, so try again after it has arrived.
                await asyncio.sleep(_OVERTAKEN_S)
            elif not answer.is_transient:
                break
        self._asked_as, self._refused = "", []

    def _level(self) -> int:
        """Return WARNING for the first failure in a row, and DEBUG for its repeats."""
        return logging.WARNING if self._tries == 1 else logging.DEBUG


def _reasons(answer: "PushAnswer") -> list[tuple[str, str]]:
    return [(one["job_id"], one["reason"]) for one in answer["rejected"]]


def _has_claim(job: dict[str, Any]) -> bool:
    return isinstance(job.get("job_id"), str) and isinstance(job.get("token"), str)
