"""Headers of HTTP APIs as limits of constraints."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from worker_sdk import ApiLimits, Context, Room, Tasks
from worker_sdk.api_limits import duration_s, rooms_in
from worker_sdk.testing import drain

pytestmark = pytest.mark.req("D30")

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12),
        (" 0.5 ", 0.5),
        ("-3", 0),
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("1d", 86_400),
        ("250us", 0.00025),
        (str(int(NOW.timestamp()) + 30), 30),
        ("2026-11-28T12:00:30Z", 30),
        ("2026-11-28T12:00:30", 30),
        ("Sat, 28 Nov 2026 12:01:00 GMT", 60),
        ("Sat, 28 Nov 2026 11:00:00 GMT", 0),
        ("", None),
        ("soon", None),
        ("6m later", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_durations_and_instants(text: str, seconds: float | None) -> None:
    assert duration_s(text, NOW) == (None if seconds is None else pytest.approx(seconds))


def requests(remaining: float, resets_s: float) -> Room:
    return Room("requests", remaining, resets_s)


def tokens(remaining: float, resets_s: float) -> Room:
    return Room("tokens", remaining, resets_s)


@pytest.mark.parametrize(
    ("headers", "status", "rooms"),
    [
        ({}, 200, []),
        ({"Retry-After": "3"}, 200, []),
        ({"Retry-After": "3"}, 429, [requests(0, 3), tokens(0, 3)]),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 503, [requests(0, 1.5), tokens(0, 1.5)]),
        ({"Retry-After": "soon"}, 429, []),
        (
            {"RateLimit-Limit": "100", "RateLimit-Remaining": "41", "RateLimit-Reset": "12"},
            200,
            [requests(41, 12)],
        ),
        ({"RateLimit": "limit=100, remaining=50, reset=30"}, 200, [requests(50, 30)]),
        ({"RateLimit": '"default";r=50;t=30'}, 200, [requests(50, 30)]),
        ({"RateLimit": '"hour";r=900;t=3000, "minute";r=5;t=20'}, 200, [requests(5, 20)]),
        (
            {"RateLimit": '"tokens";r=5000;t=20, "requests";r=9;t=20'},
            200,
            [tokens(5000, 20), requests(9, 20)],
        ),
        ({"RateLimit": '"default";r=50'}, 200, []),
        (
            {
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            200,
            [requests(59, 1), tokens(149_984, 360)],
        ),
        ({"x-ratelimit-remaining-tokens": "7"}, 200, []),
        ({"x-ratelimit-remaining": "many", "x-ratelimit-reset": "1"}, 200, []),
        ({"x-ratelimit-remaining": "nan", "x-ratelimit-reset": "1"}, 200, []),
        # The narrower of two statements counts.
        (
            {"Retry-After": "9", "x-ratelimit-remaining-requests": "4", "x-ratelimit-reset-requests": "20ms"},
            429,
            [requests(0, 9), tokens(0, 9)],
        ),
    ],
)
def test_headers_of_apis(headers: dict[str, str], status: int, rooms: list[Room]) -> None:
    assert rooms_in(headers, status) == rooms


def answers(request: httpx.Request) -> httpx.Response:
    headers = {
        "x-ratelimit-remaining-tokens": "41000",
        "x-ratelimit-reset-tokens": "6m0s",
        "RateLimit": '"a";r=1;t=2',
    }
    return httpx.Response(200, headers=headers)


TOLD = [("model", "acme", 1, 2), ("model-tokens", "acme", 41_000, 360)]


@pytest.mark.parametrize("kind", ["sync", "async", "of the job", "of the async job"])
def test_hooks_of_http_clients_tell_what_answers_say(kind: str) -> None:
    limits = ApiLimits(requests="model", tokens="model-tokens", value="acme")
    transport = httpx.MockTransport(answers)
    tasks = Tasks()

    def ask_sync(ctx: Context) -> None:
        hook = limits.hook if kind == "sync" else limits.hooks_of(ctx)[0]
        with httpx.Client(transport=transport, event_hooks={"response": [hook]}) as client:
            client.get("http://model.test/")

    async def ask_async(ctx: Context) -> None:
        hook = limits.async_hook if kind == "async" else limits.hooks_of(ctx)[1]
        async with httpx.AsyncClient(transport=transport, event_hooks={"response": [hook]}) as client:
            await client.get("http://model.test/")

    ask: Any = tasks.task("ask")(ask_async if "async" in kind else ask_sync)
    [run] = drain([ask.to_job()])
    assert run.state == "succeeded", run.exception
    assert sorted((one.constraint, one.value, one.remaining, one.resets_s) for one in run.observed) == TOLD


def test_outside_of_a_job_and_for_limits_without_a_constraint_nothing_is_told() -> None:
    limits = ApiLimits(requests="model")
    limits.hook(httpx.Response(429, headers={"Retry-After": "3"}))
    tasks = Tasks()

    @tasks.task("ask")
    def ask(ctx: Context) -> int:
        return len(limits.observe(ctx, {"Retry-After": "3"}, 429))

    [run] = drain([ask.to_job()])
    assert run.result == 2
    assert [one.constraint for one in run.observed] == ["model"]
