"""Notices on a shard under test: rounds of the leader in injected time, and their deliveries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from jqmaster.domain.content.content import full_access
from jqmaster.domain.jobs.job import Cause, Job, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.namespaces.troubles import NO_TROUBLES, Troubles
from jqmaster.domain.notices.delivery import DELIVERY_NAMES, DeliveryFigures
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.preview import Previews
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.notices.editor import NoticeEditor
from jqmaster.service.notices.evaluation import NoticeEvaluation
from jqmaster.service.notices.lasting_conditions import LastingConditions
from jqmaster.service.notices.letters import Letters
from jqmaster.service.notices.momentary_conditions import MomentaryConditions
from jqmaster.service.notices.reader import NoticeReader
from jqmaster.service.notices.sending import NoticeSender
from jqmaster.store import codec
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.notices.failed_jobs import FailedJobStore
from jqmaster.store.notices.notices import NoticeStore
from jqmaster.store.notices.waiting_challenges import WaitingChallengeStore
from jqmaster.store.operations.history import HistoryStore
from tests.support.constraints import preview_turns
from tests.support.store import StoreWorld

FIELDS: Mapping[str, Any] = {
    "when": "job_failed",
    "matcher": None,
    "threshold": None,
    "to": [{"mail": ["ops@shop.example"]}],
    "group_by": "none",
    "at_most_every_s": 300,
    "muted_until": None,
    "description": "",
}
_PER_CALL = 100


class WorldClock:
    """A process clock that follows the world's time but never goes back."""

    def __init__(self, world: StoreWorld) -> None:
        self._world = world
        self._seen_ms = world.now_ms
        self._passed_ms = 0

    def monotonic_s(self) -> float:
        self._passed_ms += max(0, self._world.now_ms - self._seen_ms)
        self._seen_ms = self._world.now_ms
        return self._passed_ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps here")


@dataclass(frozen=True, slots=True)
class Told:
    """One delivery, as its job has it."""

    job: Job
    argument: dict[str, Any]


class Notices:
    """`store_faults` are the simulated faults of the store. `log_due_ms`: since when a log waits for the archive."""

    def __init__(
        self, world: StoreWorld, *, mail_to: Sequence[str] = (), is_of_installation: bool = True
    ) -> None:
        self.world = world
        self.store = NoticeStore(world.shard)
        self.reader = NoticeReader(self.store)
        self.history = HistoryStore(world.shard, master_id="m1")
        self.store_faults: dict[str, str] = {}
        self.duty_faults: dict[str, str] = {}
        self.quotas: dict[str, str] = {}
        self.troubles = NO_TROUBLES
        self.log_due_ms: int | None = None
        self.prepared = 0
        self.figures = DeliveryFigures()
        self._mail_to = mail_to
        self.access = full_access([])

        async def now_ms() -> int:
            return world.now_ms

        self.editor = NoticeEditor(
            self.store,
            AuditStore(world.shard),
            now_ms,
            can_sign=True,
            can_mail=True,
            is_of_installation=is_of_installation,
        )
        self.evaluation = self.new_evaluation()

    def new_evaluation(self) -> NoticeEvaluation:
        """Return the evaluation of another leadership, which knows only what is stored."""
        world, clock = self.world, WorldClock(self.world)
        usage = UsageStore(world.shard, world.records)
        previews = Previews(world.lanes, usage, clock, preview_turns(clock))

        waiting = WaitingChallengeStore(world.shard, world.records, world.challenges)

        async def prepare() -> None:
            self.prepared += 1

        return NoticeEvaluation(
            self.store,
            MomentaryConditions(
                FailedJobStore(world.shard, world.records),
                world.records,
                self.history,
                definitions=world.definitions,
                workers=world.workers,
                leadership=world.leadership,
                access=LiveValue(self.access),
                waiting=waiting,
            ),
            LastingConditions(
                self.history,
                ConstraintReader(world.constraints, usage, world.gates, previews),
                lambda: self.store_faults,
                self._log_due_ms,
                clock,
                duty_faults=lambda: self.duty_faults,
                quotas=lambda: self.quotas,
                calendars=CalendarStore(world.shard),
                troubles=self._present_troubles,
            ),
            NoticeSender(
                world.acceptance,
                world.records,
                world.constraints,
                Letters(
                    "https://jobs.shop.example/queue",
                    ["Log_lines=https://logs.example/?job={job_id}&n={attempt}"],
                ),
                prepare=prepare,
                waiting=waiting,
            ),
            clock,
            figures=self.figures,
            mail_to=self._mail_to,
        )

    async def put(self, name: str = "n", **fields: Any) -> None:
        await self.editor.put(name, {**FIELDS, **fields}, who="user:ada")

    async def _present_troubles(self) -> Troubles:
        return self.troubles

    async def _log_due_ms(self) -> int | None:
        return self.log_due_ms

    async def rounds(self, seconds: float, step_s: float = 2.0) -> None:
        """Let time pass, with a round in each step."""
        for _ in range(round(seconds / step_s)):
            self.world.pass_ms(round(1000 * step_s))
            await self.round()

    async def round(self) -> None:
        """Run one round and any immediate follow-ups."""
        for _ in range(20):
            if await self.evaluation.round(self.world.epoch):
                return
        raise AssertionError("the rounds do not end")

    async def fail(self, count: int = 1, name: str = "work", message: str = "no", **fields: Any) -> list[str]:
        """Let jobs fail for good now."""
        job_ids = await self.world.enqueue_many(count, name, **fields)
        worker = await self.world.worker(name, max_jobs=count)
        failed = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
        left = count
        while left:
            claimed = await self.world.claim(worker, name, limit=min(left, _PER_CALL))
            jobs = await self.world.records.get_all([job.job_id for job in claimed])
            settlements = [
                Settlement(
                    job.job_id,
                    job.token,
                    failed,
                    codec.encode_attempt(jobs[job.job_id], "failure", message, None),
                    b"",
                )
                for job in claimed
            ]
            assert all(await self.world.settlements.settle(worker, settlements))
            left -= len(claimed)
        return job_ids

    async def told(self) -> list[Told]:
        """Return deliveries in message order."""
        found: list[Told] = []
        for name in DELIVERY_NAMES:
            job_ids = await self.world.redis.zrange(self.world.ready(name), 0, -1)
            jobs = await self.world.records.get_all([raw.decode() for raw in job_ids])
            found += [Told(job, msgpack.unpackb(job.argument)) for job in jobs.values()]
        return sorted(found, key=lambda one: one.job.id)

    async def subjects(self) -> list[str]:
        return [one.argument["subject"].removeprefix("[jqmaster] ") for one in await self.told()]

    async def by_address(self) -> dict[str, list[str]]:
        """Return the subjects of mails by their address."""
        found = defaultdict(list)
        for one in await self.told():
            found[one.argument["to"]].append(one.argument["subject"])
        return dict(found)
