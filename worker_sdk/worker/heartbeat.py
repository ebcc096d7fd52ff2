"""Membership: registers, reports and renews leases, from a thread of its own with a client of its own.

A handler that blocks the event loop must not look like a dead worker: nothing here waits for the loop.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from worker_sdk.errors import CheckpointNotSaved
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import MasterAnswer, MasterUnreachableError, backoff_s, pause_s
from worker_sdk.wire import encode
from worker_sdk.worker import health_file
from worker_sdk.worker.identity import Registered, WorkerIdentity
from worker_sdk.worker.lease import StoreClock, margin_s, now_s
from worker_sdk.worker.progress import News, PendingReports, refuse
from worker_sdk.worker.run import JobRun

if TYPE_CHECKING:
    from worker_sdk.protocol import (
        HeartbeatAnswer,
        HeartbeatRequest,
        RegisterAnswer,
        RegisterRequest,
        ReportedClaim,
    )

logger = logging.getLogger(__name__)

_REGISTER_TIMEOUT_S: Final = 10.0
# A detached worker asks whether it may go on; when nobody has confirmed it by then, it stops its jobs. Masters say how
# often, unless they are older than that.
_QUESTIONS: Final = 3
_QUESTION_PAUSE_S: Final = 0.3
# How often is looked whether the jobs of the former membership have ended.
_JOIN_PAUSE_S: Final = 0.05
# Refusals of a registration as a whole, which contracts alone can make so long.
_TOO_MUCH: Final = ("body_too_large", "too_many_nodes", "too_deep")


# Raised when an answer is read that is not valid.
_NONSENSE: Final = (KeyError, TypeError, ValueError, OverflowError)
# Fields of a claim in a heartbeat that tell news of its job.
_NEWS: Final = (["progress"], ["checkpoint"])
# After a refusal masters are not bothered with news for so long: they may be replaced by newer ones meanwhile.
_NO_NEWS_S: Final = 30.0
_OLD_MASTERS: Final = "the masters refuse progress and checkpoints: they are of an older release"
_NOT_OURS: Final = "the job is not this worker's any more"


@dataclass(frozen=True, slots=True)
class _Told:
    """The answer to a heartbeat, looked at whole before any of it is done."""

    store_time_ms: int
    lease_until_ms: int
    fence: int
    epoch: int
    lost: set[str]
    cancel: list[tuple[str, str]]
    drain: bool
    detached: bool
    # None: a master older than the field does not say.
    max_jobs: int | None
    questions: int
    question_pause_s: float

    @classmethod
    def read(cls, body: "HeartbeatAnswer") -> "_Told":
        """Raises one of `_NONSENSE`."""
        return cls(
            int(body["store_time_ms"]),
            int(body["lease_until_ms"]),
            # Masters older than the field do not send it.
            int(body.get("fence") or 0),
            int(body["epoch"]),
            {str(claim["token"]) for claim in body["lost"]},
            [(str(claim["job_id"]), str(claim["token"])) for claim in body["cancel"]],
            bool(body["drain"]),
            bool(body["detached"]),
            max(1, int(body["max_jobs"])) if body.get("max_jobs") else None,
            max(1, int(body.get("continue_questions") or _QUESTIONS)),
            max(0.0, float(body.get("continue_pause_s") or _QUESTION_PAUSE_S)),
        )


class Ledger(Protocol):
    """The jobs that the worker holds. It may be asked from this thread."""

    def owed_runs(self) -> list[JobRun]: ...


class Orders(Protocol):
    """Requests of masters to the worker. They are called in this thread; the work is done in the event loop."""

    def cancel(self, claims: list[tuple[str, str]]) -> None: ...

    def lost(self, tokens: list[str]) -> None: ...

    def unknown(self, worker_id: str) -> None: ...

    def resize(self, max_jobs: int | None) -> None: ...


class Heartbeat:
    """`place()`: see Place; asked before each registration. `free`: the slots that a master may fill. `may_join`:
    whether nothing runs any more that another one may run once this worker is registered anew: a registration at the
    same address ends the leases of the former one at once. `contracts`: what is told of the names."""

    def __init__(
        self,
        *,
        client: BlockingClient,
        identity: WorkerIdentity,
        clock: StoreClock,
        ledger: Ledger,
        free: Callable[[], int],
        may_join: Callable[[], bool],
        orders: Orders,
        registration: "RegisterRequest",
        reports: PendingReports,
        place: Callable[[], str] = lambda: "",
        contracts: Mapping[str, Any] | None = None,
    ) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._ledger = ledger
        self._free = free
        self._may_join = may_join
        self._orders = orders
        self._registration = registration
        self._reports = reports
        reports.on_news = self._nudge
        self._no_news_until_s = 0.0
        self._place = place
        self._contracts = contracts or {}
        self._masters_take_place = True
        self._wake = threading.Event()
        self._must_beat = False
        self._is_stopping = False
        self._was_answered = True
        self._asked: int | None = None  # questions so far, while it is detached
        self._questions, self._question_pause_s = _QUESTIONS, _QUESTION_PAUSE_S
        self._complaint = ""
        self._thread = threading.Thread(target=self._main, name="jq-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the call that is under way has ended."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def beat_now(self) -> None:
        self._must_beat = True
        self._wake.set()

    def _nudge(self) -> None:
        self._wake.set()

    def _main(self) -> None:
        tries = 0
        while not self._is_stopping:
            member = self._identity.member
            try:
                wait_s = self._register(tries) if member is None else self._beat(member, tries)
            except Exception:
                # This thread is what keeps the leases: whatever is wrong with an answer, the next one may be right.
                logger.exception("the heartbeat failed")
                wait_s = None
            if wait_s is None:
                tries += 1
                wait_s = self._pause_s(member, tries)
            else:
                tries = 0
            self._wait(wait_s, tries)
        self._reports.refuse_all("the worker ends")
        self._client.close()

    def _wait(self, wait_s: float, tries: int) -> None:
        """Wait for the next heartbeat's time, or until a handler's news are due, or someone asks for one."""
        ends_s = now_s() + wait_s
        while not (self._is_stopping or self._must_beat):
            # While masters do not answer, or refuse, news do not make it ask more often.
            due_s = ends_s if tries else min(ends_s, self._reports.due_s())
            left_s = due_s - now_s()
            if left_s <= 0:
                break
            self._wake.wait(left_s)
            # Not earlier: `stop` and `beat_now` set their flags first, hence either the flag or the wake-up is seen.
            self._wake.clear()
        self._must_beat = False

    def _pause_s(self, member: Registered | None, tries: int) -> float:
        """Return the seconds until the next try."""
        if member is None:
            return backoff_s(tries)
        if not self._was_answered and tries < len(self._client.masters):
            # Another master may know at once what this one did not say, and the lease runs on.
            return 0.0
        # Never less often than in good times, and several times in a lease: the first answer after an outage is to come
        # before it ends.
        return backoff_s(tries, max_s=min(1.0, member.heartbeat_interval_s, member.lease_s / 8))

    # --- registering

    def _register(self, tries: int) -> float | None:
        """Seconds until the first heartbeat; None: not registered."""
        # Without a membership there are no claims. A handler that waits for a checkpoint would keep the worker from
        # joining anew.
        self._reports.refuse_all("this worker is not registered")
        if not self._may_join():
            return _JOIN_PAUSE_S
        sent_s = now_s()
        try:
            answer = self._client.call(
                "POST", "/api/workers", encode(self._described()), timeout_s=_REGISTER_TIMEOUT_S
            )
        except MasterUnreachableError as exc:
            self._complain(f"no master answers ({exc})")
            return None
        if not answer.is_ok:
            if self._masters_take_place and ["place"] in _refused_fields(answer):
                # A master older than the field; what it does for the worker is no less than before.
                self._masters_take_place = False
                return _JOIN_PAUSE_S
            refused = [loc for loc in _refused_fields(answer) if loc[:1] == ["contracts"]]
            if self._leave_out_contracts([["contracts"]] if answer.code in _TOO_MUCH else refused):
                logger.warning("registering without contracts that the master refused: %s", answer)
                return _JOIN_PAUSE_S
            # The address cannot be proven before the server listens: the first refusal is an everyday thing.
            if answer.code != "address_unverified" or tries >= 3:
                self._complain(f"a master refused the registration: {answer}")
            return pause_s(tries + 1, answer.retry_after_s) if answer.retry_after_s else None
        body = cast("RegisterAnswer", answer.body)
        try:
            self._clock.observe(int(body["store_time_ms"]), sent_s, now_s())
            member = self._identity.joined(body)
        except _NONSENSE as exc:
            self._complain(f"a master answered with nonsense ({exc!r})")
            return None
        home = self._client.masters.home
        # While a lease may last, a master of the former store may still have a word.
        home.patience_s = max(home.patience_s, member.lease_s)
        self._complaint = ""
        self._asked = None
        health_file.touch()
        logger.info("registered as worker %s", self._identity.worker_id)
        return 0.0

    def _leave_out_contracts(self, refused: Sequence[Sequence[Any]]) -> bool:
        """Leave out the contracts at these paths, and return whether that changed anything. Jobs run without them."""
        names = {str(loc[1]) for loc in refused if len(loc) > 1} & self._contracts.keys()
        if any(len(loc) == 1 for loc in refused):  # of a master that does not know the field, for one
            names = set(self._contracts)
        self._contracts = {name: one for name, one in self._contracts.items() if name not in names}
        return bool(names)

    def _described(self) -> "RegisterRequest":
        described: dict[str, Any] = {**self._registration}
        if self._contracts:
            described["contracts"] = self._contracts
        if self._masters_take_place and (place := self._place()):
            described["place"] = place
        return cast("RegisterRequest", described)

    def _complain(self, text: str) -> None:
        """Once for each thing, not for each try."""
        if text != self._complaint:
            self._complaint = text
            logger.warning("not registered, trying on: %s", text)

    # --- reporting

    def _beat(self, member: Registered, tries: int) -> float | None:
        """Seconds until the next one; None: not answered."""
        # Read before the claims: what is not among them was not taken up by then.
        as_of_ms = self._clock.earliest_ms(now_s())
        # Before the claims: what is not among those is over.
        news = self._reports.take()
        runs = self._ledger.owed_runs()
        if news:
            news = self._of_held(news, runs)
        is_told = False
        try:
            wait_s, is_told = self._beat_with(member, tries, as_of_ms, runs, news)
            return wait_s
        finally:
            if not is_told:
                self._reports.put_back(news)

    def _of_held(self, news: dict[str, News], runs: Sequence[JobRun]) -> dict[str, News]:
        """Return the news of claims that this worker holds; the others are refused."""
        held = {run.token for run in runs if not run.is_settled}
        refuse({token: one for token, one in news.items() if token not in held}, _NOT_OURS)
        news = {token: one for token, one in news.items() if token in held}
        if now_s() < self._no_news_until_s:
            refuse(news, _OLD_MASTERS)
            return {}
        return news

    def _beat_with(
        self, member: Registered, tries: int, as_of_ms: int, runs: list[JobRun], news: Mapping[str, News]
    ) -> tuple[float | None, bool]:
        """Seconds until the next one (None: not answered), and whether the news were answered for."""
        running: list[ReportedClaim] = [{"job_id": run.job_id, "token": run.token} for run in runs]
        for claim in running if news else ():
            if (one := news.get(claim["token"])) is not None:
                claim.update(cast("ReportedClaim", one.fields()))
        body: HeartbeatRequest = {
            "running": running,
            "free": self._free(),
            "as_of_ms": as_of_ms,
        }
        # Several tries, with other masters, must fit into one lease.
        timeout_s = max(0.25, min(5.0, member.lease_s / 4))
        if self._asked is not None:
            self._asked += 1
            body["asks_to_continue"] = True
            timeout_s = min(timeout_s, 1.0)
        sent_s = now_s()
        try:
            answer = self._client.call(
                "POST",
                f"/api/workers/{member.worker_id}/heartbeat",
                encode(body),
                timeout_s=timeout_s,
            )
        except MasterUnreachableError as exc:
            self._was_answered = False
            if tries == 1:
                logger.warning("heartbeats are not answered: %s", exc)
            return self._not_answered(member), False
        self._was_answered = True
        if answer.status == 404 and answer.code == "unknown_worker":
            self._rejoin(member.worker_id, "the masters do not know this worker any more")
            return 0.0, False
        if not answer.is_ok:
            if news and any(loc[2:3] in _NEWS for loc in _refused_fields(answer)):
                # A master of a release without them, or news that no master takes: the leases must not end for it.
                logger.warning("progress and checkpoints are refused: %s", answer)
                self._no_news_until_s = now_s() + _NO_NEWS_S
                refuse(news, _OLD_MASTERS)
                return 0.0, True
            if tries == 1:
                logger.warning("heartbeats are refused: %s", answer)
            return self._not_answered(member), False
        said = cast("HeartbeatAnswer", answer.body)
        try:
            told = _Told.read(said)
            member = self._identity.told(member, said)
        except _NONSENSE as exc:
            # As good as none: another master may do better.
            self._was_answered = False
            self._client.masters.failed(self._client.masters.current)
            if tries == 1:
                logger.warning("heartbeats are answered with nonsense (%r)", exc)
            return self._not_answered(member), False
        health_file.touch()
        gone = told.lost | {token for _, token in told.cancel}
        for token, saved in news.items():
            saved.end(CheckpointNotSaved(_NOT_OURS) if token in gone else None)
        return self._obey(member, told, runs, sent_s), True

    def _obey(self, member: Registered, told: _Told, runs: list[JobRun], sent_s: float) -> float:
        # From the instant of sending: at no later one did the store renew the lease.
        lease_s = (told.lease_until_ms - told.store_time_ms) / 1000
        lease_end_s = sent_s + lease_s - margin_s(lease_s)
        # A worker that was cut off for good gets no renewal: its leases end when they were to end before.
        for run in runs if lease_s > 0 else ():
            if run.token not in told.lost:
                run.lease_end_s = lease_end_s
        self._clock.observe(told.store_time_ms, sent_s, now_s(), fence=told.fence)
        self._identity.saw_epoch(told.epoch)
        self._identity.is_drain_ordered = told.drain
        self._questions, self._question_pause_s = told.questions, told.question_pause_s
        self._orders.resize(told.max_jobs)
        for run in runs:
            run.is_named = True
        if told.lost:
            self._orders.lost(list(told.lost))
        if told.cancel:
            self._orders.cancel(told.cancel)
        if told.detached:
            if self._asked is None:
                logger.warning("this worker was detached; it asks whether it may go on")
                self._asked = 0
                return 0.0
            return self._ask_again(member)
        if self._asked is not None:
            logger.warning("it may go on, with %d jobs", len(runs) - len(told.lost))
            self._asked = None
        return max(0.0, member.heartbeat_interval_s - (now_s() - sent_s))

    def _not_answered(self, member: Registered) -> float | None:
        """A worker that merely hears nothing goes on until its leases end; one that knows that it was detached does
        not."""
        return None if self._asked is None else self._ask_again(member)

    def _ask_again(self, member: Registered) -> float:
        """Seconds until the next question; none is left: it gives up what it has."""
        assert self._asked is not None
        if self._asked < self._questions:
            return self._question_pause_s
        self._rejoin(member.worker_id, "this worker was detached, and nobody confirmed that it may go on")
        return 0.0

    def _rejoin(self, worker_id: str, why: str) -> None:
        self._asked = None
        if self._identity.lost(worker_id):
            logger.warning("%s: its jobs are stopped, and it registers anew", why)
            self._orders.unknown(worker_id)


def _refused_fields(answer: MasterAnswer) -> list[Any]:
    """The fields that a problem names."""
    errors = answer.body.get("errors")
    given = (
        [error.get("loc") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    )
    return [loc for loc in given if isinstance(loc, list)]
