"""Events, as an application sends them."""

from datetime import UTC, datetime

import pytest

from tests.support import real_time
from tests.support.master import Api
from worker_sdk import Event, Pusher, SyncPusher

pytestmark = [pytest.mark.req("D9"), real_time.MASTER]


@pytest.fixture(autouse=True)
async def ship_order(api: Api) -> None:
    body = {
        "kind": "event",
        "event_type": "order.*",
        "job": {"name": "order.ship"},
        "argument": {"order": {"from": "payload.order"}},
    }
    assert (await api.call("PUT", "/api/definitions/ship-order", body))[0] == 201


async def test_an_event_starts_the_jobs_of_its_definitions(api: Api) -> None:
    async with Pusher(str(api.http.base_url)) as pusher:
        sent = await pusher.send_event("order.paid", {"order": 17}, dedupe_key="17", source="/shop")
        assert [run["definition"] for run in sent.runs] == ["ship-order"]
        assert (await pusher.status(sent.job_ids[0]))["argument"] == {"order": 17}
        again = await pusher.send_event("order.paid", {"order": 17}, dedupe_key="17", source="/shop")
        assert (again.is_duplicate, again.event_id, again.job_ids) == (True, sent.event_id, sent.job_ids)


async def test_many_events_are_sent_together(api: Api) -> None:
    events = [
        Event("order.paid", {"order": n}, occurred_at=datetime(2026, 1, 1, tzinfo=UTC)) for n in range(501)
    ]
    async with Pusher(str(api.http.base_url)) as pusher:
        sent = await pusher.send_events([*events, Event("user.made", subject="7")])
    assert [len(one.job_ids) for one in sent] == [1] * 501 + [0]
    assert len({one.event_id for one in sent}) == 502
    _, page = await api.call("GET", "/api/events?limit=2")
    assert page["events"][1]["occurred_at"] == "2026-01-01T00:00:00.000Z"


def test_an_instant_needs_a_time_zone() -> None:
    with SyncPusher("http://127.0.0.1:1") as pusher, pytest.raises(ValueError, match="time zone"):
        pusher.send_event("a", occurred_at=datetime(2026, 1, 1))
