"""A Celery project as people write it goes through a master by changing its imports alone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.processes import MasterProcess, Process, running

pytestmark = [pytest.mark.system, pytest.mark.req("D22"), pytest.mark.timeout(240), real_time.PROCESSES]

# The files as they were written for Celery.
PROJECT = {
    "shop/__init__.py": "from shop.celery import app\n\n__all__ = ['app']\n",
    "shop/celery.py": """
import os

from celery import Celery
from celery.schedules import crontab
from celery.signals import task_failure, task_postrun

app = Celery("shop", broker=os.environ.get("BROKER", "amqp://localhost"), backend="rpc://")
app.config_from_object("shop.settings", namespace="CELERY")
app.conf.update(task_soft_time_limit=60, worker_concurrency=4)
app.conf.beat_schedule = {
    "nightly": {
        "task": "shop.orders.tasks.report",
        "schedule": crontab(minute="30", hour=3, day_of_week="mon-fri"),
        "args": (7,),
        "options": {"queue": "slow"},
    },
}
app.autodiscover_tasks(["shop.orders"])


@app.on_after_configure.connect
def setup_periodic_tasks(sender, **kwargs):
    from shop.orders.tasks import add

    sender.add_periodic_task(300.0, add.s(1, 2), name="every five minutes")


@task_failure.connect
def note_failure(sender=None, task_id=None, exception=None, **kwargs):
    print("failed:", sender.name, repr(exception), flush=True)


@task_postrun.connect(sender="shop.orders.tasks.add")
def note_end(state=None, retval=None, **kwargs):
    print("add ended:", state, retval, flush=True)


@app.task(bind=True)
def debug_task(self):
    return [self.request.id is not None, self.name]
""",
    "shop/settings.py": """
from datetime import timedelta

CELERY_BROKER_URL = "amqp://guest@localhost"
CELERY_RESULT_BACKEND = "rpc://"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_EXPIRES = timedelta(hours=1)
CELERY_TIMEZONE = "Asia/Tokyo"
CELERY_TASK_TIME_LIMIT = 120
CELERY_TASK_ROUTES = {"shop.orders.tasks.report": {"queue": "slow"}}
DEBUG = True
""",
    "shop/orders/__init__.py": "",
    "shop/orders/tasks.py": """
import time

from celery import chain, group, chord, shared_task
from celery.exceptions import SoftTimeLimitExceeded, Ignore
from celery.utils.log import get_task_logger

logger = get_task_logger(__name__)


@shared_task
def add(x, y):
    logger.info("adding")
    return x + y


@shared_task
def total(numbers):
    return sum(numbers)


@shared_task(bind=True, max_retries=3, acks_late=True)
def flaky(self, key):
    if self.request.retries < 1:
        try:
            raise OSError(key)
        except OSError as exc:
            raise self.retry(exc=exc, countdown=0.1)
    return [self.request.args, self.request.retries]


@shared_task(soft_time_limit=1, time_limit=30)
def slow():
    try:
        while True:
            time.sleep(0.05)
    except SoftTimeLimitExceeded:
        return "cleaned up"


@shared_task(soft_time_limit=1, time_limit=30, isolated=True)
def blocked():
    try:
        time.sleep(25)
    except SoftTimeLimitExceeded:
        return "cleaned up"


@shared_task(bind=True, routing_key="slow.report")
def report(self, days):
    self.update_state(state="PROGRESS", meta={"current": 1, "total": 4})
    return {"days": days}


@shared_task
def broken():
    raise ValueError("no such order")


@shared_task
def nothing():
    raise Ignore()


def workflow():
    return chain(group(add.s(1, 1), add.s(2, 2)), total.s(), add.s(10))
""",
    "shop/calls.py": """
from celery import chord
from celery.result import AsyncResult

from shop.celery import app, debug_task
from shop.orders.tasks import add, blocked, broken, flaky, nothing, report, slow, total, workflow

