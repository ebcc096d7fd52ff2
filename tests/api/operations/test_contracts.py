"""Contracts of names over HTTP: reported, shown, and checked against pushes."""

import time
from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.domain.workers.contract import Contract
from jqmaster.store.workers.contracts import ContractStore
from tests.domain.workers.test_schema_size import bomb
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import worker_at

pytestmark = [real_time.MASTER, pytest.mark.req("J18")]

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CONTRACT = {"version": "3", "argument_schema": SCHEMA, "options": {"timeout": 5}}


async def register(api: Api, **fields: Any) -> tuple[int, Any]:
    worker = {"url": None, "names": ["work", "plain"], "max_jobs": 1, "secret": "s" * 32, "version": "app-1"}
    return await api.call("POST", "/api/workers", worker | fields)


async def check(api: Api, how: str) -> None:
    status, answer = await api.call("PATCH", "/api/settings", {"check_arguments": how})
    assert status == 200, answer


async def test_a_name_shows_what_its_workers_told_before_it_has_a_job(api: Api) -> None:
    assert (await api.call("GET", "/api/names/work"))[0] == 404
    assert (await register(api, contracts={"work": CONTRACT}))[0] == 201
    status, name = await api.call("GET", "/api/names/work")
    assert (status, name["pushed"], name["last_seen_at"]) == (200, 0, None)
    (told,) = name["contracts"]
    assert {key: told[key] for key in CONTRACT} == CONTRACT
    assert (told["live_workers"], told["worker_versions"], name["warnings"]) == (1, ["app-1"], [])
    assert (await register(api, contracts={"work": {"argument_schema": {}}}))[0] == 201
    _, name = await api.call("GET", "/api/names/work")
    assert [one["code"] for one in name["warnings"]] == ["schemas_differ"]
    assert (await api.call("GET", "/api/names/plain"))[1]["contracts"] == []


@for_each(
    ("contracts", "loc"),
    [
        ({"other": CONTRACT}, []),
        ({"work": {"argument_schema": {"type": "nix"}}}, ["contracts", "work", "argument_schema"]),
        (
            {"work": {"argument_schema": {"$ref": "http://127.0.0.1/x"}}},
            ["contracts", "work", "argument_schema"],
        ),
        ({"work": {"argument_schema": {"title": "x" * 70_000}}}, ["contracts", "work"]),
        ({"work": {"argument_schema": {"title": b"x"}}}, ["contracts", "work"]),
        ({"work": {"schema": {}}}, ["contracts", "work", "schema"]),
        ({"work": {"version": 1}}, ["contracts", "work", "version"]),
        ({"work": None}, ["contracts", "work"]),
        ([], ["contracts"]),
    ],
)
async def test_a_contract_that_makes_no_sense_is_refused(api: Api, contracts: Any, loc: list[str]) -> None:
    status, problem = await register(api, contracts=contracts)
    assert (status, problem["errors"][0]["loc"]) == (422, loc)
    assert (await api.call("GET", "/api/names/work"))[0] == 404


async def test_pushes_are_held_against_the_contract_as_the_setting_says(api: Api) -> None:
    async def push(body: dict[str, Any], path: str = "/api/jobs") -> tuple[int, Any, str | None]:
        answer = await api.http.post(path, json=body)
        return answer.status_code, answer.json(), answer.headers.get("jq-warning")

    await register(api, contracts={"work": CONTRACT})
    good, bad = {"name": "work", "argument": {"n": 1}}, {"name": "work", "argument": {"n": "x"}}
    unserved = {"name": "wrok", "argument": {"n": 1}}
    for job in (good, bad, unserved):
        assert (await push(job))[::2] == (201, None)
    await check(api, "report")
    assert (await push(good))[::2] == (201, None)
    assert (await push(bad))[::2] == (201, "invalid_argument")
    assert (await push(unserved))[::2] == (201, "unserved_name")
    whole = await push({"jobs": [good, bad, unserved]}, "/api/jobs/bulk")
    assert whole[::2] == (201, "invalid_argument, unserved_name")
    await check(api, "refuse")
    assert (await push(good))[0] == 201
    assert (await push({"name": "plain", "argument": [1]}))[0] == 201
    status, problem, _ = await push(bad)
    assert (status, problem["code"]) == (422, "invalid_argument")
    assert problem["errors"] == [{"loc": ["argument", "n"], "msg": '"x" is not of type "integer"'}]
    status, problem, _ = await push(unserved)
    assert (status, problem["code"], problem["errors"][0]["loc"]) == (422, "unserved_name", ["name"])
    before = sum((await api.counts()).values())
    status, problem, _ = await push({"jobs": [good, bad]}, "/api/jobs/bulk")
    assert (status, problem["errors"][0]["loc"]) == (422, ["jobs", 1, "argument", "n"])
    assert sum((await api.counts()).values()) == before


