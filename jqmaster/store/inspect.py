"""Read-only lists and counts, bounded by the page that is asked for."""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.job import Job, JobState
from jqmaster.errors import InvalidError
from jqmaster.store import codec
from jqmaster.store.jobs import HEAD_READ, MAX_PER_CALL, JobStore
from jqmaster.store.shard import Shard

# A filter that selects little reads no more than this many records for one page; the cursor then goes on from there.
MAX_LOOKED_AT: Final = 2_000

_ORDER: Final = (
    JobState.RUNNING,
    JobState.READY,
    JobState.RETRYING,
    JobState.SCHEDULED,
    JobState.FAILED,
    JobState.SUCCEEDED,
    JobState.CANCELED,
    JobState.SKIPPED,
)
_POSITION = struct.Struct(">Bd36s")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """All that are given must hold. `q` is looked for in the ID and the name."""

    state: JobState | None = None
    name: str | None = None
    tag: str | None = None
    worker: str | None = None
    q: str | None = None

    def selects(self, job: Job) -> bool:
        return (
            (self.state is None or job.state is self.state)
            and (self.name is None or job.name == self.name)
            and (self.tag is None or self.tag in job.tags)
            and (self.worker is None or job.worker_id == self.worker)
            and (self.q is None or self.q in job.id or self.q in job.name)
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page ended: which index, and after which of its members."""

    index: str
    score: float
    job_id: str


class Inspector:
    """Lists of one shard. Raises what `JobStore` raises."""

    def __init__(self, shard: Shard, jobs: JobStore) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._jobs = jobs

    async def counts(self) -> dict[JobState, int]:
        """Jobs by state."""
        plain = [state for state in JobState if state is not JobState.READY]
        replies = await self._client.pipeline(
            [
                *(("ZCARD", self._keys.index(state)) for state in plain),
                ("HVALS", self._keys.ready_counts),
            ]
        )
        counts = dict(zip(plain, replies, strict=False))
        return {state: counts.get(state, sum(map(int, replies[-1]))) for state in JobState}

    async def ready_counts(self, names: Sequence[str]) -> dict[str, int]:
        """How many jobs of each name are ready, those behind closed gates included."""
        if not names:
            return {}
        counts = await self._client.command("HMGET", self._keys.ready_counts, *names)
        return {name: int(count or 0) for name, count in zip(names, counts, strict=True)}

    async def page(
        self, wanted: JobFilter, *, limit: int, cursor: str | None
    ) -> tuple[list[Job], str | None]:
        """Up to `limit` jobs, ordered by state and within a state as it works through them, and where to go on.

        A page may be short, even empty, while a cursor says that there is more: a rare match behind many others.
        Raises InvalidError for a cursor that no page gave.
        """
        indexes = await self._indexes(wanted)
        place = _decode_cursor(cursor, self._keys.tag) if cursor else None
        if place:
            # An index that vanished meanwhile (its last job left) is found by its place in the order.
            indexes = [index for index in indexes if self._rank(index) >= self._rank(place.index)]
        found: list[Job] = []
        looked_at = 0
        for index in indexes:
            after = place if place and place.index == index else None
            while True:
                count = min(MAX_PER_CALL, max(limit - len(found), 50))
                _, (flat,) = await self._client.run(
                    "page",
                    (index,),
                    (
                        "" if after is None else repr(after.score),
                        after.job_id if after else "",
                        count,
                        HEAD_READ,
                        self._keys.job_prefix,
                    ),
                )
                for n in range(0, len(flat), 3):
                    job_id = flat[n].decode()
                    after = _Place(index, float(flat[n + 1]), job_id)
                    looked_at += 1
                    if len(flat[n + 2]) > codec.HEAD_SIZE:
                        job = await self._jobs.job_or_none(job_id, flat[n + 2])
                        if job and wanted.selects(job):
                            found.append(job)
                    if len(found) == limit or looked_at >= MAX_LOOKED_AT:
                        return found, _encode_cursor(after, self._keys.tag)
                if len(flat) < count * 3:
                    break
        return found, None

    async def _names(self) -> list[str]:
        return sorted(name.decode() for name in await self._client.command("SMEMBERS", self._keys.names))

    async def _lanes(self, names: Sequence[str]) -> list[str]:
        """Those of each name together, in an order that does not change while they last."""
        replies = await self._client.pipeline([("ZRANGE", self._keys.lanes(name), 0, -1) for name in names])
        return [lane for reply in replies for lane in sorted(raw.decode() for raw in reply)]

    async def _indexes(self, wanted: JobFilter) -> list[str]:
        indexes = []
        for state in _ORDER:
            if wanted.state is not None and state is not wanted.state:
                continue
            if state is JobState.READY:
                names = [wanted.name] if wanted.name is not None else await self._names()
                indexes += [self._keys.ready(lane) for lane in sorted(await self._lanes(names))]
            else:
                indexes.append(self._keys.index(state))
        return indexes

    def _rank(self, index: str) -> tuple[int, str]:
        if index.startswith(self._keys.ready_prefix):
            return _ORDER.index(JobState.READY), index
        return next(
            i for i, s in enumerate(_ORDER) if s is not JobState.READY and self._keys.index(s) == index
        ), ""


def _encode_cursor(place: _Place, tag: str) -> str:
    name = place.index.removeprefix(tag).encode()
    return base64.urlsafe_b64encode(
        _POSITION.pack(len(name), place.score, place.job_id.encode()) + name
    ).decode()


def _decode_cursor(cursor: str, tag: str) -> _Place:
    try:
        raw = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        length, score, job_id = _POSITION.unpack_from(raw)
        index = raw[_POSITION.size :].decode()
        states = {s.value for s in _ORDER if s is not JobState.READY}
        if (
            len(index.encode()) != length
            or not is_id(job_id.decode())
            or not (index in states or index.startswith("ready:"))
        ):
            raise ValueError
    except (ValueError, struct.error) as exc:
        raise InvalidError("cursor is not one that a page gave", code="invalid_cursor") from exc
    return _Place(tag + index, score, job_id.decode())
