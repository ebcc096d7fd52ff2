"""Shares of turns, reserved slots and overrides by condition, over HTTP."""

from typing import Any

import pytest

from tests.api.constraints.test_constraints import WORK, in_force, made, shown
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D30"), real_time.MASTER]

PRO = {"field": "argument.plan", "op": "eq", "value": "pro"}
KEYED = {"key": "argument.tenant", "concurrency": 2}


async def test_shares_are_shown_as_they_were_put_and_can_be_put_again(api: Api) -> None:
    fields = {
        **KEYED,
        "fair": {"weights": [{"value": "acme", "weight": 10}, {"value": None, "weight": 0.5}], "default": 2},
        "reserve": [{"matcher": PRO, "concurrency": 1}],
        "overrides": [
            {"match": PRO, "concurrency": 50, "rate": {"limit": 5, "period_s": 1}},
            {"value": "acme", "concurrency": 80},
        ],
    }
    view = await made(api, "tenants", **fields)
    assert view["fair"] == fields["fair"]
    assert view["reserve"] == fields["reserve"]
    assert view["overrides"] == [
        {"value": "acme", "concurrency": 80, "rate": None, "paused": False},
        {
            "value": None,
            "match": PRO,
            "concurrency": 50,
            "rate": {"limit": 5, "period_s": 1.0},
            "paused": False,
        },
    ]
    assert (await made(api, "tenants", **{field: view[field] for field in fields}))["etag"] == view["etag"]
    # Changes of one value keep the conditions.
    _, changed = await api.call(
        "POST", "/api/constraints/tenants/values", {"value": "acme", "concurrency": 9}
    )
    assert [one["concurrency"] for one in changed["overrides"]] == [9, 50]
    plain = await made(api, "plain", concurrency=1)
    assert (plain["fair"], plain["reserve"]) == (False, [])


@for_each(
    ("fields", "loc"),
    [({"fair": {"weights": [{"value": "a", "weight": 0}]}}, "fair.weights.0.weight"),
     ({"fair": {"weights": [{"value": "a"}]}}, "fair.weights.0.weight"),
     ({"fair": {"default": "much"}}, "fair.default"), ({"fair": {"wait": 1}}, "fair.wait"), ({"fair": 1}, "fair"),
     ({"reserve": [{"matcher": {}, "concurrency": 1}]}, "reserve.0.matcher"),
     ({"reserve": [{"matcher": PRO, "concurrency": 2}]}, "reserve"),
     ({"overrides": [{"concurrency": 1}]}, "overrides.0.value"),
     ({"overrides": [{"value": "a", "match": PRO}]}, "overrides.0.match"),
     ({"overrides": [{"match": {"field": "x", "op": "eq", "value": 1}}]}, "overrides.0.match.field"),
     ({"key": None, "overrides": [{"match": PRO, "concurrency": 1}]}, "overrides")],
)  # fmt: skip
async def test_a_refusal_names_the_part(api: Api, fields: dict[str, Any], loc: str) -> None:
    status, problem = await api.call("PUT", "/api/constraints/tenants", {"matcher": WORK, **KEYED, **fields})
    assert (status, ".".join(map(str, problem["errors"][0]["loc"]))) == (422, loc), problem


async def test_a_preview_counts_the_jobs_and_values_of_each_override(api: Api) -> None:
    for tenant, plan, count in (
        ("acme", "pro", 3),
        ("umbrella", "pro", 2),
        ("small", "free", 1),
        ("big", "free", 4),
    ):
        for _ in range(count):
            await api.enqueue("work", {"tenant": tenant, "plan": plan})
    overrides = [{"match": PRO}, {"value": "acme"}, {"value": "nobody"}, {"value": "big"}]
    body = {"matcher": WORK, "key": "argument.tenant", "overrides": overrides}
    status, found = await api.call("POST", "/api/constraints/preview", body)
    assert status == 200
    assert found["count"] == 10
    assert found["overrides"] == [
        {"jobs": 2, "values": 1},
        {"jobs": 3, "values": 1},
        {"jobs": 0, "values": 0},
        {"jobs": 4, "values": 1},
    ]
    for wrong, loc in (
        ({"key": None}, ["overrides"]),
        ({"overrides": [{"match": {}}]}, ["overrides", 0, "match"]),
        ({"overrides": [{"value": "a" * 2000}]}, ["overrides", 0, "value"]),
    ):
        status, problem = await api.call("POST", "/api/constraints/preview", {**body, **wrong})
        assert (status, problem["errors"][0]["loc"]) == (422, loc)


async def test_plans_and_reservations_hold_with_a_real_master(api: Api) -> None:
    await made(
        api,
        "tenants",
        **KEYED,
        overrides=[{"match": PRO, "concurrency": 3}],
        reserve=[{"matcher": {"field": "argument.urgent", "op": "eq", "value": True}, "concurrency": 1}],
    )
    await in_force(api, "tenants")
    jobs = [
        await api.enqueue("work", {"tenant": tenant, "plan": plan})
        for tenant, plan in (("acme", "pro"), ("small", "free"))
        for _ in range(4)
    ]
    async with worker_at(api, max_jobs=20) as worker:
        await wait_until(lambda: len(worker.running) >= 3, what="jobs start")
        acme = await shown(api, "tenants", "acme")
        assert (acme["value"]["limits"]["concurrency"], acme["value"]["running"]) == (3, 2)
        small = await shown(api, "tenants", "small")
        assert (small["value"]["limits"]["concurrency"], small["value"]["running"]) == (2, 1)
        _, why = await api.call("GET", f"/api/jobs/{jobs[-1]}/why")
        told = next(one["text"] for one in why["verdicts"] if one["code"] == "constraint")
        assert "tenants (argument.tenant = small), whose other slots are reserved: 1 of 1 slots taken" in told
        urgent = await api.enqueue("work", {"tenant": "small", "plan": "free", "urgent": True})
        await wait_until(lambda: urgent in worker.running, what="the urgent job starts")


async def test_values_and_conditions_are_covered_for_those_who_may_not_see_them(api: Api) -> None:
    fields = {
        **KEYED,
        "fair": {"weights": [{"value": "acme", "weight": 10}], "default": 1},
        "reserve": [{"matcher": PRO, "concurrency": 1}],
        "overrides": [{"match": PRO, "concurrency": 50}, {"value": "acme", "concurrency": 80}],
    }
    await made(api, "tenants", **fields)
    await api.call("PATCH", "/api/settings", {"redact_paths": ["argument.tenant", "argument.plan"]})

    async def covered() -> dict[str, Any] | None:
        found = await shown(api, "tenants")
        return found if found["values_hidden"] else None

    view = await wait_until(covered, what="the setting is live")
    assert "acme" not in str(view)
    assert "pro" not in str(view["overrides"]) + str(view["reserve"])
    # Covered parts that are sent back keep their values.
    document = {field: view[field] for field in ("matcher", *fields)}
    status, again = await api.call("PUT", "/api/constraints/tenants", document)
    assert (status, again.get("etag")) == (200, view["etag"])
