"""Ready-made conditions of `prepare`, against a real master and a real outside system."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from worker_sdk import (
    Callback,
    Context,
    Defer,
    DefinitionRan,
    HttpOk,
    JobIs,
    OutsideWork,
    OutstandingBelow,
    Pusher,
    Ready,
    RefusedError,
    SinceLastRun,
    Worker,
    ready_when,
)
from worker_sdk.testing import WorkerHarness

pytestmark = [real_time.MASTER, pytest.mark.req("P1")]


class Probed(BaseHTTPRequestHandler):
    """An outside system that is healthy or busy."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(type(self).status)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Log nothing."""


@pytest.fixture
def outside() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Probed)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    Probed.status = 200
    yield f"http://127.0.0.1:{server.server_port}/healthz"
    server.shutdown()
    thread.join()
    server.server_close()


async def answers(url: str, pusher: Pusher, *conditions: Any, blocks: bool = False) -> Ready | Defer:
    """Return the value that `ready_when` returns to a handler, in a thread or in the loop."""
    got: list[Any] = []
    worker = Worker(url)

    if blocks:

        @worker.handler("asks")
        def asks(_: Any, ctx: Context) -> None:
            got.append(ready_when(ctx, *conditions))
    else:

        @worker.handler("asks")
        async def asks_async(_: Any, ctx: Context) -> None:
            got.append(await ready_when(ctx, *conditions))

    async with worker.running():
        await pusher.enqueue("asks", max_retry=0)
        await wait_until(lambda: len(got) == 1, what="the handler asked")
    answer: Ready | Defer = got[0]
    return answer


def reason(answer: Ready | Defer) -> str:
    assert isinstance(answer, Defer)
    return answer.reason


@pytest.mark.parametrize("blocks", [False, True])
async def test_an_outside_system_is_probed(url: str, pusher: Pusher, outside: str, blocks: bool) -> None:
    assert isinstance(await answers(url, pusher, HttpOk(outside), blocks=blocks), Ready)
    Probed.status = 503
    answer = await answers(url, pusher, HttpOk(outside, after_s=2), blocks=blocks)
    assert isinstance(answer, Defer)
    assert (answer.retry_after_s, answer.reason) == (7.0, f"{outside}: answers 503")
    nobody = f"http://127.0.0.1:{free_port()}/"
    assert "refused" in reason(await answers(url, pusher, HttpOk(nobody), blocks=blocks))


async def test_a_server_that_does_not_speak_http_is_not_ready(url: str, pusher: Pusher) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "hello" in reason(await answers(url, pusher, HttpOk(f"http://127.0.0.1:{port}/")))


@pytest.mark.parametrize("blocks", [False, True])
async def test_another_job_is_waited_for(url: str, pusher: Pusher, blocks: bool) -> None:
    other = await pusher.enqueue("other", delay=3600)
    assert reason(await answers(url, pusher, JobIs(other), blocks=blocks)) == (
        f"job {other} is scheduled, and not succeeded"
    )
    assert isinstance(await answers(url, pusher, JobIs(other, "scheduled"), blocks=blocks), Ready)
    unknown = "01989fa2-0000-7000-8000-000000000000"
    assert "is unknown" in reason(await answers(url, pusher, JobIs(unknown), blocks=blocks))


