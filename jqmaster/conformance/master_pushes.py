"""Questions about a master's promises to pushers."""

import asyncio
import time
from typing import Final

from jqmaster.conformance.master_under_test import MasterUnderTest
from jqmaster.conformance.questions import Questions, expect
from jqmaster.conformance.wire import new_id

TOPIC: Final[Questions[MasterUnderTest]] = Questions("push")


@TOPIC.question("accepted", "a push is answered 201 with the ID; the job is ready")
async def _(master: MasterUnderTest) -> None:
    job = await master.expect_state(await master.push({"a": 1}, priority=-3, tags=["t"]), "ready")
    expect(
        (job["name"], job["argument"], job["priority"]) == (master.name, {"a": 1}, -3), f"the job is {job}"
    )


@TOPIC.question(
    "own_id",
    "a repeated push with the same ID and content is answered 200, and there is one job; different content "
    "is answered 409 id_taken",
)
async def _(master: MasterUnderTest) -> None:
    job_id = await master.push(1, id=new_id())
    status, answer = await master.ask("POST", "/api/jobs", {"name": master.name, "argument": 1, "id": job_id})
    expect((status, answer.get("id")) == (200, job_id), f"the same again was answered {status}: {answer}")
    await master.refused(
        409, "id_taken", "POST", "/api/jobs", {"name": master.name, "argument": 2, "id": job_id}
    )


@TOPIC.question(
    "idempotency_key",
    "an Idempotency-Key does the same without an ID; other content is answered 409 idempotency_key_reused",
)
async def _(master: MasterUnderTest) -> None:
    key = {"Idempotency-Key": new_id()}
    found = [
        await master.ask("POST", "/api/jobs", {"name": master.name, "argument": 1}, headers=key)
        for _ in range(2)
    ]
    master.pushed.append(found[0][1]["id"])
    expect([status for status, _ in found] == [201, 200], f"answered {[status for status, _ in found]}")
    expect(found[0][1]["id"] == found[1][1]["id"], "one key created two jobs")
    await master.refused(
        409, "idempotency_key_reused", "POST", "/api/jobs", {"name": master.name, "argument": 2}, headers=key
    )


@TOPIC.question("bulk", "a bulk is answered 201 with the IDs in order")
async def _(master: MasterUnderTest) -> None:
    status, answer = await master.ask(
        "POST", "/api/jobs/bulk", {"jobs": [{"name": master.name, "argument": n} for n in range(5)]}
    )
    expect(status == 201, f"answered {status}: {answer}")
    master.pushed += answer["ids"]
    views = [await master.view(job_id) for job_id in answer["ids"]]
    expect([view["argument"] for view in views] == list(range(5)), "the IDs are in another order")


@TOPIC.question(
    "bulk_refused",
    ("one invalid job refuses a whole bulk, and the answer names each invalid job by its index"),
)
async def _(master: MasterUnderTest) -> None:
    good = new_id()
    jobs = [{"name": master.name, "id": good}, {"name": ""}, {"name": master.name, "priority": "x"}]
    problem = await master.refused(422, "invalid", "POST", "/api/jobs/bulk", {"jobs": jobs})
    found = [error["loc"][:2] for error in problem["errors"]]
    expect(found == [["jobs", 1], ["jobs", 2]], f"`errors` names {found}")
    await master.refused(404, "unknown_job", "GET", f"/api/jobs/{good}")


@TOPIC.question("delay", "a job with a delay is scheduled, and `run` makes it ready at once")
async def _(master: MasterUnderTest) -> None:
    job_id = await master.push(delay=3600)
    await master.expect_state(job_id, "scheduled")
    status, _ = await master.ask("POST", f"/api/jobs/{job_id}/run")
    expect(status == 200, f"run was answered {status}")
    await master.expect_state(job_id, "ready")


@TOPIC.question(
    "cancel", "a waiting job is canceled; after that, `run` is answered 409 with its state as the code"
)
async def _(master: MasterUnderTest) -> None:
    job_id = await master.push()
    status, job = await master.ask("POST", f"/api/jobs/{job_id}/cancel")
    expect((status, job["state"]) == (200, "canceled"), f"answered {status}: {job}")
    await master.refused(409, "job_canceled", "POST", f"/api/jobs/{job_id}/run")


@TOPIC.question("unknown", "a missing job is answered 404 unknown_job, and its result is null")
async def _(master: MasterUnderTest) -> None:
    for job_id in (new_id(), "nonsense"):
        await master.refused(404, "unknown_job", "GET", f"/api/jobs/{job_id}")
    status, result = await master.ask("GET", f"/api/jobs/{new_id()}/result")
    expect((status, result) == (200, None), f"the result was answered {status}: {result}")


@TOPIC.question(
    "result_waits",
    "the result of a job that is not over is answered 202 with its state, after `wait` at the latest",
)
async def _(master: MasterUnderTest) -> None:
    job_id = await master.push(keep_result=True)
    began_s = time.monotonic()
    status, answer = await master.ask("GET", f"/api/jobs/{job_id}/result?wait=1")
    expect((status, answer.get("state")) == (202, "ready"), f"answered {status}: {answer}")
    expect(0.8 <= time.monotonic() - began_s < 6, f"it took {time.monotonic() - began_s:.1f} s")


@TOPIC.question("result_comes", "a call that waits for a result is answered when the job ends")
async def _(master: MasterUnderTest) -> None:
    job_id = await master.push(keep_result=True)
    waiting = asyncio.create_task(master.ask("GET", f"/api/jobs/{job_id}/result?wait=20"))
    worker = await master.register()
    job = await worker.one(job_id)
    await worker.report(job, type="success", result={"width": 320})
    began_s = time.monotonic()
    status, result = await waiting
    expect(
        (status, result.get("type"), result.get("result")) == (200, "success", {"width": 320}),
        f"answered {status}: {result}",
    )
    expect(time.monotonic() - began_s < 3, "the answer came late")


@TOPIC.question("result_not_kept", "the result of a job without keep_result is null")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job_id = await master.push()
    await worker.report(await worker.one(job_id), type="success", result=1)
    status, result = await master.ask("GET", f"/api/jobs/{job_id}/result")
    expect((status, result) == (200, None), f"answered {status}: {result}")


@TOPIC.question(
    "priority",
    (
        "jobs start in the order of their priority, the lowest number first, and the "
        "oldest first within one priority"
    ),
)
async def _(master: MasterUnderTest) -> None:
    ids = [await master.push(priority=priority) for priority in (5, 0, 0, -5)]
    worker = await master.register()
    found: list[str] = []
    for _ in ids:
        for job in await worker.claim(max=1, wait=5):
            found.append(job["job_id"])
            await worker.report(job)
    expect(
        found == [ids[3], ids[1], ids[2], ids[0]], f"the order was {[ids.index(job_id) for job_id in found]}"
    )


@TOPIC.question("why", "GET /api/jobs/{id}/why says why a job waits")
async def _(master: MasterUnderTest) -> None:
    status, answer = await master.ask("GET", f"/api/jobs/{await master.push()}/why")
    expect(status == 200 and answer, f"answered {status}: {answer}")
