"""A preview of a job tells which constraints would limit it and what is wrong with it, and enqueues nothing."""

from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api

pytestmark = [pytest.mark.req("J15"), real_time.MASTER]

MAIL = {"field": "name", "op": "eq", "value": "mail"}


async def test_a_preview_names_the_constraints_that_would_apply_and_enqueues_nothing(api: Api) -> None:
    for name, body in {
        "all-mail": {"matcher": MAIL, "rate": {"limit": 3, "period_s": 1.5}, "max_backlog": 9},
        "per-host": {
            "matcher": MAIL,
            "key": "argument.host",
            "concurrency": 2,
            "overrides": [{"value": "slow", "concurrency": 1, "paused": True}],
        },
        "others": {"matcher": {"not": MAIL}, "concurrency": 1},
        "off": {"matcher": MAIL, "concurrency": 1, "enabled": False},
    }.items():
        status, _ = await api.call("PUT", f"/api/constraints/{name}", body)
        assert status == 201
    status, found = await api.call(
        "POST", "/api/jobs/preview", {"name": "mail", "argument": {"host": "slow"}}
    )
    assert status == 200
    assert {one.pop("name"): one for one in found["constraints"]} == {
        "all-mail": {
            "mode": "enforce",
            "key": None,
            "key_value": None,
            "limits": {"concurrency": None, "rate": {"limit": 3, "period_s": 1.5}, "paused": False},
            "max_backlog": 9,
        },
        "per-host": {
            "mode": "enforce",
            "key": "argument.host",
            "key_value": "slow",
            "limits": {"concurrency": 1, "rate": None, "paused": True},
            "max_backlog": None,
        },
    }
    # The constraint does not limit a job without the key.
    status, found = await api.call("POST", "/api/jobs/preview", {"name": "mail", "argument": 1})
    assert [one["name"] for one in found["constraints"]] == ["all-mail"]
    assert sum((await api.counts()).values()) == 0


async def test_a_preview_judges_the_job_as_a_push_would(api: Api) -> None:
    job = {"name": "no spaces", "priority": 1.5}
    assert await api.call("POST", "/api/jobs/preview", job) == await api.call("POST", "/api/jobs", job)
    status, problem = await api.call("POST", "/api/jobs/preview", {"name": "a", "argument": "x" * 2_000_000})
    assert (status, problem["code"]) == (413, "argument_too_large")


@pytest.mark.req("J18")
@pytest.mark.parametrize("setting", ["report", "refuse"])
async def test_a_preview_says_what_does_not_fit_the_schema_of_the_name(api: Api, setting: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    worker = {"url": None, "names": ["told"], "max_jobs": 1, "secret": "s" * 32,
              "contracts": {"told": {"argument_schema": schema}}}  # fmt: skip
    assert (await api.call("POST", "/api/workers", worker))[0] == 201
    assert (await api.call("PATCH", "/api/settings", {"check_arguments": setting}))[0] == 200

    async def misfits(name: str, argument: Any) -> list[dict[str, Any]]:
        status, found = await api.call("POST", "/api/jobs/preview", {"name": name, "argument": argument})
        assert status == 200
        return list(found["misfits"])

    assert await misfits("told", {"n": 1}) == []
    assert await misfits("told", {"n": "x"}) == [
        {"loc": ["argument", "n"], "msg": '"x" is not of type "integer"'}
    ]
    assert [one["loc"] for one in await misfits("told", {})] == [["argument"]]
    assert await misfits("nobody", {"n": "x"}) == []


@pytest.mark.req("J18")
async def test_a_preview_judges_no_argument_while_arguments_are_not_checked(api: Api) -> None:
    worker = {"url": None, "names": ["told"], "max_jobs": 1, "secret": "s" * 32,
              "contracts": {"told": {"argument_schema": {"type": "integer"}}}}  # fmt: skip
    assert (await api.call("POST", "/api/workers", worker))[0] == 201
    job = {"name": "told", "argument": "x"}
    for setting, checks, count in (("off", False, 0), ("report", True, 1)):
        assert (await api.call("PATCH", "/api/settings", {"check_arguments": setting}))[0] == 200
        _, found = await api.call("POST", "/api/jobs/preview", job)
        assert (found["checks_argument"], len(found["misfits"])) == (checks, count)
