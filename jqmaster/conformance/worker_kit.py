"""The whole kit for workers: a fake master, a worker that registers with it, and all questions in order."""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.conformance import (
    worker_end,
    worker_heartbeats,
    worker_http,
    worker_offers,
    worker_pulls,
    worker_registration,
    worker_results,
    worker_signatures,
)
from jqmaster.conformance.false_master import FalseMaster
from jqmaster.conformance.questions import Question, QuestionOutcome, Result, ask_all, select_questions
from jqmaster.conformance.worker_under_test import WorkerUnderTest

# The order matters: questions that change the worker's identity or end the worker come last.
QUESTIONS: Final[tuple[Question[WorkerUnderTest], ...]] = tuple(
    question
    for topic in (
        worker_registration.TOPIC,
        worker_signatures.TOPIC,
        worker_http.TOPIC,
        worker_pulls.TOPIC,
        worker_offers.TOPIC,
        worker_results.TOPIC,
        worker_heartbeats.TOPIC,
        worker_end.TOPIC,
    )
    for question in topic.all
)

_QUICK_BEAT_S: Final = 0.25


# The name of a namespace with an unreachable store.
_AWAY: Final = "away"


class NoWorkerError(Exception):
    """No worker registered in time."""


async def ask_worker(
    *,
    host: str,
    port: int,
    command: str | None,
    only: Sequence[str],
    is_quick: bool,
    wait_s: float,
    lease_s: float,
    namespace: str | None = None,
    ready: Callable[[FalseMaster], None],
    told: Callable[[Result], None],
) -> list[Result]:
    """Ask the worker that `command` starts, or a worker that somebody else connects to the kit. Raises
    NoWorkerError.

    * `command`: finds the master's address and token in JQMASTER_URL and JQMASTER_TOKEN.
    * `ready`: gets the master as soon as it listens.
    * `namespace`: JQMASTER_WORKER_NAMESPACES tells the command to work in this namespace, and in another
      namespace with an unreachable store.
    """
    # Use a short heartbeat interval in quick mode, because each question waits for a heartbeat. No question waits
    # for a lease in this mode.
    beat_s = min(lease_s / 20, _QUICK_BEAT_S) if is_quick else None
    master = FalseMaster(lease_s=lease_s, beat_s=beat_s, namespace=namespace)
    await master.start(host, port)
    process: asyncio.subprocess.Process | None = None
    try:
        # Refuse the first registration, to see that the worker tries again.
        master.refusals.append((503, "store_unavailable"))
        ready(master)
        if command is not None:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                env={
                    **os.environ,
                    "JQMASTER_URL": master.url,
                    "JQMASTER_TOKEN": master.token,
                    **({"JQMASTER_WORKER_NAMESPACES": f"{_AWAY} {namespace}"} if namespace else {}),
                },
            )
        await _registered(master, process, wait_s)
        worker = WorkerUnderTest(master, process)
        await worker.settle()
        results = await ask_all(
            worker,
            select_questions(QUESTIONS, worker.mode, only, is_quick=is_quick),
            after_each=worker.settle,
            told=told,
        )
        faults = Result(
            "calls.form",
            "every call of the worker had the right form, the token and a content type",
            QuestionOutcome.FAILED if master.faults else QuestionOutcome.PASSED,
            "; ".join(master.faults)[:1000],
            0.0,
        )
        told(faults)
        return [*results, faults]
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        await master.stop()


async def _registered(master: FalseMaster, process: asyncio.subprocess.Process | None, wait_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while not (master.registrations and master.beats):
                if process is not None and process.returncode is not None:
                    raise NoWorkerError(f"the worker ended with {process.returncode} before it registered")
                await asyncio.sleep(0.05)
            return
    faults = "; ".join(master.faults) or (
        master.registrations[-1].proof_error if master.registrations else ""
    )
    raise NoWorkerError(
        f"no worker registered and sent a heartbeat within {wait_s:g} s{': ' if faults else ''}{faults}"
    )
