"""`jqmaster worker --burst`: a worker that runs until no jobs are left and exits, for cron and Kubernetes Jobs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import prepared, real_time
from tests.support.cli import clean_environment, jqmaster
from tests.system.test_cli import Running

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("M11")]

TASKS = """
from worker_sdk import Discard, Fail, Worker

worker = Worker(max_jobs=2)

@worker.handler("add")
def add(argument):
    return sum(argument)

@worker.handler("flaky")
def flaky(argument, ctx):
    if ctx.attempt == 1:
        raise RuntimeError("once")

@worker.handler("end")
def end(argument):
    raise {"fail": Fail, "discard": Discard}[argument]("told to")
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("master")
    running = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data")
    try:
        line = running.said("serves on")
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        assert running.end() == 0


def burst(directory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    (directory / "tasks.py").write_text(TASKS)
    arguments = ["-m", "jqmaster", "worker", "tasks:worker", "--burst", *options]
    return prepared.run(arguments, cwd=directory, env=clean_environment())


@pytest.mark.parametrize("mode", [(), ("--pull",)])
def test_a_burst_runs_what_is_ready_or_due_soon_and_ends(
    url: str, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    ids = [jqmaster("enqueue", "add", f"[{n}]", JQMASTER_URL=url).out.strip() for n in range(5)]
    ids.append(jqmaster("enqueue", "add", "[1]", "--delay", 1, JQMASTER_URL=url).out.strip())
    retry = '{"base_s": 0.2, "jitter": false}'
    ids.append(jqmaster("enqueue", "flaky", "--retry", retry, JQMASTER_URL=url).out.strip())
    late = jqmaster("enqueue", "add", "[1]", "--delay", 3600, JQMASTER_URL=url).out.strip()
    gone = jqmaster("enqueue", "end", '"discard"', JQMASTER_URL=url).out.strip()
    done = burst(tmp_path, "--master", url, "--burst-wait", "3", *mode)
    assert done.returncode == 0, done.stderr
    states = [
        jqmaster("job", one, "--json", JQMASTER_URL=url).lines()[0]["state"] for one in (*ids, gone, late)
    ]
    assert states == ["succeeded"] * len(ids) + ["discarded", "scheduled"]
    assert jqmaster("workers", "--json", JQMASTER_URL=url).lines() == []


def test_the_exit_code_of_a_burst_tells_whether_a_job_failed(url: str, tmp_path: Path) -> None:
    failed = jqmaster("enqueue", "end", '"fail"', JQMASTER_URL=url).out.strip()
    done = burst(tmp_path, "--master", url, "--burst-wait", "1")
    assert done.returncode == 1
    assert f"1 jobs failed in their last run here: {failed}" in done.stderr
    assert burst(tmp_path, "--master", url, "--processes", "2").returncode == 2
