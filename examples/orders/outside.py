"""The other systems, as one HTTP service: `python -m examples.orders.outside PORT`. It accepts orders, reserves stock
and ships, and fails in every way that such systems can fail.

    GET  /{step}/room       204, or 503 while too many orders are in progress
    POST /{step}            {order, callback_url} with an Idempotency-Key: 202 accepted, 4xx and 5xx with a code
    GET  /book              the work that was really done, and the deliberate faults
    PUT  /desk/{order}      {url}: puts a question for the clerk on the desk, with the address of its page
    GET  /desk              the questions that are on the desk, by order
    DELETE /desk/{order}    removes a question from the desk

A repeated key means the same order: it is processed once, and the answer goes to the new address.
"""

import argparse
import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

STEPS: Final = ("order", "stock", "shipping")
# One in this many orders can never be processed, however often the shop tries: the article does not exist, or the goods
# cannot be delivered.
NO_SUCH_ARTICLE_EACH, UNDELIVERABLE_EACH = 37, 41
# How long a callback is repeated while masters are down.
CALL_BACK_FOR_S: Final = 120.0


@dataclass(frozen=True)
class Faults:
    """The probability of each fault, from 0 to 1."""

    unavailable: float = 0.05
    conflict: float = 0.05
    slow: float = 0.03
    # The work is done, but the answer to the call is lost.
    answer_lost: float = 0.03
    # The work is done and its callback is sent, but the answer to the call is an error.
    error_though_done: float = 0.03
    callback_lost: float = 0.05
    callback_doubled: float = 0.10
    # The callback is sent before the call is answered.
    callback_early: float = 0.10

    def times(self, factor: float) -> "Faults":
        return Faults(**{name: min(1.0, value * factor) for name, value in vars(self).items()})


@dataclass
class Entry:
    """A line of the book: an order in one step, with one key."""

    step: str
    order: int
    key: str
    # `done`, or the error code of the permanent refusal.
    outcome: str
    calls: int = 0
    callbacks: Counter[str] = field(default_factory=Counter)


