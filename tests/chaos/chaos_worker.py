"""The worker of a chaos run. It records everything it takes, starts and ends at once in its own file, an oracle outside
the system under test.

`work` naps, fails as often as told, and returns proof of which run the result belongs to. `poison` kills the process.
Settings come as CHAOS_… variables. CHAOS_WITHOUT takes mitigations away, to see whether the checker notices.
"""

import asyncio
import json
import os
import time
from typing import Any

from tests.chaos import outside_load, spend_load, task_load
from tests.chaos.backfill_load import BACKFILLED
from tests.chaos.journal import TICK_S, Journal, watch
from worker_sdk import (
    INJECTED,
    Challenged,
    CheckpointNotSaved,
    Context,
    Form,
    Gather,
    GatherContext,
    Tasks,
    Worker,
)
from worker_sdk.transport.recent import RecentMap
from worker_sdk.worker.admission import Admission
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.run import JobRun

NAME = os.environ.get("CHAOS_WORKER", "worker-0")

worker = Worker(
    master=os.environ.get("CHAOS_MASTERS", "http://127.0.0.1:8080").split(),
    max_jobs=int(os.environ.get("CHAOS_MAX_JOBS", "8")),
    port=int(os.environ.get("CHAOS_PORT", "0")),
    url=os.environ.get("CHAOS_URL"),
    # Fetch jobs instead of having them pushed.
    pull=bool(os.environ.get("CHAOS_PULL")),
    labels={"chaos": NAME},
    grace_s=float(os.environ.get("CHAOS_GRACE_S", "1")),
)
journal = Journal(os.environ.get("CHAOS_JOURNAL", os.devnull), NAME)
note = journal.note


def _claim(ctx: Context) -> dict[str, Any]:
    """Return the ID of the claim of this run."""
    return journal.claim(worker, ctx)


