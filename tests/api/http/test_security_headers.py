"""The security headers of every answer, and a proof that GET changes nothing."""

import asyncio
import functools
import re
from typing import Any

import httpx
import msgpack
import pytest

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, app_alone, master_on
from tests.support.server import StoreServer
from tests.support.strict_answers import check_headers, headers_of

pytestmark = real_time.MASTER

# A stream never ends, so the test cannot wait for its answer.
STREAMS = {"/api/stream"}


def path_of(operation: Operation) -> str:
    return re.sub(r"{\w+}", new_id(), operation.path)


@functools.cache
def guarded_app() -> Any:
    return app_alone("admin:a")


@pytest.mark.rule("E4.2", "E4.4")
@for_each("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
async def test_every_refusal_is_as_strict_as_an_answer(operation: Operation) -> None:
    transport = httpx.ASGITransport(guarded_app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
        for method in (operation.method, "OPTIONS", "TRACE"):
            for origin in ("https://evil.example", "null"):
                fields = {"Origin": origin, "Access-Control-Request-Method": "POST"}
                answer = await http.request(method, path_of(operation), headers=fields)
                check_headers(answer.headers)


@pytest.mark.rule("E4.2", "E4.3", "E4.4")
async def test_every_get_answers_strictly_and_changes_nothing(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=["admin:t-admin"]) as (master, _):
        admin = Api(master.server.url, "t-admin")
        job_id = await admin.enqueue("work", run_at="2099-01-01T00:00:00Z")
        before = await admin.job(job_id)
        fields = {"Origin": "https://evil.example", "Accept": "application/json"}
        paths = [op.path for op in OPERATIONS if op.method == "GET" and op.path not in STREAMS]
        for path in [*paths, "/", "/shell/app.js", "/nothing"]:
            filled = path.replace("{job_id}", job_id)
            answer = await admin.http.get(re.sub(r"{\w+}", "unknown", filled), headers=fields)
            check_headers(answer.headers)
        # A GET of any other route also changes nothing.
        for path in {op.path for op in OPERATIONS} - set(paths) - STREAMS:
            filled = path.replace("{job_id}", job_id)
            answer = await admin.http.get(re.sub(r"{\w+}", "unknown", filled), headers=fields)
            assert answer.status_code in (404, 405), path
        assert await admin.job(job_id) == before
        assert (await admin.call("GET", "/api/audit"))[1]["entries"] == []
        await admin.http.aclose()


@pytest.mark.rule("E4.2")
async def test_answers_to_broken_requests_are_strict_too(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", master.server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        answer = await reader.read()
        writer.close()
        check_headers(headers_of(answer))
        assert msgpack.unpackb(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_host"


@pytest.mark.rule("E4.3")
async def test_bodies_that_a_form_of_another_site_can_send_are_not_read(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=["admin:t-admin"]) as (master, _):
        admin = Api(master.server.url, "t-admin")
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
            for path in ("/api/jobs", "/api/session", "/api/users", "/api/tokens"):
                answer = await admin.http.post(
                    path, content=b'{"name":"work"}', headers={"Content-Type": kind}
                )
                assert answer.status_code == 415, (path, kind)
        await admin.http.aclose()
