"""Heartbeats: report and renew leases, in a separate thread with its own client.

Nothing here waits for the event loop: a handler that blocks the loop must not make its worker look dead.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from worker_sdk.errors import CheckpointNotSaved
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import MasterAnswer, MasterUnreachableError, backoff_s
from worker_sdk.wire import encode
from worker_sdk.worker import health_file, job_log
from worker_sdk.worker.heartbeat_answer import (
    NONSENSE,
    QUESTION_PAUSE_S,
    QUESTIONS,
    TOO_MUCH,
    ParsedAnswer,
    ignored_of,
    refused_fields,
)
from worker_sdk.worker.identity import Registered, WorkerIdentity
from worker_sdk.worker.lease import StoreClock, margin_s, now_s
from worker_sdk.worker.progress import PendingReport, PendingReports, refuse
from worker_sdk.worker.refusals import REPEAT_S
from worker_sdk.worker.registration import WorkerRegistration
from worker_sdk.worker.run import JobRun

if TYPE_CHECKING:
    from worker_sdk.protocol import HeartbeatAnswer, HeartbeatRequest, ReportedClaim

logger = logging.getLogger(__name__)

# After a master refused many claims in one call, they are sent in several calls for this long.
_IN_PIECES_S: Final = 60.0
# Paths of the fields of a claim that contain reports on its job.
_REPORTS: Final = (["progress"], ["checkpoint"])
# After an older master refused the sequence numbers of reports, reports are sent without them for this long.
_NO_NUMBERS_S: Final = 60.0
# After a master refused reports, none are sent for this long. Newer masters may take over in the meantime.
_NO_REPORTS_S: Final = 30.0
_OLD_MASTERS: Final = "the masters refuse progress and checkpoints: they are of an older release"
_NOT_OURS: Final = "the job is not this worker's any more"


class Ledger(Protocol):
    """The jobs that the worker holds. The heartbeat thread may call it."""

    def owed_runs(self) -> list[JobRun]: ...


class MasterCommands(Protocol):
    """Commands of masters to the worker. The heartbeat thread calls them, and the event loop executes them."""

    def cancel(self, claims: list[tuple[str, str]]) -> None: ...

    def lost(self, tokens: list[str]) -> None: ...

    def unknown(self, worker_id: str) -> None: ...

    def resize(self, max_jobs: int | None) -> None: ...


class Heartbeat:
    """Keeps a worker registered, and renews its leases.

    * `registration`: makes the worker a member, at the start and whenever masters do not know it any more.
    * `free`: the slots that a master may fill.
    * `offered`: number of jobs that masters may assign. None: the registered number, or the number that an operator has
      set.
    * `watch(late_s)`: called before each heartbeat. `late_s`: seconds by which the heartbeat is late.
    """

    def __init__(
        self,
        *,
        client: BlockingClient,
        identity: WorkerIdentity,
        clock: StoreClock,
        registration: WorkerRegistration,
        ledger: Ledger,
        free: Callable[[], int],
        offered: Callable[[], int] | None = None,
        commands: MasterCommands,
        reports: PendingReports,
        watch: Callable[[float], object] = lambda late_s: None,
    ) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._registration = registration
        self._ledger = ledger
        self._free = free
        self._offered = offered
        self._commands = commands
        self._reports = reports
        reports.on_report = self._request_beat
        self._no_reports_until_s = 0.0
        # The sequence number of the last heartbeat with reports. With it, masters ignore reports of a delayed
        # heartbeat.
        self._seq = 0
        self._no_numbers_until_s = 0.0
        self._watch = watch
        self._wake = threading.Event()
        self._must_beat = False
        self._is_stopping = False
        self._was_answered = True
        # After a master refused a larger call: the maximum number of claims in one call, and the time until which it
        # applies.
        self._most_claims, self._in_pieces_until_s = 0, 0.0
        # Whether the process is ending. Masters are informed once for each worker ID.
        self.is_leaving = False
        self._told_leaving = ""
        self._asked: int | None = None  # questions so far; None: not detached
        self._questions, self._question_pause_s = QUESTIONS, QUESTION_PAUSE_S
        # The fields that masters ignored in the last heartbeat. A field is logged when it is first ignored.
        self._told_ignored: list[str] = []
        self._complained_s = float("-inf")
        self._thread = threading.Thread(target=self._main, name="jq-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and block until the current call has ended."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def has_told_leaving(self, worker_id: str) -> bool:
        """Return whether masters know that the process of this worker is ending."""
        return self._told_leaving == worker_id

    def beat_now(self) -> None:
        self._must_beat = True
        self._wake.set()

    def _request_beat(self) -> None:
        self._wake.set()

    def _main(self) -> None:
        tries, late_s = 0, 0.0
        while not self._is_stopping:
            member = self._identity.member
            try:
                self._watch(late_s)
                wait_s = self._join(tries) if member is None else self._beat(member, tries)
                if self.is_leaving and member is not None and wait_s is not None:
                    self._announce_leave(member)
            except Exception:
                # Never end this thread, which keeps the leases alive: the next answer may be valid.
                logger.exception("the heartbeat failed")
                wait_s = None
            if wait_s is None:
                tries += 1
                wait_s = self._pause_s(member, tries)
            else:
                tries = 0
            late_s = self._wait(wait_s, tries)
        self._reports.refuse_all("the worker ends")
        self._client.close()

    def _wait(self, wait_s: float, tries: int) -> float:
        """Wait until the next heartbeat or a handler's report is due, or until a heartbeat is requested. Return the
        seconds by which the wait was too long."""
        late_s = 0.0
        ends_s = now_s() + wait_s
        while not (self._is_stopping or self._must_beat):
            # Let reports cause earlier heartbeats only while masters accept heartbeats.
            due_s = ends_s if tries else min(ends_s, self._reports.due_s())
            left_s = due_s - now_s()
            if left_s <= 0:
                break
            self._wake.wait(left_s)
            late_s = max(late_s, now_s() - due_s)
            # Clear the event after the wait: `stop` and `beat_now` set their flags before they set the event, so the
            # loop notices either the flag or the event.
            self._wake.clear()
        self._must_beat = False
        return late_s

    def _pause_s(self, member: Registered | None, tries: int) -> float:
        """Return the seconds until the next try."""
        if member is None:
            return backoff_s(tries)
        if not self._was_answered and tries < len(self._client.masters):
            # Try the next master at once: it may answer, and the leases are running out.
            return 0.0
        # Do not pause for longer than the usual interval, and try several times per lease. The first answer after an
        # outage should come before the lease ends.
        return backoff_s(tries, max_s=min(1.0, member.heartbeat_interval_s, member.lease_s / 8))

    def _join(self, tries: int) -> float | None:
        # No checkpoint can be saved without a registration, so refuse all waiting reports. A handler that waits for a
        # checkpoint would keep the worker from registering again.
        self._reports.refuse_all("this worker is not registered")
        self._asked = None
        return self._registration.attempt(tries)

    # --- reporting

    def _beat(self, member: Registered, tries: int) -> float | None:
        """Send a heartbeat. Return the seconds until the next heartbeat, or None if no master answered."""
        # Read the time before the claims. If an offer is missing from the claims, it had not been accepted at that
        # time.
        as_of_ms = self._clock.earliest_ms(now_s())
        # Take the reports before the claims. If the claim of a report is missing, it is then certain that the claim is
        # over.
        reports = self._reports.take()
        runs = self._ledger.owed_runs()
        if reports:
            reports = self._of_held(reports, runs)
        is_reported = False
        try:
            wait_s, is_reported = self._beat_with(member, tries, as_of_ms, runs, reports)
            return wait_s
        finally:
            if not is_reported:
                self._reports.put_back(reports)

    def _announce_leave(self, member: Registered) -> None:
        """Tell the masters that this process is ending, so that no loss is counted if the process ends sooner than
        planned."""
        if self.has_told_leaving(member.worker_id):
            return
        path = f"/api/workers/{member.worker_id}/leaving"
        try:
            answer = self._client.call("POST", path, None, timeout_s=max(0.25, min(5.0, member.lease_s / 4)))
        except MasterUnreachableError as exc:
            logger.debug("the end is not announced yet: %s", exc)
            return
        # Older masters do not know this call and refuse it permanently, so do not repeat it.
        if not answer.is_transient:
            self._told_leaving = member.worker_id

    def _of_held(self, reports: dict[str, PendingReport], runs: Sequence[JobRun]) -> dict[str, PendingReport]:
        """Return the reports on claims that this worker holds. Refuse the other reports."""
        held = {run.token for run in runs if not run.is_settled}
        refuse({token: one for token, one in reports.items() if token not in held}, _NOT_OURS)
        reports = {token: one for token, one in reports.items() if token in held}
        if now_s() < self._no_reports_until_s:
            refuse(reports, _OLD_MASTERS)
            return {}
        return reports

    def _beat_with(
        self,
        member: Registered,
        tries: int,
        as_of_ms: int,
        runs: list[JobRun],
        reports: Mapping[str, PendingReport],
    ) -> tuple[float | None, bool]:
        """Send a heartbeat with these reports. Return the seconds until the next heartbeat (None: no answer), and
        whether the reports were answered."""
        running: list[ReportedClaim] = [{"job_id": run.job_id, "token": run.token} for run in runs]
        if reports:
            self._seq += 1
            seq = self._seq if now_s() >= self._no_numbers_until_s else None
            for claim in running:
                if (one := reports.get(claim["token"])) is not None:
                    claim.update(cast("ReportedClaim", one.fields(seq)))
        sent_s = now_s()
        try:
            answer, others = self._send(member, running, as_of_ms)
        except MasterUnreachableError as exc:
            self._was_answered = False
            return self._not_answered(member, tries, f"not answered: {exc}"), False
        self._was_answered = True
        if answer.status == 404 and answer.code == "unknown_worker":
            self._rejoin(member.worker_id, "the masters do not know this worker any more")
            return 0.0, False
        if not answer.is_ok:
            return self._refused(member, tries, answer, reports, len(running))
        said = cast("HeartbeatAnswer", answer.body)
        try:
            parsed = ParsedAnswer.read(said)
            for other in others:
                parsed.add(ParsedAnswer.read(cast("HeartbeatAnswer", other.body)))
            member = self._identity.update(member, said)
        except NONSENSE as exc:
            # Act as if no answer had come: another master may give a valid answer.
            self._was_answered = False
            self._client.masters.failed(self._client.masters.current)
            return self._not_answered(member, tries, f"answered with an invalid answer ({exc!r})"), False
        health_file.touch()
        job_log.reinstall()
        self._end_reports(reports, parsed, self._ignored(said.get("ignored"), running))
        return self._apply_answer(member, parsed, runs, sent_s), True

    def _end_reports(
        self,
        reports: Mapping[str, PendingReport],
        parsed: ParsedAnswer,
        ignored: Mapping[str, CheckpointNotSaved],
    ) -> None:
        gone = parsed.lost | {token for _, token in parsed.cancel}
        for token, saved in reports.items():
            saved.end(CheckpointNotSaved(_NOT_OURS) if token in gone else ignored.get(token))

    def _refused(
        self,
        member: Registered,
        tries: int,
        answer: MasterAnswer,
        reports: Mapping[str, PendingReport],
        claims: int,
    ) -> tuple[float | None, bool]:
        """Return the result of `_beat_with` for a refused heartbeat. From now on, omit the optional fields that a
        master refuses, so that the master renews the leases."""
        is_too_much = answer.code in TOO_MUCH
        if is_too_much and self._send_fewer(claims):
            return 0.0, False
        fields = refused_fields(answer)
        if reports and any(loc[2:3] == ["seq"] for loc in fields) and now_s() >= self._no_numbers_until_s:
            # Masters of release 0.3.0 accept reports, but not their sequence numbers. Send the reports again without
            # numbers.
            self._no_numbers_until_s = now_s() + _NO_NUMBERS_S
            return 0.0, False
        if reports and (is_too_much or any(loc[2:3] in _REPORTS for loc in fields)):
            # The reports are invalid, or this master's release does not know their fields. Send none for a while.
            logger.warning("progress and checkpoints are refused: %s", answer)
            self._no_reports_until_s = now_s() + _NO_REPORTS_S
            refuse(reports, str(answer) if is_too_much else _OLD_MASTERS)
            return 0.0, True
        return self._not_answered(member, tries, f"refused: {answer}"), False

    def _send(
        self, member: Registered, running: "list[ReportedClaim]", as_of_ms: int
    ) -> tuple[MasterAnswer, list[MasterAnswer]]:
        """Send one heartbeat, in several calls if the claims must be split. Return the deciding answer and the other
        answers. The deciding answer is the first refusal or failure, or else the last answer. `ignored` of the deciding
        answer contains the ignored fields of all calls."""
        # Use a short timeout, so that calls to several masters fit into one lease.
        timeout_s = max(0.25, min(5.0, member.lease_s / 4))
        if self._asked is not None:
            self._asked += 1
            timeout_s = min(timeout_s, 1.0)
        most = self._most_claims if now_s() < self._in_pieces_until_s else 0
        pieces = [running[n : n + most] for n in range(0, len(running), most)] if most else [running]
        answers: list[MasterAnswer] = []
        ignored: list[Any] = []
        for piece in pieces or [running]:
            is_last = len(answers) + 1 >= len(pieces)
            body: HeartbeatRequest = {
                "running": piece,
                "free": self._free(),
                # Before the last call, a master has not seen all claims. With 0 as the time, it draws no conclusion
                # from a missing claim.
                "as_of_ms": as_of_ms if is_last else 0,
            }
            if self._offered is not None and is_last:
                body["max_jobs"] = self._offered()
            if self._asked is not None and is_last:
                body["asks_to_continue"] = True
            answer = self._client.call(
                "POST", f"/api/workers/{member.worker_id}/heartbeat", encode(body), timeout_s=timeout_s
            )
            if not answer.is_ok:
                return answer, answers
            ignored += ignored_of(answer, first=most * len(answers))
            answers.append(answer)
        if ignored:
            answers[-1] = replace(answers[-1], body={**answers[-1].body, "ignored": ignored})
        return answers[-1], answers[:-1]

    def _send_fewer(self, count: int) -> bool:
        """From now on, split `count` claims into more calls, because a master refused the body as too large. Return
        False if each call already has only one claim."""
        if now_s() >= self._in_pieces_until_s:
            self._most_claims = count
        if self._most_claims <= 1:
            return False
        self._most_claims = (self._most_claims + 1) // 2
        self._in_pieces_until_s = now_s() + _IN_PIECES_S
        logger.warning(
            "a master refuses a heartbeat with %d jobs as too large: up to %d jobs are named per call for %.0f s",
            count,
            self._most_claims,
            _IN_PIECES_S,
        )
        return True

    def _ignored(self, fields: object, running: "Sequence[ReportedClaim]") -> dict[str, CheckpointNotSaved]:
        """Log the fields that a master ignored. Return an error, by token, for each claim with an ignored
        checkpoint."""
        unsaved: dict[str, CheckpointNotSaved] = {}
        told = []
        for field in fields if isinstance(fields, list) else ():
            loc, msg = (field.get("loc"), field.get("msg")) if isinstance(field, dict) else (None, None)
            # A master that does not know `seq` can handle the reports without it.
            if not isinstance(loc, list) or loc[2:] == ["seq"]:
                continue
            told.append(f"{'.'.join(map(str, loc))}: {msg}")
            if loc[:1] == ["running"] and loc[2:3] == ["checkpoint"] and loc[1] in range(len(running)):
                unsaved[running[loc[1]]["token"]] = CheckpointNotSaved(
                    f"a master ignored the checkpoint: {msg}"
                )
        if told and told != self._told_ignored:
            logger.warning("masters ignore fields of the heartbeats: %s", "; ".join(told[:5]))
        self._told_ignored = told
        return unsaved

    def _apply_answer(
        self, member: Registered, parsed: ParsedAnswer, runs: list[JobRun], sent_s: float
    ) -> float:
        # Count the lease from the time when the heartbeat was sent: the store renewed it at that time or later.
        lease_s = (parsed.lease_until_ms - parsed.store_time_ms) / 1000
        lease_end_s = sent_s + lease_s - margin_s(lease_s)
        # Masters do not renew the leases of a permanently detached worker, which end at their old times.
        for run in runs if lease_s > 0 else ():
            if run.token not in parsed.lost:
                run.lease_end_s = lease_end_s
        self._clock.observe(parsed.store_time_ms, sent_s, now_s(), fence=parsed.fence)
        self._identity.note_epoch(parsed.epoch)
        self._identity.is_drain_ordered = parsed.drain
        self._questions, self._question_pause_s = parsed.questions, parsed.question_pause_s
        self._commands.resize(parsed.max_jobs)
        for run in runs:
            run.is_named = True
        if parsed.lost:
            self._commands.lost(list(parsed.lost))
        if parsed.cancel:
            self._commands.cancel(parsed.cancel)
        if parsed.detached:
            if self._asked is None:
                logger.warning("this worker was detached; it asks whether it may continue")
                self._asked = 0
                return 0.0
            return self._ask_again(member)
        if self._asked is not None:
            logger.warning("this worker may continue, with %d jobs", len(runs) - len(parsed.lost))
            self._asked = None
        return max(0.0, member.heartbeat_interval_s - (now_s() - sent_s))

    def _not_answered(self, member: Registered, tries: int, what: str) -> float | None:
        """Return the result of `_beat` for a heartbeat without a useful answer, and log it from time to time. Without
        an answer, a worker continues until its leases end, but a worker that knows that it is detached stops."""
        # Log the second failure in a row, and then one failure a minute.
        if tries == 1 or (tries > 1 and now_s() - self._complained_s >= REPEAT_S):
            self._complained_s = now_s()
            logger.warning("heartbeats are %s", what)
        return None if self._asked is None else self._ask_again(member)

    def _ask_again(self, member: Registered) -> float:
        """Return the seconds until the worker asks again whether it may continue. After the last question, give up all
        jobs."""
        assert self._asked is not None
        if self._asked < self._questions:
            return self._question_pause_s
        self._rejoin(
            member.worker_id, "this worker was detached, and no master confirmed that it may continue"
        )
        return 0.0

    def _rejoin(self, worker_id: str, why: str) -> None:
        self._asked = None
        if self._identity.lost(worker_id):
            logger.warning("%s: its jobs are stopped, and it registers again", why)
            self._commands.unknown(worker_id)