class Outside:
    """The systems and their book."""

    def __init__(self, faults: Faults, *, limit: int, work_s: float, slow_s: float, seed: int) -> None:
        self._faults = faults
        self._limit = limit
        self._work_s = work_s
        self._slow_s = slow_s
        self._random = random.Random(seed)
        self.book: dict[tuple[str, str], Entry] = {}
        self.desk: dict[int, str] = {}
        self.happened: Counter[str] = Counter()
        self._in_work: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(timeout=10.0, limits=limits, trust_env=False) as self._client:
            yield
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def app(self) -> Starlette:
        routes = [
            Route("/book", self._show),
            Route("/desk", self._questions),
            Route("/desk/{order:int}", self._ask, methods=["PUT"]),
            Route("/desk/{order:int}", self._clear, methods=["DELETE"]),
            Route("/{step}/room", self._room),
            Route("/{step}", self._take, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self.lifespan)

    async def _show(self, _: Request) -> Response:
        entries = [{**vars(entry), "callbacks": dict(entry.callbacks)} for entry in self.book.values()]
        return JSONResponse({"entries": entries, "happened": dict(self.happened)})

    async def _questions(self, _: Request) -> Response:
        return JSONResponse({"questions": {str(order): url for order, url in self.desk.items()}})

    async def _ask(self, request: Request) -> Response:
        self.desk[request.path_params["order"]] = (await request.json())["url"]
        self.happened["questions"] += 1
        return Response(status_code=204)

    async def _clear(self, request: Request) -> Response:
        # Remove the question only if it has this address: there may be a newer one about the same order.
        order = request.path_params["order"]
        if self.desk.get(order) == request.query_params["url"]:
            del self.desk[order]
        return Response(status_code=204)

    async def _room(self, request: Request) -> Response:
        if self._in_work[request.path_params["step"]] < self._limit:
            return Response(status_code=204)
        self.happened["full"] += 1
        return Response(status_code=503, headers={"Retry-After": "1"})

    async def _take(self, request: Request) -> Response:
        step, key = request.path_params["step"], request.headers["idempotency-key"]
        fields = await request.json()
        if self._happens("slow"):
            await asyncio.sleep(self._slow_s)
        for fault, status, code in (
            ("unavailable", 503, "TEMPORARY_UNAVAILABLE"),
            ("conflict", 409, "RESOURCE_CONFLICT"),
        ):
            if self._happens(fault):
                return _error(status, code)
        entry = self.book.get((step, key))
        if entry is None:
            entry = Entry(step, fields["order"], key, _outcome(step, fields["order"]))
            self.book[step, key] = entry
        entry.calls += 1
        if entry.outcome == "NO_SUCH_ARTICLE":
            # This order is refused at once, without a callback.
            return _error(422, entry.outcome)
        await self._begin(entry, fields["callback_url"])
        if self._happens("answer_lost"):
            return _Silence()
        if self._happens("error_though_done"):
            return _error(500, "TEMPORARY_UNAVAILABLE")
        return JSONResponse({"taken": True}, 202)

    async def _begin(self, entry: Entry, callback_url: str) -> None:
        """Do the work, and send the callback at its end."""
        if self._happens("callback_lost"):
            return
        body = {"order": entry.order, "step": entry.step}
        if entry.outcome == "done":
            body["receipt"] = f"{entry.step}-{entry.order}"
        else:
            body["error"] = entry.outcome
        if self._happens("callback_early"):
            # Send the callback before the answer, but give up soon: the master may be down.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self._call_back(entry, callback_url, body)
                    return
        self._in_work[entry.step] += 1

        async def work() -> None:
            try:
                await asyncio.sleep(self._random.expovariate(1 / self._work_s))
                await self._call_back(entry, callback_url, body)
            finally:
                self._in_work[entry.step] -= 1
            if self._happens("callback_doubled"):
                await self._call_back(entry, callback_url, body)

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call_back(self, entry: Entry, callback_url: str, body: dict[str, Any]) -> None:
        """Repeat the callback until a master accepts or refuses it."""
        assert self._client is not None
        end_s = asyncio.get_running_loop().time() + CALL_BACK_FOR_S
        while asyncio.get_running_loop().time() < end_s:
            with contextlib.suppress(httpx.HTTPError):
                status = (await self._client.post(callback_url, json=body)).status_code
                entry.callbacks[str(status)] += 1
                self.happened[f"callback {status}"] += 1
                if status < 500 and status != 429:
                    return
            await asyncio.sleep(self._random.uniform(0.2, 1.0))
        self.happened["callback given up"] += 1

    def _happens(self, fault: str) -> bool:
        happens = self._random.random() < getattr(self._faults, fault)
        self.happened[fault] += happens
        return happens


class _Silence(Response):
    """No answer: the connection is closed."""

    async def __call__(
        self,
        scope: object,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        # Send less than the stated length, so that no client accepts the response.
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"100")]})


def _outcome(step: str, order: int) -> str:
    if step == "stock" and order % NO_SUCH_ARTICLE_EACH == 0:
        return "NO_SUCH_ARTICLE"
    if step == "shipping" and order % UNDELIVERABLE_EACH == 0:
        return "UNDELIVERABLE"
    return "done"


def _error(status: int, code: str) -> Response:
    return JSONResponse({"code": code}, status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.orders.outside", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--faults", type=float, default=1.0, help="factor of all faults; 0: none")
    parser.add_argument("--limit", type=int, default=200, help="orders that a step processes at a time")
    parser.add_argument("--work", type=float, default=0.2, help="mean time until the callback, in seconds")
    parser.add_argument("--slow", type=float, default=3.0, help="time of a slow answer, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outside = Outside(
        Faults().times(options.faults),
        limit=options.limit,
        work_s=options.work,
        slow_s=options.slow,
        seed=options.seed,
    )
    uvicorn.run(outside.app(), host="127.0.0.1", port=options.port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
