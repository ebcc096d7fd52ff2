"""A Django site as in docs/django.md: its worker, its commands and its outbox, in separate processes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import httpx
import psutil
import pytest

from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.pages import blocks
from tests.support.waiting import wait_until
from tests.system.test_cli import Running

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("D22"), pytest.mark.timeout(120)]

IS_BACKPORT = django.VERSION < (6, 0)
SETTINGS = """
from pathlib import Path
SECRET_KEY = "of tests alone"
DEBUG = False
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.sessions", "blog", *BACKPORT]
"""
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
FAILS = """
import sys
from django.core.management.base import BaseCommand

class Command(BaseCommand):
    def handle(self, *args, **options):
        print("half done")
        self.stderr.write("no more")
        sys.exit(7)
"""


class Site:
    """A site's files and commands."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        settings, tasks, self.uses, self.many, tests = blocks("docs/django.md")
        settings = settings.replace("http://127.0.0.1:8080", url).replace(
            '"clearsessions"', '"clearsessions", "fails"'
        )
        backport = '["django_tasks"]' if IS_BACKPORT else "[]"
        commands = directory / "blog" / "management" / "commands"
        commands.mkdir(parents=True)
        for package in (directory / "blog", commands.parent, commands):
            (package / "__init__.py").touch()
        (commands / "fails.py").write_text(FAILS)
        (directory / "blog" / "tasks.py").write_text(tasks)
        (directory / "blog" / "tests.py").write_text(tests)
        (directory / "settings.py").write_text(SETTINGS.replace("*BACKPORT", f"*{backport}") + settings)
        (directory / "manage.py").write_text(MANAGE)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=self.directory,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, (out, err)
        return out, err


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("master")
    running = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data")
    try:
        line = running.said("serves on")
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        assert running.end() == 0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, url: str) -> bytes:
    """Return a database with the site's tables."""
    site = Site(tmp_path_factory.mktemp("site"), url)
    site.run("check", "--fail-level", "WARNING")
    site.run("migrate")
    return (site.directory / "db.sqlite3").read_bytes()


@pytest.fixture
def site(tmp_path: Path, url: str, database: bytes) -> Site:
    site = Site(tmp_path, url)
    (tmp_path / "db.sqlite3").write_bytes(database)
    return site


def job(url: str, job_id: str) -> dict[str, Any]:
    return httpx.get(f"{url}/api/jobs/{job_id}").json()


