"""Webhooks of ends: one that cannot be made holds up no other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import OUTCOMES, STATES, Job, JobSpec, JobState, Notify
from jqmaster.domain.notices.webhook import body_of
from jqmaster.service.notices.webhooks import WebhookFollowUps
from tests.domain.notices.test_webhook import ended_job

pytestmark = pytest.mark.req("M10")


class Stores:
    """The stores of the follow-ups. `enqueued`: the deliveries that were enqueued."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.enqueued: list[JobSpec] = []

    async def get_without_argument(self, job_ids: Sequence[str]) -> dict[str, Job]:
        return {one: self.jobs[one] for one in job_ids if one in self.jobs}

    async def look_at_result(self, job_id: str) -> bytes | None:
        return None

    async def under(self, act: Callable[[Any], Awaitable[Any]]) -> Any:
        return await act(None)

    async def enqueue(self, specs: Sequence[JobSpec], constraints: Any) -> list[None]:
        self.enqueued += specs
        return [None] * len(specs)


async def test_an_end_whose_webhook_cannot_be_made_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, _ = ended_job()
    bad, _ = ended_job()
    stores = Stores(good, bad)
    is_mended = False

    def make_body(job: Job, *args: Any) -> bytes:
        if job.id == bad.id and not is_mended:
            raise RecursionError("too deep")
        return body_of(job, *args)

    monkeypatch.setattr("jqmaster.service.notices.webhooks.body_of", make_body)

    async def prepare() -> None:
        pass

    store = cast(Any, stores)
    follow_ups = WebhookFollowUps(store, store, store, store, prepare=prepare)
    code = STATES[JobState.FAILED].code
    of_bad, of_good = (f"{job.id}:{code}:{job.finished_at_ms}" for job in (bad, good))
    unknown = f"{new_id()}:{code}:1"
    assert list(await follow_ups.enqueue([of_bad, of_good, unknown], "1")) == [of_bad]
    assert len(stores.enqueued) == 1
    assert list(await follow_ups.enqueue([of_bad], "1")) == [of_bad]
    is_mended = True
    assert list(await follow_ups.enqueue([of_bad], "1")) == []
    assert len(stores.enqueued) == 2
    assert good.notify == Notify("https://shop.example:8443/hook?k=1", OUTCOMES)
    assert caplog.text.count("the others go on") == 1