async def test_a_key_rests_after_its_last_run(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("sync")
    async def sync(_: Any) -> None:
        """Do nothing."""

    assert isinstance(await answers(url, pusher, SinceLastRun("sync", 60)), Ready)
    async with worker.running():
        job_id = await pusher.enqueue("sync", tags=["shop-1"])

        async def is_over() -> bool:
            return (await pusher.status(job_id))["state"] == "succeeded"

        await wait_until(is_over, what="the job is over")
    answer = await answers(url, pusher, SinceLastRun("sync", 60, tag="shop-1"))
    assert isinstance(answer, Defer)
    assert 0 < answer.retry_after_s <= 60
    assert answer.reason == "sync with the tag shop-1 ran less than 60 s ago"
    assert reason(await answers(url, pusher, SinceLastRun("sync", 60))) == "sync ran less than 60 s ago"
    assert isinstance(await answers(url, pusher, SinceLastRun("sync", 60, tag="shop-2")), Ready)


async def test_outstanding_challenges_are_counted(url: str, pusher: Pusher) -> None:
    class Order(OutsideWork):
        name = "order"

        async def challenge(self, argument: Any, ctx: Context) -> None:
            await ctx.open_challenge()

    worker = Worker(url)
    worker.outside(Order())
    assert isinstance(await answers(url, pusher, OutstandingBelow("order", 2)), Ready)
    async with worker.running():
        jobs = [await pusher.enqueue("order") for _ in range(2)]

        async def all_wait() -> bool:
            return {(await pusher.status(job))["state"] for job in jobs} == {"awaiting_callback"}

        await wait_until(all_wait, what="both await their callbacks")
    assert isinstance(await answers(url, pusher, OutstandingBelow("order", 3)), Ready)
    assert reason(await answers(url, pusher, OutstandingBelow("order", 2))) == (
        "2 jobs order already await callbacks"
    )


async def test_a_definition_must_have_run(url: str, pusher: Pusher) -> None:
    definition = {"kind": "time", "schedule": {"hourly_at": 0}, "job": {"name": "nightly"}}
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        assert (await client.put("/api/definitions/nightly", json=definition)).is_success
        never = await answers(url, pusher, DefinitionRan("nightly"))
        assert reason(never) == "definition nightly has started no job yet"
        assert (await client.post("/api/definitions/nightly/run", json={})).is_success
        waits = await answers(url, pusher, DefinitionRan("nightly", within_s=3600))
        assert reason(waits) == "the last job of definition nightly is ready"
        worker = Worker(url)

        @worker.handler("nightly")
        async def nightly(_: Any) -> None:
            """Do nothing."""

        async with worker.running():

            async def is_over() -> bool:
                page = (await client.get("/api/definitions/nightly/runs")).json()
                return bool(page["runs"][0]["job_state"] == "succeeded")

            await wait_until(is_over, what="its job is over")
    assert isinstance(await answers(url, pusher, DefinitionRan("nightly", within_s=3600)), Ready)
    assert "within 0 s" in reason(await answers(url, pusher, DefinitionRan("nightly", within_s=0)))


async def test_a_definition_that_does_not_exist_is_a_mistake(url: str, pusher: Pusher) -> None:
    raised: list[RefusedError] = []
    worker = Worker(url)

    @worker.handler("asks")
    async def asks(_: Any, ctx: Context) -> None:
        try:
            await ready_when(ctx, DefinitionRan("no-such"))
        except RefusedError as error:
            raised.append(error)

    async with worker.running():
        await pusher.enqueue("asks")
        await wait_until(lambda: len(raised) == 1, what="it is refused")
    assert raised[0].status == 404


def test_values_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="http:// or https://"):
        HttpOk("file:///etc/passwd")
    with pytest.raises(ValueError, match="1 to 100"):
        OutstandingBelow("order", 0)


class Careful(OutsideWork):
    """Work that starts when two conditions hold."""

    name = "careful"

    def prepare(self, argument: Any, ctx: Context) -> Any:
        return ready_when(ctx, HttpOk("http://shop.example/healthz"), SinceLastRun("careful", 60))

    def challenge(self, argument: Any, ctx: Context) -> Any:
        ctx.open_challenge()

    def on_callback(self, callback: Callback, ctx: Context) -> Any:
        return callback.json()


class CarefulInTheLoop(Careful):
    async def prepare(self, argument: Any, ctx: Context) -> Any:
        return await ready_when(ctx, HttpOk("http://shop.example/healthz"), SinceLastRun("careful", 60))

    async def challenge(self, argument: Any, ctx: Context) -> Any:
        await ctx.open_challenge()


@pytest.mark.parametrize("work", [Careful(), CarefulInTheLoop()])
async def test_the_test_kit_asks_nobody_and_says_what_is_not_met(work: OutsideWork) -> None:
    worker = Worker("http://127.0.0.1:1")
    worker.outside(work)
    harness = WorkerHarness(worker)
    assert (await harness.run("careful")).type == "challenged"
    harness.unmet = [SinceLastRun("careful", 60)]
    ending = await harness.run("careful")
    assert ending.type == "deferred"
    assert "SinceLastRun" in ending.fields["not_ready"]["reason"]
    assert timedelta(seconds=ending.fields["retry_after"]) == timedelta(seconds=1)
