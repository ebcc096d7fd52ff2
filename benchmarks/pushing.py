"""Generate the load in a separate process: `python -m benchmarks.pushing ORDER`. ORDER is JSON. At the end, the process
prints its report as JSON.

A minimal HTTP client sends single POSTs. It takes a small part of the time that the master takes, so the figures are
those of the master. Bulks and results go through the SDK, as in applications.
"""

import asyncio
import gc
import json
import os
import random
import re
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgpack
import uuid_utils
import uvloop

from benchmarks.tasks import noop_task
from worker_sdk import Pusher

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})[^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)
_LENGTH: Final = re.compile(rb"(?i)content-length: *(\d+)")
_RETRY_AFTER: Final = re.compile(rb"(?i)retry-after: *(\d+)")
Told = dict[str, Any]
WARM_UP: Final = 20


def argument_of(size: int) -> str:
    """Return a text that has `size` bytes as MessagePack."""
    head = 2 if size <= 257 else 3 if size <= 65_538 else 5
    return "x" * max(0, size - head)


class Connection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, float]] | None = None
        self._received = b""
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = _STATUS.match(self._received)
        if head is None or self._answer is None or self._answer.done():
            return
        fields = head.group(2)
        length = _LENGTH.search(fields)
        if len(self._received) - head.end() < (int(length.group(1)) if length else 0):
            return
        self._received = b""
        asked = _RETRY_AFTER.search(fields)
        self._answer.set_result((int(head.group(1)), float(asked.group(1)) if asked else 0.0))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((0, 0.0))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def send(self, request: bytes) -> tuple[int, float]:
        """Send a request. Return the status of the answer and the seconds of its Retry-After. Status 0: no answer
        came."""
        assert self._transport
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer


class Requests:
    """Makes POST requests of `jobs` jobs each. Every job has an ID of its own, as in requests of the SDK."""

    _PATHS = ("/api/jobs", "/api/jobs/bulk")
    _LIST = "jobs"

    def __init__(self, url: str, *, name: str, argument: Any, jobs: int = 1) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self.host, self.port = parts.hostname, parts.port
        body = msgpack.packb(self._item(name, argument, "0" * 36))
        self._before = body[:-36]
        self._jobs = jobs
        self._list = msgpack.packb({self._LIST: [None] * jobs})[:-jobs] if jobs > 1 else b""
        length = len(self._list) + len(body) * jobs
        path = self._PATHS[jobs > 1]
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/msgpack\r\n"
            f"Accept: application/msgpack\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _item(self, name: str, argument: Any, own_id: str) -> dict[str, Any]:
        """Return one item of a request. Its last field must be the ID."""
        return {"name": name, "argument": argument, "id": own_id}

    def one(self) -> bytes:
        if self._jobs == 1:
            return b"".join((self._head, self._before, str(uuid_utils.uuid7()).encode()))
        jobs = [self._before + str(uuid_utils.uuid7()).encode() for _ in range(self._jobs)]
        return b"".join((self._head, self._list, *jobs))

    async def connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        return connection


class UniqueRequests(Requests):
    """Makes POST requests of jobs with different uniqueness keys."""

    def _item(self, name: str, argument: Any, own_id: str) -> dict[str, Any]:
        return {"name": name, "argument": argument, "unique": {"key": own_id}}


class EventRequests(Requests):
    """Makes POST requests of one event or several events each."""

    _PATHS = ("/api/events", "/api/events")
    _LIST = "events"

    def _item(self, name: str, argument: Any, own_id: str) -> dict[str, Any]:
        return {"event_type": name, "payload": argument, "dedupe_key": own_id}


