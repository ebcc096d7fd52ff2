"""Questions about a master's promises to workers (docs/worker_protocol.md, sections 4 to 8). The kit's own worker
pulls."""

import asyncio
import re
import time
from typing import Any, Final

from jqmaster.conformance.master_under_test import MasterUnderTest, PullingWorker
from jqmaster.conformance.questions import FailedError, Questions, expect
from jqmaster.conformance.wire import new_id, new_token

TOPIC: Final[Questions[MasterUnderTest]] = Questions("claim")


@TOPIC.question(
    "registration",
    "a registration is answered with worker_id, epoch, store_time_ms, heartbeat_interval_s and lease_s",
)
async def _(master: MasterUnderTest) -> None:
    answer = (await master.register()).registered
    kinds: dict[str, tuple[type, ...]] = {
        "worker_id": (str,), "epoch": (int,), "store_time_ms": (int,),
    "heartbeat_interval_s": (int, float), "lease_s": (int, float),
    }  # fmt: skip
    for field, kind in kinds.items():
        expect(isinstance(answer.get(field), kind), f"`{field}` is {answer.get(field)!r}")
    expect(answer["lease_s"] > 2 * answer["heartbeat_interval_s"], "a lease has no room for two heartbeats")


@TOPIC.question("bad_registration", "an invalid registration is answered 422, and the answer names the field")
async def _(master: MasterUnderTest) -> None:
    good = {"url": None, "names": [master.name], "max_jobs": 1, "secret": "s" * 32}
    wrong: dict[str, Any] = {"url": 5, "names": [], "max_jobs": 0, "secret": "short"}
    for field, value in wrong.items():
        problem = await master.refused(422, "invalid", "POST", "/api/workers", {**good, field: value})
        expect(
            problem["errors"][0]["loc"][0] == field,
            f"`errors` names {problem['errors'][0]['loc']}, not {field}",
        )


@TOPIC.question("dispatch", "a claim has all fields of an offer, the argument unchanged")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    argument = {"a": [1, -1.5, None, True, "ä🙂", b"\x00\xff"]}
    job = await worker.one(await master.push(argument, timeout=7, headers={"h": "v"}))
    expect(job["argument"] == argument, f"`argument` is {job['argument']!r}")
    expect(re.fullmatch(r"[0-9a-f]{32}", job["token"]), f"`token` is {job['token']!r}")
    expect(
        (job["attempt"], job["phase"], job["name"], job["timeout"], job["headers"])
        == (1, "run", master.name, 7.0, {"h": "v"}),
        f"the claim is {job}",
    )
    beat = await worker.beat()
    expect(
        beat["store_time_ms"] - 60_000 < job["not_after_ms"] < job["lease_until_ms"] + 60_000,
        "the times are not plausible",
    )
    await worker.report(job)


@TOPIC.question("unknown_worker", "an unknown worker is answered 404 unknown_worker")
async def _(master: MasterUnderTest) -> None:
    path = f"/api/workers/{new_id()}"
    await master.refused(404, "unknown_worker", "POST", f"{path}/heartbeat", {"running": [], "free": 1})
    await master.refused(404, "unknown_worker", "POST", f"{path}/claim", {"max": 1})


