"""Callbacks that come hours after the endpoint accepted the job, by injected time."""

import json

import pytest

from jqmaster.api.encoding.content import ContentReader
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.clock import SystemClock
from jqmaster.domain.challenges.challenge import Callback, ChallengeFigures, new_request_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.targets.callback import TARGET_META, TARGET_NONCE
from jqmaster.live_value import LiveValue
from jqmaster.runtime.targets.delivery import Conversions, outcome_of_callback
from jqmaster.service.challenges.challenges import ChallengeService, NewChallenge
from jqmaster.service.challenges.request_ids import RequestIds
from jqmaster.service.workers.reports import ReportService
from jqmaster.store.jobs.claims import ClaimedJob
from tests.support.long import size
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M13")

JOBS = size(100, 1_000)
HOUR_MS = 3_600_000
READER = ContentReader(LiveValue(ScanLimits(32, 20_000)))
CONVERSIONS = Conversions(bytes, READER.from_json, READER.checked, LiveValue(1 << 20))


@pytest.mark.sized
async def test_a_thousand_callbacks_hours_later_are_results(world: StoreWorld) -> None:
    challenges = ChallengeService(
        world.challenges, RequestIds(SystemClock()), ChallengeFigures(), world.records
    )
    reports = ReportService(
        world.workers,
        world.constraints,
        settlements=world.settlements,
        challenges=world.challenges,
        records=world.records,
    )
    ids = await world.enqueue_many(JOBS, keep_result=True)
    worker_id = await world.worker(max_jobs=JOBS, target="shop")
    requests = {}
    claimed: list[ClaimedJob] = []
    while len(claimed) < JOBS:
        claimed += await world.claim(worker_id, limit=500)
    ends = []
    for number, job in enumerate(claimed):
        request = new_request_id(job.job_id, job.token, TARGET_NONCE)
        requests[job.job_id] = request.text
        if number % 3 == 0:
            # The callback comes before the endpoint's answer.
            body = json.dumps({"job": job.job_id}).encode()
            assert await challenges.call_back(
                request.text, Callback("application/json", body), key="", headers={}, address="10.0.0.1"
            )
        ends.append(Outcome(job.job_id, job.token, "challenged", request_id=request.text))
        new = NewChallenge(job.job_id, job.token, 24 * HOUR_MS, meta=TARGET_META, nonce=TARGET_NONCE)
        assert await challenges.open(worker_id, new) == request
    accepted, _ = await reports.results(worker_id, ends)
    assert len(accepted) == JOBS
    world.pass_ms(7 * HOUR_MS)
    for job_id, request_id in requests.items():
        body = json.dumps({"job": job_id}).encode()
        await challenges.call_back(
            request_id, Callback("application/json", body), key="", headers={}, address="10.0.0.1"
        )
    worker_id = await world.worker(max_jobs=JOBS, target="shop")
    settled = 0
    while claimed := await world.claim(worker_id, limit=500):
        given = await world.challenges.give_callbacks(claimed)
        outcomes = [outcome_of_callback(job, job.callbacks[0], CONVERSIONS, world.now_ms) for job in given]
        accepted, stale = await reports.results(worker_id, outcomes)
        assert stale == []
        settled += len(accepted)
    assert settled == JOBS
    jobs = await world.records.get_without_argument(ids)
    assert {job.state for job in jobs.values()} == {JobState.SUCCEEDED}
    assert all(job.failures == 0 and job.attempt == 1 for job in jobs.values())
