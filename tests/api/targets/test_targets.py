"""Targets over HTTP: a real master delivers to a real endpoint."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.api.targets.views import target_view
from jqmaster.domain.content.content import full_access, no_access
from jqmaster.domain.targets import target_set
from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.figures import LastAnswer, SummedFigures
from jqmaster.domain.targets.target import HttpTarget
from jqmaster.service.targets import reader
from jqmaster.service.targets.reader import ShownTarget
from jqmaster.store.targets.documents import StoredTarget
from tests.support import real_time
from tests.support.each import for_each
from tests.support.endpoint import endpoint, reply
from tests.support.master import Api, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import FORMER_SECRET, SECRET

pytestmark = [pytest.mark.req("M13"), real_time.MASTER]

SHOP: dict[str, Any] = {"names": ["shop.order"], "url": "http://127.0.0.1:9999/jobs/{name}"}


@pytest.fixture
async def api(store_server: StoreServer) -> AsyncIterator[Api]:
    async with master_on(store_server.url, allowed_webhook_networks="127.0.0.0/8") as (_, one):
        yield one


async def put(api: Api, name: str = "shop", **fields: Any) -> dict[str, Any]:
    status, shown = await api.call("PUT", f"/api/targets/{name}", {**SHOP, **fields})
    assert status in (200, 201), shown
    return dict(shown)


async def test_a_target_is_made_changed_and_deleted(api: Api) -> None:
    status, shown = await api.call("PUT", "/api/targets/shop", SHOP)
    assert status == 201
    assert (shown["method"], shown["body"], shown["max_running"], shown["has_secret"]) == (
        "POST",
        "argument",
        50,
        False,
    )
    etag = shown["etag"]
    status, again = await api.call("PUT", "/api/targets/shop", SHOP, **{"If-Match": f'"{etag}"'})
    assert (status, again["etag"]) == (200, etag)
    changed = await put(api, max_running=3)
    assert changed["etag"] != etag
    status, problem = await api.call("PUT", "/api/targets/shop", SHOP, **{"If-Match": f'"{etag}"'})
    assert (status, problem["code"]) == (412, "precondition_failed")
    status, problem = await api.call("PUT", "/api/targets/shop", SHOP, **{"If-None-Match": "*"})
    assert (status, problem["code"]) == (412, "target_exists")
    status, listed = await api.call("GET", "/api/targets")
    assert [one["name"] for one in listed["targets"]] == ["shop"]
    assert (await api.call("DELETE", "/api/targets/shop"))[0] == 204
    status, problem = await api.call("GET", "/api/targets/shop")
    assert (status, problem["code"]) == (404, "unknown_target")
    assert (await api.call("DELETE", "/api/targets/shop"))[1]["code"] == "unknown_target"
    entries = (await api.call("GET", "/api/audit"))[1]["entries"]
    actions = [entry["action"] for entry in entries if entry["target"] == "shop"]
    assert actions == ["target.delete", "target.put", "target.put"]


async def test_credentials_are_never_shown_and_stay(api: Api) -> None:
    shown = await put(api, secret=SECRET, headers={"Authorization": "Bearer 1"})
    assert (shown["has_secret"], shown["headers"]) == (True, {"Authorization": "…"})
    assert shown["previous_secret_until"] is None
    shown = await put(api, headers={"Authorization": "…"}, max_running=2)
    assert shown["has_secret"]
    async with endpoint() as shop:
        kept = {**SHOP, "url": shop.url, "headers": {"authorization": "…"}}
        status, problem = await api.call("PUT", "/api/targets/shop", kept)
        assert (status, problem["errors"][0]["loc"]) == (422, ["headers", "authorization"])
        assert "are not kept for a changed address" in problem["errors"][0]["msg"]
        await put(api, url=shop.url, headers={"authorization": "Bearer 1"}, secret=FORMER_SECRET)
        await put(api, url=shop.url, headers={"authorization": "…"})
        answer = (await api.call("POST", "/api/targets/shop/test", {}))[1]
        (request,) = shop.requests
        assert request.fields["authorization"] == "Bearer 1"
        assert request.is_signed_with(SECRET)
        assert request.is_signed_with(FORMER_SECRET)
        assert "Bearer" not in str(answer)
    shown = (await api.call("GET", "/api/targets/shop"))[1]
    assert shown["previous_secret_until"] is not None
    assert SECRET not in str((await api.call("GET", "/api/audit"))[1])
    assert (await put(api, secret=""))["has_secret"] is False


@for_each(
    "fields, loc",
    [
        ({"names": []}, ["names"]),
        ({"names": ["jq.mail"]}, ["names", 0]),
        ({"url": "https://{name}.example"}, ["url"]),
        ({"url": {"from": "argument.url"}}, ["allow_hosts"]),
        ({"secret": "plain"}, ["secret"]),
        ({"headers": {"Host": "x"}}, ["headers", "Host"]),
        ({"headers": {"X-A": "…"}}, ["headers", "X-A"]),
        ({"name": "other"}, ["name"]),
        ({"timeout": 0}, ["timeout"]),
        ({"colour": 1}, ["colour"]),
    ],
)
async def test_a_refusal_names_the_field(api: Api, fields: dict[str, Any], loc: list[Any]) -> None:
    status, problem = await api.call("PUT", "/api/targets/shop", {**SHOP, **fields})
    assert status == 422, problem
    assert problem["errors"][0]["loc"][: len(loc)] == loc, problem


async def test_two_targets_cannot_list_one_name(api: Api) -> None:
    await put(api)
    status, problem = await api.call("PUT", "/api/targets/other", SHOP)
    assert (status, problem["code"]) == (409, "target_name_taken")
    assert "target shop" in problem["detail"]


async def test_a_test_shows_request_and_answer(api: Api) -> None:
    async with endpoint(lambda request: reply(200, {"got": request.json})) as shop:
        await put(api, url=f"{shop.url}/jobs/{{name}}", secret=SECRET, headers={"X-Key": "k"})
        status, answer = await api.call("POST", "/api/targets/shop/test", {"argument": {"order": 42}})
        assert status == 200
        (request,) = shop.requests
        assert (request.method, request.path, request.json) == ("POST", "/jobs/shop.order", {"order": 42})
        assert request.fields["jq-test"] == "true"
        assert request.is_signed_with(SECRET)
    assert answer["request"]["headers"]["X-Key"] == "…"
    assert answer["request"]["headers"]["webhook-signature"] == request.fields["webhook-signature"]
    assert answer["answer"]["body"] == '{"got": {"order": 42}}'
    assert (answer["result"], answer["detail"]) == ("succeeded", "status 200")
    status, answer = await api.call("POST", "/api/targets/shop/test", {"job_name": "shop.other"})
    assert (answer["result"], answer["answer"]) == ("unreachable", None)
    assert "refused" in answer["detail"]


async def test_the_workers_of_targets_are_not_counted_among_those_of_people(api: Api) -> None:
    async with endpoint() as shop:
        await put(api, url=shop.url)
        job_id = await api.enqueue("shop.order")
        await api.until_state(job_id, "succeeded")
        (worker,) = (await api.call("GET", "/api/workers"))[1]["workers"]
        assert worker["built_in"]
        stats = (await api.call("GET", "/api/stats"))[1]
        assert (stats["workers"]["fresh"], stats["workers"]["max_jobs"]) == (0, 0)
        assert (await api.call("GET", "/api/demand?name=shop.order"))[1]["slots"] == 0
        shown = (await api.call("GET", "/api/targets/shop"))[1]
        assert shown["serving"] == ["shop.order"]
        metrics = (await api.http.get("/metrics")).text
        assert 'jqmaster_target_requests_total{result="succeeded",target="shop"} 1.0' in metrics

        async def figures() -> Any:
            return (await api.call("GET", "/api/targets/shop"))[1]["figures"]["last"]

        (last,) = await wait_until(figures, what="figures")
        assert (last["job_id"], last["status"], last["result"]) == (job_id, 200, "succeeded")


async def test_a_pattern_leaves_names_to_workers(api: Api) -> None:
    async with endpoint() as shop:
        async with puller_at(api, "shop.mine") as worker:
            await put(api, names=["shop.*"], url=shop.url)
            theirs, ours = await api.enqueue("shop.mine"), await api.enqueue("shop.other")
            await api.until_state(ours, "succeeded")
            (job,) = await worker.claim(max_jobs=1)
            assert job["job_id"] == theirs
            await worker.end(job)
        assert [request.fields["jq-job-id"] for request in shop.requests] == [ours]


async def test_a_deleted_target_leaves_its_jobs_waiting(api: Api) -> None:
    async with endpoint() as shop:
        await put(api, url=shop.url)
        await api.until_state(await api.enqueue("shop.order"), "succeeded")
        assert (await api.call("DELETE", "/api/targets/shop"))[0] == 204

        async def is_gone() -> bool:
            return not (await api.call("GET", "/api/workers"))[1]["workers"]

        await wait_until(is_gone, what="the worker left")
        job_id = await api.enqueue("shop.order")
        why = (await api.call("GET", f"/api/jobs/{job_id}/why"))[1]
        assert [verdict["code"] for verdict in why["verdicts"]] == ["no_worker"]
        await put(api, name="new", url=shop.url)
        await api.until_state(job_id, "succeeded")


async def test_a_target_whose_url_is_this_service_pushes_nothing(api: Api) -> None:
    await put(api, url=f"{str(api.http.base_url).rstrip('/')}/api/jobs")
    job_id = await api.enqueue("shop.order", {"name": "shop.order", "argument": {"name": "shop.order"}})
    job = await api.until_state(job_id, "failed")
    assert job["attempts"][-1]["code"] == "status_422"
    assert sum((await api.counts()).values()) == 1


async def test_credentials_in_the_query_of_a_url_are_never_shown_and_stay(api: Api) -> None:
    async with endpoint() as shop:
        shown = await put(api, url=f"{shop.url}/run?code=s3cret&job={{job_id}}")
        assert shown["url"] == f"{shop.url}/run?code=…&job={{job_id}}"
        again = await put(api, url=shown["url"], description="mended")
        assert again["url"] == shown["url"]
        answer = (await api.call("POST", "/api/targets/shop/test", {}))[1]
        (request,) = shop.requests
        assert request.path == f"/run?code=s3cret&job={request.fields['jq-job-id']}"
        assert answer["request"]["url"] == f"{shop.url}/run?code=…&job={request.fields['jq-job-id']}"
        status, problem = await api.call(
            "PUT", "/api/targets/shop", {**SHOP, "url": "http://b.example/?code=…"}
        )
        assert (status, problem["errors"][0]["loc"]) == (422, ["url"])
    for path in ("/api/targets", "/api/audit"):
        assert "s3cret" not in str((await api.call("GET", path))[1])


async def test_the_answer_of_an_endpoint_is_content(api: Api) -> None:
    """A master's own words are shown to everybody who may read; an endpoint may repeat what it was sent."""
    figures = SummedFigures(
        last=[
            LastAnswer(0, "J", 1, DeliveryResult.FAILED, 500, 1, "status 500", "card 4111", "card 4111"),
            LastAnswer(0, "J", 1, DeliveryResult.FAILED, 500, 1, "status 500", "", ""),
        ]
    )
    target = HttpTarget("shop", ("shop.order",), url="http://a.example/")
    shown = ShownTarget(StoredTarget(target, "e", 0, 0, "me"), (), 0, (), figures, 0)
    seen = target_view(shown, full_access(()))["figures"]["last"]
    hidden = target_view(shown, no_access(()))["figures"]["last"]
    assert [(one["detail"], one["body"]) for one in seen] == [
        ("status 500: card 4111", "card 4111"),
        ("status 500", ""),
    ]
    assert [(one["detail"], one["body"]) for one in hidden] == [("status 500", None), ("status 500", None)]


