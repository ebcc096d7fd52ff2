"""Stores which job each idempotency key stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job import JobSpec
from jqmaster.store import codec
from jqmaster.store.jobs.enqueue_outcomes import Conflict, NotUnique
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard


@dataclass(frozen=True, slots=True)
class Bound:
    """The job behind an idempotency key.

    * `was_accepted`: a push with the key was accepted before.
    * `conflict`: the outcome of that push if another job held its uniqueness key.
    """

    job_id: str
    was_accepted: bool
    conflict: Conflict | None = None


# By conflict of an accepted push: the character for this conflict in the value of the idempotency key.
_MARKS: Final = {None: "+", Conflict.EXISTING: "=", Conflict.REPLACED: "~"}
_MARKED: Final = {ord(mark): conflict for conflict, mark in _MARKS.items()}


@dataclass(frozen=True, slots=True)
class KeyedSpec:
    """A job with the digest and the lifetime of its idempotency key."""

    key_digest: str
    spec: JobSpec
    life_ms: int


class KeysTaken(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """Some keys already stand for other requests. `indexes`: the positions of these keys."""

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__(indexes)
        self.indexes = indexes


class IdempotencyStore:
    """The idempotency keys of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys

    async def reserve_ids(self, keyed: Sequence[KeyedSpec], *, replicas: int | None = None) -> list[Bound]:
        """Reserve and return the job ID that each idempotency key stands for. Raise KeysTaken, which names only keys of
        one page. Keys of earlier pages stay reserved.
        """
        found: list[Bound] = []
        for page in pages(keyed, MAX_PER_CALL):
            args: list[Arg] = [self._keys.idempotency_prefix]
            for one in page:
                args += (one.key_digest, one.spec.id, codec.encode_new(one.spec)[1], one.life_ms)
            word, (answers,) = await self._client.run("reserve_ids", (), args, replicas=replicas)
            if word == "taken":
                raise KeysTaken([len(found) + index for index in answers])
            found += [
                Bound(answers[n].decode(), answers[n + 1] > 0, _MARKED.get(answers[n + 1]))
                for n in range(0, len(answers), 2)
            ]
        return found

    async def mark_accepted(
        self, accepted: Mapping[str, NotUnique | None], *, replicas: int | None = None
    ) -> None:
        """Record that pushes with idempotency keys were accepted. `accepted`: by digest of the idempotency key, the
        conflict with another job about the uniqueness key (None: no conflict).
        """
        for page in pages(list(accepted.items()), MAX_PER_CALL):
            args: list[Arg] = [self._keys.idempotency_prefix]
            for key_digest, held in page:
                args += (key_digest, _MARKS[held.conflict if held else None], held.holder if held else "")
            await self._client.run("mark_accepted", (), args, replicas=replicas)
