"""Limits in units over HTTP: how they are written, shown, settled and explained."""

from typing import Any

import pytest

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import ending, worker_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D30"), real_time.MASTER]

WORK = {"field": "name", "op": "eq", "value": "work"}
WEIGHT = {"from": "argument.tokens", "default": 2, "unit": "tokens"}
PATH = "/api/constraints/openai"
RATE = {"limit": 10, "period_s": 3600}


async def limit(api: Api, **fields: Any) -> dict[str, Any]:
    status, answer = await api.call("PUT", PATH, {"matcher": WORK, "weight": WEIGHT, **fields})
    assert status in (200, 201), answer
    return dict(answer)


async def shown(api: Api) -> dict[str, Any]:
    return dict((await api.call("GET", PATH))[1])


@for_each(
    "weight, loc, words",
    [
        ({"default": -1}, ["weight", "default"], "0 to 1000000000"),
        ({"default": 0.0001}, ["weight", "default"], "three decimals"),
        ({"default": "1"}, ["weight", "default"], ""),
        ({"from": "nowhere.x"}, ["weight", "from"], "unknown field"),
        ({"from": "tags"}, ["weight", "from"], "is not a number"),
        ({"unit": "two words"}, ["weight", "unit"], "begin with a letter"),
        ({"sum": 1}, ["weight", "sum"], ""),
    ],
)
async def test_a_value_that_is_no_weight_is_refused_with_its_place(
    api: Api, weight: dict[str, Any], loc: list[str], words: str
) -> None:
    status, answer = await api.call("PUT", PATH, {"matcher": WORK, "concurrency": 1, "weight": weight})
    assert status == 422
    assert answer["errors"][0]["loc"][: len(loc)] == loc
    assert words in answer["errors"][0]["msg"]


async def test_a_weight_alone_limits_nothing_and_is_refused(api: Api) -> None:
    status, answer = await api.call("PUT", PATH, {"matcher": WORK, "weight": WEIGHT, "max_backlog": 5})
    assert (status, answer["errors"][0]["loc"]) == (422, ["weight"])


async def test_it_is_shown_as_it_was_written_and_sent_back_changes_nothing(api: Api) -> None:
    made = await limit(api, concurrency=500_000_000)
    assert made["weight"] == WEIGHT
    written = {field: made[field] for field in ("matcher", "concurrency", "weight")}
    status, again = await api.call("PUT", PATH, written)
    assert (status, again["etag"]) == (200, made["etag"])
    status, plain = await api.call("PUT", PATH, {"matcher": WORK, "concurrency": 5})
    assert (status, plain["weight"]) == (200, None)


async def test_units_are_charged_settled_and_explained(api: Api) -> None:
    await limit(api, rate=RATE)
    async with worker_at(api) as worker:
        first = await api.enqueue("work", {"tokens": 8})
        offer = await worker.next_job()
        second, third = await api.enqueue("work", {"tokens": 5}), await api.enqueue("work", {})
        assert offer["job_id"] == first

        async def is_held() -> bool:
            _, why = await api.call("GET", f"/api/jobs/{second}/why")
            return bool(why["verdicts"][0]["code"] == "constraint")

        await wait_until(is_held)
        _, why = await api.call("GET", f"/api/jobs/{second}/why")
        (verdict, *_), (applied,) = why["verdicts"], why["constraints"]
        assert "8 of 10 tokens in this hour; opens for this job's 5 in " in verdict["text"]
        assert (verdict["kind"], verdict["limit"], verdict["usage"], verdict["period_s"]) == (
            "rate",
            10,
            8,
            3600,
        )
        assert applied["weight"] == {
            "unit": "tokens", "job": 5, "is_default": False, "running": None, "in_window": 8, "is_too_heavy": False,
        }  # fmt: skip
        _, why = await api.call("GET", f"/api/jobs/{third}/why")
        assert why["constraints"][0]["weight"]["is_default"]
        assert (await shown(api))["usage"]["units_in_window"] == 8

        status, answer = await worker.report({**ending(offer, result=1), "used": {"tokens": 0.5, "other": 3}})
        assert (status, answer) == (200, {"accepted": [first], "stale": []})
        for job_id in (second, third):
            assert (await worker.next_job())["job_id"] == job_id
        usage = (await shown(api))["usage"]
        assert (usage["units_in_window"], usage["running_units"], usage["starts_in_window"]) == (
            7.5,
            None,
            None,
        )


@for_each("used", [{"tokens": -1}, {"tokens": "3"}, {"two words": 1}, {"tokens": 1e10}, [1]])
async def test_a_report_with_other_units_than_numbers_is_refused(api: Api, used: Any) -> None:
    async with worker_at(api) as worker:
        await api.enqueue("work")
        offer = await worker.next_job()
        status, answer = await worker.report({**ending(offer, result=1), "used": used})
        assert status == 422
        assert answer["errors"][0]["loc"][:3] == ["results", 0, "used"]
        await worker.end(offer, result=1)


@for_each("called_at_ms", [-1, "3", 1.5, 2**60])
async def test_a_report_with_another_time_than_a_whole_number_is_refused(api: Api, called_at_ms: Any) -> None:
    async with worker_at(api) as worker:
        await api.enqueue("work")
        offer = await worker.next_job()
        status, answer = await worker.report({**ending(offer, result=1), "called_at_ms": called_at_ms})
        assert status == 422
        assert answer["errors"][0]["loc"][:3] == ["results", 0, "called_at_ms"]
        await worker.end(offer, result=1)


