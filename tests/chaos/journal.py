"""The file in which a worker of a chaos run records everything that it takes, starts and ends, an oracle outside the
system under test."""

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.chaos.history import Line, write_line
from worker_sdk import Context, Discard, Worker
from worker_sdk.worker.admission import Admission
from worker_sdk.worker.identity import Registered, WorkerIdentity
from worker_sdk.worker.run import JobRun

# Half a tick of delay is normal. After this long, nothing of this process ran.
TICK_S, STALL_S = 0.05, 0.15
# More than the claims that one worker holds at a time.
_KEPT_EPOCHS: Final = 1_000


class Journal:
    """`name`: the worker's."""

    def __init__(self, path: str, name: str) -> None:
        self._name = name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._epochs: dict[str, int] = {}

    def note(self, what: str, **said: Any) -> None:
        os.write(self._file, write_line(Line(what, self._name, os.getpid(), time.monotonic(), **said)))

    def note_offers(self, epoch: int, offers: Sequence[Any], answer: Any) -> None:
        reasons = {item["job_id"]: item["reason"] for item in answer["rejected"]}
        for offer in offers:
            verdict = reasons.get(offer["job_id"], "accepted")
            if verdict == "accepted":
                self._epochs.setdefault(offer["token"], epoch)
                if len(self._epochs) > _KEPT_EPOCHS:
                    del self._epochs[next(iter(self._epochs))]
            self.note(
                "offer", job_id=offer["job_id"], attempt=offer["attempt"], token=offer["token"], fence=offer["fence"],
                epoch=epoch, detail=verdict,
            )  # fmt: skip

    def claim(self, worker: Worker, ctx: Context) -> dict[str, Any]:
        """Return the ID of the claim of a run, with its epoch."""
        _, run = run_of(worker, ctx)
        return {
            "job_id": ctx.job_id, "attempt": ctx.attempt, "token": run.token, "fence": ctx.fence,
            "epoch": self._epochs.get(run.token, 0),
        }  # fmt: skip

    async def work(self, worker: Worker, argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Run `argument`: {n, nap_s, fails: how many attempts fail, discards: whether the next one finds nothing to
        do}. Return proof of which run the result belongs to."""
        claim = self.claim(worker, ctx)
        ending = "stopped"
        self.note("start", **claim)
        # For a limit in units, the line of the start is the call of an outside system, which is answered by now.
        if argument.get("used") is not None:
            ctx.used(tokens=argument["used"])
        try:
            await asyncio.sleep(argument.get("nap_s", 0))
            if ctx.attempt <= argument.get("fails", 0):
                ending = "failure"
                raise RuntimeError(f"attempt {ctx.attempt} was told to fail")
            if argument.get("discards"):
                ending = "discarded"
                raise Discard("told to")
            ending = "success"
            return {"n": argument["n"], "fence": ctx.fence, "attempt": ctx.attempt}
        finally:
            self.note("end", **claim, detail=ending)


def run_of(worker: Worker, ctx: Context) -> tuple[str, JobRun]:
    """Return the namespace of this run, which is empty for a worker with one address, and the run."""
    assert worker._node is not None
    for member in worker._node.members:
        run = member.executor.occupying.get(ctx.job_id)
        if run is not None and run.ctx is ctx:
            return member.namespace, run
    raise AssertionError("a run of no worker")


def watch(worker: Worker, journals: Mapping[str, Journal]) -> None:
    """Note offers and registrations where they are judged, because handlers do not learn their token, epoch and worker
    ID; and when this process does not get to run: too few cores are a fault like any other. `journals`: by namespace.
    """
    judge, join = Admission.offer, WorkerIdentity.joined

    def journal_of(part: Admission | WorkerIdentity) -> Journal:
        assert worker._node is not None
        members = worker._node.members
        return next(journals[one.namespace] for one in members if part in (one.admission, one.identity))

    def offer(self: Admission, epoch: int, offers: Sequence[Any]) -> Any:
        answer = judge(self, epoch, offers)
        journal_of(self).note_offers(epoch, offers, answer)
        return answer

    def joined(self: WorkerIdentity, answer: Any) -> Registered:
        member = join(self, answer)
        journal_of(self).note("registered", detail=member.worker_id)
        return member

    Admission.offer = offer  # type: ignore[method-assign]
    WorkerIdentity.joined = joined  # type: ignore[method-assign]
    threading.Thread(target=_watch_for_stalls, args=[journals], name="stalls", daemon=True).start()


def _watch_for_stalls(journals: Mapping[str, Journal]) -> None:
    before = time.monotonic()
    while True:
        time.sleep(TICK_S)
        now = time.monotonic()
        if now - before > TICK_S + STALL_S:
            for journal in journals.values():
                journal.note("stall", detail=f"{now - before:.3f}")
        before = now
