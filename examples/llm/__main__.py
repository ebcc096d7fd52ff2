"""Start a master, a worker and the stand-in for a model's API. Summarize texts for 20 tenants with plans, and print
what the API admitted.

The exit status is 0 if three things are true: the API refused nothing, at least 90 % of its limit was used, and each
tenant got its share within 5 %.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from examples.llm.plans import JOB, TENANTS, WEIGHTS, constraints_for
from examples.stdlib.system import running_system, start
from worker_sdk import Pusher
from worker_sdk.transport.standard_streams import escape_unencodable

MEAN_TOKENS = 500
# The estimated tokens of jobs, used in turn. The API counts between half and one and a half times each estimate.
ESTIMATES = (300, 400, 500, 600, 700)
MIN_THROUGHPUT, MAX_OFF = 0.90, 0.05
# The number of requests that run at once. 25 requests a second need about 32, because each takes more than a second on
# a busy machine. The rest is a reserve.
SLOTS = 48


@dataclass(frozen=True)
class Book:
    """What the API has admitted and refused so far."""

    at_s: float
    admitted: int
    refused: int
    used: Mapping[str, int]

    @classmethod
    async def read(cls, client: httpx.AsyncClient) -> "Book":
        book = (await client.get("/book")).json()
        return cls(time.monotonic(), book["admitted"], book["refused"], book["used"])


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(prog="examples.llm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=1500, help="requests that the API admits in a window")
    parser.add_argument("--tokens", type=int, default=600_000, help="tokens that the API admits in a window")
    parser.add_argument("--window", type=float, default=60.0, help="seconds of a window")
    sys.exit(asyncio.run(show(parser.parse_args())))


async def show(options: argparse.Namespace) -> int:
    """Run the example, print what it does, and return its exit status."""
    port, model_port = _free_port(), _free_port()
    model_url = f"http://127.0.0.1:{model_port}"
    os.environ["LLM_MODEL_URL"] = model_url
    with tempfile.TemporaryDirectory(prefix="jqmaster-llm-", ignore_cleanup_errors=True) as directory:
        limits = ("--requests", str(options.requests), "--tokens", str(options.tokens))
        window = ("--window", str(options.window))
        model = start("model", Path(directory), "-m", "examples.llm.model", str(model_port), *limits, *window)
        try:
            async with (
                running_system(
                    Path(directory), port, worker="examples.llm.tasks:tasks", max_jobs=SLOTS
                ) as system,
                httpx.AsyncClient(base_url=system.url, trust_env=False) as master,
                httpx.AsyncClient(base_url=model_url, trust_env=False) as client,
            ):
                await enqueue(master, system.url, options)
                print(f"{len(TENANTS)} tenants; watch them at {system.url}", flush=True)
                # Do not count the first window: at its beginning, the API may admit all requests of its limit at once.
                await asyncio.sleep(options.window)
                before = await Book.read(client)
                await asyncio.sleep(options.minutes * 60)
                after = await Book.read(client)
        finally:
            model.process.terminate()
            model.process.wait()
    return report(before, after, options)


async def enqueue(master: httpx.AsyncClient, url: str, options: argparse.Namespace) -> None:
    """Put the constraints, and enqueue more jobs for each tenant than can run in the time."""
    for name, constraint in constraints_for(options.requests, options.tokens, options.window).items():
        answer = await master.put(f"/api/constraints/{name}", json=constraint)
        answer.raise_for_status()
    windows = options.minutes * 60 / options.window + 3
    total, weights = windows * options.tokens / MEAN_TOKENS, sum(WEIGHTS[plan] for plan in TENANTS.values())
    async with Pusher(url) as pusher:
        for tenant, plan in TENANTS.items():
            count = int(total * WEIGHTS[plan] / weights * 1.3) + 20
            await pusher.enqueue_many((JOB, argument(tenant, number)) for number in range(count))


def argument(tenant: str, number: int) -> dict[str, Any]:
    """Return the argument of a tenant's job."""
    # Combine each estimate with each error: the API's errors repeat every five requests, too.
    estimate = ESTIMATES[number // len(ESTIMATES) % len(ESTIMATES)]
    return {"tenant": tenant, "text": f"text {number} of {tenant}", "max_tokens": estimate, "number": number}


def report(before: Book, after: Book, options: argparse.Namespace) -> int:
    """Print what the API admitted between two snapshots of its records, and return the exit status."""
    seconds = after.at_s - before.at_s
    used = {tenant: after.used.get(tenant, 0) - before.used.get(tenant, 0) for tenant in TENANTS}
    total = sum(used.values())
    throughput = total / seconds / (options.tokens / options.window)
    print(f"{after.admitted - before.admitted:,} requests in {seconds:.0f} s, {after.refused} refused in all")
    print(f"{total:,} tokens, {throughput:.1%} of the limit")
    weights = sum(WEIGHTS[plan] for plan in TENANTS.values())
    worst = 0.0
    for tenant, plan in TENANTS.items():
        share = total * WEIGHTS[plan] / weights
        off = used[tenant] / share - 1 if share else 1.0
        worst = max(worst, abs(off))
        print(f"  {tenant:8} {plan:5} {used[tenant]:>9,} tokens, {off:+.1%} of its share")
    faults = [
        text
        for text, is_so in (
            (f"the API refused {after.refused} requests", after.refused > 0),
            (f"less than {MIN_THROUGHPUT:.0%} of the limit", throughput < MIN_THROUGHPUT),
            (f"a tenant is {worst:.1%} off its share", worst > MAX_OFF),
        )
        if is_so
    ]
    print("; ".join(faults) or "as it should be")
    return 1 if faults else 0


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
