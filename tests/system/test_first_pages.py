"""Every block of README.md and docs/tutorial.md runs as the file, or the shell lines, that it is.

So do the lines of `curl` in all documents, and the commands of the pages in `OPERATING`."""

import asyncio
import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from jqmaster.domain.ids import new_id
from tests.support import prepared, real_time
from tests.support.cli import clean_environment
from tests.support.master import PATIENT
from tests.support.pages import WRITTEN_URL, all_blocks, blocks, commands, documents, file_name
from tests.support.processes import ROOT, MasterProcess, Process, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, real_time.PROCESSES]

PAGES = ("README.md", "docs/tutorial.md")
# An end of a pause in the documents, which has to lie ahead.
WRITTEN_TIME = "2026-11-21T18:00Z"
# How the blocks begin that this machine cannot run, or that another test runs.
ELSEWHERE = {
    "make run": "tests/system/test_example.py",
    "python3 -m venv": "tests/system/test_wheels.py",
    "export JQMASTER_ADMIN_TOKEN": "tests/contract/test_containers.py",
}
# Pages whose commands run as they are, beside those of the first pages. tests/contract/test_command_lines.py compares
# the others with the commands that there are: they start processes, change who may log in, or need a backup.
OPERATING = ("docs/constraints.md", "docs/definitions.md", "docs/events.md")
# The file that docs/definitions.md puts.
REPORT = """
schedule = {daily_at = "02:30"}
time_zone = "Asia/Tokyo"
job = {name = "report.send", argument = {kind = "daily"}}
"""


def shell_blocks(page: str) -> list[str]:
    found = [(language, text) for language, text in all_blocks(page) if language != "python"]
    assert {language for language, _ in found} <= {""}
    return [block for _, block in found]


class Stand:
    """A master, the workers of both pages, and a folder of files."""

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
        here = lines.replace(WRITTEN_URL, self.url).replace("localhost:8080", self.url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", here],
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
    secret = base64.b64encode(bytes(range(32))).decode()
    master = MasterProcess(
        folder,
        **PATIENT,
        webhook_secrets=f"whsec_{secret}",
        smtp_url="smtp://127.0.0.1:9",  # nothing is sent in these tests
        mail_from="jq@shop.example",
        fireworq_prefix="/fireworq",
    )
    # As `jqmaster serve` in this folder would have it.
    (folder / "jqmaster-data").symlink_to(master.data_dir)
    one = Stand(master, folder)
    programs = {
        file_name(page, number, source): source
        for page in PAGES
        for number, source in enumerate(blocks(page), 1)
    }
    workers = [
        Process([str(one.write(name, source))], folder / f"{name}.log")
        for name, source in programs.items()
        if "worker.run()" in source
    ]
    assert len(workers) == len(PAGES)
    one.write("thumbnails.py", programs["thumbnails.py"])
    workers.append(
        Process(
            ["-m", "jqmaster", "worker", "thumbnails:tasks"],
            folder / "thumbnails.log", JQMASTER_URL=master.url, no_proxy="*",
        )
    )  # fmt: skip
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
                run(file_name(page, number, source), source)
                for page in PAGES
                for number, source in enumerate(blocks(page), 1)
                if "worker.run()" not in source
            )
        )
    )
    assert said.pop("thumbnails.py") == "{'photo': 42, 'width': 320}\n"
    # The pusher of the README prints the result of its worker; no worker runs the task of the tutorial here.
    assert sorted(printed for printed in said.values() if printed) == ["ready\n", "{'pages': 12}\n"]


@pytest.mark.req("S9")
def test_the_files_of_tests_run_in_pytest(stand: Stand) -> None:
    """Also the one that needs a live master and a worker."""
    (plugin,) = re.findall(r"`(pytest_plugins = .*?)`", (ROOT / "docs" / "tutorial.md").read_text())
    stand.write("conftest.py", f"{plugin}\n")
    files = {
        name: source
        for page in PAGES
        for number, source in enumerate(blocks(page), 1)
        if (name := file_name(page, number, source)).startswith("test_")
    }
    assert files.keys() == {"test_thumbnails.py", "test_live.py"}
    for name, source in files.items():
        stand.write(name, source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=stand.folder, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


async def test_the_tutorial_says_how_its_other_files_are_run(stand: Stand) -> None:
    """`jqmaster worker crawl:worker` for a file that only declares, `uvicorn app:app` for the web application."""
    files = {
        "crawl": [block for block in blocks("docs/tutorial.md") if '"site.crawl"' in block],
        "album": [block for block in blocks("docs/tutorial.md") if '"photo.count"' in block],
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
def test_every_line_of_curl_is_answered(stand: Stand) -> None:
    lines = [
        (page, line)
        for page in map(str, (page.relative_to(ROOT) for page in documents()))
        for language, block in all_blocks(page)
        if language in ("", "bash", "console")
        for line in commands(block)
        if line.startswith("curl")
    ]
    assert len({page for page, _ in lines}) > len(PAGES)
    wrong = {}
    for page, line in lines:
        answer = json.loads(stand.shell(line))
        if not (answer.get("id") or answer.get("name") or answer.get("event_id")):
            wrong[page, line] = answer
    assert wrong == {}


@pytest.mark.parametrize("page", [*PAGES, *OPERATING])
def test_every_line_of_commands_does_something(page: str, stand: Stand) -> None:
    (stand.folder / "app").mkdir(exist_ok=True)
    (tasks,) = [block for block in blocks("README.md") if "Tasks()" in block]
    stand.write("app/tasks.py", tasks)
    job_id = new_id()
    job = stand.jqmaster(f"jqmaster enqueue thumbnail.make '{{\"photo_id\": 42}}' --id {job_id} --wait 30")
    assert job.returncode == 0, job.stderr
    stand.write("report.toml", REPORT)
    later = (datetime.now(UTC) + timedelta(hours=8)).isoformat()
    known = {"ID": job_id, "NAME": "mail.send"}
    wrong, ran = {}, 0
    for language, block in all_blocks(page):
        lines = commands(block) if language in ("", "sh", "console") else []
        # A block that begins otherwise installs or starts something.
        for line in lines if lines and lines[0].startswith("jqmaster") else []:
            done = stand.jqmaster(
                re.sub(r"\b(?:EVENT_)?(?:ID|NAME)\b", lambda word: known[word[0]], line).replace(
                    WRITTEN_TIME, later
                )
            )
            ran += 1
            # `jqmaster health` ends with 1 while jobs of other tests wait here for a worker.
            if done.returncode not in ((0, 1) if line.startswith("jqmaster health") else (0,)):
                wrong[line] = done.stdout + done.stderr
            if "events send" in line:
                known["EVENT_ID"] = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", done.stdout)[0]
    assert wrong == {}
    assert ran or page == "docs/tutorial.md"
    # The jobs of the other pages start here, too.
    for kind, end in (("constraints", "constraints delete"), ("pauses", "resume")):
        for found in map(json.loads, stand.jqmaster(f"jqmaster {kind} --json").stdout.splitlines()):
            ended = stand.jqmaster(f"jqmaster {end} {found.get('id') or found['name']}")
            assert ended.returncode == 0, ended.stderr


def test_no_block_is_left_out() -> None:
    for page in PAGES:
        for block in shell_blocks(page):
            assert block.startswith(("curl", "jqmaster", *ELSEWHERE)), block
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file(), place