@TOPIC.question(
    "heartbeat",
    "a heartbeat renews the worker's claims that it names, and its answer lists other claims as lost",
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    beat = await worker.beat()
    expect(beat["lease_until_ms"] > beat["store_time_ms"], "nothing was renewed")
    expect(
        (beat["cancel"], beat["lost"], beat["drain"], beat["detached"]) == ([], [], False, False),
        f"the answer is {beat}",
    )
    foreign = {"job_id": job["job_id"], "token": new_token()}
    worker.held.append(foreign)
    beat = await worker.beat()
    expect(beat["lost"] == [foreign], f"`lost` is {beat['lost']}")
    worker.held.remove(foreign)
    await worker.report(job)


@TOPIC.question(
    "bad_field",
    (
        "a heartbeat renews its leases even if other fields are invalid, and its answer names the "
        "invalid fields"
    ),
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    wrong: dict[str, Any] = {"free": -1, "as_of_ms": "now", "unheard_of": 1}
    for field, value in wrong.items():
        beat = await worker.beat(**{field: value})
        expect(beat["lease_until_ms"] > beat["store_time_ms"], f"an invalid `{field}` ended the lease")
        expect([one["loc"] for one in beat.get("ignored", [])] == [[field]], f"`{field}` is not in `ignored`")
    await worker.report(job)


@TOPIC.question(
    "never_taken",
    "a job that no heartbeat names waits again without counting anything, with or without `as_of_ms` in the "
    "heartbeats",
)
async def _(master: MasterUnderTest) -> None:
    offered = []
    for tells_as_of in (True, False):
        worker = await master.register()
        job_id = await master.push(max_retry=0)
        status, answer = await worker.ask_claim(wait=10)
        expect(status == 200 and len(answer["jobs"]) == 1, f"a call for jobs was answered {status}: {answer}")
        offered.append((worker, job_id, answer["jobs"][0], tells_as_of))
    lease_s, interval_s = (
        offered[0][0].registered["lease_s"],
        offered[0][0].registered["heartbeat_interval_s"],
    )
    as_of_ms = 0
    waits = {job_id for _, job_id, _, _ in offered}
    for _ in range(int(2.5 * lease_s / interval_s) + 10):
        for worker, job_id, _, tells_as_of in offered:
            beat = await worker.beat(**({"as_of_ms": as_of_ms} if tells_as_of else {}))
            as_of_ms = max(as_of_ms, beat["store_time_ms"])
            status, view = await master.ask("GET", f"/api/jobs/{job_id}")
            if view["state"] == "ready":
                waits.discard(job_id)
            expect(
                view["state"] in ("ready", "running"), f"the job is {view['state']}, cause {view['cause']}"
            )
            ended = [attempt["outcome"] for attempt in view["attempts"] if attempt["outcome"]]
            expect((view["losses"], ended) == (0, []), f"attempts of the job ended: {ended}")
        if not waits:
            return
        await asyncio.sleep(interval_s)
    raise FailedError("the job did not wait again")


@TOPIC.question(
    "neighbours", ("an invalid result does not prevent the other results of its call from counting")
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    good = {"job_id": job["job_id"], "token": job["token"], "type": "success", "result": None}
    good["finished_at"] = "2026-11-21T04:30:00.000Z"
    body = {"results": [{**good, "type": "perhaps"}, good]}
    status, answer = await master.ask("POST", f"/api/workers/{worker.id}/results", body)
    expect(status == 200, f"the call was answered {status}: {answer}")
    expect(answer["accepted"] == [job["job_id"]], f"`accepted` is {answer['accepted']}")
    expect(
        [one["index"] for one in answer.get("refused", [])] == [0], f"`refused` is {answer.get('refused')}"
    )


@TOPIC.question("outlives_lease", "a claim that heartbeats name outlives its first lease")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    lease_s, interval_s = worker.registered["lease_s"], worker.registered["heartbeat_interval_s"]
    job = await worker.one(await master.push(timeout=60))
    for _ in range(int(lease_s * 1.3 / interval_s) + 1):
        await asyncio.sleep(interval_s)
        expect((await worker.beat())["lost"] == [], "it was lost")
    answer = await worker.report(job)
    expect(answer["accepted"] == [job["job_id"]], f"the result was answered {answer}")


@TOPIC.question("result_again", "a result is accepted, and accepted again; the job has succeeded once")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    for _ in range(3):
        answer = await worker.report(job)
        expect((answer["accepted"], answer["stale"]) == ([job["job_id"]], []), f"answered {answer}")
    view = await master.expect_state(job["job_id"], "succeeded")
    expect(len(view["attempts"]) == 1, f"there are {len(view['attempts'])} attempts")


@TOPIC.question(
    "only_required",
    "a worker that sends only the required fields is registered, stays registered, and finishes its job",
)
async def _(master: MasterUnderTest) -> None:
    body = {"url": None, "names": [master.name], "max_jobs": 1, "secret": "s" * 32}
    status, registered = await master.ask("POST", "/api/workers", body)
    expect(status == 201, f"the registration was answered {status}: {registered}")
    master.workers.append(registered["worker_id"])
    path = f"/api/workers/{registered['worker_id']}"
    job_id = await master.push(max_retry=0, keep_result=True)
    status, answer = await master.ask("POST", f"{path}/claim", {"max": 1, "wait": 10}, timeout_s=25)
    expect(status == 200 and len(answer["jobs"]) == 1, f"the call for jobs was answered {status}: {answer}")
    job = answer["jobs"][0]
    claim = {"job_id": job["job_id"], "token": job["token"]}
    # Limit this wait, because a lease may be longer than the minute that a question may take.
    ends_s = time.monotonic() + min(1.2 * registered["lease_s"], 40.0)
    while time.monotonic() < ends_s:
        status, beat = await master.ask("POST", f"{path}/heartbeat", {"running": [claim], "free": 0})
        expect(status == 200, f"a heartbeat was answered {status}: {beat}")
        expect(beat["lost"] == [], "the job was lost, although every heartbeat named it")
        await asyncio.sleep(registered["heartbeat_interval_s"])
    result = {**claim, "type": "success", "result": 1, "finished_at": "2026-01-01T00:00:00Z"}
    status, answer = await master.ask("POST", f"{path}/results", {"results": [result]})
    expect((status, answer.get("accepted")) == (200, [job_id]), f"the result was answered {status}: {answer}")
    await master.expect_state(job_id, "succeeded")


@TOPIC.question("log_times", "the time of a log line is taken in milliseconds, in seconds and in ISO 8601")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    claim = {"job_id": job["job_id"], "token": job["token"]}
    times: list[int | float | str] = [1_790_000_000_000, 1_790_000_000.5, "2026-09-21T14:13:20Z"]
    lines = [{**claim, "seq": seq, "at": at, "text": str(seq)} for seq, at in enumerate(times, 1)]
    status, answer = await master.ask("POST", f"/api/workers/{worker.id}/logs", {"entries": lines})
    expect((status, answer.get("accepted")) == (200, 3), f"the lines were answered {status} {answer}")
    await worker.report(job)


@TOPIC.question(
    "logs", ("log lines of a claim are kept once and in order; lines under another token are stale")
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    claim = {"job_id": job["job_id"], "token": job["token"]}
    lines: list[dict[str, Any]] = [
        {**claim, "seq": 1, "at": 1, "text": "one"},
        {"seq": 4, "at": 2, "level": "error", "text": b"four"},
    ]
    path = f"/api/workers/{worker.id}/logs"
    for dropped in (2, 0):
        status, answer = await master.ask("POST", path, {"entries": lines})
        expect(
            (status, answer) == (200, {"accepted": 2, "dropped": dropped, "stale": []}),
            f"lines were answered {status} {answer}",
        )
    foreign = [{**claim, "token": new_token(), "seq": 1, "at": 1, "text": "foreign"}]
    status, answer = await master.ask("POST", path, {"entries": foreign})
    expect(answer.get("stale") == [job["job_id"]], f"lines under another token were answered {answer}")
    await worker.report(job)
    status, page = await master.ask("GET", f"/api/jobs/{job['job_id']}/logs")
    found = [(entry["seq"], entry["attempt"], entry["level"], entry["text"]) for entry in page["entries"]]
    expect(found == [(1, 1, "info", "one"), (4, 1, "error", "four")], f"the log is {found}")
    expect(page["dropped"] == 2, f"`dropped` is {page['dropped']}")


@TOPIC.question("stale_token", "a result under another token is stale, and changes nothing")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    answer = await worker.report(
        {**job, "token": new_token()},
        type="failure",
        reason="other",
        should_retry=False,
        error=None,
        message="x",
    )
    expect((answer["accepted"], answer["stale"]) == ([], [job["job_id"]]), f"answered {answer}")
    await master.expect_state(job["job_id"], "running")
    await worker.report(job)
    await master.expect_state(job["job_id"], "succeeded")


@TOPIC.question(
    "retry",
    "a failure is retried as a new attempt with a new token and a higher fence; the old token is stale",
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    first = await worker.one(
        await master.push(max_retry=3, retry={"base_s": 0.05, "factor": 1, "max_s": 0.05})
    )
    await worker.report(
        first, type="failure", reason="other", should_retry=True, error={"code": 7}, message="boom"
    )
    second = await worker.one(first["job_id"])
    expect(second["attempt"] == 2 and second["token"] != first["token"], f"the claim is {second}")
    expect(second["fence"] > first["fence"], f"the fences are {first['fence']} and {second['fence']}")
    expect(
        (await worker.report({**first, "token": new_token()}))["stale"] == [first["job_id"]],
        "a foreign token is not stale",
    )
    await worker.report(second)
    view = await master.expect_state(first["job_id"], "succeeded")
    expect(
        [attempt["outcome"] for attempt in view["attempts"]] == ["failure", "success"],
        f"the attempts are {view['attempts']}",
    )


@TOPIC.question("no_retry", "a failure with should_retry false ends the job as failed")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push(max_retry=3))
    await worker.report(job, type="failure", reason="other", should_retry=False, error=None, message="gone")
    view = await master.expect_state(job["job_id"], "failed")
    expect("gone" in str(view["attempts"][-1].get("message")), f"the attempt is {view['attempts'][-1]}")


@TOPIC.question("discarded", "a discarded job ends as discarded, and counts no failure")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push(max_retry=3, keep_result=True))
    for _ in range(2):
        await worker.report(job, type="discarded", message="the record was deleted")
    view = await master.expect_state(job["job_id"], "discarded")
    expect(view["failures"] == 0 and view["cause"] is None, f"{view['failures']} failures, {view['cause']}")
    last = view["attempts"][-1]
    expect(
        (last["outcome"], last["message"]) == ("discarded", "the record was deleted"),
        f"the attempt is {last}",
    )


@TOPIC.question("deferred", "a deferral delays the job and counts nothing")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push(max_retry=0))
    await worker.report(job, type="deferred", retry_after=0.2)
    again = await worker.one(job["job_id"])
    expect(again["token"] != job["token"], "the token is the same")
    await worker.report(again)
    await master.expect_state(job["job_id"], "succeeded")


@TOPIC.question("handed_back", "a job that is handed back is offered again and counts nothing")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push(max_retry=0))
    await worker.report(job, type="handed_back")
    await worker.report(await worker.one(job["job_id"]))
    await master.expect_state(job["job_id"], "succeeded")


@TOPIC.question(
    "canceled", ("the answer to a heartbeat names a canceled job until the worker has reported the job")
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    status, _ = await master.ask("POST", f"/api/jobs/{job['job_id']}/cancel")
    expect(status == 200, f"cancel was answered {status}")
    beat = await worker.beat()
    told = [*beat["cancel"], *beat["lost"]]
    expect({"job_id": job["job_id"], "token": job["token"]} in told, f"the answer is {beat}")
    await worker.report(job, type="canceled")
    await master.expect_state(job["job_id"], "canceled")
    expect((await worker.beat())["cancel"] == [], "the answer still names the job")


@TOPIC.question(
    "same_poll", "a repeated poll_id gets the same jobs with the same tokens; another poll_id does not"
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    await master.push(1)
    # Send no heartbeat between the two calls: it would name the claim, so the claim would count as received.
    _, heard = await worker.ask_claim(poll_id="one", wait=10)
    first = heard["jobs"]
    status, again = await worker.ask_claim(poll_id="one", wait=1)
    expect(
        status == 200 and first and [j["token"] for j in again["jobs"]] == [j["token"] for j in first],
        f"{heard} was answered again as {again}",
    )
    status, other = await worker.ask_claim(poll_id="two", wait=0)
    expect(other["jobs"] == [], f"another call was given {other['jobs']}")
    for job in first:
        await worker.report(job)


@TOPIC.question("refused", "a job that is refused waits again, and its next claim is attempt 1 again")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job_id = await master.push()
    status, answer = await worker.ask_claim(poll_id="one", wait=10)
    expect(status == 200 and len(answer["jobs"]) == 1, f"answered {status}: {answer}")
    claim = {"job_id": job_id, "token": answer["jobs"][0]["token"]}
    status, answer = await worker.ask_claim(poll_id="two", wait=10, refused=[claim])
    expect(status == 200 and len(answer["jobs"]) == 1, f"answered {status}: {answer}")
    (job,) = answer["jobs"]
    expect(
        (job["job_id"], job["attempt"], job["token"] != claim["token"]) == (job_id, 1, True),
        f"the claim is {job}",
    )
    await worker.report(job)


@TOPIC.question(
    "withdrawn",
    "jobs of a withdrawn call wait again; withdrawing a call that is not the newest is answered 409 "
    "no_such_poll",
)
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job_id = await master.push()
    status, answer = await worker.ask_claim(poll_id="one", wait=10)
    expect(len(answer["jobs"]) == 1, f"answered {status}: {answer}")
    path = f"/api/workers/{worker.id}/claim"
    status, _ = await master.ask("POST", path, {"poll_id": "one", "withdraw": True})
    expect(status == 200, f"the withdrawal was answered {status}")
    await master.expect_state(job_id, "ready")
    await master.refused(409, "no_such_poll", "POST", path, {"poll_id": "never", "withdraw": True})


@TOPIC.question("room", "a worker gets at most `max` jobs, and at most `max_jobs` in all")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register(max_jobs=2)
    for n in range(4):
        await master.push(n)
    first = await worker.claim(max=1)
    expect(len(first) == 1, f"with max 1, the worker got {len(first)} jobs")
    second = await worker.claim(max=4)
    expect(len(second) == 1, f"with one slot left, the worker got {len(second)} jobs")
    for job in [*first, *second]:
        await worker.report(job)


@TOPIC.question("start", "a start is confirmed for the holder's token, and stale for another token")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    job = await worker.one(await master.push())
    path = f"/api/workers/{worker.id}/start"
    claim = {"job_id": job["job_id"], "token": job["token"]}
    _, answer = await master.ask("POST", path, {"starts": [claim]})
    expect(answer == {"confirmed": [job["job_id"]], "stale": []}, f"answered {answer}")
    _, answer = await master.ask("POST", path, {"starts": [{**claim, "token": new_token()}]})
    expect(answer == {"confirmed": [], "stale": [job["job_id"]]}, f"answered {answer}")
    await worker.report(job)


@TOPIC.question("drain", "a draining worker is told to drain and gets no jobs; afterwards it gets jobs again")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    status, _ = await master.ask("POST", f"/api/workers/{worker.id}/drain")
    expect(status == 200, f"drain was answered {status}")
    expect((await worker.beat())["drain"] is True, "the answer to the heartbeat does not say so")
    job_id = await master.push()
    _, answer = await worker.ask_claim(wait=1)
    expect((answer["jobs"], answer["drain"]) == ([], True), f"the call for jobs was answered {answer}")
    await master.ask("POST", f"/api/workers/{worker.id}/resume")
    await worker.report(await worker.one(job_id))


@TOPIC.question(
    "lost",
    "if a worker falls silent, its job goes to another worker as a new attempt, and the old token is stale",
)
async def _(master: MasterUnderTest) -> None:
    worker, other = await master.register(), None
    job = await worker.one(await master.push(timeout=60))
    lease_s = worker.registered["lease_s"]
    await asyncio.sleep(lease_s + 0.5)
    other = await master.register()
    again = None
    for _ in range(15):
        found = await other.claim(wait=2)
        if found:
            (again,) = found
            break
    expect(again is not None, "no other worker gets the job")
    assert again is not None
    expect(again["token"] != job["token"] and again["fence"] > job["fence"], f"the claim is {again}")
    expect((await worker.report(job))["stale"] == [job["job_id"]], "the old token is not stale")
    await other.report(again)
    await master.expect_state(job["job_id"], "succeeded")


@TOPIC.question(
    "leaving",
    "a worker that announces its end gets no more jobs, but its reports count; a worker without an "
    "announcement still gets jobs",
)
async def _(master: MasterUnderTest) -> None:
    leaving = await master.register()
    held = await leaving.one(await master.push())
    await _announce_end(master, leaving)
    job_id = await master.push()
    status, answer = await leaving.ask_claim(wait=1)
    expect(
        status in (200, 409) and not answer.get("jobs"), f"its call for jobs was answered {status}: {answer}"
    )
    answer = await leaving.report(held)
    expect(answer["accepted"] == [held["job_id"]], f"its result was answered {answer}")
    other = await master.register()
    await other.report(await other.one(job_id))
    await master.refused(404, "unknown_worker", "POST", f"/api/workers/{new_id()}/leaving")


@TOPIC.question(
    "leaving_loss",
    "the end of a lease counts as a loss, except if the worker had announced its end",
)
async def _(master: MasterUnderTest) -> None:
    jobs = {}
    for announces in (True, False):
        worker = await master.register()
        job = await worker.one(await master.push(timeout=60, max_retry=1))
        if announces:
            await _announce_end(master, worker)
        jobs[job["job_id"]] = announces
    lease_s = worker.registered["lease_s"]
    await asyncio.sleep(lease_s + 0.5)
    other = await master.register()
    for _ in range(15):
        for job in await other.claim(wait=2):
            announces = jobs.pop(job["job_id"])
            losses = (await master.view(job["job_id"]))["losses"]
            expect(losses == (0 if announces else 1), f"{losses} losses; announced: {announces}")
            await other.report(job)
        if not jobs:
            return
    raise FailedError("the jobs were not given to another worker")


@TOPIC.question(
    "leaving_offer",
    "if a worker unregisters before a heartbeat has named a job that may run only once, the job starts "
    "elsewhere if the worker had announced its end, and fails otherwise",
)
async def _(master: MasterUnderTest) -> None:
    jobs = {}
    for announces in (True, False):
        worker = await master.register()
        job_id = await master.push(timeout=60, max_retry=0)
        status, answer = await worker.ask_claim(wait=10)
        expect(
            status == 200 and len(answer["jobs"]) == 1, f"its call for jobs was answered {status}: {answer}"
        )
        if announces:
            await _announce_end(master, worker)
        await _unregister(master, worker)
        jobs[announces] = job_id
    await asyncio.sleep(worker.registered["lease_s"] + 0.5)
    other = await master.register()
    again = await other.one(jobs[True])
    expect(
        again["attempt"] == 1,
        (f"the job never began, but its next attempt has the number {again['attempt']}"),
    )
    await other.report(again)
    for _ in range(15):
        if (await master.view(jobs[False]))["state"] != "running":
            break
        await asyncio.sleep(1)
    await master.expect_state(jobs[False], "failed")


async def _unregister(master: MasterUnderTest, worker: PullingWorker) -> None:
    status, _ = await master.ask("DELETE", f"/api/workers/{worker.id}")
    expect(status == 204, f"DELETE was answered {status}")
    master.workers.remove(worker.id)


async def _announce_end(master: MasterUnderTest, worker: PullingWorker) -> None:
    status, answer = await master.ask("POST", f"/api/workers/{worker.id}/leaving")
    expect(status == 204, f"the announcement of an end was answered {status}: {answer}")


@TOPIC.question("leave", "after a worker has unregistered, the master does not know it")
async def _(master: MasterUnderTest) -> None:
    worker = await master.register()
    await _unregister(master, worker)
    await master.refused(
        404, "unknown_worker", "POST", f"/api/workers/{worker.id}/heartbeat", {"running": [], "free": 1}
    )
