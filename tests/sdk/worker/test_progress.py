"""Progress and checkpoints: what running handlers report, and where the next attempt continues."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgpack
import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import CheckpointNotSaved, Context, Interrupted, Worker
from worker_sdk.worker.progress import MAX_CHECKPOINT_BYTES

pytestmark = real_time.WORKER


def told(master: FakeMaster, field: str) -> list[Any]:
    """Return this field's values in heartbeats, without repeats."""
    found: list[Any] = []
    for beat in list(master.beats):
        for claim in beat["running"]:
            if field in claim and [claim[field]] != found[-1:]:
                found.append(claim[field])
    return found


def checkpoints(master: FakeMaster) -> list[Any]:
    return [msgpack.unpackb(data) for data in told(master, "checkpoint")]


@pytest.mark.req("D21")
async def test_the_last_progress_goes_to_the_masters(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    may_end = threading.Event()

    @worker.handler("slow")
    def slow(argument: Any, ctx: Context) -> None:
        for n in range(101):
            ctx.progress(n / 100, f"row {n}" + "!" * 300)
        may_end.wait(10)

    await up()
    await master.run("slow")
    last = {"fraction": 1.0, "message": ("row 100" + "!" * 300)[:200]}
    await wait_until(lambda: last in told(master, "progress"))
    assert len(told(master, "progress")) <= 3
    may_end.set()


@pytest.mark.req("S7")
async def test_each_heartbeat_with_reports_has_a_higher_number_and_others_have_none(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("slow")
    async def slow(argument: Any, ctx: Context) -> None:
        for row in range(3):
            await ctx.save(row)

    await up()
    await master.run("slow")
    await wait_until(lambda: checkpoints(master) == [0, 1, 2])
    entries = [claim for beat in list(master.beats) for claim in beat["running"]]
    numbers = [claim["seq"] for claim in entries if "checkpoint" in claim]
    assert len(set(numbers)) >= 3
    assert numbers == sorted(numbers)
    assert all("seq" not in claim for claim in entries if {"checkpoint", "progress"}.isdisjoint(claim))


@pytest.mark.req("D21")
@pytest.mark.parametrize("kind", ["async", "sync", "failing"])
async def test_progress_told_right_before_the_end_arrives_first(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], kind: str
) -> None:
    async def aslow(argument: Any, ctx: Context) -> int:
        ctx.progress(0.5, "half")
        ctx.progress(1.0, "all")
        if kind == "failing":
            raise OSError
        return 1

    def slow(argument: Any, ctx: Context) -> int:
        ctx.progress(1.0, "all")
        return 1

    worker.handler("slow")(slow if kind == "sync" else aslow)
    await up()
    for _ in range(3):
        job = await master.run("slow")
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert result["type"] == ("failure" if kind == "failing" else "success")
        reported = [
            claim["job_id"] for beat in master.beats for claim in beat["running"] if "progress" in claim
        ]
        assert reported[-1] == job["job_id"]
        assert told(master, "progress")[-1] == {"fraction": 1.0, "message": "all"}


async def test_progress_that_no_master_takes_holds_up_no_end(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("slow")
    async def slow(argument: Any, ctx: Context) -> int:
        ctx.progress(1.0, "all")
        return 1

    await up()
    master.answers_heartbeats = False
    job = await master.run("slow", timeout=1.0)
    assert await wait_until(lambda: master.result(job["job_id"]))
    master.answers_heartbeats = True


async def test_a_message_that_cannot_be_sent_holds_up_no_heartbeat(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    may_end = asyncio.Event()

    @worker.handler("slow")
    async def slow(argument: Any, ctx: Context) -> None:
        ctx.progress(0.5, "half \ud800")
        await may_end.wait()

    await up()
    await master.run("slow")
    await wait_until(lambda: {"fraction": 0.5, "message": "half ?"} in told(master, "progress"))
    may_end.set()


async def test_progress_out_of_range_is_refused(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("wrong")
    async def wrong(argument: Any, ctx: Context) -> None:
        ctx.progress(argument)

    await up()
    for fraction in (1.01, -0.1, float("nan")):
        job = await master.run("wrong", fraction)
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert "between 0 and 1" in result["message"]
    assert not told(master, "progress")


@pytest.mark.req("S7")
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_checkpoint_is_saved_when_save_returns(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    seen: list[Any] = []

    async def aimport(argument: Any, ctx: Context) -> Any:
        seen.append(ctx.checkpoint)
        await ctx.save({"row": 1})
        seen.append((ctx.checkpoint, checkpoints(master)))

    def sync_import(argument: Any, ctx: Context) -> Any:
        seen.append(ctx.checkpoint)
        ctx.save({"row": 1})
        seen.append((ctx.checkpoint, checkpoints(master)))

    worker.handler("import")(aimport if is_async else sync_import)
    await up()
    job = await master.run("import", checkpoint=msgpack.packb({"row": 0}))
    await wait_until(lambda: master.result(job["job_id"]))
    assert seen == [{"row": 0}, ({"row": 1}, [{"row": 1}])]


async def test_a_checkpoint_waits_for_a_master(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("import")
    async def aimport(argument: Any, ctx: Context) -> Any:
        await asyncio.gather(*[ctx.save(n) for n in range(3)])
        return ctx.checkpoint

    await up()
    master.answers_heartbeats = False
    job = await master.run("import")
    await wait_until(lambda: checkpoints(master))
    assert master.result(job["job_id"]) is None
    master.answers_heartbeats = True
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["result"] == 2
    assert checkpoints(master)[-1] == 2


async def test_a_checkpoint_of_a_job_that_is_lost_does_not_count(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    ended: list[BaseException | None] = []

    @worker.handler("import")
    def sync_import(argument: Any, ctx: Context) -> None:
        ctx.cancelled.wait(10)
        for _ in range(2):
            try:
                ctx.save(1)
            except CheckpointNotSaved as exc:
                ended.append(exc)

    await up()
    job = await master.run("import")
    master.lost.add(job["token"])
    await wait_until(lambda: len(ended) == 2)
    assert "not this worker's any more" in str(ended[0])


async def test_a_checkpoint_that_is_too_large_is_refused_here(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("import")
    async def aimport(argument: Any, ctx: Context) -> None:
        await ctx.save("x" * MAX_CHECKPOINT_BYTES)

    await up()
    job = await master.run("import")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert "at most 16384 bytes" in result["message"]
    assert not checkpoints(master)


async def test_a_master_of_an_older_release_costs_checkpoints_and_no_lease(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    def older(body: Any) -> Any:
        for n, claim in enumerate(body["running"]):
            if unknown := claim.keys() - {"job_id", "token"}:
                errors = [{"loc": ["running", n, field], "msg": "unknown field"} for field in unknown]
                return 422, {"status": 422, "code": "invalid", "detail": "refused", "errors": errors}, {}
        return None

    master.hooks["heartbeat"] = older

    @worker.handler("import")
    async def aimport(argument: Any, ctx: Context) -> str:
        ctx.progress(0.5)
        try:
            await ctx.save(1)
        except CheckpointNotSaved as exc:
            return str(exc)
        return "saved"

    await up()
    for _ in range(2):
        job = await master.run("import")
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert "older release" in result["result"]


async def test_a_master_that_does_not_know_numbers_of_reports_gets_them_without(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    refused = 0

    def older(body: Any) -> Any:
        nonlocal refused
        errors = [
            {"loc": ["running", n, "seq"], "msg": "unknown field"}
            for n, claim in enumerate(body["running"])
            if "seq" in claim
        ]
        refused += bool(errors)
        return (
            (422, {"status": 422, "code": "invalid", "detail": "no", "errors": errors}, {})
            if errors
            else None
        )

    master.hooks["heartbeat"] = older

    @worker.handler("import")
    async def aimport(argument: Any, ctx: Context) -> str:
        for row in range(3):
            ctx.progress(row / 3)
            await ctx.save(row)
        return "saved"

    await up()
    job = await master.run("import")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["result"] == "saved"
    assert checkpoints(master)[-1] == 2
    assert refused == 1


async def test_a_checkpoint_that_a_master_left_out_is_not_saved(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    def leaves_out(body: Any) -> Any:
        ignored = [
            {"loc": ["running", n, "checkpoint"], "msg": "too large"}
            for n, claim in enumerate(body["running"])
            if "checkpoint" in claim
        ]
        now_ms = master.now_ms()
        answer = {
            "epoch": master.epoch, "store_time_ms": now_ms, "lease_until_ms": now_ms + 5_000, "cancel": [], "lost": [],
            "drain": False, "detached": False, "ignored": ignored,
        }  # fmt: skip
        return (200, answer, {}) if ignored else None

    master.hooks["heartbeat"] = leaves_out

    @worker.handler("import")
    async def aimport(argument: Any, ctx: Context) -> str:
        try:
            await ctx.save(1)
        except CheckpointNotSaved as exc:
            return str(exc)
        return "saved"

    await up()
    job = await master.run("import")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert "too large" in result["result"]
    assert "masters ignore fields of the heartbeats: running.0.checkpoint" in caplog.text


class Source:
    """The source of an iteration's rows."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self) -> Any:
        match self.kind:
            case "list":
                return list(range(10))
            case "generator":
                return iter(range(10))
            case "from":
                return lambda done: range(done, 10)
            case "async":
                return self._rows(0)
            case _:
                return self._rows

    @staticmethod
    async def _rows(done: int) -> AsyncIterator[int]:
        for n in range(done, 10):
            yield n


@pytest.mark.req("S7")
@pytest.mark.parametrize("source", ["list", "generator", "from", "async", "async from"])
async def test_an_iteration_goes_on_where_the_attempt_before_failed(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], source: str
) -> None:
    seen: list[int] = []

    @worker.handler("import")
    async def aimport(argument: int, ctx: Context) -> None:
        async for row in ctx.iterate(Source(source)(), every_s=60):
            if row == argument:
                raise ValueError("a bad row")
            seen.append(row)

    await up()
    job = await master.run("import", 4)
    await wait_until(lambda: master.result(job["job_id"]))
    (data,) = told(master, "checkpoint")
    assert msgpack.unpackb(data) == 4
    job = await master.run("import", None, checkpoint=data)
    await wait_until(lambda: master.result(job["job_id"]))
    assert seen == list(range(10))


async def test_an_iteration_tells_how_far_it_is(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("import")
    def sync_import(argument: Any, ctx: Context) -> int:
        return sum(ctx.iterate(range(4), every_s=0.0))

    await up()
    job = await master.run("import")
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == 6
    assert checkpoints(master) == [1, 2, 3, 4]
    assert told(master, "progress")[0] == {"fraction": 0.25, "message": "1 of 4"}


async def test_a_track_tells_and_saves_nothing(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    may_end = asyncio.Event()

    @worker.handler("track")
    async def track(argument: Any, ctx: Context) -> None:
        async for _ in ctx.track(iter(range(3)), every_s=0.0):
            pass
        await may_end.wait()

    await up()
    await master.run("track")
    await wait_until(lambda: {"fraction": None, "message": "3"} in told(master, "progress"))
    assert not checkpoints(master)
    may_end.set()


@pytest.mark.req("S7", "M4")
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_worker_that_ends_saves_the_position_before_it_hands_the_job_back(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    reached = threading.Event()
    interrupted: list[BaseException] = []

    def endless() -> Iterator[int]:
        n = 0
        while True:
            yield n
            n += 1

    async def aimport(argument: Any, ctx: Context) -> None:
        async for n in ctx.iterate(endless(), every_s=60):
            if n == 100:
                reached.set()
            await asyncio.sleep(0.001)

    def sync_import(argument: Any, ctx: Context) -> None:
        try:
            for n in ctx.iterate(endless(), every_s=60):
                if n == 100:
                    reached.set()
                ctx.cancelled.wait(0.001)
        except Interrupted as exc:
            interrupted.append(exc)
            raise

    worker.grace_s = 0.1
    worker.handler("import")(aimport if is_async else sync_import)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("import")
        await wait_until(reached.is_set)
    result = master.result(job["job_id"])
    assert result is not None
    assert result["type"] == "handed_back"
    assert checkpoints(master)[-1] >= 100
    assert bool(interrupted) is not is_async


async def test_a_checkpoint_that_is_no_position_is_not_iterated_from(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("import")
    def sync_import(argument: Any, ctx: Context) -> None:
        list(ctx.iterate([1]))

    @worker.handler("wrong")
    def wrong(argument: Any, ctx: Context) -> None:
        list(ctx.track(Source("async")()))

    await up()
    job = await master.run("import", checkpoint=msgpack.packb("row 5"))
    assert "either iterate or save" in (await wait_until(lambda: master.result(job["job_id"])))["message"]
    job = await master.run("wrong")
    assert "async for" in (await wait_until(lambda: master.result(job["job_id"])))["message"]


async def test_an_isolated_handler_saves_too(master: FakeMaster) -> None:
    worker = handlers.worker
    worker.master = master.url
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("isolated.iterate", 3)
        result = await wait_until(lambda: master.result(job["job_id"]))
        assert "at 3" in result["message"]
        assert checkpoints(master)[-1] == 3
        job = await master.run("isolated.iterate", checkpoint=told(master, "checkpoint")[-1])
        result = await wait_until(lambda: master.result(job["job_id"]))
        assert result["result"] == [[3, 4], 5]
        assert {"fraction": 1.0, "message": "5 of 5"} in told(master, "progress")
