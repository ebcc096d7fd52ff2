"""A tenant of a chaos run whose programs are slow by design: schemas, patterns, globs and searches.

A master may refuse or judge each of them, but none may keep it from answering others. The tenant's names begin with
HOSTILE, and the checker leaves its jobs out.
"""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp

HOSTILE: Final = "hostile."
CALL_S: Final = 10.0
PAUSE_S: Final = (0.2, 1.5)
# No argument of at most this size may take a judge long.
LONG_TEXT: Final = "a" * 50_000
SECRET: Final = "s" * 40

JsonMap = dict[str, Any]


def doubling(depth: int, branches: int = 8) -> JsonMap:
    """Return a schema of a few kilobytes with `branches` ** `depth` ways to judge a value."""
    defs: JsonMap = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * branches} for n in range(depth)}
    return {"$defs": defs | {f"d{depth}": {"const": 5}}, "$ref": "#/$defs/d0"}


def doubling_properties(depth: int) -> JsonMap:
    """Return the same by properties of one value."""
    keyword = itertools.cycle(("allOf", "oneOf", "anyOf"))
    defs: JsonMap = {
        f"d{n}": {next(keyword): [{"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}}] * 6}
        for n in range(depth)
    }
    nested = {"$ref": "#/$defs/d0"}
    return {"$defs": defs | {f"d{depth}": {"type": "string"}}, **nested}


SCHEMAS: Final[Sequence[JsonMap]] = (
    doubling(12),
    doubling(30, 2),
    doubling_properties(12),
    {"$defs": {"d": {"anyOf": [{"$ref": "#/$defs/d"}, {"$ref": "#/$defs/d"}]}}, "$ref": "#/$defs/d"},
    {"type": "array", "uniqueItems": True},
    {"type": "string", "pattern": "^(a+)+$"},
    {"type": "string", "pattern": "(a|a)*b"},
    {"type": "string", "pattern": "a{1,1000}{1,1000}b"},
    {"patternProperties": {"^(a|b|ab)*c": {"type": "integer"}}, "additionalProperties": False},
)
GLOBS: Final = ("*a" * 40 + "b", "?*" * 60 + "z", "*" * 150 + "b")
ARGUMENTS: Final[Sequence[Any]] = (
    5, None, LONG_TEXT, list(range(3_000)), {"a" * 200: 1}, {"a": {"a": {"a": {"a": "x"}}}},
)  # fmt: skip


def _registration(rng: random.Random) -> tuple[str, str, JsonMap]:
    """Return a worker with a contract for each schema. It never fetches a job."""
    names = [f"{HOSTILE}{n}" for n in range(len(SCHEMAS))]
    n = rng.randrange(len(SCHEMAS))
    contract = {"version": "1", "argument_schema": SCHEMAS[n], "options": {}}
    body = {
        "url": None,
        "names": [names[n]],
        "max_jobs": 1,
        "secret": SECRET,
        "contracts": {names[n]: contract},
    }
    return "POST", "/api/workers", body


def _name(rng: random.Random) -> str:
    return f"{HOSTILE}{rng.randrange(len(SCHEMAS))}"


def _preview(rng: random.Random) -> tuple[str, str, JsonMap]:
    return "POST", "/api/jobs/preview", {"name": _name(rng), "argument": rng.choice(ARGUMENTS)}


def _push(rng: random.Random) -> tuple[str, str, JsonMap]:
    """Return a job that nobody takes, and that is soon over."""
    expires_at = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    return (
        "POST",
        "/api/jobs",
        {"name": _name(rng), "argument": rng.choice(ARGUMENTS), "expires_at": expires_at},
    )


def _search(rng: random.Random) -> tuple[str, str, None]:
    return "GET", f"/api/jobs?q={rng.choice(('zzz', 'a' * 100, '%2A%3F'))}&limit=50", None


def _constraint(rng: random.Random) -> tuple[str, str, JsonMap]:
    glob = {"field": "argument.host", "op": "glob", "value": rng.choice(GLOBS)}
    matcher = {"all": [{"field": "name", "op": "glob", "value": f"{HOSTILE}*"}, glob]}
    return "POST", "/api/constraints/preview", {"matcher": matcher}


def _event(rng: random.Random) -> tuple[str, str, JsonMap]:
    return (
        "POST",
        "/api/events",
        {"event_type": f"{HOSTILE}{rng.choice(GLOBS)[:50]}", "payload": {"a": LONG_TEXT}},
    )


def _cron(rng: random.Random) -> tuple[str, str, JsonMap]:
    cron = rng.choice(
        ("0 0 30 2 *", "*/1 * * * *", "59 23 29 2 1#5", "0-59/1 " + ",".join(["1"] * 2_000) + " * * *")
    )
    body = {"name": "hostile", "schedule": {"cron": cron}, "time_zone": "UTC", "count": 100}
    return "POST", "/api/definitions/preview", body


CALLS: Final[Sequence[Callable[[random.Random], tuple[str, str, Mapping[str, Any] | None]]]] = (
    _registration, _preview, _preview, _push, _search, _constraint, _event, _cron,
)  # fmt: skip


class HostileTenant:
    """Makes one call after another until cancelled. `statuses` counts the answers by path and status."""

    def __init__(self, urls: Sequence[str], seed: int) -> None:
        self._urls = urls
        self._rng = random.Random(f"{seed}:hostile")
        self.statuses: dict[str, int] = {}

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=CALL_S)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            while True:
                method, path, body = self._rng.choice(CALLS)(self._rng)
                status = 0
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    async with session.request(
                        method, self._rng.choice(self._urls) + path, json=body
                    ) as answer:
                        await answer.read()
                        status = answer.status
                kind = f"{path.partition('?')[0]} {status}"
                self.statuses[kind] = self.statuses.get(kind, 0) + 1
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))


class Probe:
    """Asks each master each half second whether it is alive. `silences` has (name, from_s, to_s) of every time that one
    did not answer for longer than an answer may take."""

    EVERY_S: Final = 0.5
    ANSWER_S: Final = 2.0

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._heard_s = {name: time.monotonic() for name in urls}
        self.silences: list[tuple[str, float, float]] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession(trust_env=False) as session, asyncio.TaskGroup() as group:
            for name in self._urls:
                group.create_task(self._ask(session, name))

    def close(self) -> None:
        """Note the silences that have not ended."""
        for name in self._urls:
            self._note(name)

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> None:
        timeout = aiohttp.ClientTimeout(total=self.ANSWER_S)
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with session.get(f"{self._urls[name]}/healthz", timeout=timeout) as answer:
                    await answer.read()
                    self._note(name)
            await asyncio.sleep(self.EVERY_S)

    def _note(self, name: str) -> None:
        now_s = time.monotonic()
        if now_s - self._heard_s[name] > self.EVERY_S + self.ANSWER_S:
            self.silences.append((name, self._heard_s[name], now_s))
        self._heard_s[name] = now_s