def until_over(url: str, job_id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        found = job(url, job_id)
        if found["state"] in ("succeeded", "failed"):
            return found
        time.sleep(0.1)
    raise AssertionError(job(url, job_id))


def wait_for_lines(url: str, job_id: str, lines: list[tuple[str, str]]) -> None:
    """Wait until the job's log has these lines, as (level, text) in any order."""
    found: list[tuple[str, str]] = []
    for _ in range(300):
        entries = httpx.get(f"{url}/api/jobs/{job_id}/logs").json()["entries"]
        found = [(one["level"], one["text"]) for one in entries]
        if set(lines) <= set(found):
            return
        time.sleep(0.1)
    raise AssertionError(found)


def test_the_site_of_the_page_runs_tasks_and_commands_and_ends_in_good_order(site: Site, url: str) -> None:
    worker = site.start("jq_worker", "--port", "0")
    try:
        shell, many = (
            "; ".join(line for line in text.splitlines() if line.strip()) for text in (site.uses, site.many)
        )
        out, _ = site.run(
            "shell",
            "-c",
            f"{shell}; print('IDS', result.id, urgent.id); {many}; print('MANY', len(results))",
        )
        first, urgent = re.findall(r"IDS (\S+) (\S+)", out)[0]
        assert "MANY 100" in out
        found = until_over(url, first)
        assert (found["name"], found["state"]) == ("mail/blog.tasks.send_welcome", "succeeded")
        assert (found["max_retry"], found["timeout"]) == (8, 600)
        assert job(url, urgent)["priority"] == -100
        read = "from blog.tasks import send_welcome; print(send_welcome.get_result('ID').return_value)"
        assert "welcomed 42" in site.run("shell", "-c", read.replace("ID", first))[0]
        assert "Ran 1 test" in site.run("test", "blog")[1]

        site.run("jq_run", "--wait", "60", "clearsessions")
        _, err = site.run("jq_run", "--wait", "60", "fails", code=1)
        assert "manage.py fails ended with exit code 7" in err
        assert "half done" in err
        # A definition enqueues such a job the same way.
        made = httpx.post(f"{url}/api/jobs", json={"name": "manage/fails", "max_retry": 0}).json()
        assert until_over(url, made["id"])["state"] == "failed"
        wait_for_lines(url, made["id"], [("info", "half done"), ("warning", "no more")])
        job_id = site.run("jq_run", "clearsessions")[0].strip()
        found = until_over(url, job_id)
        assert (found["name"], found["state"]) == ("manage/clearsessions", "succeeded")
        _, err = site.run("jq_run", "flush", code=1)
        assert "flush is not listed in TASKS['default']['OPTIONS']['commands']" in err
    finally:
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert "runs 4 names" in out


def test_a_process_that_dies_after_its_commit_leaves_the_job_to_the_relay(site: Site, url: str) -> None:
    dies = (
        "import os; from django.db import transaction; from blog.tasks import send_welcome; "
        "from worker_sdk.outbox.base import Outbox; Outbox.own_steps = lambda *_: os._exit(9)\n"
        "with transaction.atomic(): print('ID', send_welcome.enqueue(1).id, flush=True)"
    )
    out, _ = site.run("shell", "-c", dies, code=9)
    job_id = re.findall(r"ID (\S+)", out)[0]
    assert httpx.get(f"{url}/api/jobs/{job_id}").status_code == 404
    assert json.loads(site.run("jq_outbox", "--status")[0])["waiting"] == 1
    let_go = "from worker_sdk.django.models import OutboxRow; OutboxRow.objects.update(lease_until_ms=0)"
    site.run("shell", "-c", let_go)
    assert "1 jobs pushed, 0 refused" in site.run("jq_outbox", "--once")[0]
    assert job(url, job_id)["state"] == "ready"
    assert "0 jobs wait again" in site.run("jq_outbox", "--retry-stuck")[0]
    relay = site.start("jq_outbox")
    time.sleep(0)
    relay.send_signal(signal.SIGTERM)
    relay.communicate(timeout=60)


async def test_a_worker_in_development_starts_again_when_a_file_changes(site: Site) -> None:
    log = (site.directory / "log").open("w+")
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "jq_worker", "--port", "0", "--reload", "--pull"],
        cwd=site.directory, env=clean_environment(), stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip

    def starts() -> int:
        return (site.directory / "log").read_text().count("runs 4 names")

    family: list[psutil.Process] = []
    try:
        await wait_until(lambda: starts() == 1, timeout_s=30)
        tasks = site.directory / "blog" / "tasks.py"
        changed_s = float("-inf")

        def is_started_again() -> bool:
            nonlocal changed_s
            # Change it repeatedly, because Django may not have looked at the file before the first change. Leave time
            # in between, because a worker that finds a change while it starts begins anew.
            if time.monotonic() - changed_s > 10:
                changed_s = time.monotonic()
                tasks.write_text(tasks.read_text() + "\n# changed\n")
            return starts() >= 2

        await wait_until(is_started_again, timeout_s=60)
        # The processes below must not outlive the first one, even if it cannot end them.
        family += psutil.Process(worker.pid).children(recursive=True)
        assert len(family) == 2
        worker.kill()
        worker.wait(60)
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 60)
        assert alive == []
    finally:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError):
            # Signal the whole group, as a terminal does.
            os.killpg(worker.pid, signal.SIGINT)
        worker.wait(60)
        log.close()


def test_a_worker_in_development_ends_with_its_terminal(site: Site) -> None:
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "jq_worker", "--port", "0", "--reload", "--pull"],
        cwd=site.directory, env=clean_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert worker.stdout is not None
    assert "runs 4 names" in worker.stdout.readline()
    os.killpg(worker.pid, signal.SIGINT)
    # The output ends when the last process that holds it ends.
    worker.stdout.read()
    worker.wait(60)
    worker.stdout.close()
