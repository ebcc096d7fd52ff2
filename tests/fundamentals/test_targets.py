"""The endpoints of examples/targets do jobs of a real master."""

import asyncio
import base64
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from jqmaster.conformance.questions import QuestionOutcome
from jqmaster.conformance.target_kit import ask_target
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.ports import free_port
from tests.support.processes import ROOT
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("M13"), real_time.MASTER]

SECRET = "whsec_" + base64.b64encode(b"the secret of the examples, 32 b").decode()


@pytest.fixture
async def api(store_server: StoreServer) -> AsyncIterator[Api]:
    async with master_on(store_server.url, allowed_webhook_networks="127.0.0.0/8") as (_, one):
        yield one


@contextlib.asynccontextmanager
async def started(port: int, *command: str, **environment: str) -> AsyncIterator[None]:
    """Run a receiver until the end of the block."""
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={**os.environ, **environment})
    try:

        async def listens() -> bool:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return True
            return False

        await wait_until(listens, what="the receiver listens")
        yield
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def listening(*command: str, **environment: str) -> AsyncIterator[int]:
    """Run a program for each connection, as inetd does. Yield the port."""

    loop = asyncio.get_running_loop()
    processes: list[asyncio.subprocess.Process] = []
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        listener.setblocking(False)

        async def serve() -> None:
            while True:
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    connection.setblocking(True)
                    one = await asyncio.create_subprocess_exec(
                        *command,
                        cwd=ROOT,
                        env={**os.environ, **environment},
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                    )
                processes.append(one)

        serving = asyncio.create_task(serve())
        try:
            yield listener.getsockname()[1]
        finally:
            serving.cancel()
            await asyncio.gather(*(one.wait() for one in processes))


async def put(api: Api, **fields: Any) -> None:
    status, answer = await api.call("PUT", "/api/targets/example", fields)
    assert status == 201, answer


async def result(api: Api, job_id: str) -> Any:
    status, found = await api.call("GET", f"/api/jobs/{job_id}/result?wait=20")
    assert status == 200
    return found["result"]


async def test_a_web_application_does_its_own_jobs(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("JQMASTER_URL", str(api.http.base_url).rstrip("/"))
    from examples.targets import shop

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(shop.app, port=port, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve())
    try:
        await wait_until(lambda: server.started, what="the application serves")
        await put(api, names=["shop.*"], url=f"http://127.0.0.1:{port}/jobs/{{name}}", secret=SECRET)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as browser:
            order = (await browser.post("/orders")).json()
            assert await result(api, order["job"]) == {"order": order["order"], "to": "ada@shop.example"}
            assert (await browser.get(f"/orders/{order['order']}")).json() == {"state": "mailed"}
            assert (await browser.post("/jobs/shop.mail", json={"order": 1})).status_code == 401
        gone = await api.enqueue("shop.mail", {"order": 99})
        assert (await api.until_state(gone, "failed"))["attempts"][-1]["code"] == "status_404"
    finally:
        server.should_exit = True
        await serving


async def test_a_receiver_in_plain_python_answers_later(api: Api) -> None:
    port = free_port()
    async with started(port, sys.executable, "examples/targets/receiver.py", str(port)):
        await put(api, names=["film.cut"], url=f"http://127.0.0.1:{port}/")
        job_id = await api.enqueue("film.cut", {"minutes": 90}, keep_result=True)
        assert await result(api, job_id) == {"minutes": 90, "cut": True}
        assert (await api.job(job_id))["attempt"] == 1


@pytest.mark.req("J11")
async def test_the_receivers_pass_the_conformance_kit() -> None:
    kinds = {
        (sys.executable, "examples/targets/receiver.py"): ({"minutes": 1}, None),
        ("node", "examples/targets/receiver.mjs"): ({"id": 1}, SECRET),
    }
    for command, (argument, secret) in kinds.items():
        if shutil.which(command[0]) is None:
            continue
        port = free_port()
        async with started(port, *command, str(port), SECRET=SECRET, MAX_AT_ONCE="20"):
            results = await ask_target(
                f"http://127.0.0.1:{port}/", name="example", argument=argument, secret=secret
            )
        faults = {one.id: one.detail for one in results if one.outcome is QuestionOutcome.FAILED}
        assert faults == {}, command
        passed = {one.id for one in results if one.outcome is QuestionOutcome.PASSED}
        assert ("delivery.callback" in passed, "signature.old" in passed) == (
            secret is None,
            secret is not None,
        )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_a_receiver_in_node_checks_signatures_and_asks_for_time(api: Api) -> None:
    port = free_port()
    receiver = ("node", "examples/targets/receiver.mjs", str(port))
    async with started(port, *receiver, SECRET=SECRET, MAX_AT_ONCE="1"):
        await put(api, names=["photo.*"], url=f"http://127.0.0.1:{port}/{{name}}", secret=SECRET)
        job_ids = [
            await api.enqueue("photo.resize", {"id": n}, keep_result=True, max_retry=0) for n in range(1, 4)
        ]
        found = [await result(api, job_id) for job_id in job_ids]
        assert [one["id"] for one in found] == [1, 2, 3]
        bad = await api.enqueue("photo.resize", {})
        assert (await api.until_state(bad, "failed"))["attempts"][-1]["code"] == "status_422"
        async with httpx.AsyncClient(trust_env=False) as stranger:
            assert (await stranger.post(f"http://127.0.0.1:{port}/", json={})).status_code == 401


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("openssl")), reason="needs jq and openssl")
async def test_a_receiver_in_shell_checks_signatures_and_counts_words(api: Api) -> None:
    async with listening("examples/targets/receiver.sh", SECRET=SECRET) as port:
        await put(api, names=["text.*"], url=f"http://127.0.0.1:{port}/{{name}}", secret=SECRET)
        job_id = await api.enqueue("text.count", {"text": "Möwen\n fliegen  hoch"}, keep_result=True)
        found = await result(api, job_id)
        assert (found["words"], found["fence"] > 0) == (3, True)
        for argument in ({}, {"text": 7}):
            bad = await api.enqueue("text.count", argument)
            assert (await api.until_state(bad, "failed"))["attempts"][-1]["code"] == "status_422"
        async with httpx.AsyncClient(trust_env=False) as stranger:
            assert (await stranger.post(f"http://127.0.0.1:{port}/", json={})).status_code == 401


@pytest.mark.req("J11")
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("openssl")), reason="needs jq and openssl")
async def test_the_receiver_in_shell_passes_the_conformance_kit() -> None:
    async with listening("examples/targets/receiver.sh", SECRET=SECRET) as port:
        results = await ask_target(
            f"http://127.0.0.1:{port}/", name="text.count", argument={"text": "a b"}, secret=SECRET
        )
    assert {one.id: one.detail for one in results if one.outcome is QuestionOutcome.FAILED} == {}