async def test_an_answer_lists_the_names_that_no_worker_has_ever_served(api: Api) -> None:
    async def unserved(body: dict[str, Any], path: str = "/api/jobs") -> str | None:
        answer = await api.http.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.headers.get("jq-unserved-names")

    await register(api)
    assert await unserved({"name": "work"}) is None
    assert await unserved({"name": "wrok"}) == "wrok"
    # Each answer says so, also the answer to a repeat.
    job_id = (await api.call("POST", "/api/jobs", {"name": "wrok"}))[1]["id"]
    assert await unserved({"name": "wrok", "id": job_id}) == "wrok"
    names = ["work", "wrok", "plain", "plian", "wrok"]
    bulk = {"jobs": [{"name": name} for name in names]}
    assert await unserved(bulk, "/api/jobs/bulk") == "wrok, plian"
    assert await unserved(bulk | {"batch": {}}, "/api/jobs/bulk") == "wrok, plian"
    many = {"jobs": [{"name": f"many-{n}"} for n in range(50)]}
    assert await unserved(many, "/api/jobs/bulk") == ", ".join(f"many-{n}" for n in range(10))
    await register(api, names=["wrok"])
    assert await unserved({"name": "wrok"}) is None


async def test_a_worker_without_contracts_registers_as_ever(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work")
        await worker.end(await worker.next_job())
        assert await api.state(job_id) == "succeeded"


async def test_a_schema_that_unrolls_to_billions_is_refused(api: Api) -> None:
    status, problem = await register(api, contracts={"work": {"argument_schema": bomb("anyOf")}})
    assert (status, problem["errors"][0]["loc"]) == (422, ["contracts", "work", "argument_schema"])
    assert "10,000 subschemas" in problem["errors"][0]["msg"]
    assert "no argument_schema" in problem["errors"][0]["msg"]


async def test_a_stored_contract_of_an_older_master_freezes_nobody_and_can_be_removed(
    api: Api, master: Master
) -> None:
    bad = Contract("1", bomb("anyOf"), {})
    await ContractStore(master.shard.services.link).declare(["work"], {"work": bad})
    push = {"name": "work", "argument": 7}
    # While arguments are not checked, nobody judges one.
    assert (await api.call("POST", "/api/jobs/preview", push))[1]["misfits"] == []
    await check(api, "report")
    began_s = time.process_time()
    answer = await api.http.post("/api/jobs", json=push)
    assert (answer.status_code, answer.headers["jq-warning"]) == (201, "unchecked_argument")
    assert (await api.call("POST", "/api/jobs/preview", push))[1]["misfits"] == []
    await check(api, "refuse")
    status, problem = await api.call("POST", "/api/jobs", push)
    assert (status, problem["code"]) == (422, "unchecked_argument")
    assert "remove the contract" in problem["errors"][0]["msg"]
    assert time.process_time() - began_s < 2
    assert (await api.call("DELETE", "/api/contracts/work"))[0] == 204
    assert (await api.call("POST", "/api/jobs", push))[0] == 201
    assert (await api.call("GET", "/api/names/work"))[1]["contracts"] == []
    status, problem = await api.call("DELETE", "/api/contracts/work")
    assert (status, problem["code"]) == (404, "unknown_contract")
    entry = (await api.call("GET", "/api/audit"))[1]["entries"][0]
    assert (entry["action"], entry["target"]) == ("contracts.remove", "work")
