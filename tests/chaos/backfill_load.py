"""Backfills over instants whose records and jobs are long gone.

The definition's instants lie months back. Each run is deleted as soon as it is over, so that only what the product
remembers about instants can keep a later backfill from starting it again. BACKFILLED is also the name of its jobs.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp

BACKFILLED: Final = "backfilled"
DAYS: Final = 60
PAUSE_S: Final = (1.0, 5.0)
CALL_S: Final = 3.0
FINISHED: Final = {"succeeded", "failed", "discarded", "canceled", "skipped"}


def backfill_document() -> dict[str, Any]:
    job = {"name": BACKFILLED, "argument": {"n": 0, "nap_s": 0.01}, "retry": {"base_s": 0.1, "max_s": 1.0}}
    return {"schedule": {"daily_at": "12:00"}, "time_zone": "UTC", "overlap": "allow", "job": job}


class Backfiller:
    """Backfills random ranges, and deletes each job that is over, until cancelled. `statuses` counts the answers, and
    `started` the jobs that they claim to have started."""

    def __init__(self, urls: Sequence[str], seed: int, now: datetime) -> None:
        self._urls = urls
        self._rng = random.Random(f"{seed}:backfill")
        self._first = (
            (now - timedelta(days=300)).astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
        )
        self.statuses: dict[int, int] = {}
        self.started = 0

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=CALL_S)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            while True:
                await self._backfill(session)
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
                await self.delete_finished(session)

    async def _backfill(self, session: aiohttp.ClientSession) -> None:
        day = self._rng.randrange(DAYS)
        from_ = self._first + timedelta(days=day)
        body = {
            "from": from_.isoformat(),
            "to": (from_ + timedelta(days=self._rng.randint(1, 10))).isoformat(),
        }
        status, said = await self._call(session, "POST", f"/api/definitions/{BACKFILLED}/backfill", body)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200:
            self.started += said["started"]

    async def delete_finished(self, session: aiohttp.ClientSession) -> None:
        _, said = await self._call(session, "GET", f"/api/jobs?name={BACKFILLED}&limit=200")
        for job in said.get("jobs", []):
            if job["state"] in FINISHED:
                await self._call(session, "DELETE", f"/api/jobs/{job['id']}")

    async def _call(
        self, session: aiohttp.ClientSession, method: str, path: str, body: Any = None
    ) -> tuple[int, dict[str, Any]]:
        end_s = time.monotonic() + CALL_S
        while time.monotonic() < end_s:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                async with session.request(method, self._rng.choice(self._urls) + path, json=body) as answer:
                    return answer.status, await answer.json(content_type=None) or {}
            await asyncio.sleep(0.1)
        return 0, {}
