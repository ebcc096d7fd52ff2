"""schemathesis against a live server: MessagePack, the checks, and a server in its own thread.

JQMASTER_FUZZ_EXAMPLES is the number of requests for each operation and kind, which is small in `make test` and twice as
large in `make test-long`; nightly runs take thousands.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import hypothesis
import msgpack
import schemathesis
from schemathesis.specs.openapi import checks

from tests.support import long

MSGPACK = "application/msgpack"
JSON = "application/json"
EXAMPLES = int(os.environ.get("JQMASTER_FUZZ_EXAMPLES", long.size(2, 4)))

ANSWERS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
ANSWERS_AND_REFUSALS = [*ANSWERS, checks.negative_data_rejection]

SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="JQMASTER_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@schemathesis.serializer(MSGPACK)
def to_msgpack(ctx: Any, value: Any) -> Any:
    return value if isinstance(value, bytes) else msgpack.packb(_packable(value))


@schemathesis.deserializer(MSGPACK)
def from_msgpack(ctx: Any, response: Any) -> Any:
    return msgpack.unpackb(response.content, ext_hook=lambda code, data: [code, data.hex()])


def _packable(value: Any) -> Any:
    """JSON Schema has integers beyond 64 bits and lone surrogates, but MessagePack does not."""
    match value:
        case int() if not -(2**63) <= value < 2**64:
            return float(min(max(value, -(10**300)), 10**300))
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_packable(key): _packable(member) for key, member in value.items()}
        case list() | tuple():
            return [_packable(member) for member in value]
    return value


@contextlib.contextmanager
def in_a_thread(serve: Callable[[], AbstractAsyncContextManager[Any]]) -> Iterator[Any]:
    """Yield what `serve` yields in its own event loop, because schemathesis is synchronous."""
    found: dict[str, Any] = {}
    ready = threading.Event()

    async def live() -> None:
        async with serve() as value:
            stop = asyncio.Event()
            found.update(value=value, loop=asyncio.get_running_loop(), stop=stop)
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as exc:
            found["error"] = exc
        ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(30)
    try:
        if "value" in found:
            yield found["value"]
    finally:
        if "stop" in found:
            found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(30)
    if "error" in found:
        raise found["error"]
