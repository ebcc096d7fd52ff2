"""`jqmaster job ID --follow`: the progress of a job and its outcome."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import prepared, real_time
from tests.support.cli import clean_environment, jqmaster
from tests.support.ports import free_port
from tests.system.test_cli import Running

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("D21")]

TASKS = """
from worker_sdk import Context, Discard, Fail, Worker

worker = Worker()

@worker.handler("rows")
def rows(argument, ctx: Context):
    for n in ctx.track(range(4), every_s=0):
        pass
    ctx.progress(1.0, "all \\x1b[31m rows")
    if argument == "fail":
        raise Fail("the file is gone")
    if argument == "discard":
        raise Discard("nothing to do")

@worker.handler("logs")
def logs(argument, ctx: Context):
    ctx.logger.info("\\x1b[31mred\\x1b[0m line")
    ctx.logger.error("the file is gone")

@worker.handler("parts")
def parts(argument, ctx: Context):
    for n in range(2):
        ctx.emit({"n": n})
    if argument == "fail":
        raise Fail("the file is gone")
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("master")
    (directory / "tasks.py").write_text(TASKS)
    running = Running(
        directory, "serve", "--port", 0, "--data-dir", directory / "data", "--with-worker", "tasks:worker"
    )
    try:
        line = running.said("serves on")
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        assert running.end() == 0


def enqueue(url: str, argument: str = "null", *options: object) -> str:
    return jqmaster("enqueue", "rows", argument, *options, JQMASTER_URL=url).out.strip()


def test_lines_are_shown_until_the_job_succeeded(url: str) -> None:
    job_id = enqueue(url, "null", "--delay", 1)
    ended = jqmaster("job", job_id, "--follow", JQMASTER_URL=url)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "scheduled"
    # A handler's text does not control the terminal.
    assert lines[-1] == "succeeded  100%  all \\x1b[31m rows"


def test_the_exit_code_tells_the_outcome(url: str) -> None:
    failed = jqmaster("job", enqueue(url, '"fail"'), "-f", JQMASTER_URL=url)
    assert failed.code == 1
    assert "failed (error): the file is gone" in failed.err
    assert jqmaster("job", enqueue(url, '"discard"'), "-f", JQMASTER_URL=url).code == 0
    canceled = enqueue(url, "null", "--delay", 3600)
    jqmaster("cancel", canceled, JQMASTER_URL=url)
    ended = jqmaster("job", canceled, "-f", JQMASTER_URL=url)
    assert (ended.code, ended.err) == (1, f"Error: job {canceled} canceled\n")
    assert jqmaster("job", "018f0000-0000-7000-8000-000000000000", "-f", JQMASTER_URL=url).code == 3


def test_programs_get_a_line_of_json_for_each_change(url: str) -> None:
    job_id = enqueue(url)
    lines = jqmaster("job", job_id, "--follow", "--json", JQMASTER_URL=url).lines()
    assert (lines[-1]["id"], lines[-1]["state"], lines[-1]["progress"]["fraction"]) == (
        job_id,
        "succeeded",
        1.0,
    )


def test_a_terminal_gets_a_bar(url: str) -> None:
    job_id = enqueue(url)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "jqmaster", "job", job_id, "--follow"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=clean_environment() | {"JQMASTER_URL": url, "TERM": "xterm", "COLUMNS": "120"},
        cwd=prepared.ROOT,
    ) as process:
        os.close(theirs)
        shown = b""
        # Reading from a terminal whose other end is closed is an error on Linux, and end of file elsewhere.
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass
        finally:
            os.close(ours)
        assert process.wait(30) == 0, shown
    assert "━".encode() in shown
    assert b"100%" in shown


def test_a_master_that_is_away_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    unknown = "018f0000-0000-7000-8000-000000000000"
    follower = Running(tmp_path, "job", unknown, "--follow", JQMASTER_URL=url)
    master = Running(tmp_path, "serve", "--port", port, "--data-dir", tmp_path / "data")
    try:
        assert follower.popen.wait(60) == 3
    finally:
        assert master.end() == 0
    told = (tmp_path / "job.err").read_text()
    assert told.count("no answer") == 1  # at once, and not again
    assert "Asking again" in told


def test_partial_results_are_lines_of_json_and_the_exit_code_is_that_of_the_job(url: str) -> None:
    lines = [{"attempt": 1, "number": n + 1, "value": {"n": n}} for n in range(2)]
    for argument, code in (("null", 0), ('"fail"', 1)):
        job_id = jqmaster("enqueue", "parts", argument, JQMASTER_URL=url).out.strip()
        ended = jqmaster("job", job_id, "--stream", JQMASTER_URL=url)
        assert ended.code == code, ended.err
        assert [json.loads(line) for line in ended.out.splitlines()] == lines


@pytest.mark.req("D17")
def test_logs_are_printed_and_followed_until_the_job_is_over(url: str) -> None:
    job_id = jqmaster("enqueue", "logs", "null", "--delay", 1, JQMASTER_URL=url).out.strip()
    ended = jqmaster("logs", job_id, "-f", JQMASTER_URL=url)
    assert ended.code == 0, ended.err
    # Outside a terminal, there are no colours.
    assert [line.split(maxsplit=1)[1] for line in ended.out.splitlines()] == [
        "1 info     red line",
        "1 error    the file is gone",
    ]
    found = jqmaster("logs", job_id, "--level", "error", "--attempt", 1, "--json", JQMASTER_URL=url)
    (line,) = found.out.splitlines()
    assert (json.loads(line)["seq"], json.loads(line)["text"]) == (2, "the file is gone")
    assert len(jqmaster("logs", job_id, "--tail", 1, JQMASTER_URL=url).out.splitlines()) == 1
    assert jqmaster("logs", "nothing", JQMASTER_URL=url).code == 3
    # Until a minute after the end of the job, its worker may send lines.
    refused = jqmaster("erase-log", job_id, "-y", JQMASTER_URL=url)
    assert refused.code == 4
    assert "erase the log then (409 log_open)" in refused.err
    assert jqmaster("erase-log", "nothing", "-y", JQMASTER_URL=url).code == 3
