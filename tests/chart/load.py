"""Pushes without a retry, and the outcomes of the jobs."""

import asyncio
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Final

import aiohttp

_PUSHERS: Final = 6


class Pushes:
    """Pushes through a Service until it is left: some over connections that stay open, some over new ones. A push is
    tried once, and `refused` holds each that was not answered with 201."""

    def __init__(
        self,
        url: str,
        token: str,
        name: str,
        *,
        per_s: float = 15,
        run_s: float = 0.3,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self._url, self._tls, self._name = url, tls, name
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pause_s, self._run_s = _PUSHERS / per_s, run_s
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.slowest_s = 0.0

    async def __aenter__(self) -> "Pushes":
        self._tasks = [
            asyncio.create_task(self._push_on(keeps_open=number % 2 == 0)) for number in range(_PUSHERS)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _push_on(self, *, keeps_open: bool) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, force_close=not keeps_open)
        async with aiohttp.ClientSession(connector=connector, headers=self._headers) as http:
            while True:
                # A push that has begun is awaited at the end, too: its job counts.
                pushing = asyncio.ensure_future(self.push(http))
                try:
                    await asyncio.shield(pushing)
                except asyncio.CancelledError:
                    await pushing
                    raise
                await asyncio.sleep(self._pause_s)

    async def push(self, http: aiohttp.ClientSession, count: int = 1) -> None:
        """Push jobs, each of them once."""
        began_s = time.monotonic()
        for _ in range(count):
            body = {"name": self._name, "argument": {"run_s": self._run_s}}
            try:
                async with http.post(f"{self._url}/api/jobs", json=body) as answer:
                    if answer.status == 201:
                        self.accepted.append((await answer.json())["id"])
                    else:
                        self.refused.append(f"{answer.status} {await answer.text()}")
            except (OSError, TimeoutError, aiohttp.ClientError) as error:
                self.refused.append(f"{time.monotonic():.2f} open {http.connector is not None}: {error!r}")
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)

    async def burst(self, count: int) -> None:
        """Push many at once."""
        connector = aiohttp.TCPConnector(ssl=self._tls)
        async with aiohttp.ClientSession(connector=connector, headers=self._headers) as http:
            await self.push(http, count)


class Journal:
    """The runs of the jobs, as their handlers wrote them."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return how often each job has started, and how often it has ended."""
        starts: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        if self._file.exists():
            # A handler may still be writing the last line.
            for line in self._file.read_text().split("\n")[:-1]:
                what, job_id, _, _ = line.split()
                (starts if what == "start" else ends)[job_id] += 1
        return starts, ends

    def has_all(self, pushes: Pushes) -> bool:
        """Return whether each accepted job has ended."""
        return set(pushes.accepted) <= set(self.counts()[1])

    def assert_once_each(self, pushes: Pushes) -> None:
        """Assert that no push was refused, and that each accepted job ran once and to its end."""
        assert not pushes.refused, pushes.refused[:5]
        assert pushes.accepted
        starts, ends = self.counts()
        assert {job: count for job, count in starts.items() if count != 1} == {}, "ran twice"
        assert set(pushes.accepted) - set(ends) == set(), "lost"
        assert set(ends) <= set(pushes.accepted), "ran without a push"
