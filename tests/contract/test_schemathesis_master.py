"""A live master against generated requests, valid and not, in both encodings.

JQMASTER_FUZZ_EXAMPLES (25) is the number of requests for each operation and kind; nightly runs take thousands.
"""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import hypothesis
import msgpack
import pytest
import schemathesis
from schemathesis.specs.openapi import checks

from jqmaster.api.routes import OPERATIONS
from tests.support.contract import document
from tests.support.master import master_on
from tests.support.server import StoreServer

EXAMPLES = int(os.environ.get("JQMASTER_FUZZ_EXAMPLES", "25"))
MSGPACK = "application/msgpack"
JSON = "application/json"

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


@schemathesis.serializer(MSGPACK)
def to_msgpack(ctx: Any, value: Any) -> Any:
    return value if isinstance(value, bytes) else packed(value)


@schemathesis.deserializer(MSGPACK)
def from_msgpack(ctx: Any, response: Any) -> Any:
    return msgpack.unpackb(response.content, ext_hook=lambda code, data: [code, data.hex()])


def packed(value: Any) -> bytes:
    """What JSON Schema can say and MessagePack cannot: integers beyond 64 bits become doubles, lone surrogates go."""

    def plain(part: Any) -> Any:
        match part:
            case bool() | None | bytes():
                return part
            case int():
                return part if -(2**63) <= part < 2**64 else float(min(max(part, -(10**300)), 10**300))
            case float():
                return float(part)
            case str():
                return part.encode("utf-8", "replace").decode()
            case dict():
                return {plain(key): plain(member) for key, member in part.items()}
            case list() | tuple():
                return [plain(member) for member in part]
        raise TypeError(type(part))

    return msgpack.packb(plain(value))


@pytest.fixture(scope="module")
def master_url(store_server: StoreServer) -> Iterator[str]:
    """A master in a thread of its own: schemathesis is synchronous. It ends with fsck."""
    ready: threading.Event = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        async with master_on(store_server.url) as (master, _):
            found.update(url=master.server.url, loop=asyncio.get_running_loop(), stop=asyncio.Event())
            ready.set()
            await found["stop"].wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            found["error"] = exc
        ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(20)
    if "url" in found:
        yield found["url"]
        found["loop"].call_soon_threadsafe(found["stop"].set)
    thread.join(30)
    if "error" in found:
        raise found["error"]


def in_encoding(media_type: str) -> Any:
    """The document with requests of one encoding only."""
    text = json.loads(json.dumps(document("jqmaster")))
    for operations in text["paths"].values():
        for operation in operations.values():
            if body := operation.get("requestBody"):
                body["content"] = {media_type: body["content"][media_type]}
    return schemathesis.openapi.from_dict(text)


SCHEMA = {media_type: in_encoding(media_type) for media_type in (MSGPACK, JSON)}


@pytest.mark.req("J11")
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("media_type", [MSGPACK, JSON])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
def test_generated_requests_are_answered_as_documented(
    master_url: str, operation: Any, media_type: str, mode: schemathesis.GenerationMode
) -> None:
    described = SCHEMA[media_type][operation.path][operation.method]
    if mode is schemathesis.GenerationMode.NEGATIVE and not (operation.request or operation.query):
        pytest.skip("nothing in it can be wrong")

    @hypothesis.given(case=described.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="JQMASTER_FUZZ_EXAMPLES" not in os.environ,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def exchange(case: Any) -> None:
        headers = {"Accept": media_type}
        case.call_and_validate(base_url=master_url, headers=headers, checks=CHECKS, timeout=20)

    exchange()
