"""`jqmaster serve --with-worker`: one node works alone in one process."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.ports import free_port
from tests.support.processes import Process
from tests.system.test_cli import Running

JSON = {"Accept": "application/json"}
pytestmark = [pytest.mark.system, pytest.mark.req("D19"), pytest.mark.timeout(120), real_time.PROCESSES]

TASKS = """
import asyncio, os, time
from worker_sdk import Worker

worker = Worker(max_jobs=4)
empty = Worker()

@worker.handler("pid")
def pid(argument):
    return os.getpid()

@worker.handler("nap")
async def nap(argument):
    await asyncio.sleep(argument)
    return "slept"

@worker.handler("block")
async def block(argument):
    time.sleep(argument)

@worker.handler("spawn")
async def spawn(argument, ctx):
    return await ctx.enqueue("pid", None)
"""


def serve(directory: Path, **environment: str) -> tuple[Running, str]:
    """Start a master that serves with its worker, and return it with its address."""
    (directory / "tasks.py").write_text(TASKS)
    running = Running(
        directory, "serve", "--port", 0, "--data-dir", directory / "data", "--with-worker", "tasks:worker",
        **environment
    )  # fmt: skip
    try:
        line = running.said("serves on")
        running.said("its worker runs block, nap, pid, spawn")
    except BaseException:
        running.end(signal.SIGKILL)
        raise
    return running, next(word for word in line.split() if word.startswith("http://"))


def until(condition: Callable[[], Any], timeout_s: float = 20) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("never")


def test_master_and_worker_work_in_one_process_and_end_in_good_order(tmp_path: Path) -> None:
    running, url = serve(tmp_path)
    try:
        done = jqmaster("enqueue", "pid", "--wait", 20, JQMASTER_URL=url)
        assert (done.code, done.out.strip()) == (0, str(running.popen.pid)), done.err
        (worker,) = jqmaster("workers", "--json", JQMASTER_URL=url).lines()
        assert worker["pid"] == running.popen.pid
        with httpx.Client(base_url=url, trust_env=False, headers=JSON) as http:
            job_id = http.post(
                "/api/jobs", json={"name": "nap", "argument": 1.0, "keep_result": True}
            ).json()["id"]
            until(lambda: http.get(f"/api/jobs/{job_id}").json()["state"] == "running")
    finally:
        assert running.end() == 0
    # The master finished and reported its running jobs before it ended.
    running, url = serve(tmp_path)
    try:
        view = httpx.get(f"{url}/api/jobs/{job_id}", trust_env=False, headers=JSON).json()
        assert (view["state"], view["attempt"]) == ("succeeded", 1)
    finally:
        assert running.end(signal.SIGINT) == 0


def test_with_tokens_its_worker_has_one_of_its_own(tmp_path: Path) -> None:
    running, url = serve(tmp_path, JQMASTER_TOKENS="push+read:client-secret")
    try:
        done = jqmaster("enqueue", "spawn", "--wait", 20, JQMASTER_URL=url, JQMASTER_TOKEN="client-secret")
        assert done.code == 0, done.err
        assert jqmaster("enqueue", "pid", JQMASTER_URL=url).code == 4
    finally:
        assert running.end() == 0


@pytest.mark.req("M6")
def test_a_handler_that_blocks_its_loop_holds_up_neither_lease_nor_lead(tmp_path: Path) -> None:
    running, url = serve(
        tmp_path,
        JQMASTER_LEASE_MS="1500",
        JQMASTER_OFFER_MS="500",
        JQMASTER_LEADER_TTL_S="1",
        JQMASTER_HEARTBEAT_INTERVAL_S="0.2",
    )
    try:
        with httpx.Client(base_url=url, trust_env=False, headers=JSON) as http:
            job_id = http.post("/api/jobs", json={"name": "block", "argument": 4.0, "timeout": 60}).json()[
                "id"
            ]
            until(lambda: http.get(f"/api/jobs/{job_id}").json()["state"] == "running")
            for _ in range(20):
                assert http.get("/readyz").status_code == 200
                time.sleep(0.1)
            until(lambda: http.get(f"/api/jobs/{job_id}").json()["state"] == "succeeded")
            assert http.get(f"/api/jobs/{job_id}").json()["attempt"] == 1
    finally:
        assert running.end() == 0


@pytest.mark.parametrize(
    ("target", "code", "text"),
    [
        ("tasks:nothing", 2, "no nothing"),
        ("nowhere:worker", 2, "no module"),
        ("tasks:empty", 2, "without handlers"),
    ],
)
def test_a_worker_that_cannot_serve_ends_it_with_the_reason(
    tmp_path: Path, target: str, code: int, text: str
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    done = jqmaster(
        "serve", "--port", 0, "--data-dir", tmp_path / "data", "--with-worker", target, cwd=tmp_path
    )
    assert done.code == code
    assert text in done.err


def test_when_it_is_killed_the_next_one_runs_its_jobs_at_once(tmp_path: Path) -> None:
    """The worker has a fixed port, so its successor is recognised long before the lease of 15 s ends."""
    (tmp_path / "tasks.py").write_text(TASKS.replace("max_jobs=4", f"max_jobs=4, port={free_port()}"))
    arguments = [
        "-m",
        "jqmaster",
        "serve",
        "--port",
        str(free_port()),
        "--data-dir",
        str(tmp_path / "data"),
        "--with-worker",
        "tasks:worker",
    ]
    one = Process(arguments, tmp_path / "serve.log", PYTHONPATH=os.pathsep.join([str(tmp_path), os.getcwd()]))
    url = f"http://127.0.0.1:{arguments[4]}"

    def get(path: str) -> Any:
        try:
            return httpx.get(f"{url}{path}", trust_env=False, headers=JSON).json()
        except (httpx.TransportError, ValueError):
            return None

    one.start()
    try:
        until(lambda: (get("/api/workers") or {}).get("workers"))
        answer = httpx.post(
            f"{url}/api/jobs", json={"name": "nap", "argument": 2.0}, trust_env=False, headers=JSON
        )
        job_id = answer.json()["id"]
        until(lambda: get(f"/api/jobs/{job_id}")["state"] == "running")
        time.sleep(1.2)  # time for a heartbeat to name it
        one.kill()
        one.start()
        began = time.monotonic()
        view = until(lambda: (v := get(f"/api/jobs/{job_id}")) and v.get("state") == "succeeded" and v, 30)
        assert time.monotonic() - began < 12
        assert [a["outcome"] for a in view["attempts"]] == ["lost", "success"]
    finally:
        assert one.terminate() == 0


@pytest.mark.req("D25")
def test_it_gets_jobs_last_when_nobody_else_has_room(tmp_path: Path) -> None:
    program = tmp_path / "other.py"
    program.write_text(
        "import os\n"
        "from worker_sdk import Worker\n"
        "from tasks import nap, pid\n"
        "worker = Worker(os.environ['MASTER'], max_jobs=2)\n"
        "worker.handler('nap')(nap)\n"
        "worker.handler('pid')(pid)\n"
        "worker.run()\n"
    )
    running, url = serve(tmp_path)
    other = Process([str(program)], tmp_path / "other.log", MASTER=url)
    try:
        other.start()
        until(lambda: len(jqmaster("workers", "--json", JQMASTER_URL=url).lines()) == 2)
        # Run these one at a time, so that both workers have all slots free each time.
        for _ in range(4):
            done = jqmaster("enqueue", "pid", "--wait", 20, JQMASTER_URL=url)
            assert done.out.strip() == str(other.pid), done.err
        with httpx.Client(base_url=url, trust_env=False, headers=JSON) as http:
            jobs = [{"name": "nap", "argument": 5.0}] * 4
            assert http.post("/api/jobs/bulk", json={"jobs": jobs}).status_code == 201

            def busy() -> dict[int, int]:
                workers = http.get("/api/workers").json()["workers"]
                return {one["pid"]: one["busy"] for one in workers if "nap" in one["names"]}

            # Two of these jobs fill the other worker.
            until(lambda: busy() == {other.pid: 2, running.popen.pid: 2})
    finally:
        other.terminate()
        assert running.end() == 0
