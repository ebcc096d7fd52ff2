"""Tasks in Python's start file: `python app.py` runs its worker and pushes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.master import Api

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("S8")]

APP = """
import sys
from worker_sdk import Tasks, Worker

tasks = Tasks()
print("imported as", __name__, flush=True)


@tasks.task("main.double", keep_result=True)
def double(number: int) -> int:
    return 2 * number


@tasks.task("main.whoami", isolated=True, keep_result=True)
def whoami() -> str:
    return __name__


if __name__ == "__main__":
    if sys.argv[1] == "push":
        handles = [double.enqueue(21), whoami.enqueue()]
        print(*[handle.id for handle in handles])
    else:
        assert Worker(tasks=tasks, pull=True).run_burst() == []
"""


@pytest.mark.parametrize("how", [["app.py"], ["-m", "app"]])
async def test_a_program_has_its_tasks_itself(api: Api, tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "app.py").write_text(APP)

    def run(what: str) -> str:
        done = subprocess.run(
            [sys.executable, *how, what],
            capture_output=True,
            cwd=tmp_path,
            env=clean_environment() | {"JQMASTER_URL": str(api.http.base_url)},
            timeout=60,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first, ids = (await asyncio.to_thread(run, "push")).splitlines()
    assert first == "imported as __main__"
    await asyncio.to_thread(run, "work")
    results = [(await api.call("GET", f"/api/jobs/{job_id}/result"))[1]["result"] for job_id in ids.split()]
    assert results[0] == 42
    # The process of an isolated task runs the file, but not the code under its guard.
    assert results[1] != "__main__"
