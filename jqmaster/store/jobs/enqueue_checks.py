"""Looks for the jobs of a push that would be refused, before the push is written."""

from collections.abc import Sequence

from jqmaster.domain.jobs.job import FINISHED, JobSpec, JobState
from jqmaster.domain.jobs.predecessors import AfterWhen
from jqmaster.domain.jobs.unique import OnConflict
from jqmaster.store import codec
from jqmaster.store.jobs.enqueue_outcomes import Conflict, IdTaken, NotUnique, PredecessorRefused, PushExpired
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard


class EnqueueChecks:
    """Predicts refusals in one shard. Each method returns the refused jobs by their position. Only the write itself
    decides."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def find_taken(self, specs: Sequence[JobSpec]) -> dict[int, IdTaken]:
        """Return, by position, the jobs whose ID already belongs to another request."""
        prefix = self._keys.job_prefix
        known = await self._client.pipeline(
            [("EXISTS", *[prefix + spec.id for spec in chunk]) for chunk in pages(specs, MAX_PER_CALL)]
        )
        if not any(known):
            return {}
        calls = []
        for chunk in pages(specs, MAX_PER_CALL):
            args: list[Arg] = [self._keys.job_prefix]
            for spec in chunk:
                args += (spec.id, codec.encode_new(spec)[1])
            calls.append(ScriptCall(load("find_taken"), (), args))
        replies = await self._client.run_all(calls)
        taken = [n * MAX_PER_CALL + index for n, (_, data) in enumerate(replies) for index in data[0]]
        return {n: IdTaken(specs[n].id) for n in taken}

    async def find_refused(self, specs: Sequence[JobSpec]) -> dict[int, PredecessorRefused]:
        """Return, by position of each refused job, the predecessor that is the reason. The predecessor is neither in
        the store nor in this push, or it ended in another way than required.
        """
        own = {spec.id for spec in specs}
        known = await self._client.pipeline([("EXISTS", self._keys.job(spec.id)) for spec in specs])
        # Skip the jobs that the store already has.
        specs_to_judge = [(n, spec) for n, spec in enumerate(specs) if not known[n]]
        asked = {job_id for spec in specs if spec.after for job_id in spec.after.jobs if job_id not in own}
        states: dict[str, JobState | None] = {}
        for page in pages(sorted(asked), MAX_PER_CALL):
            codes = await self._client.pipeline(
                [("GETRANGE", self._keys.job(one), "1", "1") for one in page], skip_damaged=True
            )
            for job_id, code in zip(page, codes, strict=True):
                states[job_id] = codec.known_state(code[0]) if code else None
        found: dict[int, PredecessorRefused] = {}
        for n, spec in specs_to_judge:
            for job_id in spec.after.jobs if spec.after else ():
                if job_id in own:
                    continue
                state = states[job_id]
                ends_well = state is JobState.SUCCEEDED or (
                    spec.after and spec.after.when is AfterWhen.FINISHED
                )
                if state is None or (state in FINISHED and not ends_well):
                    found[n] = PredecessorRefused(job_id, state is None)
                    break
        return found

    async def find_expired(self, specs: Sequence[JobSpec]) -> dict[int, PushExpired]:
        """Return, by position, the jobs with an `expires_at_ms` in the past. Skip jobs that were already accepted."""
        timed = [(n, spec) for n, spec in enumerate(specs) if spec.expires_at_ms]
        if not timed:
            return {}
        now_ms = await self._shard.now_ms()
        past = [(n, spec) for n, spec in timed if spec.expires_at_ms and spec.expires_at_ms <= now_ms]
        known = await self._client.pipeline([("EXISTS", self._keys.job(spec.id)) for _, spec in past])
        return {n: PushExpired(now_ms) for (n, _), is_known in zip(past, known, strict=True) if not is_known}

    async def find_held(self, specs: Sequence[JobSpec]) -> dict[int, NotUnique]:
        """Return, by position, the jobs that are refused because another job holds their uniqueness key. The other job
        is in the store, or comes earlier in `specs`. Jobs that were already accepted are not refused."""
        first: dict[str, str] = {}
        refusable: list[tuple[int, str, str]] = []
        found: dict[int, str] = {}
        for n, spec in enumerate(specs):
            if spec.unique is None:
                continue
            digest = spec.unique.digest
            holder = first.setdefault(digest, spec.id)
            if spec.unique.on_conflict is OnConflict.REJECT:
                refusable.append((n, spec.id, digest))
                if holder != spec.id:
                    found[n] = holder
        for page in pages(refusable, MAX_PER_CALL):
            args: list[Arg] = [self._shard.now_arg, self._keys.tag]
            for _, job_id, digest in page:
                args += (job_id, digest)
            _, (held,) = await self._client.run("find_held", (), args)
            for at in range(0, len(held), 2):
                found[page[held[at]][0]] = held[at + 1].decode()
        return {n: NotUnique(holder, Conflict.REFUSED) for n, holder in sorted(found.items())}
