"""Unique and debounced jobs over HTTP."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import ACCEPT, MSGPACK, Api
from tests.support.scripted_worker import puller_at, worker_at
from tests.support.waiting import wait_until

pytestmark = [real_time.MASTER, pytest.mark.req("S7")]


async def push(api: Api, argument: Any = None, **fields: Any) -> tuple[int, Any]:
    return await api.call("POST", "/api/jobs", {"name": "work", "argument": argument, **fields})


async def test_a_second_job_is_refused_while_the_first_holds_the_key(api: Api) -> None:
    status, first = await push(api, 1, unique={"key": "report:42"})
    assert (status, set(first)) == (201, {"id"})
    status, problem = await push(api, 2, unique={"key": "report:42"})
    assert (status, problem["code"], problem["job_id"]) == (409, "not_unique", first["id"])
    await api.call("POST", f"/api/jobs/{first['id']}/cancel")
    assert (await push(api, 2, unique={"key": "report:42"}))[0] == 201


async def test_the_existing_job_is_named(api: Api) -> None:
    _, first = await push(api, 1, unique={"key": "k"})
    again = await push(api, 2, unique={"key": "k", "on_conflict": "existing"})
    assert again == (200, {"id": first["id"], "duplicate": True})
    assert (await api.job(first["id"]))["argument"] == 1


async def test_a_waiting_job_is_replaced_and_a_running_one_is_not(api: Api) -> None:
    replacing = {"key": "k", "on_conflict": "replace"}
    _, first = await push(api, 1, unique=replacing, delay=60)
    assert await push(api, 2, unique=replacing, priority=3) == (200, {"id": first["id"], "replaced": True})
    job = await api.job(first["id"])
    assert (job["argument"], job["priority"], job["state"]) == (2, 3, "ready")
    async with worker_at(api) as worker:
        assert (await worker.next_job())["argument"] == 2
        answers: list[tuple[int, Any]] = []

        async def is_known_to_run() -> bool:
            answers.append(await push(api, 3, unique=replacing))
            return answers[-1][0] == 200

        # Within moments its master notes that the worker accepted the job.
        await wait_until(is_known_to_run)
        assert answers.pop() == (200, {"id": first["id"], "duplicate": True})
        assert {problem["code"] for _, problem in answers} <= {"offer_under_way"}


async def test_no_replacement_is_dropped_while_a_job_is_being_offered(api: Api) -> None:
    _, first = await push(api, 1, unique={"key": "k"})
    content = {"name": "work", "argument": 2, "unique": {"key": "k", "on_conflict": "replace"}}
    async with puller_at(api) as worker:
        # It names no claim of which it has not said that it takes it.
        answer = await worker.ask(max=1, wait=5)
        (job,) = answer[1]["jobs"]
        for path, body in (("", content), ("/bulk", {"jobs": [content]})):
            response = await api.http.post(f"/api/jobs{path}", content=msgpack.packb(body), headers=MSGPACK)
            problem = msgpack.unpackb(response.content)
            assert (response.status_code, problem["code"]) == (409, "offer_under_way")
            assert (problem["job_id"], response.headers["retry-after"]) == (first["id"], "1")
        worker.running[job["job_id"]] = job["token"]
        await worker.beat()
        assert await push(api, 2, unique=content["unique"]) == (200, {"id": first["id"], "duplicate": True})


async def test_without_a_key_name_and_argument_are_it(api: Api) -> None:
    _, first = await push(api, {"a": 1, "b": [2]}, unique={})
    status, problem = await push(api, {"b": [2], "a": 1.0}, unique={})
    assert (status, problem["job_id"]) == (409, first["id"])
    assert (await push(api, {"a": 1, "b": [3]}, unique={}))[0] == 201
    view = (await api.job(first["id"]))["unique"]
    assert view == {
        "key": None, "scope": "until_finished", "until": None, "on_conflict": "reject", "debounce": None,
    }  # fmt: skip


async def test_a_job_shows_its_key(api: Api) -> None:
    _, first = await push(api, unique={"key": "k", "scope": "window", "ttl_s": 60})
    view = (await api.job(first["id"]))["unique"]
    assert (view["key"], view["scope"]) == ("k", "window")
    assert view["until"] > (await api.job(first["id"]))["created_at"]
    _, plain = await push(api)
    assert (await api.job(plain["id"]))["unique"] is None


async def test_a_debounced_job_waits_for_the_last_push(api: Api) -> None:
    rule = {"key": "post:1", "wait_s": 30, "max_s": 300}
    _, first = await push(api, 1, debounce=rule)
    before = await api.job(first["id"])
    assert before["state"] == "scheduled"
    assert before["unique"]["debounce"] == {"wait_s": 30, "max_s": 300}
    assert await push(api, 2, debounce=rule) == (200, {"id": first["id"], "replaced": True})
    after = await api.job(first["id"])
    assert (after["argument"], after["created_at"]) == (2, before["created_at"])
    assert after["run_at"] >= before["run_at"]


@for_each(
    ("fields", "loc"),
    [
        ({"unique": {"scope": "window"}}, ["unique"]),
        ({"unique": {"ttl_s": 5}}, ["unique"]),
        ({"unique": {"scope": "until_start", "ttl_s": 5}}, ["unique"]),
        ({"unique": {"scope": "window", "ttl_s": 0}}, ["unique", "ttl_s"]),
        ({"unique": {"key": ""}}, ["unique", "key"]),
        ({"unique": {"key": "ä" * 101}}, ["unique", "key"]),
        ({"unique": {"key": 5}}, ["unique", "key"]),
        ({"unique": {"scope": "for_ever"}}, ["unique", "scope"]),
        ({"unique": {"on_conflict": "drop"}}, ["unique", "on_conflict"]),
        ({"unique": {"keys": "k"}}, ["unique", "keys"]),
        ({"debounce": {"key": "k"}}, ["debounce", "wait_s"]),
        ({"debounce": {"key": "k", "wait_s": 0}}, ["debounce", "wait_s"]),
        ({"debounce": {"key": "k", "wait_s": 9, "max_s": 8}}, ["debounce"]),
        ({"debounce": {"key": "k", "wait_s": 1}, "unique": {}}, []),
        ({"debounce": {"key": "k", "wait_s": 1}, "delay": 1}, []),
        ({"debounce": {"key": "k", "wait_s": 1}, "run_at": "2030-01-01T00:00:00Z"}, []),
    ],
)
async def test_options_that_make_no_sense_are_refused_by_field(
    api: Api, fields: dict[str, Any], loc: list[str]
) -> None:
    status, problem = await push(api, **fields)
    assert status == 422
    assert problem["errors"][0]["loc"] == loc
    assert (await api.call("GET", "/api/jobs"))[1]["jobs"] == []


async def test_a_bulk_says_which_jobs_were_not_made(api: Api) -> None:
    def job(n: int, key: str, on_conflict: str) -> dict[str, Any]:
        return {"name": "work", "argument": n, "unique": {"key": key, "on_conflict": on_conflict}}

    _, first = await push(api, 0, unique={"key": "a"})
    jobs = [job(1, "a", "existing"), job(2, "b", "existing"), job(3, "b", "existing"), job(4, "a", "replace")]
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}, *jobs]})
    assert status == 201
    ids = answer["ids"]
    assert [ids[1], ids[4]] == [first["id"]] * 2
    assert ids[2] == ids[3]
    assert (answer["duplicates"], answer["replaced"]) == ([1, 3], [4])
    assert (await api.job(first["id"]))["argument"] == 4
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}]})
    assert set(answer) == {"ids"}


async def test_a_bulk_with_a_key_that_is_held_is_refused_whole(api: Api) -> None:
    _, first = await push(api, 0, unique={"key": "a"})
    jobs = [{"name": "work"}, {"name": "work", "unique": {"key": "a"}}]
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert (status, problem["code"], problem["job_id"]) == (409, "not_unique", first["id"])
    assert problem["errors"][0]["loc"] == ["jobs", 1, "unique"]
    assert "no job was accepted" in problem["detail"]
    twice = [{"name": "work", "id": new_id(), "unique": {"key": "b"}} for _ in range(2)]
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": twice})
    assert (status, problem["job_id"]) == (409, twice[0]["id"])
    assert len((await api.call("GET", "/api/jobs"))[1]["jobs"]) == 1


@pytest.mark.req("M1")
@pytest.mark.parametrize("how", ["existing", "replace"])
async def test_an_idempotency_key_gives_the_same_answer_again(api: Api, how: str) -> None:
    _, first = await push(api, 0, unique={"key": "a"}, delay=60)
    body = {"name": "work", "argument": 1, "unique": {"key": "a", "on_conflict": how}}

    async def send(field: dict[str, str], **fields: Any) -> Any:
        headers = {**MSGPACK, **ACCEPT, **field}
        response = await api.http.post(
            "/api/jobs", content=msgpack.packb({**body, **fields}), headers=headers
        )
        return response.status_code, msgpack.unpackb(response.content)

    answer = await send({"Idempotency-Key": "i"})
    assert answer == (200, {"id": first["id"], "duplicate" if how == "existing" else "replaced": True})
    await api.call("POST", f"/api/jobs/{first['id']}/cancel")
    assert await send({"Idempotency-Key": "i"}) == answer
    # The same holds for the field `key`, in a bulk too.
    _, second = await push(api, 0, unique={"key": "a"}, delay=60)
    keyed = await send({}, key="mine")
    assert keyed[1]["id"] == second["id"]
    await api.call("POST", f"/api/jobs/{second['id']}/cancel")
    status, bulk = await api.call("POST", "/api/jobs/bulk", {"jobs": [{**body, "key": "mine"}]})
    assert (status, bulk["ids"]) == (201, [second["id"]])
    assert bulk["duplicates" if how == "existing" else "replaced"] == [0]


async def test_a_retry_is_refused_while_another_job_holds_the_key(api: Api) -> None:
    _, old = await push(api, 0, unique={"key": "a"})
    await api.call("POST", f"/api/jobs/{old['id']}/cancel")
    _, new = await push(api, 1, unique={"key": "a"})
    status, problem = await api.call("POST", f"/api/jobs/{old['id']}/retry")
    assert (status, problem["code"], problem["job_id"]) == (409, "not_unique", new["id"])
    assert (await api.job(old["id"]))["state"] == "canceled"
