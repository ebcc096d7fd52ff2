"""A process of a chaos run that works for several namespaces, with a file for each.

CHAOS_NAMESPACES names them. CHAOS_MASTERS has the addresses of the masters without a namespace, and CHAOS_JOURNAL the
beginning of the files' names.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any, Final

from tests.chaos.journal import Journal, watch
from worker_sdk import Context, Worker

NAME: Final = os.environ.get("CHAOS_WORKER", "worker-0")


def worker_for(namespace: str, masters: Sequence[str]) -> tuple[Worker, Journal]:
    """Return a worker of this namespace with its file."""
    worker = Worker(
        [f"{url}/ns/{namespace}" for url in masters],
        max_jobs=int(os.environ["CHAOS_MAX_JOBS"]),
        pull=bool(os.environ.get("CHAOS_PULL")),
        labels={"chaos": NAME},
        grace_s=float(os.environ["CHAOS_GRACE_S"]),
    )
    journal = Journal(f"{os.environ['CHAOS_JOURNAL']}-{namespace}", NAME)

    @worker.handler("work")
    async def work(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return await journal.work(worker, argument, ctx)

    return worker, journal


async def serve(worker: Worker, journal: Journal, until: asyncio.Event) -> None:
    async with worker.running():
        await until.wait()
        node, worker_id = worker._node, worker.worker_id
    if node is not None and worker_id is not None and not node._has_told_leaving(worker_id):
        journal.note("left", detail=worker_id)


async def main() -> None:
    pairs = [
        worker_for(name, os.environ["CHAOS_MASTERS"].split())
        for name in os.environ["CHAOS_NAMESPACES"].split()
    ]
    for _, journal in pairs:
        journal.note("life")
    watch(pairs)
    until = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, until.set)
    async with asyncio.TaskGroup() as group:
        for worker, journal in pairs:
            group.create_task(serve(worker, journal, until))


if __name__ == "__main__":
    asyncio.run(main())
