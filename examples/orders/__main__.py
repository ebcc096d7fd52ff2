"""Start a master, the other systems and workers, process orders, and print the ledger. The ledger compares the jobs
with the book of the other systems. The exit status is 0 if the ledger balances."""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from examples.orders.clerk import Clerk
from examples.orders.ledger import Ledger, compare
from examples.orders.system import Shop, running_shop
from worker_sdk import Pusher, make_job
from worker_sdk.pusher import JobOptions
from worker_sdk.transport.standard_streams import escape_unencodable

# One in this many orders is expensive and needs an approval.
DEAR_EACH = 10
# Allow many retries: the deliberate failures must not use up all attempts.
OPTIONS: JobOptions = {
    "max_retry": 100,
    "retry": {"base_s": 0.2, "factor": 1.5, "max_s": 5.0, "jitter": True},
    "rerun_lost": True,
    "timeout": 20,
}
WAITING = ("scheduled", "ready", "running", "awaiting_callback", "awaiting_jobs", "retrying")
CALL_FOR_S = 600.0

Jobs = dict[tuple[str, int], dict[str, Any]]


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(prog="examples.orders", description=__doc__)
    parser.add_argument("--orders", type=int, default=40)
    parser.add_argument("--faults", type=float, default=1.0, help="factor of all faults of the other systems")
    parser.add_argument(
        "--kill-every", type=float, help="mean time between two kills of a master or a worker, in seconds"
    )
    parser.add_argument(
        "--redis",
        default=os.environ.get("JQMASTER_REDIS_URL"),
        help="URL of a store; default: JQMASTER_REDIS_URL, or the master starts its own",
    )
    parser.add_argument("--masters", type=int, default=1, help="several need --redis")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=200, help="orders that a step processes at a time")
    parser.add_argument("--answer-within", type=float, default=20.0, help="time to wait for a callback, in s")
    parser.add_argument("--within", type=float, default=3_600.0, help="give up after this many seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--by-hand",
        action="store_true",
        help="approve the expensive orders yourself instead of letting the clerk do it",
    )
    options = parser.parse_args()
    if options.masters > 1 and not options.redis:
        parser.error("--masters needs --redis")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(asyncio.run(show(options)))


async def show(options: argparse.Namespace) -> int:
    """Run the example, print what it does, and return its exit status."""
    ports = tuple(_free_ports(options.masters + 1))
    faults = ("--faults", str(options.faults), "--limit", str(options.limit), "--seed", str(options.seed))
    with tempfile.TemporaryDirectory(prefix="jqmaster-orders-", ignore_cleanup_errors=True) as directory:
        async with running_shop(
            Path(directory),
            ports,
            workers=options.workers,
            redis_url=options.redis,
            outside_options=faults,
            answer_within_s=options.answer_within,
        ) as shop:
            began_s = time.monotonic()
            ledger, book = await carry_out(shop, options)
    print(ledger.text())
    happened = ", ".join(f"{what} {count:,}" for what, count in sorted(book["happened"].items()) if count)
    print(f"\nwhat went wrong on purpose, and callbacks by their answer: {happened}")
    if shop.kills:
        print("killed: " + ", ".join(f"{name} {count} times" for name, count in sorted(shop.kills.items())))
    print(f"{options.orders:,} orders in {time.monotonic() - began_s:.0f} s")
    for fault in ledger.faults[:50]:
        print(f"DOES NOT BALANCE: {fault}")
    print("the ledger balances" if not ledger.faults else f"{len(ledger.faults)} faults")
    return 1 if ledger.faults else 0


