"""The declarations of sources, over HTTP."""

import pytest

from tests.support import real_time
from tests.support.master import Api

pytestmark = [pytest.mark.req("D6"), real_time.MASTER]


async def test_a_declaration_is_written_listed_and_forgotten(api: Api) -> None:
    body = {"definitions": {"nightly": "5f0c2a9b71d3e846"}}
    status, view = await api.call("PUT", "/api/declarations/app.tasks:tasks", body)
    assert status == 200, view
    assert (view["source"], view["constraints"], view["definitions"]) == (
        "app.tasks:tasks", {}, body["definitions"],
    )  # fmt: skip
    assert await api.call("GET", "/api/declarations") == (200, {"declarations": [view]})
    assert (await api.call("PUT", "/api/declarations/app.tasks:tasks", {}))[0] == 200
    assert await api.call("GET", "/api/declarations") == (200, {"declarations": []})


@pytest.mark.parametrize("source", ["a%20b", "x" * 101, "%3Cb%3E"])
async def test_a_source_has_a_plain_name(api: Api, source: str) -> None:
    status, problem = await api.call("PUT", f"/api/declarations/{source}", {"definitions": {"a": "b"}})
    assert (status, problem["errors"][0]["loc"]) == (422, ["source"])
