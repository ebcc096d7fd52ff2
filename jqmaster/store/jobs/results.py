"""Results of jobs. The store keeps them for a while for the applications that pushed the jobs."""

from jqmaster.domain.jobs.job import JobState
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.link.shard import Shard


class ResultStore:
    """Results of one shard. `result_grace_ms`: lifetime of a result after it was fetched. Raises what `StoreClient.run`
    raises."""

    def __init__(self, shard: Shard, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._times = times

    async def fetch_result(self, job_id: str, *, watch: bool) -> bytes | JobState | None:
        """Return the encoded result, or the state of an unfinished job, or None if there is no result. `watch`: request
        a message when an unfinished job ends.
        """
        k, now = self._keys, self._shard.now
        word, data = await self._client.run(
            "fetch_result",
            (k.job(job_id), k.result(job_id), k.results),
            ("" if now is None else now(), job_id, self._times.current.result_grace_ms, int(watch)),
        )
        match word:
            case "ok":
                return bytes(data[0])
            case "unfinished":
                return codec.state_of(data[0])
            case _:
                return None

    async def look_at_result(self, job_id: str) -> bytes | None:
        """Return the kept result in encoded form. The lifetime of the result stays, because this call does not count as
        fetching it.
        """
        result: bytes | None = await self._client.command("GET", self._keys.result(job_id))
        return result
