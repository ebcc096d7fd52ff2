"""Measure how long pages of a list with many jobs take.

    python -m benchmarks.listing [--jobs 1000000] [--pages 20]

The program starts a master on its own embedded Valkey, without a worker. Half of the jobs are ready, and half are
scheduled. They have 200 names and 5 priorities, and all are in one batch. One job in ten thousand has the tag `rare`.
The program requests the lists over HTTP, and prints the median and the slowest page of each list.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from typing import Any
from urllib.parse import quote

import httpx

from benchmarks.watching import process, until_ready

BULK = 5_000
LIMIT_MS = 300.0
LISTS = {
    "all": "",
    "one state": "state=ready",
    "one name": "state=ready&name=work-7",
    "all, the newest first": "order=newest",
    "all, the oldest first": "order=oldest",
    "ready, the newest first": "state=ready&order=newest",
    "ready, the oldest first": "state=ready&order=oldest",
    "scheduled, the last first": "state=scheduled&order=newest",
    "one name, the newest first": "name=work-7&order=newest",
    "a rare tag, the newest first": "tag=rare&order=newest",
    "a rare tag": "tag=rare",
    "a part of a name that none has": "q=nowhere",
    "created in the last minute": "created_after={minute_ago}",
    "ended in the last minute": "finished_after={minute_ago}",
    "text of an error": "text=refused",
    "one batch, the newest first": "batch={batch}&order=newest",
    "one batch, the oldest first": "batch={batch}&order=oldest",
    "one batch, a state": "batch={batch}&state=ready",
    "one batch, a state that none has": "batch={batch}&state=failed",
    "one batch, a rare tag": "batch={batch}&tag=rare",
}


async def fill(http: httpx.AsyncClient, count: int) -> str:
    """Enqueue the jobs, and return the ID of their batch."""
    made = await http.post("/api/batches", json={"description": "Every job"})
    batch = str(made.raise_for_status().json()["id"])
    for start in range(0, count, BULK):
        jobs: list[dict[str, Any]] = []
        for n in range(start, min(count, start + BULK)):
            job: dict[str, Any] = {
                "name": f"work-{n % 200}",
                "argument": {"n": n},
                "priority": n % 5,
                "batch": batch,
            }
            if n % 2:
                job["delay"] = 86_400 + n
            if n % 10_000 == 0:
                job["tags"] = ["rare"]
            jobs.append(job)
        (await http.post("/api/jobs/bulk", json={"jobs": jobs})).raise_for_status()
    return batch


async def pages_ms(http: httpx.AsyncClient, query: str, most: int) -> list[float]:
    took: list[float] = []
    cursor = ""
    while len(took) < most:
        began_s = time.perf_counter()
        answer = await http.get(f"/api/jobs?{query}&limit=100{cursor}".replace("?&", "?"))
        took.append((time.perf_counter() - began_s) * 1000)
        page = answer.raise_for_status().json()
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={quote(page['next_cursor'])}"
    return took


async def act(http: httpx.AsyncClient) -> None:
    began_s = time.perf_counter()
    answer = await http.post(
        "/api/jobs/actions", json={"action": "cancel", "filter": {"tag": "rare"}, "dry_run": True}
    )
    counted = answer.raise_for_status().json()
    least = "" if counted["is_exact"] else "at least "
    print(
        f"dry run of a rare tag: {(time.perf_counter() - began_s) * 1000:.0f} ms, {least}{counted['count']} jobs"
    )
    began_s = time.perf_counter()
    answer = await http.post("/api/jobs/actions", json={"action": "cancel", "filter": {"name": "work-3"}})
    action = answer.raise_for_status().json()
    while action["state"] == "running":
        await asyncio.sleep(0.2)
        action = (await http.get(f"/api/jobs/actions/{action['id']}")).json()
    took_s = time.perf_counter() - began_s
    print(
        f"cancel of one name: {action['done']:,} of {action['looked_at']:,} jobs looked at in {took_s:.1f} s"
    )


async def measure(count: int, pages: int) -> bool:
    port = 18_000 + os.getpid() % 2_000
    url = f"http://127.0.0.1:{port}"
    is_quick = True
    with tempfile.TemporaryDirectory() as directory:
        settings = {"JQMASTER_PORT": str(port), "JQMASTER_DATA_DIR": directory}
        async with (
            process("-m", "jqmaster", "serve", **settings),
            httpx.AsyncClient(base_url=url, timeout=60, headers={"Accept": "application/json"}) as http,
        ):
            await until_ready(http)
            began_s = time.perf_counter()
            batch = await fill(http, count)
            print(f"{count:,} jobs enqueued in {time.perf_counter() - began_s:.0f} s")
            minute_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
            for what, query in LISTS.items():
                took = await pages_ms(http, query.format(minute_ago=minute_ago, batch=batch), pages)
                is_quick = is_quick and max(took) < LIMIT_MS
                print(
                    f"{what}: {len(took)} pages, middle {statistics.median(took):.0f} ms, slowest {max(took):.0f} ms"
                )
            await act(http)
    print(f"every page below {LIMIT_MS:.0f} ms: {'yes' if is_quick else 'NO'}")
    return is_quick


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=20, help="pages of each list, at most")
    given = parser.parse_args()
    raise SystemExit(0 if asyncio.run(measure(given.jobs, given.pages)) else 1)


if __name__ == "__main__":
    main()
