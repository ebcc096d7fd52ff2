"""The stream of events: the present state at once, then each change; it ends when it must."""

import asyncio
import contextlib
import json
import re
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.operations import live, live_feed
from jqmaster.api.operations.live_feed import MIN_SHARE, SIGNS, _Listener
from jqmaster.errors import UnauthorizedError
from jqmaster.store.operations.live import LiveFingerprint
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


def test_each_part_of_a_look_has_its_event_and_the_ui_listens_to_all_of_them() -> None:
    signs = {sign.name for sign in SIGNS}
    # These are told otherwise, or not at all.
    others = {"at_ms", "jobs", "changed", "running_actions", "news_of_actions"}
    assert signs == {part.name for part in fields(LiveFingerprint)} - others | {"settings"}
    web = Path(live_feed.__file__).parents[2] / "web"
    (listening,) = (one for one in web.rglob("live.js") if "bundle" not in one.parts)
    found = re.search(r"const EVENTS = \[(.*?)\]", listening.read_text("utf-8"), re.DOTALL)
    assert found
    assert set(re.findall(r'"(\w+)"', found[1])) == signs | {"stats", "jobs", "action"}


def url_of(api: Api) -> str:
    return str(api.http.base_url).rstrip("/")


class Dashboard:
    """Records the events that one client received: the newest of each kind, and all names in order."""

    def __init__(self) -> None:
        self.newest: dict[str, Any] = {}
        self.names: list[str] = []
        self.is_over = False
        self.headers: Any = None

    async def listen(self, url: str, **headers: str) -> None:
        async with (
            httpx.AsyncClient(timeout=30) as http,
            http.stream(
                "GET", f"{url}/api/stream", headers={"Accept": "text/event-stream", **headers}
            ) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            self.headers = answer.headers
            name = ""
            async for line in answer.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    self.newest[name] = json.loads(value)
                    self.names.append(name)
        self.is_over = True


@contextlib.asynccontextmanager
async def dashboard_at(url: str, **headers: str) -> AsyncIterator[Dashboard]:
    one = Dashboard()
    listening = asyncio.create_task(one.listen(url, **headers))
    try:
        yield one
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.req("D21", "J15")
async def test_dashboards_hear_the_present_state_and_what_changes(api: Api) -> None:
    await api.enqueue("work", delay=3600)
    async with dashboard_at(url_of(api)) as one, dashboard_at(url_of(api)) as another:
        for each in (one, another):
            await wait_until(lambda each=each: each.newest.get("jobs"), what="the counts")
            assert each.newest["jobs"]["counts"]["scheduled"] == 1
        assert one.headers["content-type"].startswith("text/event-stream")
        assert one.headers["x-accel-buffering"] == "no"
        await api.enqueue("work")
        await wait_until(lambda: another.newest["jobs"]["counts"]["ready"] == 1)
        heard = len(one.names)
        await api.call(
            "PUT",
            "/api/constraints/c",
            {"matcher": {"field": "name", "op": "eq", "value": "work"}, "paused": True},
        )
        await wait_until(lambda: "constraints" in one.names[heard:])
        await api.call("POST", "/api/events", {"event_type": "order.paid"})
        await wait_until(lambda: "events" in one.names[heard:])
        batch = (await api.call("POST", "/api/batches", {}))[1]["id"]
        await wait_until(lambda: "batches" in one.names[heard:])
        heard = len(one.names)
        await api.call("POST", f"/api/batches/{batch}/seal")
        await wait_until(lambda: "batches" in one.names[heard:])
        status, action = await api.call("POST", "/api/jobs/actions", {"action": "cancel", "filter": {}})
        assert status == 202
        await wait_until(lambda: one.newest.get("action", {}).get("state") == "done")
        assert (one.newest["action"]["id"], one.newest["action"]["done"]) == (action["id"], 2)
    async with dashboard_at(url_of(api), **{"Last-Event-ID": "7"}) as back:
        await wait_until(lambda: "jobs" in back.newest)
        assert {"workers", "masters", "constraints", "definitions", "events", "batches"} <= set(back.names)


@pytest.mark.req("D21")
async def test_a_change_of_one_job_is_told_though_no_count_moves(api: Api) -> None:
    job = await api.enqueue("work", delay=3600)
    async with dashboard_at(url_of(api)) as one:
        await wait_until(lambda: "jobs" in one.names)
        for priority in (7, 8):
            heard = len(one.names)
            await api.call("PATCH", f"/api/jobs/{job}", {"priority": priority})
            await wait_until(lambda heard=heard: "jobs" in one.names[heard:])
        assert one.newest["jobs"]["counts"]["scheduled"] == 1


@pytest.mark.req("D21")
async def test_a_stream_that_has_nothing_to_tell_says_that_it_is_alive(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PING_S", 0.05)
    async with dashboard_at(url_of(api)) as one:
        await wait_until(lambda: one.names.count("alive") >= 3)
        assert one.newest["alive"] == {}


@pytest.mark.req("D21")
async def test_the_page_waits_for_as_long_as_the_master_may_be_silent() -> None:
    page = (Path(live.__file__).parents[2] / "web" / "core" / "live.js").read_text()
    assert f"const PING_MS = {live.PING_S}_000;" in page


@pytest.mark.req("D21")
async def test_nothing_is_computed_while_nobody_listens_and_once_for_all(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        looks = 0
        look = master.services.feed._store.look

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await look()

        master.services.feed._store.look = counted  # type: ignore[method-assign]
        async with contextlib.AsyncExitStack() as stack:
            all_of_them = [await stack.enter_async_context(dashboard_at(url_of(api))) for _ in range(10)]
            for each in all_of_them:
                await wait_until(lambda each=each: "jobs" in each.newest)
            assert looks <= 5
        await wait_until(lambda: len(master.services.feed._listeners) == 0)
        await api.enqueue("work")
        looks_before = looks
        await wait_until(lambda: master.services.feed._somebody.is_set() is False)
        assert looks <= looks_before + 1


@pytest.mark.req("D21")
async def test_a_client_that_takes_nothing_is_kept_one_state() -> None:
    listener = _Listener()
    for n in range(10_000):
        listener.notify("jobs", b"jobs %d" % n)
        listener.notify(f"action:{n}", b"action")
    assert len(listener._events) <= 64
    assert listener.take().startswith(b"action")
    assert listener.take() == b""


@pytest.mark.req("D21")
async def test_more_dashboards_than_allowed_are_refused(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, max_streams=2) as (master, api),
        dashboard_at(url_of(api)),
        dashboard_at(url_of(api)),
    ):
        await wait_until(lambda: len(master.services.feed._listeners) == 2)
        response = await api.http.get("/api/stream", headers={"Accept": "*/*"})
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        response = await api.http.get("/api/stream", headers={"Accept": "application/json"})
        assert response.status_code == 406


@pytest.mark.req("D21", "D18")
async def test_a_caller_has_no_more_than_its_share_of_the_streams(store_server: StoreServer) -> None:
    tokens = ["read:one-caller", "read:other-caller"]
    async with (
        master_on(store_server.url, max_streams=4 * MIN_SHARE, tokens=tokens) as (master, _),
        contextlib.AsyncExitStack() as stack,
    ):
        url = master.server.url
        feed = master.services.feed

        async def listens(caller: str) -> Dashboard:
            return await stack.enter_async_context(dashboard_at(url, Authorization=f"Bearer {caller}"))

        mine = [await listens("one-caller") for _ in range(MIN_SHARE)]
        await wait_until(lambda: len(feed._listeners) == MIN_SHARE, what="the share is taken")
        api = Api(url, "one-caller")
        stack.push_async_callback(api.http.aclose)
        answer = await api.http.get("/api/stream", headers={"Accept": "*/*"})
        assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
        assert f"{MIN_SHARE} streams of this caller are open" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 0
        other = await listens("other-caller")
        await wait_until(lambda: "jobs" in other.newest, what="another caller is served")
        assert not any(each.is_over for each in mine)
        await stack.aclose()
        await wait_until(lambda: not feed._of_callers, what="the places are free again")


@pytest.mark.req("D21", "D18")
async def test_a_stream_ends_when_its_caller_is_let_in_no_more(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnauthorizedError("revoked")

    async with master_on(store_server.url, tokens=["read:looker", "push:pusher"]) as (_, api):
        response = await api.http.get("/api/stream", headers={"Authorization": "Bearer pusher"})
        assert response.status_code == 403
        async with dashboard_at(url_of(api), Authorization="Bearer looker") as one:
            await wait_until(lambda: "jobs" in one.newest)
            monkeypatch.setattr(AccessPolicy, "authorize", refuse)
            await wait_until(lambda: one.is_over, what="the stream ends")


@pytest.mark.req("D21")
async def test_a_stream_says_how_old_its_data_is_and_that_the_store_is_away() -> None:
    store = StoreServer()
    with started(store):
        async with (
            master_on(store.url, tokens=["read:looker"]) as (master, _),
            dashboard_at(master.server.url, Authorization="Bearer looker") as one,
        ):
            await wait_until(lambda: one.newest.get("freshness", {}).get("as_of"), what="the first look")
            assert one.newest["freshness"]["fault"] is None
            assert one.newest["freshness"]["age_ms"] < 5000
            heard = one.names.count("freshness")
            await wait_until(lambda: one.names.count("freshness") > heard + 1, what="more looks")
            store.signal(signal.SIGSTOP)
            try:
                stopped_s = time.monotonic()
                await wait_until(lambda: one.newest["freshness"]["fault"], what="the fault")
                assert time.monotonic() - stopped_s < 10
                told = one.newest["freshness"]
                assert told["fault"]["code"] == "store_unavailable"
                assert "store" in told["fault"]["detail"]
                assert told["age_ms"] >= told["fault"]["for_ms"] >= 5000
                # The check of its caller needs the store, too, and does not hold up what follows.
                await wait_until(lambda: one.newest["freshness"]["age_ms"] > told["age_ms"], what="the age")
                assert one.newest["freshness"]["as_of"] == told["as_of"]
            finally:
                store.signal(signal.SIGCONT)
            await wait_until(lambda: one.newest["freshness"]["fault"] is None, what="the store is back")
            assert one.newest["freshness"]["as_of"] > told["as_of"]


@pytest.mark.req("D21")
async def test_a_page_that_is_loaded_again_during_a_look_does_not_end_the_looks(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with master_on(store_server.url) as (master, _):
        feed = master.services.feed
        counts, may_count = feed._counts, asyncio.Event()

        async def slowly() -> Any:
            await may_count.wait()
            return await counts()

        monkeypatch.setattr(feed, "_counts", slowly)
        async with dashboard_at(master.server.url):
            await wait_until(lambda: feed._last is not None, what="a look is under way")
        await wait_until(lambda: not feed._listeners, what="the page is left")
        async with dashboard_at(master.server.url) as again:
            await wait_until(lambda: feed._listeners, what="the page is back")
            may_count.set()
            await wait_until(lambda: again.newest.get("freshness", {}).get("as_of"), what="the first look")
            assert again.newest["freshness"]["fault"] is None
        assert "live feed.looks failed" not in caplog.text


@pytest.mark.req("D21")
async def test_open_streams_do_not_hold_up_the_stop(store_server: StoreServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with master_on(store_server.url) as (master, api):
            all_of_them = [await stack.enter_async_context(dashboard_at(url_of(api))) for _ in range(5)]
            await wait_until(lambda: len(master.services.feed._listeners) == 5)
        # Each stream ended by itself; a stream that the server cuts off after its grace would be an error to the
        # client.
        for each in all_of_them:
            await wait_until(lambda each=each: each.is_over)
