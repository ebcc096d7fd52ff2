"""Checks whether the counts of batches match their members. Read-only, in bounded steps."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.batches.batch import Batch, BatchState, CallbackState
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.batches.documents import decode_batch
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import MAX_PER_CALL, scanned

# Maximum number of times that one check counts the members of a batch. The check counts again if the batch changed
# meanwhile.
MAX_LOOKS: Final = 3
# Maximum number of members without a record that a finding names.
MAX_MISSING: Final = 1000


@dataclass(frozen=True, slots=True)
class BatchFault:
    """A batch whose counts are wrong.

    * `counts`: the right counts, as arguments of scripts.
    * `missing`: members without a record, which have to leave the batch.
    * `changes`: the batch's change counter when the batch was read. Empty: the right values are unknown, and the batch
      cannot be repaired.
    """

    batch_id: str
    detail: str
    changes: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    missing: tuple[str, ...] = ()


async def batch_faults(client: StoreClient, keys: Keys) -> AsyncIterator[BatchFault]:
    """Yield every listed batch whose counts, state or follow-ups are wrong."""
    async for flat in scanned(client, "ZSCAN", keys.batches, count=MAX_PER_CALL):
        for raw in flat[::2]:
            if fault := await _fault_of(client, keys, raw.decode()):
                yield fault


async def unlisted_batches(client: StoreClient, keys: Keys) -> AsyncIterator[BatchFault]:
    """Yield every batch that is in no list. Such batches cannot be repaired. Scans all keys of the server."""
    async for found in scanned(client, "SCAN", count=MAX_PER_CALL, match=f"{keys.batch_prefix}*"):
        for raw in found:
            batch_id = raw.decode().removeprefix(keys.batch_prefix)
            if await client.command("ZSCORE", keys.batches, batch_id) is None:
                yield BatchFault(batch_id, "is not in the list of batches")


async def _fault_of(client: StoreClient, keys: Keys, batch_id: str) -> BatchFault | None:
    for _ in range(MAX_LOOKS):
        flat = await client.command("HGETALL", keys.batch(batch_id))
        if not flat:
            # The batch has no record. This is not a fault if the batch was removed after it was listed.
            gone = await client.command("ZSCORE", keys.batches, batch_id) is None
            return None if gone else BatchFault(batch_id, "is listed but does not exist")
        try:
            batch = decode_batch(batch_id, flat)
        except DamagedError as exc:
            return BatchFault(batch_id, exc.detail)
        counted, missing = await _count(client, keys, batch_id)
        fault = _judged(batch, counted, missing)
        if fault is None:
            return await _follow_up_fault(client, keys, batch)
        changes = await client.command("HGET", keys.batch(batch_id), "changes")
        if changes is not None and int(changes) == batch.changes:
            return fault
    return None


async def _count(client: StoreClient, keys: Keys, batch_id: str) -> tuple[Counter[JobState], list[str]]:
    counted, missing, after = Counter[JobState](), list[str](), "-"
    while True:
        page = await client.command(
            "ZRANGE", keys.batch_members(batch_id), after, "+", "BYLEX", "LIMIT", "0", MAX_PER_CALL
        )
        ids = [raw.decode() for raw in page]
        codes = await client.pipeline(
            [("GETRANGE", keys.job(job_id), "1", "1") for job_id in ids], skip_damaged=True
        )
        for job_id, code in zip(ids, codes, strict=True):
            state = codec.known_state(code[0]) if code else None
            if state is not None:
                counted[state] += 1
            elif code == b"":
                missing.append(job_id)
        if len(page) < MAX_PER_CALL:
            return counted, missing
        after = f"({ids[-1]}"


def _judged(batch: Batch, counted: Counter[JobState], missing: list[str]) -> BatchFault | None:
    """Compare the counts of a batch with its members. Members that were removed after their retention are known only as
    a sum."""
    running = sum(count for state, count in counted.items() if state not in FINISHED)
    more = {state: batch.ended_as(state) - counted[state] for state in FINISHED}
    if (
        not missing
        and batch.unfinished == running
        and all(count >= 0 for count in more.values())
        and sum(more.values()) == batch.gone
    ):
        return None
    lost = missing[:MAX_MISSING]
    if batch.gone == 0:
        ended = {state: counted[state] for state in FINISHED}
    else:
        # Removed jobs remain in the counts, under their final state.
        ended = {state: counted[state] + max(0, more[state]) for state in FINISHED}
    gone = sum(ended.values()) - sum(counted[state] for state in FINISHED)
    deleted = batch.deleted + len(lost)
    counts = {str(state): count for state, count in ended.items()}
    counts |= {"gone": gone, "deleted": deleted, "total": running + sum(ended.values()) + deleted}
    detail = (
        f"counts {batch.unfinished} unfinished and {sum(batch.ended.values())} ended jobs, but has {running} and "
        f"{sum(counted.values()) - running}; {batch.gone} were removed, {len(missing)} have no record"
    )
    return BatchFault(batch.id, detail, str(batch.changes), tuple(sorted(counts.items())), tuple(lost))


async def _follow_up_fault(client: StoreClient, keys: Keys, batch: Batch) -> BatchFault | None:
    is_over = batch.state is not BatchState.OPEN and not batch.unfinished and not batch.children_unfinished
    if is_over != (batch.state is BatchState.COMPLETE):
        detail = f"is {batch.state} with {batch.unfinished} unfinished jobs"
        return BatchFault(batch.id, detail, str(batch.changes))
    if CallbackState.DUE not in batch.callbacks.values():
        return None
    if await client.command("ZSCORE", keys.follow_ups, f"batch:{batch.id}") is not None:
        return None
    # Read the batch again, because the follow-up may have been carried out since.
    flat = await client.command("HGETALL", keys.batch(batch.id))
    if not flat or CallbackState.DUE not in decode_batch(batch.id, flat).callbacks.values():
        return None
    return BatchFault(batch.id, "has a due callback that will never be enqueued", str(batch.changes))
