"""The gateway is as safe as the rest of the API unless somebody opens it."""

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from jqmaster.config import Settings
from jqmaster.domain.targets.target import HttpTarget, check_target
from tests.support.fireworq import PREFIX, gateway_on
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("J19"), pytest.mark.req("M1")]

PUSHER, OPERATOR = "p" * 20, "o" * 20
TOKENS = [f"push:{PUSHER}", f"operate:{OPERATOR}"]
JOB: dict[str, Any] = {"url": "http://127.0.0.1:9/work", "run_after": 3600}


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def with_hosts(text: str) -> Settings:
    given: dict[str, Any] = {"fireworq_hosts": text}
    return Settings(**given)


def test_hosts_that_are_none_are_refused_at_the_start() -> None:
    for hosts in ("*", "app.example *.run.example", "[fd00::1]", "10.1.2.3"):
        settings = with_hosts(hosts)
        target = HttpTarget(
            "fireworq:q", ("q",), url="", url_from="argument.url", allow_hosts=tuple(settings.fireworq_hosts)
        )
        check_target(target)
    for hosts in ("", "https://app.example", "app.example/", "*app.example", "app.*"):
        with pytest.raises(ValidationError, match="fireworq_hosts"):
            with_hosts(hosts)


async def test_the_gateway_is_off_unless_asked_for(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api):
        for method, path in (("GET", "/queues"), ("POST", "/job/c")):
            response = await api.http.request(method, PREFIX + path)
            assert response.status_code in (404, 405)


async def test_with_tokens_it_asks_for_one(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url, tokens=TOKENS) as client:
        for method, path in (("GET", "/queues"), ("GET", "/"), ("POST", "/job/c"), ("PUT", "/queue/q")):
            assert (await client.call(method, path, {}))[0] == 401
        client.http.headers.update({"authorization": f"Bearer {PUSHER}"})
        assert (await client.call("GET", "/queues"))[0] == 403
        assert (await client.call("PUT", "/queue/q", {}))[0] == 403
        client.http.headers.update({"authorization": f"Bearer {OPERATOR}"})
        await client.put("/queue/q", {})
        assert (await client.call("POST", "/job/c", JOB))[0] == 403
        client.http.headers.update({"authorization": f"Bearer {PUSHER}"})
        assert (await client.call("POST", "/job/c", JOB))[0] == 200


async def test_a_client_that_knows_only_an_address_gives_the_token_in_it(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url, tokens=TOKENS) as client:
        for headers in (basic("", OPERATOR), basic("anybody", OPERATOR), basic(OPERATOR, "")):
            client.http.headers.update(headers)
            assert [queue["name"] for queue in await client.get("/queues")] == ["default"]
        for headers in (basic("", "wrong"), {"authorization": "Basic ???"}, {"authorization": "Basic"}):
            client.http.headers.update(headers)
            assert (await client.call("GET", "/queues"))[0] == 401


async def test_a_named_network_needs_no_token_there_and_nowhere_else(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url, tokens=TOKENS, fireworq_networks="127.0.0.0/8") as client:
        await client.put("/queue/q", {})
        assert (await client.call("POST", "/job/c", JOB))[0] == 200
        root = str(client.http.base_url).removesuffix("/fireworq/")
        assert (await client.http.get(f"{root}/api/jobs")).status_code == 401
        # A wrong token is not made good by the network.
        client.http.headers.update({"authorization": "Bearer wrong"})
        assert (await client.call("GET", "/queues"))[0] == 401
        del client.http.headers["authorization"]
        # A page of another site cannot use the browser of somebody in that network.
        client.http.headers.update({"origin": "https://evil.example"})
        assert (await client.call("POST", "/job/c", JOB))[0] == 403
    async with gateway_on(store_server.url, tokens=TOKENS, fireworq_networks="10.0.0.0/8") as client:
        assert (await client.call("GET", "/queues"))[0] == 401


async def test_a_rebound_name_does_not_reach_callers_without_a_token(store_server: StoreServer) -> None:
    networks = {"tokens": TOKENS, "fireworq_networks": "127.0.0.0/8"}
    async with gateway_on(store_server.url, **networks) as client:
        for method, path, body in (
            ("GET", "/queues", None),
            ("PUT", "/queue/q", {}),
            ("POST", "/job/c", JOB),
        ):
            client.http.headers.update({"host": "evil.example:8080"})
            status, answer = await client.call(method, path, body)
            assert status == 400
            assert "bad_host" in answer
            assert "allowed_hosts" in answer
            # Nobody can rebind an address.
            for host in ("10.1.2.3:8080", "[fd00::1]", "localhost"):
                client.http.headers.update({"host": host})
                assert (await client.call(method, path, body))[0] == 200
        client.http.headers.update({"host": "evil.example", "authorization": f"Bearer {OPERATOR}"})
        assert (await client.call("GET", "/queues"))[0] == 200
    async with gateway_on(store_server.url, **networks, allowed_hosts="jobs.internal") as client:
        client.http.headers.update({"host": "jobs.internal:8080"})
        assert (await client.call("GET", "/queues"))[0] == 200
        client.http.headers.update({"host": "evil.example:8080"})
        assert (await client.call("GET", "/queues"))[0] == 400


async def test_callers_who_may_not_see_content_get_none(store_server: StoreServer) -> None:
    reader = "r" * 20
    async with gateway_on(store_server.url, tokens=[*TOKENS, f"read:{reader}"]) as client:
        client.http.headers.update({"authorization": f"Bearer {PUSHER}"})
        number = await client.push("c", payload={"secret": 1}, **JOB)
        client.http.headers.update({"authorization": f"Bearer {reader}"})
        job = await client.get(f"/queue/default/job/{number}")
        assert (job["id"], job["url"], job.get("payload")) == (number, "", None)
        client.http.headers.update({"authorization": f"Bearer {OPERATOR}"})
        assert (await client.get(f"/queue/default/job/{number}"))["payload"] == {"secret": 1}
