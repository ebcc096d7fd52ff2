"""Read the objects of an installation, and write them as the lines of an export.

An export never writes to the store. So the rights of a store user for backups are enough. Objects may change
during an export. Each line has the state of its object at the time at which the line was written."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from jqmaster.cli.transfer import documents
from jqmaster.cli.transfer.lines import END, HEAD, written
from jqmaster.domain.batches.batch import BatchState
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import FINISHED, Job
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.jobs.unique import UniqueScope
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import ConflictError, DamagedError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.documents import describe
from jqmaster.store.backup import loading
from jqmaster.store.batches.batches import BATCHES_PER_READ, BatchStore
from jqmaster.store.calendars.documents import decode_calendar
from jqmaster.store.constraints.documents import decode_constraint
from jqmaster.store.definitions.documents import decode_definition
from jqmaster.store.fireworq.fireworq import decode_queue
from jqmaster.store.health import generation
from jqmaster.store.identity.credentials import StoredToken, StoredUser
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import MAX_PER_CALL, RECORDS_PER_READ, pages
from jqmaster.store.link.shard import Shard
from jqmaster.store.notices.documents import decode_notice
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.targets.documents import decode_target
from jqmaster.store.workers.workers import WorkerStore

StoredT = TypeVar("StoredT")
_ID_LENGTH: Final = 36


class Exporting:
    """One export of a shard. `lines`: numbers of written objects. `left_out`: numbers of omitted objects."""

    def __init__(self, shard: Shard, times: JobTimes, *, version: str, has_secrets: bool) -> None:
        self._shard, self._times = shard, times
        self._version, self._has_secrets = version, has_secrets
        self._keys = shard.keys
        self._records = RecordStore(shard)
        self.lines = Counter[str]()
        self.left_out = Counter[str]()

    async def run(self) -> AsyncIterator[bytes]:
        """Yield the lines.

        Raise NotFoundError if no master has ever served the shard, and ConflictError if its data is being
        restored. Also raise the errors of `StoreClient.command`."""
        mark = await self._mark()
        yield written(
            HEAD,
            self._keys.tag[1:-2],
            {
                "version": self._version,
                "shard": self._keys.tag[1:-2],
                "exported_at": iso_ms(await self._shard.now_ms()),
                "secrets": self._has_secrets,
            },
        )
        async for kind, own_id, (document, facts) in self._objects():
            self.lines[kind] += 1
            yield written(kind, own_id, document, facts)
        await self._count_others()
        if await self._mark() != mark:
            raise ConflictError("the data were replaced during the export: run the command again")
        yield written(END, "", {"lines": dict(self.lines), "left_out": dict(+self.left_out)})

    async def _mark(self) -> str:
        """Return the generation mark of the data that masters serve."""
        if await loading.is_under_way(self._shard):
            raise loading.unfinished("export")
        if (mark := await generation.read(self._shard)) is None:
            raise NotFoundError(f"no master has ever served shard {self._keys.tag[1:-2]} of this store")
        return mark

    async def _objects(self) -> AsyncIterator[tuple[str, str, documents.Parts]]:
        k, has_secrets = self._keys, self._has_secrets
        for name, value in sorted((await SettingsStore(self._shard).load()).values.items()):
            yield "setting", name, ({"value": value}, {})
        for name, constraint in await self._decoded(k.constraints, decode_constraint):
            yield "constraint", name, (describe(constraint.constraint), {})
        for name, calendar in await self._decoded(k.calendars, decode_calendar):
            yield "calendar", name, documents.of_calendar(calendar)
        for name, definition in await self._decoded(k.definitions, decode_definition):
            yield "definition", name, documents.of_definition(definition.definition)
        for name, notice in await self._decoded(k.notices, decode_notice):
            yield "notice", name, documents.of_notice(notice, has_secrets=has_secrets)
        for name, target in await self._decoded(k.targets, decode_target):
            yield "target", name, documents.of_target(target, has_secrets=has_secrets)
        async for found in self._of_gateway():
            yield found
        for rule in await WorkerStore(self._shard, LiveValue(self._times)).slot_rules():
            yield "slot_rule", rule.id, documents.of_slot_rule(rule)
        for name, user in await self._decoded(k.users, StoredUser.decode):
            yield "user", name, documents.of_user(user, has_secrets=has_secrets)
        for own_id, token in await self._decoded(k.tokens, StoredToken.decode):
            yield "token", own_id, documents.of_token(token, has_secrets=has_secrets)
        async for batch in self._batches():
            yield batch
        async for job in self._jobs():
            yield job

    async def _of_gateway(self) -> AsyncIterator[tuple[str, str, documents.Parts]]:
        for name, queue in await self._decoded(self._keys.fireworq_queues, decode_queue):
            yield "fireworq_queue", name, documents.of_fireworq_queue(queue)
        for category, queue_name in await self._decoded(
            self._keys.fireworq_routings, lambda _, raw: raw.decode("utf-8", "replace")
        ):
            yield "fireworq_routing", category, ({"queue_name": queue_name}, {})

    async def _decoded(
        self, key: str, decode: Callable[[str, bytes], StoredT | None]
    ) -> list[tuple[str, StoredT]]:
        """Return the objects in a hash as pairs (name, object). Count the objects that cannot be read."""
        flat = await self._shard.client.command("HGETALL", key)
        found = []
        for raw_name, raw in sorted(zip(flat[::2], flat[1::2], strict=True)):
            name = raw_name.decode("utf-8", "replace")
            try:
                one = decode(name, raw)
            except DamagedError:
                one = None
            if one is None:
                self.left_out["damaged"] += 1
            else:
                found.append((name, one))
        return found

    async def _batches(self) -> AsyncIterator[tuple[str, str, documents.Parts]]:
        """Yield the batches that are not over. The oldest comes first, so that a batch comes before its inner
        batches."""
        store, at = BatchStore(self._shard, Tally()), 0
        while True:
            page = await self._shard.client.command(
                "ZRANGE", self._keys.batches, at, at + BATCHES_PER_READ - 1
            )
            found = await store.get_all([raw.decode() for raw in page])
            for batch in found.values():
                if batch.state is BatchState.COMPLETE or batch.canceled_at_ms:
                    self.left_out["batches that are over"] += 1
                else:
                    yield (
                        "batch",
                        batch.id,
                        documents.of_batch(batch, is_sealed=batch.state is BatchState.SEALED),
                    )
            if len(page) < BATCHES_PER_READ:
                return
            at += len(page)

    async def _jobs(self) -> AsyncIterator[tuple[str, str, documents.Parts]]:
        prefix = self._keys.job_prefix.encode()
        async for page in loading.key_pages(self._shard):
            ids = [key[len(prefix) :].decode() for key in page if key.startswith(prefix)]
            for part in pages(ids, RECORDS_PER_READ):
                jobs = []
                for job in (await self._records.get_all(part)).values():
                    if job.state in FINISHED:
                        self.left_out["jobs that are over"] += 1
                    elif job.name.startswith(RESERVED_PREFIX):
                        self.left_out["deliveries of webhooks and mails"] += 1
                    else:
                        jobs.append(job)
                holders = await self._holders(jobs)
                over = await self._over(jobs)
                for job in jobs:
                    yield (
                        "job",
                        job.id,
                        documents.of_job(
                            job,
                            holds_key=job.id in holders,
                            over=[one for one in (job.after.jobs if job.after else ()) if one in over],
                        ),
                    )

    async def _holders(self, jobs: Iterable[Job]) -> set[str]:
        """Return the IDs of the jobs that hold their uniqueness keys."""
        keyed = [
            (job.id, job.unique.digest)
            for job in jobs
            if job.unique is not None and not (job.unique.scope is UniqueScope.UNTIL_START and job.attempt)
        ]
        found = await self._got([self._keys.unique(digest) for _, digest in keyed])
        return {
            job_id
            for (job_id, _), holder in zip(keyed, found, strict=True)
            if (holder or b"")[:_ID_LENGTH] == job_id.encode()
        }

    async def _over(self, jobs: Iterable[Job]) -> set[str]:
        """Return the IDs of the predecessors of these jobs that are over or gone."""
        asked = sorted({one for job in jobs if job.after for one in job.after.jobs})
        found: set[str] = set()
        for page in pages(asked, MAX_PER_CALL):
            known = await self._records.get_all(page)
            found.update(one for one in page if one not in known or known[one].state in FINISHED)
        return found

    async def _got(self, keys: Sequence[str]) -> list[Any]:
        return await self._shard.client.pipeline([("GET", key) for key in keys]) if keys else []

    async def _count_others(self) -> None:
        k = self._keys
        groups = await self._shard.client.command("ZCARD", k.event_groups)
        self.left_out["events that wait to become one job"] = groups
        failures = await self._shard.client.command("HLEN", k.failure_ignores)
        self.left_out["ignored failures"] = failures
        triage = await self._shard.client.command("HLEN", k.failure_triage)
        self.left_out["decisions about failures"] = triage
        self.left_out["sources of declarations"] = await self._shard.client.command("HLEN", k.declarations)
