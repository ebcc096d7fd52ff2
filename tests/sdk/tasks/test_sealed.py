"""Sealed arguments: what pushers and workers know, and nobody in between."""

import asyncio
import base64
import builtins
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import (
    INJECTED,
    INPUT,
    Batch,
    Context,
    Debounce,
    Discard,
    Fail,
    Gather,
    GatherContext,
    JobFailed,
    Retry,
    Seal,
    SealError,
    Tasks,
    Unique,
    UnreadableResult,
    Worker,
    chain,
)
from worker_sdk.sealing import is_sealed
from worker_sdk.tasks.handler import handler_of
from worker_sdk.testing import WorkerHarness, drain, inline, recording
from worker_sdk.wire import decode, encode

pytestmark = [pytest.mark.req("S7", "S14"), real_time.WORKER]

# The process of an isolated handler imports this file anew.
OLD, NEW = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
SECRET = "4111 1111 1111 1111"
PLAIN = SECRET.encode()

tasks = Tasks(seal=Seal(keys={"2026a": OLD}, clear=["tenant", "order.region", "order.none", "nobody"]))


@tasks.task("card.charge", keep_result=True)
def charge(tenant: str, card: str, order: dict[str, Any] | None = None, ctx: Context = INJECTED) -> str:
    number = ctx.step("number", len, card)
    ctx.save({"card": card})
    ctx.emit(card)
    if tenant == "bad":
        raise ValueError(f"no such card: {card}")
    return f"{tenant} {number} {card}"


@tasks.task("card.check", keep_result=True)
async def check(card: str, ctx: Context = INJECTED) -> str:
    return f"checked {card}"


@tasks.task("card.isolated", isolated=True)
def in_own_process(card: str, ctx: Context = INJECTED) -> str:
    ctx.save(card)
    if card == "bad":
        raise ValueError(f"no such card: {SECRET}")
    return card


def with_keys(**keys: str) -> Tasks:
    """Return tasks of the same functions with other keys."""
    others = Tasks(seal=Seal(keys=keys))
    for task in tasks:
        others.task(task.name, isolated=task.isolated, **task.options)(task.function)
    return others


# --- what is readable


def test_only_the_clear_paths_of_an_argument_are_readable() -> None:
    job = charge.to_job("acme", card=SECRET, order={"region": "eu", "street": SECRET})
    argument = job["argument"]
    assert argument.pop("sealed_with") == "2026a"
    assert isinstance(sealed := argument.pop("sealed"), bytes)
    assert argument == {"tenant": "acme", "order": {"region": "eu"}}
    assert PLAIN not in sealed
    assert job["tags"] == ["sealed:2026a"]
    assert charge.using(tags=["import"]).to_job("acme", card=SECRET)["tags"] == ["import", "sealed:2026a"]
    # People who write a test want to see them.
    assert job.arguments["card"] == SECRET


