"""The built wheels contain what an installed copy needs: `jqmaster openapi` works wherever installed."""

import asyncio
import email.parser
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from jqmaster.app import running_master
from jqmaster.config import Settings
from tools import wheels
from worker_sdk.transport.release import VERSION

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the SDK's and the server's wheel."""
    return wheels.build(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel built by `pip install .`."""
    directory = str(tmp_path_factory.mktemp("whole"))
    [built] = WheelBuilder(str(ROOT)).build(directory=directory, versions=["standard"])
    return Path(built)


def files_of(wheel: Path) -> set[str]:
    """Return its files, except those that describe it."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def requirements_of(wheel: Path) -> set[str]:
    """Return its requirements without extras."""
    [metadata] = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    parsed = email.parser.BytesParser().parsebytes(zipfile.ZipFile(wheel).read(metadata))
    assert parsed["Version"] == VERSION
    return {line for line in parsed.get_all("Requires-Dist", []) if "extra ==" not in line}


def test_the_wheels_hold_every_file_that_is_not_python(release: tuple[Path, Path], whole: Path) -> None:
    sdk, server = map(files_of, release)
    for folder in ("jqmaster/web", "jqmaster/store/lua"):
        files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert files
        assert files <= server
    assert "jqmaster/py.typed" in server
    assert "worker_sdk/py.typed" in sdk
    for wheel in (*release, whole):
        assert [n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".dist-info/licenses/LICENSE")]


@pytest.mark.req("S10")
def test_the_two_wheels_share_no_file_and_are_together_what_a_checkout_installs(
    release: tuple[Path, Path], whole: Path
) -> None:
    sdk, server = map(files_of, release)
    assert {name.partition("/")[0] for name in sdk} == {"worker_sdk"}
    assert {name.partition("/")[0] for name in server} == {"jqmaster"}
    # Agents search the documents, which a checkout has beside the package.
    documents = {name for name in server if name.startswith("jqmaster/agents/documents/")}
    assert "jqmaster/agents/documents/index.md" in documents
    assert sdk | server - documents == files_of(whole)


@pytest.mark.req("S10")
def test_the_server_requires_the_sdk_of_its_version_and_the_sdk_little(
    release: tuple[Path, Path], whole: Path
) -> None:
    sdk, server = map(requirements_of, release)
    # A pusher needs a parser of HTTP, MessagePack and the checks of arguments, and no server.
    assert {re.match(r"[\w-]+", line)[0] for line in sdk} == {"httptools", "msgpack", "msgspec"}  # type: ignore[index]
    assert server - requirements_of(whole) == {f"jqmaster-sdk=={VERSION}"}
    # Both require the same versions, and a checkout installs the SDK's requirements.
    assert sdk <= requirements_of(whole) < server


_WITHOUT_A_SERVER = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("uvicorn", "uvloop", "click", "h11", "starlette", "httpx", "pydantic"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from worker_sdk import SyncPusher, Worker

with SyncPusher(sys.argv[1]) as pusher:
    job_id = pusher.enqueue("light", {"n": 1}, keep_result=True)
    worker = Worker(master=sys.argv[1], pull=sys.argv[2] == "pull")
    worker.handler("light")(lambda argument, ctx: argument)
    if sys.argv[2] == "pull":
        worker.run_burst(1.0)
        print(pusher.result(job_id, wait=10).result)
    else:
        worker.run()
"""


@pytest.mark.req("S10")
async def test_pushers_and_workers_that_pull_need_no_server(tmp_path: Path) -> None:
    async with running_master(Settings(data_dir=tmp_path, port=0)) as master:
        url = master.server.url

        async def run(how: str) -> "subprocess.CompletedProcess[str]":
            arguments = [sys.executable, "-c", _WITHOUT_A_SERVER, url, how]
            return await asyncio.to_thread(
                subprocess.run, arguments, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
            )

        pulled = await run("pull")
        assert (pulled.returncode, pulled.stdout) == (0, "{'n': 1}\n"), pulled.stderr
        pushed = await run("push")
        assert pushed.returncode != 0
        assert "install jqmaster-sdk[worker], or use Worker(pull=True)" in pushed.stderr


@pytest.mark.req("J11")
@pytest.mark.parametrize("name", ["master", "worker"])
def test_an_installed_copy_prints_its_openapi_documents(whole: Path, tmp_path: Path, name: str) -> None:
    zipfile.ZipFile(whole).extractall(tmp_path)
    # -S -E: expose only this environment's libraries, because otherwise the checkout itself would be found.
    libraries = str(Path(pytest.__file__).parents[1])
    printed = subprocess.run(
        [
            sys.executable,
            "-S",
            "-E",
            "-c",
            f"import sys; sys.path[1:1] = [{str(tmp_path)!r}, {libraries!r}]; "
            f"sys.argv = ['jqmaster', 'openapi', {name!r}]; from jqmaster.cli import main; main()",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    committed = {"master": "jqmaster.yaml", "worker": "worker.yaml"}[name]
    assert printed == (ROOT / "openapi" / committed).read_text("utf-8")
