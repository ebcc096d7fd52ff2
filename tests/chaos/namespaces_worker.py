"""The worker of a chaos run that works in several namespaces, with a file for each.

CHAOS_NAMESPACES names them. CHAOS_MASTERS has the addresses of the masters without a namespace, and CHAOS_JOURNAL the
beginning of the files' names.
"""

import os
from typing import Any, Final

from tests.chaos.journal import Journal, run_of, watch
from worker_sdk import Context, Worker

NAME: Final = os.environ.get("CHAOS_WORKER", "worker-0")
NAMESPACES: Final = os.environ.get("CHAOS_NAMESPACES", "default").split()

worker = Worker(
    os.environ.get("CHAOS_MASTERS", "http://127.0.0.1:8080").split(),
    namespaces=NAMESPACES,
    max_jobs=int(os.environ.get("CHAOS_MAX_JOBS", "8")),
    pull=bool(os.environ.get("CHAOS_PULL")),
    labels={"chaos": NAME},
    grace_s=float(os.environ.get("CHAOS_GRACE_S", "1")),
)
journals: Final = {
    name: Journal(f"{os.environ.get('CHAOS_JOURNAL', os.devnull)}-{name}", NAME)
    for name in NAMESPACES
    if "CHAOS_JOURNAL" in os.environ
}


@worker.handler("work")
async def work(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Run `argument`: see `Journal.work`."""
    namespace, _ = run_of(worker, ctx)
    return await journals[namespace].work(worker, argument, ctx)


def main() -> None:
    for journal in journals.values():
        journal.note("life")
    watch(worker, journals)
    worker.run()


if __name__ == "__main__":
    main()
