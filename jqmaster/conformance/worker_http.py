"""Questions about the HTTP server of a worker, independent of single calls (docs/worker_protocol.md, sections 2
and 3)."""

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from jqmaster.conformance.questions import FailedError, Questions, WorkerMode, expect, remains
from jqmaster.conformance.raw_http import Connection, call
from jqmaster.conformance.wire import MSGPACK, encode
from jqmaster.conformance.worker_under_test import WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("http", WorkerMode.PUSH)


@TOPIC.question("ping", "GET /ping is answered 204, unsigned")
async def _(worker: WorkerUnderTest) -> None:
    answer = await call("GET", f"{worker.url}/ping")
    expect((answer.status, answer.body) == (204, b""), f"answered {answer.status}")


@TOPIC.question("unknown_path", "other paths are answered 404 or 401, with an empty body")
async def _(worker: WorkerUnderTest) -> None:
    for path in ("/", "/nothing", "/jobs/", "/jobs/x", "/status/x"):
        answer = await call("GET", worker.url + path)
        expect(answer.status in (401, 404, 405), f"{path} was answered {answer.status}")
        expect(answer.body == b"", f"{path} was answered with a body")


@TOPIC.question("other_method", "another method is answered 404 or 405, with an empty body")
async def _(worker: WorkerUnderTest) -> None:
    for method, path in (("GET", "/jobs"), ("PUT", "/jobs"), ("POST", "/ping"), ("DELETE", "/status")):
        answer = await call(method, worker.url + path)
        expect(answer.status in (401, 404, 405), f"{method} {path} was answered {answer.status}")
        expect(answer.body == b"", f"{method} {path} was answered with a body")


@TOPIC.question("keep_alive", "several calls are served on one connection")
async def _(worker: WorkerUnderTest) -> None:
    connection = await Connection.open(worker.url)
    prefix = urlsplit(worker.url).path
    try:
        async with asyncio.timeout(10):
            for _ in range(3):
                body = encode({"epoch": worker.master.epoch}, MSGPACK)
                fields = {"Content-Type": MSGPACK, **worker.headers("POST", "/resume", body)}
                await connection.send(connection.head("POST", f"{prefix}/resume", fields, len(body)) + body)
                answer = await connection.answer()
                expect(answer.status == 200, f"answered {answer.status}")
                expect(
                    "content-length" in answer.fields or "transfer-encoding" in answer.fields,
                    "the answer has no length",
                )
    finally:
        await connection.close()


@TOPIC.question("pieces", "a request that arrives in pieces is read completely")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(argument="x" * 5000)
    body = worker.body_of(job)
    connection = await Connection.open(worker.url)
    fields = {"Content-Type": MSGPACK, **worker.headers("POST", "/jobs", body)}
    data = connection.head("POST", urlsplit(worker.url).path + "/jobs", fields, len(body)) + body
    try:
        async with asyncio.timeout(10):
            for start in range(0, len(data), 997):
                await connection.send(data[start : start + 997])
                await asyncio.sleep(0.01)
            answer = await connection.answer()
    finally:
        await connection.close()
    expect(answer.status == 200, f"answered {answer.status}")
    await worker.result_of(job)


@TOPIC.question("cut_off", "a push with a body that is cut off starts nothing")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job()
    body = worker.body_of(job)
    connection = await Connection.open(worker.url)
    fields = {"Content-Type": MSGPACK, **worker.headers("POST", "/jobs", body)}
    await connection.send(
        connection.head("POST", urlsplit(worker.url).path + "/jobs", fields, len(body)) + body[:-1]
    )
    await asyncio.sleep(0.1)
    await connection.close()
    await remains(lambda: not worker.was_accepted(job), "the job was started", 2 * worker.beat_s)


@TOPIC.question("slow_client", "a client that never completes its request does not delay other clients")
async def _(worker: WorkerUnderTest) -> None:
    slow = [await Connection.open(worker.url) for _ in range(8)]
    try:
        for connection in slow:
            await connection.send(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
        answer = await worker.send("GET", "/status")
        expect(answer.status == 200, f"answered {answer.status}")
    finally:
        for connection in slow:
            await connection.close()


@TOPIC.question(
    "huge",
    "a body of a gigabyte is refused before it is read: with 413, with 401 if it is unsigned, or by closing "
    "the connection",
)
async def _(worker: WorkerUnderTest) -> None:
    connection = await Connection.open(worker.url)
    fields = {"Content-Type": MSGPACK, **worker.headers("POST", "/jobs", b"")}
    await connection.send(connection.head("POST", urlsplit(worker.url).path + "/jobs", fields, 2**30))
    try:
        async with asyncio.timeout(5):
            answer = await connection.answer()
        expect(answer.status in (401, 413), f"answered {answer.status}")
    except TimeoutError:
        raise FailedError("the head alone was not answered within 5 s") from None
    except (EOFError, OSError):
        pass  # a closed connection refuses the body, too
    finally:
        await connection.close()


@TOPIC.question("broken_body", "with a valid signature, a body that is not MessagePack is answered 400")
async def _(worker: WorkerUnderTest) -> None:
    for body in (b"\xc1", b"\x81\xa1", b""):
        answer = await worker.send("POST", "/jobs", body)
        expect(answer.status == 400, f"{body!r} was answered {answer.status}")


@TOPIC.question("no_map", "with a valid signature, a body that is not a map is answered 422")
async def _(worker: WorkerUnderTest) -> None:
    values: tuple[Any, ...] = (None, [], 1, "jobs")
    for value in values:
        answer = await worker.send("POST", "/jobs", encode(value, MSGPACK))
        expect(answer.status == 422, f"{value!r} was answered {answer.status}")


@TOPIC.question("other_type", "a body of another content type is answered 415, and nothing starts")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job()
    body = worker.body_of(job)
    for kind in ("application/json", "text/plain", ""):
        fields = worker.headers("POST", "/jobs", body)
        answer = await worker.send("POST", "/jobs", body, fields=fields, content_type=kind)
        expect(answer.status == 415, f"{kind!r} was answered {answer.status}")
    await remains(lambda: not worker.was_accepted(job), "the job was started", 2 * worker.beat_s)
