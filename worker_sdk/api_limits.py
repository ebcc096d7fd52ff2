"""Read the limits that HTTP APIs state in the headers of their answers, and report them to the masters."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from worker_sdk.worker.no_value import NO_VALUE
from worker_sdk.worker.observations import MAX_RESET_S, MAX_UNITS

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

logger = logging.getLogger(__name__)

Unit = Literal["requests", "tokens"]

# The statuses that tell a caller to wait. GitHub also uses 403 for this, and Anthropic 529.
_TOO_MANY: Final = frozenset({403, 429, 503, 529})
# A reset of this number or more is an instant in seconds since 1970. A smaller number is a duration in seconds.
_INSTANT_S: Final = 1_000_000_000
# A reset of this number or more is an instant in milli-, micro- or nanoseconds. It is ignored.
_NO_INSTANT_S: Final = 100_000_000_000
# Maximum length of a header that is parsed. A longer header is ignored, so that parsing it cannot delay a job.
_MAX_CHARS: Final = 1000
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|μs|ns|d|h|m|s)", re.ASCII)
_SECONDS: Final = {
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    # The next two keys look alike: one has the micro sign, the other the Greek letter mu.
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}
# The part of a header's name that says what the header counts. No constraint counts other units, such as images or
# output tokens.
_SCOPE: Final = r"(?:project-)?(?:req(?:uest)?s?|tokens?)(?:-(?:1?[mhd]|minute|hour|day))?"
# The name of a header that states the remaining units. The header with their reset has `reset` in place of `remaining`.
_REMAINING: Final = re.compile(rf"(?:[a-z0-9]+-){{0,3}}ratelimit-(?:{_SCOPE}-)?remaining(?:-{_SCOPE})?")
# The field of the IETF draft: `"default";r=50;t=30`, or `remaining=50, reset=30` in its earlier versions.
_DRAFT: Final = re.compile(r"\b(r|t|remaining|reset)\s*=\s*(\d+(?:\.\d+)?)", re.ASCII)


class HeadersAndStatus(Protocol):
    """An answer of httpx, requests or a similar client."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Room:
    """The remaining units that the headers of an answer report.

    * `unit`: `requests` or `tokens`.
    * `remaining`: units that may still be used.
    * `resets_s`: seconds until all units are available again.

    For example:

        rooms = ApiLimits().observe(ctx, {"ratelimit-remaining": "41", "ratelimit-reset": "12"})
        assert rooms == [Room("requests", 41, 12)]
    """

    unit: Unit
    remaining: float
    resets_s: float


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Report to the masters the limits that an HTTP API states in its answers. Read these headers: `Retry-After`,
    `RateLimit` and `RateLimit-*` (IETF draft), `x-ratelimit-remaining-*` with `x-ratelimit-reset-*`, and
    `anthropic-ratelimit-*`. An answer never makes these calls raise: they ignore a header that they cannot read, or
    that states more than 31 days.

    * `requests`: name of the constraint that limits requests, if there is one.
    * `tokens`: name of the constraint that limits tokens, by its weight, if there is one.
    * `value`: value of the key of these constraints, if they have a key.

    For example, with httpx:

        limits = ApiLimits(requests="openai", tokens="openai-tokens")
        client = httpx.AsyncClient(event_hooks={"response": [limits.async_hook]})
    """

    requests: str | None = None
    tokens: str | None = None
    value: Any = NO_VALUE

    def observe(self, ctx: "Context", headers: Mapping[str, str], status: int = 200) -> list[Room]:
        """Report the limits in the headers of an answer to the masters, and return them.

        * `ctx`: context of the job.
        * `headers`: headers of the answer, of any client.
        * `status`: status of the answer. With 403, 429, 503 or 529, a `Retry-After` means that no units remain until
          that time.

        For example:

            limits = ApiLimits(tokens="openai-tokens")
            limits.observe(ctx, {"x-ratelimit-remaining-tokens": "41000", "x-ratelimit-reset-tokens": "6m0s"})
        """
        rooms = rooms_in(headers, status)
        for room in rooms:
            constraint = self.requests if room.unit == "requests" else self.tokens
            if constraint is None:
                continue
            try:
                ctx.observed(constraint, self.value, remaining=room.remaining, resets_s=room.resets_s)
            except Exception:
                # Best effort: if the limit cannot be reported to the masters, the job must not fail.
                logger.warning(
                    "the limits in the headers of an answer are not reported for %s",
                    constraint,
                    exc_info=True,
                )
        return rooms

    def retry_after_s(self, response: HeadersAndStatus, default: float = 1.0) -> float:
        """Return the seconds to wait after a refused request: the time in `Retry-After`, or else the time until the
        used-up limit resets. Pass them to `Defer`.

        * `response`: the refusal.
        * `default`: seconds to wait if the headers state no time.

        For example:

            limits = ApiLimits(tokens="openai-tokens")
            refusal = httpx.Response(429, headers={"retry-after": "12"})
            raise Defer(limits.retry_after_s(refusal), hold="openai-tokens")
        """
        rooms = rooms_in(response.headers, response.status_code)
        return max((room.resets_s for room in rooms if room.remaining < 1), default=default)

    def hook(self, response: HeadersAndStatus) -> None:
        """Observe an answer inside a job. Use this method as an event hook of `httpx.Client` or as a hook of
        `requests`.

        * `response`: the answer. Outside of a job, it is ignored.

        For example:

            limits = ApiLimits(requests="openai", tokens="openai-tokens")
            client = httpx.Client(event_hooks={"response": [limits.hook]})
        """
        from worker_sdk.worker.context import running_job

        if (ctx := running_job.get()) is not None:
            self.observe(ctx, response.headers, response.status_code)

    async def async_hook(self, response: HeadersAndStatus) -> None:
        """Observe an answer inside a job. Use this method as an event hook of `httpx.AsyncClient`.

        * `response`: the answer. Outside of a job, it is ignored.

        For example:

            limits = ApiLimits(requests="openai", tokens="openai-tokens")
            client = httpx.AsyncClient(event_hooks={"response": [limits.async_hook]})
        """
        self.hook(response)

    def hooks_of(
        self, ctx: "Context"
    ) -> tuple[Callable[[HeadersAndStatus], None], Callable[[HeadersAndStatus], Awaitable[None]]]:
        """Return a sync and an async event hook for the job of `ctx`. Use them in handlers without middleware and
        dependencies: there, `hook` cannot find the job.

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
    given = {
        str(name).lower().replace("rate-limit", "ratelimit"): str(text)
        for name, text in headers.items()
        if len(str(text)) <= _MAX_CHARS
    }
    found: dict[Unit, Room] = {}
    # `Retry-After` takes precedence: some of the other headers state a reset long after requests are accepted again.
    for unit, remaining, resets_s in list(_waits(given, status)) or (*_drafts(given), *_pairs(given)):
        if not 0 <= resets_s <= MAX_RESET_S:
            continue
        room = Room(unit, min(remaining, MAX_UNITS), resets_s)
        present = found.get(unit)
        # If two headers state the same unit, use the lower limit.
        if present is None or (room.remaining, -room.resets_s) < (present.remaining, -present.resets_s):
            found[unit] = room
    return list(found.values())


