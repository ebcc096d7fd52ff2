"""The stores and services through which an import writes. A master has the same stores and services."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jqmaster.app import policies
from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import full_access
from jqmaster.domain.definitions.run import FiringFigures
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.calendars.editor import CalendarEditor
from jqmaster.service.calendars.sources import CalendarSources
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.key_values import KeyValues
from jqmaster.service.definitions.editor import DefinitionEditor
from jqmaster.service.definitions.firing import DefinitionFiring
from jqmaster.service.fireworq.queues import FireworqQueues
from jqmaster.service.notices.editor import NoticeEditor
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.store.backup import loading
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.definitions.definitions import DefinitionStore, KeptRuns
from jqmaster.store.fireworq.fireworq import FireworqStore
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import Outcome
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.notices.notices import NoticeStore
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.targets.targets import TargetStore
from jqmaster.store.workers.workers import WorkerStore

if TYPE_CHECKING:
    from jqmaster.config import Settings


class Installation:
    """The shard into which an import writes. Raises the errors of `StoreClient.run`."""

    def __init__(self, shard: Shard, settings: "Settings") -> None:
        self._shard = shard
        tally, records = Tally(), RecordStore(shard)
        store, usage = ConstraintStore(shard), UsageStore(shard, records)
        self._cache = ConstraintCache(store)
        self._new_jobs = EnqueueStore(shard, tally)
        self.settings_store = SettingsStore(shard)
        self.settings = LiveSettings(settings, self.settings_store)
        self.max_definitions = settings.max_definitions
        self.batch_life_ms = round(settings.batch_life_s * 1000)
        # Allow access to all data. Only operators with access to the store can import, and they may see all data.
        self.access = full_access(())
        self.audit = AuditStore(shard)
        self.constraint_editor = ConstraintEditor(
            store,
            self._cache,
            usage,
            shard.now_ms,
            KeyValues(usage, LaneStore(shard), SystemClock()),
            audience=LiveValue(full_access(settings.redact_paths)),
        )
        definitions = DefinitionStore(shard, tally)
        calendars = CalendarStore(shard)
        firing = DefinitionFiring(
            definitions,
            self._cache,
            kept=LiveValue(KeptRuns(settings.definition_runs_max, round(settings.definition_runs_s * 1000))),
            figures=FiringFigures(),
        )
        self.definition_editor = DefinitionEditor(definitions, firing, self.audit, shard.now_ms, calendars)
        self.calendar_editor = CalendarEditor(calendars, CalendarSources(), firing, shard.now_ms)
        # Accept all notices. Only a master knows whether signatures and mail are configured, and which namespace
        # this is.
        self.notice_editor = NoticeEditor(
            NoticeStore(shard),
            self.audit,
            shard.now_ms,
            can_sign=True,
            can_mail=True,
            is_of_installation=True,
        )
        targets = TargetStore(shard)
        self.target_editor = TargetEditor(targets, shard.now_ms)
        self.fireworq = FireworqQueues(
            FireworqStore(shard), self.constraint_editor, self.target_editor, targets, SystemClock(),
            default_queue=None, hosts=settings.fireworq_hosts,
        )  # fmt: skip
        self.workers = WorkerStore(shard, LiveValue(policies.job_times(settings)))
        self.batches = BatchStore(shard, tally)
        self.credentials = CredentialStore(shard)

    async def refuse_unserved(self) -> None:
        """Raise NotFoundError if no master has ever served the shard, and ConflictError during a restore."""
        if await loading.is_under_way(self._shard):
            raise loading.unfinished("import")
        if await generation.read(self._shard) is None:
            raise NotFoundError(
                "no master has ever served this shard: start `jqmaster serve` once before you import"
            )
        await self._cache.reload()

    async def existing(self, job_ids: Sequence[str]) -> set[str]:
        """Return those of the given job IDs that belong to existing jobs."""
        found = await self._shard.client.pipeline(
            [("EXISTS", self._shard.keys.job(job_id)) for job_id in job_ids]
        )
        return {job_id for job_id, count in zip(job_ids, found, strict=True) if count}

    async def enqueue(self, specs: Sequence[JobSpec]) -> list[Outcome]:
        return await self._cache.under(lambda constraints: self._new_jobs.enqueue(specs, constraints))
