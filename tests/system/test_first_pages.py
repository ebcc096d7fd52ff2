"""Every block of README.md and docs/tutorial.md runs as the file, or the shell lines, that it is."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jqmaster.domain.ids import new_id
from tests.support import prepared, real_time
from tests.support.cli import clean_environment
from tests.support.processes import ROOT, MasterProcess, Process, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, real_time.PROCESSES]

WRITTEN_URL = "http://127.0.0.1:8080"
PAGES = ("README.md", "docs/tutorial.md")
# How the blocks begin that this machine cannot run, or that another test runs.
ELSEWHERE = {
    "make run": "tests/system/test_example.py",
    "python3 -m venv": "tests/system/test_wheels.py",
    "export JQMASTER_ADMIN_TOKEN": "tests/contract/test_containers.py",
}


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shell_blocks(page: str) -> list[str]:
    # Without the blocks of Python, every fence without a language opens a block.
    text = re.sub(r"^```python\n.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert {language for language, _ in found} <= {""}
    return [block for _, block in found]


class Stand:
    """A master, the first worker of each page, and a folder of files."""

    def __init__(self, master: MasterProcess, folder: Path) -> None:
        self.url = master.url
        self.folder = folder
        self.environment = clean_environment() | {"JQMASTER_URL": master.url, "no_proxy": "*"}

    def write(self, name: str, source: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(source.replace(WRITTEN_URL, self.url))
        return file

    def shell(self, lines: str) -> str:
        """Run lines of a shell as they are, and return what they print."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines.replace(WRITTEN_URL, self.url)],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def jqmaster(self, line: str) -> "subprocess.CompletedProcess[str]":
        """Run the line of a shell that starts with `jqmaster`."""
        command, *words = shlex.split(line, comments=True)
        assert command == "jqmaster"
        return prepared.run(["-m", "jqmaster", *words], cwd=self.folder, env=self.environment)


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("first")
    master = MasterProcess(folder)
    # As `jqmaster serve` in this folder would have it.
    (folder / "jqmaster-data").symlink_to(master.data_dir)
    one = Stand(master, folder)
    workers = [
        Process(
            [str(one.write(f"worker_{number}.py", blocks(page, "python")[0]))],
            folder / f"worker_{number}.log",
        )
        for number, page in enumerate(PAGES)
    ]
    for worker in workers:
        worker.cwd = folder
    with running(master, *workers):
        yield one


async def test_every_block_of_python_runs_as_a_file_of_its_own(stand: Stand) -> None:
    async def run(name: str, source: str) -> tuple[str, str]:
        file = await asyncio.to_thread(stand.write, name, source)
        process = await asyncio.create_subprocess_exec(
            sys.executable, file.name, cwd=stand.folder, env=stand.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, errors = await process.communicate()
        assert process.returncode == 0, f"{name}: {errors.decode()}"
        assert "Traceback" not in errors.decode(), f"{name}: {errors.decode()}"
        return name, printed.decode()

    said = dict(
        await asyncio.gather(
            *(
                run(f"{Path(page).stem.lower()}_{number}.py", source)
                for page in PAGES
                for number, source in enumerate(blocks(page, "python"))
                if "worker.run()" not in source
            )
        )
    )
    # The first pusher prints the result of the first worker.
    assert said.pop("readme_1.py") == "{'width': 320}\n"
    (waits,) = [name for name, printed in said.items() if printed]
    assert said[waits] == "ready\n"


async def test_the_tutorial_says_how_its_other_files_are_run(stand: Stand) -> None:
    """`jqmaster worker crawl:worker` for a file that only declares, `uvicorn app:app` for the web application."""
    files = {
        "crawl": [block for block in blocks("docs/tutorial.md", "python") if '"site.crawl"' in block],
        "album": [block for block in blocks("docs/tutorial.md", "python") if '"photo.count"' in block],
    }
    text = (ROOT / "docs" / "tutorial.md").read_text()
    targets = re.findall(r"`jqmaster worker ((?:crawl|album):\w+)`", text)
    assert len(targets) == len(files)
    environment = {"JQMASTER_URL": stand.url, "no_proxy": "*"}
    workers = []
    for target in targets:
        name = target.partition(":")[0]
        (source,) = files[name]
        stand.write(f"{name}.py", source)
        workers.append(
            Process(["-m", "jqmaster", "worker", target], stand.folder / f"{name}.log", **environment)
        )
        workers[-1].cwd = stand.folder
    with running(*workers):
        async with httpx.AsyncClient(base_url=stand.url, trust_env=False) as client:

            async def names() -> set[str]:
                found = (await client.get("/api/workers", headers={"Accept": "application/json"})).json()
                return {name for worker in found["workers"] for name in worker["names"]}

            async def are_served() -> bool:
                return {"site.crawl", "photo.count"} <= await names()

            await wait_until(are_served, timeout_s=30, what="both workers registered")
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "album.py"], cwd=stand.folder, env=stand.environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "4\n", done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_curl_is_answered(page: str, stand: Stand) -> None:
    for block in shell_blocks(page):
        if block.startswith("curl"):
            answer = json.loads(stand.shell(block))
            assert answer.get("id") or answer.get("name"), answer


@pytest.mark.parametrize("page", PAGES)
def test_every_line_of_commands_does_something(page: str, stand: Stand) -> None:
    (stand.folder / "app").mkdir(exist_ok=True)
    (tasks,) = [block for block in blocks("README.md", "python") if "Tasks()" in block]
    stand.write("app/tasks.py", tasks)
    job_id = new_id()
    job = stand.jqmaster(f"jqmaster enqueue thumbnail.make '{{\"photo_id\": 42}}' --id {job_id} --wait 30")
    assert job.returncode == 0, job.stderr
    wrong = {}
    for block in shell_blocks(page):
        if not block.startswith("jqmaster"):
            continue
        for line in block.splitlines():
            done = stand.jqmaster(re.sub(r"\bID\b", job_id, re.sub(r"\bNAME\b", "mail.send", line)))
            if done.returncode != 0:
                wrong[line] = done.stdout + done.stderr
    assert wrong == {}


def test_no_block_is_left_out() -> None:
    for page in PAGES:
        for block in shell_blocks(page):
            assert block.startswith(("curl", "jqmaster", *ELSEWHERE)), block
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file(), place