async def test_nothing_that_goes_to_a_master_holds_what_is_sealed(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    master.hooks["parts"] = lambda body: (200, {"accepted": len(body["parts"])}, {})
    worker.run_tasks(tasks)
    await up()
    jobs = [charge.to_job(tenant, card=SECRET) for tenant in ("acme", "bad")]
    pushed = [{**master.dispatch("card.charge", job["argument"]), "job_id": job.id} for job in jobs]
    await master.push(*pushed)
    good, bad = [await wait_until(lambda job=job: master.result(job.id)) for job in jobs]
    # Lines of the failure would follow its report.
    await wait_until(lambda: master.count("/heartbeat") > 3)
    for _, path, body in list(master.calls):
        assert PLAIN not in msgpack.packb(body, datetime=True), path
    assert SECRET in caplog.text  # the worker's own log tells
    seal = tasks.seal
    assert seal is not None
    assert seal.opened(good["result"], "result", jobs[0].id) == f"acme 19 {SECRET}"
    assert (bad["error"]["type"], bad["message"]) == ("ValueError", "ValueError (sealed with 2026a)")
    error, message = seal.opened_failure(bad["error"], bad["message"], jobs[1].id)
    assert (error["message"], message) == (f"no such card: {SECRET}", f"ValueError: no such card: {SECRET}")
    assert "Traceback" in error["traceback"]


async def test_all_that_a_job_holds_is_opened_in_the_next_attempt() -> None:
    harness = WorkerHarness(tasks)
    job = charge.to_job("bad", card=SECRET)
    first = await harness.run(job)
    assert (first.type, first.fields["message"]) == ("failure", f"ValueError: no such card: {SECRET}")
    assert (first.checkpoint, first.steps, first.parts) == ({"card": SECRET}, {"number": 19}, [SECRET])
    [run] = drain([charge.using(max_retry=1).to_job("bad", card=SECRET)], raises=False)
    assert (run.attempts, run.checkpoint, run.steps, run.parts) == (
        2, {"card": SECRET}, {"number": 19}, [SECRET],
    )  # fmt: skip
    assert run.reports.checkpoint is not None
    assert PLAIN not in run.reports.checkpoint


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (Fail(f"a {SECRET}"), "a message (sealed with 2026a)"),
        (Retry(message=f"a {SECRET}"), "a message (sealed with 2026a)"),
        (Discard(f"a {SECRET}"), "a message (sealed with 2026a)"),
        (KeyError(SECRET), "KeyError (sealed with 2026a)"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_texts_of_all_ends_are_sealed(raised: Exception, message: str) -> None:
    own = Tasks(seal=tasks.seal)

    @own.task("card.fail", max_retry=0)
    def fail() -> None:
        raise raised

    [run] = drain([fail.to_job()], raises=False)
    assert run.fields is not None
    assert run.fields["message"] == message
    assert PLAIN not in encode(dict(run.fields))


async def test_isolated_and_gathered_handlers_open_and_seal() -> None:
    harness = WorkerHarness(tasks)
    ending = await harness.run(in_own_process.to_job(SECRET))
    assert (ending.type, ending.result, ending.checkpoint) == ("success", SECRET, SECRET)
    failed = await harness.run(in_own_process.to_job("bad"))
    assert failed.fields["message"] == f"ValueError: no such card: {SECRET}"
    own = Tasks(seal=tasks.seal)

    @own.task("card.all", gather=Gather(10))
    def all_cards(cards: list[str], ctx: GatherContext) -> Sequence[str | Exception]:
        return [card if card else ValueError(SECRET) for card in cards]

    jobs = [all_cards.to_job(card) for card in ("a", "", "c")]
    jobs[2]["argument"] = jobs[0]["argument"]  # of another job
    endings = await WorkerHarness(own).run_together(jobs)
    assert [(ending.type, ending.result) for ending in endings] == [
        ("success", "a"), ("failure", None), ("failure", None),
    ]  # fmt: skip
    assert endings[1].fields["message"] == f"ValueError: {SECRET}"
    assert endings[2].fields["reason"] == "undecodable"


async def test_a_call_that_fails_seals_the_error_for_each_job(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    own = Tasks(seal=tasks.seal)

    @own.task("card.all", gather=Gather(2))
    def all_cards(cards: list[str], ctx: GatherContext) -> None:
        raise ValueError(SECRET)

    worker.run_tasks(own)
    await up()
    jobs: list[Any] = [all_cards.to_job(card) for card in ("a", "b")]
    await master.push(*({**master.dispatch("card.all", job["argument"]), "job_id": job.id} for job in jobs))
    seal = tasks.seal
    assert seal is not None
    for job in jobs:
        end = await wait_until(lambda job=job: master.result(job.id))
        assert PLAIN not in encode(end)
        assert seal.opened_failure(end["error"], end["message"], job.id)[1] == f"ValueError: {SECRET}"


# --- handles


def test_a_handle_tells_what_its_job_returned_and_raised() -> None:
    with inline(raises=False):
        handle = charge.enqueue("acme", card=SECRET)
        assert handle.get(timeout=0) == f"acme 19 {SECRET}"
        assert [part.value for part in handle.stream()] == [SECRET]
        for options in ({}, {"keep_result": False}):
            failed = charge.using(max_retry=0, **options).enqueue("bad", card=SECRET)  # type: ignore[arg-type]
            with pytest.raises(JobFailed) as raised:
                failed.get(timeout=0)
            assert raised.value.message == f"ValueError: no such card: {SECRET}"
            assert raised.value.error["message"] == f"no such card: {SECRET}"


def test_a_handle_without_the_key_says_so() -> None:
    others = with_keys(other=NEW)
    with inline(raises=False):
        handle = charge.enqueue("acme", card=SECRET)
        failed = charge.using(max_retry=0).enqueue("bad", card=SECRET)
        without = others["card.charge"].handle(handle.id)
        with pytest.raises(UnreadableResult, match="sealed with the key 2026a, but this Seal has only other"):
            without.get(timeout=0)
        with pytest.raises(UnreadableResult, match="sealed with the key 2026a"):
            list(without.stream())
        with pytest.raises(JobFailed, match=r"ValueError \(sealed with 2026a\)"):
            others["card.charge"].handle(failed.id).get(timeout=0)


# --- what a seal proves


def opened(value: Any, job_id: str, *, name: str = "card.check", keys: dict[str, str] | None = None) -> Any:
    return Seal(keys=keys or {"2026a": OLD}).opened_argument(value, job_id, name)


def test_a_value_opens_as_what_it_is_and_for_its_job_alone() -> None:
    job, other = check.to_job(SECRET), check.to_job(SECRET)
    argument = job["argument"]
    assert opened(argument, job.id) == {"card": SECRET}
    seal = Seal(keys={"2026a": OLD})
    for wrong in (
        lambda: opened(argument, other.id),
        lambda: seal.opened(argument, "result", job.id),
        lambda: opened({**argument, "sealed": argument["sealed"][:-1] + b"\0"}, job.id),
        lambda: opened({**argument, "sealed": b"\x01\x01" + argument["sealed"][2:]}, job.id),
        lambda: opened({**argument, "sealed": argument["sealed"][:5]}, job.id),
        lambda: opened(argument, job.id, keys={"2026a": NEW}),
    ):
        with pytest.raises(SealError, match="cannot be opened with the key 2026a") as raised:
            wrong()
        assert raised.value.key_id == "2026a"
    for unknown in (b"", b"\x02\x00" + argument["sealed"][2:], b"\x01\x07" + argument["sealed"][2:]):
        with pytest.raises(SealError, match="a form that this release does not know"):
            opened({**argument, "sealed": unknown}, job.id)


def test_the_handler_gets_the_sealed_copy_of_what_is_readable() -> None:
    job = charge.to_job("acme", card=SECRET)
    job["argument"]["tenant"] = "another"
    [run] = drain([job])
    assert run.result == f"acme 19 {SECRET}"


def test_the_same_job_is_the_same_bytes_and_others_are_not() -> None:
    job_id = check.to_job("x").id
    first, again = [check.using(id=job_id).to_job(SECRET) for _ in range(2)]
    assert first["argument"] == again["argument"]
    assert check.to_job(SECRET)["argument"] != first["argument"]
    assert check.using(id=job_id).to_job("y")["argument"]["sealed"][:14] != first["argument"]["sealed"][:14]


@pytest.mark.parametrize(
    "options", [{"debounce": Debounce(5, key="k")}, {"unique": Unique("k", on_conflict="replace")}]
)
def test_a_job_that_may_replace_another_is_bound_to_its_name(options: dict[str, Any]) -> None:
    job, other = check.using(**options).to_job(SECRET), check.to_job(SECRET)
    assert opened(job["argument"], other.id) == {"card": SECRET}
    with pytest.raises(SealError):
        opened(job["argument"], job.id, name="card.other")
    # One that leaves the other job alone is bound to its own ID.
    job = check.using(unique=Unique("k", on_conflict="existing")).to_job(SECRET)
    with pytest.raises(SealError):
        opened(job["argument"], other.id)


@pytest.mark.parametrize("options", [{"unique": Unique()}, {"debounce": Debounce(5)}])
def test_masters_cannot_compare_sealed_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="give Unique and Debounce a key"):
        check.using(**options).to_job(SECRET)


def test_a_definition_and_a_callback_open_under_any_id() -> None:
    own = Tasks(seal=tasks.seal)

    @own.task("card.check")
    def nightly(card: str) -> str:
        return card

    own.every(minutes=5, arguments={"card": SECRET})(nightly)
    [first], [again] = own.definitions().values(), own.definitions().values()
    # Otherwise `jqmaster plan` would show a change each time.
    assert first == again
    assert opened(first["job"]["argument"], "an ID that a master chose") == {"card": SECRET}
    assert first["job"]["tags"] == ["sealed:2026a"]
    with recording() as jobs:
        with Batch(on_success=nightly.to_job(SECRET)) as batch:
            batch.add([nightly.to_job("member")])
        assert [run.result for run in drain(jobs)] == ["member", SECRET]


def test_the_input_of_a_flow_is_sealed_on_the_way_and_open_for_the_next_job() -> None:
    own = Tasks(seal=tasks.seal)
    seen: list[Any] = []

    @own.task("card.load", keep_result=True)
    def load() -> str:
        return SECRET

    @own.task("card.use")
    def use(card: str = INPUT, ctx: Context = INJECTED) -> None:
        [one] = ctx.inputs
        outcome = one.outcome
        assert outcome is not None
        seen.extend([card, one.result, one.result_of(load), outcome.result])

    with recording() as jobs:
        chain(load.to_job(), use.to_job()).enqueue()
        runs = drain(jobs)
    assert {run.state for run in runs} == {"succeeded"}
    assert seen == [SECRET] * 4
    assert is_sealed(next(run.fields for run in runs if run.job["name"] == "card.load")["result"])  # type: ignore[index]


async def test_a_failed_predecessor_is_opened_too() -> None:
    own = Tasks(seal=tasks.seal)
    seal = tasks.seal
    assert seal is not None

    @own.task("card.after")
    def after(ctx: Context = INJECTED) -> list[Any]:
        [one] = ctx.inputs
        outcome = one.outcome
        assert outcome is not None
        return [outcome.message, outcome.error]

    predecessor = "00000000-0000-7000-8000-000000000001"
    fields = seal.sealed_failure(
        {"reason": "other", "error": {"type": "E"}, "message": SECRET, "finished_at": "2026-01-01T00:00:00Z"},
        predecessor,
    )
    inputs = [
        {"job_id": predecessor, "state": "failed", "omitted": None, "result": {"type": "failure", **fields}}
    ]
    from worker_sdk.worker.inputs import Inputs

    [one] = Inputs(inputs, seal)  # type: ignore[arg-type]
    assert one.outcome is not None
    assert (one.outcome.message, one.outcome.error) == (SECRET, {"type": "E"})
    assert after.name == "card.after"


# --- keys


def test_the_first_key_seals_and_all_open() -> None:
    job = check.to_job(SECRET)
    both = with_keys(b=NEW, **{"2026a": OLD})
    [run] = drain([job], worker=both)
    assert run.result is not None
    assert run.fields is not None
    assert run.fields["result"]["sealed_with"] == "b"
    later = both["card.check"].to_job(SECRET)
    assert later["tags"] == ["sealed:b"]
    # A job that is made anew has the tag of its own seal alone.
    both.seal.seal_job(job)  # type: ignore[union-attr]
    assert job["tags"] == ["sealed:b"]


async def test_a_job_whose_key_is_not_here_fails_at_once_and_is_not_retried() -> None:
    job = check.to_job(SECRET)
    for others in (with_keys(b=NEW), with_keys(**{"2026a": NEW})):
        ending = await WorkerHarness(others).run(job)
        assert (ending.type, ending.fields["reason"], ending.fields["should_retry"]) == (
            "failure", "undecodable", False,
        )  # fmt: skip
        assert "2026a" in ending.fields["message"]
    # The same holds for a checkpoint that cannot be opened.
    seal = tasks.seal
    assert seal is not None
    plain = check.to_job("x")
    plain["argument"] = {"card": "x"}
    checkpoint = decode(seal.sealed_checkpoint(b"\x05", plain.id))
    ending = await WorkerHarness(with_keys(b=NEW)).run(plain, checkpoint=checkpoint)
    assert ending.fields["reason"] == "undecodable"


async def test_a_worker_without_a_seal_does_not_run_the_handler() -> None:
    bare = Tasks()

    @bare.task("card.check")
    def never(card: str) -> None:
        raise AssertionError

    ending = await WorkerHarness(bare).run("card.check", check.to_job(SECRET)["argument"])
    assert ending.fields["reason"] == "invalid_argument"


async def test_a_job_pushed_without_a_seal_runs() -> None:
    ending = await WorkerHarness(tasks).run("card.check", {"card": "x"}, checkpoint=5)
    assert (ending.type, ending.result, ending.checkpoint) == ("success", "checked x", 5)


def test_a_checkpoint_has_room_for_its_seal() -> None:
    own = Tasks(seal=tasks.seal)

    @own.task("card.save")
    def save(size: int, ctx: Context = INJECTED) -> None:
        ctx.save(b"x" * size)

    @own.task("card.step")
    def step(size: int, ctx: Context = INJECTED) -> None:
        ctx.step("large", bytes, size)

    for task, most in ((save, 16_281), (step, 16_220)):
        [run] = drain([task.using(max_retry=0).to_job(most)], raises=False)
        assert run.state == "succeeded", run.exception
        assert len(run.reports.checkpoint or b"") <= 16 * 1024
        [run] = drain([task.using(max_retry=0).to_job(most + 50)], raises=False)
        assert run.state == "failed"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"keys": {}}, "at least one key"),
        ({"keys": {"a": b"short"}}, "has 5 bytes, but 32 are needed"),
        ({"keys": {"a": "?"}}, "not base64"),
        ({"keys": {"a b": OLD}}, "not a valid ID of a key"),
        ({"keys": {"": OLD}}, "not a valid ID of a key"),
        ({"keys": {"a": OLD}, "clear": [""]}, "not a valid path"),
        ({"keys": {"a": OLD}, "clear": ["a..b"]}, "not a valid path"),
        ({"keys": {"a": OLD}, "clear": ["sealed"]}, "not a valid path"),
    ],
)
def test_keys_and_paths_that_cannot_be_are_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Seal(**given)


