"""A stand-in for a model's API: `python -m examples.llm.model PORT`. It admits limited numbers of requests and of
tokens in any window, and answers 429 to other requests.

    POST /v1/summaries      {tenant, text, max_tokens, number}: 200 {summary, usage}, or 429 with Retry-After
    GET  /book              the admitted and refused requests
"""

import argparse
import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

# The factors between the estimated and the used tokens of requests. An estimate is wrong by up to half, and right on
# average.
ERRORS: Final = (0.5, 1.25, 0.75, 1.5, 1.0)


@dataclass
class Model:
    """The limits of the API and the requests that it has admitted. `clock`: returns seconds."""

    requests: int
    tokens: int
    window_s: float
    clock: Callable[[], float] = time.monotonic
    refused: int = 0
    admitted: int = 0
    used: Counter[str] = field(default_factory=Counter)
    _window: deque[tuple[float, int]] = field(default_factory=deque)
    _in_window: int = 0

    def ask(self, tenant: str, max_tokens: int, number: int) -> tuple[int, dict[str, str], int]:
        """Return the status and headers of the answer to a request, and the tokens that it used. `number`: number of
        the request, counted for each tenant. It determines the error of the estimate."""
        now_s = self.clock()
        while self._window and self._window[0][0] <= now_s - self.window_s:
            self._in_window -= self._window.popleft()[1]
        used = round(max_tokens * ERRORS[number % len(ERRORS)])
        fits = len(self._window) < self.requests and self._in_window + used <= self.tokens
        if fits:
            self._window.append((now_s, used))
            self._in_window += used
            self.admitted += 1
            self.used[tenant] += used
        else:
            self.refused += 1
        return (200 if fits else 429), self._headers(now_s, is_refused=not fits), used if fits else 0

    def _headers(self, now_s: float, *, is_refused: bool) -> dict[str, str]:
        reset_s = self._window[0][0] + self.window_s - now_s if self._window else 0.0
        return {
            "x-ratelimit-remaining-requests": str(self.requests - len(self._window)),
            "x-ratelimit-reset-requests": f"{reset_s * 1000:.0f}ms",
            "x-ratelimit-remaining-tokens": str(self.tokens - self._in_window),
            "x-ratelimit-reset-tokens": f"{reset_s * 1000:.0f}ms",
            **({"retry-after": f"{reset_s:.3f}"} if is_refused else {}),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.llm.model", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--window", type=float, required=True)
    options = parser.parse_args()
    import uvicorn

    model = Model(options.requests, options.tokens, options.window)
    uvicorn.run(app_of(model), host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


def app_of(model: Model) -> Any:
    """Return the application that serves the model."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def summarize(request: Request) -> JSONResponse:
        asked = await request.json()
        status, headers, used = model.ask(asked["tenant"], asked["max_tokens"], asked["number"])
        if status == 429:
            return JSONResponse({"error": "too many requests or tokens"}, 429, headers)
        # Take longer for more tokens, as a model does.
        await asyncio.sleep(used / 5000)
        return JSONResponse({"summary": asked["text"][:20], "usage": {"total_tokens": used}}, headers=headers)

    async def book(request: Request) -> JSONResponse:
        return JSONResponse({"admitted": model.admitted, "refused": model.refused, "used": model.used})

    return Starlette(routes=[Route("/v1/summaries", summarize, methods=["POST"]), Route("/book", book)])


if __name__ == "__main__":
    main()
