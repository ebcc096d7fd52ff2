"""A pause is an object of its own: of a name, a tag, a constraint or one value; with a reason, an end and an author."""

from typing import Any

import pytest

from tests.api.constraints.test_constraints import in_force, made, shown
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("J13"), real_time.MASTER]


async def paused(api: Api, **fields: Any) -> dict[str, Any]:
    status, answer = await api.call("POST", "/api/pauses", fields)
    assert status == 201, answer
    view: dict[str, Any] = answer
    await in_force(api, view["name"])
    return view


async def reasons(api: Api, job_id: str) -> list[str]:
    """Return the constraints that keep the job from running."""
    status, why = await api.call("GET", f"/api/jobs/{job_id}/why")
    assert status == 200
    return [one["name"] for one in why["constraints"] if not one["passes"]]


async def test_the_jobs_of_a_name_or_a_tag_wait_until_the_pause_is_ended(api: Api) -> None:
    mail = await api.enqueue("mail")
    tagged = await api.enqueue("report", tags=["nightly"])
    free = await api.enqueue("report")
    by_name = await paused(api, job_name="mail", reason="The provider is down.")
    by_tag = await paused(api, tag="nightly")
    assert (by_name["reason"], by_name["expires_at"], by_name["paused"]) == (
        "The provider is down.",
        None,
        True,
    )
    assert by_name["created_by"]
    assert await reasons(api, mail) == [by_name["name"]]
    assert await reasons(api, tagged) == [by_tag["name"]]
    assert await reasons(api, free) == []
    assert (await api.call("DELETE", f"/api/constraints/{by_name['name']}"))[0] == 204
    assert await reasons(api, mail) == []


async def test_one_value_of_a_key_is_paused_with_its_type_and_the_others_go_on(api: Api) -> None:
    work = {"field": "name", "op": "eq", "value": "work"}
    await made(api, "tenants", matcher=work, key="argument.tenant", concurrency=50)
    text = await api.enqueue("work", {"tenant": "42"})
    number = await api.enqueue("work", {"tenant": 42})
    await in_force(api, "tenants")
    ids = {key["value"]: key["id"] for key in (await shown(api, "tenants"))["top_keys"]}
    one = await paused(api, constraint="tenants", value_id=ids['"42"'])
    assert await reasons(api, text) == [one["name"]]
    assert await reasons(api, number) == []
    whole = await paused(api, constraint="tenants")
    assert await reasons(api, number) == [whole["name"]]


async def test_a_pause_with_an_end_ends_by_itself_and_the_audit_log_says_so(api: Api) -> None:
    one = await paused(api, job_name="mail", duration_s=2.0)
    assert one["expires_at"] is not None

    async def is_gone() -> bool:
        return (await api.call("GET", f"/api/constraints/{one['name']}"))[0] == 404

    await wait_until(is_gone, what="the pause has ended")
    entries = (await api.call("GET", f"/api/audit?target={one['name']}"))[1]["entries"]
    assert [entry["action"] for entry in entries] == ["constraint.delete", "constraint.put"]
    assert entries[0]["who"].startswith("master ")


@for_each(
    ("fields", "status"),
    [
        ({}, 422),
        ({"job_name": "a", "tag": "b"}, 422),
        ({"job_name": "a", "value_id": "0" * 16}, 422),
        ({"tag": "a", "value": None}, 422),
        ({"constraint": "a", "value": 1, "value_id": "0" * 16}, 422),
        ({"job_name": "a", "duration_s": 0}, 422),
        ({"job_name": "a", "reason": "x" * 501}, 422),
        ({"constraint": "none"}, 404),
    ],
)
async def test_a_pause_of_nothing_or_of_two_things_is_refused(
    api: Api, fields: dict[str, Any], status: int
) -> None:
    assert (await api.call("POST", "/api/pauses", fields))[0] == status
    assert (await api.call("GET", "/api/constraints"))[1]["constraints"] == []


async def test_a_value_is_paused_by_itself_before_any_job_has_it(api: Api) -> None:
    work = {"field": "name", "op": "eq", "value": "work"}
    await made(api, "tenants", matcher=work, key="argument.tenant", concurrency=50)
    await made(api, "all-work", matcher=work, concurrency=50)
    one = await paused(api, constraint="tenants", value=42)
    assert await reasons(api, await api.enqueue("work", {"tenant": 42})) == [one["name"]]
    assert await reasons(api, await api.enqueue("work", {"tenant": "42"})) == []
    nobody = await paused(api, constraint="tenants", value=None)
    assert await reasons(api, await api.enqueue("work", {"tenant": None})) == [nobody["name"]]
    assert await reasons(api, await api.enqueue("work", {})) == []
    status, problem = await api.call("POST", "/api/pauses", {"constraint": "all-work", "value": 1})
    assert (status, problem["errors"][0]["loc"]) == (422, ["value"])
