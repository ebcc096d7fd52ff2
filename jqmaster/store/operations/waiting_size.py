"""Estimates the total bytes of the records of waiting jobs."""

import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from jqmaster.domain.jobs.job import INDEXED, STATES, WAITING
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# The approximate number of records that one estimate measures. If fewer jobs wait, all are measured, and the sum is
# exact.
DRAWS: Final = 256
# The names with the most ready jobs are measured separately, up to this number. For the other names, only a sample is
# measured.
LARGEST_NAMES: Final = 24
OTHER_NAMES: Final = 8
_INDEXES: Final = tuple(STATES[state].index or "" for state in INDEXED if state in WAITING)


class _Stratum(NamedTuple):
    """Jobs of one index or name. Only some of them are measured. `stands_for`: the number of jobs that are assumed to
    have the measured mean size.
    """

    kind: str
    which: str
    jobs: int
    stands_for: float


class WaitingSize:
    """The waiting jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys

    async def bytes(self) -> int:
        """Estimate the bytes of the records of all waiting jobs, in two round trips."""
        k = self._keys
        flat, *counts = await self._client.pipeline(
            [("HGETALL", k.ready_counts), *(("ZCARD", k.tag + index) for index in _INDEXES)]
        )
        ready = {
            name.decode(): int(count)
            for name, count in zip(flat[::2], flat[1::2], strict=True)
            if int(count) > 0
        }
        strata = [
            _Stratum("index", index, int(count), int(count))
            for index, count in zip(_INDEXES, counts, strict=True)
            if count
        ]
        strata += _of_names(ready)
        if not strata:
            return 0
        waiting = sum(stratum.jobs for stratum in strata)
        args: list[Arg] = [k.tag, random.getrandbits(31)]
        for stratum in strata:
            args += (stratum.kind, stratum.which, math.ceil(DRAWS * stratum.jobs / waiting))
        _, (means,) = await self._client.run("sample_waiting", (), args)
        return round(
            sum(stratum.stands_for * float(mean) for stratum, mean in zip(strata, means, strict=True))
        )


def _of_names(ready: dict[str, int]) -> Sequence[_Stratum]:
    by_count = sorted(ready.items(), key=lambda item: -item[1])
    largest, rest = by_count[:LARGEST_NAMES], by_count[LARGEST_NAMES:]
    strata = [_Stratum("name", name, count, count) for name, count in largest]
    some = random.sample(rest, min(OTHER_NAMES, len(rest)))
    measured, others = sum(count for _, count in some), sum(count for _, count in rest)
    return [*strata, *(_Stratum("name", name, count, count * others / measured) for name, count in some)]
