"""Steps: calls that run once in the life of a job, whatever ends its attempts."""

import asyncio
import dataclasses
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.sdk.worker.test_progress import told
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import INJECTED, CheckpointNotSaved, Context, Fail, Tasks, Worker
from worker_sdk.pusher.by_process import Pushers
from worker_sdk.testing import WorkerHarness, drain
from worker_sdk.worker import kept_steps
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.progress import MAX_CHECKPOINT_BYTES

pytestmark = [pytest.mark.req("S7", "S14"), real_time.WORKER]


# --- killed at every point


class KilledError(BaseException):
    """The process of the attempt is gone."""


class Killer:
    """Counts the points that an attempt reaches, and ends it at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.reached: list[str] = []

    def reach(self, point: str) -> None:
        self.reached.append(point)
        if len(self.reached) - 1 == self.at:
            raise KilledError


class StoreOfReports:
    """A master's memory of one job, and the points on the way to it."""

    def __init__(self) -> None:
        self.checkpoint: bytes | None = None
        self.killer = Killer(None)
        self.told: set[str] = set()

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        self.killer.reach("sent")
        self.checkpoint = checkpoint
        self.killer.reach("stored")
        saved: Future[None] = Future()
        saved.set_result(None)
        return saved

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        """Progress is not a matter of steps."""


def context_of(reports: Any, attempt: int = 1) -> Context:
    return Context(
        "018f0000-0000-7000-8000-000000000000", "order.pay", attempt, attempt, {}, now_s() + 60,
        cast("Pushers", None), reports, "token", reports.checkpoint,
    )  # fmt: skip


class Order:
    """A job of three steps and a checkpoint of its own between them."""

    names = ("charge", "book", "mail")

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async
        self.kept = StoreOfReports()
        self.effects: Counter[str] = Counter()

    def _effect(self, name: str) -> str:
        self.kept.killer.reach(f"before {name}")
        self.effects[name] += 1
        self.kept.killer.reach(f"after {name}")
        return name.upper()

    async def _aeffect(self, name: str) -> str:
        await asyncio.sleep(0)
        return self._effect(name)

    def _run(self, ctx: Context) -> list[str]:
        done = []
        for name in self.names:
            done.append(ctx.step(name, self._effect, name))
            self.kept.killer.reach(f"between, behind {name}")
            ctx.save([name])
        return done

    async def _arun(self, ctx: Context) -> list[str]:
        done = []
        for name in self.names:
            done.append(await ctx.step(name, self._aeffect, name))
            self.kept.killer.reach(f"between, behind {name}")
            await ctx.save([name])
        return done

    def attempt(self, kill_at: int | None) -> list[str] | None:
        """Run an attempt; return the results, or None if it was killed."""
        self.kept.killer = Killer(kill_at)
        ctx = context_of(self.kept)
        try:
            return asyncio.run(self._arun(ctx)) if self.is_async else self._run(ctx)
        except KilledError:
            return None

    def unconfirmed(self) -> str | None:
        """Return the step whose effect the killed attempt had caused, without a save of its result."""
        *before, last = self.kept.killer.reached
        name = next(
            (point.split()[1] for point in reversed([*before, last]) if point.startswith("before")), None
        )
        if last == f"after {name}" or (last == "sent" and before[-1] == f"after {name}"):
            return name
        return None


@pytest.mark.parametrize("is_async", [True, False])
def test_a_step_runs_once_more_only_if_it_was_killed_between_its_effect_and_its_save(is_async: bool) -> None:
    whole = Order(is_async=is_async)
    assert whole.attempt(None) == ["CHARGE", "BOOK", "MAIL"]
    points = len(whole.kept.killer.reached)
    assert points >= 3 * 7  # what an attempt reaches: three of the step, two of each save
    # One kill, and two of those in which the second attempt begins with a step that was kept, or not.
    for kills in itertools.product(range(points), [None, *range(0, points, 3)]):
        order = Order(is_async=is_async)
        expected = Counter(Order.names)
        for kill_at in kills:
            if order.attempt(kill_at) is None and (name := order.unconfirmed()) is not None:
                expected[name] += 1
        assert order.attempt(None) == ["CHARGE", "BOOK", "MAIL"], kills
        assert order.effects == expected, kills


async def test_an_isolated_step_that_was_saved_survives_kill_9(tmp_path: Path) -> None:
    log = tmp_path / "effects"
    harness = WorkerHarness(handlers.worker)
    steps: Any = {}
    for kill_at in ("in a", "behind a", "in b", ""):
        ending = await harness.run("isolated.steps", [str(log), kill_at], steps=steps)
        steps = ending.steps
        assert ending.type == ("failure" if kill_at else "success"), ending.fields
    assert ending.result == ["A", "B"]
    # Each is done once more than it was killed before its save.
    assert log.read_text() == "aabb"


