"""`jqmaster worker`, and the same command of the SDK alone, with tasks: named, discovered, and restarted after a
change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import jqmaster
from tests.support.processes import MasterProcess, Process, running
from worker_sdk import Tasks

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

SOURCE = """
from worker_sdk import Tasks

tasks = Tasks()

@tasks.task("{name}", keep_result=True)
def task(number: int) -> int:
    return {expression}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    for folder, name, expression in (
        (shop / "mail", "mail.send", "number + 1"),
        (shop, "shop.buy", "number + 2"),
    ):
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "tasks.py").write_text(SOURCE.format(name=name, expression=expression))
    (shop / "other.py").write_text("raise RuntimeError('not asked for')")
    return tmp_path


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MasterProcess]:
    directory = tmp_path / "m"
    directory.mkdir()
    one = MasterProcess(directory)
    with running(one):
        yield one


def answer_to(name: str, number: int, url: str) -> int:
    """Return a worker's answer to a job of the task."""
    tasks = Tasks(master=url)

    @tasks.task(name, keep_result=True)
    def task(number: int) -> int:
        raise AssertionError

    return task.enqueue(number).get(timeout=60)


def worker_in(app: Path, url: str, *arguments: str, module: str = "jqmaster") -> Process:
    one = Process(["-m", module, "worker", *arguments], app / "worker.log", JQMASTER_URL=url)
    one.cwd = app
    return one


@pytest.mark.req("S8")
def test_a_worker_runs_the_tasks_that_are_named(app: Path, master: MasterProcess) -> None:
    with running(worker_in(app, master.url, "shop.tasks:tasks")):
        assert answer_to("shop.buy", 1, master.url) == 3


@pytest.mark.req("S8")
@pytest.mark.parametrize("module", ["jqmaster", "worker_sdk"])
def test_a_worker_finds_the_tasks_of_a_package(app: Path, master: MasterProcess, module: str) -> None:
    with running(worker_in(app, master.url, "--autodiscover", "shop", module=module)):
        assert answer_to("shop.buy", 1, master.url) == 3
        assert answer_to("mail.send", 1, master.url) == 2


@pytest.mark.parametrize("module", ["jqmaster", "worker_sdk"])
def test_a_worker_starts_again_after_a_change(app: Path, master: MasterProcess, module: str) -> None:
    worker = worker_in(app, master.url, "shop.tasks:tasks", "--reload", module=module)
    with running(worker):
        assert answer_to("shop.buy", 1, master.url) == 3
        (app / "shop" / "tasks.py").write_text(SOURCE.format(name="shop.sell", expression="number * 10"))
        assert answer_to("shop.sell", 4, master.url) == 40
        assert worker.terminate() == 0
    assert "a file changed: the worker starts again" in worker.log.read_text()


def test_the_error_says_why_a_task_cannot_run(app: Path) -> None:
    (app / "empty.py").write_text("")
    (app / "twice.py").write_text("from shop.tasks import tasks\nfrom worker_sdk import Tasks, Worker\n"
        "other = Tasks()\nother.task('shop.buy')(lambda: None)\nworker = Worker(tasks=[tasks, other])\n")  # fmt: skip
    for text, arguments in (
        ("name MODULE:OBJECT, a package with --autodiscover, or a --command", ()),
        ("no module absent in ", ("--autodiscover", "absent")),
        ("no worker_sdk.Tasks in modules of empty that are named tasks", ("--autodiscover", "empty")),
        ("two tasks are named shop.buy", ("twice:worker",)),
    ):
        done = jqmaster("worker", *arguments, cwd=app)
        assert done.code == 2, done
        assert text in done.err
        assert "Traceback" not in done.err