def duration_s(text: str, now: datetime | None = None) -> float | None:
    """Return the seconds that a header states, or None if it has another form.

    * `text`: a duration such as `12`, `0.5s`, `6m0s` or `20ms`; an instant in seconds or milliseconds since 1970; an
      RFC 3339 instant; or an HTTP date.
    * `now`: the current time. Default: the clock of this machine.
    """
    text = text.strip()
    now = now or datetime.now(UTC)
    number = _number(text)
    if number is not None:
        if number < _INSTANT_S:
            return max(0.0, number)
        while number >= _NO_INSTANT_S:
            number /= 1000
        return max(0.0, number - now.timestamp())
    parts = _DURATION.findall(text)
    rest = _DURATION.sub("", text).strip()
    # If the reset is in the past, Go writes a negative duration.
    if parts and rest in ("", "-"):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return 0.0 if rest else seconds
    return _instant_s(text, now)


def _instant_s(text: str, now: datetime) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            instant = read(text)
            instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
            return max(0.0, (instant - now).total_seconds())
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _number(text: str) -> float | None:
    """Return the number that a header states, or None if it states no finite number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _waits(given: Mapping[str, str], status: int) -> "Iterator[tuple[Unit, float, float]]":
    if status not in _TOO_MANY:
        return
    milliseconds = _number(given.get("retry-after-ms", ""))
    wait_s = (
        duration_s(given.get("retry-after", "")) if milliseconds is None else max(0.0, milliseconds / 1000)
    )
    if wait_s is not None and wait_s <= MAX_RESET_S:
        yield "requests", 0, wait_s
        yield "tokens", 0, wait_s


def _drafts(given: Mapping[str, str]) -> "Iterator[tuple[Unit, float, float]]":
    # The header may list several policies, and all of them apply.
    for policy in re.split(r",\s*(?=\")", given.get("ratelimit", "")):
        parts = {name: float(number) for name, number in _DRAFT.findall(policy)}
        remaining = parts.get("r", parts.get("remaining"))
        resets_s = parts.get("t", parts.get("reset"))
        if remaining is not None and resets_s is not None:
            # The name of a policy may say whether it counts tokens or requests.
            yield "tokens" if "token" in policy.partition(";")[0] else "requests", remaining, resets_s


def _pairs(given: Mapping[str, str]) -> "Iterator[tuple[Unit, float, float]]":
    for name, text in given.items():
        remaining = _number(text)
        # Azure sends -1 as the remaining units if it does not know them.
        if remaining is None or remaining == -1 or not _REMAINING.fullmatch(name):
            continue
        after = given.get(name.replace("remaining", "reset-after"))
        resets_s = duration_s(given.get(name.replace("remaining", "reset"), "") if after is None else after)
        if resets_s is not None:
            yield "tokens" if "token" in name else "requests", max(0.0, remaining), resets_s
