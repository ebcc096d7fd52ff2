"""The code in docs/web_servers.md works as written, in the real frameworks."""

import asyncio
import contextlib
import importlib
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from werkzeug.serving import make_server

from tests.support import real_time
from tests.support.pages import WRITTEN_URL, blocks
from tests.support.ports import free_port
from worker_sdk import Pusher, SyncPusher

pytestmark = real_time.MASTER

PAGE = "docs/web_servers.md"
MOUNTED_PORT = "9000"


def block_with(text: str) -> str:
    """Return the first block of the page that contains this text."""
    return next(block for block in blocks(PAGE) if text in block)


@pytest.fixture
def imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> Iterator[Callable[[str], types.ModuleType]]:
    """Import the code of a page as a module, which frameworks look for. Close its pusher at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[types.ModuleType] = []

    def do_import(source: str) -> types.ModuleType:
        (tmp_path / "photos_page.py").write_text(source.replace(WRITTEN_URL, url))
        modules.append(importlib.import_module("photos_page"))
        return modules[-1]

    yield do_import
    sys.modules.pop("photos_page", None)
    for module in modules:
        if isinstance(pusher := getattr(module, "pusher", None), SyncPusher):
            pusher.close()


@contextlib.asynccontextmanager
async def served(app: Any, port: int) -> AsyncIterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="on", log_config=None, ws="none")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def upload(address: str) -> str:
    async with httpx.AsyncClient(trust_env=False) as browser:
        answer = await browser.post(f"{address}/photos")
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["job_id"]
    assert isinstance(job_id, str)
    return job_id


@pytest.mark.usefixtures("kept_root_logger")
@pytest.mark.parametrize("framework", ["FastAPI", "Starlette", "Litestar"])
async def test_the_application_enqueues_and_runs_the_job(
    framework: str, imported: Callable[[str], types.ModuleType], pusher: Pusher
) -> None:
    page = imported(block_with(f"app = {framework}("))
    async with served(page.app, free_port()) as address:
        result = await pusher.result(await upload(address), wait=20)
    assert result is not None
    assert result.result == {"width": 640}


async def test_the_flask_application_enqueues_and_its_worker_runs_the_job(
    imported: Callable[[str], types.ModuleType], pusher: Pusher
) -> None:
    page = imported(block_with("app = Flask("))
    server = make_server("127.0.0.1", free_port(), page.app)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        async with page.worker.running():
            result = await pusher.result(await upload(f"http://127.0.0.1:{server.port}"), wait=20)
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()
    assert result is not None
    assert result.result == {"width": 640, "app": "photos_page"}


async def test_the_mounted_worker_is_served_by_the_application(
    imported: Callable[[str], types.ModuleType], pusher: Pusher
) -> None:
    port = free_port()
    page = imported(block_with('app.mount("/jq"').replace(MOUNTED_PORT, str(port)))
    async with served(page.app, port):
        job_id = await pusher.enqueue("photo.resize", {"width": 320}, keep_result=True)
        result = await pusher.result(job_id, wait=20)
        assert page.worker.address == f"http://127.0.0.1:{port}/jq"
    assert result is not None
    assert result.result == {"width": 320}
