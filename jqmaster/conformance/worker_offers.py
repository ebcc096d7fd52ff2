"""Offers: the jobs that a worker takes or refuses, and the reasons (docs/worker_protocol.md, section 4)."""

import asyncio
from typing import Any, Final

import msgpack

from jqmaster.conformance.false_master import Fields
from jqmaster.conformance.questions import Questions, WorkerMode, expect, remains, until
from jqmaster.conformance.raw_http import RawMessage
from jqmaster.conformance.wire import MSGPACK, decode, encode, new_token
from jqmaster.conformance.worker_under_test import SLEEP, WorkerUnderTest, claim_of, verdicts

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("offer")


@TOPIC.question("runs", "a job runs, and its result is the handler's")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(argument={"greeting": "ohayō"})
    await worker.give(job)
    item = await worker.result_of(job)
    expect(item.get("type") == "success", f"reported as {item.get('type')}: {item.get('message')}")
    expect(item.get("result") == {"greeting": "ohayō"}, f"the result is {item.get('result')!r}")


VALUES: Final[dict[str, Any]] = {
    "nil": None,
    "booleans": [True, False],
    "integers": [0, -1, 127, 128, -32769, 2**31, 2**53, -(2**53)],
    "floats": [0.5, -1.25e10],
    "text": ["", "ä🙂", "a" * 300],
    "binary": {"digest": bytes(range(8))},
    "nested": {"a": [{"b": [[], {}]}]},
    "long": ["x"] * 70_000,
}

for _name, _value in VALUES.items():

    def _value_of(name: str, value: Any) -> None:
        @TOPIC.question(f"value_{name}", f"an argument comes through unchanged: {name}")
        async def _(worker: WorkerUnderTest) -> None:
            job = worker.job(argument=value)
            await worker.give(job)
            item = await worker.result_of(job)
            expect(item.get("type") == "success", f"reported as {item.get('type')}: {item.get('message')}")
            expect(item.get("result") == value, f"the result is {str(item.get('result'))[:100]}")

    _value_of(_name, _value)


@TOPIC.question("many", "the jobs of one push are judged and run one by one")
async def _(worker: WorkerUnderTest) -> None:
    jobs = [worker.job(argument=n) for n in range(min(3, worker.max_jobs))]
    await worker.give(*jobs)
    for n, job in enumerate(jobs):
        expect((await worker.result_of(job)).get("result") == n, "a job has the result of another job")