@worker.handler("work")
async def work(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Run `argument`: see `Journal.work`."""
    return await journal.work(worker, argument, ctx)


@worker.handler("narrow")
async def narrow(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """The same work under a limit."""
    return await work(argument, ctx)


@worker.handler("block")
def block(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Occupy a thread that nothing can stop. The lines show until when it ran, if its process ends first."""
    claim = _claim(ctx)
    note("start", **claim)
    end_s = time.monotonic() + argument["nap_s"]
    while time.monotonic() < end_s:
        time.sleep(TICK_S)
        note("tick", **claim)
    note("end", **claim, detail="success")
    return {"n": argument["n"], "fence": ctx.fence, "attempt": ctx.attempt}


@worker.handler(outside_load.OUTSIDE)
async def outside(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Open a challenge, and end as the argument says once its callbacks have arrived: see outside_load."""
    claim = _claim(ctx)
    ending = "stopped"
    note("start", **claim, detail="callback" if ctx.callbacks else "")
    try:
        if not ctx.callbacks:
            form = Form(outside_load.QUESTION) if argument["kind"] == "form" else None
            opened = await ctx.open_challenge(**outside_load.opened_with(argument), form=form)
            said = {name: argument[name] for name in ("kind", "expect", "wait_s")}
            note("opened", **claim, detail=json.dumps({"request": opened.request_id, **said}))
            await asyncio.sleep(argument["nap_s"])
            ending = "challenged"
            raise Challenged(opened.request_id)
        note(
            "callback", **claim, detail=json.dumps([outside_load.body_of(one.body) for one in ctx.callbacks])
        )
        await asyncio.sleep(argument["nap_s"])
        if ctx.attempt <= argument["fails"]:
            ending = "failure"
            raise RuntimeError(f"attempt {ctx.attempt} was told to fail")
        ending = "success"
        return {"n": argument["n"], "fence": ctx.fence, "attempt": ctx.attempt}
    finally:
        note("end", **claim, detail=ending)


@worker.handler(spend_load.SPEND)
async def spend(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Work under a limit in units, with estimates that are wrong."""
    return await work(argument, ctx)


@worker.handler(task_load.STEPPED)
async def stepped(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Run three steps, with a nap after each."""
    claim = _claim(ctx)
    ending = "stopped"
    note("start", **claim)

    async def effect(name: str) -> list[Any]:
        note("step", **claim, detail=name)
        await asyncio.sleep(0)
        return task_load.result_of_step(argument["n"], name)

    try:
        for name in task_load.STEPS:
            result = await ctx.step(name, effect, name)
            note("stepped", **claim, detail=json.dumps([name, result]))
            await asyncio.sleep(argument["nap_s"])
        if ctx.attempt <= argument["fails"]:
            ending = "failure"
            raise RuntimeError(f"attempt {ctx.attempt} was told to fail")
        ending = "success"
        return {"n": argument["n"], "fence": ctx.fence, "attempt": ctx.attempt}
    except CheckpointNotSaved:
        ending = "failure" if not ctx.cancelled else ending
        raise
    finally:
        note("end", **claim, detail=ending)


gathering = Tasks()
sealing = Tasks(seal=task_load.SEAL)


@gathering.task(task_load.GATHERED, gather=Gather(max=6, within_s=0.4))
async def gathered(rows: list[dict[str, Any]], ctx: GatherContext) -> list[dict[str, Any] | Exception]:
    """Run all rows, which end as each of them says; or together, if one breaks the first call."""
    claims = {job.job_id: _claim(job) for job in ctx.jobs}
    for claim in claims.values():
        note("start", **claim)
        note("gathered", **claim, detail=str(len(rows)))
    ends: list[dict[str, Any] | Exception] = []
    try:
        end_s = time.monotonic() + max(row["nap_s"] for row in rows)
        while time.monotonic() < end_s:
            await asyncio.sleep(TICK_S)
            for job in ctx.jobs:
                if job.cancelled and job.job_id in claims:
                    note("end", **claims.pop(job.job_id), detail="stopped")
        breaks = ctx.attempt == 1 and any(row["breaks"] for row in rows)
        for row, job in zip(rows, ctx.jobs, strict=True):
            fails = breaks or job.attempt <= row["fails"]
            ends.append(
                RuntimeError(f"attempt {job.attempt} was told to fail")
                if fails
                else {"n": row["n"], "fence": job.fence, "attempt": job.attempt}
            )
            if job.job_id in claims:
                ending = "stopped" if job.cancelled else "failure" if fails else "success"
                note("end", **claims.pop(job.job_id), detail=ending)
        if breaks:
            raise RuntimeError("a row broke the call")
        return ends
    finally:
        for claim in claims.values():
            note("end", **claim, detail="stopped")


@sealing.task(task_load.SEALED)
async def sealed(n: int, nap_s: float, fails: int, secret: str, ctx: Context = INJECTED) -> dict[str, Any]:
    """Tell what was sealed, in the argument and in the checkpoint of an earlier attempt."""
    claim = _claim(ctx)
    note("unsealed", **claim, detail=secret)
    if ctx.checkpoint is not None:
        note("unsealed", **claim, detail=ctx.checkpoint)
    ending = "stopped"
    note("start", **claim)
    try:
        await ctx.save(secret)
        await asyncio.sleep(nap_s)
        if ctx.attempt <= fails:
            ending = "failure"
            raise RuntimeError(f"attempt {ctx.attempt} was told to fail")
        ending = "success"
        return {"n": n, "fence": ctx.fence, "attempt": ctx.attempt}
    except CheckpointNotSaved:
        ending = "failure" if not ctx.cancelled else ending
        raise
    finally:
        note("end", **claim, detail=ending)


worker.run_tasks(gathering, sealing)


@worker.handler("due")
async def due(argument: str, ctx: Context) -> dict[str, Any]:
    """Run for an instant. `argument` names its definition."""
    return await work({"n": 0, "nap_s": 0.3}, ctx)


@worker.handler(BACKFILLED)
async def backfilled(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Run for an instant of the past."""
    note("backfilled", **_claim(ctx))
    return await work(argument, ctx)


@worker.handler("event-each")
@worker.handler("event-even")
@worker.handler("event-last")
async def event(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Handle one event."""
    return await work(argument, ctx)


@worker.handler("event-collected")
async def collected(argument: list[dict[str, Any]], ctx: Context) -> dict[str, Any]:
    """Handle the gathered events."""
    return await work(argument[0], ctx)


@worker.handler("poison")
async def poison(argument: dict[str, Any], ctx: Context) -> None:
    note("start", **_claim(ctx))
    os._exit(9)


def go_without(mitigation: str) -> None:
    """`memory`: forget accepted offers. `age`: treat no offer as too old. `stop`: continue after the lease ends."""
    match mitigation:
        case "memory":
            RecentMap.known = lambda self, keys, now_s: {}  # type: ignore[method-assign]
        case "age":
            judge = Admission._judge

            def judge_as_new(
                self: Admission, offer: Any, now: float, latest_ms: float | None, margin_ms: float
            ) -> Any:
                lease_ms = offer["lease_until_ms"] - offer["not_after_ms"]
                latest_ms = self._clock.latest_ms(now_s()) or 0.0
                offer["not_after_ms"] = int(latest_ms) + 1
                offer["lease_until_ms"] = offer["not_after_ms"] + lease_ms
                return judge(self, offer, now, latest_ms, margin_ms)

            Admission._judge = judge_as_new  # type: ignore[method-assign]
        case "stop":
            never = property(lambda run: float("inf"), lambda run, end_s: None)
            setattr(JobRun, "lease_end_s", never)  # noqa: B010 - not an assignment that types allow
        case _:
            raise ValueError(f"not a mitigation: {mitigation}")


def main() -> None:
    note("life")
    for mitigation in os.environ.get("CHAOS_WITHOUT", "").split():
        go_without(mitigation)
    watch(worker, {"": journal})
    worker.run()


if __name__ == "__main__":
    main()
