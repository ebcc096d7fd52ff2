"""Lists challenges for operators, and passes on their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.challenges.challenge import Callback, CallbackAnswer, Challenge, ChallengeState
from jqmaster.domain.jobs.job import Attempt, Job
from jqmaster.errors import ChallengeOverError, ConflictError, NotFoundError
from jqmaster.service.jobs.reader import existing_job
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.records import RecordStore

# Maximum number of jobs that are read for a page of a filtered list, and in one step of it.
MAX_LOOKED_AT: Final = 2_000
PER_READ: Final = 100

Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ShownChallenge:
    """A challenge with its job. `end`: the end of the attempt that opened it. None: the attempt has not ended, or has
    succeeded."""

    challenge: Challenge
    job: Job
    end: Attempt | None = None


@dataclass(frozen=True, slots=True)
class ChallengePage:
    """A page of challenges, the newest first. `next_position`: None if this is the last page."""

    challenges: Sequence[ShownChallenge]
    next_position: Place | None


class ChallengeReader:
    """Reads challenges for operators. Methods raise what the store raises."""

    def __init__(self, store: ChallengeStore, records: RecordStore) -> None:
        self._store = store
        self._records = records

    async def of_job(self, job_id: str) -> list[ShownChallenge]:
        """Return the challenges of a job, the newest first. Raise NotFoundError."""
        job = await existing_job(self._records, job_id)
        found = (await self._store.of([job_id]))[job_id]
        return [ShownChallenge(one, job, await self._end_of(one)) for one in reversed(found)]

    async def page(
        self,
        place: Place | None,
        limit: int,
        *,
        state: ChallengeState | None = None,
        is_meant: Callable[[Job], bool] = lambda _: True,
    ) -> ChallengePage:
        """Return challenges of jobs that come after a position in the list. The job with the newest challenge comes
        first.

        A page may be short or empty although further pages follow. All selected challenges of a job are on the same
        page.
        """
        found: list[ShownChallenge] = []
        for _ in range(0, MAX_LOOKED_AT, PER_READ):
            places = await self._store.newest(place, PER_READ)
            job_ids = [job_id for _, job_id in places]
            jobs = await self._records.get_without_argument(job_ids)
            challenges = await self._store.of([job_id for job_id in job_ids if job_id in jobs])
            for at in places:
                job = jobs.get(at[1])
                if job is not None and is_meant(job):
                    meant = [one for one in reversed(challenges[job.id]) if state in (None, one.state)]
                    found += [ShownChallenge(one, job, await self._end_of(one)) for one in meant]
                place = at
                if len(found) >= limit:
                    return ChallengePage(found, place)
            if len(places) < PER_READ:
                return ChallengePage(found, None)
        return ChallengePage(found, place)

    async def answer(self, job_id: str, shown: str, callback: Callback) -> bool:
        """Answer a challenge in place of the outside system. Return False if the same callback came before. Raise
        NotFoundError, ConflictError, ChallengeOverError."""
        await existing_job(self._records, job_id)
        received = await self._store.take_shown(job_id, shown, callback)
        match received.answer:
            case CallbackAnswer.TAKEN:
                return True
            case CallbackAnswer.REPEATED:
                return False
            case CallbackAnswer.CONFLICT:
                raise ConflictError("another callback came before", code="callback_conflict")
            case CallbackAnswer.OVER:
                raise ChallengeOverError(
                    "the attempt that waited for this callback is over", code="challenge_over"
                )
        raise NotFoundError("the job has no such challenge", code="unknown_challenge")

    async def _end_of(self, challenge: Challenge) -> Attempt | None:
        if challenge.state not in (ChallengeState.FAILED, ChallengeState.EXPIRED, ChallengeState.VOID):
            return None
        for attempt in reversed(await self._records.history(challenge.job_id)):
            if attempt.attempt == challenge.attempt:
                return attempt
        return None
