"""The steps of docs/coming_from_celery.md on a project of Celery tasks, in separate processes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.processes import ROOT, MasterProcess, Process, running

pytestmark = [pytest.mark.system, pytest.mark.req("D22"), pytest.mark.timeout(180), real_time.PROCESSES]

# A second module that the guide names directly.
APART = """
from worker_sdk.celery_compat import shared_task

@shared_task(name="photos.sharpen")
def sharpen(photo_id):
    return f"{photo_id} is sharp"
"""
# The callers, unchanged from Celery.
CALLS = """
from photos.tasks import make_thumbnail
from photos.thumbnails import sharpen

print(make_thumbnail.delay(42).get(timeout=60))
print(make_thumbnail.apply_async((43,), {"size": 640}, countdown=0.1).get(timeout=60))
print(sharpen.delay(44).get(timeout=60))
print(make_thumbnail.task.using(priority=-5).enqueue(45).get(timeout=60))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    page = (ROOT / "docs" / "coming_from_celery.md").read_text()
    (block,) = re.findall(r"^   ```py\n(.*?)^   ```$", page, re.DOTALL | re.MULTILINE)
    package = tmp_path / "photos"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(re.sub(r"^   ", "", block, flags=re.MULTILINE))
    (package / "thumbnails.py").write_text(APART)
    (tmp_path / "calls.py").write_text(CALLS)
    return tmp_path


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    directory = tmp_path / "m"
    directory.mkdir()
    one = MasterProcess(directory)
    with running(one):
        yield one.url


def worker_in(project: Path, url: str, name: str, *arguments: str) -> Process:
    one = Process(["-m", "jqmaster", "worker", *arguments], project / f"{name}.log", JQMASTER_URL=url)
    one.cwd = project
    return one


def test_a_project_runs_with_another_import_and_its_callers_stay(project: Path, url: str) -> None:
    with (
        running(worker_in(project, url, "found", "--autodiscover", "photos")),
        running(worker_in(project, url, "named", "photos.thumbnails:jqmaster_tasks")),
    ):
        done = subprocess.run(
            [sys.executable, "calls.py"],
            cwd=project,
            env={**clean_environment(), "JQMASTER_URL": url},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.stdout.split("\n") == ["42-320.webp", "43-640.webp", "44 is sharp", "45-320.webp", ""], (
        done.stderr
    )