print(add.delay(4, 4).get(timeout=60))
print(add.apply_async((1, 2), countdown=0.1, queue="fast", routing_key="fast.add").wait(timeout=60))
print(app.send_task("shop.orders.tasks.add", args=[2, 3], exchange="x").get(timeout=60))
print(flaky.delay("k").get(timeout=60))
print(slow.delay().get(timeout=60), "/", blocked.delay().get(timeout=60))
print(workflow().apply_async().get(timeout=60))
print(chord([add.s(1, 2), add.s(3, 4)])(total.s()).get(timeout=60))
print(debug_task.delay().get(timeout=60))
done = report.delay(3)
print(AsyncResult(done.task_id).get(timeout=60))
failed = broken.delay()
print(failed.get(timeout=60, propagate=False), failed.state, "no such order" in failed.traceback)
print(nothing.delay().handle.id is not None)
print(sorted(app.tasks)[:2])
""",
    "tests.py": """
from unittest.mock import patch

from shop.celery import app
from shop.orders.tasks import add, broken, flaky, workflow

app.conf.task_always_eager = True
app.conf.task_eager_propagates = True

assert add.delay(4, 4).get() == 8
assert add(1, 2) == 3
assert add.apply(args=(1, 2)).result == 3
assert workflow().delay().get() == 16
assert flaky.delay("k").get() == [["k"], 1]
try:
    broken.delay()
except ValueError as exc:
    assert str(exc) == "no such order"
else:
    raise AssertionError
app.conf.task_eager_propagates = False
result = broken.delay()
assert (result.state, repr(result.result)) == ("FAILURE", "ValueError('no such order')")
with patch("shop.orders.tasks.add.delay") as delay:
    add.delay(1)
delay.assert_called_once_with(1)
print("passed")
""",
}
PRINTED = """8
3
5
[['k'], 1]
cleaned up / cleaned up
16
10
[True, 'shop.celery.debug_task']
{'days': 3}
job ID failed (error): ValueError: no such order FAILURE True
True
['shop.celery.debug_task', 'shop.orders.tasks.add']
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # The only change.
        path.write_text(
            re.sub(r"^(\s*from) celery\b", r"\1 worker_sdk.celery_compat", text, flags=re.MULTILINE)
        )
    return tmp_path


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    directory = tmp_path / "m"
    directory.mkdir()
    one = MasterProcess(directory)
    with running(one):
        yield one.url


def python(project: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_project_runs_with_other_imports(project: Path, url: str) -> None:
    worker = Process(
        ["-m", "jqmaster", "worker", "shop.celery:app"], project / "worker.log", JQMASTER_URL=url
    )
    worker.cwd = project
    with running(worker):
        done = python(project, "-m", "shop.calls", JQMASTER_URL=url)
        applied = python(project, "-m", "jqmaster", "apply", "shop.celery:app", JQMASTER_URL=url)
        listed = python(project, "-m", "jqmaster", "definitions", "list", "--json", JQMASTER_URL=url)
    log = (project / "worker.log").read_text()
    assert re.sub(r"job [0-9a-f-]{36}", "job ID", done.stdout) == PRINTED, done.stderr + log
    assert "add ended: SUCCESS 8" in log
    assert "failed: shop.orders.tasks.broken ValueError('no such order')" in log
    # Settings that mean nothing here are named once.
    warnings = re.findall(r"these settings of Celery change nothing here: (.*); see", done.stderr)
    assert warnings == [
        "worker_concurrency (max_jobs= of the Worker, or --max-jobs)",
        "result_expires (the setting of the master for results)",
    ]
    assert applied.returncode == 0, applied.stderr
    assert "30 3 * * mon-fri" in listed.stdout
    assert "Asia/Tokyo" in listed.stdout
    assert "every-five-minutes" in listed.stdout
    assert "queue:slow" in listed.stdout


def test_its_eager_tests_pass(project: Path) -> None:
    done = python(project, "tests.py")
    assert done.stdout.endswith("passed\n"), done.stderr
