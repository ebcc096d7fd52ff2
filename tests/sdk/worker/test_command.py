"""Command jobs: real processes, with their exit codes, ends and limits."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import CommandOutput, Tasks, Worker
from worker_sdk.testing import Ending, WorkerHarness, inline, recording

pytestmark = [pytest.mark.req("D23"), real_time.WORKER]


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program]


async def ran(argv: list[str], argument: Any = None, *, timeout: float = 20, **options: Any) -> Ending:
    tasks = Tasks()
    tasks.command("command", argv, **options)
    return await WorkerHarness(Worker(tasks=tasks)).run("command", argument or {}, timeout=timeout)


def failure(ending: Ending) -> tuple[str, str, bool]:
    return ending.fields["reason"], ending.fields["message"], ending.fields["should_retry"]


ECHO = python("import sys; print(sys.argv[1:])")


@pytest.mark.parametrize(
    "value", ["a b", "'; rm -rf / #", '"', "$(id) `id` $HOME *", "two\nlines", "", "日本", "-x"]
)
async def test_each_placeholder_is_one_argument_whatever_it_holds(value: str) -> None:
    ending = await ran(
        [*ECHO, "{value}", "--value={value}/{number}", "{{}}"], {"value": value, "number": 1.5}
    )
    assert ending.result["stdout"] == f"{[value, f'--value={value}/1.5', '{}']}\n"


async def test_a_value_that_no_argument_can_hold_is_refused_and_not_retried() -> None:
    for argument in ({"value": "a\0b"}, {"value": ["a"]}, {}, {"value": "a", "other": 1}):
        ending = await ran([*ECHO, "{value}"], argument)
        assert (ending.fields["reason"], ending.fields["should_retry"]) == ("invalid_argument", False)
    assert "NUL" in (await ran([*ECHO, "{value}"], {"value": "\0"})).fields["message"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "a list of the program"),
        ("ls -l", "a shell splits"),
        (["{program}"], "cannot be a placeholder"),
        (["ls", "{a.b}"], "plain name"),
        (["ls", "{0}"], "plain name"),
        (["ls", "{a!r}"], "plain name"),
        (["ls", "{class}"], "cannot be the name"),
        (["ls", "{ctx}"], "cannot be the name"),
        (["ls", "a\0"], "NUL"),
        (["ls", "{"], "'{'"),
    ],
)
def test_an_argv_that_cannot_be_run_is_refused_where_it_is_declared(argv: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tasks().command("command", argv)


async def test_exit_codes_decide_and_the_last_lines_of_stderr_are_the_message() -> None:
    argv = python(
        "import sys; [print(n, file=sys.stderr) for n in range(20)]; print('out'); sys.exit(int(sys.argv[1]))"
    )
    tail = "\n".join(str(n) for n in range(10, 20))
    codes: dict[str, Any] = {"ok_codes": {0, 4}, "discard_codes": {5}}
    assert (await ran([*argv, "{code}"], {"code": 4}, **codes)).result["exit_code"] == 4
    assert failure(await ran([*argv, "{code}"], {"code": 3}, **codes)) == (
        "other",
        f"exit code 3: {tail}",
        True,
    )
    ending = await ran([*argv, "{code}"], {"code": 5}, **codes)
    assert (ending.type, ending.fields["message"]) == ("discarded", f"exit code 5: {tail}")
    codes["retry_codes"] = {75}
    assert failure(await ran([*argv, "{code}"], {"code": 75}, **codes))[2]
    assert not failure(await ran([*argv, "{code}"], {"code": 3}, **codes))[2]


async def test_a_signal_and_a_program_that_is_missing_are_told() -> None:
    ending = await ran(python("import os; os.kill(os.getpid(), 9)"))
    assert failure(ending) == ("other", "ended by SIGKILL", True)
    ending = await ran(["/no/such/program"])
    assert failure(ending)[1].startswith("/no/such/program cannot be started: FileNotFoundError")


async def test_a_command_has_its_environment_its_directory_and_no_input(tmp_path: Path) -> None:
    program = (
        "import os, sys; print(os.environ['A'], os.environ['JOB_NAME'], os.getcwd(), repr(sys.stdin.read()))"
    )
    ending = await ran(python(program), env={"A": "ä"}, cwd=str(tmp_path))
    assert ending.result["stdout"] == f"ä command {os.path.realpath(tmp_path)} ''\n"


async def test_the_end_of_a_flood_of_output_is_kept() -> None:
    ending = await ran(
        python("import os; [os.write(1, b'x' * 65536) for _ in range(400)]; os.write(1, b'\\xffend')")
    )
    stdout = ending.result["stdout"]
    assert len(stdout) == 16 * 1024
    assert stdout.endswith("x\ufffdend")


# Each writes the PIDs of all its processes, and ends only when killed.
SLEEP = "import time\nwhile True: time.sleep(60)"
STUBBORN = f"""
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note():
    with open(sys.argv[1], "a") as file: file.write("%d\\n" % os.getpid())
