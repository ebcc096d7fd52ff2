"""One value of a constraint's key is limited and paused by the ID in the answers, whatever its type and length."""

from typing import Any

import pytest

from tests.api.constraints.test_constraints import made, shown
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("J13"), real_time.MASTER]

LATER = {"delay": 3600.0}
VALUES: list[Any] = [
    "42",
    42,
    1.5,
    "true",
    True,
    None,
    b"\x00\xff",
    "x" * 300,
    "nul \x00 and \u202eleft",
    "",
    ["a", ["b", 1]],
    {"shop": "acme", "n": [1]},
]


@pytest.mark.parametrize("value", VALUES, ids=[repr(value)[:20] for value in VALUES])
async def test_a_value_is_paused_limited_and_reset_by_its_id(api: Api, value: Any) -> None:
    await made(
        api,
        "hosts",
        matcher={"field": "name", "op": "eq", "value": "work"},
        key="argument.host",
        concurrency=3,
    )
    await api.enqueue("work", {"host": value}, **LATER)
    await api.enqueue("work", {"host": "another"}, **LATER)

    async def one() -> dict[str, Any]:
        keys = (await shown(api, "hosts"))["top_keys"]
        found = [key for key in keys if key["value"] != "another"]
        assert len(found) == 1
        return found[0]

    key = await one()
    assert key["own_limits"] is None
    path = "/api/constraints/hosts/values"
    status, answer = await api.call("POST", path, {"value_id": key["id"], "paused": True, "concurrency": 1})
    assert status == 200, answer
    assert [(o["value"], o["paused"], o["concurrency"]) for o in answer["overrides"]] == [(value, True, 1)]
    key = await one()
    assert key["own_limits"] == {"concurrency": 1, "rate": None, "paused": True}
    assert (key["is_open"], key["limits"]["paused"]) == (False, True)
    # Only the named value is paused.
    (other,) = [k for k in (await shown(api, "hosts"))["top_keys"] if k["value"] == "another"]
    assert other["is_open"]
    status, answer = await api.call("POST", path, {"value_id": key["id"]})
    assert (status, answer["overrides"]) == (200, [])


async def test_an_id_that_nothing_has_and_a_request_that_says_too_much_are_refused(api: Api) -> None:
    await made(
        api,
        "hosts",
        matcher={"field": "name", "op": "eq", "value": "work"},
        key="argument.host",
        concurrency=3,
    )
    path = "/api/constraints/hosts/values"
    status, problem = await api.call("POST", path, {"value_id": "0" * 16, "paused": True})
    assert (status, problem["code"]) == (404, "unknown_key_value")
    status, problem = await api.call("POST", path, {"value_id": "0" * 16, "value": 1, "paused": True})
    assert status == 422
    assert problem["errors"][0]["loc"] == ["value"]


async def test_a_caller_that_may_not_see_a_value_gets_no_id_to_try_guesses_with(
    store_server: StoreServer,
) -> None:
    async with master_on(store_server.url, tokens=["admin:the-admins-token-0123456789"]) as (master, _):
        admin = Api(master.server.url, "the-admins-token-0123456789")
        await made(
            admin,
            "hosts",
            matcher={"field": "name", "op": "eq", "value": "work"},
            key="argument.host",
            concurrency=3,
        )
        await admin.enqueue("work", {"host": "secret.example"}, **LATER)
        _, token = await admin.call("POST", "/api/tokens", {"label": "eyes", "scopes": ["read"]})
        viewer = Api(master.server.url, token["token"])
        (seen,) = (await shown(viewer, "hosts"))["top_keys"]
        assert (seen["value"], seen["id"]) == ("[hidden]", None)
        await viewer.http.aclose()
        await admin.http.aclose()