class GatewayRequests(Requests):
    """Makes POST requests to the Fireworq gateway below `/fireworq`, of one job each. `name`: the category. `argument`:
    the URL to which the job is sent."""

    def __init__(self, url: str, *, name: str, argument: Any, jobs: int = 1) -> None:
        super().__init__(url, name=name, argument=argument, jobs=jobs)
        body = json.dumps({"url": argument, "payload": {"order": 42}}).encode()
        self._request = (
            f"POST /fireworq/job/{name} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def one(self) -> bytes:
        return self._request


async def events(
    urls: list[str],
    *,
    count: int,
    connections: int,
    argument_bytes: int,
    types: int,
    batch: int,
    rate: float = 0.0,
) -> Told:
    """Send `count` events. `types`: the number of event types, which take turns. `batch`: the number of events in one
    POST. `rate`: events a second. 0: as many as possible."""
    payload = {"n": 7, "x": argument_of(argument_bytes)}
    requests = [
        EventRequests(urls[n % len(urls)], name=f"type.{n}", argument=payload, jobs=batch)
        for n in range(types)
    ]
    open_ones = [await requests[n % len(urls)].connect() for n in range(connections)]
    left = iter(range(count // batch))
    waits: list[float] = []
    began = time.perf_counter()

    async def push(connection: Connection) -> None:
        for n in left:
            if rate:
                await asyncio.sleep(max(0.0, began + n * batch / rate - time.perf_counter()))
            sent = time.perf_counter()
            status, _ = await connection.send(requests[n % types].one())
            waits.append(time.perf_counter() - sent)
            if status != 202:
                raise SystemExit(f"answered {status}")

    await asyncio.gather(*map(push, open_ones))
    seconds = time.perf_counter() - began
    for connection in open_ones:
        connection.close()
    return {"seconds": seconds, "waits_ms": _quantiles(waits)}


async def single(
    urls: list[str],
    *,
    count: int,
    connections: int,
    argument_bytes: int,
    name: str = "noop",
    batch: int = 1,
    is_unique: bool = False,
) -> Told:
    """Send `count` jobs in POSTs of `batch` jobs. Each connection sends one POST after another."""
    kind = UniqueRequests if is_unique else Requests
    all_requests = [kind(url, name=name, argument=argument_of(argument_bytes), jobs=batch) for url in urls]
    return await _all_sent(all_requests, count=count, connections=connections, expected=201)


async def gateway(
    urls: list[str], *, count: int, connections: int, category: str, job_url: str, within_s: float
) -> Told:
    """Send `count` POSTs to the Fireworq gateway. Raise TimeoutError after `within_s`."""
    all_requests = [GatewayRequests(url, name=category, argument=job_url) for url in urls]
    async with asyncio.timeout(within_s):
        return await _all_sent(all_requests, count=count, connections=connections, expected=200)


async def _all_sent(all_requests: Sequence[Requests], *, count: int, connections: int, expected: int) -> Told:
    open_ones = [await all_requests[n % len(all_requests)].connect() for n in range(connections)]
    left = iter(range(count))
    waits: list[float] = []

    async def push(number: int) -> None:
        requests, connection = all_requests[number % len(all_requests)], open_ones[number]
        for _ in left:
            began = time.perf_counter()
            status, _ = await connection.send(requests.one())
            waits.append(time.perf_counter() - began)
            if status != expected:
                raise SystemExit(f"answered {status}")

    began = time.perf_counter()
    await asyncio.gather(*(push(number) for number in range(connections)))
    seconds = time.perf_counter() - began
    for connection in open_ones:
        connection.close()
    return {"seconds": seconds, "waits_ms": _quantiles(waits)}


async def single_by_sdk(urls: list[str], *, count: int, connections: int, argument_bytes: int) -> Told:
    """Push single jobs like `single`, but with the SDK's `Pusher`."""
    argument = argument_of(argument_bytes)
    left = iter(range(count))
    waits: list[float] = []
    async with Pusher(urls, max_wait_s=60) as pusher:

        async def push() -> None:
            for _ in left:
                began = time.perf_counter()
                await pusher.enqueue("noop", argument)
                waits.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(push() for _ in range(connections)))
        return {"seconds": time.perf_counter() - began, "waits_ms": _quantiles(waits)}


async def bulk(
    urls: list[str],
    *,
    count: int,
    argument_bytes: int,
    keys: int = 0,
    name: str = "noop",
    pushers: int = 1,
    batch: str = "",
) -> Told:
    """Push with `Pusher.enqueue_many`. `keys`: if given, the argument is a map with a member `k`, which has one of this
    many values. `batch`: the ID of the batch for all jobs."""
    text = argument_of(argument_bytes)
    options = {"batch": batch} if batch else {}

    def jobs(part: int) -> Iterator[Any]:
        numbers = range(part, count, pushers)
        if name == noop_task.name:
            return (noop_task.to_job(n % max(1, keys), text) for n in numbers)
        if keys:
            return ({"name": name, "argument": {"k": n % keys, "x": text}, **options} for n in numbers)
        return ({"name": name, "argument": text, **options} for n in numbers)

    async with Pusher(urls, max_wait_s=60) as pusher:
        began = time.perf_counter()
        await asyncio.gather(*(pusher.enqueue_many(jobs(part)) for part in range(pushers)))
        return {"seconds": time.perf_counter() - began}


async def latency(urls: list[str], *, rate: float, count: int, waits_file: str, delay_s: float = 0.0) -> Told:
    """Push jobs at a steady rate, and measure the time to the start of the handler. The time counts from the push or,
    for a delayed job, from the time at which it is due. The handlers note it in `waits_file`."""
    options: Any = {"delay": delay_s} if delay_s else {}
    async with Pusher(urls, max_wait_s=60) as pusher:

        async def one() -> None:
            await pusher.enqueue("latency", time.clock_gettime(time.CLOCK_MONOTONIC) + delay_s, **options)

        await asyncio.gather(*(one() for _ in range(WARM_UP)))
        await _noted(waits_file, WARM_UP, delay_s)
        began, tasks = time.perf_counter(), []
        for n in range(count):
            await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(one()))
        await asyncio.gather(*tasks)
        waits = await _noted(waits_file, WARM_UP + count, delay_s)
        return {"seconds": time.perf_counter() - began, "waits_ms": _quantiles(waits[WARM_UP:])}


async def _noted(path: str, count: int, delay_s: float) -> list[float]:
    """Wait until handlers have noted `count` waits, and return the waits in seconds."""
    async with asyncio.timeout(60 + delay_s):
        while not (os.path.exists(path) and os.path.getsize(path) >= count * 8):
            await asyncio.sleep(0.05)
    with open(path, "rb") as file:
        return [wait for (wait,) in struct.iter_unpack("d", file.read())]


async def storm(
    urls: list[str],
    *,
    seconds: float,
    connections: int,
    rate: float,
    argument_bytes: int,
    obeys: bool = True,
    jobs: int = 1,
) -> Told:
    """For `seconds`, send up to `rate` POSTs of `jobs` jobs a second. The connections take turns. `obeys`: whether a
    connection that gets a Retry-After waits as long as it says. Count the answers by status, and requests without an
    answer."""
    argument = argument_of(argument_bytes)
    all_requests = [Requests(url, name="noop", argument=argument, jobs=jobs) for url in urls]
    answers: Counter[int] = Counter()
    waits: list[float] = []
    began = time.perf_counter()
    end = began + seconds

    async def push(number: int) -> None:
        requests = all_requests[number % len(urls)]
        connection = await requests.connect()
        every_s = connections / rate
        due = began + random.uniform(0, every_s)
        while (now := time.perf_counter()) < end:
            if due > now:
                await asyncio.sleep(min(due, end) - now)
                continue
            due = max(due + every_s, now - 1.0)  # after a delay, make up for at most one second
            if not connection.is_open:
                try:
                    connection = await requests.connect()
                except OSError:
                    answers[0] += 1
                    await asyncio.sleep(0.5)
                    continue
            sent = time.perf_counter()
            status, retry_after_s = await connection.send(requests.one())
            answers[status] += 1
            waits.append(time.perf_counter() - sent)
            if retry_after_s and obeys:
                await asyncio.sleep(retry_after_s * random.uniform(1, 1.5))
        connection.close()

    await asyncio.gather(*(push(number) for number in range(connections)))
    return {
        "seconds": time.perf_counter() - began,
        "waits_ms": _quantiles(waits),
        "answers": {str(status): times for status, times in sorted(answers.items())},
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    """Return the median, the quantile 0.99 and the maximum, in ms."""
    if not seconds:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    seconds.sort()

    def at(share: float) -> float:
        return seconds[min(len(seconds) - 1, int(len(seconds) * share))] * 1000

    return {"p50": at(0.5), "p99": at(0.99), "max": seconds[-1] * 1000}


KINDS: Final[dict[str, Callable[..., Coroutine[Any, Any, dict[str, Any]]]]] = {
    "single": single,
    "single_by_sdk": single_by_sdk,
    "gateway": gateway,
    "bulk": bulk,
    "events": events,
    "latency": latency,
    "storm": storm,
}


def main() -> None:
    order = json.loads(sys.argv[1])
    kind, urls = order.pop("kind"), order.pop("urls")
    gc.freeze()
    before, began_s = os.times(), time.monotonic()
    told = uvloop.run(KINDS[kind](urls, **order))
    after = os.times()
    # Report only the CPU time of the load, without that of the imports.
    told["cpu_s"] = after.user + after.system - before.user - before.system
    told["began_s"] = began_s
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