@TOPIC.question("mixed", "a worker may take some jobs of a push and refuse others", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    good, unknown, late = (
        worker.job(),
        worker.job("conformance.unknown"),
        worker.job(not_after_ms=worker.master.now_ms() - 1),
    )
    found = await worker.push(good, unknown, late)
    expect(
        [found[j["job_id"]] for j in (good, unknown, late)] == ["accepted", "unknown_name", "too_late"],
        f"answered {list(found.values())}",
    )
    await worker.result_of(good)


@TOPIC.question(
    "same_token",
    "a token that is offered again is accepted again, four times, and started once",
    WorkerMode.PUSH,
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(SLEEP, 1.0)
    for _ in range(3):
        expect(await worker.offer(job) == "accepted", "the token was refused")
    await worker.result_of(job)
    expect(await worker.offer(job) == "accepted", "the token was refused after its job had ended")
    await remains(
        lambda: len({id(r) for r in worker.reports_of(job)}) == 1, "the job was reported twice", 1.5
    )


@TOPIC.question("twice_in_a_push", "a token that occurs twice in one push is started once", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job()
    answer = await worker.send("POST", "/jobs", worker.body_of(job, job))
    expect(answer.status == 200, f"answered {answer.status}")
    await worker.result_of(job)
    await remains(lambda: len(worker.reports_of(job)) == 1, "the job was reported twice", 3 * worker.beat_s)


@TOPIC.question(
    "unknown_name",
    "a job without a handler for its name is refused as unknown_name, even if it is offered again",
    WorkerMode.PUSH,
)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job("conformance.unknown")
    for _ in range(2):
        verdict = await worker.offer(job)
        expect(verdict == "unknown_name", f"answered {verdict}")


@TOPIC.question(
    "unknown_name_pull", ("the worker does not take a job without a handler for its name"), WorkerMode.PULL
)
async def _(worker: WorkerUnderTest) -> None:
    expect(await worker.offer(worker.job("conformance.unknown")) == "rejected", "it was taken")


@TOPIC.question("unknown_phase", "a phase other than run is refused as unknown_name")
async def _(worker: WorkerUnderTest) -> None:
    verdict = await worker.offer(worker.job(phase="tomorrow"))
    expect(verdict in ("unknown_name", "rejected"), f"answered {verdict}")


@TOPIC.question("too_late", "an offer after its not_after_ms is refused as too_late")
async def _(worker: WorkerUnderTest) -> None:
    verdict = await worker.offer(worker.job(not_after_ms=worker.master.now_ms() - 50))
    expect(verdict in ("too_late", "rejected"), f"answered {verdict}")


@TOPIC.question("lease_over", "an offer with a lease that is over or nearly over is refused as too_late")
async def _(worker: WorkerUnderTest) -> None:
    verdict = await worker.offer(worker.job(lease_until_ms=worker.master.now_ms() + 20))
    expect(verdict in ("too_late", "rejected"), f"answered {verdict}")


@TOPIC.question("duplicate", "a job that runs here under another token is refused as duplicate")
async def _(worker: WorkerUnderTest) -> None:
    first = await worker.running()
    # Offer an older claim of the job. A newer claim might be accepted, and would wait for the end of the run.
    second = worker.job(SLEEP, 20.0, job_id=first["job_id"], fence=first["fence"] - 1)
    verdict = await worker.offer(second)
    expect(verdict in ("duplicate", "rejected"), f"answered {verdict}")
    await worker.stop(first)


@TOPIC.question(
    "busy",
    "an offer beyond max_jobs is refused as busy, and the same token stays refused when there is room again",
    WorkerMode.PUSH,
)
async def _(worker: WorkerUnderTest) -> None:
    held = [worker.job(SLEEP, 20.0) for _ in range(worker.max_jobs)]
    await worker.give(*held)
    late = worker.job()
    verdict = await worker.offer(late)
    expect(verdict == "busy", f"answered {verdict}")
    worker.master.script.cancel += [claim_of(job) for job in held]
    for job in held:
        await worker.result_of(job)
    await until(lambda: not worker.master.beats[-1].tokens, "the canceled jobs are still named")
    verdict = await worker.offer(late)
    expect(verdict == "busy", f"with room the same token was answered {verdict}")
    verdict = await worker.offer(worker.job(job_id=late["job_id"], token=new_token()))
    expect(verdict == "accepted", f"with room another token was answered {verdict}")


@TOPIC.question("stale_epoch", "a push of an older leader is refused as stale_epoch")
async def _(worker: WorkerUnderTest) -> None:
    master = worker.master
    master.epoch += 1
    first = worker.job()
    expect(await worker.offer(first) == "accepted", "a push of a newer leader was refused")
    await worker.result_of(first)
    master.epoch -= 1
    try:
        if worker.mode is WorkerMode.PUSH:
            verdict = await worker.offer(worker.job())
            expect(verdict == "stale_epoch", f"answered {verdict}")
        else:
            expect(await worker.offer(worker.job()) == "rejected", "it was taken")
    finally:
        master.epoch += 1


@TOPIC.question("epoch_of_a_heartbeat", "the epoch of a heartbeat's answer counts as well", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    worker.master.epoch += 1
    await worker.beats(2)
    await asyncio.sleep(0.1)
    verdict = (await worker.push(job := worker.job(), epoch=worker.master.epoch - 1))[job["job_id"]]
    expect(verdict == "stale_epoch", f"answered {verdict}")


@TOPIC.question("malformed", "an invalid push is answered 422, and none of its jobs starts", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    good = worker.job()
    for field in ("job_id", "token", "name", "timeout", "not_after_ms"):
        broken = worker.job()
        del broken[field]
        answer = await worker.send("POST", "/jobs", worker.body_of(good, broken))
        expect(answer.status == 422, f"without `{field}` it was answered {answer.status}")
    nonsense: tuple[Fields, ...] = ({"jobs": None}, {"jobs": {}}, {"epoch": "1"})
    for fields in nonsense:
        answer = await worker.send("POST", "/jobs", worker.body_of(good, **fields))
        expect(answer.status == 422, f"{fields} was answered {answer.status}")
    await remains(lambda: not worker.was_accepted(good), "a job was started", 2 * worker.beat_s)


@TOPIC.question("future_fields", "unknown fields in a push and in a job are ignored")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(argument=1, a_field_of_tomorrow={"x": [None]})
    if worker.mode is WorkerMode.PUSH:
        found = await worker.push(job, a_field_of_tomorrow=1)
        expect(found[job["job_id"]] == "accepted", f"answered {found[job['job_id']]}")
    else:
        await worker.give(job)
    await worker.result_of(job)


@TOPIC.question(
    "undecodable",
    ("an argument that the worker's language cannot represent does not affect other jobs"),
    WorkerMode.PUSH,
)
async def _(worker: WorkerUnderTest) -> None:
    # Both values are valid MessagePack: an application's extension type, and a map with an array as a key.
    for value in (msgpack.packb(msgpack.ExtType(42, b"?")), b"\x81\x91\x01\x02"):
        odd, good = worker.job(argument="@@odd@@"), worker.job(argument="good")

        async def offered(*jobs: Fields, value: bytes = value) -> RawMessage:
            body = worker.body_of(*jobs).replace(encode("@@odd@@", MSGPACK), value)
            return await worker.send("POST", "/jobs", body)

        answer = await offered(odd, good)
        if answer.status in (400, 422):
            # The worker refused the whole push. Offer the jobs again one by one with the same tokens, as a master does.
            await _starts_nothing(worker, good)
            expect((await worker.push(good))[good["job_id"]] == "accepted", "the other job alone was refused")
            alone = await offered(odd)
            found = verdicts(decode(alone.body, MSGPACK), [odd["job_id"]]) if alone.status == 200 else {}
        else:
            expect(answer.status == 200, f"the push was answered {answer.status}")
            found = verdicts(decode(answer.body, MSGPACK), [odd["job_id"], good["job_id"]])
            expect(found[good["job_id"]] == "accepted", f"the other job was answered {found[good['job_id']]}")
        expect((await worker.result_of(good)).get("result") == "good", "the other job has another result")
        if found.get(odd["job_id"]) == "accepted":
            item = await worker.result_of(odd)
            expect(item.get("type") in ("success", "failure"), f"reported as {item.get('type')}")


async def _starts_nothing(worker: WorkerUnderTest, job: Fields) -> None:
    await remains(lambda: not worker.was_accepted(job), "a job was started", 2 * worker.beat_s)


@TOPIC.question(
    "set_back",
    "after the store's clock was set back, earlier offers are refused as too_late, and newer offers are "
    "taken",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    master = worker.master
    await worker.beats(2)
    old = worker.job(not_after_ms=master.now_ms() + 120_000, lease_until_ms=master.now_ms() + 180_000)
    master.ahead_ms -= 60_000
    try:
        await worker.beats(2)
        await asyncio.sleep(0.1)
        verdict = await worker.offer(old)
        expect(verdict in ("too_late", "rejected"), f"the old offer was answered {verdict}")
        fresh = worker.job(argument=1)
        verdict = await worker.offer(fresh)
        expect(verdict == "accepted", f"an offer by the new time was answered {verdict}")
        await worker.result_of(fresh)
    finally:
        master.ahead_ms += 60_000
        await worker.beats(3)
