"""The tasks of examples/, tested with the test kit and without a master."""

import json
from pathlib import Path

import httpx
import pytest

from examples.flow.__main__ import ranked
from examples.import_csv.__main__ import bar, watch, write_users
from examples.import_csv.tasks import BATCH, import_users
from examples.import_csv.tasks import tasks as import_tasks
from examples.orders import steps
from examples.python.worker import fail, worker
from examples.stdlib.analysis import Analysis, Branches
from examples.stdlib.tasks import analyse_file, connect, summarise_files
from worker_sdk import Fail, FormAnswer, HttpOk, JobDiscarded, JobFailed, Worker
from worker_sdk.testing import WorkerHarness, drain, inline, recording

pytestmark = pytest.mark.req("S9")

ORDER_ID = "01989fa2-0000-7000-8000-000000000001"
SOURCE = """
import os, ast
from pathlib import Path

class One:
    def simple(self): ...
    def branchy(self, x):
        return [y for y in x if y] if x else None
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "one.py"
    path.write_text(SOURCE)
    return path


def test_a_file_is_analysed_to_a_typed_result(source: Path) -> None:
    with inline():
        result = analyse_file.enqueue(str(source)).get()
    assert result == Analysis(
        file="one.py", lines=9, functions=2, classes=1, imports=["ast", "os", "pathlib"],
        most_branches=Branches("branchy", 3),
    )  # fmt: skip


def test_a_file_that_does_not_parse_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text("print 'Python 2'")
    with inline():
        handle = analyse_file.enqueue(str(path))
    with pytest.raises(JobDiscarded):
        handle.get()
    assert handle.status == "discarded"


def test_a_file_that_is_gone_fails_with_the_original_exception(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), inline():
        analyse_file.using(max_retry=0).enqueue(str(tmp_path / "gone.py"))


def test_the_summary_waits_for_the_files_and_leaves_out_what_did_not_parse(
    source: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("(")
    with recording() as jobs:
        files = analyse_file.many({"path": str(path)} for path in (source, bad))
        # The more urgent summary is claimed first, and is deferred until the files are done.
        summary = summarise_files.using(priority=-1).enqueue([handle.id for handle in files])
        assert len(jobs.of(analyse_file)) == 2
        assert jobs.only(summarise_files).options["timeout"] == 60
        runs = drain(jobs)
        report = summary.get()
    assert [run.job["name"] for run in runs] == ["source.analyse", "source.analyse", "source.summarise"]
    assert (report.files, report.longest) == (1, [("one.py", 9)])
    assert report.most_branches == [("one.py", Branches("branchy", 3))]


def test_the_archive_is_reached_at_the_third_attempt() -> None:
    with recording() as jobs:
        connect.enqueue("archive-7")
        (run,) = drain(jobs)
    assert (run.result, run.attempts) == ("connected at attempt 3", 3)


@pytest.mark.req("P9")
def test_the_words_of_files_are_ranked_and_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    files[0].write_text("Jobs that wait. Jobs")
    files[1].write_text("that jobs")
    with inline(raises=False):
        assert ranked([str(file) for file in files], top=2) == "      3 jobs\n      2 that"
        gone = str(tmp_path / "gone.txt")
        assert ranked([str(files[0]), gone]).startswith(f"{gone}: FileNotFoundError: ")


@pytest.mark.req("S7", "D21")
def test_an_import_shows_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_users(tmp_path / "users.csv", 3 * BATCH + 1)
    with inline():
        handle = import_users.enqueue(str(tmp_path / "users.csv"), str(tmp_path / "users.db"))
        watch(handle)
    assert handle.get() == 3 * BATCH + 1
    told = handle.progress()
    assert told is not None
    assert (told.fraction, told.message) == (1.0, "4 of 4")
    assert capsys.readouterr().out == f"\r{bar(told)}\n" == f"\r[{'#' * 40}] 100%  4 of 4\n"


@pytest.mark.req("S7")
async def test_an_import_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write_users(tmp_path / "users.csv", 3 * BATCH)
    harness = WorkerHarness(Worker(tasks=import_tasks))
    arguments = {"file": str(tmp_path / "users.csv"), "database": str(tmp_path / "users.db")}
    ending = await harness.run("users.import", arguments, checkpoint=2)
    assert (ending.result, ending.checkpoint) == (BATCH, 3)


@pytest.mark.req("P1", "P3")
async def test_an_order_is_handed_over_and_ends_with_the_answer_of_the_other_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        taken.append(request)
        is_known = json.loads(request.content)["order"] == 7
        return httpx.Response(202) if is_known else httpx.Response(404, json={"code": "NO_SUCH_ARTICLE"})

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(steps, "_clients", [client])
    async with WorkerHarness(steps.worker) as harness:
        waits = await harness.run("order.take", {"order": 7}, job_id=ORDER_ID)
        assert (waits.type, len(taken)) == ("challenged", 1)
        assert waits.challenge is not None
        assert waits.challenge["meta"] == {"order": 7}
        assert json.loads(taken[0].content)["callback_url"]
        assert taken[0].headers["idempotency-key"] == ORDER_ID
        done = await harness.run("order.take", {"order": 7}, callback={"receipt": "R-7"})
        assert done.result == "R-7"
        refused = await harness.run("order.take", {"order": 7}, callback={"error": "SOLD_OUT"})
        assert (refused.type, refused.fields["code"]) == ("failure", "SOLD_OUT")
        unknown = await harness.run("order.take", {"order": 8})
        assert (unknown.type, unknown.fields["code"]) == ("failure", "NO_SUCH_ARTICLE")
        # The other system has no room, so nobody calls it.
        harness.unmet.append(HttpOk(f"{steps.OUTSIDE}/order/room", after_s=1.0))
        full = await harness.run("order.take", {"order": 7})
        assert (full.type, len(taken)) == ("deferred", 2)
        assert "HttpOk" in full.fields["not_ready"]["reason"]
    await client.aclose()


@pytest.mark.req("P3", "P10")
async def test_a_dear_order_waits_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    desk: dict[str, str] = {}

    def take(request: httpx.Request) -> httpx.Response:
        desk[request.url.path] = json.loads(request.content)["url"]
        return httpx.Response(204)

    client = httpx.AsyncClient(transport=httpx.MockTransport(take))
    monkeypatch.setattr(steps, "_clients", [client])

    async with WorkerHarness(steps.worker) as harness:
        waits = await harness.run("order.approve", {"order": 7})
        assert waits.type == "challenged"
        assert waits.challenge is not None
        assert waits.challenge["form"]["title"] == "Ship order 7?"
        assert desk["/desk/7"]
        yes = FormAnswer("approve", values={"insured": True}, by="user:ada")
        approved = await harness.run("order.approve", {"order": 7}, callback=yes)
        assert approved.result == {"insured": True, "by": "user:ada"}
        no = FormAnswer("reject", comment="Too dear.")
        rejected = await harness.run("order.approve", {"order": 7}, callback=no)
        assert (rejected.fields["code"], rejected.fields["message"]) == ("REJECTED", "Too dear.")
    await client.aclose()


async def test_the_worker_of_the_conformance_kit_has_tasks_and_handlers() -> None:
    assert worker.names == ["conformance.echo", "conformance.fail", "conformance.sleep"]
    ending = await WorkerHarness(worker).run("conformance.echo", [1, {"a": None}])
    assert ending.result == [1, {"a": None}]
    ending = await WorkerHarness(worker).run("conformance.sleep", 0)
    assert ending.type == "success"
    with inline(worker=worker, raises=False):
        handle = fail.enqueue("gone", retry=False)
    with pytest.raises(JobFailed, match="gone"):
        handle.get()
    with pytest.raises(Fail, match="gone"), inline():
        await fail.aenqueue("gone", retry=False)
    with pytest.raises(RuntimeError, match="no such photo"), inline():
        await fail.using(max_retry=1).aenqueue("no such photo", retry=True)
