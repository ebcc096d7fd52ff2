"""`ctx.inputs`: what a handler learns about the jobs its job waited for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, InputMissing, Tasks, Worker
from worker_sdk.testing import WorkerHarness
from worker_sdk.worker.inputs import Inputs

pytestmark = [pytest.mark.req("P9"), real_time.WORKER]

FIRST, SECOND, THIRD = (f"0199a0c4-0000-7000-8000-00000000000{n}" for n in (1, 2, 3))
AT = "2026-01-01T00:00:00.000Z"
ERROR = {"type": "ValueError", "message": "bad", "traceback": ""}
FAILED: dict[str, Any] = {
    "type": "failure", "finished_at": AT, "reason": "other", "should_retry": False, "error": ERROR,
    "message": "ValueError: bad", "of_a_later_release": 1,
}  # fmt: skip
GIVEN: list[Any] = [
    {"job_id": FIRST, "state": "succeeded", "result": {"type": "success", "finished_at": AT, "result": 7},
     "omitted": None},
    {"job_id": SECOND, "state": "failed", "result": FAILED, "omitted": None},
    {"job_id": THIRD, "state": None, "result": None, "omitted": "not_kept"},
]  # fmt: skip

tasks = Tasks()


@tasks.task("count")
def count() -> int:
    return 1


@tasks.task("name")
def name() -> str:
    return "name"


def told(ctx: Context) -> list[Any]:
    return [[one.job_id, one.state, one.omitted, one.is_success] for one in ctx.inputs]


TOLD = [
    [FIRST, "succeeded", None, True],
    [SECOND, "failed", None, False],
    [THIRD, None, "not_kept", False],
]


@pytest.mark.parametrize("is_pulled", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_handlers_read_the_results_of_predecessors(
    master: FakeMaster, worker: Worker, is_pulled: bool, is_async: bool
) -> None:
    if is_async:

        @worker.handler("last")
        async def alast(argument: Any, ctx: Context) -> list[Any]:
            return [*told(ctx), ctx.inputs[0].result]
    else:

        @worker.handler("last")
        def last(argument: Any, ctx: Context) -> list[Any]:
            return [*told(ctx), ctx.inputs[0].result]

    worker.pull = is_pulled
    async with worker.running():
        await wait_until(lambda: master.polls if is_pulled else worker.worker_id)
        if is_pulled:
            job = master.dispatch("last", inputs=GIVEN)
            master.mail.append([job])
        else:
            job = await master.run("last", inputs=GIVEN)
        await wait_until(lambda: master.result(job["job_id"]))
    assert master.result(job["job_id"])["result"] == [*TOLD, 7]  # type: ignore[index]


async def test_isolated_handlers_and_those_after_a_callback_read_them_too(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("later")
    def later(argument: Any, ctx: Context) -> list[Any]:
        return [ctx.callback is not None, len(ctx.inputs)]

    await up()
    callback = {"content_type": "text/plain", "body": b"done", "received_at_ms": 1}
    job = await master.run("later", phase="callback", callback=callback, inputs=GIVEN)
    await wait_until(lambda: master.result(job["job_id"]))
    assert master.result(job["job_id"])["result"] == [True, 3]  # type: ignore[index]


async def test_an_isolated_handler_reads_them(master: FakeMaster) -> None:
    handlers.worker.master = master.url
    async with handlers.worker.running():
        await wait_until(lambda: handlers.worker.worker_id)
        job = await master.run("isolated.inputs", inputs=GIVEN)
        await wait_until(lambda: master.result(job["job_id"]))
    assert master.result(job["job_id"])["result"] == [7, "failed", 3]  # type: ignore[index]


async def test_a_job_that_waited_for_none_has_none(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("alone")
    def alone(argument: Any, ctx: Context) -> list[Any]:
        return [len(ctx.inputs), ctx.inputs.results(), bool(ctx.inputs)]

    await up()
    for fields in ({}, {"inputs": None}):
        job = await master.run("alone", **fields)
        await wait_until(lambda job=job: master.result(job["job_id"]))
        assert master.result(job["job_id"])["result"] == [0, [], False]  # type: ignore[index]


def test_results_are_read_as_a_task_says() -> None:
    inputs = Inputs(GIVEN)
    assert inputs[0].result_of(count) == 7
    assert Inputs(GIVEN[:1] * 2).results_of(count) == [7, 7]
    assert Inputs(GIVEN[:1]).results() == [7]
    assert [one.job_id for one in inputs[1:]] == [SECOND, THIRD]
    assert [one.state for one in inputs] == ["succeeded", "failed", None]
    assert (
        repr(inputs)
        == f"<inputs [<input {FIRST}, succeeded>, <input {SECOND}, failed>, <input {THIRD}, deleted>]>"
    )
    with pytest.raises(InputMissing, match="does not fit: result: Expected `str`, got `int`") as wrong:
        inputs[0].result_of(name)
    assert (wrong.value.job_id, wrong.value.omitted) == (FIRST, None)


def test_the_outcome_of_a_failed_predecessor_is_there() -> None:
    inputs = Inputs(GIVEN)
    outcome = inputs[1].outcome
    assert outcome is not None
    assert (outcome.is_success, outcome.reason, outcome.message) == (False, "other", "ValueError: bad")
    assert outcome.error == ERROR
    assert inputs[0].outcome is not None
    assert inputs[0].outcome.result == 7
    assert inputs[2].outcome is None


@pytest.mark.parametrize(
    ("state", "omitted", "why"),
    [
        ("succeeded", "too_large", "is too large to be handed on"),
        ("succeeded", "not_kept", "was not kept"),
        ("canceled", "not_kept", "has no result: it is canceled"),
        (None, "not_kept", "has no result: it is deleted"),
    ],
)
def test_the_error_tells_which_input_is_missing(state: str | None, omitted: str, why: str) -> None:
    given: Any = {"job_id": FIRST, "state": state, "result": None, "omitted": omitted}
    with pytest.raises(InputMissing, match=why) as missing:
        Inputs([given]).results()
    assert (missing.value.job_id, missing.value.state, missing.value.omitted) == (FIRST, state, omitted)


async def test_a_missing_result_fails_the_job_for_good() -> None:
    worker = Worker()

    @worker.handler("last")
    def last(argument: Any, ctx: Context) -> Any:
        return ctx.inputs.results()

    @worker.handler("fails")
    def fails(argument: Any) -> None:
        raise ValueError("bad")

    async with WorkerHarness(worker) as harness:
        assert (await harness.run("last", inputs=[1, {"two": b"2"}])).result == [1, {"two": b"2"}]
        first = await harness.run("last", inputs=[[3]])
        assert (await harness.run("last", inputs=[first, 4])).result == [[[3]], 4]
        failed = await harness.run("fails")
        ending = await harness.run("last", inputs=[failed])
        assert (ending.type, ending.fields["should_retry"]) == ("failure", False)
        assert ending.fields["message"].endswith("has no result: it is failed")