def test_a_text_is_no_list_of_paths() -> None:
    with pytest.raises(TypeError, match="a list of paths"):
        Seal(keys={"a": bytes(32)}, clear="tenant")


def test_a_seal_shows_no_key() -> None:
    assert repr(Seal(keys={"b": NEW, "2026a": OLD})) == "<Seal with b, 2026a>"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"jqmaster-sdk\[seal\]"):
        Seal(keys={"a": OLD})


def test_values_that_are_not_sealed_stay_as_they_are() -> None:
    seal = Seal(keys={"2026a": OLD})
    for value in (None, 5, {"sealed_with": 5, "sealed": b""}, {"sealed_with": "a", "sealed": "text"}):
        assert seal.opened(value, "result", "id") is value
    assert seal.opened_failure({"type": "E"}, "text", "id") == ({"type": "E"}, "text")
    deferred = {"type": "deferred", "retry_after": 5}
    assert seal.sealed_failure(deferred, "id") is deferred
    timeout = {"type": "failure", "error": None, "message": None}
    assert seal.sealed_failure(timeout, "id") is timeout
    own = encode(msgpack.ExtType(9, b"x"))
    assert seal.opened_checkpoint(own, "id") == own
    assert seal.opened_checkpoint(None, "id") is None


def test_instants_and_bytes_travel_in_sealed_arguments() -> None:
    own = Tasks(seal=tasks.seal)
    now = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

    @own.task("card.at")
    async def at(when: datetime.datetime, raw: bytes) -> list[Any]:
        return [when == now, raw]

    [run] = drain([at.to_job(now, b"\xff")])
    assert run.result == [True, b"\xff"]


def test_masters_are_told_no_schema_of_a_sealed_task() -> None:
    contract = handler_of(check).contract
    assert callable(contract)
    assert contract() == {"version": "sealed", "options": {"keep_result": True}}


async def test_an_async_handle_opens_too() -> None:
    with inline():
        handle = await check.aenqueue(SECRET)
        assert await handle.aget(timeout=0) == f"checked {SECRET}"
    assert asyncio.iscoroutinefunction(check.function)
