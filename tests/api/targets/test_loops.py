"""A delivery to this service itself starts nothing, whatever it calls."""

import re

import pytest

from jqmaster.api.http.agent_endpoint import PATH
from jqmaster.api.routes import OPERATIONS
from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("M13"), real_time.MASTER]

# An endpoint may send back all that it got, and a callback starts nothing.
CALLBACK = "/callbacks/{request_id}"


async def test_every_call_that_changes_something_refuses_deliveries(store_server: StoreServer) -> None:
    routes = [
        (operation.method, re.sub(r"{\w+}", "x", operation.path))
        for operation in OPERATIONS
        if operation.method != "GET" and operation.access is not None
    ]
    assert len(routes) > 60
    async with master_on(store_server.url, fireworq_prefix="/fireworq") as (_, api):
        for method, path in [
            *routes,
            ("POST", PATH),
            ("POST", "/fireworq/job/x"),
            ("PUT", "/fireworq/queue/x"),
        ]:
            answer = await api.http.request(method, path, headers={"JQ-Fence": "1"})
            told = (answer.status_code, answer.json().get("code"))
            expected = 400 if path.startswith("/fireworq") else 422
            assert told == (expected, "delivery_loop"), (method, path)
        assert (await api.http.get("/api/jobs", headers={"JQ-Fence": "1"})).status_code == 200
        sent = await api.http.post(CALLBACK.format(request_id="x"), headers={"JQ-Fence": "1"})
        assert sent.status_code == 404