note()
if os.fork() == 0:
    note()
    os.setsid()
    if os.fork() == 0:
        note()
{SLEEP}
"""


async def pids(file: Path) -> list[int]:
    await wait_until(lambda: file.exists() and len(file.read_text().splitlines()) == 3)
    return [int(line) for line in file.read_text().splitlines()]


def are_gone(found: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in found)


async def test_a_timeout_kills_what_ignores_sigterm_and_what_forked_away(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    ending = await ran([*python(STUBBORN), "{file}"], {"file": str(file)}, timeout=4)
    assert failure(ending) == ("timeout", "not finished within 4 s", True)
    found = await pids(file)
    await wait_until(lambda: are_gone(found))


async def test_a_command_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    parent = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", {STUBBORN!r}, sys.argv[1]])
while not os.path.exists(sys.argv[1]) or len(open(sys.argv[1]).readlines()) < 3: time.sleep(0.01)
print("done")
"""
    ending = await ran([*python(parent), "{file}"], {"file": str(file)})
    assert ending.result == {"exit_code": 0, "stdout": "done\n", "stderr": ""}
    assert are_gone(await pids(file))


async def test_sigterm_comes_first(tmp_path: Path) -> None:
    program = f"""
import signal, sys
def end(*_):
    open(sys.argv[1], "w").write("cleaned up")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
{SLEEP}
"""
    ending = await ran([*python(program), "{file}"], {"file": str(tmp_path / "end")}, timeout=3)
    assert ending.fields["reason"] == "timeout"
    assert (tmp_path / "end").read_text() == "cleaned up"


async def test_limits_of_memory_and_cpu_hold() -> None:
    ending = await ran(python("x = bytearray(400 * 1024 * 1024)"), memory_mb=200)
    assert failure(ending)[1].endswith("MemoryError")
    ending = await ran(python("while True: pass"), cpu_s=1)
    assert failure(ending)[1] in ("ended by SIGXCPU", "ended by SIGKILL")


async def test_a_command_cannot_fill_the_disk_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "large"
    ending = await ran(python(f"open({str(file)!r}, 'wb').write(bytes(3 * 1024 * 1024))"), file_mb=2)
    assert "File too large" in failure(ending)[1]
    assert file.stat().st_size == 2 * 1024 * 1024
    # Most programs do not ignore the signal.
    ending = await ran(["dd", "if=/dev/zero", f"of={file}", "bs=1M", "count=3"], file_mb=2)
    assert failure(ending)[1].startswith("ended by SIGXFSZ")


async def test_commands_end_with_their_worker(tmp_path: Path) -> None:
    """A killed worker does not leave commands behind."""
    file = tmp_path / "pids"
    program = f"""
from worker_sdk import Tasks
from worker_sdk.testing import inline
tasks = Tasks()
command = tasks.command("command", {python(STUBBORN)!r} + ["{{file}}"], timeout=600)
with inline():
    command.enqueue(file={str(file)!r})
"""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    found = await pids(file)
    worker.kill()
    await worker.wait()
    await wait_until(lambda: are_gone(found))


def test_commands_are_tasks_for_pushers_and_tests() -> None:
    tasks = Tasks()
    report = tasks.command("report.nightly", [*ECHO, "--day", "{day}"], timeout=60, keep_result=True)
    with recording() as jobs:
        report.enqueue(day="2026-11-23")
        assert (jobs.only(report).arguments, jobs[0]["timeout"]) == ({"day": "2026-11-23"}, 60)
        with pytest.raises(TypeError, match="is not a parameter"):
            report.enqueue(dya="2026-11-23")
    with inline():
        output = report.enqueue(day="2026-11-23").get()
    assert output == CommandOutput(0, "['--day', '2026-11-23']\n", "")
