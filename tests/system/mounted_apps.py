"""Web applications that run a worker in each process, as real servers import them."""

import asyncio
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

from worker_sdk import Worker


def _with_handlers(worker: Worker) -> Worker:
    @worker.handler("pid")
    async def pid(argument: object) -> int:
        return os.getpid()

    @worker.handler("wait")
    async def wait(path: str) -> int:
        while not await asyncio.to_thread(Path(path).exists):
            await asyncio.sleep(0.02)
        return os.getpid()

    return worker


_listening = _with_handlers(Worker(max_jobs=2))
_pulling = _with_handlers(Worker(max_jobs=2, pull=True))
_mounted = _with_handlers(Worker(max_jobs=2, url=os.environ.get("WORKER_URL"), grace_s=30))

own_address = Starlette(lifespan=_listening.lifespan)
pulling = Starlette(lifespan=_pulling.lifespan)
bare = _with_handlers(Worker(max_jobs=2)).asgi()
at_url = Starlette(routes=[Mount("/jq", app=_mounted.asgi())], lifespan=_mounted.lifespan)