async def test_the_words_of_an_endpoint_and_an_argument_stay_out_of_the_details(
    store_server: StoreServer,
) -> None:
    settings = {"allowed_webhook_networks": "127.0.0.0/8"}
    async with (
        endpoint(
            lambda _: reply(202, {"status": "failure", "message": "card 4111"}, JQ_Await="card 4111")
        ) as shop,
        master_on(store_server.url, **settings) as (master, api),
    ):
        own = {"url": {"from": "argument.url"}, "allow_hosts": ["127.0.0.1"]}
        await put(api, url=shop.url)
        await put(api, name="own", names=["own"], **own)
        await put(api, name="fire", names=["fire"], body="fireworq", **own)
        for name, argument in (
            ("shop.order", None),
            ("own", {"url": "http://card-4111.example/"}),
            ("fire", {"url": shop.url, "payload": "card 4111"}),
        ):
            job = await api.until_state(await api.enqueue(name, argument, max_retry=0), "failed")
            assert "4111" in job["attempts"][-1]["message"]
        figures = master.shard.services.figures.targets
        answers = [one.last[-1] for one in figures.values()]
        assert len(answers) == 3
        assert [one.detail for one in answers if "4111" in one.detail] == []
        assert all("4111" in one.said for one in answers)


async def test_names_beyond_those_that_a_target_may_serve_are_counted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (target_set, reader):
        monkeypatch.setattr(module, "MAX_SERVED", 3)
    async with endpoint() as shop, puller_at(api, "a.worker"):
        for name in ("a.1", "a.2", "a.3", "a.4", "a.5", "a.worker", "b"):
            await api.enqueue(name, delay=3600)
        await put(api, "all", names=["a.*"], url=shop.url)
        await put(api, "b", names=["b"], url=shop.url)
        found: dict[str, Any] = {}

        async def is_full() -> bool:
            found.update((await api.call("GET", "/api/targets/all"))[1])
            return len(found["serving"]) == 3

        await wait_until(is_full)
        assert (found["serving"], found["left_out"]) == (["a.1", "a.2", "a.3"], 2)
        assert (await api.call("GET", "/api/targets/b"))[1]["left_out"] == 0
