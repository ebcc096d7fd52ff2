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
from tests.support.waiting import wait_until
from worker_sdk import Pusher, SyncPusher, Worker

pytestmark = real_time.MASTER

PAGE = "docs/web_servers.md"
MOUNTED_PORT = "9000"


def block_with(*texts: str) -> str:
    """Return the first block of the page that contains these texts."""
    return next(block for block in blocks(PAGE) if all(text in block for text in texts))


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
    page = imported(block_with(f"app = {framework}(", "worker.lifespan"))
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


async def test_a_page_polls_a_result_and_keeps_it(
    tmp_path: Path,
    imported: Callable[[str], types.ModuleType],
    url: str,
) -> None:
    """The result is there after each reload, also when the master has deleted it."""
    (tmp_path / "avatars.py").write_text(block_with('"avatar.crop"').replace(WRITTEN_URL, url))
    page = imported(block_with("from avatars import"))
    tasks = sys.modules.pop("avatars").tasks
    async with (
        served(page.app, free_port()) as address,
        httpx.AsyncClient(trust_env=False, base_url=address) as browser,
    ):
        job_id = (await browser.post("/avatars/7")).json()["job_id"]
        first = (await browser.get(f"/avatar-jobs/{job_id}")).json()
        assert first == {"state": "ready"}

        async def result() -> dict[str, Any]:
            answer: dict[str, Any] = (await browser.get(f"/avatar-jobs/{job_id}")).json()
            return answer if "state" not in answer else {}

        async with Worker(url, tasks=tasks).running():
            assert await wait_until(result) == {"result": {"user": 7, "size": 128}}
        with SyncPusher(url) as client:
            await asyncio.to_thread(client.result, job_id)
        assert await result() == {"result": {"user": 7, "size": 128}}
        unknown = "01900000-0000-7000-8000-000000000000"
        assert "does not exist" in (await browser.get(f"/avatar-jobs/{unknown}")).json()["error"]


async def test_the_mounted_worker_is_served_by_the_application(
    imported: Callable[[str], types.ModuleType], pusher: Pusher
) -> None:
    port = free_port()
    page = imported(block_with('app.mount("/jq"').replace(MOUNTED_PORT, str(port)))
    async with served(page.app, port):
        job_id = await pusher.enqueue("image.scale", {"width": 320}, keep_result=True)
        result = await pusher.result(job_id, wait=20)
        assert page.worker.address == f"http://127.0.0.1:{port}/jq"
    assert result is not None
    assert result.result == {"width": 320}
