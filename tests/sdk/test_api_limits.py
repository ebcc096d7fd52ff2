"""Headers of HTTP APIs as limits of constraints."""

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_sdk import ApiLimits, Context, Room, Tasks
from worker_sdk.api_limits import duration_s, rooms_in
from worker_sdk.testing import drain
from worker_sdk.worker.observations import MAX_RESET_S, checked_observation

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
        ("1e999", None),
        ("9" * 400, None),
        # Instants in milliseconds, microseconds and nanoseconds since 1970.
        (str(int(NOW.timestamp() * 1000) + 1500), 1.5),
        (str(int(NOW.timestamp() * 1_000_000) + 2_000_000), 2),
        (str(int(NOW.timestamp()) * 1_000_000_000), 0),
        ("-1m5.5s", 0),
        ("12\u03bcs", 0.000012),
        ("2026-11-28 12:00:30", 30),
        ("2026-11-28T13:00:30+01:00", 30),
        ("Sat, 28 Nov 99999 12:01:00 GMT", None),
        ("Sat, 99 Nov 2026 12:01:00 GMT", None),
        ("0001-01-01T00:00:00+14:00", 0),
        (", , ,", None),
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
        # A rest of more than a constraint can count limits nothing.
        (
            {"x-ratelimit-remaining-tokens": "150000000000", "x-ratelimit-reset-tokens": "1s"},
            200,
            [tokens(1_000_000_000, 1)],
        ),
        ({"RateLimit": f'"default";r={"9" * 400};t=30'}, 200, [requests(1_000_000_000, 30)]),
        ({"RateLimit": f'"default";r=3;t={"9" * 400}'}, 200, []),
        ({"x-ratelimit-remaining": "-5", "x-ratelimit-reset": "30"}, 200, [requests(0, 30)]),
        # Azure does not know.
        ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "0"}, 200, []),
        ({"x-ratelimit-remaining-tokens": "7", "x-rate-limit-reset-tokens": "55"}, 200, [tokens(7, 55)]),
        # Nobody stops a queue for years by a header that is misread.
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "999999999"}, 200, []),
        ({"Retry-After": "Sat, 28 Nov 2099 12:01:00 GMT"}, 429, []),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" * 2000}, 200, []),
        (
            {
                "x-ratelimit-remaining": "3",
                "x-ratelimit-reset": "1764331200.4",
                "x-ratelimit-reset-after": "2.5",
            },
            200,
            [requests(3, 2.5)],
        ),
        (
            {
                "x-ratelimit-remaining-requests-day": "4000",
                "x-ratelimit-reset-requests-day": "33011.38",
                "x-ratelimit-remaining-tokens-minute": "55000",
                "x-ratelimit-reset-tokens-minute": "11.38",
                "x-ratelimit-remaining-requests-1h": "20",
                "x-ratelimit-reset-requests-1h": "60",
            },
            200,
            [requests(20, 60), tokens(55_000, 11.38)],
        ),
        # Units that no constraint of the SDK's counts.
        (
            {
                "anthropic-ratelimit-output-tokens-remaining": "1",
                "anthropic-ratelimit-output-tokens-reset": "9",
                "x-ratelimit-remaining-images": "0",
                "x-ratelimit-reset-images": "9",
            },
            200,
            [],
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s", "retry-after": "2"},
            429,
            [requests(0, 2), tokens(0, 2)],
        ),
        (
            {"x-rate-limit-remaining": "0", "x-rate-limit-reset": "4", "retry-after": "60"},
            403,
            [requests(0, 60), tokens(0, 60)],
        ),
        ({"retry-after": "7"}, 529, [requests(0, 7), tokens(0, 7)]),
        # The narrower of two statements counts.
        (
            {"RateLimit": '"a";r=9;t=20', "RateLimit-Remaining": "4", "RateLimit-Reset": "1"},
            200,
            [requests(4, 1)],
        ),
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


NAMES = (
    "retry-after", "retry-after-ms", "ratelimit", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-remaining",
    "x-ratelimit-reset", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset",
)  # fmt: skip
NUMBERS = st.one_of(st.integers(), st.floats(), st.decimals(allow_nan=True)).map(str)
TEXTS = st.one_of(
    NUMBERS,
    st.text(max_size=40),
    st.datetimes(timezones=st.just(UTC)).flatmap(
        lambda at: st.sampled_from((at.isoformat(), format_datetime(at), f"{at.year}-99-99"))
    ),
    st.builds("{}h{}m{}s".format, st.integers(0), st.integers(0), st.floats(0)),
    st.builds('"a";r={};t={}'.format, NUMBERS, NUMBERS),
    st.from_regex(r"[0-9]{1,400}(ms|s|m|h|d)?", fullmatch=True),
)


@given(st.dictionaries(st.sampled_from(NAMES), TEXTS), st.sampled_from((200, 403, 429, 503, 529)))
def test_no_headers_make_the_calls_of_a_job_raise(headers: dict[str, str], status: int) -> None:
    limits = ApiLimits(requests="model", tokens="model-tokens")
    for room in rooms_in(headers, status):
        # A room that ctx.observed refuses would be an exception inside the job.
        checked_observation("model", 1, room.remaining, room.resets_s)
    wait_s = limits.retry_after_s(
        httpx.Response(status, headers={n.encode(): v.encode() for n, v in headers.items()})
    )
    assert 0 <= wait_s <= MAX_RESET_S


@pytest.mark.parametrize(
    ("headers", "status", "seconds"),
    [
        ({"Retry-After": "3"}, 429, 3),
        ({}, 429, 1),
        ({"Retry-After": "soon"}, 429, 1),
        # OpenRouter sends no Retry-After.
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4"}, 429, 4),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "4"}, 429, 1),
    ],
)
def test_a_refusal_says_how_long_to_wait(headers: dict[str, str], status: int, seconds: float) -> None:
    assert ApiLimits().retry_after_s(httpx.Response(status, headers=headers)) == seconds


def test_a_value_that_no_master_can_get_is_logged_by_the_hook_and_raised_by_the_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = Tasks()

    @tasks.task("ask")
    def ask(ctx: Context) -> list[str]:
        ApiLimits(requests="model", value=object()).hooks_of(ctx)[0](
            httpx.Response(429, headers={"Retry-After": "3"})
        )
        with pytest.raises(TypeError, match="value"):
            ctx.observed("model", object(), remaining=1, resets_s=1)
        return [record.getMessage() for record in caplog.records]

    [run] = drain([ask.to_job()])
    assert run.result == ["the limits in the headers of an answer are not reported for model"]
    assert not run.observed
