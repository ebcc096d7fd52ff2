"""Jobs behind a limit in units, whose costs are random and whose estimates are wrong, and edits of that limit."""

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from worker_sdk.pusher.ids import new_job_id

SPEND: Final = "spend"
UNIT: Final = "tokens"
PERIOD_S: Final = 30.0
# The members of an argument from which an edit takes the weight, and the weights of jobs that have neither.
PATHS: Final = ("cost", "price")
DEFAULTS: Final = (1, 3)
# A mean job costs about 4.5. At the usual pace, the load needs more than the mean of these rates, so that jobs wait.
CONCURRENCIES: Final = (8, 16, 32)
RATES: Final = (80, 200, 400)
# The limits at the end of the load, so that the queue drains.
WIDEST: Final = (200, 5_000)
HEAVY: Final = 60
PAUSE_S: Final = (2.0, 8.0)
CALL_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the limit, which one of the masters made or may have made between these two times. `is_done`: its
    answer confirmed it. `tries`: a master that was asked before the last one may still make the change later."""

    from_s: float
    to_s: float
    is_done: bool
    concurrency: int
    rate: int
    tries: int = 1


def draw_spend(rng: random.Random, number: int) -> dict[str, Any]:
    cost = HEAVY if rng.random() < 0.01 else rng.randint(0, 16) / 2
    argument: dict[str, Any] = {
        "n": number,
        "nap_s": round(rng.choice((0.0, 0.05, 0.2, 1.0)), 3),
        "fails": rng.choice((0, 0, 0, 1)),
        # Half of the estimates are wrong, by up to half; some jobs do not tell.
        "used": None if rng.random() < 0.2 else round(cost * rng.choice((1.0, rng.uniform(0.5, 1.5))), 3),
    }
    if rng.random() > 0.05:
        argument |= {"cost": cost, "price": round(cost * rng.uniform(0.6, 1.0), 3)}
    return {
        "id": new_job_id(),
        "name": SPEND,
        "argument": argument,
        "priority": rng.choice((0, 0, 0, -1)),
        "retry": {"base_s": 0.1, "factor": 2.0, "max_s": 1.0},
    }


def weights_of(argument: Mapping[str, Any]) -> tuple[float, float]:
    """Return the least and the greatest weight that a job may have had, whichever edit was in force."""
    found = [argument[name] for name in PATHS if name in argument] or list(DEFAULTS)
    return min(found), max(found)


def limit_document(
    concurrency: int, rate: int, path: str = PATHS[0], default: int = DEFAULTS[0]
) -> dict[str, Any]:
    return {
        "matcher": {"field": "name", "op": "eq", "value": SPEND},
        "concurrency": concurrency,
        "rate": {"limit": rate, "period_s": PERIOD_S},
        "weight": {"from": f"argument.{path}", "default": default, "unit": UNIT},
    }


class LimitEditor:
    """Changes limits and weights until `finish`, and keeps each change with its times."""

    def __init__(self, urls: Sequence[str], seed: int) -> None:
        self._urls = urls
        self._rng = random.Random(f"{seed}:limits")
        self.edits: list[Edit] = []

    async def run(self) -> None:
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(*PAUSE_S))
            await self.put(
                rng.choice(CONCURRENCIES), rng.choice(RATES), rng.choice(PATHS), rng.choice(DEFAULTS)
            )

    async def finish(self) -> None:
        """Set the widest limits."""
        for _ in range(10):
            if await self.put(*WIDEST):
                return

    async def put(self, concurrency: int, rate: int, *weight: Any) -> bool:
        """Change the limit, and return whether the change is confirmed. Ask another master while the outcome is
        unknown."""
        document = limit_document(concurrency, rate, *weight)
        from_s = time.monotonic()
        is_done, tries = False, 0
        try:
            async with aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=CALL_S), trust_env=False
            ) as session:
                while not is_done and time.monotonic() < from_s + 2 * CALL_S:
                    tries += 1
                    is_done = await self._put_once(session, document)
        finally:
            self.edits.append(Edit(from_s, time.monotonic(), is_done, concurrency, rate, tries))
        return is_done

    async def _put_once(self, session: aiohttp.ClientSession, document: Mapping[str, Any]) -> bool:
        url = f"{self._rng.choice(self._urls)}/api/constraints/{SPEND}"
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with session.put(url, json=document) as answer:
                if answer.status < 300:
                    return True
        await asyncio.sleep(0.1)
        return False
