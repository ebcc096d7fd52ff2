"""Probes and the contract."""

import pytest

from jqmaster.app import Master
from jqmaster.config import Settings
from tests.support.contract import document
from tests.support.master import Api
from tests.support.waiting import wait_until


async def test_healthz_says_that_the_process_lives(api: Api) -> None:
    assert await api.call("GET", "/healthz") == (200, {"status": "ok"})


@pytest.mark.req("M1")
async def test_readyz_shows_progress_and_the_durability_in_force(api: Api) -> None:
    status, answer = await api.call("GET", "/readyz")
    assert status == 200
    assert answer == {
        "status": "ready",
        "durability": "fsync",
        "leader": True,
        "store": "serving",
        "faults": [],
    }


async def test_readyz_tells_when_nobody_leads(api: Api, master: Master) -> None:
    await master.leader.stop()
    try:
        status, answer = await api.call("GET", "/readyz")
        assert (status, answer["status"], answer["faults"]) == (503, "not_ready", ["no master leads"])
        assert answer["leader"] is False
        assert (await api.call("GET", "/healthz"))[0] == 200
    finally:
        await master.leader.start()
    await wait_until(lambda: master.leader.leadership)
    assert (await api.call("GET", "/readyz"))[0] == 200


@pytest.mark.req("J11")
async def test_the_contract_that_is_served_is_the_committed_one(api: Api) -> None:
    response = await api.http.get("/openapi.json", headers={"Accept": "application/json"})
    assert response.json() == document("jqmaster")


async def test_no_answer_tells_what_runs_here(api: Api) -> None:
    for method, path in (
        ("GET", "/healthz"),
        ("GET", "/api/jobs"),
        ("GET", "/nothing"),
        ("PUT", "/api/jobs"),
    ):
        response = await api.http.request(method, path)
        assert "server" not in response.headers
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_durability_of_the_contract_is_that_of_the_settings() -> None:
    promised = document("jqmaster")["components"]["schemas"]["Readiness"]["properties"]["durability"]["enum"]
    assert set(promised) == set(Settings.model_fields["durability"].annotation.__args__)  # type: ignore[union-attr]
