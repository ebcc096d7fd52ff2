"""Web applications as deployed: their pushers are created and used when the module is imported."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from worker_sdk import Pusher, SyncPusher
from worker_sdk.pusher.ids import new_job_id

sync_pusher = SyncPusher()
pusher = Pusher()

# Connections are open, and an event loop has come and gone, before a preloading server forks.
sync_pusher.enqueue("echo", "at import")
with ThreadPoolExecutor(4) as threads:
    list(threads.map(lambda n: sync_pusher.enqueue("echo", n), range(8)))
    # Use a thread, because uvicorn imports the application in an event loop.
    threads.submit(lambda: asyncio.run(pusher.enqueue("echo", "at import"))).result()


def _sync_round() -> str:
    """Return the fault, or an empty text."""
    job_id = sync_pusher.enqueue("echo", {"pid": os.getpid()}, keep_result=True)
    result = sync_pusher.result(job_id, wait=20)
    if result is None or result.result != {"pid": os.getpid()}:
        return f"the result is {result}"
    return "" if sync_pusher.status(job_id)["id"] == job_id else "the status is another job's"


async def _async_round() -> str:
    job_id = new_job_id()
    if await pusher.enqueue("echo", {"pid": os.getpid()}, keep_result=True, id=job_id) != job_id:
        return "the ID is another job's"
    result = await pusher.result(job_id, wait=20)
    return "" if result is not None and result.result == {"pid": os.getpid()} else f"the result is {result}"


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the process ID, a line feed and the fault."""
    wrong = _sync_round()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()}\n{wrong}".encode()]


async def asgi(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
) -> None:
    """The same, with its `Pusher` and then its `SyncPusher`."""
    if scope["type"] == "lifespan":
        async for answer in _lifespan(receive):
            await send(answer)
        return
    wrong = await _async_round() or await asyncio.to_thread(_sync_round)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{os.getpid()}\n{wrong}".encode()})


async def _lifespan(receive: Callable[[], Awaitable[Any]]) -> AsyncIterator[dict[str, str]]:
    for _ in range(2):
        message = await receive()
        yield {"type": f"{message['type']}.complete"}
