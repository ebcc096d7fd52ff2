"""Checks conditions with single occurrences. Each check starts at the watermark where the last check ended."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.definitions.run import RunOutcome
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.failure_group import failure_group_id, normalise
from jqmaster.domain.jobs.failures import GroupedFailures
from jqmaster.domain.jobs.job import Cause
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.jobs.stack_frame import kind_of
from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import NoticeIncidentItem
from jqmaster.live_value import LiveValue
from jqmaster.service.notices.findings import MatchableFinding, of_name
from jqmaster.store.definitions.definitions import DefinitionStore
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.notices.failed_jobs import FailedJob, FailedJobStore
from jqmaster.store.notices.waiting_challenges import WaitingChallenge, WaitingChallengeStore
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.workers.workers import WorkerStore

# Maximum number of jobs that a round counts. If there are more, the next round continues at once.
MAX_PER_ROUND: Final = 10_000
# Maximum number of records of each definition that a check reads.
_RUNS_PER_LOOK: Final = 20
_MAX_LOST: Final = 2_000

# The stored position up to which a condition was checked. None: it was never checked.
Watermark = Any


@dataclass(frozen=True, slots=True)
class HappeningsPage:
    """The occurrences that one check found. `has_more`: whether there are more. If so, the next check must continue at
    once."""

    seen: list[MatchableFinding]
    watermark: Watermark
    has_more: bool = False


class MomentaryConditions:
    """Checks conditions with single occurrences. The first check of a condition reports nothing, and only sets the
    watermark to the current position. `access`: the job content that every receiver of a message may see. Methods raise
    what the stores raise."""

    def __init__(
        self,
        failed: FailedJobStore,
        records: RecordStore,
        history: HistoryStore,
        *,
        definitions: DefinitionStore,
        workers: WorkerStore,
        leadership: LeadershipStore,
        access: LiveValue[ContentAccess],
        waiting: WaitingChallengeStore,
    ) -> None:
        self._waiting = waiting
        self._failed = failed
        self._records = records
        self._history = history
        self._definitions = definitions
        self._workers = workers
        self._leadership = leadership
        self._access = access
        self._looks: Mapping[When, Callable[[Watermark, int], Awaitable[HappeningsPage]]] = {
            When.JOB_FAILED: self._failed_jobs,
            When.CHALLENGE_WAITING: self._waiting_challenges,
            When.CHALLENGE_EXPIRED: self._expired_challenges,
            When.NEW_FAILURE_GROUP: self._new_groups,
            When.FAILURE_REOPENED: self._reopened_groups,
            When.DEFINITION_MISSED: self._missed_instants,
            When.WORKER_LOST: self._lost_workers,
            When.LEADER_CHANGED: self._changed_leader,
        }

    async def look(self, when: When, watermark: Watermark, now_ms: int) -> HappeningsPage:
        """Return the occurrences of the condition `when` since `watermark`."""
        return await self._looks[when](watermark, now_ms)

    async def _failed_jobs(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        return await self._failures(watermark, now_ms, lambda _: True)

    async def _expired_challenges(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        return await self._failures(watermark, now_ms, lambda one: one.job.cause is Cause.CALLBACK_TIMEOUT)

    async def _waiting_challenges(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        if not isinstance(watermark, int):
            return HappeningsPage([], now_ms - 1)
        began, seen, found_any = watermark, list[MatchableFinding](), False
        while True:
            job_ids, watermark = await self._waiting.after(watermark, now_ms)
            found_any = found_any or bool(job_ids)
            seen += [self._waits(one) for one in await self._waiting.read(job_ids)]
            if watermark >= now_ms - 1 or len(seen) >= MAX_PER_ROUND:
                is_still = not found_any and watermark >= began
                return HappeningsPage(seen, began if is_still else watermark, has_more=watermark < now_ms - 1)

    def _waits(self, one: WaitingChallenge) -> MatchableFinding:
        job, challenge = one.job, one.challenge
        title = challenge.form.title if challenge.form and not self._is_covered else ""
        line = f"{job.name}: {title or 'waits for an answer'}, until {iso_ms(challenge.due_at_ms)}"
        return MatchableFinding(
            NoticeIncidentItem(job.name, line, challenge.remind_at_ms, job.id), fields_of(job)
        )

    async def _failures(
        self, watermark: Watermark, now_ms: int, is_meant: Callable[[FailedJob], bool]
    ) -> HappeningsPage:
        if not isinstance(watermark, int):
            return HappeningsPage([], now_ms - 1)
        seen: list[MatchableFinding] = []
        began, found_any = watermark, False
        while True:
            job_ids, watermark = await self._failed.after(watermark, now_ms)
            found_any = found_any or bool(job_ids)
            seen += [
                self._failure(one)
                for one in await self._failed.read(job_ids)
                # Skip the masters' own jobs. Otherwise, a message that failed would cause further messages without end.
                if not one.job.name.startswith(RESERVED_PREFIX) and is_meant(one)
            ]
            if watermark >= now_ms - 1 or len(seen) >= MAX_PER_ROUND:
                # If no job has failed, return the old watermark. Then nothing needs to be written.
                is_still = not found_any and watermark >= began
                return HappeningsPage(seen, began if is_still else watermark, has_more=watermark < now_ms - 1)

    def _failure(self, one: FailedJob) -> MatchableFinding:
        job = one.job
        cause = job.cause.name.lower() if job.cause else "error"
        message = (one.end.message or "") if one.end else ""
        line = self._line(job.name, cause, normalise(message))
        group = failure_group_id(job.name, cause, message, kind_of(one.end.error) if one.end else "")
        return MatchableFinding(
            NoticeIncidentItem(job.name, line, job.finished_at_ms, job.id, group), fields_of(job)
        )

    def _line(self, name: str, cause: str, message: str) -> str:
        return f"{name}: {cause}" + ("" if self._is_covered or not message else f": {message}")

    @property
    def _is_covered(self) -> bool:
        """Return whether parts of jobs are redacted. If so, messages do not contain texts from jobs."""
        access = self._access.current
        return bool(access.error_text_cover) or access.redactor.has("argument", "headers", "error")

    async def _new_groups(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        if not isinstance(watermark, int):
            return HappeningsPage([], now_ms)
        found = [
            (max(group.first_seen_ms, group.regressed_ms), group)
            for group in await self._history.failure_groups()
            if max(group.first_seen_ms, group.regressed_ms) > watermark
            and not group.is_ignored(now_ms)
            and not group.name.startswith(RESERVED_PREFIX)
        ]
        newest_ms = max((at_ms for at_ms, _ in found), default=watermark)
        return HappeningsPage(await self._of_groups(found), newest_ms)

    async def _reopened_groups(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        reopened = {
            (group.id, group.resolution.at_ms): group
            for group in await self._history.failure_groups()
            if group.resolution is not None
            and group.reopened_by() is not None
            and not group.is_ignored(now_ms)
            and not group.name.startswith(RESERVED_PREFIX)
        }
        # Keep only groups that are still reopened. A group that is resolved and then comes back again counts once more.
        now_reopened = sorted(map(list, reopened))
        if not isinstance(watermark, list):
            return HappeningsPage([], now_reopened)
        told = {tuple(one) for one in watermark}
        new = [(group.last_seen_ms, group) for key, group in reopened.items() if key not in told]
        return HappeningsPage(await self._of_groups(new), now_reopened)

    async def _of_groups(self, found: Sequence[tuple[int, GroupedFailures]]) -> list[MatchableFinding]:
        """Return a finding for each group, with the time of its occurrence."""
        jobs = await self._records.get_without_argument([group.example_job_id for _, group in found])
        seen = []
        for at_ms, group in found:
            line = self._line(group.name, group.cause, group.message)
            if version := group.reopened_by():
                line = f"{line}, resolved, and back in version {version}"
            job = jobs.get(group.example_job_id)
            finding = NoticeIncidentItem(group.name, line, at_ms, group.example_job_id, group.id)
            seen.append(MatchableFinding(finding, fields_of(job) if job else of_name(group.name)))
        return seen

    async def _missed_instants(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        if not isinstance(watermark, int):
            return HappeningsPage([], now_ms)
        seen, newest_ms = [], watermark
        for names in pages(await self._definitions.names(), MAX_PER_CALL):
            for runs in await self._definitions.newest_runs(names, _RUNS_PER_LOOK):
                for run in runs:
                    if run.recorded_at_ms <= watermark:
                        continue
                    newest_ms = max(newest_ms, run.recorded_at_ms)
                    if run.outcome is RunOutcome.MISSED:
                        line = f"{run.definition}: missed the instant of {iso_ms(run.due_at_ms)}"
                        finding = NoticeIncidentItem(run.definition, line, run.recorded_at_ms)
                        seen.append(MatchableFinding(finding, of_name(run.definition)))
        return HappeningsPage(seen, newest_ms)

    async def _lost_workers(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        workers, _ = await self._workers.all_with_time()
        lost = {
            worker.id: worker
            for worker in workers
            # Skip a master's own worker: it starts and ends with the master's lead.
            if worker.detached_by == "silence" and not worker.spec.is_built_in
        }
        # Keep only workers that are still lost. A worker that comes back and is then lost again counts once more.
        now_lost = sorted(lost)[:_MAX_LOST]
        if not isinstance(watermark, list):
            return HappeningsPage([], now_lost)
        seen = []
        for worker_id in set(now_lost) - set(watermark):
            worker = lost[worker_id]
            line = (
                f"worker {worker_id} on {worker.spec.node_id}, silent since {iso_ms(worker.silent_since_ms)}"
            )
            seen.append(MatchableFinding(NoticeIncidentItem("", line, now_ms), of_name("")))
        return HappeningsPage(seen, now_lost)

    async def _changed_leader(self, watermark: Watermark, now_ms: int) -> HappeningsPage:
        number = await self._leadership.newest_number()
        if not isinstance(watermark, int) or watermark == number:
            return HappeningsPage([], number)
        return HappeningsPage(
            [
                MatchableFinding(
                    NoticeIncidentItem("", f"a new leadership began: {number}", now_ms), of_name("")
                )
            ],
            number,
        )