# --- at a master


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_result_is_with_a_master_before_the_next_step_begins(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_async: bool
) -> None:
    seen: list[Any] = []

    def look(name: str) -> str:
        seen.append((name, [kept_steps.results_of(data) for data in told(master, "checkpoint")][-1:]))
        return name

    async def alook(name: str) -> str:
        return look(name)

    async def apay(argument: Any, ctx: Context) -> str:
        return await ctx.step("one", alook, "first") + await ctx.step("two", alook, "second")

    def pay(argument: Any, ctx: Context) -> str:
        return ctx.step("one", look, "first") + ctx.step("two", look, "second")

    worker.handler("order.pay")(apay if is_async else pay)
    await up()
    job = await master.run("order.pay")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["result"] == "firstsecond"
    assert seen == [("first", []), ("second", [{"one": "first"}])]
    job = await master.run("order.pay", checkpoint=told(master, "checkpoint")[-1])
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["result"], len(seen)) == ("firstsecond", 2)


async def test_a_step_that_ended_is_saved_before_its_job_is_handed_back(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    charged = asyncio.Event()

    async def charge() -> int:
        charged.set()
        return 7

    @worker.handler("order.pay")
    async def pay(argument: Any, ctx: Context) -> None:
        await ctx.step("charge", charge)
        await asyncio.sleep(60)

    worker.grace_s = 0.0
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        # The save cannot be answered before the worker ends.
        master.answers_heartbeats = False
        job = await master.run("order.pay")
        await wait_until(charged.is_set)
        ending = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        master.answers_heartbeats = True
        await ending
    result = master.result(job["job_id"])
    assert result is not None
    assert result["type"] == "handed_back"
    assert kept_steps.results_of(told(master, "checkpoint")[-1]) == {"charge": 7}


async def test_a_step_of_a_job_that_is_lost_does_not_count(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    raised: list[Exception] = []
    charging = threading.Event()
    may_end = threading.Event()

    def charge() -> None:
        charging.set()
        may_end.wait(10)

    @worker.handler("order.pay")
    def pay(argument: Any, ctx: Context) -> None:
        for name in ("charge", "mail"):
            try:
                ctx.step(name, charge)
            except Exception as exc:
                raised.append(exc)

    await up()
    job = await master.run("order.pay")
    await wait_until(charging.is_set)
    master.lost.add(job["token"])
    await wait_until(lambda: not worker._node or worker._node.executor.occupying[job["job_id"]].stopping)
    may_end.set()
    await wait_until(lambda: len(raised) == 2)
    assert [type(exc).__name__ for exc in raised] == ["CheckpointNotSaved", "Interrupted"]
    assert isinstance(raised[0], CheckpointNotSaved)


# --- what a handler may do with them

tasks = Tasks()


@dataclasses.dataclass
class Receipt:
    number: int
    lines: tuple[str, ...] = ()


def charge(order: int) -> Receipt:
    return Receipt(order, ("a", "b"))


async def acharge(order: int) -> Receipt:
    return Receipt(order, ("a", "b"))


@tasks.task("order.sync")
def pay(order: int, ctx: Context = INJECTED) -> str:
    return repr(ctx.step("charge", charge, order))


@tasks.task("order.async")
async def apay(order: int, ctx: Context = INJECTED) -> str:
    return repr(await ctx.step("charge", acharge, order))


@tasks.task("order.thread")
async def tpay(order: int, ctx: Context = INJECTED) -> str:
    return repr(await ctx.step("charge", asyncio.to_thread, charge, order))


@pytest.mark.parametrize("task", [pay, apay, tpay])
async def test_all_attempts_get_the_annotated_type(task: Any) -> None:
    harness = WorkerHarness(tasks)
    first = await harness.run(task.to_job(5))
    assert first.steps == {"charge": {"number": 5, "lines": ["a", "b"]}}
    second = await harness.run(task.to_job(6), steps=first.steps)
    assert first.result == second.result == "Receipt(number=5, lines=('a', 'b'))"
    # A result may also be given as the function would return it.
    assert (await harness.run(task.to_job(6), steps={"charge": Receipt(9)})).result.startswith(
        "Receipt(number=9"
    )


def run(
    handler: Callable[[Context], Any], *, checkpoint: Any = None, steps: Any = None
) -> tuple[Any, StoreOfReports]:
    """Run a `def` handler; return what it returned or raised, and what is kept."""
    kept = StoreOfReports()
    saved = None if checkpoint is None else bytes(msgpack.packb(checkpoint))
    kept.checkpoint = kept_steps.with_results(saved, steps or {})
    try:
        return handler(context_of(kept)), kept
    except Exception as exc:
        return exc, kept


def test_results_belong_to_names_in_any_order_and_among_any_others() -> None:
    ran: list[str] = []

    def note(name: str) -> str:
        ran.append(name)
        return name

    def newer(ctx: Context) -> list[str]:
        return [ctx.step(name, note, name) for name in ("ship", "new", "charge")]

    done = {"charge": "old charge", "ship": "old ship", "gone": 1}
    result, kept = run(newer, steps=done)
    assert (result, ran) == (["old ship", "new", "old charge"], ["new"])
    assert kept_steps.results_of(kept.checkpoint) == done | {"new": "new"}


def test_a_kept_result_that_does_not_fit_the_new_type_is_refused() -> None:
    raised, _ = run(lambda ctx: ctx.step("charge", charge, 1), steps={"charge": "a text"})
    assert isinstance(raised, ValueError)
    assert "Give the step another name" in str(raised)


def test_a_name_stands_for_one_step_of_an_attempt() -> None:
    raised, _ = run(lambda ctx: [ctx.step("charge", charge, order) for order in range(2)])
    assert "called twice" in str(raised)
    raised, _ = run(lambda ctx: [ctx.step("a", len, "a") for _ in range(2)], steps={"a": 1})
    assert "called twice" in str(raised)


def test_a_step_that_raised_may_be_tried_again_in_the_same_attempt() -> None:
    tries: list[int] = []

    def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError
        return len(tries)

    def again(ctx: Context) -> int:
        try:
            return ctx.step("load", flaky)
        except OSError:
            return ctx.step("load", flaky)

    result, kept = run(again)
    assert (result, kept_steps.results_of(kept.checkpoint)) == (2, {"load": 2})


@pytest.mark.parametrize("name", ["", "x" * 101, 7, None])
def test_a_name_that_cannot_be_is_refused_before_the_call(name: Any) -> None:
    raised, kept = run(lambda ctx: ctx.step(name, charge, 1))
    assert "1 to 100 characters" in str(raised)
    assert kept.checkpoint is None


def test_a_value_that_is_no_call_is_refused() -> None:
    raised, _ = run(lambda ctx: ctx.step("charge", cast("Any", charge(1))))
    assert "pass the function and its arguments" in str(raised)


async def test_the_function_fits_the_handler() -> None:
    raised, kept = await asyncio.to_thread(run, lambda ctx: ctx.step("charge", acharge, 1))
    assert "make the handler an async def" in str(raised)
    assert kept.checkpoint is None
    kept = StoreOfReports()
    with pytest.raises(TypeError, match=r"asyncio\.to_thread, charge"):
        await cast("Any", context_of(kept)).step("charge", charge, 1)
    # A function that turns out to be async only when it is called works, too.
    later = functools.partial(acharge, 3)
    assert await context_of(kept).step("charge", later) == Receipt(3, ("a", "b"))


# --- results that can be kept


def unknown() -> Any:
    return {1: "a"}


def opaque() -> object:
    return threading.Lock()


def text_for_number() -> int:
    return cast("int", "a text")


def unannotated():  # type: ignore[no-untyped-def]
    return (1, 2)


@pytest.mark.parametrize("function", [unknown, opaque, text_for_number, unannotated])
def test_a_result_that_would_not_come_back_ends_the_job(function: Callable[[], Any]) -> None:
    raised, kept = run(lambda ctx: ctx.step("odd", function))
    assert isinstance(raised, Fail)
    assert kept.checkpoint is None


def test_a_type_that_cannot_travel_is_refused_before_the_call() -> None:
    def connect() -> threading.Thread:
        raise AssertionError("it is not called")

    raised, _ = run(lambda ctx: ctx.step("connect", connect))
    assert isinstance(raised, TypeError)

    def later() -> "Missing":  # type: ignore[name-defined]  # noqa: F821
        raise AssertionError("it is not called")

    raised, _ = run(lambda ctx: ctx.step("later", later))
    assert "cannot be resolved" in str(raised)


def test_values_without_annotations_and_classes_may_be_plain() -> None:
    result, _ = run(lambda ctx: [ctx.step("length", len, "abc"), ctx.step("number", int, "5")])
    assert result == [3, 5]


def test_results_and_checkpoint_share_the_bytes_of_a_checkpoint() -> None:
    calls: list[int] = []

    def large(size: int) -> str:
        calls.append(size)
        return "x" * size

    raised, kept = run(lambda ctx: ctx.step("large", large, MAX_CHECKPOINT_BYTES))
    assert isinstance(raised, Fail)
    assert "16384 bytes together" in str(raised)
    assert (len(calls), kept.checkpoint) == (1, None)

    def beside(ctx: Context) -> None:
        ctx.step("large", large, 16_000)
        ctx.save("y" * 1_000)

    raised, kept = run(beside)
    assert isinstance(raised, ValueError)
    assert kept.checkpoint is not None
    # A step for which there is no room at all is not begun.
    filled = "x" * (MAX_CHECKPOINT_BYTES - 40)
    raised, _ = run(lambda ctx: ctx.step("more", large, 1), steps={"large": filled})
    assert isinstance(raised, Fail)
    assert calls == [MAX_CHECKPOINT_BYTES, 16_000]


# --- beside checkpoints


def test_checkpoints_keep_their_meaning_beside_steps() -> None:
    def both(ctx: Context) -> list[Any]:
        seen = [ctx.checkpoint]
        ctx.step("charge", charge, 1)
        seen.append(ctx.checkpoint)
        ctx.save("here")
        return [*seen, ctx.checkpoint]

    result, kept = run(both, checkpoint={"row": 5})
    assert result == [{"row": 5}, {"row": 5}, "here"]
    assert kept_steps.own_value(kept.checkpoint) == "here"
    assert list(kept_steps.results_of(kept.checkpoint)) == ["charge"]


def test_a_handler_that_calls_no_step_keeps_those_of_earlier_versions() -> None:
    _, kept = run(lambda ctx: ctx.save(5), steps={"charge": 1})
    assert kept_steps.results_of(kept.checkpoint) == {"charge": 1}
    _, kept = run(lambda ctx: ctx.save(5))
    # Workers that know no steps read this.
    assert kept.checkpoint == msgpack.packb(5)


def test_an_extension_of_the_application_is_no_step() -> None:
    own = msgpack.ExtType(5, b"x")
    result, kept = run(lambda ctx: (ctx.save(own), ctx.checkpoint)[1], checkpoint=own)
    assert result == own
    assert kept.checkpoint == msgpack.packb(own)


def test_an_iteration_goes_on_beside_steps() -> None:
    seen: list[int] = []

    def rows(ctx: Context) -> None:
        ctx.step("charge", charge, 1)
        for row in ctx.iterate(range(5), every_s=60):
            if row == 3 and ctx.attempt == 1:
                raise OSError
            seen.append(row)

    kept = StoreOfReports()
    ctx = context_of(kept)
    with pytest.raises(OSError, match=r"^$"):
        rows(ctx)
    kept.checkpoint = ctx.take_unsaved()
    rows(context_of(kept, attempt=2))
    assert seen == [0, 1, 2, 3, 4]
    assert kept_steps.own_value(kept.checkpoint) == 5


def test_a_position_for_which_there_is_no_room_costs_no_step() -> None:
    kept = StoreOfReports()
    kept.checkpoint = kept_steps.with_results(None, {"large": "x" * (MAX_CHECKPOINT_BYTES - 30)})
    ctx = context_of(kept)
    ctx.unsaved = 1 << 40
    assert ctx.take_unsaved() is None
    assert context_of(kept).take_unsaved() is None


async def test_steps_side_by_side_are_all_kept() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0)
        return value

    kept = StoreOfReports()
    ctx = context_of(kept)
    assert await asyncio.gather(*(ctx.step(f"n{n}", number, n) for n in range(5))) == list(range(5))
    assert kept_steps.results_of(kept.checkpoint) == {f"n{n}": n for n in range(5)}


def test_threads_of_a_handler_may_share_its_steps() -> None:
    def all_at_once(ctx: Context) -> None:
        threads = [threading.Thread(target=ctx.step, args=(f"n{n}", len, "x" * n)) for n in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    _, kept = run(all_at_once)
    assert kept_steps.results_of(kept.checkpoint) == {f"n{n}": n for n in range(8)}


def test_a_drained_job_hands_its_steps_on() -> None:
    own = Tasks()
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        return len(calls)

    @own.task("order.flaky")
    def flaky(ctx: Context = INJECTED) -> int:
        found = ctx.step("count", count)
        if ctx.attempt < 3:
            raise OSError
        return found

    [ended] = drain([flaky.to_job()])
    assert (ended.result, ended.attempts, ended.steps, ended.checkpoint) == (1, 3, {"count": 1}, None)
