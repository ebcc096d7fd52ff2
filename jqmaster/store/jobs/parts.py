"""Partial results of jobs. Only the claim that holds a job adds to them."""

from collections.abc import Sequence
from typing import Final, Literal

from jqmaster.domain.jobs.parts import Part, PartLimits, PartPage, PartPosition
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.link.shard import Shard

MAX_PARTS_PER_READ: Final = 200

Saved = Literal["ok", "stale", "full"]


class PartStore:
    """Partial results of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, limits: LiveValue[PartLimits]) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._limits = limits

    async def save(
        self, worker_id: str, job_id: str, token: str, first: int, values: Sequence[bytes]
    ) -> Saved:
        """Store all of the values or none of them. Return `ok`, `stale` (the worker does not hold the job under this
        token), or `full` (the limits are exceeded). `first`: the number of the first value among all values of the
        claim.
        """
        limits, k = self._limits.current, self._keys
        word, _ = await self._client.run(
            "save_parts",
            (k.job(job_id), k.parts(job_id)),
            (
                job_id,
                bytes.fromhex(token),
                codec.id_bytes(worker_id),
                first,
                limits.max_parts,
                limits.max_bytes,
                limits.keep_ms,
                k.finished_channel,
                *values,
            ),
        )
        match word:
            case "ok" | "stale" | "full":
                return word
            case _:  # pragma: no cover  the script declares these words
                raise AssertionError(word)

    async def read(self, job_id: str, after: PartPosition, *, watch: bool) -> PartPage | None:
        """Return parts of the present attempt after a position, or None if there is no such job. `watch`: request a
        message when the job ends."""
        k = self._keys
        word, data = await self._client.run(
            "read_parts",
            (k.job(job_id), k.parts(job_id)),
            (after.attempt, after.number, MAX_PARTS_PER_READ, int(watch)),
        )
        if word == "unknown":
            return None
        state, attempt, flat = data
        parts = [
            Part(PartPosition(*map(int, position.split(b"-"))), bytes(value))
            for position, value in zip(flat[::2], flat[1::2], strict=True)
        ]
        return PartPage(codec.state_of(state), attempt, parts, len(parts) == MAX_PARTS_PER_READ)
