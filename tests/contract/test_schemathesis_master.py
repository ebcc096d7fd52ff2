"""A live master against generated requests, valid and not, in both encodings."""

import contextlib
import functools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import requests
import schemathesis

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.routes import OPERATIONS
from jqmaster.service.operations.settings_catalog import RUNTIME
from tests.support import long, real_time
from tests.support.contract import document
from tests.support.fuzz import ANSWERS_AND_REFUSALS, JSON, MSGPACK, SETTINGS, in_a_thread
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

TOKEN = "of-the-fuzzer"
ACCESS = {"Authorization": f"Bearer {TOKEN}"}
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
# In `make test`, an operation gets the requests that fit in one encoding, and the others in the other one, by turns.
EXCHANGES = [
    pytest.param(
        operation, media_type, mode, id=f"{operation.method} {operation.path} {media_type[12:]} {mode.value}"
    )
    for number, operation in enumerate(OPERATIONS)
    for media_type in (MSGPACK, JSON)
    for mode in (POSITIVE, NEGATIVE)
    if (mode is POSITIVE or operation.request or operation.query)
    and (long.IS_LONG or ((media_type is MSGPACK) == (mode is POSITIVE)) == (number % 2 == 0))
]


@pytest.fixture(scope="module")
def master_url(store_server: StoreServer) -> Iterator[str]:
    """A master without workers, with a token: once a user exists, it requires credentials. It ends with fsck."""

    @contextlib.asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        async with master_on(store_server.url, tokens=[f"admin:{TOKEN}"]) as (master, _):
            yield master.server.url

    with in_a_thread(serve) as url:
        yield url


@functools.cache
def in_encoding(media_type: str) -> Any:
    """Return the document with only one request encoding."""
    narrowed = json.loads(json.dumps(document("jqmaster")))
    for operations in narrowed["paths"].values():
        for operation in operations.values():
            if body := operation.get("requestBody"):
                # A body of any type (`*/*`) also uses this encoding.
                body["content"] = {media_type: body["content"].get(media_type) or body["content"]["*/*"]}
    schema = schemathesis.openapi.from_dict(narrowed)
    refusals = schema.config.checks.negative_data_rejection
    # An overlong value may make the whole URL or body too long, and a precondition may fail before the body is checked.
    refusals.expected_statuses = [*refusals.expected_statuses, "412", "413", "414"]
    return schema


@pytest.mark.req("J11")
@pytest.mark.sized
@pytest.mark.parametrize(("operation", "media_type", "mode"), EXCHANGES)
def test_generated_requests_are_answered_as_documented(
    master_url: str, operation: Operation, media_type: str, mode: schemathesis.GenerationMode
) -> None:
    described = in_encoding(media_type)[operation.path][operation.method]
    known = [
        requests.post(
            f"{master_url}/api/jobs", json={"name": "work", "delay": delay}, headers=ACCESS, timeout=20
        ).json()["id"]
        for delay in ((0, 3600) if "{job_id}" in operation.path and mode is POSITIVE else ())
    ]

    @SETTINGS
    @hypothesis.given(
        case=described.as_strategy(generation_mode=mode), job_id=st.sampled_from([*known, None])
    )
    def exchange(case: Any, job_id: str | None) -> None:
        # With only random IDs, every answer would be 404.
        if job_id and mode is POSITIVE and "job_id" in case.path_parameters:
            case.path_parameters["job_id"] = job_id
        if "wait" in case.query and mode is POSITIVE:
            case.query["wait"] = 0.01
        if case.headers.get("JQ-Durability") == "fsync+quorum":
            # This store does not have replicas, so it would refuse with 503, as documented.
            case.headers["JQ-Durability"] = "fsync"
        # Almost any other store ID is refused before the rest is checked: tests/api/test_other_store.py.
        case.headers.pop("JQ-Store", None)
        case.call_and_validate(
            base_url=master_url,
            headers={"Accept": media_type, **ACCESS},
            checks=ANSWERS_AND_REFUSALS,
            timeout=20,
        )

    try:
        exchange()
    finally:
        if operation.path == "/api/settings":
            # Reset all limits, so that the other exchanges use a master with defaults.
            for key in sorted(RUNTIME):
                requests.patch(f"{master_url}/api/settings", json={key: None}, headers=ACCESS, timeout=20)
