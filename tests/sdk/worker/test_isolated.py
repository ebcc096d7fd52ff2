"""Handlers in their own processes."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = real_time.PROCESSES


@pytest.fixture
async def up(master: FakeMaster) -> Any:
    worker = handlers.worker
    worker.master = master.url
    async with AsyncExitStack() as stack:

        async def start() -> None:
            await stack.enter_async_context(worker.running())
            await wait_until(lambda: worker.worker_id)

        yield start


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that its new parent has not yet reaped does not run any more.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def is_gone(pid: int) -> bool:
    try:
        return not is_alive(pid)
    except (FileNotFoundError, ProcessLookupError):  # it ended between two looks
        return True


async def test_a_process_that_an_isolated_handler_forks_reports_nothing(
    master: FakeMaster, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("isolated.fork")
    await wait_until(lambda: master.result(job["job_id"]))
    assert [result["result"] for result in master.results[job["job_id"]]] == ["the copy ended with 1"]


async def test_an_isolated_handler_runs_elsewhere_and_answers_here(
    master: FakeMaster, up: Callable[[], Any]
) -> None:
    await up()
    jobs = {
        "isolated.echo": master.dispatch("isolated.echo", {"a": b"\x00"}, attempt=2),
        "isolated.async": master.dispatch("isolated.async"),
        "isolated.print": master.dispatch("isolated.print"),
    }
    await master.push(*jobs.values())
    await wait_until(lambda: len(master.results) == 3)
    argument, pid, attempt, name, has_time = master.results[jobs["isolated.echo"]["job_id"]][0]["result"]
    assert (argument, attempt, name, has_time) == ({"a": b"\x00"}, 2, "isolated.echo", True)
    assert pid != os.getpid()
    assert is_gone(pid)
    assert master.results[jobs["isolated.async"]["job_id"]][0]["result"] == "async"
    assert master.results[jobs["isolated.print"]["job_id"]][0]["result"] == "printed"


@pytest.mark.req("S1")
@pytest.mark.req("S2")
@pytest.mark.parametrize(
    ("name", "argument", "expected", "logged"),
    [
        (
            "isolated.fail",
            "value",
            {"type": "failure", "should_retry": True, "message": "ValueError: bad"},
            ("ERROR", "in isolated_fail"),
        ),
        (
            "isolated.async_fail",
            None,
            {"type": "failure", "should_retry": True, "message": "ValueError: bad"},
            ("ERROR", "in isolated_async_fail"),
        ),
        (
            "isolated.fail",
            "lookup",
            {"type": "discarded", "message": "LookupError: gone"},
            ("INFO", "LookupError: gone"),
        ),
        ("isolated.fail", "defer", {"type": "deferred", "retry_after": 3.0}, None),
        (
            "isolated.exit",
            3,
            {"message": "the process of the handler ended with status 3", "should_retry": True},
            ("ERROR", "status 3"),
        ),
        (
            "isolated.crash",
            signal.SIGSEGV,
            {"message": "the process of the handler was ended by SIGSEGV"},
            ("ERROR", "SIGSEGV"),
        ),
        ("isolated.odd", None, {"type": "failure", "should_retry": False}, ("ERROR", "cannot be sent")),
    ],
)
async def test_every_end_of_a_process_is_an_outcome(
    master: FakeMaster,
    up: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
    name: str,
    argument: Any,
    expected: dict[str, Any],
    logged: tuple[str, str] | None,
) -> None:
    caplog.set_level("INFO", "worker_sdk.worker.endings")
    await up()
    job = await master.run(name, argument)
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert {key: result[key] for key in expected} == expected
    assert "log_level" not in result
    # The frames through which the worker called the handler say nothing to people.
    trace = (result.get("error") or {}).get("traceback", "")
    assert not any(file in trace for file in ("isolated_child.py", "runners.py", "base_events.py"))
    told = [record for record in caplog.records if job["job_id"] in record.getMessage()]
    assert [record.levelname for record in told] == ([logged[0]] if logged else [])
    if logged:
        verb = "was discarded" if logged[0] == "INFO" else "failed"
        assert told[0].getMessage().startswith(f"{name} (job {job['job_id']}, attempt 1) {verb}: ")
        assert logged[1] in told[0].getMessage()


@pytest.mark.req("J16")
async def test_an_isolated_handler_enqueues(master: FakeMaster, up: Callable[[], Any]) -> None:
    await up()
    job = await master.run("isolated.enqueue", [1])
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert master.jobs[result["result"]]["argument"] == [1]


@pytest.mark.req("J7")
@pytest.mark.parametrize("end", ["timeout", "cancel", "lost", "lease"])
async def test_a_process_that_must_stop_is_killed_with_all_it_started(
    master: FakeMaster, up: Callable[[], Any], tmp_path: Path, end: str
) -> None:
    master.lease_s = 2.0
    await up()
    file = tmp_path / "pids"
    job = await master.run("isolated.hang", str(file), timeout=1.5 if end == "timeout" else 60)
    await wait_until(file.exists)
    pids = [int(pid) for pid in file.read_text().split()]
    assert all(is_alive(pid) for pid in pids)
    if end == "cancel":
        order = {"token": job["token"], "epoch": master.epoch}
        assert (await master.send("POST", f"/jobs/{job['job_id']}/cancel", order)).status_code == 200
    elif end == "lost":
        master.lost = {job["token"]}
    elif end == "lease":
        # This also works while the event loop is blocked, because a thread watches the lease.
        master.hooks["heartbeat"] = lambda body: (503, None, {})
        deadline = time.monotonic() + 5
        while not all(is_gone(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert all(is_gone(pid) for pid in pids)
        del master.hooks["heartbeat"]
    await wait_until(lambda: all(is_gone(pid) for pid in pids))
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    result = master.result(job["job_id"])
    if end in ("lost", "lease"):
        assert result is None
    else:
        assert result is not None
        assert (result.get("reason"), result["type"]) == (
            ("timeout", "failure") if end == "timeout" else (None, "canceled")
        )


@pytest.mark.req("J7")
async def test_processes_of_a_handler_end_with_its_success(
    master: FakeMaster, up: Callable[[], Any], tmp_path: Path
) -> None:
    await up()
    file = tmp_path / "pids"
    job = await master.run("isolated.leave", str(file))
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["result"] == "left"
    assert [pid for pid in file.read_text().split() if not is_gone(int(pid))] == []


@pytest.mark.req("M3")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_isolated_processes_die_with_their_worker(
    master: FakeMaster, tmp_path: Path, number: signal.Signals
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.sdk.handlers",
        master.url,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await wait_until(lambda: master.beats)
        file = tmp_path / "pids"
        await master.run("isolated.hang", str(file), lease_until_ms=master.now_ms() + 60_000)
        await wait_until(file.exists)
        pids = [int(pid) for pid in file.read_text().split()]
        assert len(pids) == 4
        process.send_signal(number)
        await wait_until(lambda: all(is_gone(pid) for pid in pids))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