@for_each("kind", ["failure", "deferred", "discarded", "canceled", "handed_back"])
async def test_every_ending_may_tell_what_it_used(api: Api, kind: str) -> None:
    await limit(api, rate=RATE)
    all_fields: dict[str, dict[str, Any]] = {
        "failure": {"reason": "other", "should_retry": False},
        "deferred": {"retry_after": 3600.0},
    }
    fields = all_fields.get(kind, {})
    async with worker_at(api) as worker:
        await api.enqueue("work", {"tokens": 8})
        offer = await worker.next_job()
        if kind == "handed_back":
            worker.reject = "draining"
        await worker.end(offer, kind, used={"tokens": 3}, **fields)
        assert (await shown(api))["usage"]["units_in_window"] in (3, 11)
    assert (await api.call("DELETE", PATH))[0] == 204


async def test_the_room_that_another_system_reports_is_obeyed(api: Api) -> None:
    await limit(api, rate=RATE, key="argument.model")
    async with worker_at(api) as worker:
        path = f"/api/workers/{worker.id}/observations"
        seen = {"constraint": "openai", "value": "m", "remaining": 2.5, "resets_s": 3600}
        assert await api.call("POST", path, seen) == (200, {"is_applied": True, "reason": ""})
        held = await api.enqueue("work", {"tokens": 3, "model": "m"})
        other = await api.enqueue("work", {"tokens": 3, "model": "n"})
        assert (await worker.next_job())["job_id"] == other
        _, why = await api.call("GET", f"/api/jobs/{held}/why")
        assert "admits 2.5 more tokens until" in why["verdicts"][0]["text"]
        assert why["constraints"][0]["observed"]["remaining"] == 2.5
        _, found = await api.call("GET", f"{PATH}?value=m")
        assert found["value"]["observed"]["remaining"] == 2.5
        assert await api.call("POST", path, {**seen, "remaining": 3}) == (
            200,
            {"is_applied": True, "reason": ""},
        )
        assert (await worker.next_job())["job_id"] == held

        for changes, words in (({"constraint": "no"}, "no such constraint"), ({"value": None}, "")):
            _, answer = await api.call("POST", path, seen | changes)
            assert answer["is_applied"] is not bool(words)
            assert words in answer["reason"]
        without = {field: seen[field] for field in ("constraint", "remaining", "resets_s")}
        _, answer = await api.call("POST", path, without)
        assert answer == {"is_applied": False, "reason": "it has a key, and the report names no value"}
        status, _ = await api.call("POST", path, {**seen, "remaining": -1})
        assert status == 422
    nobody = "/api/workers/0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e/observations"
    for constraint in ("openai", "no"):
        status, answer = await api.call("POST", nobody, {**seen, "constraint": constraint})
        assert (status, answer["code"]) == (404, "unknown_worker")


async def test_the_preview_adds_up_what_waits(api: Api) -> None:
    jobs = [await api.enqueue("work", {"tokens": tokens}) for tokens in (8, 0.5, 40)]
    await api.enqueue("work", {})
    body = {"matcher": WORK, "weight": WEIGHT, "rate": RATE, "concurrency": 50}
    status, found = await api.call("POST", "/api/constraints/preview", body)
    assert status == 200
    assert found["units"] == {
        "unit": "tokens", "total": 50.5, "heaviest": 40, "by_default": 1, "too_heavy": 1, "too_heavy_jobs": jobs[2:],
    }  # fmt: skip
    flat = {**body, "weight": {"default": 20, "unit": "MB"}}
    _, found = await api.call("POST", "/api/constraints/preview", flat)
    assert (found["units"]["total"], found["units"]["too_heavy"], found["units"]["by_default"]) == (80, 4, 0)
    _, found = await api.call("POST", "/api/constraints/preview", {"matcher": WORK})
    assert found["units"] is None
    status, answer = await api.call("POST", "/api/constraints/preview", {**body, "weight": {"from": "x"}})
    assert (status, answer["errors"][0]["loc"]) == (422, ["weight", "from"])


async def test_no_lighter_job_of_another_worker_starts_before_a_heavy_one(api: Api) -> None:
    await limit(api, matcher={"field": "name", "op": "exists"}, concurrency=10)
    async with worker_at(api, "light", max_jobs=20) as light, worker_at(api, "heavy") as heavy:
        for _ in range(2):
            await api.enqueue("light", {"tokens": 5})
        running = [await light.next_job() for _ in range(2)]
        job_id = await api.enqueue("heavy", {"tokens": 10})

        async def is_held() -> bool:
            _, why = await api.call("GET", f"/api/jobs/{job_id}/why")
            return bool(why["verdicts"][0]["code"] == "constraint")

        await wait_until(is_held)
        younger = [await api.enqueue("light", {"tokens": 5}) for _ in range(3)]
        await light.end(running[0], result=1)
        _, why = await api.call("GET", f"/api/jobs/{younger[0]}/why")
        assert "opens for the 10 of a job before this one and this job's 5" in why["verdicts"][0]["text"]
        await light.end(running[1], result=1)
        offer = await heavy.next_job()
        assert offer["job_id"] == job_id
        assert light.offers.empty()
        await heavy.end(offer, result=1)
        assert (await light.next_job())["job_id"] == younger[0]
