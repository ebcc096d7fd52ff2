"""Measure what open dashboards cost a master: its CPU under load, without and with streams.

    python -m benchmarks.watching [--dashboards 100] [--rate 5000] [--seconds 15]

The program starts a master on its own embedded Valkey and one worker process. It pushes in bulks at a steady rate. The
figures are the CPU of the master process alone, in cores.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

BULK = 100
SETTLE_S = 4.0


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that all threads of the process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def process(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    one = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={**os.environ, **environment}, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield one
    finally:
        if one.returncode is None:
            one.terminate()
        await one.wait()


async def until_ready(http: httpx.AsyncClient) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.HTTPError):
            if (await http.get("/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.1)
    raise SystemExit("the master is not ready")


class Load:
    """Pushes at a steady rate. If the master cannot take jobs in time, no jobs are added later to make up for the
    delay."""

    def __init__(self, url: str, rate: float) -> None:
        self.pushed = 0
        self._url = url
        self._rate = rate

    async def run(self) -> None:
        body: dict[str, object] = {"jobs": [{"name": "noop"}] * BULK}
        async with httpx.AsyncClient(base_url=self._url, timeout=30) as http:
            next_s = time.monotonic()
            pushing: set[asyncio.Task[None]] = set()
            while True:
                next_s = max(next_s + BULK / self._rate, time.monotonic() - 1)
                await asyncio.sleep(max(0.0, next_s - time.monotonic()))
                if len(pushing) < 8:
                    task = asyncio.create_task(self._push(http, body))
                    pushing.add(task)
                    task.add_done_callback(pushing.discard)

    async def _push(self, http: httpx.AsyncClient, body: dict[str, object]) -> None:
        with contextlib.suppress(httpx.HTTPError):
            if (await http.post("/api/jobs/bulk", json=body)).status_code == 201:
                self.pushed += BULK


class Dashboards:
    """Open event streams. `events`: the number of events that have arrived."""

    def __init__(self, url: str) -> None:
        self.events = 0
        self._url = url

    async def listen(self) -> None:
        async with (
            httpx.AsyncClient(timeout=None) as http,
            http.stream("GET", f"{self._url}/api/stream", headers={"Accept": "text/event-stream"}) as answer,
        ):
            async for chunk in answer.aiter_bytes():
                self.events += chunk.count(b"\nevent:") + chunk.startswith(b"event:")


async def measured(pid: int, load: Load, seconds: float) -> tuple[float, float]:
    """Return the cores that the master used, and the number of jobs that were pushed in a second."""
    await asyncio.sleep(SETTLE_S)
    began_s, used_s, pushed = time.monotonic(), cpu_s(pid), load.pushed
    await asyncio.sleep(seconds)
    took_s = time.monotonic() - began_s
    return (cpu_s(pid) - used_s) / took_s, (load.pushed - pushed) / took_s


async def compare(dashboards: int, rate: float, seconds: float) -> None:
    port = 18_000 + os.getpid() % 2_000
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as directory:
        arguments = ("-m", "jqmaster", "serve")
        settings = {
            "JQMASTER_PORT": str(port),
            "JQMASTER_DATA_DIR": directory,
            "JQMASTER_MAX_STREAMS": str(max(200, dashboards)),
            "JQMASTER_RETENTION_SUCCEEDED_MAX": "10000",
        }
        async with process(*arguments, **settings) as master, httpx.AsyncClient(base_url=url) as http:
            await until_ready(http)
            async with process("-m", "jqmaster", "worker", "benchmarks.worker:worker", JQMASTER_URL=url):
                load = Load(url, rate)
                loading = asyncio.create_task(load.run())
                try:
                    alone, pace = await measured(master.pid, load, seconds)
                    print(f"without dashboards: {alone:.2f} cores at {pace:,.0f} jobs/s")
                    watched = Dashboards(url)
                    listening = [asyncio.create_task(watched.listen()) for _ in range(dashboards)]
                    heard = watched.events
                    together, pace = await measured(master.pid, load, seconds)
                    a_second = (watched.events - heard) / (seconds + SETTLE_S)
                    print(
                        f"with {dashboards} dashboards: {together:.2f} cores at {pace:,.0f} jobs/s, "
                        f"{a_second:,.0f} events/s in all"
                    )
                    print(f"they cost {together - alone:.2f} cores")
                    for task in listening:
                        task.cancel()
                    await asyncio.gather(*listening, return_exceptions=True)
                finally:
                    loading.cancel()
                    await asyncio.gather(loading, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dashboards", type=int, default=100)
    parser.add_argument("--rate", type=float, default=5_000, help="jobs pushed a second")
    parser.add_argument("--seconds", type=float, default=15)
    given = parser.parse_args()
    asyncio.run(compare(given.dashboards, given.rate, given.seconds))


if __name__ == "__main__":
    main()
