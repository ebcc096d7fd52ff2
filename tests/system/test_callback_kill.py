"""Outside work whose worker, master or store is killed: in each phase, and between a callback and its run."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, Process, running
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [
    pytest.mark.system, pytest.mark.req("P2", "P3", "P6", "M3"), pytest.mark.timeout(240), real_time.PROCESSES,
]  # fmt: skip

WITHIN_S = 60.0
# Writes down each phase at its start. In the phase named in the file `hold`, it waits until killed.
PROGRAM = """
import asyncio, json, os, pathlib
from worker_sdk import OutsideWork, Ready, Worker

journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
hold = pathlib.Path(os.environ["HOLD"])

async def note(phase, ctx, **more):
    line = {"phase": phase, "attempt": ctx.attempt, "key": ctx.idempotency_key, **more}
    os.write(journal, json.dumps(line).encode() + b"\\n")
    while hold.exists() and hold.read_text() == phase:
        await asyncio.sleep(0.02)

class Ship(OutsideWork):
    name = "order.ship"

    async def prepare(self, argument, ctx):
        await note("prepare", ctx)
        return Ready()

    async def challenge(self, argument, ctx):
        opened = await ctx.open_challenge()
        await note("challenge", ctx, url=opened.callback_url)

    async def on_callback(self, callback, ctx):
        await note("callback", ctx, body=callback.body.decode())
        return callback.json()

worker = Worker(os.environ["MASTER"])
worker.outside(Ship())
worker.run()
"""


class Parts:
    """A master with its store, and worker processes."""

    def __init__(self, directory: Path) -> None:
        self.journal, self.hold = directory / "journal", directory / "hold"
        self.master = MasterProcess(directory)
        program = directory / "worker.py"
        program.write_text(PROGRAM)
        self.worker, self.other = (
            Process(
                [str(program)],
                directory / f"{name}.log",
                MASTER=self.master.url,
                JOURNAL=str(self.journal),
                HOLD=str(self.hold),
            )
            for name in ("worker", "other")
        )

    def notes(self, phase: str) -> list[dict[str, Any]]:
        lines = self.journal.read_bytes().splitlines() if self.journal.exists() else []
        return [note for note in map(json.loads, lines) if note["phase"] == phase]

    async def until(self, phase: str, count: int = 1) -> dict[str, Any]:
        """Return the newest note of a phase once there are enough."""
        await wait_until(
            lambda: len(self.notes(phase)) >= count, timeout_s=WITHIN_S, what=f"{phase} no. {count}"
        )
        return self.notes(phase)[-1]

    def holds(self, phase: str) -> None:
        self.hold.write_text(phase)

    async def post(self, note: dict[str, Any], body: bytes = b'{"shipped": true}') -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as outside:
            return (await outside.post(note["url"], content=body)).status_code


async def state_is(pusher: Pusher, job_id: str, state: str) -> dict[str, Any]:
    async def reached() -> bool:
        return bool((await pusher.status(job_id))["state"] == state)

    await wait_until(reached, timeout_s=WITHIN_S, what=f"the job is {state}")
    return dict(await pusher.status(job_id))


@pytest.mark.parametrize(
    ("phase", "is_answered", "challenges", "attempt"),
    [
        ("prepare", False, 1, 2),
        ("challenge", False, 2, 2),
        ("challenge", True, 1, 1),
        ("callback", True, 1, 1),
    ],
)
async def test_a_worker_that_is_killed_in_any_phase_loses_no_callback_and_no_order(
    tmp_path: Path, phase: str, is_answered: bool, challenges: int, attempt: int
) -> None:
    """Without the callback the next attempt starts afresh; with it, the same attempt continues with the callback."""
    parts = Parts(tmp_path)
    parts.holds(phase)
    with running(parts.master, parts.worker):
        async with Pusher(parts.master.url, max_wait_s=WITHIN_S) as pusher:
            job_id = await pusher.enqueue("order.ship", max_retry=3)
            former = None
            if phase != "prepare":
                former = await parts.until("challenge")
            if is_answered:
                assert former is not None
                assert await parts.post(former) == 202
            await parts.until(phase)
            await asyncio.to_thread(parts.worker.kill)
            parts.hold.unlink()
            await asyncio.to_thread(parts.worker.start)
            opened = await parts.until("challenge", challenges)
            if not is_answered:
                await state_is(pusher, job_id, "awaiting_callback")
                assert await parts.post(opened) == 202
            job = await state_is(pusher, job_id, "succeeded")
            assert (job["attempt"], job["losses"], job["failures"]) == (attempt, 1, 0)
            if former is not None:
                # The former challenge counts if its callback was taken, and is over otherwise.
                assert await parts.post(former) == (200 if is_answered else 410)
            runs = parts.notes("callback")
            assert len(runs) == (2 if phase == "callback" else 1)
            assert {(run["body"], run["attempt"]) for run in runs} == {('{"shipped": true}', attempt)}
            assert len(parts.notes("challenge")) == challenges
            assert {note["key"] for note in parts.notes("challenge")} == {job_id}
        assert await asyncio.to_thread(parts.master.troubles_of_store) == []


async def test_a_worker_that_falls_silent_while_it_runs_the_callback_loses_it_to_another(
    tmp_path: Path,
) -> None:
    """The worker stands still, and its report comes after the job has finished."""
    parts = Parts(tmp_path)
    parts.holds("callback")
    with running(parts.master, parts.worker):
        async with Pusher(parts.master.url, max_wait_s=WITHIN_S) as pusher:
            job_id = await pusher.enqueue("order.ship", max_retry=3)
            assert await parts.post(await parts.until("challenge")) == 202
            await parts.until("callback")
            parts.worker.signal(signal.SIGSTOP)
            parts.hold.unlink()
            try:
                with running(parts.other):
                    job = await state_is(pusher, job_id, "succeeded")
            finally:
                parts.worker.signal(signal.SIGCONT)
            assert (job["attempt"], job["losses"]) == (1, 1)
            first, second = parts.notes("callback")
            assert first == second
            assert len(parts.notes("challenge")) == 1
            assert (await pusher.status(job_id))["losses"] == 1


@pytest.mark.parametrize("victim", ["master", "store"])
async def test_a_callback_that_was_taken_is_run_although_the_master_or_the_store_is_killed(
    tmp_path: Path, victim: str
) -> None:
    parts = Parts(tmp_path)
    with running(parts.master):
        async with Pusher(parts.master.url, max_wait_s=WITHIN_S) as pusher:
            job_id = await pusher.enqueue("order.ship", max_retry=0)
            with running(parts.worker):
                opened = await parts.until("challenge")
                await state_is(pusher, job_id, "awaiting_callback")
            # Without a worker, the callback is only stored.
            assert await parts.post(opened) == 202
            if victim == "master":
                await asyncio.to_thread(parts.master.kill)
                await asyncio.to_thread(parts.master.start)
            else:
                await asyncio.to_thread(parts.master.kill_store)
            with running(parts.other):
                job = await state_is(pusher, job_id, "succeeded")
            assert (job["attempt"], job["losses"], job["failures"]) == (1, 0, 0)
            (run,) = parts.notes("callback")
            assert run["body"] == '{"shipped": true}'

            async def is_repeated() -> bool:
                return await parts.post(opened) == 200

            await wait_until(is_repeated, timeout_s=WITHIN_S)
        assert await asyncio.to_thread(parts.master.troubles_of_store) == []