async def carry_out(shop: Shop, options: argparse.Namespace) -> tuple[Ledger, Mapping[str, Any]]:
    """Enqueue the orders, wait until all jobs are over, and compare them with the book."""
    # A dictionary, so that an order that is enqueued again appears only once.
    wanted: Jobs = {}
    client = httpx.AsyncClient(headers={"Accept": "application/json"}, timeout=10.0, trust_env=False)
    async with client, asyncio.TaskGroup() as group:
        clerk = Clerk(f"{shop.outside_url}/desk", client)
        clerking = None if options.by_hand else group.create_task(clerk.work())
        killer = None
        if options.kill_every:
            killing = shop.kill_now_and_then(options.kill_every, random.Random(options.seed))
            killer = group.create_task(killing)
        if options.by_hand:
            print(f"approve the dear orders at {shop.urls[0]}/#/challenges")
        async with Pusher(list(shop.urls), max_wait_s=CALL_FOR_S) as pusher:
            for first in range(1, options.orders + 1, 100):
                orders = range(first, min(first + 100, options.orders + 1))
                jobs = [(number, job) for number in orders for job in jobs_of(number)]
                await pusher.enqueue_many([job for _, job in jobs])
                wanted |= {(job["name"], number): {"id": job["id"]} for number, job in jobs}
        try:
            await over(client, shop, options.within)
        finally:
            for task in (clerking, killer):
                if task is not None:
                    task.cancel()
        await read_ends(client, shop.urls, wanted)
        book = (await client.get(f"{shop.outside_url}/book")).json()
    if clerk.answers:
        answers = ", ".join(f"{what} {count}" for what, count in sorted(clerk.answers.items()))
        print(f"the clerk answered on the pages of questions: {answers}")
    return compare(wanted, book["entries"]), book


def jobs_of(number: int) -> list[dict[str, Any]]:
    """Return the jobs of an order. Each job waits for the previous one."""
    names = ["order.take", "order.stock", "order.ship"]
    if number % DEAR_EACH == 0:
        names.insert(2, "order.approve")
    jobs: list[dict[str, Any]] = []
    for name in names:
        after = jobs[-1]["id"] if jobs else None
        job = make_job(name, {"order": number}, tags=[f"order-{number}"], after=after, **OPTIONS)
        jobs.append(job)
    return jobs


async def over(client: httpx.AsyncClient, shop: Shop, within_s: float) -> None:
    """Wait until no job waits or runs."""
    end_s, told_s = time.monotonic() + within_s, time.monotonic()
    while time.monotonic() < end_s:
        left = {}
        for state in WAITING:
            page = await call(client, shop.urls, "GET", f"/api/jobs/count?state={state}")
            if page["count"]:
                left[state] = page["count"]
        if not left:
            return
        if time.monotonic() - told_s > 10:
            told_s = time.monotonic()
            print(", ".join(f"{state} {count:,}" for state, count in left.items()), flush=True)
        await asyncio.sleep(1.0)


async def read_ends(client: httpx.AsyncClient, urls: Sequence[str], wanted: Jobs) -> None:
    """Read how each enqueued job ended. The book shows whether other jobs ran, too."""
    by_id = {job["id"]: job for job in wanted.values()}
    for job in by_id.values():
        job["state"] = "unknown"
    for name in sorted({name for name, _ in wanted}):
        cursor = ""
        while True:
            page = await call(client, urls, "GET", f"/api/jobs?name={name}&limit=200{cursor}")
            for shown in page["jobs"]:
                by_id.setdefault(shown["id"], {})["state"] = shown["state"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
    for job_id, job in by_id.items():
        if job["state"] == "failed":
            last = (await call(client, urls, "GET", f"/api/jobs/{job_id}"))["attempts"][-1]
            job["code"] = last["code"] or last["outcome"]


async def call(
    client: httpx.AsyncClient,
    urls: Sequence[str],
    method: str,
    path: str,
) -> Any:
    """Call a master. If it does not answer, try the other masters until one answers."""
    end_s = time.monotonic() + CALL_FOR_S
    while True:
        for url in urls:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.request(method, f"{url}{path}")
                if answer.is_success:
                    return answer.json()
                if answer.is_client_error and answer.status_code != 429:
                    raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
        if time.monotonic() > end_s:
            raise SystemExit(f"no master answers {method} {path}")
        await asyncio.sleep(0.3)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    main()
