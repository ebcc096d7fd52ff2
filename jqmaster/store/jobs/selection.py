"""Applies a filter to the beginnings of records, and reads further data that the filter needs."""

from collections.abc import Sequence

from jqmaster.domain.jobs.job import Job
from jqmaster.domain.jobs.job_filter import GroupsOf, JobFilter
from jqmaster.domain.matching.matcher import Matcher
from jqmaster.store import codec
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.jobs.records import HEAD_READ, RecordStore
from jqmaster.store.link.pages import RECORDS_PER_READ, pages


class Selection:
    """Selects jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, records: RecordStore, groups_of: GroupsOf) -> None:
        self._records = records
        self._groups_of = groups_of

    async def of(self, wanted: JobFilter, ids: Sequence[str], beginnings: Sequence[bytes]) -> dict[int, Job]:
        """Return the jobs that the filter selects, by position in `ids`. `beginnings`: the first HEAD_READ bytes of
        each record, empty where there is none."""
        selected = {}
        sought = [text.encode() for text in (wanted.name, wanted.tag) if text is not None]
        for n, (job_id, record) in enumerate(zip(ids, beginnings, strict=True)):
            if len(record) < HEAD_READ and not all(text in record for text in sought):
                continue  # do not decode records without these words: this saves most of the work if few jobs match
            if wanted.q is not None and wanted.q not in job_id and wanted.q.encode() not in record:
                continue
            if len(record) > codec.HEAD_SIZE:
                if wanted.asks_errors and not codec.may_have_failed(record):
                    continue
                job = await self._records.job_or_none(job_id, record)
                if job and wanted.selects(job):
                    selected[n] = job
        if wanted.matcher is not None:
            selected = await self._matched(wanted, wanted.matcher, selected, beginnings)
        if not wanted.asks_errors or not selected:
            return selected
        ends = await self._records.last_ends([job.id for job in selected.values()])
        return {
            n: job
            for (n, job), end in zip(selected.items(), ends, strict=True)
            if wanted.selects_error(job, end, self._groups_of)
        }

    async def _matched(
        self, wanted: JobFilter, matcher: Matcher, jobs: dict[int, Job], beginnings: Sequence[bytes]
    ) -> dict[int, Job]:
        long = {n for n in jobs if wanted.asks_argument and len(beginnings[n]) >= HEAD_READ}
        found = {}
        for some in pages(sorted(long), RECORDS_PER_READ):
            whole = await self._records.get_all([jobs[n].id for n in some])
            # Keep the jobs without their arguments, because arguments may be large.
            matching = [n for n in some if (job := whole.get(jobs[n].id)) and matcher.matches(fields_of(job))]
            found.update({n: jobs[n] for n in matching})
        found.update({n: job for n, job in jobs.items() if n not in long and matcher.matches(fields_of(job))})
        return dict(sorted(found.items()))
