"""Idempotency keys. Each key stands for one job, however often the push is repeated."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from jqmaster.domain.identity.access import LOCAL, Principal
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import ConflictError, FieldError
from jqmaster.store.jobs.enqueue_outcomes import NotUnique
from jqmaster.store.jobs.idempotency import Bound, IdempotencyStore, KeyedSpec, KeysTaken

HEADER_LIFE_MS: Final = 24 * 3600 * 1000
# Maximum number of concurrent pushes with an idempotency key. Each of them makes its own calls to the store. The limit
# leaves connections for heartbeats and results.
KEYED_AT_A_TIME: Final = 8
_REUSED: Final = "it was used for another request"


def key_owner(caller: Principal | None) -> str:
    """Return the owner of the caller's idempotency keys. If the master has no tokens, all callers share one owner."""
    return "" if caller is None or caller.name == LOCAL else caller.identity


def keyed_by_header(key: str, spec: JobSpec, owner: str) -> KeyedSpec:
    """Return the job with the key from a header. Such a key is valid for any job name."""
    # The text is unambiguous, because a header's key contains no blanks.
    return KeyedSpec(_digest(f"{owner} {key}" if owner else key), spec, HEADER_LIFE_MS)


def keyed_by_job(spec: JobSpec, owner: str) -> KeyedSpec:
    """Return the job with its own key. Such a key is valid for the job's name."""
    # The text is unambiguous, because names and owners contain no line feed. It never equals the text of a header's
    # key, because that text contains no line feed.
    return KeyedSpec(_digest(f"{owner}\n{spec.name}\n{spec.key}"), spec, spec.key_life_ms)


class IdempotencyKeys:
    """Reserves job IDs for keys before a push, and marks the keys as accepted after it."""

    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store
        self._places = asyncio.Semaphore(KEYED_AT_A_TIME)

    async def reserve_one(self, keyed: KeyedSpec, replicas: int) -> Bound:
        """Return the job of a single push with the ID that belongs to its key. Raise ConflictError if the key was used
        for another request."""
        async with self._places:
            try:
                (bound,) = await self._store.reserve_ids([keyed], replicas=replicas)
            except KeysTaken as taken:
                errors = [FieldError(("key",), _REUSED)] if keyed.spec.key else []
                raise _key_reused("the idempotency key was", errors) from taken
        return bound

    async def reserve(self, keyed: Mapping[int, KeyedSpec], replicas: int) -> list[Bound]:
        """Return the jobs of a bulk with the IDs that belong to their keys. `keyed`: the jobs with keys, by index.
        Raise ConflictError, which names the keys that were used for other requests."""
        async with self._places:
            try:
                return await self._store.reserve_ids(list(keyed.values()), replicas=replicas)
            except KeysTaken as taken:
                numbers = list(keyed)
                errors = [FieldError(("jobs", numbers[index], "key"), _REUSED) for index in taken.indexes]
                raise _key_reused(f"{len(errors)} of the idempotency keys were", errors) from taken

    async def mark(self, accepted: Mapping[str, NotUnique | None], replicas: int) -> None:
        """Record that pushes with these keys were accepted; see `IdempotencyStore.mark_accepted`."""
        async with self._places:
            await self._store.mark_accepted(accepted, replicas=replicas)


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _key_reused(which_were: str, errors: Sequence[FieldError]) -> ConflictError:
    return ConflictError(
        f"{which_were} used for another request", code="idempotency_key_reused", errors=errors
    )
