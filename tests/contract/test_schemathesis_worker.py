"""A live worker against generated calls, signed as a master signs them."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import hypothesis
import pytest
import requests
import schemathesis

from tests.support import real_time
from tests.support.contract import document
from tests.support.fuzz import ANSWERS, SETTINGS, in_a_thread
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.transport.signature import signed_headers

pytestmark = real_time.MASTER

SECRET = secrets.token_hex(32)
SCHEMA = schemathesis.openapi.from_dict(document("worker"))
CALLS = [(method, path) for path, operations in document("worker")["paths"].items() for method in operations]
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def worker(store_server: StoreServer) -> Iterator[Worker]:
    """Yield a worker_sdk worker registered with a real master."""

    @contextlib.asynccontextmanager
    async def serve() -> AsyncIterator[Worker]:
        async with master_on(store_server.url) as (master, _):
            one = Worker(master.server.url, secret=SECRET, grace_s=0.1)
            one.handler("work")(lambda argument: argument)
            async with one.running():
                await wait_until(lambda: one.worker_id, what="the worker is registered")
                yield one

    with in_a_thread(serve) as one:
        yield one


class Signature(requests.auth.AuthBase):
    """Signs the request as actually sent."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        path = unquote(urlsplit(str(request.url)).path)
        content = body if isinstance(body, bytes) else str(body).encode()
        signed = signed_headers(
            secret=SECRET, method=str(request.method), path=path, worker_id=self.worker_id, body=content
        )
        request.headers.update(signed)
        return request


@pytest.mark.req("J11")
@pytest.mark.parametrize("mode", [POSITIVE, NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_generated_calls_are_answered_as_documented(
    worker: Worker, method: str, path: str, mode: schemathesis.GenerationMode
) -> None:
    assert worker.worker_id
    signature = Signature(worker.worker_id)

    @SETTINGS
    @hypothesis.given(case=SCHEMA[path][method.upper()].as_strategy(generation_mode=mode))
    def exchange(case: Any) -> None:
        response = case.call_and_validate(base_url=worker.address, auth=signature, checks=ANSWERS, timeout=20)
        assert response.status_code != 401

    if mode is POSITIVE or document("worker")["paths"][path][method].get("requestBody"):
        exchange()


@pytest.mark.req("J11")
@pytest.mark.parametrize(
    ("method", "path"), [call for call in CALLS if call[1] not in ("/ping", "/challenge")]
)
def test_unsigned_calls_are_answered_401(worker: Worker, method: str, path: str) -> None:
    @hypothesis.settings(SETTINGS, max_examples=5)
    @hypothesis.given(case=SCHEMA[path][method.upper()].as_strategy())
    def exchange(case: Any) -> None:
        response = case.call(base_url=worker.address, timeout=20)
        assert response.status_code in (401, 404)
        case.validate_response(response, checks=ANSWERS)

    exchange()
