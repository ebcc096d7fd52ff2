"""The limits that HTTP APIs tell in the headers of their answers."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from worker_sdk.worker.no_value import NO_VALUE

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

Unit = Literal["requests", "tokens"]

# Statuses with which a service says that a caller has to wait.
_TOO_MANY: Final = frozenset({429, 503})
# A larger number is an instant in seconds since 1970, a smaller one is a duration.
_INSTANT_S: Final = 1_000_000_000
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|ns|d|h|m|s)")
_SECONDS: Final = {
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}
# The names of the headers with the rest and its reset, by unit. A vendor uses one of these.
_PAIRS: Final[tuple[tuple[Unit, str, str], ...]] = (
    ("requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("requests", "x-ratelimit-remaining", "x-ratelimit-reset"),
    ("requests", "ratelimit-remaining", "ratelimit-reset"),
)
# The field of the IETF draft: `"default";r=50;t=30`, or `remaining=50, reset=30` in its earlier versions.
_DRAFT: Final = re.compile(r"\b(r|t|remaining|reset)\s*=\s*(\d+(?:\.\d+)?)")


class HeadersAndStatus(Protocol):
    """An answer of httpx, requests or a client like them."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Room:
    """The room that the headers of an answer report.

    * `unit`: `requests` or `tokens`.
    * `remaining`: units that may still be used.
    * `resets_s`: seconds until the service has all of its room again.

    For example:

        rooms = ApiLimits().observe(ctx, {"ratelimit-remaining": "41", "ratelimit-reset": "12"})
        assert rooms == [Room("requests", 41, 12)]
    """

    unit: Unit
    remaining: float
    resets_s: float


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Tell the masters what an HTTP API says about its limits: `Retry-After`, `RateLimit` and `RateLimit-*` of the IETF
    draft, `x-ratelimit-remaining-*` with `x-ratelimit-reset-*`, and `anthropic-ratelimit-*`.

    * `requests`: name of the constraint that limits requests. None: there is none.
    * `tokens`: name of the constraint that limits tokens, by its weight. None: there is none.
    * `value`: value of the key of these constraints, if they have one.

    For example, with httpx:

        limits = ApiLimits(requests="openai", tokens="openai-tokens")
        client = httpx.AsyncClient(event_hooks={"response": [limits.async_hook]})
    """

    requests: str | None = None
    tokens: str | None = None
    value: Any = NO_VALUE

    def observe(self, ctx: "Context", headers: Mapping[str, str], status: int = 200) -> list[Room]:
        """Tell the masters what the headers of an answer say, and return it.

        * `ctx`: context of the job.
        * `headers`: headers of the answer, of any client.
        * `status`: status of the answer. With 429 or 503, `Retry-After` says that no room is left until then.

        For example:

            limits = ApiLimits(tokens="openai-tokens")
            limits.observe(ctx, {"x-ratelimit-remaining-tokens": "41000", "x-ratelimit-reset-tokens": "6m0s"})
        """
        rooms = rooms_in(headers, status)
        for room in rooms:
            constraint = self.requests if room.unit == "requests" else self.tokens
            if constraint is not None:
                ctx.observed(constraint, self.value, remaining=room.remaining, resets_s=room.resets_s)
        return rooms

    def hook(self, response: HeadersAndStatus) -> None:
        """Observe an answer inside a job: an event hook of `httpx.Client`, and a hook of `requests`.

        * `response`: the answer. Outside of a job, it is ignored.

        For example:

            limits = ApiLimits(requests="openai", tokens="openai-tokens")
            client = httpx.Client(event_hooks={"response": [limits.hook]})
        """
        from worker_sdk.worker.context import running_job

        if (ctx := running_job.get()) is not None:
            self.observe(ctx, response.headers, response.status_code)

    async def async_hook(self, response: HeadersAndStatus) -> None:
        """Observe an answer inside a job: an event hook of `httpx.AsyncClient`.

        * `response`: the answer. Outside of a job, it is ignored.

        For example:

            limits = ApiLimits(requests="openai", tokens="openai-tokens")
            client = httpx.AsyncClient(event_hooks={"response": [limits.async_hook]})
        """
        self.hook(response)

    def hooks_of(
        self, ctx: "Context"
    ) -> tuple[Callable[[HeadersAndStatus], None], Callable[[HeadersAndStatus], Awaitable[None]]]:
        """Return a sync and an async event hook for the job of `ctx`, for handlers without middleware and dependencies,
        in which `hook` cannot find the job.

        * `ctx`: context of the job.

        For example:

            hook, async_hook = ApiLimits(tokens="openai-tokens").hooks_of(ctx)
            client = httpx.Client(event_hooks={"response": [hook]})
        """

        def hook(response: HeadersAndStatus) -> None:
            self.observe(ctx, response.headers, response.status_code)

        async def async_hook(response: HeadersAndStatus) -> None:
            hook(response)

        return hook, async_hook


def rooms_in(headers: Mapping[str, str], status: int = 200) -> list[Room]:
    """Return the limits that the headers of an answer state. Unreadable headers are ignored."""
    given = {name.lower(): str(value) for name, value in headers.items()}
    found: dict[Unit, Room] = {}
    for room in (*_waits(given, status), *_drafts(given), *_pairs(given)):
        present = found.get(room.unit)
        # If two headers state the same unit, the narrower one counts.
        if present is None or (room.remaining, -room.resets_s) < (present.remaining, -present.resets_s):
            found[room.unit] = room
    return list(found.values())


def duration_s(text: str, now: datetime | None = None) -> float | None:
    """Return the seconds that a header states; None: it has another form.

    * `text`: `12`, `0.5s`, `6m0s` or `20ms`, an instant in seconds since 1970 or in the form of RFC 3339, or a date of
      HTTP.
    * `now`: the present. Default: this machine's.
    """
    text = text.strip()
    now = now or datetime.now(UTC)
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return _positive(number - now.timestamp() if number >= _INSTANT_S else number)
    parts = _DURATION.findall(text)
    if parts and not _DURATION.sub("", text).strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _instant_s(text, now)


def _instant_s(text: str, now: datetime) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            instant = read(text)
        except (ValueError, TypeError):
            continue
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        return max(0.0, (instant - now).total_seconds())
    return None


def _positive(seconds: float) -> float | None:
    # NaN and infinity are not durations.
    return max(0.0, seconds) if seconds - seconds == 0 else None


def _waits(given: Mapping[str, str], status: int) -> Iterator[Room]:
    if status not in _TOO_MANY:
        return
    milliseconds = given.get("retry-after-ms")
    wait_s = duration_s(f"{milliseconds}ms") if milliseconds else duration_s(given.get("retry-after", ""))
    if wait_s is not None:
        yield Room("requests", 0, wait_s)
        yield Room("tokens", 0, wait_s)


def _drafts(given: Mapping[str, str]) -> Iterator[Room]:
    # Several policies are told in a list, and all of them apply.
    for policy in re.split(r",\s*(?=\")", given.get("ratelimit", "")):
        parts = {name: float(number) for name, number in _DRAFT.findall(policy)}
        remaining = parts.get("r", parts.get("remaining"))
        resets_s = parts.get("t", parts.get("reset"))
        if remaining is not None and resets_s is not None:
            # The name of a policy may tell what it counts.
            yield Room("tokens" if "token" in policy.partition(";")[0] else "requests", remaining, resets_s)


def _pairs(given: Mapping[str, str]) -> Iterator[Room]:
    for unit, rest, reset in _PAIRS:
        try:
            remaining = float(given.get(rest, ""))
        except ValueError:
            continue
        resets_s = duration_s(given.get(reset, ""))
        if resets_s is not None and (room := _positive(remaining)) is not None:
            yield Room(unit, room, resets_s)
